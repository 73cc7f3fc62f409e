//! The one function that counts usage: every call once, in the row that it belongs to. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::{Date, ISOWeekDate};
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ByHash, Call};
use crate::session::{SessionKey, Tokens};

/// What the rows of a report are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    #[default]
    Day,
    Week,
    Month,
    Model,
    Adapter,
    Cwd,
    Session,
}

impl By {
    pub const ALL: [Self; 7] =
        [Self::Day, Self::Week, Self::Month, Self::Model, Self::Adapter, Self::Cwd, Self::Session];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Model => "model",
            Self::Adapter => "adapter",
            Self::Cwd => "cwd",
            Self::Session => "session",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|by| by.as_str() == word)
    }

    /// Whether the rows follow one another in time.
    pub fn is_period(self) -> bool {
        matches!(self, Self::Day | Self::Week | Self::Month)
    }
}

/// Where a cost comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The agent's own figure.
    Agent,
    /// The user's prices.
    Config,
    /// The table that comes with agentctl.
    Table,
    /// Several of these.
    Mixed,
}

/// A cost and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Priced {
    pub dollars: f64,
    pub basis: Basis,
}

/// What a call costs by prices; `None` where it has no price.
pub type CallPrice<'p> = dyn Fn(&str, &Call) -> Option<Priced> + 'p;

/// The time that a report is about; both ends may be open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Window {
    pub since: Option<Timestamp>,
    /// The first moment that is not counted.
    pub until: Option<Timestamp>,
}

impl Window {
    /// A call whose time nobody knows cannot be shown to be outside.
    fn has(&self, at: Option<Timestamp>) -> bool {
        at.is_none_or(|at| {
            self.since.is_none_or(|since| at >= since) && self.until.is_none_or(|until| at < until)
        })
    }
}

/// One session, as far as counting needs it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spender {
    pub key: SessionKey,
    /// The machine that it is on.
    pub host: String,
    /// Where the time that counts begins by the clock of another machine, which may differ from the one here.
    #[serde(default)]
    pub since: Option<Timestamp>,
    pub name: Option<String>,
    /// The repository or folder that it works in.
    pub place: Option<String>,
    pub started_at: Option<Timestamp>,
    pub updated_at: Option<Timestamp>,
    /// The session whose sub-agent this is.
    pub subagent_of: Option<String>,
    /// The agent's own figure for everything that the session and its sub-agents spent.
    pub cost: Option<f64>,
    /// The session's sums, for an agent that does not tell its calls apart.
    pub tokens: Option<Tokens>,
    pub model: Option<String>,
    pub calls: Option<Arc<[Call]>>,
    /// Whether the report is about it. The others only show which calls are copies of theirs.
    pub is_counted: bool,
}

/// Tokens, cost and sessions of one row, or of all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Total {
    /// What was counted; a part that no agent reports is `null`.
    pub tokens: Tokens,
    /// US dollars: the sum of what has a price; `null` if nothing has.
    pub cost: Option<f64>,
    /// Where the cost comes from.
    pub cost_basis: Option<Basis>,
    /// How many sessions spent it.
    pub sessions: usize,
}

/// One row of a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageRow {
    /// The day, week, month, model, adapter, folder or session; `null` where the records do not say.
    pub key: Option<String>,
    #[serde(flatten)]
    pub total: Total,
    /// The adapter, in a row of a session.
    pub adapter: Option<String>,
    /// The name, in a row of a session.
    pub name: Option<String>,
    /// The machine, in a row of a session.
    pub host: Option<String>,
}

/// What was spent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageReport {
    pub rows: Vec<UsageRow>,
    pub total: Total,
    /// The models whose tokens are counted and that have no price.
    pub unpriced: Vec<String>,
}

/// How a model is named where the records do not say which it was.
const UNKNOWN: &str = "unknown";

/// What was found, ready to be counted. The part of each adapter is counted for itself, because no call has a copy in the
/// records of another agent; whoever counts may do it in several threads.
pub struct Counting<'s> {
    spenders: &'s [Spender],
    by: By,
    zone: &'s TimeZone,
    window: Window,
    shares: Shares,
    /// The sessions of each adapter by their index, oldest first.
    orders: BTreeMap<&'s str, Vec<usize>>,
    lumps: HashMap<usize, Call>,
}

/// What the sessions of one adapter spent.
#[derive(Debug, Default)]
pub struct Part<'s> {
    rows: Rows<'s>,
    total: Sum<'s>,
    unpriced: BTreeSet<&'s str>,
}

impl<'s> Counting<'s> {
    pub fn new(spenders: &'s [Spender], (by, zone): (By, &'s TimeZone), window: Window) -> Self {
        let order = oldest_first(spenders);
        let lumps = lumps(spenders, &order);
        let mut orders: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for index in order {
            orders.entry(&spenders[index].key.adapter).or_default().push(index);
        }
        Self { spenders, by, zone, window, shares: Shares::of(spenders), orders, lumps }
    }

    /// The adapters with the number of their calls, in the order in which the parts are put together.
    pub fn adapters(&self) -> Vec<(&'s str, usize)> {
        let calls = |index: &usize| self.spenders[*index].calls.as_ref().map_or(0, |calls| calls.len());
        self.orders.iter().map(|(adapter, order)| (*adapter, order.iter().map(calls).sum())).collect()
    }

    /// Counts what one adapter's sessions spent.
    pub fn part<'c>(&'c self, adapter: &str, price: &CallPrice<'_>) -> Part<'c> {
        let Self { spenders, by, zone, window, shares, .. } = self;
        let mut part = Part::default();
        let order = self.orders.get(adapter).map(Vec::as_slice).unwrap_or_default();
        each_call_once(spenders, order, &self.lumps, |index, call| {
            let spender = &spenders[index];
            let at = call.at.or(spender.updated_at).or(spender.started_at);
            let is_free = call.tokens.sum() == 0 && call.cost.is_none_or(|cost| cost <= 0.0);
            let window = Window { since: spender.since.or(window.since), ..*window };
            if is_free || !spender.is_counted || !window.has(at) {
                return;
            }
            let cost = shares.own_cost(index, call).or_else(|| price(adapter, call));
            if cost.is_none() {
                part.unpriced.insert(call.model.as_deref().unwrap_or(UNKNOWN));
            }
            let who = (index, call.agent.as_deref());
            let slot = Slot::of((*by, zone), at, spender, who, call);
            part.rows.of(slot, || RowKey::of(*by, slot, spender)).add(who, call.tokens, cost);
            part.total.add(who, call.tokens, cost);
        });
        part
    }

    /// Puts the parts of all adapters together.
    pub fn report(&self, parts: Vec<Part<'_>>) -> UsageReport {
        let Self { spenders, by, .. } = self;
        let mut total = Sum::default();
        let mut unpriced = BTreeSet::new();
        let mut rows: BTreeMap<RowKey, Sum<'_>> = BTreeMap::new();
        for part in parts {
            total.join(part.total);
            unpriced.extend(part.unpriced);
            for (key, sum) in part.rows.in_order() {
                rows.entry(key).or_default().join(sum);
            }
        }
        let named = |(key, sum): (RowKey, Sum<'_>)| {
            let of = sum.who.iter().next().map(|(index, _)| &spenders[*index]).filter(|_| *by == By::Session);
            UsageRow {
                key: key.shown,
                adapter: of.map(|spender| spender.key.adapter.clone()),
                name: of.and_then(|spender| spender.name.clone()),
                host: of.map(|spender| spender.host.clone()),
                total: sum.into_total(),
            }
        };
        let mut rows: Vec<UsageRow> = rows.into_iter().map(named).collect();
        if !by.is_period() {
            // The most expensive first, then the largest; equal ones by name.
            let weight = |row: &UsageRow| (row.total.cost.unwrap_or(0.0), row.total.tokens.sum());
            rows.sort_by(|one, other| {
                let ((cost, tokens), (other_cost, other_tokens)) = (weight(one), weight(other));
                other_cost.total_cmp(&cost).then(other_tokens.cmp(&tokens)).then(one.key.cmp(&other.key))
            });
        }
        let unpriced = unpriced.into_iter().map(str::to_owned).collect();
        UsageReport { rows, total: total.into_total(), unpriced }
    }
}

/// Counts what these sessions spent in the window, one row for each key, each call once.
pub fn count(
    spenders: &[Spender],
    by: (By, &TimeZone),
    window: Window,
    price: &CallPrice<'_>,
) -> UsageReport {
    let counting = Counting::new(spenders, by, window);
    let parts = counting.adapters().into_iter().map(|(adapter, _)| counting.part(adapter, price)).collect();
    counting.report(parts)
}

/// The sessions by their index, oldest first.
fn oldest_first(spenders: &[Spender]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..spenders.len()).collect();
    order.sort_by_key(|index| {
        let Spender { started_at, updated_at, key, host, .. } = &spenders[*index];
        (started_at.is_none(), *started_at, *updated_at, key, host)
    });
    order
}

/// The sums of the sessions whose agents do not tell their calls apart, by the index of the session.
fn lumps(spenders: &[Spender], order: &[usize]) -> HashMap<usize, Call> {
    // One session on two machines or below two roots is one session: its lump counts once.
    let mut known: HashSet<(&str, &str)> = HashSet::new();
    let lump = |index: &usize| {
        let Spender { key, calls: None, tokens: Some(tokens), model, updated_at, .. } = &spenders[*index]
        else {
            return None;
        };
        let model = model.as_deref().map(Into::into);
        let lump = Call { at: *updated_at, model, tokens: *tokens, ..Call::default() };
        known.insert((&key.adapter, &key.id)).then_some((*index, lump))
    };
    order.iter().filter_map(lump).collect()
}

/// Tells every call of one adapter's sessions with the index of the session that paid for it. Of several copies the one in
/// the oldest session counts: the others were copied from it.
fn each_call_once<'s>(
    spenders: &'s [Spender],
    order: &[usize],
    lumps: &'s HashMap<usize, Call>,
    mut tell: impl FnMut(usize, &'s Call),
) {
    let calls = |index: &usize| spenders[*index].calls.as_deref().unwrap_or_default();
    let most = order.iter().map(|index| calls(index).len()).sum();
    let mut known: HashSet<u64, ByHash> = HashSet::with_capacity_and_hasher(most, ByHash::default());
    for index in order {
        let Some(calls) = &spenders[*index].calls else {
            lumps.get(index).into_iter().for_each(|lump| tell(*index, lump));
            continue;
        };
        let is_new = |call: &&Call| call.name.is_none_or(|name| known.insert(name));
        calls.iter().filter(is_new).for_each(|call| tell(*index, call));
    }
}

/// The agent's figures for whole sessions, as what each call has of them.
struct Shares {
    /// By the index of the session: dollars per unit of weight.
    rates: HashMap<usize, f64>,
}

impl Shares {
    /// An agent's figure is for the session and its sub-agents together, so their calls share it, each by its weight.
    fn of(spenders: &[Spender]) -> Self {
        let with_figure = |spender: &Spender| spender.cost.filter(|cost| *cost > 0.0);
        let mut rates = HashMap::new();
        let with_figures: HashSet<&str> = spenders
            .iter()
            .filter(|spender| with_figure(spender).is_some())
            .map(|spender| spender.key.adapter.as_str())
            .collect();
        // A session that was copied to another machine has its figure there too.
        let mut families: HashMap<(&str, &str, &str, &str), Vec<usize>> = HashMap::new();
        let told = spenders.iter().enumerate();
        for (index, spender) in told.filter(|(_, one)| with_figures.contains(one.key.adapter.as_str())) {
            let head = spender.subagent_of.as_deref().unwrap_or(&spender.key.id);
            let family =
                (spender.host.as_str(), spender.key.adapter.as_str(), spender.key.root.as_str(), head);
            families.entry(family).or_default().push(index);
        }
        for members in families.into_values() {
            // Two files with figures for one session tell the same figure.
            let figure = members.iter().find_map(|index| {
                with_figure(&spenders[*index]).filter(|_| spenders[*index].subagent_of.is_none())
            });
            let calls =
                || members.iter().flat_map(|index| spenders[*index].calls.iter().flat_map(|all| all.iter()));
            // Where the calls have their own figures, the session's is their sum.
            let is_sum = calls().any(|call| call.cost.is_some_and(|cost| cost > 0.0));
            let lumps = members.iter().filter(|index| spenders[**index].calls.is_none());
            let lumps = lumps.filter_map(|index| spenders[*index].tokens).map(weight);
            let whole: f64 = calls().map(|call| weight(call.tokens)).chain(lumps).sum();
            if let Some(figure) = figure.filter(|_| whole > 0.0 && !is_sum) {
                rates.extend(members.into_iter().map(|index| (index, figure / whole)));
            }
        }
        Self { rates }
    }

    /// The agent's figure for this call: its own, or its share of the session's. A figure of 0 for tokens that were
    /// spent is none.
    fn own_cost(&self, index: usize, call: &Call) -> Option<Priced> {
        let own = call.cost.filter(|cost| *cost > 0.0 || call.tokens.sum() == 0);
        let share = || self.rates.get(&index).map(|rate| rate * weight(call.tokens));
        own.or_else(share).map(|dollars| Priced { dollars, basis: Basis::Agent })
    }
}

/// What a call weighs among the calls of one session. The providers' prices stand to each other about like this.
#[expect(clippy::cast_precision_loss, reason = "no session has 2^53 tokens")]
fn weight(tokens: Tokens) -> f64 {
    let of = |count: Option<u64>, factor: f64| count.unwrap_or(0) as f64 * factor;
    of(tokens.input, 1.0) + of(tokens.output, 5.0) + of(tokens.cache_read, 0.1) + of(tokens.cache_write, 1.25)
}

/// Which row a call belongs to, told without writing its key. Several may lead to one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Slot<'s> {
    Day(Option<Date>),
    Text(Option<&'s str>),
    /// A session by its index, or one of its sub-agents.
    Session(usize, Option<&'s str>),
}

impl<'s> Slot<'s> {
    fn of(
        (by, zone): (By, &TimeZone),
        at: Option<Timestamp>,
        spender: &'s Spender,
        (index, agent): (usize, Option<&'s str>),
        call: &'s Call,
    ) -> Self {
        match by {
            By::Day | By::Week | By::Month => Self::Day(at.map(|at| zone.to_datetime(at).date())),
            By::Model => Self::Text(call.model.as_deref()),
            By::Adapter => Self::Text(Some(&spender.key.adapter)),
            By::Cwd => Self::Text(spender.place.as_deref()),
            By::Session => Self::Session(index, agent),
        }
    }
}

/// The key of a row. Sessions are told apart by more than what is shown.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RowKey {
    shown: Option<String>,
    session: Option<(String, Option<String>)>,
}

impl RowKey {
    fn of(by: By, slot: Slot<'_>, spender: &Spender) -> Self {
        let shown = match slot {
            Slot::Day(date) => date.map(|date| match by {
                By::Week => week(date.iso_week_date()),
                By::Month => format!("{:04}-{:02}", date.year(), date.month()),
                _ => date.to_string(),
            }),
            Slot::Text(text) => text.map(str::to_owned),
            Slot::Session(_, agent) => {
                let id = &spender.key.id;
                Some(agent.map_or_else(|| id.clone(), |agent| format!("{id}/{agent}")))
            }
        };
        let is_session = matches!(slot, Slot::Session(..));
        let session = is_session.then(|| (spender.key.adapter.clone(), spender.key.variant.clone()));
        Self { shown, session }
    }
}

/// The rows. A key is written once for each slot, because there are many calls and few rows.
#[derive(Debug, Default)]
struct Rows<'s> {
    sums: Vec<Sum<'s>>,
    by_slot: HashMap<Slot<'s>, usize>,
    by_key: BTreeMap<RowKey, usize>,
    /// The slot that was asked for last: most calls follow another one of the same row.
    last: Option<(Slot<'s>, usize)>,
}

impl<'s> Rows<'s> {
    fn of(&mut self, slot: Slot<'s>, key: impl FnOnce() -> RowKey) -> &mut Sum<'s> {
        let Self { sums, by_slot, by_key, last } = self;
        let index = match *last {
            Some((known, index)) if known == slot => index,
            _ => *by_slot.entry(slot).or_insert_with(|| {
                *by_key.entry(key()).or_insert_with(|| {
                    sums.push(Sum::default());
                    sums.len() - 1
                })
            }),
        };
        *last = Some((slot, index));
        &mut sums[index]
    }

    fn in_order(mut self) -> impl Iterator<Item = (RowKey, Sum<'s>)> {
        self.by_key.into_iter().map(move |(key, index)| (key, std::mem::take(&mut self.sums[index])))
    }
}

fn week(date: ISOWeekDate) -> String {
    format!("{:04}-W{:02}", date.year(), date.week())
}

#[derive(Debug, Default)]
struct Sum<'s> {
    tokens: Tokens,
    cost: Option<f64>,
    basis: Option<Basis>,
    who: BTreeSet<(usize, Option<&'s str>)>,
    /// Who was added last: most calls follow another one of the same session.
    last: Option<(usize, Option<&'s str>)>,
}

impl<'s> Sum<'s> {
    fn add(&mut self, who: (usize, Option<&'s str>), tokens: Tokens, cost: Option<Priced>) {
        self.tokens = self.tokens.plus(tokens);
        if let Some(Priced { dollars, basis }) = cost {
            self.cost = Some(self.cost.unwrap_or(0.0) + dollars);
            self.basis = match self.basis {
                Some(known) if known != basis => Some(Basis::Mixed),
                _ => Some(basis),
            };
        }
        if self.last != Some(who) {
            self.last = Some(who);
            self.who.insert(who);
        }
    }

    fn join(&mut self, other: Self) {
        self.tokens = self.tokens.plus(other.tokens);
        if let Some(dollars) = other.cost {
            self.cost = Some(self.cost.unwrap_or(0.0) + dollars);
            self.basis = match self.basis {
                Some(known) if Some(known) != other.basis => Some(Basis::Mixed),
                _ => other.basis,
            };
        }
        self.who.extend(other.who);
    }

    fn into_total(self) -> Total {
        let Self { tokens, cost, basis, who, last: _ } = self;
        Total { tokens, cost, cost_basis: basis, sessions: who.len() }
    }
}
