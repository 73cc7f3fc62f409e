//! The model calls of a rollout: the differences of its running totals. Pure.
//!
//! A rollout writes the thread's total after every reply, and again whenever it likes. So a call is what a total has more
//! than the one before it, and a total that is written again adds nothing. Newer versions also write a record of each
//! reply, under the reply's own id. Some of them leave the reply that compacts the context out of the total, and the
//! total in such a record begins anew when an old thread is resumed: so what it tells of the reply counts, and the next
//! total adds what it has beyond that.
//!
//! A fork's total begins with its parent's. Forks by newer versions contain only their own records; those by older
//! versions begin with a copy of the parent's, sometimes with new times, and so do the files of some sub-agents, which
//! need not say that they were forked. A copied total raises what was inherited and is no call.

use agentctl_model::Tokens;
use jiff::{SignedDuration, Timestamp};

use super::records::{Count, Record, Said, Usage, beginning};
use crate::agents::codex::storage::made_at;
use crate::transcript::memory::Counted;
use crate::transcript::read::{Calls, Recorded, Sum};

/// A copy with new times is written in one go. No reply of a model comes this soon after the record before it.
const IN_ONE_GO: SignedDuration = SignedDuration::from_millis(900);

/// Adds up the differences.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    calls: Calls,
    model: Option<String>,
    /// The last total.
    total: Option<Usage>,
    /// The replies since then that have records of their own.
    replies: Tokens,
    /// When the thread was created, and its id, by its first record.
    created: Option<Timestamp>,
    id: Option<String>,
    /// The time in that id, with which the times in the ids of turns are compared.
    made: Option<Timestamp>,
    /// The counters begin with those of another thread.
    is_fork: bool,
    /// A turn has begun in this file.
    has_turn: bool,
    copies: Copies,
    /// The time of the record before.
    last_at: Option<Timestamp>,
}

/// Whether the records that are being read were copied from another thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Copies {
    /// They are the thread's own, from here on.
    #[default]
    Own,
    /// Nothing tells yet.
    Perhaps,
    /// The turn that is being read is one of the parent's.
    Certainly,
}

impl Sum for Spent {
    fn marks(&self) -> &'static [&'static str] {
        &[]
    }

    fn line(&mut self, line: &[u8], _: usize) {
        let at = match beginning(line) {
            Some(beginning) => {
                let counts = match (beginning.kind, beginning.inner) {
                    (b"session_meta" | b"turn_context" | b"token_usage_record", _)
                    | (b"event_msg", b"token_count" | b"task_started" | b"turn_started") => true,
                    // Between copies stand records of all kinds, and their times tell that they are copies. Nothing else needs
                    // the time of a record that is not looked into.
                    _ => {
                        if self.copies != Copies::Own {
                            self.pass(beginning.time());
                        }
                        false
                    }
                };
                if !counts {
                    return;
                }
                let at = beginning.time();
                let is_count = matches!(
                    (beginning.kind, beginning.inner),
                    (b"event_msg", b"token_count") | (b"token_usage_record", _)
                );
                if is_count
                    && self.copies == Copies::Own
                    && at.is_some()
                    && let Some(count) = Count::glance(line)
                {
                    if let Some((total, reply)) = count.totals() {
                        let name = name_of(count.response_id, count.turn_id);
                        self.count(total, reply, at, name.as_deref());
                    }
                    self.last_at = at;
                    return;
                }
                at
            }
            None => None,
        };
        let Some(record) = Record::parse(line) else { return };
        let at = at.or_else(|| record.at());
        self.take(&record, at);
        self.last_at = at.or(self.last_at);
    }

    fn counted(self, _: bool) -> Counted {
        self.calls.counted()
    }
}

impl Spent {
    /// A record that is not looked into. One that comes later than in one go ends the copies.
    fn pass(&mut self, at: Option<Timestamp>) {
        if self.copies == Copies::Perhaps && !self.may_be_copied(at) {
            self.copies = Copies::Own;
        }
        self.last_at = at.or(self.last_at);
    }

    /// A record from before the thread was created was copied with its time; one with a new time directly follows
    /// another copy.
    fn may_be_copied(&self, at: Option<Timestamp>) -> bool {
        let (Some(at), Some(created)) = (at, self.created) else { return true };
        let before = self.last_at.unwrap_or(created).max(created);
        at < created || at.duration_since(before) < IN_ONE_GO
    }

    fn take(&mut self, record: &Record<'_>, at: Option<Timestamp>) {
        if let Some(meta) = record.meta() {
            if self.id.is_none() {
                self.id = Some(meta.id.as_deref().unwrap_or_default().to_owned());
                self.created = meta.at().or(at);
                self.made = meta.made().or(at);
                self.is_fork = meta.forked_from_id.is_some();
                if self.is_fork || meta.is_subagent() {
                    self.copies = Copies::Perhaps;
                }
            } else if meta.id.as_deref() != self.id.as_deref() {
                // The first record of another thread: what follows was copied from it.
                self.copies = Copies::Perhaps;
            }
            return;
        }
        let payload = record.payload();
        // The id of a turn says when the turn was begun, whatever time a copy has.
        if self.copies != Copies::Own {
            let began = payload.turn_id.as_deref().and_then(made_at);
            self.copies = match began.zip(self.made) {
                Some((began, made)) if began < made => Copies::Certainly,
                Some(_) => Copies::Own,
                None if self.copies == Copies::Perhaps && !self.may_be_copied(at) => Copies::Own,
                None => self.copies,
            };
        }
        match record.said(&payload) {
            Said::Context { model, .. } => {
                self.model = model.or(self.model.take());
                self.has_turn = true;
            }
            Said::TurnBegan => self.has_turn = true,
            Said::Total { total, reply } => {
                let name = name_of(payload.response_id.as_deref(), payload.turn_id.as_deref());
                self.count(total, reply, at, name.as_deref());
            }
            _ => {}
        }
    }

    fn count(&mut self, total: Usage, reply: Option<Usage>, at: Option<Timestamp>, name: Option<&str>) {
        if let Some((name, reply)) = name.zip(reply) {
            let tokens = reply.tokens();
            self.replies = self.replies.plus(tokens);
            if self.copies == Copies::Own {
                self.add(Some(name), at, tokens);
            }
            return;
        }
        let before = self.total.replace(total);
        let replies = std::mem::take(&mut self.replies);
        if self.copies != Copies::Own {
            return;
        }
        let own = match (before, reply) {
            (Some(before), _) if total.is_at_least(&before) => total.less(&before),
            (Some(_), Some(reply)) => reply,
            // A fork's first total contains all that its parent spent. Before its first turn it repeats the parent's.
            (None, Some(reply)) if self.is_fork && self.has_turn => reply,
            (None, _) if self.is_fork => return,
            // A counter that begins, or begins anew, counts from nothing.
            (Some(_), None) | (None, _) => total,
        };
        self.add(None, at, own.tokens().less(replies));
    }

    fn add(&mut self, name: Option<&str>, at: Option<Timestamp>, tokens: Tokens) {
        if tokens.sum() > 0 {
            let model = self.model.as_deref();
            self.calls.add(name, Recorded { at, model, tokens, ..Recorded::default() });
        }
    }
}

/// The name of a reply that has a record of its own.
fn name_of(response_id: Option<&str>, turn_id: Option<&str>) -> Option<String> {
    response_id.map(|id| format!("{id} {}", turn_id.unwrap_or_default()))
}

#[cfg(test)]
#[path = "spent_tests.rs"]
mod tests;
