//! Budgets: what the sessions of a folder have spent in a period. It is counted from the agents' records at the moment of
//! the question; that a budget exists is all that is kept.
//!
//! What was heard is a lower bound: only that can spend a budget. What was not heard, or has no price, makes it blind.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use agentctl_model::usage::{By, Window, count};
use agentctl_model::{Error, Fuse, Outcome, Period, Session, SourceReport, Spent, Surveyed, text};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::Fleet;
use crate::keep::fuses::FuseBook;
use crate::keep::launches::{LaunchFolder, LaunchOrder};
use crate::keep::store::Store;
use crate::read::prices::{self, table};
use crate::read::query::{Query, Since, Wanted};
use crate::worktree::root::{real_path, repository_root, worktree_root};

/// Where the budgets are kept, and by which zone their periods are told.
#[derive(Debug, Clone)]
pub(crate) struct BudgetBook {
    pub(crate) store: Store,
    /// Asked only where a budget is set.
    pub(crate) zone: fn() -> TimeZone,
}

/// A budget as it stands.
#[derive(Debug)]
pub struct BudgetState {
    pub spent: Spent,
    /// The live sessions that it covers, without sub-agents.
    pub live: Vec<Surveyed>,
}

impl Fleet {
    /// Returns the same fleet, which keeps to the budgets of this store.
    #[must_use]
    pub fn with_budgets(self, store: Store, zone: fn() -> TimeZone) -> Self {
        Self { budgets: Some(BudgetBook { store, zone }), ..self }
    }

    /// Counts what was spent of each of these budgets, with one look at all sessions of their periods.
    pub fn budgets(&self, budgets: &[Fuse], now: Timestamp) -> Vec<BudgetState> {
        let zone = self.zone();
        let around = |budget: &Fuse| budget.per.unwrap_or(Period::Day).around(now, &zone);
        let Some(first) = budgets.iter().map(|budget| around(budget).0).min() else { return Vec::new() };
        let named: Option<Vec<String>> = budgets.iter().map(|budget| budget.adapter.clone()).collect();
        let query = Query {
            usage: true,
            calls: true,
            subagents: true,
            adapters: named.unwrap_or_default(),
            ..Query::new(Wanted::All { since: Since::Moment(first) })
        };
        let listing = self.list(&query);
        let state = |budget: &Fuse| {
            let (from, until) = around(budget);
            self.budget_state(budget, (from, until), &listing.sessions, &listing.sources)
        };
        budgets.iter().map(state).collect()
    }

    fn budget_state(
        &self,
        budget: &Fuse,
        (from, until): (Timestamp, Timestamp),
        sessions: &[Surveyed],
        sources: &[SourceReport],
    ) -> BudgetState {
        let mut cover = self.cover(budget);
        let is_covered: Vec<bool> = sessions.iter().map(|one| cover.has(&one.session)).collect();
        let covered =
            || sessions.iter().zip(&is_covered).filter(|(_, covered)| **covered).map(|(one, _)| one);
        let spenders = self.spenders(sessions.iter().cloned().zip(is_covered.iter().copied()).collect());
        let table = table::Table::default();
        let price =
            |adapter: &str, call: &agentctl_model::Call| prices::of_call(&self.prices, &table, adapter, call);
        let window = Window { since: Some(from), until: Some(until) };
        let report = count(&spenders, (By::Adapter, &TimeZone::UTC), window, &price);
        let mut blind: Vec<String> = Vec::new();
        let is_asked = |adapter: &str| budget.adapter.as_deref().is_none_or(|asked| asked == adapter);
        for source in sources.iter().filter(|source| source.is_incomplete() && is_asked(&source.adapter)) {
            let why = source.error.as_deref().or(source.warnings.first().map(String::as_str));
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            blind.push(format!("{} was not heard completely{why}", source.adapter));
        }
        if budget.max_cost.is_some() && !report.unpriced.is_empty() {
            blind.push(format!("no price is known for {}", report.unpriced.join(", ")));
        }
        // A turn that was completed has used something, whatever its agent tells.
        let is_silent = |one: &&Surveyed| {
            let session = &one.session;
            let is_of_period = session.updated_at.is_some_and(|at| at >= from);
            let tells = one.calls.is_some() || session.tokens.is_some();
            is_of_period && session.outcome == Some(Outcome::Completed) && !tells
        };
        let mut silent: BTreeMap<&str, usize> = BTreeMap::new();
        for one in covered().filter(is_silent) {
            *silent.entry(&one.key.adapter).or_default() += 1;
        }
        blind.extend(silent.iter().map(|(adapter, sessions)| {
            format!("{adapter} does not tell what {} used", text::counted(*sessions, "session", "sessions"))
        }));
        let spent = Spent {
            from,
            until,
            tokens: report.total.tokens.sum(),
            cost: report.total.cost,
            sessions: report.total.sessions,
            blind: blind.iter().map(|words| text::one_line(words)).collect(),
        };
        let is_live = |one: &&Surveyed| one.session.is_live() && !one.session.is_subagent();
        BudgetState { spent, live: covered().filter(is_live).cloned().collect() }
    }

    /// Adds to each budget among these fuses what was spent of it.
    pub fn fill_spent(&self, fuses: &mut [Fuse], now: Timestamp) {
        let budgets: Vec<Fuse> = fuses.iter().filter(|fuse| fuse.is_budget()).cloned().collect();
        let states = self.budgets(&budgets, now);
        for (fuse, state) in fuses.iter_mut().filter(|fuse| fuse.is_budget()).zip(states) {
            fuse.spent = Some(state.spent);
        }
    }

    /// The fuses that need a person: budgets that are spent or of which not everything is known, and plans that were not
    /// carried out.
    pub(crate) fn fuses_in_need(&self, now: Timestamp) -> Vec<Fuse> {
        let mut budgets = self.kept_budgets();
        self.fill_spent(&mut budgets, now);
        let needs = |fuse: &Fuse, spent: &Spent| fuse.is_spent(spent) || !spent.blind.is_empty();
        budgets.retain(|fuse| fuse.spent.as_ref().is_some_and(|spent| needs(fuse, spent)));
        budgets.extend(
            self.kept_fuses()
                .into_iter()
                .filter(|fuse| fuse.resume.as_ref().is_some_and(|plan| plan.problem.is_some())),
        );
        budgets
    }

    /// Refuses a launch for which nothing is left.
    pub(crate) fn refuse_spent_for(&self, order: &LaunchOrder, now: Timestamp) -> Result<(), Error> {
        let place = self.tree_of(order).map_or(&order.cwd, |tree| &tree.repository);
        self.refuse_spent(place, &order.adapter, now)
    }

    /// Refuses what would spend more of a budget that is spent. The agents' records are counted at this moment.
    pub(crate) fn refuse_spent(&self, place: &Path, adapter: &str, now: Timestamp) -> Result<(), Error> {
        let mut budgets = self.kept_budgets();
        budgets.retain(|budget| {
            budget.adapter.as_deref().is_none_or(|name| name == adapter)
                && self.cover(budget).has_folder(place)
        });
        let states = self.budgets(&budgets, now);
        let spent = budgets.iter().zip(&states).find(|(budget, state)| budget.is_spent(&state.spent));
        let Some((budget, state)) = spent else { return Ok(()) };
        let again = state.spent.until.to_zoned(self.zone()).strftime("%Y-%m-%d %H:%M %Z");
        let folder = budget.directory.as_deref().unwrap_or_default();
        let words =
            format!("the budget of {} is spent: {}", text::one_line(folder), in_words(budget, &state.spent));
        Err(Error::refused(words).hint(format!(
            "it is free again at {again}; `agentctl fuse set --cwd {} {} --per {}` raises it",
            text::shell_word(folder),
            if budget.max_cost.is_some() { "--max-cost MORE" } else { "--max-tokens MORE" },
            budget.per.map_or("day", Period::as_str),
        )))
    }

    /// The zone by which periods are told.
    pub fn zone(&self) -> TimeZone {
        self.budgets.as_ref().map_or(TimeZone::UTC, |book| (book.zone)())
    }

    /// The budgets that are set. A file that cannot be read holds nobody up; `fuses` and the daemon tell of it.
    fn kept_budgets(&self) -> Vec<Fuse> {
        self.kept_fuses().into_iter().filter(Fuse::is_budget).collect()
    }

    fn kept_fuses(&self) -> Vec<Fuse> {
        let book = self.budgets.as_ref().and_then(|book| book.store.read::<FuseBook>().ok());
        book.unwrap_or_default().fuses
    }

    fn cover(&self, budget: &Fuse) -> Cover<'_> {
        let typed = PathBuf::from(budget.directory.clone().unwrap_or_default());
        let mut folders = vec![real_path(&typed), typed];
        folders.dedup();
        let launches = self.launches.as_deref();
        Cover { folders, adapter: budget.adapter.clone(), launches, known: HashMap::new() }
    }
}

/// What was spent and what may be, such as `$20.40 of $20.00 this day`.
pub fn in_words(budget: &Fuse, spent: &Spent) -> String {
    let per = budget.per.map_or("day", Period::as_str);
    let cost = budget.max_cost.map(|most| format!("${:.2} of ${most:.2}", spent.cost.unwrap_or(0.0)));
    let tokens = budget.max_tokens.map(|most| format!("{} of {most} tokens", spent.tokens));
    let both: Vec<String> = cost.into_iter().chain(tokens).collect();
    format!("{} this {per}", both.join(", "))
}

/// The sessions that a budget covers: at or below its folder, and in the worktrees of a repository there.
struct Cover<'f> {
    /// The folder as it was typed, and as its real path.
    folders: Vec<PathBuf>,
    adapter: Option<String>,
    launches: Option<&'f Path>,
    /// Many sessions share few folders.
    known: HashMap<String, bool>,
}

impl Cover<'_> {
    fn has(&mut self, session: &Session) -> bool {
        if self.adapter.as_ref().is_some_and(|name| *name != session.adapter) {
            return false;
        }
        let Some(cwd) = &session.cwd else { return false };
        let known = self.known.get(cwd).copied();
        let is_there = known.unwrap_or_else(|| self.has_folder(Path::new(cwd)));
        self.known.insert(cwd.clone(), is_there);
        is_there || self.was_made_from(session)
    }

    fn has_folder(&self, folder: &Path) -> bool {
        if self.is_within(folder) {
            return true;
        }
        let real = real_path(folder);
        // The same place in the repository that a linked worktree belongs to.
        let in_repository = || {
            let (tree, repository) = (worktree_root(&real)?, repository_root(&real)?);
            Some(repository.join(real.strip_prefix(&tree).ok()?))
        };
        self.is_within(&real) || in_repository().is_some_and(|place| self.is_within(&place))
    }

    fn is_within(&self, path: &Path) -> bool {
        self.folders.iter().any(|folder| path.starts_with(folder))
    }

    /// A worktree may be gone; the record of the launch that made it says of which repository it was.
    fn was_made_from(&self, session: &Session) -> bool {
        let launch = session.launch.as_ref().filter(|launch| launch.worktree.is_some());
        let folder = launch.zip(self.launches).map(|(launch, all)| LaunchFolder::at(all.join(&launch.id)));
        let tree = folder.and_then(|folder| folder.record().ok()).and_then(|record| record.order.worktree);
        tree.is_some_and(|tree| self.has_folder(&tree.repository))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_budget_covers_its_folder_and_the_same_place_in_worktrees() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        let repo = top.join("repo");
        fs::create_dir_all(repo.join(".git/worktrees/w")).unwrap();
        fs::create_dir_all(repo.join("src")).unwrap();
        fs::write(repo.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        let linked = top.join("repo-w");
        fs::create_dir_all(linked.join("src")).unwrap();
        fs::write(linked.join(".git"), "gitdir: ../repo/.git/worktrees/w\n").unwrap();
        std::os::unix::fs::symlink(&repo, top.join("short")).unwrap();
        let covers = |folder: &Path, cwd: &Path| {
            let folders = vec![real_path(folder), folder.to_owned()];
            Cover { folders, adapter: None, launches: None, known: HashMap::new() }.has_folder(cwd)
        };
        for inside in [&repo, &repo.join("src"), &linked, &linked.join("src"), &top.join("short/src")] {
            assert!(covers(&repo, inside), "{}", inside.display());
            assert!(covers(&top.join("short"), inside), "{}", inside.display());
        }
        assert!(!covers(&repo, &top) && !covers(&repo, &top.join("repository")));
        assert!(covers(&repo.join("src"), &linked.join("src")) && !covers(&repo.join("src"), &linked));
        // A budget of a worktree is of that worktree alone.
        assert!(covers(&linked, &linked.join("src")) && !covers(&linked, &repo));
    }

    #[test]
    fn only_what_was_heard_spends_it_and_what_was_spent_stays_so() {
        let budget: Fuse = serde_json::from_value(serde_json::json!({
            "id": "f", "directory": "/x", "setAt": "2026-01-02T00:00:00Z", "maxCost": 10.0, "maxTokens": 100,
            "per": "day", "onExpire": {}, "stage": "spent", "stageAt": "2026-01-02T01:00:00Z",
        }))
        .unwrap();
        let spent = |cost, tokens, blind: &[&str]| Spent {
            from: "2026-01-02T00:00:00Z".parse().unwrap(),
            until: "2026-01-03T00:00:00Z".parse().unwrap(),
            tokens,
            cost,
            sessions: 1,
            blind: blind.iter().map(|&why| why.to_owned()).collect(),
        };
        let set = Fuse { stage: agentctl_model::Stage::Set, ..budget.clone() };
        assert!(!set.is_spent(&spent(Some(9.9), 99, &["unheard"])));
        assert!(set.is_spent(&spent(Some(10.0), 0, &["unheard"])));
        assert!(set.is_spent(&spent(None, 100, &[])));
        assert!(!budget.is_spent(&spent(None, 1, &[])), "records that are gone spend nothing");
        assert!(budget.is_spent(&spent(None, 1, &["unheard"])));
        let tomorrow =
            Spent { from: "2026-01-03T00:00:00Z".parse().unwrap(), ..spent(None, 1, &["unheard"]) };
        assert!(!budget.is_spent(&tomorrow));
        assert_eq!(
            in_words(&budget, &spent(Some(10.5), 7, &[])),
            "$10.50 of $10.00, 7 of 100 tokens this day"
        );
    }
}
