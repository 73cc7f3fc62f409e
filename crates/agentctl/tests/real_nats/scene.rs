//! A server, machines that serve it, and somebody who asks.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agentctl_hosts::nats::{BusDoor, NatsRoad, NatsSettings, Serve, TlsFiles};
use agentctl_hosts::{Answer, Ask, Connection, Host, HostName, RoadFailure};
use agentctl_testkit::{Background, NatsServer, TestHome, skip, until_seen};
use serde_json::Value;

use crate::house::House;

pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// A machine with a daemon that serves the bus.
pub(crate) struct Machine {
    pub(crate) name: HostName,
    pub(crate) house: House,
    pub(crate) daemon: Option<Background>,
}

impl Machine {
    /// `more` are further lines of its `[nats]`.
    pub(crate) fn start(name: &str, url: &str, more: &str) -> Self {
        let mut machine = Self { name: named(name), house: House::new(), daemon: None };
        machine.configure(url, more);
        machine.resume();
        machine
    }

    pub(crate) fn configure(&self, url: &str, more: &str) {
        let text = format!("[nats]\nurl = \"{url}\"\nname = \"{}\"\ntimeout = \"20s\"\n{more}\n", self.name);
        write_config(&self.house.home, &text);
    }

    pub(crate) fn resume(&mut self) {
        self.daemon = Some(self.house.daemon(&[]));
    }

    pub(crate) fn daemon(&mut self) -> &mut Background {
        self.daemon.as_mut().unwrap()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.house.home.agentctl_home().join("daemon.log")).unwrap_or_default()
    }
}

/// Somebody who asks, without a daemon.
pub(crate) struct Asker {
    pub(crate) home: TestHome,
}

impl Asker {
    pub(crate) fn new() -> Self {
        Self { home: TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl")) }
    }

    /// `more` are further lines of its `[nats]`.
    pub(crate) fn configure(&self, url: &str, name: &str, more: &str) {
        let own = if more.contains("timeout") { "" } else { "timeout = \"20s\"\n" };
        write_config(&self.home, &format!("[nats]\nurl = \"{url}\"\nasker = \"{name}\"\n{own}{more}\n"));
    }

    /// The rows of other machines; that of this one comes first.
    pub(crate) fn rows(&self) -> Vec<Value> {
        let answer = self.home.agentctl(&["hosts", "--json"]).ok().json();
        let rows = answer["hosts"].as_array().unwrap();
        assert_eq!(rows[0]["via"], "local", "{answer:#}");
        rows[1..].to_vec()
    }

    /// Waits until these machines are heard, and nothing is said of others.
    #[track_caller]
    pub(crate) fn hears(&self, names: &[&str]) {
        until_seen(PATIENCE, "every machine to be heard", || {
            let rows = self.rows();
            let heard = |row: &&Value| row["coverage"] == "complete" && row["via"] == "nats";
            let heard: Vec<&str> =
                rows.iter().filter(heard).map(|row| row["name"].as_str().unwrap()).collect();
            if heard == names && rows.len() == names.len() { Ok(()) } else { Err(format!("{rows:#?}")) }
        });
    }
}

/// A server that lets everybody do everything, with a roster.
pub(crate) fn open_server(asker: &Asker) -> Option<NatsServer> {
    match NatsServer::start(&asker.home, "") {
        Ok(server) => {
            asker.configure(&server.url(), "ann", "");
            let made = asker.home.agentctl(&["hosts", "init"]).ok();
            assert!(made.stdout.contains("roster"), "{made:?}");
            Some(server)
        }
        Err(reason) => {
            skip(reason);
            None
        }
    }
}

pub(crate) fn named(name: &str) -> HostName {
    HostName::parse(name).unwrap()
}

pub(crate) fn write_config(home: &TestHome, text: &str) {
    let folder = home.agentctl_home();
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    // A daemon that reads it meanwhile sees the old one or the new one.
    fs::write(folder.join("config.new"), text).unwrap();
    fs::rename(folder.join("config.new"), folder.join("config.toml")).unwrap();
}

/// The road of a command, without the command.
pub(crate) fn settings(url: &str, asker: &str, key: Option<&Path>) -> NatsSettings {
    NatsSettings {
        url: url.to_owned(),
        creds: None,
        nkey: key.map(Path::to_owned),
        tls: TlsFiles::default(),
        name: named(asker),
        asker: named(asker),
        timeout: Duration::from_secs(20),
        hosts: None,
        history: None,
        serve: Serve::Off,
        allows_bypass: false,
    }
}

pub(crate) fn door(url: &str, asker: &str, key: Option<&Path>) -> Arc<BusDoor> {
    BusDoor::new(settings(url, asker, key))
}

pub(crate) fn connect(door: &Arc<BusDoor>, name: &HostName) -> Result<Box<dyn Connection>, RoadFailure> {
    NatsRoad { door: door.clone(), name: name.clone() }.connect()
}

/// A connection to a machine, once the bus knows it.
#[track_caller]
pub(crate) fn reach(door: &Arc<BusDoor>, name: &HostName) -> Box<dyn Connection> {
    until_seen(PATIENCE, "the machine on the bus", || connect(door, name).map_err(|failure| failure.message))
}

#[track_caller]
pub(crate) fn get(connection: &mut Box<dyn Connection>, target: &str) -> Answer {
    connection.ask(Ask::get(target), PATIENCE).unwrap_or_else(|failure| panic!("{target}: {failure:?}"))
}

#[track_caller]
pub(crate) fn post(connection: &mut Box<dyn Connection>, target: &str, body: &Value) -> (u16, Value) {
    let answer = connection.ask(Ask::write("POST", target, &body.to_string()), PATIENCE);
    let answer = answer.unwrap_or_else(|failure| panic!("{target}: {failure:?}"));
    (answer.status, serde_json::from_slice(&answer.body).unwrap_or(Value::Null))
}
