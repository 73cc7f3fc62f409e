//! Counts on two cores: among hundreds of thousands of calls, telling copies apart takes a good part of the time.

use std::sync::{Mutex, PoisonError};

use agentctl_model::Call;
use agentctl_model::usage::{By, Counting, Part, Spender, UsageReport, Window};
use jiff::tz::TimeZone;

use crate::read::prices::{self, Prices, table::Table};

/// Fewer calls are counted sooner than a thread starts.
const WORTH_A_THREAD: usize = 20_000;

/// What was spent, at the user's prices, or else at those of the table.
pub(super) fn count(
    spenders: &[Spender],
    by: (By, &TimeZone),
    window: Window,
    prices: &Prices,
) -> UsageReport {
    let counting = Counting::new(spenders, by, window);
    let mut adapters = counting.adapters();
    let calls: usize = adapters.iter().map(|(_, calls)| calls).sum();
    // The longest first, so that nobody waits for one that began last.
    adapters.sort_by_key(|(_, calls)| std::cmp::Reverse(*calls));
    let left = Mutex::new(adapters.iter());
    let work = || -> Vec<(&str, Part<'_>)> {
        // A table remembers what was looked up, so each thread has its own.
        let table = Table::default();
        let price = |adapter: &str, call: &Call| prices::of_call(prices, &table, adapter, call);
        let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
        std::iter::from_fn(next).map(|(adapter, _)| (*adapter, counting.part(adapter, &price))).collect()
    };
    let mut parts = std::thread::scope(|scope| {
        let beside = (calls >= WORTH_A_THREAD)
            .then(|| std::thread::Builder::new().spawn_scoped(scope, work))
            .and_then(Result::ok);
        let mut parts = work();
        if let Some(beside) = beside {
            parts.extend(beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        parts
    });
    // Sums do not depend on who was faster.
    parts.sort_by_key(|(adapter, _)| *adapter);
    counting.report(parts.into_iter().map(|(_, part)| part).collect())
}
