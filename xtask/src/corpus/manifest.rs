//! What a list should show for each session of a corpus, in the format of the fixtures' `expected.json`.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

/// One session.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) adapter: String,
    pub(crate) id: String,
    /// The size of the session's own file, without its sub-agents.
    pub(crate) bytes: u64,
    pub(crate) updated_ms: i64,
    pub(crate) subagents: u64,
    /// The fields of the session object that are checked. Readers may differ on the fields that are missing here.
    pub(crate) expected: Value,
}

/// All sessions of a corpus.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Manifest {
    pub(crate) seed: u64,
    pub(crate) now_ms: i64,
    pub(crate) rows: Vec<Row>,
}

impl Manifest {
    pub(crate) fn bytes(&self) -> u64 {
        self.rows.iter().map(|row| row.bytes).sum()
    }

    pub(crate) fn save(&self, path: &Path) -> anyhow::Result<()> {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                json!({"adapter": row.adapter, "id": row.id, "bytes": row.bytes, "updatedMs": row.updated_ms,
                       "subagents": row.subagents, "expected": row.expected})
            })
            .collect();
        let all = json!({"seed": self.seed, "nowMs": self.now_ms, "sessions": rows.len(), "bytes": self.bytes(),
                         "rows": rows});
        let write = || -> anyhow::Result<()> {
            let mut out = BufWriter::new(File::create(path)?);
            serde_json::to_writer(&mut out, &all)?;
            out.flush()?;
            Ok(())
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }

    pub(crate) fn load(path: &Path) -> anyhow::Result<Self> {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let all: Value = serde_json::from_reader(BufReader::new(file))
            .with_context(|| format!("{} is not a manifest", path.display()))?;
        Self::parse(&all).with_context(|| format!("{} is not a manifest", path.display()))
    }

    fn parse(all: &Value) -> Option<Self> {
        let rows = all["rows"].as_array()?.iter().map(|row| {
            Some(Row {
                adapter: row["adapter"].as_str()?.to_owned(),
                id: row["id"].as_str()?.to_owned(),
                bytes: row["bytes"].as_u64()?,
                updated_ms: row["updatedMs"].as_i64()?,
                subagents: row["subagents"].as_u64()?,
                expected: row["expected"].clone(),
            })
        });
        Some(Self {
            seed: all["seed"].as_u64()?,
            now_ms: all["nowMs"].as_i64()?,
            rows: rows.collect::<Option<_>>()?,
        })
    }
}
