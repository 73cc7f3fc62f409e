//! `--matrix FILE.yaml`: a file that lists what to launch side by side.

use std::path::{Path, PathBuf};

use agentctl_fleet::act::launch::{Choice, check_count};
use agentctl_model::ErrorKind;
use serde::Deserialize;

use super::prompt::text_of;
use crate::failure::Failure;

const MAX: u64 = 1 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Matrix {
    pub(super) prompt: Option<String>,
    pub(super) cwd: Option<PathBuf>,
    pub(super) base_branch: Option<String>,
    #[serde(rename = "matrix")]
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    adapter: OneOrMany,
    #[serde(default)]
    model: Option<OneOrMany>,
    branch: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a name or a list of names")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(many) => many.len(),
        }
    }

    fn all(&self) -> Vec<String> {
        match self {
            Self::One(one) => vec![one.clone()],
            Self::Many(many) => many.clone(),
        }
    }
}

/// Reads the file. A file that does not parse stops the command before anything is created.
pub(super) fn read(path: &Path) -> Result<Matrix, Failure> {
    parse(&text_of(path, MAX)?)
        .map_err(|why| Failure::new(ErrorKind::Usage, format!("{}: {why}", path.display())))
}

pub(crate) fn parse(text: &str) -> Result<Matrix, String> {
    // The user has the file, so its position is enough; a quoted snippet would take several lines.
    let plain = serde_saphyr::options! { with_snippet: false };
    let matrix: Matrix = serde_saphyr::from_str_with_options(text, plain)
        .map_err(|error| agentctl_model::text::one_line(&error.to_string()))?;
    match matrix.count() {
        0 => Err("its `matrix` lists nothing to launch".to_owned()),
        slots => check_count(slots).map(|()| matrix),
    }
}

impl Matrix {
    /// The number of slots. It is computed without building them: two lists in a short file can have billions
    /// of pairs.
    pub(crate) fn count(&self) -> usize {
        let rows = self.rows.iter().map(|row| {
            let models = row.model.as_ref().map_or(1, OneOrMany::len);
            row.adapter.len().saturating_mul(models)
        });
        rows.fold(0, usize::saturating_add)
    }

    /// Every agent of a row with every model of the row.
    pub(crate) fn slots(&self) -> Vec<Choice> {
        let mut choices = Vec::new();
        for row in &self.rows {
            let models: Vec<Option<String>> = match &row.model {
                Some(models) => models.all().into_iter().map(Some).collect(),
                None => vec![None],
            };
            let several = row.adapter.all().len() * models.len() > 1;
            for adapter in row.adapter.all() {
                for model in &models {
                    // One branch cannot be checked out twice, so several slots of a row each get a branch of
                    // their own.
                    let branch = row.branch.clone().filter(|_| !several);
                    choices.push(Choice { adapter: adapter.clone(), model: model.clone(), branch });
                }
            }
        }
        choices
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_is_accepted_names_as_many_slots_as_were_counted(
            text in r"(prompt: [a-z&*|{\[]{0,4}\n)?matrix:( \[\])?\n((  )?- (adapter|model|branch|x): ?([a-z]|\[[a-z, *&\[]{0,5}\]?|\{|&a|\*a){0,2}\n|    model: \[a, b\]\n){0,5}",
        ) {
            if let Ok(matrix) = parse(&text) {
                prop_assert_eq!(matrix.slots().len(), matrix.count());
            }
        }
    }

    #[test]
    fn lists_expand_to_all_pairs() {
        let matrix = parse(
            "prompt: Do it\nmatrix:\n  - adapter: [codex, opencode]\n    model: [a, b]\n  - {adapter: pi, branch: mine}\n",
        )
        .unwrap();
        let slots: Vec<_> =
            matrix.slots().into_iter().map(|slot| (slot.adapter, slot.model, slot.branch)).collect();
        let pair = |adapter: &str, model: &str| (adapter.to_owned(), Some(model.to_owned()), None);
        assert_eq!(
            slots,
            [
                pair("codex", "a"),
                pair("codex", "b"),
                pair("opencode", "a"),
                pair("opencode", "b"),
                ("pi".to_owned(), None, Some("mine".to_owned())),
            ]
        );
    }

    #[test]
    fn a_mistake_is_named_with_its_place() {
        let why = parse("prompt: x\nmatrix:\n  - adapter: 3\n").unwrap_err();
        assert!(why.contains("expected a name") && why.contains("line 3"), "{why}");
        for bad in ["{", "matrix:\n  - adapter: pi\n    modle: x\n"] {
            let why = parse(bad).unwrap_err();
            assert!(why.contains("line") && !why.contains("error:") && !why.contains('\n'), "{why}");
        }
        assert!(parse("matrix: []").is_err());
        assert!(parse("matrix: {adapter: codex}").is_err());
        assert!(parse("- just a list").is_err());
    }
}
