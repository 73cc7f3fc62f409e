//! Judges from outside: validators and other programs that others wrote, in exact versions, installed by pip on demand.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::cache;
use crate::skip::Skip;

/// The judges of `tests/tools/requirements.txt`.
#[derive(Debug)]
pub struct Judges {
    python: PathBuf,
}

/// A value that is held against a part of a schema.
#[derive(Debug, Clone)]
pub struct Case {
    /// Where it came from, for whoever reads the complaint.
    pub name: String,
    /// Which part: `#` is the whole.
    pub at: String,
    pub value: Value,
}

impl Judges {
    /// Installs them, unless that was done before.
    pub fn call() -> Result<Self, Skip> {
        let installed = install().map_err(|error| Skip(format!("no validators: {error:#}")))?;
        Ok(Self { python: installed.join("bin/python") })
    }

    /// The interpreter that has them, which finds our own scripts too.
    pub fn python(&self) -> Command {
        let mut command = Command::new(&self.python);
        command.env("PYTHONPATH", folder()).env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONUTF8", "1");
        command
    }

    /// Whether this is a right document of an API.
    #[track_caller]
    pub fn openapi(&self, document: &Path) {
        let mut command = self.python();
        command.args(["-m", "openapi_spec_validator"]).arg(document);
        run(command, "");
    }

    /// Whether this is a right JSON Schema (2020-12), and every value as it says.
    #[track_caller]
    pub fn json_schema(&self, schema: &Value, cases: &[Case]) {
        let case = |case: &Case| json!({"name": case.name, "at": case.at, "value": case.value});
        let cases: Vec<Value> = cases.iter().map(case).collect();
        let file = tempfile::NamedTempFile::new().expect("create a file for the validator");
        fs::write(file.path(), json!({"schema": schema, "cases": cases}).to_string())
            .expect("write what is validated");
        let mut command = self.python();
        command.arg(folder().join("validate.py")).arg(file.path());
        run(command, "");
    }

    /// What a reader of Prometheus' text format makes of these figures: type and number of samples of each family.
    #[track_caller]
    pub fn figures(&self, text: &str) -> Value {
        let mut command = self.python();
        command.arg(folder().join("figures.py"));
        let read = run(command, text);
        serde_json::from_str(&read).unwrap_or_else(|error| panic!("{error}: {read}"))
    }
}

/// Runs a judge, and gives what it prints; its complaint is the failure.
#[track_caller]
fn run(mut command: Command, input: &str) -> String {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("start a judge");
    let mut stdin = child.stdin.take().expect("a pipe");
    // One that does not read to the end says why itself.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let judged = child.wait_with_output().expect("wait for a judge");
    let (out, err) = (String::from_utf8_lossy(&judged.stdout), String::from_utf8_lossy(&judged.stderr));
    assert!(judged.status.success(), "{}\n{out}\n{err}", judged.status);
    out.into_owned()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tools")
}

fn install() -> anyhow::Result<PathBuf> {
    let list = folder().join("requirements.txt");
    let pins = fs::read(&list).with_context(|| format!("read {}", list.display()))?;
    cache::kept("tools", &pins, |stage| {
        install_with("python3", &["-m", "venv"], stage)?;
        let python = stage.join("bin/python");
        let program = python.to_str().context("a cache folder whose name is text")?;
        let pip = ["-m", "pip", "install", "--quiet", "--no-input", "--no-deps", "--only-binary=:all:", "-r"];
        install_with(program, &pip, &list)
    })
}

fn install_with(program: &str, arguments: &[&str], path: &Path) -> anyhow::Result<()> {
    let ended = Command::new(program)
        .args(arguments)
        .arg(path)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("run {program}"))?;
    if ended.status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&ended.stderr);
    // pip names the registry in its warnings; its error says what went wrong.
    let error = complaint.lines().find(|line| line.starts_with("ERROR")).unwrap_or("no message");
    bail!("{program} {}: {}: {error}", arguments[..2].join(" "), ended.status)
}
