//! Ctrl-C for commands that run until they are interrupted: they end by themselves with the matching exit
//! code.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};

/// Set once the user has asked to stop.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from now on. If the handler cannot be installed, Ctrl-C ends the process as usual.
    pub(crate) fn listen() -> Self {
        let interrupt = Self::default();
        let flag = interrupt.clone();
        let (ready, listening) = std::sync::mpsc::channel::<()>();
        std::thread::spawn(move || {
            let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
                return;
            };
            runtime.block_on(async {
                let Ok(mut pressed) = signal(SignalKind::interrupt()) else { return };
                let _ = ready.send(());
                if pressed.recv().await.is_some() {
                    flag.0.store(true, Ordering::Relaxed);
                }
            });
        });
        // Either the thread listens now, or it failed and dropped its end.
        let _ = listening.recv();
        interrupt
    }

    pub(crate) fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
