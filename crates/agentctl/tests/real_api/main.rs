//! Real agents through HTTP alone: launched, refused, answered, spoken to, stopped, resumed; and what is
//! reported about them while they work.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests start processes and stop at surprises"
)]

mod alike;
mod feeds;
#[path = "../daemon/house.rs"]
#[allow(dead_code, reason = "another test's room, of which a part is used")]
mod house;
mod life;
#[path = "../steer/mod.rs"]
mod steer;

use std::os::unix::net::UnixStream;

use agentctl_testkit::{Background, until_seen};
use house::{Reply, exchange};
use serde_json::Value;
use steer::{Scene, TIMEOUT};

/// A daemon in the home of a scene, and a client for it.
pub(crate) struct Api<'s> {
    pub(crate) scene: &'s Scene,
    pub(crate) daemon: Background,
}

impl<'s> Api<'s> {
    pub(crate) fn open(scene: &'s Scene, variables: &[(&str, &str)]) -> Self {
        let mut command = scene.home.agentctl_command(&["daemon", "run"]);
        command.envs(variables.iter().copied());
        let api = Self { scene, daemon: Background::spawn(&scene.home, command) };
        until_seen(TIMEOUT, "the daemon to serve", || match api.try_ask("GET", "/healthz", "") {
            Some(reply) if reply.status == 200 => Ok(()),
            other => Err(format!("{other:?} {}", api.daemon.stderr())),
        });
        api
    }

    pub(crate) fn connect(&self) -> Option<UnixStream> {
        let stream = UnixStream::connect(self.scene.home.agentctl_home().join("agentctl.sock")).ok()?;
        stream.set_read_timeout(Some(TIMEOUT)).ok()?;
        Some(stream)
    }

    fn try_ask(&self, method: &str, target: &str, body: &str) -> Option<Reply> {
        exchange(&mut self.connect()?, &request(method, target, body))
    }

    #[track_caller]
    pub(crate) fn ask(&self, method: &str, target: &str, body: &Value) -> Reply {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.try_ask(method, target, &body).expect("the daemon answers")
    }

    /// The response to a successful action.
    #[track_caller]
    pub(crate) fn done(&self, method: &str, target: &str, body: &Value) -> Value {
        let reply = self.ask(method, target, body);
        assert_eq!(reply.status, 200, "{method} {target}: {reply:#?}");
        reply.json()
    }

    #[track_caller]
    pub(crate) fn get(&self, target: &str) -> Value {
        self.done("GET", target, &Value::Null)
    }

    /// Waits until the session is in the wanted state.
    #[track_caller]
    pub(crate) fn becomes(&self, id: &str, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        until_seen(TIMEOUT, what, || {
            let seen = self.ask("GET", &format!("/v1/sessions/{id}"), &Value::Null).json();
            if fits(&seen) { Ok(seen) } else { Err(format!("{seen:#}")) }
        })
    }

    /// Everything that runs beside the daemon has ended, and it keeps no zombie.
    pub(crate) fn wait_for_silence(&self) {
        let pid = self.daemon.pid();
        until_seen(TIMEOUT, "the end of all processes", || {
            let left: Vec<_> = self.scene.processes().into_iter().filter(|(left, _)| *left != pid).collect();
            let children = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
                let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
                let parent = stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse::<u32>().ok()?;
                (parent == pid).then_some(stat)
            });
            let children: Vec<String> = children.collect();
            if left.is_empty() && children.is_empty() {
                Ok(())
            } else {
                Err(format!("{left:#?} {children:#?}"))
            }
        });
    }
}

pub(crate) fn request(method: &str, target: &str, body: &str) -> String {
    format!(
        "{method} {target} HTTP/1.1\r\nHost: agentctl\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}
