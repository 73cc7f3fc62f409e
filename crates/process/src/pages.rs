//! The size of the pages that this process gets from the kernel. A process that is idle for long wastes most of every huge
//! page: a runner that needs two megabytes would keep ten. What it starts gets the usual pages back.

/// Uses pages of 4 KB from now on. On systems without this switch nothing changes.
pub fn use_small() {
    set_small(true);
}

/// The pages of a process that is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    Usual,
    /// For a process of ours that will be idle for long. It has them from its first allocation on, which it could not
    /// achieve itself.
    Small,
}

/// While this exists, what is started gets these pages. They are this process's own for that moment.
pub(crate) struct ForChildren {
    were_small: bool,
}

impl ForChildren {
    pub(crate) fn of(pages: Pages) -> Self {
        let were_small = are_small();
        if were_small != (pages == Pages::Small) {
            set_small(!were_small);
        }
        Self { were_small }
    }
}

impl Drop for ForChildren {
    fn drop(&mut self) {
        if are_small() != self.were_small {
            set_small(self.were_small);
        }
    }
}

#[cfg(target_os = "linux")]
fn set_small(wanted: bool) {
    let _ = rustix::thread::disable_transparent_huge_pages(wanted);
}

#[cfg(target_os = "linux")]
fn are_small() -> bool {
    rustix::thread::transparent_huge_pages_are_disabled().unwrap_or(false)
}

#[cfg(not(target_os = "linux"))]
fn set_small(_wanted: bool) {}

#[cfg(not(target_os = "linux"))]
fn are_small() -> bool {
    false
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use agentctl_model::Environ;

    use super::*;
    use crate::spawn::{Order, spawn_with};

    /// What the kernel says of a child.
    fn child(pages: Pages) -> String {
        let place = tempfile::tempdir().unwrap();
        let file = |name: &str| std::fs::File::create(place.path().join(name)).unwrap();
        let order = Order {
            program: "/bin/cat".into(),
            args: vec!["/proc/self/status".into()],
            environ: Environ::default(),
            cwd: "/".into(),
            stdin: None,
            stdout: file("out"),
            stderr: file("err"),
        };
        let mut started = spawn_with(order, pages).unwrap();
        while started.ended().unwrap().is_none() {
            std::thread::yield_now();
        }
        std::fs::read_to_string(place.path().join("out")).unwrap()
    }

    #[test]
    fn a_child_gets_the_pages_that_are_meant_for_it() {
        let has_huge = |status: &str| status.contains("THP_enabled:\t1");
        for own in [false, true] {
            set_small(own);
            let (usual, small) = (child(Pages::Usual), child(Pages::Small));
            assert!(has_huge(&usual), "{usual}");
            assert!(!has_huge(&small), "{small}");
            assert_eq!(are_small(), own, "this process keeps its own");
        }
    }
}
