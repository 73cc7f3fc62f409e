//! `config.toml`: what it may say, and where each effective value came from. Pure; reading the file is the
//! business of `surroundings`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::render::{path, time};

/// The longest silence of a source before it counts as timed out.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// Where a value came from; a later layer wins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File,
    /// The variable that said so.
    Environment(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => out.write_str("default"),
            Self::File => out.write_str("config.toml"),
            Self::Environment(name) => write!(out, "${name}"),
        }
    }
}

/// A value and who set it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting<T> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}

impl<T> Setting<T> {
    fn layered(default: T, file: Option<T>) -> Self {
        match file {
            Some(value) => Self { value, origin: Origin::File },
            None => Self { value: default, origin: Origin::Default },
        }
    }
}

/// What the user decided about one adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdapterSettings {
    pub(crate) enabled: Setting<bool>,
    /// The agent's program, when it is not found by its usual name.
    pub(crate) binary: Setting<Option<PathBuf>>,
    /// Roots beside the one that the agent's own variables name.
    pub(crate) roots: Setting<Vec<PathBuf>>,
    pub(crate) timeout: Setting<Duration>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    adapters: BTreeMap<String, AdapterSettings>,
}

impl Settings {
    /// What a file with this text says; `~` is `home`.
    pub(crate) fn parse(text: &str, home: Option<&Path>) -> Result<Self, Mistake> {
        let file: FileForm = toml::from_str(text).map_err(|error| Mistake::locate(text, &error))?;
        let adapters = file.adapters.into_iter().map(|(name, form)| (name.0, form.settle(home)));
        Ok(Self { adapters: adapters.collect() })
    }

    pub(crate) fn adapter(&self, name: &str) -> AdapterSettings {
        self.adapters.get(name).cloned().unwrap_or_else(|| AdapterForm::default().settle(None))
    }
}

/// What is wrong with the file, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mistake {
    pub(crate) line: Option<usize>,
    pub(crate) column: Option<usize>,
    pub(crate) message: String,
}

impl Mistake {
    fn locate(text: &str, error: &toml::de::Error) -> Self {
        let before = error.span().and_then(|span| text.get(..span.start));
        Self {
            line: before.map(|before| before.matches('\n').count() + 1),
            column: before.map(|before| before.rsplit('\n').next().unwrap_or("").chars().count() + 1),
            message: agentctl_model::text::one_line(error.message()),
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(out, "line {line}, column {column}: ")?;
        }
        out.write_str(&self.message)
    }
}

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileForm {
    #[serde(default)]
    adapters: BTreeMap<AdapterName, AdapterForm>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AdapterForm {
    enabled: Option<bool>,
    binary: Option<PathBuf>,
    roots: Option<Vec<PathBuf>>,
    timeout: Option<Patience>,
}

impl AdapterForm {
    fn settle(self, home: Option<&Path>) -> AdapterSettings {
        let expand = |given: PathBuf| path::expand(&given, home);
        AdapterSettings {
            enabled: Setting::layered(true, self.enabled),
            binary: Setting::layered(None, self.binary.map(|binary| Some(expand(binary)))),
            roots: Setting::layered(
                Vec::new(),
                self.roots.map(|roots| roots.into_iter().map(expand).collect()),
            ),
            timeout: Setting::layered(PATIENCE, self.timeout.map(|patience| patience.0)),
        }
    }
}

/// The name of an adapter that exists.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
struct AdapterName(String);

impl TryFrom<String> for AdapterName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let known: Vec<&str> =
            agentctl_adapters::registry().iter().map(|adapter| adapter.card().name).collect();
        if known.contains(&name.as_str()) {
            return Ok(Self(name));
        }
        Err(format!("no adapter is called `{name}`, expected one of {}", known.join(", ")))
    }
}

/// A length of time, at least one millisecond.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Patience(Duration);

impl TryFrom<String> for Patience {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match time::parse_duration(&text)? {
            Duration::ZERO => {
                Err("a timeout of nothing would silence the source; use enabled = false".into())
            }
            duration => Ok(Self(duration)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Settings, Mistake> {
        Settings::parse(text, Some(Path::new("/home/dev")))
    }

    #[test]
    fn each_value_knows_where_it_came_from() {
        let settings = parse(
            "[adapters.claude-code]\nroots = [\"~/work/.claude\", \"/srv/claude\"]\ntimeout = \"1m 30s\"\n",
        )
        .unwrap();
        let claude = settings.adapter("claude-code");
        assert_eq!(claude.roots.value, [Path::new("/home/dev/work/.claude"), Path::new("/srv/claude")]);
        assert_eq!(claude.roots.origin, Origin::File);
        assert_eq!(claude.timeout.value, Duration::from_secs(90));
        assert_eq!(claude.enabled, Setting { value: true, origin: Origin::Default });
        assert_eq!(settings.adapter("anything else").timeout.value, PATIENCE);
    }

    #[test]
    fn a_mistake_names_the_key_and_the_place() {
        for (text, line, word) in [
            ("\n[adapters.claude-code]\nroot = [\"/x\"]\n", 3, "root"),
            ("colour = true\n", 1, "colour"),
            ("[adapters.claud]\nenabled = true\n", 1, "claud"),
            ("[adapters.claude-code]\n\ntimeout = \"soon\"\n", 3, "soon"),
            ("[adapters.claude-code]\ntimeout = \"0s\"\n", 2, "enabled = false"),
            ("[adapters.claude-code]\nenabled = \"yes\"\n", 2, "yes"),
            ("[adapters\n", 1, ""),
        ] {
            let mistake = parse(text).unwrap_err();
            assert_eq!(mistake.line, Some(line), "{text:?}: {mistake}");
            assert!(mistake.message.contains(word), "{text:?}: {mistake}");
        }
    }

    #[test]
    fn an_empty_file_is_all_defaults() {
        assert_eq!(parse(""), Ok(Settings::default()));
    }
}
