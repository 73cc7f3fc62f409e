//! The measurements as a table for people and as JSON for programs.

use std::time::Duration;

use serde_json::{Value, json};

use super::measure::Cost;

/// Several runs of one command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Timing {
    pub(crate) min: Duration,
    pub(crate) median: Duration,
    /// The median processor time; zero where it was not measured.
    pub(crate) cpu: Duration,
    pub(crate) peak_kib: u64,
}

impl Timing {
    /// `None` without any runs.
    pub(crate) fn of(costs: &[Cost]) -> Option<Self> {
        let sorted = |pick: fn(&Cost) -> Duration| {
            let mut all: Vec<Duration> = costs.iter().map(pick).collect();
            all.sort_unstable();
            all
        };
        let (walls, cpus) = (sorted(|cost| cost.wall), sorted(|cost| cost.cpu));
        let peak_kib = costs.iter().map(|cost| cost.peak_kib).max()?;
        Some(Self {
            min: *walls.first()?,
            median: walls[walls.len() / 2],
            cpu: cpus[cpus.len() / 2],
            peak_kib,
        })
    }

    fn cpu(&self) -> Option<Duration> {
        Some(self.cpu).filter(|cpu| !cpu.is_zero())
    }

    /// The most memory, where it was measured.
    fn peak(&self) -> Option<u64> {
        Some(self.peak_kib).filter(|kib| *kib > 0)
    }
}

/// One measured command.
pub(crate) struct Measured {
    pub(crate) command: String,
    pub(crate) sessions: usize,
    pub(crate) bytes: u64,
    pub(crate) agentctl: Timing,
    /// The physical limit, if there is one, and the number of threads that reached it.
    pub(crate) limit: Option<(Timing, usize)>,
}

impl Measured {
    fn ratio(&self, pick: fn(&Timing) -> Duration) -> Option<f64> {
        let (limit, _) = self.limit.as_ref()?;
        Some(pick(&self.agentctl).as_secs_f64() / pick(limit).as_secs_f64().max(1e-9))
    }

    fn ratio_of_cpu(&self) -> Option<f64> {
        let limit = self.limit.as_ref()?.0.cpu()?;
        Some(self.agentctl.cpu()?.as_secs_f64() / limit.as_secs_f64())
    }
}

fn ms(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

pub(crate) fn json(all: &[Measured]) -> Value {
    let timing = |timing: &Timing| json!({"minMs": ms(timing.min), "medianMs": ms(timing.median), "cpuMs": timing.cpu().map(ms), "peakKib": timing.peak()});
    let rows: Vec<Value> = all
        .iter()
        .map(|row| {
            json!({
                "command": row.command, "sessions": row.sessions, "bytes": row.bytes,
                "agentctl": timing(&row.agentctl), "limit": row.limit.as_ref().map(|(limit, _)| timing(limit)),
                "limitThreads": row.limit.as_ref().map(|(_, threads)| threads),
                "ratioMin": row.ratio(|timing| timing.min), "ratioMedian": row.ratio(|timing| timing.median),
                "ratioCpu": row.ratio_of_cpu(),
            })
        })
        .collect();
    Value::from(rows)
}

#[allow(clippy::cast_precision_loss, reason = "shown with three digits")]
pub(crate) fn table(all: &[Measured]) -> String {
    let mut rows = vec![
        [
            "command",
            "sessions",
            "MB",
            "min ms",
            "median ms",
            "cpu ms",
            "limit ms",
            "limit cpu",
            "threads",
            "x median",
            "x cpu",
            "peak MB",
        ]
        .map(str::to_owned),
    ];
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    for row in all {
        let limit = row.limit.as_ref();
        let two_digits = |value: f64| format!("{value:.2}");
        let milliseconds = |time: Duration| two_digits(ms(time));
        rows.push([
            row.command.clone(),
            row.sessions.to_string(),
            format!("{:.0}", row.bytes as f64 / 1e6),
            milliseconds(row.agentctl.min),
            milliseconds(row.agentctl.median),
            or_dash(row.agentctl.cpu().map(milliseconds)),
            or_dash(limit.map(|(limit, _)| milliseconds(limit.median))),
            or_dash(limit.and_then(|(limit, _)| limit.cpu()).map(milliseconds)),
            or_dash(limit.map(|(_, threads)| threads.to_string())),
            or_dash(row.ratio(|timing| timing.median).map(two_digits)),
            or_dash(row.ratio_of_cpu().map(two_digits)),
            or_dash(row.agentctl.peak().map(|kib| format!("{:.1}", kib as f64 / 1024.0))),
        ]);
    }
    let mut widths = [0; 12];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |row: &[String; 12]| {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        cells.collect::<Vec<_>>().join("  ")
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Cost, Measured, Timing, json, table};

    fn timing(ms: &[u64]) -> Timing {
        let cost = |&n: &u64| Cost {
            wall: Duration::from_millis(n),
            cpu: Duration::from_millis(3 * n),
            peak_kib: n * 1024,
        };
        Timing::of(&ms.iter().map(cost).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn min_medians_and_peak() {
        let got = timing(&[9, 1, 5]);
        assert_eq!((got.min.as_millis(), got.median.as_millis(), got.peak_kib), (1, 5, 9 * 1024));
        assert_eq!(got.cpu.as_millis(), 15);
        assert_eq!(Timing::of(&[]), None);
    }

    #[test]
    fn a_row_shows_the_ratio_to_the_limit() {
        let mut row = Measured {
            command: "list --all".to_owned(),
            sessions: 100,
            bytes: 30_000_000,
            agentctl: timing(&[20, 30, 40]),
            limit: Some((timing(&[10, 15, 20]), 2)),
        };
        let shown = table(std::slice::from_ref(&row));
        let last: Vec<&str> = shown.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(
            &last[2..],
            ["100", "30", "20.00", "30.00", "90.00", "15.00", "45.00", "2", "2.00", "2.00", "40.0"]
        );
        row.limit = None;
        assert!(json(&[row])[0]["ratioMin"].is_null());
    }
}
