//! What the fuzzer says at its end. Pure.

use std::path::PathBuf;

pub(super) const HEADING: &str =
    "target               executions   a second   coverage     inputs  peak memory  findings";

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) executions: u64,
    pub(super) per_second: u64,
    /// How many branches were reached.
    pub(super) coverage: u64,
    pub(super) peak_mb: u64,
    /// How many inputs are kept.
    pub(super) inputs: usize,
    /// The files of inputs for which a property did not hold.
    pub(super) findings: Vec<PathBuf>,
    /// What went wrong, in the words of the target.
    pub(super) words: Option<String>,
    /// The target ran until its time was over.
    pub(super) is_clean: bool,
}

impl Report {
    pub(super) fn parse(said: &str, is_clean: bool) -> Self {
        let stat = |name: &str| {
            let line = said.lines().find_map(|line| line.strip_prefix("stat::")?.strip_prefix(name));
            line.and_then(|rest| rest.trim_start_matches(':').trim().parse().ok()).unwrap_or(0)
        };
        let coverage = said.lines().rev().find_map(|line| {
            let (_, behind) = line.split_once(" cov: ")?;
            behind.split(' ').next()?.parse().ok()
        });
        // What a panic says stands on the line behind it.
        let panic = said.lines().skip_while(|line| !line.contains("panicked at")).take(2);
        let panic: Vec<&str> = panic.collect();
        let error = || said.lines().find(|line| line.contains("ERROR: ")).map(str::to_owned);
        let words = if panic.is_empty() { error() } else { Some(panic.join(" ")) };
        Self {
            executions: stat("number_of_executed_units"),
            per_second: stat("average_exec_per_sec"),
            coverage: coverage.unwrap_or(0),
            peak_mb: stat("peak_rss_mb"),
            words: words.filter(|_| !is_clean),
            is_clean,
            ..Self::default()
        }
    }

    pub(super) fn line(&self, name: &str) -> String {
        let Self { executions, per_second, coverage, peak_mb, inputs, findings, is_clean, .. } = self;
        let found = match findings.len() {
            0 if *is_clean => "none".to_owned(),
            0 => "it ended".to_owned(),
            some => some.to_string(),
        };
        format!(
            "{name:18} {executions:>12} {per_second:>10} {coverage:>10} {inputs:>10} {peak_mb:>9} MB  {found:>8}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: &str = "INFO: Seed: 1\n#2\tINITED cov: 3 ft: 4 corp: 1/1b exec/s: 0 rss: 30Mb\n\
        #4096\tpulse  cov: 12 ft: 13 corp: 3/5b exec/s: 2048 rss: 40Mb\n\
        #5000\tDONE   cov: 17 ft: 18 corp: 4/9b exec/s: 500 rss: 41Mb\nDone 5000 runs in 10 second(s)\n\
        stat::number_of_executed_units: 5000\nstat::average_exec_per_sec:     500\n\
        stat::new_units_added:          4\nstat::slowest_unit_time_sec:    0\nstat::peak_rss_mb:              41\n";

    #[test]
    fn figures_are_those_of_the_end() {
        let report = Report::parse(DONE, true);
        let expected = Report {
            executions: 5000,
            per_second: 500,
            coverage: 17,
            peak_mb: 41,
            is_clean: true,
            ..Report::default()
        };
        assert_eq!(report, expected);
        assert!(report.line("walker").ends_with("none"));
    }

    #[test]
    fn what_went_wrong_is_told_in_its_words() {
        let panic = "thread '<unnamed>' (7) panicked at src/lines.rs:9:5:\nno JSON\nnote: run with …\n==7== ERROR: libFuzzer: deadly signal\n";
        let words = Report::parse(panic, false).words.unwrap();
        assert_eq!(words, "thread '<unnamed>' (7) panicked at src/lines.rs:9:5: no JSON");
        let slow = "ALARM: working on the last Unit for 11 seconds\n==7== ERROR: libFuzzer: timeout after 11 seconds\n";
        let report = Report::parse(slow, false);
        assert_eq!(report.words.as_deref(), Some("==7== ERROR: libFuzzer: timeout after 11 seconds"));
        assert!(report.line("walker").ends_with("it ended"));
    }
}
