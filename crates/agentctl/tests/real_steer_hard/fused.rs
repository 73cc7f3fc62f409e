//! A fuse on a session: when its time is used up, the daemon ends the session and nothing else.

use agentctl_testkit::{Background, until_seen};

use crate::scene;
use crate::steer::TIMEOUT;

#[test]
fn a_burnt_fuse_ends_its_session() {
    let Some(scene) = scene() else { return };
    let agentctl = |arguments: &[&str]| {
        let mut command = scene.home.agentctl_command(arguments);
        command.current_dir(&scene.cwd).env_remove("AGENTCTL_NO_DAEMON");
        command
    };
    let _daemon = Background::spawn(&scene.home, agentctl(&["daemon", "run"]));
    until_seen(TIMEOUT, "the daemon", || match scene.home.run(agentctl(&["daemon", "status"])) {
        status if status.code == Some(0) => Ok(()),
        status => Err(format!("{status:#?}")),
    });
    let id = scene.launch("[[hang]] for ever", &[]).ok().json()["id"].as_str().unwrap().to_owned();
    let set = scene.home.run(agentctl(&["fuse", "set", "--session", &id, "--max-time", "2s"]));
    assert_eq!(set.code, Some(0), "{set:#?}");
    let over = until_seen(TIMEOUT, "the end of the session", || {
        let now = scene.status(&id);
        if now["status"] == "stopped" { Ok(now) } else { Err(format!("{now:#}")) }
    });
    assert_eq!(over["outcome"], "interrupted", "the clean way: {over:#}");
}
