//! Real agents in the middle of their turns: this process, the daemon through the command line, and HTTP
//! report the same.

use agentctl_testkit::{Claude, Codex, OpenCode, until_seen};
use serde_json::{Value, json};

use crate::Api;
use crate::house::forget_moments;
use crate::steer::{Scene, TIMEOUT};

const AGENTS: [&str; 3] = ["claude-code", "codex", "opencode"];

fn scene() -> Option<Scene> {
    Scene::set("three of them", |home, url| {
        Claude::settle(home, url)?;
        Codex::settle(home, url)?;
        OpenCode::settle(home, url, &json!("allow")).map(drop)
    })
}

fn without_moments(mut value: Value) -> Value {
    forget_moments(&mut value);
    value
}

/// What the command line prints, with or without the daemon.
fn said(scene: &Scene, arguments: &[&str], daemon: bool) -> Value {
    let mut command = scene.home.agentctl_command(arguments);
    command.current_dir(&scene.cwd);
    if daemon {
        command.env_remove("AGENTCTL_NO_DAEMON");
    }
    without_moments(scene.home.run(command).ok().json())
}

/// Checks that all three report the same. If an agent writes something in between, nothing was compared, and
/// they are asked again. An agent may also do something and undo it between two looks (a helper process that
/// lives for a moment), so a difference counts once it was seen three times running.
fn agree(api: &Api<'_>, arguments: &[&str], target: &str) -> Value {
    let mut differences = 0;
    until_seen(TIMEOUT, "two looks at the same state", || {
        let before = said(api.scene, arguments, false);
        let asked = api.get("/v1/daemon")["requests"].as_u64().unwrap();
        let through = said(api.scene, arguments, true);
        let more = api.get("/v1/daemon")["requests"].as_u64().unwrap() - asked;
        let over_http = without_moments(api.get(target));
        let after = said(api.scene, arguments, false);
        if before != after {
            return Err(format!("{before:#}\n{after:#}"));
        }
        // These two always survey for themselves, with or without a daemon.
        let asks = !["locks", "inbox"].contains(&arguments[0]);
        // Who gets no answer in time from a daemon that is starved of the processor looks himself.
        if more <= 1 && asks {
            return Err(format!("the daemon was not asked: {arguments:?}"));
        }
        if differences < 2 && (through != before || over_http != before) {
            differences += 1;
            return Err(format!("{before:#}\n{through:#}\n{over_http:#}"));
        }
        assert_eq!(through, before, "through the daemon: {arguments:?}");
        assert_eq!(over_http, before, "over HTTP: {target}");
        Ok(before)
    })
}

#[test]
fn everybody_says_the_same_of_agents_at_work() {
    let Some(scene) = scene() else { return };
    let api = Api::open(&scene, &[]);
    let ids: Vec<String> = AGENTS
        .iter()
        .map(|agent| {
            let cwd = scene.home.git_repo(&format!("of {agent}"));
            let launch = json!({"adapter": agent, "prompt": format!("[[hang:{agent}]] [[text:over]] at work"),
                "cwd": cwd, "permissionMode": "bypass"});
            api.done("POST", "/v1/sessions", &launch)["id"].as_str().unwrap().to_owned()
        })
        .collect();
    let all = |status: &str| {
        let list = agree(&api, &["list", "--json"], "/v1/sessions");
        assert_eq!(list["sessions"].as_array().unwrap().len(), AGENTS.len(), "{list:#}");
        for id in &ids {
            let target = format!("/v1/sessions/{id}");
            let session = agree(&api, &["status", id, "--json"], &target);
            assert_eq!(session["status"], status, "{session:#}");
            agree(&api, &["explain", id, "--json"], &format!("{target}/explain"));
        }
    };
    all("running");
    agree(
        &api,
        &["list", "-a", "--usage", "--all-agents", "--json"],
        "/v1/sessions?all=true&usage=true&all-agents=true",
    );
    agree(&api, &["locks", "--json"], "/v1/locks");
    agree(&api, &["inbox", "--json"], "/v1/inbox");
    for agent in AGENTS {
        scene.model.open(agent);
    }
    for id in &ids {
        api.becomes(id, "the end of the turn", |seen| seen["launch"]["exitedAt"].is_string());
        let session = agree(&api, &["status", id, "--json"], &format!("/v1/sessions/{id}"));
        assert_eq!((&session["status"], &session["outcome"]), (&"stopped".into(), &"completed".into()));
    }
}
