//! A real agent on another machine that is reached over a nats-server: every verb in the middle of its turns.

use std::fs;

use agentctl_testkit::{NatsServer, TestHome, skip, until_seen};

use crate::claude::CLAUDE_CODE;
use crate::road::Road;
use crate::steer::TIMEOUT;
use crate::{Stage, rounds};

/// Somebody who asks the machines of a bus, and the server between them.
pub(crate) struct Desk {
    pub(crate) home: TestHome,
    server: NatsServer,
}

impl Desk {
    /// `None`, with a printed reason, where there is no nats-server.
    pub(crate) fn set() -> Option<Self> {
        let home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
        let server = match NatsServer::start(&home, "") {
            Ok(server) => server,
            Err(reason) => {
                skip(reason);
                return None;
            }
        };
        let desk = Self { home, server };
        desk.configure(&desk.home, "asker = \"ann\"");
        let _ = desk.home.agentctl(&["hosts", "init"]).ok();
        Some(desk)
    }

    fn configure(&self, home: &TestHome, more: &str) {
        fs::create_dir_all(home.agentctl_home()).unwrap();
        // The scenes ask for permission modes of their own.
        let text = format!("[nats]\nurl = \"{}\"\ntimeout = \"60s\"\n{more}\n", self.server.url());
        fs::write(home.agentctl_home().join("config.toml"), text).unwrap();
    }

    /// Lets the daemon of this home serve under this name, once it is started.
    pub(crate) fn serve(&self, home: &TestHome, name: &str) {
        self.configure(home, &format!("name = \"{name}\"\nserve = \"act\"\nallow = [\"bypass\"]"));
    }

    /// Waits until these machines are heard.
    pub(crate) fn hears(&self, names: &[String]) {
        until_seen(TIMEOUT, "every machine on the bus", || {
            let told = self.home.agentctl(&["hosts", "--json"]).ok().json();
            let is_heard = |name: &String| {
                let rows = told["hosts"].as_array().unwrap();
                rows.iter().any(|row| row["name"] == name.as_str() && row["coverage"] == "complete")
            };
            if names.iter().all(is_heard) { Ok(()) } else { Err(format!("{told:#}")) }
        });
    }
}

#[test]
fn claude_code_is_spoken_to_and_answered_over_nats() {
    let Some(stage) = Stage::set(&CLAUDE_CODE, Road::Nats) else { return };
    rounds::all(&stage);
}
