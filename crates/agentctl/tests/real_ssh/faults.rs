//! Machines that answer half, garbage, far too much, late, or stop in the middle. The others answer on time, and
//! nothing is concluded.

use std::time::{Duration, Instant};

use agentctl_testkit::{Background, until};
use rustix::process::Signal;

use crate::{FAR, NEAR, PATIENCE, Scene, transcript};

/// A program that greets and then does this with every request.
fn liar(scene: &Scene, name: &str, then: &str) -> String {
    let greeting =
        format!(r#"agentctl-stdio/1 {{"version":"9","host":"x","instance":"{name}","caller":null}}"#);
    let script = scene.script(name, &format!("echo '{greeting}'; read line; {then}"));
    format!("[hosts.{name}]\nssh = \"{name}\"\nprogram = \"{}\"\ntimeout = \"2s\"\n", script.display())
}

#[test]
fn whatever_a_machine_answers_the_others_are_told() {
    let Some(scene) = Scene::set() else { return };
    transcript(&scene.home, NEAR, "here");
    transcript(&scene.far, FAR, "there");
    let ok = "HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\n";
    let liars = [
        liar(&scene, "garbage", "head -c 3000 /dev/urandom; exec cat > /dev/null"),
        liar(&scene, "half", &format!("printf '{ok}Content-Length: 90\\r\\n\\r\\n{{\"asOf\": '; sleep 0.1")),
        liar(
            &scene,
            "slow",
            &format!("printf '{ok}Content-Length: 900\\r\\n\\r\\n'; while printf x; do sleep 0.05; done"),
        ),
        liar(
            &scene,
            "huge",
            &format!("printf '{ok}Content-Length: 52428800\\r\\n\\r\\n'; head -c 52428800 /dev/zero"),
        ),
        liar(
            &scene,
            "endless",
            &format!(
                "printf '{ok}Transfer-Encoding: chunked\\r\\n\\r\\n'; while printf '5\\r\\naaaaa\\r\\n'; do :; done"
            ),
        ),
        liar(&scene, "refuses", "printf 'HTTP/1.1 404 Not Found\\r\\nContent-Length: 4\\r\\n\\r\\nnope'"),
        liar(&scene, "never", "exec cat > /dev/null"),
    ];
    let names = ["box", "endless", "garbage", "half", "huge", "never", "refuses", "slow"];
    let program = scene.far_program();
    let good =
        format!("[hosts.box]\nssh = \"box\"\nprogram = \"{}\"\ntimeout = \"60s\"\n", program.display());
    scene.configure(&format!("{good}{}", liars.concat()));
    let began = Instant::now();
    let list = scene.home.agentctl(&["list", "--since", "all", "--host", "all", "--json"]).ok();
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    let list = list.json();
    let rows: Vec<(&str, &str)> = list["hosts"].as_array().unwrap()[1..]
        .iter()
        .map(|row| (row["name"].as_str().unwrap(), row["coverage"].as_str().unwrap()))
        .collect();
    let expected: Vec<(&str, &str)> =
        names.iter().map(|&name| (name, if name == "box" { "complete" } else { "failed" })).collect();
    assert_eq!(rows, expected, "{list:#}");
    let heard: Vec<&str> =
        list["sessions"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert!(heard.len() == 2 && heard.contains(&NEAR) && heard.contains(&FAR), "{heard:?}");
    for name in &names[1..] {
        let status = scene.home.agentctl(&["status", &format!("{name}/{FAR}")]);
        assert_eq!(status.code, Some(6), "{name}: {status:#?}");
        // It was never asked to do it: it could not even say that it lives.
        let stop = scene.home.agentctl(&["stop", FAR, "--host", name]);
        assert_eq!(stop.code, Some(6), "{name}: {stop:#?}");
    }
}

/// What a machine of another version does not know is refused by name.
#[test]
fn what_an_older_machine_does_not_know_is_refused_by_name() {
    let Some(scene) = Scene::set() else { return };
    let problem = |status: &str, code: &str, detail: &str| {
        let body = format!(
            r#"{{"type":"about:blank","title":"x","status":{status},"detail":"{detail}","code":"{code}","hint":null}}"#
        );
        format!(
            "HTTP/1.1 {status} x\\r\\nContent-Type: application/problem+json\\r\\nContent-Length: {}\\r\\n\\r\\n{body}",
            body.len()
        )
    };
    let old = liar(
        &scene,
        "old",
        &format!(
            "while true; do printf '{}'; read line || exit; done",
            problem("404", "not-found", "there is no GET /v1/inbox")
        ),
    );
    // It answers at once, but the way to it may take its time.
    scene.configure(&old.replace("\"2s\"", "\"30s\""));
    let status = scene.home.agentctl(&["status", "old/5f0c"]);
    assert_eq!(status.code, Some(7), "{status:#?}");
    assert!(status.stderr.contains("agentctl 9 on old does not know this"), "{}", status.stderr);
}

/// A wait never ends for a machine that is not heard, and goes on when it is heard again.
#[test]
fn a_wait_outlives_a_machine_that_stands_still() {
    let Some(scene) = Scene::set() else { return };
    transcript(&scene.far, FAR, "there");
    // While this file is there, nothing new starts on that machine either.
    let still = scene.far.work_dir("machine").join("still");
    let first = format!("while [ -e '{}' ]; do sleep 0.05; done", still.display());
    scene.configure_program(&scene.near.program_with(&scene.far, "agentctl", &first), "8s");
    // The session never runs, so this waits for as long as it is let.
    let command = scene.home.agentctl_command(&["wait", "box/bbbb", "--until", "running", "--timeout", "9m"]);
    let _ = scene.far.run(scene.far_daemon(&["daemon", "start"])).ok();
    let (mut questions, before) = (0, scene.far_requests());
    let mut asked = || {
        questions += 1;
        scene.far_requests() - before - questions
    };
    let mut wait = Background::spawn(&scene.home, command);
    // It looks again and again: the session was found.
    until(PATIENCE, "the other machine to be asked", || (asked() > 3).then_some(()));
    let serving = || {
        let found = scene.far.processes().into_iter().find(|(_, line)| line.contains("__serve-stdio"));
        found.map(|(pid, _)| pid)
    };
    let pid = until(PATIENCE, "what serves it", serving);
    std::fs::write(&still, "").unwrap();
    scene.far.signal(pid, Signal::STOP);
    until(PATIENCE, "the loss to be told", || {
        wait.stderr().contains("box is not heard any more").then_some(())
    });
    assert!(wait.try_wait().is_none(), "{}", wait.stderr());
    std::fs::remove_file(&still).unwrap();
    scene.far.signal(pid, Signal::CONT);
    until(PATIENCE, "its return to be told", || wait.stderr().contains("box is heard again").then_some(()));
    assert!(wait.try_wait().is_none());
    // The same for one that is killed.
    let pid = until(PATIENCE, "the other machine to be asked again", serving);
    scene.far.signal(pid, Signal::KILL);
    assert!(wait.try_wait().is_none());
    wait.signal(Signal::INT);
    assert_eq!(wait.wait(PATIENCE).code(), Some(130));
}
