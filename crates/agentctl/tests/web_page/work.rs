//! A person works with real agents by the page.

use agentctl_testkit::{Claude, FakeModel, Tab, TestHome, until, until_seen};
use serde_json::json;

use crate::{PATIENCE, SHOWN, Stage, row, store};

/// A home with Claude Code on the fake model.
pub(crate) fn with_claude(model: &FakeModel) -> Option<Stage> {
    let mut home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
    if let Err(reason) = Claude::settle(&mut home, &model.url()) {
        agentctl_testkit::skip(reason);
        return None;
    }
    Stage::set(home)
}

impl Stage {
    /// Launches an agent that is held, in a folder of its own; its id.
    pub(crate) fn hold(&self, folder: &str, prompt: &str) -> String {
        let cwd = self.home.git_repo(folder);
        let cwd = cwd.to_str().unwrap();
        let launched =
            self.run(&["launch", "claude-code", "-p", prompt, "--cwd", cwd, "--hold", "--json"]).ok().json();
        launched["id"].as_str().unwrap().to_owned()
    }

    fn file(&self, folder: &str, name: &str) -> std::path::PathBuf {
        self.home.work_dir(folder).join(name)
    }
}

/// A command that looks like a patch and has markup in it, and a line longer than any screen, at whose end is what it does.
fn sly() -> String {
    let markup = "<img src=x onerror='window.hacked = 1'>";
    format!("cat > patch <<'E'\n@@ -1 +1 @@\nE\n: \"{markup}\" {}; touch allowed", "x".repeat(2100))
}

/// What a tab that may only look must not have.
const VERBS: [&str; 6] = ["Approve", "Deny", "Interrupt", "Stop", "Send", "Launch…"];

fn verbs(tab: &Tab<'_>) -> Vec<&'static str> {
    let names = tab.texts("button, a.button");
    VERBS.into_iter().filter(|verb| names.iter().any(|name| name.trim() == *verb)).collect()
}

/// A tab that may only look shows a session that waits, and no key does anything there; verbs it has none.
fn only_looks(stage: &Stage, asks: &str) {
    let reader = stage.browser.open("reader", &stage.address(&["--read-only"]));
    reader.click_on(&format!("{} a", row(asks)));
    reader.sees(".request", "This page is read-only.");
    for key in ["y", "n", "i", "x", "x", "s", "l"] {
        reader.key(key);
    }
    assert_eq!(verbs(&reader), [""; 0]);
    reader.click("Sign out");
    reader.sees(".signed-out", "agentctl web");
    reader.becomes("sessionStorage.length", 0);
    // A tab behind another one is drawn once a second, and every click would wait for that.
    stage.browser.ask("close", json!({"tab": "reader"})).unwrap();
}

/// Says yes by click and by key. The whole request is there before, and none of it is markup.
fn approves(stage: &Stage, tab: &Tab<'_>, sly: &str) {
    tab.sees(".request", "touch allowed");
    let lines = "[...document.querySelectorAll('.request .line')].map(line => line.textContent).join('\\n')";
    tab.becomes(lines, format!("Bash: {sly}"));
    tab.sees(".request button:enabled", "Approve");
    assert_eq!(verbs(tab), VERBS);
    tab.key("e");
    tab.sees(".evidence", "pid");
    tab.assert_accessible();
    tab.key("e");
    assert!(!stage.file("site", "allowed").exists());
    tab.click("Approve");
    until(PATIENCE, "the tool that was approved", || stage.file("site", "allowed").exists().then_some(()));

    // By key, but not before a request that is too long to be shown at once was unfolded to its end.
    tab.sees(".request .more", "characters left");
    tab.sees(".request button:enabled", "Deny");
    tab.key("y");
    tab.sees(".request .hint", "Show the whole request before you approve it.");
    tab.click_on(".request .more");
    tab.sees(".request button:enabled", "Approve");
    assert!(!stage.file("site", "long").exists());
    tab.key("y");
    until(PATIENCE, "the second tool", || stage.file("site", "long").exists().then_some(()));
    tab.sees(".entry.agent", "built it");
    tab.click_on(".entry.tool summary");
    tab.sees(".entry.tool .part", "onerror");
    tab.key("d");
    tab.sees(".changes .files", "allowed");
    assert_eq!(
        tab.js("[document.querySelectorAll('#app img').length, typeof window.hacked]"),
        json!([0, "undefined"])
    );
}

/// In the Inbox a letter means the request that has the focus, and no session that is not shown.
fn denies_in_the_inbox(tab: &Tab<'_>) {
    tab.go("#/inbox");
    tab.sees(".card .request pre", "touch refused");
    tab.sees(".card button:enabled", "Deny");
    tab.key("n");
    tab.key("e");
    tab.becomes("location.hash", "#/inbox");
    tab.assert_accessible();
    tab.key("j");
    tab.becomes("document.activeElement.className", "request");
    tab.key("n");
    tab.sees(".card .request pre", "touch rejected");
    tab.fill("Reason, if you deny it (optional)", "not on main");
    tab.click("Deny");
    tab.sees(".empty", "Nobody waits for you.");
}

#[test]
fn a_real_agent_is_seen_answered_spoken_to_and_stopped() {
    let model = FakeModel::start();
    let Some(stage) = with_claude(&model) else { return };
    let tab = stage.tab("one");
    assert!(
        !tab.js("location.href").as_str().unwrap().contains("code="),
        "the code is gone from the address"
    );

    // A change that `list` tells is on the page.
    let (sly, long) = (sly(), format!(": {}\ntouch long", "y".repeat(25_000)));
    let prompt = format!("Build the site [[bash:{sly}]] [[bash:{long}]] [[text:built it]]");
    let asks = stage.hold("site", &prompt);
    tab.sees_within(SHOWN, &format!("{} .c-status", row(&asks)), "waiting");
    tab.sees(".counts", "1 needs you");
    tab.becomes("document.title", "◐ 1 · agentctl");
    tab.sees("h1, .row a", "Build the site");
    tab.becomes("document.getElementById('needs-you').textContent.startsWith('1 session needs you: ')", true);

    only_looks(&stage, &asks);

    tab.click_on(&format!("{} a", row(&asks)));
    approves(&stage, &tab, &sly);
    tab.sees(&format!("{} .c-status", row(&asks)), "idle");
    tab.misses(".request", "");

    // By key: the first press only opens what is pointed at.
    let denied = stage.hold(
        "web",
        "Try that [[bash:touch denied]] [[bash:touch refused]] [[bash:touch rejected]] [[text:left it]]",
    );
    tab.sees_within(SHOWN, &format!("{} .c-status", row(&denied)), "waiting");
    tab.key("Escape");
    tab.misses(".session", "");
    tab.sees("thead", "Status");
    // Who needs a person stands first, but not while the cursor is on another row: that one holds its place.
    let place = |id: &str| format!("document.querySelector(`{}`).getAttribute('aria-rowindex')", row(id));
    tab.becomes(&place(&asks), "3");
    tab.becomes(&place(&denied), "4");
    tab.sees(".waits", "Order waits");
    tab.key("j");
    tab.becomes(&place(&denied), "3");
    tab.misses(".waits", "");
    tab.key("n");
    tab.sees(".request pre", "touch denied");
    // A request that has just appeared is not answered by accident.
    tab.sees(".request button:enabled", "Deny");
    tab.key("n");
    tab.sees(".request pre", "touch refused");

    denies_in_the_inbox(&tab);
    tab.back();
    tab.sees(".entry.agent", "left it");
    assert!(model.requests().iter().any(|seen| seen.body.to_string().contains("not on main")));
    for file in ["denied", "refused", "rejected"] {
        assert!(!stage.file("web", file).exists(), "{file}");
    }

    // No key acts while one types.
    tab.key("s");
    tab.fill("Message", "y n x");
    tab.key("x");
    tab.key("x");
    tab.fill("Message", "[[text:heard you]] One thing more");
    tab.click("Send");
    tab.sees(".conversation", "heard you");
    tab.sees(".conversation", "One thing more");

    // Evidence is one click away.
    tab.click_on(".why");
    tab.sees(".evidence", "pid");
    tab.click("1 process");
    tab.sees("section[aria-label=Processes]", "claude");
    tab.assert_accessible();

    // Stop asks twice; a double click is one press.
    tab.sees(&format!("{} .c-status", row(&denied)), "idle");
    tab.click("Stop");
    tab.sees(".verb-words", "Press Stop again");
    assert_eq!(stage.run(&["status", &denied, "--json"]).ok().json()["status"], "idle");
    // The second press counts for a few seconds, and the command before may have taken longer.
    let is_stopped = || {
        let stop = json!({"tab": "one", "name": "Stop", "within": 2000});
        let _ = stage.browser.ask("click", stop);
        let seen = json!({"tab": "one", "css": format!("{} .c-status", row(&denied)), "text": "stopped", "within": 2000});
        stage.browser.ask("see", seen).map(drop)
    };
    until_seen(PATIENCE, "the second press", is_stopped);
    assert_eq!(stage.run(&["status", &denied, "--json"]).ok().json()["status"], "stopped");

    // Back, forward, reload, and the address of a session.
    tab.go(&format!("#/s/{}/{asks}", tab.js("location.hash.split('/')[2]").as_str().unwrap()));
    tab.sees(".conversation", "built it");
    tab.back();
    tab.sees(".conversation", "left it");
    tab.forward();
    tab.sees(".conversation", "built it");
    tab.reload();
    tab.sees(".conversation", "built it");
    tab.key("t");
    tab.sees(".lane a", "Build the site");
    stage.draws_the_timeline(&tab, &asks);
    stage.browser.assert_no_trouble();
}

#[test]
fn an_agent_is_launched_by_the_form_and_a_group_is_compared() {
    let model = FakeModel::start();
    let Some(stage) = with_claude(&model) else { return };
    let cwd = stage.home.git_repo("project");
    let tab = stage.tab("one");
    tab.key("l");
    tab.sees("h1", "Launch an agent");
    tab.choose("Agent", "claude-code");
    tab.fill("Prompt", "[[tool:AskUserQuestion|{\"questions\":[{\"question\":\"Keep the v5 routes?\",\"header\":\"Routes\",\"multiSelect\":false,\"options\":[{\"label\":\"Keep\",\"description\":\"both\"},{\"label\":\"Drop\",\"description\":\"them\"}]}]}]] [[text:as you say]] It's time");
    tab.fill("Folder", cwd.to_str().unwrap());
    tab.becomes(
        "(line => line.startsWith('agentctl launch claude-code --cwd ') && line.includes(\"--hold -p '\"))(document.querySelector('.command pre').textContent)",
        true,
    );
    tab.click("Launch");
    tab.sees_within(PATIENCE, ".request pre", "Keep the v5 routes?");
    assert!(tab.js("location.hash").as_str().unwrap().starts_with("#/s/"));
    tab.key("a");
    tab.becomes("document.activeElement.closest('.answer') !== null", true);
    tab.click("Drop");
    tab.sees(".conversation", "as you say");
    assert!(
        model.requests().iter().any(|seen| seen.body.to_string().contains("Drop")),
        "the model heard the answer"
    );

    let prompt = "[[bash:echo dark > theme.css]] [[text:It is dark]] Dark mode";
    let two = [
        "launch",
        "-p",
        prompt,
        "--adapter",
        "claude-code",
        "--adapter",
        "claude-code",
        "--permission-mode",
        "bypass",
        "--group",
        "dark",
    ];
    let mut command = stage.home.agentctl_command(&two);
    command.current_dir(&cwd).env_remove("AGENTCTL_NO_DAEMON");
    let _ = stage.home.run(command).ok();
    tab.go("#/groups");
    tab.sees(".card", "dark");
    tab.click_on(".card a");
    // Either slot may be done first.
    tab.becomes(
        "[...document.querySelectorAll('.slot dd')].filter(told => told.textContent.includes('1 file')).length",
        2,
    );
    tab.click("Diff");
    tab.sees(".diff .added", "+dark");
    stage.browser.assert_no_trouble();
}

#[test]
fn the_daemon_dies_and_comes_back() {
    let home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
    let cwd = home.work_dir("w");
    store(&home, "11111111-0000-4000-8000-000000000001", &cwd, &[("user", "First"), ("assistant", "done")]);
    let Some(mut stage) = Stage::set(home) else { return };
    // The browser notes each request that nobody answered.
    stage.browser.allow(&["net::ERR_"]);
    let tabs = ["one", "two"];
    stage.tab("one").sees(".row", "First");
    // The second one is opened at a session.
    let two = stage.browser.open("two", &stage.address(&["11111111"]));
    two.sees(".conversation", "First");
    two.becomes("location.hash.endsWith('/11111111-0000-4000-8000-000000000001')", true);
    two.click("Attach");
    two.sees(".command pre", "agentctl attach 11111111-0000-4000-8000-000000000001");
    stage.kill_daemon();
    for name in tabs {
        let tab = stage.browser.tab(name);
        tab.sees(".banner", "The daemon does not answer");
        tab.sees(".banner", "What you see is from");
        tab.sees(".row", "First");
    }
    store(
        &stage.home,
        "11111111-0000-4000-8000-000000000002",
        &cwd,
        &[("user", "Second"), ("assistant", "done")],
    );
    stage.start_daemon();
    for name in tabs {
        let tab = stage.browser.tab(name);
        tab.sees(".row", "Second");
        tab.misses(".banner", "");
    }
    stage.browser.assert_no_trouble();
}
