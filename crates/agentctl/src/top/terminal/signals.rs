//! The signals that `top` listens to.

use tokio::signal::unix::{SignalKind, signal};

/// What a signal means for `top`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// It is to end: SIGTERM, SIGHUP, SIGINT.
    End,
    /// It is to be stopped: SIGTSTP.
    Suspend,
    /// It was continued, or the terminal has another size.
    Draw,
}

/// Passes signals on until nobody takes them. Returns when it listens.
pub(crate) fn listen(to: impl Fn(Signal) -> bool + Send + 'static) {
    let (ready, listening) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            let all = (
                signal(SignalKind::terminate()),
                signal(SignalKind::hangup()),
                signal(SignalKind::interrupt()),
                signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw())),
                signal(SignalKind::window_change()),
            );
            let (Ok(mut term), Ok(mut hup), Ok(mut int), Ok(mut stop), Ok(mut size)) = all else { return };
            let _ = ready.send(());
            loop {
                let came = tokio::select! {
                    _ = term.recv() => Signal::End,
                    _ = hup.recv() => Signal::End,
                    _ = int.recv() => Signal::End,
                    _ = stop.recv() => Signal::Suspend,
                    _ = size.recv() => Signal::Draw,
                };
                if !to(came) {
                    return;
                }
            }
        });
    });
    let _ = listening.recv();
}
