//! One `/proc/PID/stat` line. Pure.

/// The kernel's flag for its own threads (`PF_KTHREAD`), which have no program and cannot be agents.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The kernel's flag for a thread that is exiting (`PF_EXITING`): it loses its memory and files before it becomes a zombie.
const ENDING: u64 = 0x0000_0004;

/// The kernel's flag for a copy that has run no program since it was forked (`PF_FORKNOEXEC`).
const FORKED: u64 = 0x0000_0040;

/// The fields of the line that identify a process and show whether it is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) comm: String,
    pub(super) parent: u32,
    /// Clock ticks between the boot of the machine and the start of the process.
    pub(super) start: u64,
    pub(super) kernel_thread: bool,
    /// It still runs the program of the process that forked it.
    pub(super) forked: bool,
    /// The address at which its variables end: 0 while the program is loading, and for readers without permission.
    environ_end: u64,
    ending: bool,
    state: u8,
    threads: u64,
}

impl Stat {
    /// `None` when the line is not a complete stat line.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        // The name is free text in parentheses and may contain parentheses and spaces: only the last `)` ends it.
        let open = line.iter().position(|byte| *byte == b'(')?;
        let close = line.iter().rposition(|byte| *byte == b')')?;
        let comm = String::from_utf8_lossy(line.get(open + 1..close)?).into_owned();
        let mut fields = std::str::from_utf8(line.get(close + 1..)?).ok()?.split_ascii_whitespace();
        // The first field here is the state, field 3 of proc_pid_stat(5). `nth` consumes the fields that it skips.
        let state = *fields.next()?.as_bytes().first()?;
        let parent = fields.next()?.parse().ok()?;
        let flags: u64 = fields.nth(4)?.parse().ok()?;
        let threads = fields.nth(10)?.parse().ok()?;
        let start = fields.nth(1)?.parse().ok()?;
        let environ_end = fields.nth(28)?.parse().ok()?;
        let (kernel_thread, ending) = (flags & KERNEL_THREAD != 0, flags & ENDING != 0);
        let forked = flags & FORKED != 0;
        Some(Self { comm, parent, start, kernel_thread, forked, environ_end, ending, state, threads })
    }

    /// Whether the first thread has exited, so that this entry shows no memory, files or working directory.
    pub(super) fn is_hollow(&self) -> bool {
        self.ending || self.is_zombie()
    }

    /// Whether the process is exiting: it has no program any more, but may still have open files. Its first thread may have
    /// finished exiting while other threads have not.
    pub(super) fn is_ending(&self) -> bool {
        self.ending && self.is_alive() && !self.kernel_thread
    }

    /// A zombie is dead, unless only its first thread has exited while others still run.
    pub(super) fn is_alive(&self) -> bool {
        !self.is_zombie() || self.threads > 1
    }

    /// Whether `execve` may be in progress: the old program is gone and the new arguments are not there yet.
    pub(super) fn may_be_loading(&self) -> bool {
        self.environ_end == 0 && !self.kernel_thread && !self.is_hollow()
    }

    fn is_zombie(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields 23 to 52. The last but one is the end of the variables.
    const REST: &str = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 77 0";

    fn line(comm: &str, state: char, threads: u32) -> Vec<u8> {
        let start =
            format!("4242 ({comm}) {state} 17 4242 4242 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 {threads} 0");
        format!("{start} 987654 {REST}\n").into_bytes()
    }

    #[test]
    fn every_field_is_taken_from_its_place() {
        let stat = Stat::parse(&line("claude", 'S', 12)).expect("a stat line");
        assert_eq!((stat.comm.as_str(), stat.parent, stat.start), ("claude", 17, 987_654));
        assert_eq!(stat.environ_end, 77);
        assert!(stat.is_alive() && !stat.kernel_thread && !stat.is_hollow() && !stat.may_be_loading());
    }

    #[test]
    fn a_name_with_parentheses_and_spaces_moves_no_field() {
        let stat = Stat::parse(&line("a) (b) Z 1 2", 'R', 1)).expect("a stat line");
        assert_eq!((stat.comm.as_str(), stat.parent, stat.start), ("a) (b) Z 1 2", 17, 987_654));
        assert!(stat.is_alive());
    }

    #[test]
    fn the_dead_are_dead_unless_other_threads_still_work() {
        for state in ['Z', 'X', 'x'] {
            assert!(!Stat::parse(&line("a", state, 1)).expect("a stat line").is_alive(), "{state}");
        }
        let leader = Stat::parse(&line("a", 'Z', 3)).expect("a stat line");
        assert!(leader.is_alive() && leader.is_hollow());
        for state in ['R', 'S', 'D', 'T', 't', 'I'] {
            assert!(Stat::parse(&line("a", state, 1)).expect("a stat line").is_alive(), "{state}");
        }
    }

    #[test]
    fn what_is_ending_is_alive_but_has_nothing_to_show() {
        let text = String::from_utf8(line("a", 'R', 1)).expect("text").replace(" 4194560 ", " 4194564 ");
        let stat = Stat::parse(text.as_bytes()).expect("a stat line");
        assert!(stat.is_alive() && stat.is_hollow());
    }

    #[test]
    fn a_process_without_variables_in_memory_may_be_loading_its_program() {
        let text = String::from_utf8(line("a", 'R', 1)).expect("text").replace(" 77 ", " 0 ");
        assert!(Stat::parse(text.as_bytes()).expect("a stat line").may_be_loading());
    }

    #[test]
    fn a_copy_that_ran_no_program_is_known_by_its_flag() {
        let text = String::from_utf8(line("a", 'R', 1)).expect("text");
        assert!(!Stat::parse(text.as_bytes()).expect("a stat line").forked);
        let copy = text.replace(" 4194560 ", " 4194624 ");
        assert!(Stat::parse(copy.as_bytes()).expect("a stat line").forked);
    }

    #[test]
    fn kernel_threads_are_known_by_their_flag() {
        let thread = format!("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 3 {REST}");
        assert!(Stat::parse(thread.as_bytes()).expect("a stat line").kernel_thread);
    }

    #[test]
    fn a_line_that_was_cut_off_is_no_stat_line() {
        let whole = line("a) b", 'S', 1);
        let end = whole.windows(4).position(|window| window == b" 77 ").expect("the last field that is read");
        for length in 0..=end {
            assert_eq!(Stat::parse(&whole[..length]), None, "{length} bytes");
        }
    }
}
