//! Compares how long each group of checks took with its budget in CONTRIBUTING.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// The heading in CONTRIBUTING.md above the table of budgets.
const HEADING: &str = "## Minutes";
/// The row with the budget for everything together.
const ALL: &str = "all";

/// The agents whose tests have their own group: the first word after `real_` or `real_steer_`, and the group.
const REAL: [(&str, &str); 9] = [
    ("claude", "real claude-code"),
    ("codex", "real codex"),
    ("copilot", "real copilot"),
    ("gemini", "real gemini"),
    ("kimi", "real kimi"),
    ("openclaw", "real openclaw"),
    ("opencode", "real opencode"),
    ("pi", "real pi"),
    ("qwen", "real qwen"),
];

/// The measured times, in the order in which the groups ran.
#[derive(Debug, Default)]
pub(crate) struct Minutes(Vec<(String, Duration)>);

/// Minutes by group.
type Budget = BTreeMap<String, f64>;

impl Minutes {
    pub(crate) fn add(&mut self, group: impl Into<String>, time: Duration) {
        self.0.push((group.into(), time));
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds the groups of one test run. Tests run in parallel, so each group gets its share of the whole time: the shares add
    /// up to the time that a person waited.
    pub(crate) fn add_tests(&mut self, junit: &str, all: Duration) {
        let mut seconds = BTreeMap::<&str, f64>::new();
        for (binary, time) in test_times(junit) {
            *seconds.entry(group_of(binary)).or_default() += time;
        }
        let sum: f64 = seconds.values().sum();
        if sum <= 0.0 {
            return self.add("tests", all);
        }
        for (group, time) in seconds {
            self.add(group, all.mul_f64(time / sum));
        }
    }

    /// The table, and a line for each group that exceeded its budget. That is not a failure, because machines are noisy.
    pub(crate) fn report(&self, contributing: &str, long: bool) -> String {
        let budget = budget(contributing);
        let mut text = format!("{:<18} {:>7} {:>7}\n", "group", "minutes", "budget");
        let mut over = String::new();
        let total = self.0.iter().map(|(_, time)| *time).sum();
        let rows = self.0.iter().map(|(group, time)| (group.as_str(), *time));
        for (group, time) in rows.chain([(ALL, total)]) {
            let minutes = time.as_secs_f64() / 60.0;
            let allowed = budget.get(group);
            let shown = allowed.map_or_else(|| "none".to_owned(), |allowed| format!("{allowed:.1}"));
            let _ = writeln!(text, "{group:<18} {minutes:>7.1} {shown:>7}");
            if let Some(allowed) = allowed.filter(|allowed| minutes > **allowed && !long) {
                let _ = writeln!(over, "OVER BUDGET: {group} took {minutes:.1} of {allowed:.1} minutes");
            }
        }
        if long {
            text.push_str("the budget is for a run without --long\n");
        }
        text + &over
    }
}

/// The rows `| group | minutes | …` below the heading.
fn budget(contributing: &str) -> Budget {
    let below = contributing.split_once(HEADING).map_or("", |(_, below)| below);
    let section = below.split("\n## ").next().unwrap_or_default();
    let row = |line: &str| {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        let (group, minutes) = (cells.next()?, cells.next()?);
        Some((group.trim_matches('`').to_owned(), minutes.parse().ok()?))
    };
    section.lines().filter_map(row).collect()
}

/// The binary of each test and its duration in seconds, from the report that nextest writes.
fn test_times(junit: &str) -> impl Iterator<Item = (&str, f64)> {
    junit.split("<testcase ").skip(1).filter_map(|case| {
        let head = case.split('>').next()?;
        let attribute = |name: &str| head.split_once(&format!("{name}=\""))?.1.split('"').next();
        Some((attribute("classname")?, attribute(" time")?.parse().ok()?))
    })
}

/// The group of a test binary, by the name that nextest gives it: `crate`, `crate::bin/name` or `crate::file`.
fn group_of(binary: &str) -> &'static str {
    let (krate, file) = binary.split_once("::").unwrap_or((binary, ""));
    if file.is_empty() || file.starts_with("bin/") {
        return "unit";
    }
    if let Some(real) = file.strip_prefix("real_") {
        let agent = real.strip_prefix("steer_").unwrap_or(real).split('_').next();
        let known = REAL.iter().find(|(word, _)| Some(*word) == agent);
        return known.map_or("real several", |(_, group)| group);
    }
    match (krate, file) {
        (_, "daemon") => "daemon",
        (_, "web_page") => "page",
        (_, "chaos") => "chaos",
        ("agentctl", _) => "cli",
        _ => "crates",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::ValueEnum as _;

    use super::{ALL, Minutes, REAL, budget, group_of};
    use crate::checks::Step;
    use crate::workspace;

    const JUNIT: &str = r#"<testsuites time="9"><testsuite name="agentctl::daemon" tests="2">
        <testcase name="a" classname="agentctl::daemon" timestamp="x" time="30.0"/>
        <testcase name="b" classname="agentctl::daemon" timestamp="x" time="60.0"><failure time="1"/></testcase></testsuite>
        <testcase name="c" classname="agentctl::real_steer_codex" timestamp="x" time="90.0"></testcase></testsuites>"#;

    #[test]
    fn groups_share_the_time_that_was_waited_for() {
        let mut minutes = Minutes::default();
        minutes.add_tests(JUNIT, Duration::from_mins(2));
        let one = Duration::from_mins(1);
        assert_eq!(minutes.0, [("daemon".to_owned(), one), ("real codex".to_owned(), one)]);
        let mut none = Minutes::default();
        none.add_tests("", one);
        assert_eq!(none.0, [("tests".to_owned(), one)]);
    }

    #[test]
    fn what_is_over_its_budget_is_named_and_only_that() {
        let contributing = "## Minutes\n| group | minutes |\n|---|---|\n| `a` | 2 | words |\n| b | 0.5 |\n| all | 9 |\n\n## Else\n| c | 1 |\n";
        let mut minutes = Minutes::default();
        for group in ["a", "b", "c"] {
            minutes.add(group, Duration::from_mins(1));
        }
        let report = minutes.report(contributing, false);
        let over: Vec<&str> = report.lines().filter(|line| line.starts_with("OVER")).collect();
        assert_eq!(over, ["OVER BUDGET: b took 1.0 of 0.5 minutes"], "{report}");
        assert!(report.contains("none") && report.contains("\nall "), "{report}");
        assert!(!minutes.report(contributing, true).contains("OVER"));
    }

    #[test]
    fn binaries_have_groups() {
        for (binary, group) in [
            ("agentctl-model", "unit"),
            ("xtask::bin/xtask", "unit"),
            ("agentctl-fleet::pi_joins", "crates"),
            ("agentctl::cli_wait", "cli"),
            ("agentctl::places_paths", "cli"),
            ("agentctl::daemon", "daemon"),
            ("agentctl::web_page", "page"),
            ("agentctl::chaos", "chaos"),
            ("agentctl::real_claude_code", "real claude-code"),
            ("agentctl::real_steer_pi", "real pi"),
            ("agentctl::real_launch", "real several"),
        ] {
            assert_eq!(group_of(binary), group, "{binary}");
        }
    }

    /// A group without a row in the document would have no budget and never exceed it.
    #[test]
    fn every_group_has_a_budget_and_together_they_fit_the_whole() {
        let budget = budget(&std::fs::read_to_string(workspace::root().join("CONTRIBUTING.md")).unwrap());
        let steps =
            Step::value_variants().iter().filter(|step| **step != Step::Tests).map(|step| step.name());
        let tests = ["test build", "unit", "crates", "cli", "daemon", "chaos", "page", "real several"]
            .map(str::to_owned);
        let real = REAL.map(|(_, group)| group.to_owned());
        let mut groups: Vec<String> = steps.chain(tests).chain(real).chain([ALL.to_owned()]).collect();
        groups.sort();
        let known: Vec<&String> = budget.keys().collect();
        assert_eq!(known, groups.iter().collect::<Vec<_>>());
        let sum: f64 = budget.iter().filter(|(group, _)| *group != ALL).map(|(_, minutes)| minutes).sum();
        assert!(sum <= budget[ALL], "{sum} minutes");
        assert!(budget[ALL] <= 45.0);
    }
}
