//! Simulates a busy day of a gateway: cron jobs and posts to its hook run, end, and leave their rows behind.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::ledger::Ledger;

const HOUR: u64 = 60;
const JOBS: u64 = 8;
/// The row of an automation is removed a day after its last run.
const RETENTION: u64 = 24 * HOUR;
/// New runs begin during this time; after it, the running ones only end.
const BUSY: u64 = 26 * HOUR;
const LAST: u64 = BUSY + 20;

/// A day that is the same in every run.
pub struct BusyDay {
    now: u64,
    dice: u64,
    over: HashSet<String>,
}

impl Default for BusyDay {
    fn default() -> Self {
        Self { now: 0, dice: 0x2545_f491_4f6c_dd1d, over: HashSet::new() }
    }
}

impl BusyDay {
    /// The next minute; `None` when the day is over and nothing runs any more.
    pub fn now(&self) -> Option<u64> {
        (self.now <= LAST).then_some(self.now)
    }

    /// Whether the next minute is the last one.
    pub fn is_last(&self) -> bool {
        self.now == LAST
    }

    /// Whether the run with this transcript has ended. A run never starts again.
    pub fn is_over(&self, transcript: &str) -> bool {
        self.over.contains(transcript)
    }

    /// Advances the gateway by one minute.
    pub fn pass(&mut self, ledger: &mut Ledger) {
        self.end_what_is_due(ledger);
        if self.now <= BUSY {
            self.begin(ledger);
        }
        let at_work = ledger.at_work();
        let resting = ledger.rows.iter().filter(|row| !at_work.contains(row["key"].as_str().unwrap_or("")));
        self.over.extend(resting.filter_map(|row| Some(row["sessionId"].as_str()?.to_owned())));
        self.now += 1;
    }

    fn end_what_is_due(&mut self, ledger: &mut Ledger) {
        let now = self.now;
        let due = |one: &Value| one["test"]["until"].as_u64().is_some_and(|until| until <= now);
        for row in ledger.rows.iter_mut().filter(|row| row["hasActiveRun"] == true && due(row)) {
            row["hasActiveRun"] = json!(false);
            row["activeRunIds"] = json!([]);
            row["test"]["ended"] = json!(now);
        }
        ledger.rows.retain(|row| row["test"]["ended"].as_u64().is_none_or(|ended| now - ended < RETENTION));
        // A job ends some time after its row became inactive.
        for job in ledger.jobs.iter_mut().filter(|job| due(job)) {
            job["test"]["until"] = Value::Null;
            job["state"] = json!({"lastRunStatus": if self.roll(9) == 0 { "error" } else { "ok" }});
        }
    }

    fn begin(&mut self, ledger: &mut Ledger) {
        let now = self.now;
        for number in (0..JOBS).filter(|number| now % (15 + number) == *number) {
            self.run_job(ledger, number);
        }
        if self.roll(3) == 0 {
            let until = now + 1 + self.roll(6);
            ledger.rows.push(json!({
                "key": format!("agent:main:cron:hook-{now}"), "sessionId": format!("s-{now}"),
                "createdVia": "cron", "hasActiveRun": true, "updatedAt": moment(now), "test": {"until": until},
            }));
        }
    }

    /// Starts a run of a job. All its runs share a row, each with a new transcript; the job starts a little before its row
    /// and ends a little after it.
    fn run_job(&mut self, ledger: &mut Ledger, number: u64) {
        let (id, now) = (format!("job-{number}"), self.now);
        let until = now + 1 + self.roll(8);
        ledger.jobs.retain(|known| known["id"] != id.as_str());
        ledger.jobs.push(json!({
            "id": id, "name": format!("job {number}"), "state": {"runningAtMs": moment(now)},
            "test": {"until": until + 1},
        }));
        let key = format!("agent:main:cron:{id}");
        *ledger.row(&key) = json!({
            "key": key, "sessionId": format!("g-{number}-{now}"), "createdVia": "cron",
            // The row becomes active later than its job.
            "hasActiveRun": self.roll(2) == 0, "status": "running", "test": {"until": until, "ended": now},
        });
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        self.dice % sides
    }
}

fn moment(minute: u64) -> u64 {
    1_794_700_000_000 + minute * 60_000
}
