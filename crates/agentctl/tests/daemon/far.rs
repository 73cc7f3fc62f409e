//! A gateway whose automations begin and end as the test wants, and that can go away and come back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use agentctl_testkit::agents::openclaw::{Act, Ledger, ScriptedGateway, Step};
use agentctl_testkit::new_uuid;
use serde_json::json;

use crate::house::House;

pub(crate) struct Far {
    ledger: Arc<Mutex<Ledger>>,
    away: Arc<AtomicBool>,
    gateway: ScriptedGateway,
}

impl Far {
    pub(crate) fn of(house: &House) -> Self {
        let (ledger, away) = (Arc::new(Mutex::new(Ledger::default())), Arc::new(AtomicBool::new(false)));
        let (known, gone) = (Arc::clone(&ledger), Arc::clone(&away));
        let gateway = ScriptedGateway::start(move |step| match step {
            Step::Upgrade if gone.load(Ordering::Relaxed) => Act::Cut,
            _ => known.lock().unwrap().answer(step),
        });
        house.has_gateway(gateway.port());
        Self { ledger, away, gateway }
    }

    pub(crate) fn begin(&self) -> String {
        let key = format!("agent:main:cron:{}", new_uuid());
        let row = json!({"key": key, "createdVia": "cron", "hasActiveRun": true, "workspaceDir": "/far"});
        self.ledger.lock().unwrap().rows.push(row);
        self.tell();
        key
    }

    pub(crate) fn end(&self, key: &str) {
        self.ledger.lock().unwrap().row(key)["hasActiveRun"] = json!(false);
        self.tell();
    }

    /// Goes away with all its connections, or comes back.
    pub(crate) fn turn(&self) {
        if !self.away.fetch_xor(true, Ordering::Relaxed) {
            self.gateway.cut_all();
        }
    }

    fn tell(&self) {
        self.gateway.push("sessions.changed", &json!({}));
    }
}
