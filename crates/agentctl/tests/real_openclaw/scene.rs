//! A gateway with a model and a home of its own.

use std::time::Duration;

use agentctl_testkit::{Background, FakeModel, OpenClaw, Skip, TestHome, skip, until_seen};
use serde_json::{Value, json};

pub(crate) const TIMEOUT: Duration = Duration::from_mins(3);

pub(crate) struct Scene {
    pub(crate) model: FakeModel,
    pub(crate) home: TestHome,
    pub(crate) openclaw: OpenClaw,
    pub(crate) gateway: Background,
}

impl Scene {
    /// `None`, with a printed reason, when it is not available here.
    pub(crate) fn set() -> Option<Self> {
        Self::set_with(|_, _| Ok(()))
    }

    /// With more in the home than OpenClaw, before the gateway is started.
    pub(crate) fn set_with(
        furnish: impl FnOnce(&mut TestHome, &FakeModel) -> Result<(), Skip>,
    ) -> Option<Self> {
        let model = FakeModel::start();
        let mut home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
        let settled = OpenClaw::settle(&mut home, &model.url());
        let openclaw = match settled.and_then(|settled| furnish(&mut home, &model).map(|()| settled)) {
            Ok(openclaw) => openclaw,
            Err(reason) => {
                skip(reason);
                return None;
            }
        };
        // On a busy machine a gateway may not answer for seconds.
        let settings = home.path().join(".agentctl/config.toml");
        std::fs::create_dir_all(settings.parent().expect("a folder")).expect("make our folder");
        std::fs::write(settings, "[adapters.openclaw]\ntimeout = \"60s\"\n").expect("write our settings");
        let gateway = openclaw.start(&home);
        Some(Self { model, home, openclaw, gateway })
    }

    pub(crate) fn list(&self) -> Value {
        let all = ["list", "--all", "--since", "all", "--all-agents", "--json", "--adapter", "openclaw"];
        self.home.agentctl(&all).ok().json()
    }

    /// Its sessions, when it could be read. One that takes too long on a busy machine says nothing about any
    /// session.
    pub(crate) fn rows(&self) -> Vec<Value> {
        until_seen(TIMEOUT, "a whole list", || {
            let list = self.list();
            if list["sources"][0]["coverage"] == "complete" {
                return Ok(list["sessions"].as_array().expect("sessions").clone());
            }
            assert_eq!(list["sessions"], json!([]), "{list:#}");
            Err(format!("{list:#}"))
        })
    }

    pub(crate) fn wait_for(&self, key: &str, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let seen = until_seen(TIMEOUT, what, || {
            let rows = self.rows();
            let mut of_key = rows.iter().filter(|row| row["id"] == key);
            let row = of_key.next().cloned().unwrap_or_default();
            assert!(of_key.next().is_none(), "{key} twice: {rows:#?}");
            if fits(&row) { Ok(row) } else { Err(format!("{row:#}")) }
        });
        // The same function answers both (N7); the session may have changed meanwhile.
        let one = self.home.agentctl(&["status", key, "--json"]).ok().json();
        if one["updatedAt"] == seen["updatedAt"] && one["status"] != seen["status"] {
            let again = self.rows().into_iter().find(|row| row["id"] == key).unwrap_or_default();
            assert_eq!(again["status"], one["status"], "{again:#} {one:#}");
        }
        seen
    }

    /// The session object that `launch` returns. On a busy machine a new gateway competes with its own
    /// helpers for its database, and turns fail until that is over.
    pub(crate) fn launch(&self, words: &str, flags: &[&str]) -> Value {
        until_seen(TIMEOUT, "a gateway that is at one with itself", || {
            let launch = [&["launch", "openclaw", "-p", words, "--json"], flags].concat();
            let launched = self.home.agentctl(&launch);
            if launched.code == Some(1) && launched.stderr.contains("another OpenClaw process owns") {
                return Err(format!("{launched:?}"));
            }
            Ok(launched.ok().json())
        })
    }

    /// The key of a session that was launched.
    pub(crate) fn launch_key(&self, words: &str) -> String {
        self.launch(words, &[])["id"].as_str().expect("its key").to_owned()
    }
}

pub(crate) fn words(row: &Value) -> (&str, Option<&str>) {
    (row["status"].as_str().unwrap_or("missing"), row["outcome"].as_str())
}
