//! The daemon asks other machines for a caller over HTTP.

use agentctl_testkit::{Background, until};
use serde_json::{Value, json};

use crate::alike::house::{Reply, exchange};
use crate::{FAR, NEAR, PATIENCE, Scene, transcript};

#[test]
fn the_daemon_asks_in_the_place_of_its_caller() {
    let Some(scene) = Scene::with_box() else { return };
    transcript(&scene.home, NEAR, "here");
    transcript(&scene.far, FAR, "there");
    let mut command = scene.home.agentctl_command(&["daemon", "run"]);
    command.env_remove("AGENTCTL_NO_DAEMON").env_remove("SSH_AUTH_SOCK");
    let _daemon = Background::spawn(&scene.home, command);
    let socket = scene.home.agentctl_home().join("agentctl.sock");
    let ask = |method: &str, target: &str, body: &Value| -> Reply {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        until(PATIENCE, "the daemon to answer", || {
            let mut stream = std::os::unix::net::UnixStream::connect(&socket).ok()?;
            let request = format!(
                "{method} {target} HTTP/1.1\r\nHost: agentctl\r\nConnection: close\r\n\
                 Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            exchange(&mut stream, &request)
        })
    };
    let get = |target: &str| ask("GET", target, &Value::Null);
    let rows = get("/v1/hosts").json();
    let names: Vec<&str> =
        rows["hosts"].as_array().unwrap().iter().map(|row| row["coverage"].as_str().unwrap()).collect();
    assert_eq!(names, ["complete", "complete"], "{rows:#}");
    let both = get("/v1/sessions?since=all&host=all&sort=name").json();
    let mut hosts: Vec<&str> =
        both["sessions"].as_array().unwrap().iter().map(|one| one["host"].as_str().unwrap()).collect();
    hosts.sort_unstable();
    let mut expected = ["box", both["host"].as_str().unwrap()];
    expected.sort_unstable();
    assert_eq!(hosts, expected, "{both:#}");
    assert_eq!(
        get("/v1/sessions?since=all&host=all&limit=1").json()["sessions"].as_array().unwrap().len(),
        1
    );
    let one = get("/v1/sessions/bbbb?host=box").json();
    assert_eq!((&one["id"], &one["host"]), (&FAR.into(), &"box".into()), "{one:#}");
    let said = get("/v1/sessions/bbbb/messages?host=box&limit=5").json();
    assert_eq!(said["entries"][0]["text"], "there", "{said:#}");
    assert_eq!(get("/v1/sessions/aaaa?host=local").json()["id"], NEAR);
    assert_eq!((get("/v1/sessions/bbbb").status, get("/v1/sessions/aaaa?host=box").status), (404, 404));
    let stopped = ask("POST", "/v1/sessions/bbbb/stop?host=box", &json!({})).json();
    assert_eq!(stopped["sessions"][0]["wasStopped"], true, "{stopped:#}");
    for (target, code) in [
        ("/v1/sessions/bbbb?host=nobody", "usage"),
        ("/v1/events?host=box&host=local", "usage"),
        ("/v1/daemon?host=box", "usage"),
        ("/v1/inbox?host=box&host=local", "usage"),
    ] {
        let refused = get(target);
        assert_eq!((refused.status, refused.json()["code"].as_str()), (400, Some(code)), "{target}");
    }

    // A key that is not let in: the daemon has no agent, and is told how to get one.
    let folder = scene.home.work_dir("ssh");
    std::fs::copy(folder.join("stranger.pub"), folder.join("authorized")).unwrap();
    for entry in std::fs::read_dir(scene.home.agentctl_home().join("ssh")).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    let rows = get("/v1/hosts").json();
    assert!(rows["hosts"][1]["hint"].as_str().unwrap().contains("SSH_AUTH_SOCK"), "{rows:#}");
    let lost = get("/v1/sessions/bbbb?host=box");
    assert_eq!((lost.status, lost.json()["code"].as_str()), (503, Some("incomplete")), "{lost:?}");
    assert!(lost.json()["hint"].as_str().unwrap().contains("SSH_AUTH_SOCK"));
}
