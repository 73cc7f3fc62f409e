//! Notices: one for each need, over restarts too; each provider in its own shape; nothing in quiet hours; no secret anywhere.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agentctl_testkit::{Background, Signal, skip, until, until_seen};
use serde_json::{Value, json};

use crate::house::{House, SOON};
use crate::stand_in::StandIn;
use crate::webhooks::{Mood, Received, Receiver};

const TOKEN: &str = "123456:AAsecret-token_x";
const KEY: &str = "services-T0-B0-slacksecret";

/// Three providers on loopback, and the files with their secrets.
struct Providers {
    ntfy: Receiver,
    slack: Receiver,
    telegram: Receiver,
    folder: PathBuf,
}

impl Providers {
    fn start(house: &House) -> Self {
        let folder = house.home.path().join("secrets");
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir_all(house.home.agentctl_home()).unwrap();
        let start = || Receiver::start(&[]);
        let providers = Self { ntfy: start(), slack: start(), telegram: start(), folder };
        fs::write(providers.folder.join("token"), format!("{TOKEN}\n")).unwrap();
        let address = providers.slack.url.replace("/hook", &format!("/{KEY}"));
        fs::write(providers.folder.join("slack"), address).unwrap();
        providers
    }

    fn configure(&self, house: &House, more: &str, text: bool) {
        let base = |receiver: &Receiver| receiver.url.replace("/hook", "");
        let (file, text) =
            (|name: &str| self.folder.join(name).display().to_string(), format!("text = {text}"));
        let config = format!(
            "[notify]\n{more}\n\
             ntfy = {{url = \"{}/agents\", tokenFile = \"{}\", {text}}}\n\
             slack = {{urlFile = \"{}\", {text}}}\n\
             telegram = {{chat = -100, tokenFile = \"{}\", url = \"{}\", {text}}}\n",
            base(&self.ntfy),
            file("token"),
            file("slack"),
            file("token"),
            base(&self.telegram),
        );
        fs::write(house.home.agentctl_home().join("config.toml"), config).unwrap();
    }
}

fn configure(house: &House, lines: &str) {
    fs::create_dir_all(house.home.agentctl_home()).unwrap();
    fs::write(house.home.agentctl_home().join("config.toml"), format!("[notify]\n{lines}")).unwrap();
}

fn body(received: &Received) -> Value {
    serde_json::from_str(&received.body).unwrap()
}

fn is_seen(house: &House, agents: u64) {
    until(SOON, "the sessions to be seen", || {
        (house.get("/v1/daemon").json()["liveSessions"] == agents).then_some(())
    });
}

fn status_is(house: &House, id: &str, status: &str) {
    until(SOON, status, || {
        let list = house.get("/v1/sessions").json();
        let row = list["sessions"].as_array().unwrap().iter().find(|row| row["id"] == id)?;
        (row["status"] == status).then_some(())
    });
}

/// It goes on, which the daemon sees, and then waits with another request.
fn waits_anew(house: &House, agent: &StandIn) {
    let mut command = house.home.agentctl_command(&["events", "--snapshot"]);
    command.env_remove("AGENTCTL_NO_DAEMON");
    let mut events = Background::spawn(&house.home, command);
    until(SOON, "the stream of events", || events.stdout().contains("snapshot").then_some(()));
    agent.spend(1);
    agent.say("busy");
    until_seen(SOON, "the daemon to see that it goes on", || {
        let heard = events.stdout();
        if heard.contains("\"session.running\"") { Ok(()) } else { Err(heard) }
    });
    events.signal(Signal::KILL);
    events.wait(SOON);
    agent.say("waiting");
}

fn ntfy_only(receiver: &Receiver) -> String {
    format!("ntfy = {{url = \"{}/agents\"}}\n", receiver.url.replace("/hook", ""))
}

#[test]
fn each_provider_gets_its_own_shape_and_words_only_where_it_may() {
    let house = House::new();
    let providers = Providers::start(&house);
    providers.configure(&house, "", false);
    let folder = house.home.work_dir("web & <co>");
    let _daemon = house.daemon(&[]);
    let agent = StandIn::start_in(&house.home, &folder);
    is_seen(&house, 1);
    agent.say("waiting");
    let all = [&providers.ntfy, &providers.slack, &providers.telegram];
    let [ntfy, slack, telegram] = all.map(|receiver| receiver.accepted(1).remove(0));
    let title = "claude-code in web & <co>";
    let told = body(&ntfy);
    assert!(ntfy.head.starts_with("POST / HTTP/1.1"), "{}", ntfy.head);
    assert_eq!(ntfy.header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
    assert_eq!((&told["topic"], &told["priority"]), (&json!("agents"), &json!(4)), "{told:#}");
    assert!(told["title"].as_str().unwrap().starts_with(title), "{told:#}");
    assert!(slack.head.starts_with(&format!("POST /{KEY} ")), "{}", slack.head);
    let said = body(&slack)["text"].as_str().unwrap().to_owned();
    assert!(said.starts_with("claude-code in web &amp; &lt;co&gt;"), "{said}");
    assert!(telegram.head.starts_with(&format!("POST /bot{TOKEN}/sendMessage ")), "{}", telegram.head);
    assert_eq!(body(&telegram)["chat_id"], "-100");
    for one in [&ntfy, &slack, &telegram] {
        assert_eq!(one.header("content-type"), Some("application/json"));
        assert!(
            !one.body.contains(&agent.id) && !one.body.contains("agentctl "),
            "agent, folder, kind: {}",
            one.body
        );
    }

    // With the words, and the command that answers.
    providers.configure(&house, "", true);
    waits_anew(&house, &agent);
    let words = providers.telegram.accepted(2).remove(1);
    let words = body(&words)["text"].as_str().unwrap().to_owned();
    assert!(words.contains(&format!("agentctl attach {}", agent.id)) || words.contains(&agent.id), "{words}");

    // A provider that fails is asked again, and nobody sees why with its key.
    providers.telegram.will_be([Mood::Error, Mood::Drop]);
    providers.slack.will_be([Mood::Drop]);
    waits_anew(&house, &agent);
    providers.telegram.accepted(3);
    providers.slack.accepted(3);
    let log = until_seen(SOON, "the failure in the log", || {
        let log = fs::read_to_string(house.home.agentctl_home().join("daemon.log")).unwrap();
        if log.contains("500") { Ok(log) } else { Err(log) }
    });
    // A session that its provider refused says until when, and how it goes on then.
    let mut refused = StandIn::start_in(&house.home, &folder);
    is_seen(&house, 2);
    refused.is_refused(4_102_444_800);
    // As long as it works it is not at its limit, whatever was recorded last.
    let now = house.home.agentctl(&["status", &refused.id, "--json"]).ok().json();
    assert_eq!((&now["status"], &now["pending"]), (&json!("running"), &json!([])), "{now:#}");
    refused.kill();
    let words = providers.telegram.accepted(4).remove(3);
    let words = body(&words)["text"].as_str().unwrap().to_owned();
    assert!(
        words.starts_with(&format!("{title} has reached its limit\nuntil 2100-01-01T00:00:00Z: ")),
        "{words}"
    );
    let command = format!("agentctl resume {} MESSAGE --at reset", refused.id);
    assert!(words.ends_with(&command), "{words}");
    let shown = house.run(&["config", "show", "--json"]).ok().stdout
        + &house.run(&["daemon", "status", "--json"]).ok().stdout;
    let told = fs::read_to_string(house.home.agentctl_home().join("notices.json")).unwrap();
    for (what, text) in [("log", &log), ("config and status", &shown), ("notices.json", &told)] {
        for secret in [TOKEN, "AAsecret", KEY, "slacksecret"] {
            assert!(!text.contains(secret), "{secret} in {what}: {text}");
        }
    }
    assert!(shown.contains("tokenFile"), "{shown}");
}

#[test]
fn what_waits_in_the_outbox_holds_no_secret_and_is_for_this_user_alone() {
    let house = House::new();
    let providers = Providers::start(&house);
    providers.configure(&house, "", true);
    for receiver in [&providers.ntfy, &providers.slack, &providers.telegram] {
        receiver.will_be(std::iter::repeat_n(Mood::Error, 1000));
    }
    let _daemon = house.daemon(&[]);
    let agent = StandIn::start(&house.home);
    is_seen(&house, 1);
    agent.say("waiting");
    let outbox = house.home.agentctl_home().join("outbox");
    let files = until_seen(SOON, "three in the outbox", || {
        let all: Vec<PathBuf> = fs::read_dir(&outbox)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_file() && path.extension().is_some_and(|end| end == "json"))
            .collect();
        if all.len() == 3 { Ok(all) } else { Err(format!("{all:?}")) }
    });
    let told = house.home.agentctl_home().join("notices.json");
    for file in files.iter().chain([&told]) {
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600, "{}", file.display());
        // It may have been sent again, and rewritten, meanwhile.
        let text = fs::read_to_string(file).unwrap_or_default();
        assert!(!text.contains("AAsecret") && !text.contains("slacksecret"), "{text}");
    }
    let secrets = [TOKEN, KEY];
    for (pid, line) in house.home.processes() {
        assert!(!secrets.iter().any(|secret| line.contains(secret)), "{pid}: {line}");
    }
}

#[test]
fn one_need_is_told_once_whatever_becomes_of_the_daemon() {
    let house = House::new();
    let receiver = Receiver::start(&[]);
    configure(&house, &ntfy_only(&receiver));
    let mut daemon = house.daemon(&[]);
    let (first, second) = (StandIn::start(&house.home), StandIn::start(&house.home));
    is_seen(&house, 2);
    first.say("waiting");
    receiver.accepted(1);
    for _ in 0..2 {
        daemon.signal(Signal::KILL);
        daemon.wait(SOON);
        daemon = house.daemon(&[]);
        is_seen(&house, 2);
        status_is(&house, &first.id, "waiting");
    }
    // A need that nobody was told of, because no daemon ran when it began.
    daemon.signal(Signal::KILL);
    daemon.wait(SOON);
    second.say("waiting");
    let _daemon = house.daemon(&[]);
    receiver.accepted(2);
    // The next wait of the first is another need. Notices of one provider are sent in their order, so nothing else was told.
    waits_anew(&house, &first);
    receiver.accepted(3);
    assert_eq!(receiver.received().len(), 3, "{:?}", receiver.received());
}

#[test]
fn quiet_hours_are_quiet_and_nothing_is_told_later() {
    let house = House::new();
    let receiver = Receiver::start(&[]);
    // The zone of the test home, which the daemon goes by.
    let now = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
    let hour = |hours: i64| {
        now.checked_add(jiff::SignedDuration::from_hours(hours)).unwrap().strftime("%H:%M").to_string()
    };
    let quiet = |from, to| format!("quiet = \"{}-{}\"\n{}", hour(from), hour(to), ntfy_only(&receiver));
    configure(&house, &quiet(-2, 2));
    let mut daemon = house.daemon(&[]);
    let (first, second) = (StandIn::start(&house.home), StandIn::start(&house.home));
    is_seen(&house, 2);
    first.say("waiting");
    let told = house.home.agentctl_home().join("notices.json");
    until(SOON, "the need in the book", || {
        fs::read_to_string(&told).ok().filter(|book| book.contains(&first.id))
    });
    // The quiet hours are over, and the daemon begins anew.
    configure(&house, &quiet(2, 4));
    daemon.signal(Signal::KILL);
    daemon.wait(SOON);
    let _daemon = house.daemon(&[]);
    is_seen(&house, 2);
    second.say("waiting");
    receiver.accepted(1);
    let book = fs::read_to_string(&told).unwrap();
    assert!(book.contains(&second.id), "{book}");
    assert_eq!(receiver.received().len(), 1, "{:?}", receiver.received());
}

#[test]
fn the_desktop_gets_words_that_are_no_flags() {
    let mut house = House::new();
    let heard = house.home.path().join("heard");
    let bin = house.home.work_dir("bin");
    let script = bin.join("notify-send");
    fs::write(
        &script,
        format!(
            "#!/bin/sh\nfor word in \"$@\"; do printf '%s\\n' \"$word\"; done > {}.new\nmv {0}.new {0}\n",
            heard.display()
        ),
    )
    .unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    house.home.put_on_path("notify-send", &script);
    house.home.set_env("LC_ALL", "C.UTF-8");
    configure(&house, "desktop = true\n");
    let folder = house.home.work_dir("--help <b>");
    let _daemon = house.daemon(&[]);
    let agent = StandIn::start_in(&house.home, &folder);
    is_seen(&house, 1);
    agent.say("waiting");
    let words = until(SOON, "the notice", || fs::read_to_string(&heard).ok());
    let words: Vec<&str> = words.lines().collect();
    assert_eq!(words[..5], ["--app-name", "agentctl", "--urgency", "critical", "--"], "{words:?}");
    assert!(words[5].starts_with("claude-code in --help <b> "), "the title is no markup: {words:?}");
    assert!(words[6..].iter().any(|line| line.contains(&agent.id)), "the command that answers: {words:?}");
}

#[test]
fn a_command_that_watches_rings_its_own_terminal() {
    let house = House::new();
    configure(&house, "terminal = true\n");
    let _daemon = house.daemon(&[]);
    let agent = StandIn::start(&house.home);
    let old = StandIn::start_in(&house.home, &house.home.work_dir("old"));
    old.say("waiting");
    is_seen(&house, 2);
    status_is(&house, &old.id, "waiting");
    for (arguments, begins) in [
        (vec!["list", "-w"], agent.id.get(..4).unwrap()),
        (vec!["wait", agent.id.as_str()], "waiting "),
        (vec!["events", "--snapshot"], "\"status\":\"running\""),
    ] {
        agent.say("busy");
        status_is(&house, &agent.id, "running");
        let log = house.home.path().join("typescript");
        let mut watch = recorded(&house, &arguments, &log);
        let shown = |what: &str| {
            until_seen(SOON, "the terminal", || {
                let text = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
                if text.contains(what) {
                    Ok(text)
                } else {
                    Err(format!("{arguments:?}: {}", text.escape_debug()))
                }
            })
        };
        let before = shown(begins);
        assert!(!before.contains("\u{1b}]9;"), "nothing is told of what was so before: {before:?}");
        agent.say("waiting");
        let text = shown("\u{1b}]9;claude-code in work");
        assert_eq!(
            text.matches("\u{1b}]9;").count(),
            1,
            "one need is told once, and the old one not at all: {text:?}"
        );
        watch.signal(Signal::TERM);
        watch.wait(SOON);
    }
    // Into a pipe nothing is rung.
    agent.say("busy");
    status_is(&house, &agent.id, "running");
    let mut piped = Background::spawn(&house.home, house.home.agentctl_command(&["list", "-w"]));
    until(SOON, "the first line", || piped.stdout().contains(&agent.id).then_some(()));
    agent.say("waiting");
    let waits = |line: &str| line.contains(&agent.id) && line.contains("waiting");
    until(SOON, "the change", || piped.stdout().lines().any(waits).then_some(()));
    piped.signal(Signal::TERM);
    piped.wait(SOON);
    let all = piped.stdout() + &piped.stderr();
    assert!(!all.contains('\u{1b}') && !all.contains('\u{7}'), "{all:?}");
}

/// The command in a terminal of its own, everything that it writes there in a file.
fn recorded(house: &House, arguments: &[&str], log: &Path) -> Background {
    let _ = fs::remove_file(log);
    let inner = house.home.agentctl_command(arguments);
    let line = std::iter::once(inner.get_program()).chain(inner.get_args());
    let line: Vec<String> = line.map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    let mut script = house.home.command("script");
    script.args(["-qfec", &format!("exec {}", line.join(" "))]).arg(log).env("TERM", "xterm-256color");
    script.env_remove("AGENTCTL_NO_DAEMON").env_remove("TMUX");
    for (name, value) in inner.get_envs() {
        if let Some(value) = value.filter(|_| name != "TERM" && name != "AGENTCTL_NO_DAEMON") {
            script.env(name, value);
        }
    }
    Background::spawn(&house.home, script)
}

#[test]
fn a_test_says_what_happened_by_each_way() {
    let house = House::new();
    let none = house.run(&["notify", "test"]);
    assert_eq!(none.code, Some(2), "{none:?}");
    let providers = Providers::start(&house);
    providers.configure(
        &house,
        "command = 'test \"$AGENTCTL_EVENT\" = test'\nquiet = \"00:00-23:59\"",
        false,
    );
    let all = house.run(&["notify", "test", "--json"]).ok().json();
    let sent = |all: &Value| -> Vec<(String, bool)> {
        let one = |one: &Value| (one["preset"].as_str().unwrap().to_owned(), one["sent"].as_bool().unwrap());
        all["presets"].as_array().unwrap().iter().map(one).collect()
    };
    let ways = ["command", "ntfy", "slack", "telegram"];
    assert_eq!(sent(&all), ways.map(|way| (way.to_owned(), true)), "{all:#}");
    assert_eq!(body(&providers.slack.accepted(1)[0]), json!({"text": "agentctl tests its notices"}));

    // Each failure with its reason and what to do, and the others are sent all the same.
    providers.telegram.will_be([Mood::Error]);
    fs::remove_file(providers.folder.join("slack")).unwrap();
    let some = house.run(&["notify", "test"]);
    assert_eq!(some.code, Some(1), "{some:?}");
    assert!(
        some.stdout.contains("ntfy: sent") && some.stderr.contains("telegram: the provider answered 500"),
        "{some:?}"
    );
    assert!(some.stderr.contains("secrets/slack") && some.stderr.contains("must be there"), "{some:?}");
    assert!(!some.stderr.contains("AAsecret"), "{some:?}");
    fs::set_permissions(providers.folder.join("token"), fs::Permissions::from_mode(0o666)).unwrap();
    let open = house.run(&["notify", "test", "ntfy"]);
    assert!(open.code == Some(1) && open.stderr.contains("writable by nobody else"), "{open:?}");

    // Mistakes in the settings are named with their places.
    for (lines, words) in [
        ("quiet = \"22-7\"", "22:00-07:00"),
        ("ntfy = {url = \"https://ntfy.sh\"}", "https://ntfy.sh/TOPIC"),
        ("telegram = {chat = \"me\", tokenFile = \"x\"}", "@NAME"),
        ("slack = {url = \"https://x\"}", "urlFile"),
        ("on = [\"wating\"]", "waiting"),
    ] {
        configure(&house, lines);
        let check = house.run(&["config", "check"]);
        assert!(check.code == Some(1) && check.stderr.contains(words), "{lines}: {check:?}");
        assert_eq!(house.run(&["notify", "test"]).code, Some(1), "{lines}");
    }
}

/// A desktop of its own: a screen, a bus, and the real dunst.
struct Desktop {
    _parts: Vec<Part>,
    variables: Vec<(&'static str, String)>,
}

struct Part(std::process::Child);

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Desktop {
    fn start(house: &House) -> Option<Self> {
        for program in ["Xvfb", "dbus-daemon", "dunst", "dunstctl", "notify-send"] {
            if !Command::new("sh")
                .args(["-c", &format!("command -v {program}")])
                .stdout(Stdio::null())
                .status()
                .unwrap()
                .success()
            {
                skip(agentctl_testkit::Skip(format!(
                    "{program} is not installed (Debian: dunst xvfb dbus libnotify-bin)"
                )));
                return None;
            }
        }
        let first_line = |command: &mut Command| {
            let mut child =
                command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
            let mut line = String::new();
            std::io::BufRead::read_line(
                &mut std::io::BufReader::new(child.stdout.take().unwrap()),
                &mut line,
            )
            .unwrap();
            (Part(child), line.trim().to_owned())
        };
        let screen = first_line(Command::new("Xvfb").args([
            "-displayfd",
            "1",
            "-screen",
            "0",
            "800x600x24",
            "-nolisten",
            "tcp",
        ]));
        let bus =
            first_line(Command::new("dbus-daemon").args(["--session", "--nofork", "--print-address=1"]));
        let variables = vec![("DISPLAY", format!(":{}", screen.1)), ("DBUS_SESSION_BUS_ADDRESS", bus.1)];
        let dunst = house
            .home
            .command("dunst")
            .envs(variables.clone())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Some(Self { _parts: vec![Part(dunst), bus.0, screen.0], variables })
    }

    /// What dunst shows or has shown, as text.
    fn shown(&self, house: &House) -> String {
        let asked = |words: &[&str]| {
            let mut dunstctl = house.home.command("dunstctl");
            let answer = dunstctl.args(words).envs(self.variables.clone()).output().unwrap();
            String::from_utf8_lossy(&answer.stdout).into_owned()
        };
        let _ = asked(&["close-all"]);
        asked(&["history"])
    }
}

#[test]
fn a_real_desktop_shows_it() {
    let mut house = House::new();
    let Some(desktop) = Desktop::start(&house) else { return };
    for (name, value) in &desktop.variables {
        house.home.set_env(*name, value);
    }
    configure(&house, "desktop = true\n");
    until_seen(SOON, "a notice that is sent by hand", || {
        let test = house.run(&["notify", "test"]);
        if test.code == Some(0) { Ok(()) } else { Err(format!("{test:?}")) }
    });
    let _daemon = house.daemon(&[]);
    let agent = StandIn::start(&house.home);
    is_seen(&house, 1);
    agent.say("waiting");
    let shown = until_seen(SOON, "both notices on the desktop", || {
        let shown = desktop.shown(&house);
        if shown.contains("claude-code in work") { Ok(shown) } else { Err(shown) }
    });
    assert!(shown.contains("agentctl tests its notices") && shown.contains(&agent.id), "{shown}");
}
