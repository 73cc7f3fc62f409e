//! Another machine, over a real ssh: what it tells stands beside what this one tells, and an agent is launched and resumed
//! there.

use agentctl_testkit::{Claude, FakeModel, Near, TestHome, skip};

use crate::{Stage, row, store};

#[test]
fn an_agent_is_launched_and_resumed_on_another_machine() {
    let Some(near) = Near::set(env!("CARGO_BIN_EXE_agentctl")) else { return };
    let model = FakeModel::start();
    let mut far = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
    if let Err(reason) = Claude::settle(&mut far, &model.url()) {
        return skip(reason);
    }
    let program = near.program_of(&far, "agentctl");
    // Nobody listens at the second one: it has its place, with the reason, and delays nobody.
    near.configure(&format!(
        "[hosts.box]\nssh = \"box\"\nprogram = \"{}\"\ntimeout = \"60s\"\n[hosts.gone]\nssh = \"gone\"\nprogram = \"/nowhere/agentctl\"\n",
        program.display()
    ));
    let (home, _sshd) = near.split();
    let cwd = home.work_dir("here");
    store(
        &home,
        "66666666-0000-4000-8000-000000000001",
        &cwd,
        &[("user", "Done on this one"), ("assistant", "yes")],
    );
    let Some(stage) = Stage::set(home) else { return };
    let there = far.git_repo("there");
    let tab = stage.tab("one");
    tab.sees(".row", "Done on this one");
    tab.sees(".note", "gone");

    // The form asks for the machine, and for the agents of that one.
    tab.key("l");
    tab.choose("Machine", "box");
    tab.choose("Agent", "claude-code");
    tab.fill("Prompt", "[[text:built there]] Build it on the other one");
    tab.fill("Folder", there.to_str().unwrap());
    tab.sees(".command pre", "agentctl launch claude-code --host box --cwd ");
    tab.click("Launch");
    tab.sees(".conversation", "built there");
    tab.sees(".facts", "on box");
    let id = tab.js("location.hash.split('/')[3]").as_str().unwrap().to_owned();
    assert_eq!(tab.js("location.hash.split('/')[2]"), "box");

    // It is taken up again there.
    let _ = far.agentctl(&["stop", &id]).ok();
    tab.sees(&format!("{} .c-status", row(&id)), "stopped");
    tab.fill("Message", "[[text:taken up there]] Go on");
    tab.click("Resume");
    tab.sees(".conversation", "taken up there");

    // What a page may not choose is refused before anybody else is asked, and on this machine too.
    stage.browser.allow(&["403"]);
    for target in ["/v1/sessions?host=box", "/v1/sessions"] {
        for more in ["onCreate: 'true'", "env: {A: 'b'}", "args: ['--x']"] {
            let status = tab.js(&format!(
                "fetch('{target}', {{method: 'POST', body: JSON.stringify({{adapter: 'claude-code', prompt: 'x', cwd: '/', {more}}}), headers: {{'Content-Type': 'application/json', 'X-Agentctl': '1', Authorization: `Bearer ${{sessionStorage.getItem('token')}}`}}}}).then(answer => answer.status)"
            ));
            assert_eq!(status, 403, "{target} {more}");
        }
    }

    // Times, costs and groups of both machines; the one that is not heard is named.
    tab.go("#/timeline");
    tab.sees(".lane a", "Done on this one");
    tab.sees(".lane a", "box");
    tab.sees(".hint", "Without gone: not heard.");
    tab.go("#/usage");
    tab.sees(".total", "2 sessions");
    let mut group = far.agentctl_command(&[
        "launch",
        "-p",
        "[[bash:echo dark > theme.css]] [[text:It is dark]] Dark mode",
        "--adapter",
        "claude-code",
        "--permission-mode",
        "bypass",
        "--group",
        "dark",
        "--worktree",
        there.to_str().unwrap(),
        "--branch",
        "dark",
    ]);
    group.current_dir(&there);
    let _ = far.run(group).ok();
    tab.go("#/groups");
    tab.sees(".card", "dark");
    tab.click_on(".card a");
    tab.sees(".slot dd", "box");
    tab.sees(".slot dd", "1 file");
    tab.click("Diff");
    tab.sees(".diff .added", "+dark");
    stage.browser.assert_no_trouble();
}
