//! Walks the active branch of the record tree from its leaf to its root. Pure.

use super::records::Record;

/// The record that is expected next when a file is read newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Awaited {
    /// Any record: nothing was read yet, or a damaged line broke the chain.
    #[default]
    Any,
    Id(Box<str>),
    /// The root was passed; older records belong to other branches.
    Nothing,
}

/// The active branch. Parents always stand before their children, so one backward pass meets the whole branch
/// in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Branch {
    awaited: Awaited,
}

impl Branch {
    /// Starts at this record, or at the newest one.
    pub(crate) fn from_leaf(leaf: Option<&str>) -> Self {
        Self { awaited: leaf.map_or(Awaited::Any, |id| Awaited::Id(id.into())) }
    }

    /// Whether this record, which is older than all previous ones, is on the branch.
    pub(crate) fn takes(&mut self, record: &Record<'_>) -> bool {
        if record.is_header() {
            return false;
        }
        // The first format had no tree, so every record is on the one branch.
        let Some(id) = record.id.as_deref() else { return self.awaited != Awaited::Nothing };
        let awaited = match &self.awaited {
            Awaited::Any => true,
            Awaited::Id(wanted) => **wanted == *id,
            Awaited::Nothing => false,
        };
        if awaited {
            self.awaited =
                record.parent_id.as_deref().map_or(Awaited::Nothing, |parent| Awaited::Id(parent.into()));
        }
        awaited
    }

    /// Handles a line that could not be read: it may have been the expected record, so the next older record
    /// continues the branch.
    pub(crate) fn lost(&mut self) {
        if self.awaited != Awaited::Nothing {
            self.awaited = Awaited::Any;
        }
    }

    pub(crate) fn is_at_its_root(&self) -> bool {
        self.awaited == Awaited::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of these records (id, parent), oldest first, are on the branch.
    fn taken(leaf: Option<&str>, records: &[(&str, &str)]) -> String {
        let mut branch = Branch::from_leaf(leaf);
        let mut ids: Vec<&str> = Vec::new();
        for (id, parent) in records.iter().rev() {
            let record = Record {
                kind: "message".into(),
                id: (!id.is_empty()).then(|| (*id).into()),
                parent_id: (!parent.is_empty()).then(|| (*parent).into()),
                ..Record::default()
            };
            if *id == "damaged" {
                branch.lost();
            } else if branch.takes(&record) {
                ids.push(id);
            }
        }
        ids.reverse();
        ids.concat()
    }

    #[test]
    fn from_the_last_record_or_the_given_leaf_to_the_root() {
        let tree = [("a", ""), ("b", "a"), ("c", "b"), ("x", "a"), ("y", "x"), ("d", "c")];
        assert_eq!(taken(None, &tree), "abcd");
        assert_eq!(taken(Some("y"), &tree), "axy");
        assert_eq!(taken(Some("nobody"), &tree), "");
        assert_eq!(taken(None, &[("a", ""), ("b", "a"), ("r", ""), ("s", "r")]), "rs", "a second root");
    }

    #[test]
    fn a_damaged_line_does_not_cut_the_branch() {
        assert_eq!(taken(None, &[("a", ""), ("b", "a"), ("damaged", ""), ("d", "c")]), "abd");
        let second = [("a", ""), ("r", ""), ("damaged", ""), ("s", "r")];
        assert_eq!(taken(None, &second), "rs", "the older root stays off the branch");
    }

    #[test]
    fn the_first_format_is_one_line() {
        let mut branch = Branch::default();
        let record = Record { kind: "message".into(), ..Record::default() };
        assert!(branch.takes(&record) && branch.takes(&record));
    }
}
