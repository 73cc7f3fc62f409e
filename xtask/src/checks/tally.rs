//! Counts tests, from the summaries of the test runners and from the skip log.

use std::collections::BTreeSet;

/// The number of tests that passed, failed and were skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl Tally {
    /// Parses the output of a test runner: nextest's `Summary […] N tests run: …`, else each `test result: …` of libtest,
    /// else a last line `N passed, M failed`. The order matters, because nextest repeats (indented) the output of a failing
    /// test.
    pub(crate) fn parse(output: &str) -> Self {
        let plain = without_colour(output);
        let sum = |counts: &mut dyn Iterator<Item = &str>| {
            counts.map(Self::parse_counts).reduce(|mut all, one| {
                all += one;
                all
            })
        };
        let nextest = |line| Some(str::trim_start(line).strip_prefix("Summary [")?.split_once("run:")?.1);
        let libtest = |line| str::strip_prefix(line, "test result:");
        let script =
            |line: &&str| line.starts_with(|c: char| c.is_ascii_digit()) && line.contains(" passed, ");
        sum(&mut plain.lines().filter_map(nextest))
            .or_else(|| sum(&mut plain.lines().filter_map(libtest)))
            .or_else(|| plain.lines().rfind(script).map(Self::parse_counts))
            .unwrap_or_default()
    }

    fn parse_counts(counts: &str) -> Self {
        let mut sum = Self::default();
        // Nextest adds details in parentheses (`3 passed (1 slow)`); libtest begins with `ok. 3 passed`.
        for part in counts.split([',', ';', '.', '(', ')']) {
            let mut words = part.split_whitespace();
            let (Some(Ok(count)), Some(word)) = (words.next().map(str::parse::<usize>), words.next()) else {
                continue;
            };
            match word {
                "passed" => sum.passed += count,
                "failed" | "timed" | "exec" => sum.failed += count,
                "skipped" | "ignored" => sum.skipped += count,
                _ => {}
            }
        }
        sum
    }

    /// Moves tests that passed only because they skipped themselves from passed to skipped.
    pub(crate) fn move_skipped(&mut self, tests: usize) {
        let moved = tests.min(self.passed);
        self.passed -= moved;
        self.skipped += moved;
    }
}

/// Parses the skip log (`test-name: reason` on each line): how many tests were skipped, and the distinct lines.
pub(crate) fn skips(log: &str) -> (usize, Vec<String>) {
    let lines: BTreeSet<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let tests: BTreeSet<&str> = lines.iter().map(|line| line.split(": ").next().unwrap_or(line)).collect();
    (tests.len(), lines.into_iter().map(str::to_owned).collect())
}

fn without_colour(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            chars.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(c);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::{Tally, skips};

    fn tally(passed: usize, failed: usize, skipped: usize) -> Tally {
        Tally { passed, failed, skipped }
    }

    #[test]
    fn nextest_summaries() {
        let text = "        PASS [   0.005s] a b\n────\n     Summary [   0.413s] 14 tests run: 12 passed (1 slow, 2 leaky), 1 failed, 1 timed out, 3 skipped\n        FAIL x\n";
        assert_eq!(Tally::parse(text), tally(12, 2, 3));
        let coloured = "\u{1b}[32;1m     Summary\u{1b}[0m [   0.4s] \u{1b}[1m2\u{1b}[0m tests run: \u{1b}[1m2\u{1b}[0m \u{1b}[32;1mpassed\u{1b}[0m, \u{1b}[1m0\u{1b}[0m skipped";
        assert_eq!(Tally::parse(coloured), tally(2, 0, 0));
        let failing = "    test result: FAILED. 0 passed; 1 failed; 0 ignored\n     Summary [ 0.0s] 1 test run: 0 passed, 1 failed, 0 skipped\n    test result: FAILED. 0 passed; 1 failed\n";
        assert_eq!(Tally::parse(failing), tally(0, 1, 0));
        assert_eq!(Tally::parse("Summary [ 0.0s] 1 test run: 1 passed, 0 skipped"), tally(1, 0, 0));
    }

    #[test]
    fn libtest_results_add_up() {
        let text = "test result: ok. 14 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.19s\n\
                    test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s\n";
        assert_eq!(Tally::parse(text), tally(16, 3, 1));
    }

    #[test]
    fn fixture_counts() {
        assert_eq!(Tally::parse("pi/a: tokens: expected 1 got 2\n13 passed, 1 failed\n"), tally(13, 1, 0));
        assert_eq!(Tally::parse("nothing to count"), Tally::default());
    }

    #[test]
    fn a_test_that_skipped_itself_did_not_pass() {
        let (tests, lines) =
            skips("a::b: no claude\na::b: no codex\na::b: no codex\n\nc: not root: really\n");
        assert_eq!(tests, 2);
        assert_eq!(lines, ["a::b: no claude", "a::b: no codex", "c: not root: really"]);
        let mut sum = tally(5, 0, 1);
        sum.move_skipped(2);
        assert_eq!(sum, tally(3, 0, 3));
    }
}
