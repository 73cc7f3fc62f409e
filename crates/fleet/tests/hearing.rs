//! Sources that hang, panic, fail or answer partly: the others' answers arrive, and no session is called stopped (N4).

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentctl_adapters::{Adapter, Card, Conversation, Follow, Reach, ReadError, Root, Scope, join};
use agentctl_fleet::{FindError, Fleet, Purpose, Query, Selector, Since, Source, Wanted};
use agentctl_model::{
    Coverage, Entry, Environ, Evidence, Facts, Found, Harvest, Joined, KernelView, ProcessHead, Status, Tie,
    Turn, TurnState, Witness,
};
use agentctl_process::fake::{Scripted, ScriptedProcess};

/// An adapter whose behaviour is a function of the test.
struct Behaves {
    card: &'static Card,
    survey: fn(&Scope<'_>) -> Harvest,
}

impl Adapter for Behaves {
    fn conversation(&self, _: &Path, _: &str) -> Conversation<'_> {
        Conversation::Nothing
    }

    fn card(&self) -> &'static Card {
        self.card
    }
    fn root(&self, _: &Environ) -> Option<Root> {
        Some(Root::at("/scripted"))
    }
    fn survey(&self, _: &Root, scope: &Scope<'_>) -> Harvest {
        (self.survey)(scope)
    }
    fn recognises(&self, _: &ProcessHead) -> bool {
        false
    }
    /// The adapter of this name ties a process to whatever session it has, only because it is a possible one.
    fn join(&self, _: &Root, harvest: &Harvest, kernel: &KernelView) -> Joined {
        if self.card.name != PAIRED.name {
            return Joined::default();
        }
        let process = ScriptedProcess::new(7, &["paired"]).process;
        let how = || Evidence::said(Witness::Kernel, "fits", Some(kernel.as_of));
        let claim = |found: &Found| join::claim(&found.id, &process, Tie::OnlyCandidate, false, how());
        Joined { claims: harvest.found.iter().map(claim).collect(), ..Joined::default() }
    }
    fn read(&self, _: &Path, _: &str, _: usize) -> Result<Vec<Entry>, ReadError> {
        Ok(Vec::new())
    }
    fn follow(&self, place: &Path, _: &str, _: usize) -> Result<Box<dyn Follow>, ReadError> {
        Err(ReadError::new(place, std::io::ErrorKind::Unsupported.into()))
    }
}

static GOOD: Card = Card::new("good", "good");
static BAD: Card = Card::new("bad", "bad");
static PAIRED: Card = Card::new("paired", "paired");

fn one_session(_: &Scope<'_>) -> Harvest {
    Harvest::complete(vec![found("good-1")])
}

fn found(id: &str) -> Found {
    Found {
        id: id.into(),
        variant: None,
        place: "/nowhere".into(),
        stamp: None,
        facts: Facts {
            name: Some("the good one".into()).filter(|_| id == "good-1"),
            turn: Some(Turn::new(TurnState::Finished, None)),
            ..Facts::default()
        },
        evidence: vec![],
    }
}

fn source(behaves: &'static Behaves, timeout: Duration) -> Source {
    Source { adapter: behaves, root: Root::at("/scripted"), timeout }
}

/// Long enough for any test machine.
const PATIENT: Duration = Duration::from_mins(1);

fn fleet(bad: fn(&Scope<'_>) -> Harvest) -> Fleet {
    fleet_with(bad, PATIENT)
}

fn fleet_with(bad: fn(&Scope<'_>) -> Harvest, timeout: Duration) -> Fleet {
    let good: &'static Behaves = Box::leak(Box::new(Behaves { card: &GOOD, survey: one_session }));
    let bad: &'static Behaves = Box::leak(Box::new(Behaves { card: &BAD, survey: bad }));
    let sources = vec![source(good, PATIENT), source(bad, timeout)];
    Fleet::new(sources, Arc::new(Scripted::new()))
}

fn everything() -> Query {
    Query::new(Wanted::All { since: Since::Ever })
}

fn selector(text: &str) -> Selector {
    Selector { text: text.into(), ..Selector::default() }
}

#[test]
fn a_source_that_hangs_is_timed_out_and_the_others_are_heard() {
    let hangs = |_: &Scope<'_>| {
        std::thread::sleep(Duration::from_hours(1));
        Harvest::complete(vec![])
    };
    let fleet = fleet_with(hangs, Duration::from_millis(200));
    let began = Instant::now();
    let survey = fleet.survey(&everything());
    assert!(began.elapsed() < Duration::from_mins(1), "the hanging source was waited for");
    assert_eq!(survey.sessions.len(), 1);
    let coverage: Vec<&str> = survey.sources.iter().map(|source| source.coverage.as_str()).collect();
    assert_eq!(coverage, ["complete", "timed-out"]);
    assert_eq!(survey.sources[1].sessions, None, "no answer is not zero sessions");
}

#[test]
fn a_slow_source_that_makes_progress_is_heard_to_its_end() {
    // It works for several times its timeout, and never pauses for that long.
    let slow = |scope: &Scope<'_>| {
        for _ in 0..40 {
            std::thread::sleep(Duration::from_millis(100));
            scope.progress.tick();
        }
        Harvest::complete(vec![found("slow-1")])
    };
    let fleet = fleet_with(slow, Duration::from_secs(2));
    let survey = fleet.survey(&everything());
    assert_eq!(survey.sources[1].coverage.as_str(), "complete");
    assert_eq!(survey.sessions.len(), 2);
}

#[test]
fn a_source_that_panics_has_failed_and_says_why() {
    let survey = fleet(|_| panic!("cannot happen")).survey(&everything());
    assert_eq!(survey.sessions.len(), 1);
    assert_eq!(survey.sources[1].coverage.as_str(), "failed");
    assert!(survey.sources[1].error.as_deref().unwrap().contains("cannot happen"));
}

#[test]
fn a_failed_source_gives_no_verdict_even_about_what_it_listed() {
    let fleet = fleet(|_| Harvest {
        coverage: Coverage::Failed { error: "disk on fire".into() },
        ..Harvest::complete(vec![found("bad-1")])
    });
    let survey = fleet.survey(&everything());
    assert!(survey.sessions.iter().all(|surveyed| surveyed.key.adapter == "good"));
    assert!(
        matches!(fleet.find(&selector("bad-1"), Purpose::Read), Err(FindError::NotHeard { .. })),
        "silence is no verdict"
    );
}

#[test]
fn not_found_is_only_said_when_every_source_was_heard() {
    let complete = fleet(|_| Harvest::complete(vec![]));
    assert!(matches!(complete.find(&selector("nobody"), Purpose::Read), Err(FindError::NotFound { .. })));
    let partial = fleet(|_| {
        let mut harvest = Harvest::complete(vec![]);
        harvest.left_out("a file".into());
        harvest
    });
    assert!(matches!(partial.find(&selector("nobody"), Purpose::Read), Err(FindError::NotHeard { .. })));
}

#[test]
fn a_kernel_that_cannot_be_seen_makes_everything_unknown_and_nothing_stopped() {
    let good: &'static Behaves = Box::leak(Box::new(Behaves { card: &GOOD, survey: one_session }));
    let blind = Scripted::new().unobservable("no process table here");
    let fleet = Fleet::new(vec![source(good, PATIENT)], Arc::new(blind));
    let survey = fleet.survey(&everything());
    assert_eq!(survey.sessions[0].session.status, Status::Unknown);
    assert_eq!(survey.sessions[0].session.status_detail.as_deref(), Some("no process table here"));
}

#[test]
fn ids_are_matched_whole_then_by_unique_prefix_then_by_name() {
    fn many(scope: &Scope<'_>) -> Harvest {
        let mut all: Vec<Found> = ["abc", "abcd", "abd", "x1"].map(found).to_vec();
        all[3].facts.name = Some("ab".into());
        all.retain(|found| scope.reach.names(&found.id));
        Harvest::complete(all)
    }
    let fleet = fleet(many);
    let id = |text: &str| fleet.find(&selector(text), Purpose::Read).map(|(surveyed, _)| surveyed.key.id);
    assert_eq!(id("abc").unwrap(), "abc", "a whole id stands above a prefix");
    assert_eq!(id("abcd").unwrap(), "abcd");
    assert_eq!(id("abd").unwrap(), "abd");
    assert_eq!(id("ab").unwrap(), "x1", "an ambiguous prefix gives way to an exact name");
    assert!(matches!(id("a"), Err(FindError::Ambiguous { candidates, .. }) if candidates.len() == 3));
}

/// A source that was given up on stops in the middle. What it sends then is no answer, however complete it looks, even
/// while another source is still awaited.
#[test]
fn what_comes_after_the_patience_is_over_is_no_answer() {
    use std::sync::atomic::{AtomicBool, Ordering};
    static LATE: AtomicBool = AtomicBool::new(false);
    let good = |_: &Scope<'_>| {
        while !LATE.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        // This is long enough for the late answer to arrive first; if it does not, the test proves nothing, but passes.
        std::thread::sleep(Duration::from_millis(300));
        Harvest::complete(vec![found("good-1")])
    };
    let bad = |scope: &Scope<'_>| {
        while !scope.progress.is_given_up() {
            std::thread::sleep(Duration::from_millis(5));
        }
        LATE.store(true, Ordering::SeqCst);
        Harvest::complete(vec![])
    };
    let good: &'static Behaves = Box::leak(Box::new(Behaves { card: &GOOD, survey: good }));
    let bad: &'static Behaves = Box::leak(Box::new(Behaves { card: &BAD, survey: bad }));
    let sources = vec![source(good, PATIENT), source(bad, Duration::from_millis(200))];
    let survey = Fleet::new(sources, Arc::new(Scripted::new())).survey(&everything());
    let coverage: Vec<&str> = survey.sources.iter().map(|source| source.coverage.as_str()).collect();
    assert_eq!(coverage, ["complete", "timed-out"]);
    assert_eq!(survey.sessions.len(), 1);
}

/// The text matches one session, and the source that may hold another match does not answer.
#[test]
fn nothing_is_done_by_a_shortened_id_while_a_source_is_silent() {
    let hangs = |_: &Scope<'_>| {
        std::thread::sleep(Duration::from_hours(1));
        Harvest::complete(vec![])
    };
    let silent = fleet_with(hangs, Duration::from_millis(200));
    let act = |fleet: &Fleet, text: &str| {
        let found = fleet.find(&selector(text), Purpose::Act);
        found.map(|(found, _)| found.key.id)
    };
    match act(&silent, "goo") {
        Err(FindError::NotProven { text, id, sources }) => {
            assert_eq!((text.as_str(), id.as_str()), ("goo", "good-1"));
            let named: Vec<_> =
                sources.iter().map(|one| (one.adapter.as_str(), one.coverage.as_str())).collect();
            assert_eq!(named, [("bad", "timed-out")]);
        }
        other => panic!("{other:?}"),
    }
    assert!(
        matches!(act(&silent, "the good one"), Err(FindError::NotProven { .. })),
        "a name is not its id either"
    );
    assert_eq!(act(&silent, "good-1").unwrap(), "good-1", "a whole id is nobody else's");
    let narrowed = Selector { adapter: Some("good".into()), ..selector("goo") };
    assert!(silent.find(&narrowed, Purpose::Act).is_ok(), "the silent one was not asked");
    assert!(silent.find(&selector("goo"), Purpose::Read).is_ok(), "to read it does no harm");
    assert_eq!(act(&fleet(|_| Harvest::complete(vec![])), "goo").unwrap(), "good-1", "all were heard");
}

/// Two sessions in one directory, and a process there that could own either: deciding which needs both to be read.
#[test]
fn only_what_was_asked_for_is_counted() {
    static COUNTED: std::sync::Mutex<Vec<String>> = std::sync::Mutex::new(Vec::new());
    let counts = |scope: &Scope<'_>| {
        let ids = ["good-1", "good-2"].into_iter().filter(|id| scope.reach.names(id));
        let reach = match scope.reach {
            Reach::Live(_) => "live",
            Reach::Ids(_) => "ids",
            Reach::All { .. } => "all",
        };
        let read: Vec<&str> = ids.collect();
        let usage = if scope.usage { " counted" } else { "" };
        COUNTED.lock().unwrap().push(format!("{reach} {}{usage}", read.join(" ")));
        Harvest::complete(read.into_iter().map(found).collect())
    };
    let adapter: &'static Behaves = Box::leak(Box::new(Behaves { card: &PAIRED, survey: counts }));
    let fleet = Fleet::new(vec![source(adapter, PATIENT)], Arc::new(Scripted::new()));
    let requests = |purpose: Purpose| {
        fleet.find(&selector("good-1"), purpose).unwrap();
        std::mem::take(&mut *COUNTED.lock().unwrap())
    };
    assert_eq!(requests(Purpose::Show), ["ids good-1 counted", "live good-1 good-2"]);
    assert_eq!(requests(Purpose::Read), ["ids good-1", "live good-1 good-2"]);
}
