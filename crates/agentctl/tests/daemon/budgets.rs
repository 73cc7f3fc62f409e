//! Budgets of folders: they stop the sessions of their folder and no others, refuse what would spend more, outlive the
//! daemon, and never fire on what was not heard.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_testkit::{Background, Output, Signal, skip, until, until_seen};
use serde_json::{Value, json};

use crate::events::Listener;
use crate::house::{House, SOON};
use crate::stand_in::StandIn;
use crate::webhooks::Receiver;

/// Well after the ten seconds that a session has, and before the daemon would look at budgets without a reason.
const STOPPED_BY: Duration = Duration::from_secs(25);

/// A house in which it is about noon, so that no day ends, nor a week or a month, while a test runs.
fn house_at_noon() -> House {
    let mut house = House::new();
    let hours = 12 - i32::from(jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).hour());
    // POSIX counts to the west.
    house.home.set_env("TZ", format!("NOON{:+}", -hours));
    house
}

/// A house in which a token costs a dollar.
fn house() -> House {
    let house = house_at_noon();
    fs::create_dir_all(house.home.agentctl_home()).unwrap();
    let prices = "[prices.m]\nin = 1000000\nout = 1000000\n";
    fs::write(house.home.agentctl_home().join("config.toml"), prices).unwrap();
    house
}

fn set(house: &House, folder: &Path, more: &[&str]) -> Value {
    let on = ["fuse", "set", "--cwd", folder.to_str().unwrap(), "--json"];
    house.run(&[&on, more].concat()).ok().json()
}

fn budget(house: &House, id: &Value) -> Value {
    let fuses = house.run(&["fuses", "--json"]).ok().json()["fuses"].as_array().unwrap().clone();
    fuses.into_iter().find(|fuse| fuse["id"] == *id).unwrap()
}

fn until_budget(house: &House, id: &Value, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    until_seen(SOON, what, || {
        let now = budget(house, id);
        if is_so(&now) { Ok(now) } else { Err(format!("{now:#}")) }
    })
}

/// The next event, which is of this kind and about this budget.
#[track_caller]
fn told(events: &mut Listener, kind: &str, budget: &Value) -> Value {
    let event = events.next();
    assert_eq!((&event["type"], &event["fuse"]["id"]), (&kind.into(), &budget["id"]), "{event:#}");
    event
}

fn launch(house: &House, folder: &Path) -> Output {
    house.run(&["launch", "claude-code", "-p", "x", "--cwd", folder.to_str().unwrap()])
}

#[test]
fn a_budget_stops_the_sessions_of_its_folder_and_refuses_more() {
    let house = house();
    let (site, other) = (house.home.work_dir("site"), house.home.work_dir("other"));
    fs::create_dir(site.join("src")).unwrap();
    let mut daemon = house.daemon(&[]);
    house.settled();
    let mut events = Listener::open(&house, "type=fuse.set&type=fuse.warned&type=fuse.expired", None);
    let (mut works, mut elsewhere) =
        (StandIn::start_in(&house.home, &site), StandIn::start_in(&house.home, &other));
    let mut rests = StandIn::start_in(&house.home, &site.join("src"));
    rests.finish();
    let day = set(&house, &site, &["--max-cost", "12", "--per", "day"]);
    assert_eq!(
        (&day["per"], &day["stage"], &day["spent"]["cost"]),
        (&"day".into(), &"set".into(), &2.0.into())
    );
    // Others stand beside it, and count only their own agent.
    let of_codex = set(&house, &site, &["--max-tokens", "1", "--per", "day", "--adapter", "codex"]);
    let week = set(&house, &site, &["--max-cost", "1000", "--per", "week"]);
    let month = set(&house, &site, &["--max-cost", "13.7", "--per", "month"]);
    for _ in 0..4 {
        assert_eq!(events.next()["type"], "fuse.set");
    }
    elsewhere.spend(500);
    works.spend(8);
    let warned = told(&mut events, "fuse.warned", &day);
    assert_eq!(warned["fuse"]["spent"]["cost"], 10.0);
    assert!(!works.has_ended());
    // Of what is spent after that nobody is warned again, although the daemon looks: another budget proves it.
    works.spend(1);
    told(&mut events, "fuse.warned", &month);
    let _ = house.run(&["fuse", "cancel", month["id"].as_str().unwrap()]).ok();
    works.spend(2);
    told(&mut events, "fuse.expired", &day);
    until(SOON, "the end of who works", || works.has_ended().then_some(()));
    until(SOON, "the end of who rests", || rests.has_ended().then_some(()));
    let spent = until_budget(&house, &day["id"], "it to be spent", |now| now["stage"] == "spent");
    // Who works is interrupted at once, so that ten seconds later only who rests is left to be stopped.
    let log = daemon.stderr();
    assert!(log.contains("interrupts 1 session") && log.contains("stops 1 session"), "{log}");
    assert_eq!((&spent["spent"]["cost"], &spent["spent"]["blind"]), (&13.0.into(), &json!([])));
    assert_eq!((budget(&house, &of_codex["id"])["spent"]["tokens"].as_u64()), Some(0));
    assert_eq!(budget(&house, &week["id"])["stage"], "set");
    assert!(!elsewhere.has_ended(), "it is none of this budget");
    let table = house.run(&["fuses"]).ok().stdout;
    let row = table.lines().find(|line| line.contains("$12.00 a day")).unwrap();
    assert!(row.contains("$13.00") && row.contains("spent"), "{table}");
    let inbox = house.run(&["inbox", "--json"]).ok().json();
    assert_eq!(inbox["fuses"].as_array().unwrap().len(), 1, "{inbox:#}");
    assert_eq!(inbox["fuses"][0]["id"], day["id"]);

    // A session that somebody starts there by hand is stopped too, once it works.
    let mut late = StandIn::start_in(&house.home, &site);
    until(SOON, "the end of a late one", || late.has_ended().then_some(()));

    let lost = lost_in(&house, &site);
    let check_refusals =
        |why: &str, figure: &str| refuses_all(&house, &site, [&works.id, &lost], why, figure);
    check_refusals("spent", "$13.00");
    let free = launch(&house, &other);
    assert!(!free.stderr.contains("is spent"), "{free:#?}");
    is_refused_at_its_time(&house, &works.id, "$13.00 of $12.00 this day");
    daemon.signal(Signal::KILL);
    drop(daemon);
    // One that was opened while no daemon ran rests, and nobody can make it work.
    let mut opened = StandIn::start_in(&house.home, &site);
    opened.finish();
    let again = house.daemon_with(&[], &[("OF_A_TEST_API_KEY", "another")]);
    for said in [house.home.agentctl(&["send", &opened.id, "go"]), house.run(&["send", &opened.id, "go"])] {
        assert!(said.code == Some(7) && said.stderr.contains("$15.00 of $12.00 this day"), "{said:#?}");
    }
    check_refusals("after the daemon was killed", "$15.00");
    assert!(!opened.has_ended(), "it only rests");
    assert!(!plan(&house, &works.id, "another").stderr.contains("does not have"), "this daemon has it");

    // What cannot be heard is not unspent.
    let deaf = Deaf::to_claude(&house);
    let blind = until_budget(&house, &day["id"], "it to be blind", |now| now["spent"]["blind"] != json!([]));
    assert_eq!(blind["stage"], "spent");
    let refused = launch(&house, &site);
    assert!(refused.code == Some(7) && refused.stderr.contains("is spent"), "{refused:#?}");
    drop(deaf);
    check_refusals("heard again", "$15.00");

    let raised = set(&house, &site, &["--max-cost", "50", "--per", "day"]);
    assert_ne!(raised["id"], day["id"]);
    let free = launch(&house, &site);
    assert!(!free.stderr.contains("is spent"), "{free:#?}");
    let mut goes_on = StandIn::start_in(&house.home, &site);
    goes_on.spend(2);
    until_budget(&house, &raised["id"], "it to be counted", |now| now["spent"]["cost"] == 17.0);
    assert!(!goes_on.has_ended() && !elsewhere.has_ended());

    // Each is named by its id; the folder alone names several.
    let several = house.run(&["fuse", "cancel", site.to_str().unwrap()]);
    assert!(
        several.code == Some(4) && several.stderr.contains(raised["id"].as_str().unwrap()),
        "{several:#?}"
    );
    let extended = house.run(&["fuse", "extend", raised["id"].as_str().unwrap(), "--ttl", "1h"]);
    assert_eq!(extended.code, Some(7), "{extended:#?}");
    for id in [&raised["id"], &of_codex["id"], &week["id"]] {
        let _ = house.run(&["fuse", "cancel", id.as_str().unwrap()]).ok();
    }
    let left = house.run(&["fuses", "--json"]).ok().json()["fuses"].as_array().unwrap().clone();
    assert!(left.iter().all(|fuse| fuse["resume"].is_object()), "{left:#?}");
    drop(again);
}

/// As long as this is there, the records of Claude Code cannot be read: a link that goes in circles is in their place. At no
/// moment there is nothing, which would be an agent that has spent nothing.
struct Deaf(PathBuf, PathBuf);

impl Deaf {
    fn to_claude(house: &House) -> Self {
        let (root, away) = (house.home.path().join(".claude"), house.home.path().join("away"));
        symlink(&root, &away).unwrap();
        let deaf = Self(root, away);
        deaf.exchange();
        deaf
    }

    fn exchange(&self) {
        let swap = rustix::fs::RenameFlags::EXCHANGE;
        rustix::fs::renameat_with(rustix::fs::CWD, &self.0, rustix::fs::CWD, &self.1, swap).unwrap();
    }
}

impl Drop for Deaf {
    fn drop(&mut self) {
        self.exchange();
    }
}

/// Nothing that would spend more in this folder is done: no launch, no resume of the first of these sessions, and the
/// second, which was lost, is not recovered.
#[track_caller]
fn refuses_all(house: &House, site: &Path, [works, lost]: [&str; 2], why: &str, figure: &str) {
    let spent = format!("{figure} of $12.00 this day");
    for refused in [
        launch(house, site),
        launch(house, &site.join("src")),
        house.run(&["resume", works, "go on"]),
        house.home.agentctl(&["resume", works, "go on"]),
    ] {
        assert_eq!(refused.code, Some(7), "{why}: {refused:#?}");
        assert!(refused.stderr.contains(&spent), "{why}: {refused:#?}");
    }
    let recover = house.run(&["recover", "--yes", lost, "--json"]);
    assert_eq!(recover.code, Some(7), "{why}: {recover:#?}");
    assert!(recover.json()["failed"][0]["error"].to_string().contains(&spent), "{why}: {recover:#?}");
    let body = json!({"adapter": "claude-code", "prompt": "x", "cwd": site});
    let problem = house.write("POST", "/v1/sessions", &body.to_string());
    assert_eq!((problem.status, &problem.json()["code"]), (409, &"refused".into()), "{why}");
}

/// Plans a resume from an environment with a key in it.
fn plan(house: &House, id: &str, words: &str) -> Output {
    let mut command = house.home.agentctl_command(&["resume", id, "--at", "+1s", words]);
    command.env_remove("AGENTCTL_NO_DAEMON").env("OF_A_TEST_API_KEY", "k-of-the-test");
    house.home.run(command).ok()
}

/// A plan is refused when its time has come, and stays with its reason. What it keeps is nobody else's business.
fn is_refused_at_its_time(house: &House, id: &str, spent: &str) {
    let planned = plan(house, id, "after the budget");
    assert!(planned.stderr.contains("does not have OF_A_TEST_API_KEY"), "{planned:#?}");
    let book = house.home.agentctl_home().join("fuses.json");
    assert_eq!(fs::metadata(&book).unwrap().permissions().mode() & 0o777, 0o600);
    let kept = fs::read_to_string(&book).unwrap();
    assert!(kept.contains("after the budget") && !kept.contains("k-of-the-test"), "{kept}");
    let refused = until_seen(SOON, "a plan that was refused", || {
        let fuses = house.run(&["fuses", "--json"]).ok().json();
        let plan = fuses["fuses"].as_array().unwrap().iter().find(|fuse| fuse["resume"].is_object()).cloned();
        plan.filter(|plan| plan["resume"]["problem"].is_string()).ok_or_else(|| format!("{fuses:#}"))
    });
    assert!(refused["resume"]["problem"].to_string().contains(spent), "{refused:#}");
    let _ = house.run(&["fuse", "cancel", refused["id"].as_str().unwrap()]).ok();
}

/// A session in this folder that died long before this boot.
fn lost_in(house: &House, folder: &Path) -> String {
    let (id, cwd) = ("dead0000-0000-4000-8000-000000000001", folder.to_str().unwrap());
    let prompt = json!({"type": "user", "uuid": "u1", "sessionId": id, "cwd": cwd,
        "timestamp": "2020-11-15T10:00:00.000Z", "message": {"role": "user", "content": "do it"}});
    let project = house.home.path().join(".claude/projects").join(cwd.replace('/', "-"));
    fs::create_dir_all(&project).unwrap();
    fs::write(project.join(format!("{id}.jsonl")), format!("{prompt}\n")).unwrap();
    id.to_owned()
}

#[test]
fn what_has_no_price_makes_a_budget_blind_and_fires_nothing() {
    let house = house_at_noon();
    let site = house.home.work_dir("site");
    let _daemon = house.daemon(&[]);
    house.settled();
    let mut agent = StandIn::start_in(&house.home, &site);
    agent.spend(1_000_000);
    let cost = set(&house, &site, &["--max-cost", "0.01", "--per", "month"]);
    let tokens = set(&house, &site, &["--max-tokens", "2000000", "--per", "day"]);
    let blind = until_budget(&house, &cost["id"], "it to be blind", |now| now["spent"]["blind"] != json!([]));
    assert_eq!(blind["spent"]["blind"][0], "no price is known for m", "{blind:#}");
    assert_eq!((&blind["spent"]["cost"], &blind["stage"]), (&Value::Null, &"set".into()));
    let table = house.run(&["fuses"]).ok();
    assert!(
        table.stdout.lines().any(|line| line.contains("a month") && line.contains("blind")),
        "{table:#?}"
    );
    assert!(table.stderr.contains("no price is known for m"), "{table:#?}");
    let inbox = house.run(&["inbox"]).ok();
    assert!(inbox.stdout.contains("(blind)"), "{inbox:#?}");
    // What is counted in tokens needs no price.
    assert_eq!(budget(&house, &tokens["id"])["spent"]["blind"], json!([]));
    let deaf = Deaf::to_claude(&house);
    let unheard = until_budget(&house, &tokens["id"], "it to be unheard", |now| {
        now["spent"]["blind"].to_string().contains("claude-code was not heard")
    });
    assert_eq!(unheard["stage"], "set", "{unheard:#}");
    drop(deaf);
    until_budget(&house, &tokens["id"], "it to be heard again", |now| now["spent"]["tokens"] == 1_000_000);
    assert!(!agent.has_ended());

    // Who only rests is stopped ten seconds after the budget was spent, although nothing changes meanwhile.
    agent.finish();
    until(SOON, "it to rest", || {
        (house.run(&["status", &agent.id, "--json"]).json()["status"] == "idle").then_some(())
    });
    set(&house, &site, &["--max-tokens", "1000", "--per", "week"]);
    until(STOPPED_BY, "the end of who rests", || agent.has_ended().then_some(()));
}

/// The budget of a folder as it lies on disk.
fn stored(house: &House, id: &str, folder: &Path, more: &Value) {
    let mut fuse = json!({
        "id": id, "directory": folder, "sessionId": null, "adapter": null, "configRoot": null, "slot": null,
        "label": null, "setAt": "2026-01-01T00:00:00Z", "expiresAt": null, "maxTokens": 10, "maxCost": null,
        "per": "day", "stage": "set", "stageAt": "2026-01-01T00:00:00Z", "spent": null,
        "onExpire": {"script": null, "webhook": null, "event": null},
    });
    for (key, value) in more.as_object().unwrap() {
        fuse[key] = value.clone();
    }
    let book = json!({"version": 1, "fuses": [fuse]}).to_string();
    fs::write(house.home.agentctl_home().join("fuses.json"), book).unwrap();
}

#[test]
fn a_new_period_begins_with_nothing_spent() {
    let house = house();
    let site = house.home.work_dir("site");
    let mut agent = StandIn::start_in(&house.home, &site);
    agent.spend(2);
    let mark = house.home.agentctl_home().join(".fired-f-1-1767225600");
    fs::create_dir(&mark).unwrap();
    stored(&house, "f-1", &site, &json!({"stage": "spent"}));
    let free = house.home.agentctl(&["launch", "claude-code", "-p", "x", "--cwd", site.to_str().unwrap()]);
    assert!(!free.stderr.contains("is spent"), "no daemon is needed for that: {free:#?}");
    let _daemon = house.daemon(&[]);
    let now = until_budget(&house, &"f-1".into(), "the new period", |now| now["stage"] == "set");
    assert_eq!(now["spent"]["tokens"], 2);
    until(SOON, "the mark of the old period to be gone", || (!mark.exists()).then_some(()));
    agent.spend(8);
    until(SOON, "the end of the agent", || agent.has_ended().then_some(()));
}

#[test]
fn every_period_is_warned_of_anew() {
    let house = house();
    let site = house.home.work_dir("site");
    let agent = StandIn::start_in(&house.home, &site);
    stored(&house, "f-1", &site, &json!({"stage": "warned"}));
    let _daemon = house.daemon(&[]);
    house.settled();
    let mut events = Listener::open(&house, "type=fuse.warned", None);
    until_budget(&house, &"f-1".into(), "the new period", |now| now["stage"] == "set");
    agent.spend(8);
    assert_eq!(events.next()["fuse"]["id"], "f-1");
}

#[test]
fn a_day_begins_at_midnight_of_this_machine() {
    let house = house();
    let site = house.home.work_dir("site");
    let agent = StandIn::start_in(&house.home, &site);
    stored(&house, "f-1", &site, &json!({}));
    let refused = until_seen(SOON, "a launch that is refused", || {
        agent.spend(10);
        let on = ["launch", "claude-code", "-p", "x", "--cwd", site.to_str().unwrap()];
        let mut command = house.home.agentctl_command(&on);
        command.env("TZ", "JST-9");
        let launched = house.home.run(command);
        if launched.code == Some(7) { Ok(launched) } else { Err(format!("{launched:#?}")) }
    });
    assert!(refused.stderr.contains("00:00 JST"), "{refused:#?}");
}

/// If the daemon is killed between any two steps, the sessions are stopped and it is told once.
#[test]
fn a_daemon_killed_at_any_step_tells_once_and_stops_all() {
    if !agentctl_testkit::has_fault_points() {
        return skip("only debug builds have fault points");
    }
    let house = house();
    let steps = ["begin", "written", "synced", "renamed", "done"];
    // The first write records that the budget is reached, the second that its sessions are interrupted.
    let mut points: Vec<String> = steps.map(|step| format!("fuses.{step}#1")).into();
    points.extend(["budget.reached", "budget.told", "outbox.begin", "outbox.renamed"].map(str::to_owned));
    points.extend(steps[..3].iter().map(|step| format!("fuses.{step}#2")));
    points.push("budget.interrupted".to_owned());
    if std::env::var_os("AGENTCTL_LONG").is_some() {
        // After that the next daemon gives the sessions their ten seconds.
        points.extend(steps[3..].iter().map(|step| format!("fuses.{step}#2")));
        points.push("budget.stopped".to_owned());
    }
    let other = house.home.work_dir("other");
    let mut elsewhere = StandIn::start_in(&house.home, &other);
    elsewhere.spend(100);
    for (number, point) in points.iter().enumerate() {
        let (ran, receiver) = (house.home.path().join(format!("ran-{number}")), Receiver::start(&[]));
        let (id, site) = (format!("f-{number}"), house.home.work_dir(&format!("site-{number}")));
        let mut agent = StandIn::start_in(&house.home, &site);
        agent.spend(10);
        let script = format!("echo ran >> {}", ran.display());
        let does = json!({"script": script, "webhook": receiver.url, "event": null});
        stored(&house, &id, &site, &json!({ "onExpire": does }));
        let mut command = house.home.agentctl_command(&["daemon", "run"]);
        command.env("AGENTCTL_FAULT", point);
        let mut doomed = Background::spawn(&house.home, command);
        assert_eq!(doomed.wait(SOON).code(), None, "it dies at {point}: {}", doomed.stderr());
        let mut next = house.daemon(&[]);
        until(SOON, "the end of the agent", || agent.has_ended().then_some(()));
        until(SOON, "an empty outbox", || (crate::webhooks::pending(&house) == 0).then_some(()));
        let told = receiver.accepted(1);
        let deliveries: Vec<_> = told.iter().map(|one| one.header("X-Agentctl-Delivery")).collect();
        assert!(
            deliveries.iter().all(|one| *one == deliveries[0] && one.unwrap().starts_with(&id)),
            "{point}"
        );
        until(SOON, "the script", || fs::read_to_string(&ran).ok().filter(|text| !text.is_empty()));
        assert!(budget(&house, &id.as_str().into())["stage"] != "set", "{point}");
        next.signal(Signal::TERM);
        next.wait(SOON);
        assert_eq!(fs::read_to_string(&ran).unwrap(), "ran\n", "{point}: once");
        assert!(!elsewhere.has_ended(), "{point}");
    }
    let left = fs::read_dir(house.home.agentctl_home()).unwrap().flatten().map(|entry| entry.path());
    let left: Vec<PathBuf> = left.filter(|path| path.extension().is_some_and(|end| end == "new")).collect();
    assert!(left.is_empty(), "{left:?}");
}
