//! `config.toml`: its contents, and the origin of each effective value. Pure; `surroundings` reads the file.

mod acp;
mod adapters;
mod hosts;
mod mistakes;
mod nats;
mod notify;
mod prices;
mod webhook;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use agentctl_adapters::agents::acp::AcpAgent;
use agentctl_fleet::act::launch::Defaults;
use agentctl_fleet::{Price, Prices};
use agentctl_hosts::HostName;
use agentctl_hosts::ssh::SshHost;
use agentctl_model::Environ;
use serde::Deserialize;

pub(crate) use self::acp::AcpSettings;
use self::acp::{AcpForm, AcpName, LaunchName};
pub(crate) use self::adapters::AdapterSettings;
use self::adapters::{AdapterForm, AdapterName};
use self::hosts::{HostForm, HostKey};
pub(crate) use self::mistakes::{Invalidates, Mistake};
use self::nats::NatsForm;
pub(crate) use self::nats::NatsSection;
pub(crate) use self::notify::Notify;
use self::notify::NotifyForm;
use self::prices::PriceForm;
use self::webhook::{Webhook, WebhookForm};
use crate::render::time;

pub(crate) use self::webhook::event_types;

/// How long the record of an ended launch is kept.
const RETENTION: Duration = Duration::from_hours(7 * 24);

/// The origin of a value; a later layer wins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File,
    /// The variable that set it.
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

/// A value and its origin.
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

impl<T> Setting<Option<T>> {
    /// `None` unless the file sets it.
    fn optional(file: Option<T>) -> Self {
        Self::layered(None, file.map(Some))
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    /// The agent that `launch` starts when none is named.
    pub(crate) adapter: Setting<Option<String>>,
    pub(crate) model: Setting<Option<String>>,
    /// The machines that commands which read ask when `--host` names none.
    pub(crate) host: Setting<Option<String>>,
    /// The loopback address that every daemon of this folder serves beside its socket.
    pub(crate) http: Setting<Option<SocketAddr>>,
    adapters: BTreeMap<String, AdapterSettings>,
    /// The machines that can be asked, by name.
    pub(crate) hosts: BTreeMap<HostName, SshHost>,
    /// The bus of a fleet.
    pub(crate) nats: Option<NatsSection>,
    /// The agents that the file names to be spoken with over ACP, by their names without the prefix.
    pub(crate) acp: BTreeMap<String, AcpSettings>,
    pub(crate) webhook: Webhook,
    pub(crate) notify: Notify,
    /// How long the record of an ended launch is kept.
    pub(crate) launches_kept: Setting<Duration>,
    pub(crate) prices: Prices,
    /// Mistakes in the file: they are reported, and their keys count as absent.
    pub(crate) mistakes: Vec<Mistake>,
}

impl Settings {
    /// The settings of a file with this text, without its mistakes; the environment overrides the file.
    pub(crate) fn parse(text: &str, environ: &Environ) -> Self {
        let odd = |file: &FileForm| {
            let adapters = file.adapters.iter().find_map(|(name, form)| {
                form.mistake(&name.0).map(|(key, words)| (format!("adapters.{}.{key}", name.0), words))
            });
            let bus = || file.nats.as_ref()?.mistake().map(|(key, words)| (key.to_owned(), words.to_owned()));
            adapters.or_else(|| acp::mistake(file.adapter.as_ref(), &file.acp)).or_else(bus)
        };
        let (file, mistakes) = mistakes::read::<FileForm>(text, odd);
        Self { mistakes, ..file.settle(environ) }
    }

    /// The mistake that makes one of these keys unknown, for a command that needs them.
    pub(crate) fn invalid(&self, keys: &[&str]) -> Option<&Mistake> {
        self.mistakes.iter().find(|mistake| keys.iter().any(|key| mistake.invalidates(key)))
    }

    /// How long records of ended launches are kept when they are removed in passing. If that is not known,
    /// none is removed.
    pub(crate) fn kept_at_least(&self) -> Duration {
        if self.invalid(&["retention.launches"]).is_some() { Duration::MAX } else { self.launches_kept.value }
    }

    /// The mistake that prevents every launch, if there is one: starting another program, agent or model than
    /// intended would be worse than starting none.
    pub(crate) fn prevents_launch(&self) -> Option<&Mistake> {
        let starts = |mistake: &&Mistake| {
            let binary = mistake
                .key
                .as_deref()
                .is_some_and(|key| key.starts_with("adapters.") && key.ends_with(".binary"));
            mistake.invalidates("adapter")
                || mistake.invalidates("model")
                || (binary && mistake.invalidates == Invalidates::Key)
        };
        self.mistakes.iter().find(starts)
    }

    /// The mistake that may hide sessions from what is read.
    pub(crate) fn hides_sessions(&self) -> Option<&Mistake> {
        self.invalid(&["adapters"])
    }

    /// The settings without a file.
    pub(crate) fn defaults(environ: &Environ) -> Self {
        FileForm::default().settle(environ)
    }

    pub(crate) fn adapter(&self, name: &str) -> AdapterSettings {
        self.adapters.get(name).cloned().unwrap_or_else(|| AdapterForm::default().settle(None))
    }

    /// The configured programs, by adapter.
    pub(crate) fn programs(&self) -> BTreeMap<String, PathBuf> {
        let names = agentctl_adapters::registry().into_iter().map(|adapter| adapter.card().name);
        names.filter_map(|name| Some((name.to_owned(), self.adapter(name).binary.value?))).collect()
    }

    /// The agents that can be started over ACP: those that are known, as the file changes them, and those that it names.
    pub(crate) fn acp_agents(&self) -> Vec<AcpAgent> {
        let configured: Vec<AcpAgent> = self.acp.iter().map(|(name, chosen)| chosen.agent(name)).collect();
        let is_changed = |known: &AcpAgent| configured.iter().any(|own| own.name == known.name);
        let known = agentctl_adapters::agents::acp::built_in().into_iter().filter(|known| !is_changed(known));
        known.chain(configured.iter().cloned()).collect()
    }

    /// What is launched by default.
    pub(crate) fn launch_defaults(&self) -> Defaults {
        Defaults { adapter: self.adapter.value.clone(), model: self.model.value.clone() }
    }
}

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FileForm {
    adapter: Option<LaunchName>,
    model: Option<String>,
    host: Option<String>,
    http: Option<Loopback>,
    adapters: BTreeMap<AdapterName, AdapterForm>,
    hosts: BTreeMap<HostKey, HostForm>,
    nats: Option<NatsForm>,
    acp: BTreeMap<AcpName, AcpForm>,
    webhook: WebhookForm,
    notify: NotifyForm,
    retention: RetentionForm,
    prices: BTreeMap<String, PriceForm>,
}

impl FileForm {
    fn settle(self, environ: &Environ) -> Settings {
        let home = environ.path("HOME");
        let adapters = self.adapters.into_iter().map(|(name, form)| (name.0, form.settle(home.as_deref())));
        Settings {
            adapter: Setting::optional(self.adapter.map(|name| name.0)),
            model: Setting::optional(self.model),
            host: Setting::optional(self.host),
            http: Setting::optional(self.http.map(|http| http.0)),
            adapters: adapters.collect(),
            hosts: self.hosts.into_iter().map(|(name, form)| (name.0, form.settle())).collect(),
            nats: self.nats.map(|form| form.settle(home.as_deref())),
            acp: self.acp.into_iter().map(|(name, form)| (name.0, form.settle(home.as_deref()))).collect(),
            webhook: self.webhook.settle(environ),
            notify: self.notify.settle(home.as_deref()),
            launches_kept: Setting::layered(RETENTION, self.retention.launches.map(|kept| kept.0)),
            prices: self.prices.into_iter().map(|(model, form)| (model, Price::from(form))).collect(),
            mistakes: Vec::new(),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RetentionForm {
    launches: Option<Length>,
}

/// A duration such as "7d".
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Length(Duration);

impl TryFrom<String> for Length {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        time::parse_duration(&text).map(Self)
    }
}

/// A loopback address with its port.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Loopback(SocketAddr);

impl TryFrom<String> for Loopback {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => Ok(Self(address)),
            Ok(address) => Err(format!("{address} is no loopback address; nothing else is served")),
            Err(_) => Err(format!("`{text}` is no address, expected one such as 127.0.0.1:7788")),
        }
    }
}

/// Checks that a word is one of the known ones.
fn known(word: String, kind: &str, words: impl Iterator<Item = &'static str>) -> Result<String, String> {
    let words: Vec<&str> = words.collect();
    if words.contains(&word.as_str()) {
        return Ok(word);
    }
    Err(format!("no {kind} is called `{word}`, expected one of {}", words.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::Path;

    use agentctl_model::EventKind;

    use super::adapters::TIMEOUT;
    use super::*;

    fn environ(more: &[(&str, &str)]) -> Environ {
        let variables = more.iter().chain(&[("HOME", "/home/dev")]);
        variables.map(|(name, value)| (OsString::from(name), OsString::from(value))).collect()
    }

    fn parse(text: &str) -> Settings {
        Settings::parse(text, &environ(&[]))
    }

    proptest::proptest! {
        #[test]
        fn every_text_has_settings_and_its_mistakes_have_words(
            text in r#"((\[\[?)?(adapter|adapters|hosts|acp|nats|notify|prices|retention|webhook|codex|box|http|x)(\.(roots|gateways|y|"é"))?(\]\]?)?( ?= ?("[a-z:/0-9é]{0,5}"|[0-9.e-]{1,4}|\[|\{a=1|true)[\]}]?)?\n){0,6}"#,
        ) {
            let settings = parse(&text);
            for mistake in &settings.mistakes {
                proptest::prop_assert!(!mistake.to_string().is_empty());
                proptest::prop_assert!(mistake.line.is_none_or(|line| line <= text.lines().count() + 1));
            }
            proptest::prop_assert_eq!(parse(&text), settings);
        }
    }

    fn only_mistake(text: &str) -> Mistake {
        let mut mistakes = parse(text).mistakes;
        assert_eq!(mistakes.len(), 1, "{text:?}: {mistakes:?}");
        mistakes.remove(0)
    }

    #[test]
    fn gateways_have_addresses_and_keys_that_nobody_sees() {
        let text = "[[adapters.openclaw.gateways]]\nurl = \"ws://box.local\"\ntoken = \"s3cret\"\ntokenFile = \"~/t\"\n";
        let gateways = parse(text).adapter("openclaw").gateways;
        assert_eq!((gateways.value.len(), gateways.origin.clone()), (1, Origin::File));
        assert_eq!(gateways.value[0].token_file.as_deref(), Some(Path::new("/home/dev/t")));
        assert!(!format!("{gateways:?}").contains("s3cret"));
        let odd = |text: &str| only_mistake(text).message;
        assert!(
            odd("[adapters.openclaw]\ngateways = [{url = \"http://x\"}]")
                .contains("`http://x` is no address")
        );
        assert!(odd("[adapters.codex]\ngateways = [{url = \"ws://x\"}]").contains("codex has no gateways"));
        assert!(odd("[adapters.codex]\napprovals = true").contains("codex has no gateways"));
        let approvals = |text: &str| parse(text).adapter("openclaw").approvals.value;
        assert_eq!(approvals("[adapters.openclaw]\napprovals = true"), Some(true));
        assert_eq!(approvals(""), None);
    }

    #[test]
    fn an_agent_over_acp_is_named_and_a_known_one_is_changed() {
        let text = "adapter = \"acp:goose\"\n[acp.goose]\ncommand = [\"~/bin/goose\", \"acp\"]\nenv = {A = \"b\"}\n\
                    timeout = \"5s\"\n[acp.gemini]\nenv = {C = \"d\"}\n";
        let settings = parse(text);
        assert_eq!(settings.mistakes, []);
        let agents = settings.acp_agents();
        let agent = |name: &str| agents.iter().find(|agent| agent.name == name).unwrap();
        let goose = agent("acp:goose");
        assert_eq!((goose.command[0].as_str(), goose.native), ("/home/dev/bin/goose", None));
        assert_eq!((goose.env["A"].as_str(), goose.opening_timeout), ("b", Duration::from_secs(5)));
        let gemini = agent("acp:gemini");
        assert_eq!((gemini.command.join(" ").as_str(), gemini.native), ("gemini --acp", Some("gemini")));
        assert_eq!(gemini.env.keys().collect::<Vec<_>>(), ["C", "GEMINI_CLI_NO_RELAUNCH"]);
        assert_eq!(agents.iter().filter(|agent| agent.name == "acp:gemini").count(), 1);
        assert_eq!(agent("acp:codex-acp").native, Some("codex"));
    }

    #[test]
    fn a_machine_has_one_name_on_the_bus_and_asks_by_it() {
        let section = |text: &str| parse(text).nats.unwrap();
        let nats = section("[nats]\nurl = \"nats://n\"\ncreds = \"~/c\"\n").on("box.lan").unwrap();
        assert_eq!((nats.name.as_str(), nats.asker.as_str()), ("box", "box"));
        assert_eq!((nats.serve.as_str(), nats.creds.as_deref()), ("off", Some(Path::new("/home/dev/c"))));
        assert!(!nats.allows_bypass && nats.hosts.is_none());
        assert!(section("[nats]\nurl = \"nats://n\"\n").on("all").unwrap_err().contains("set `name`"));
        let named = section(
            "[nats]\nurl = \"nats://n\"\nname = \"dev1\"\nasker = \"ann\"\nserve = \"act\"\n\
                             allow = [\"bypass\"]\nhosts = [\"a\", \"b\"]\n",
        );
        let nats = named.on("x").unwrap();
        assert_eq!((nats.name.as_str(), nats.asker.as_str()), ("dev1", "ann"));
        assert!(nats.allows_bypass && nats.hosts.unwrap().len() == 2);
    }

    #[test]
    fn each_value_knows_where_it_came_from() {
        let settings = parse(
            "[adapters.claude-code]\nroots = [\"~/work/.claude\", \"/srv/claude\"]\ntimeout = \"1m 30s\"\n",
        );
        let claude = settings.adapter("claude-code");
        assert_eq!(claude.roots.value, [Path::new("/home/dev/work/.claude"), Path::new("/srv/claude")]);
        assert_eq!(claude.roots.origin, Origin::File);
        assert_eq!(claude.timeout.value, Duration::from_secs(90));
        assert_eq!(claude.enabled, Setting { value: true, origin: Origin::Default });
        assert_eq!(settings.adapter("anything else").timeout.value, TIMEOUT);
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
            ("adapter = \"claud\"\n", 1, "claud"),
            ("model = 5\n", 1, "5"),
            ("http = 7788\n", 1, "7788"),
            ("http = \"7788\"\n", 1, "127.0.0.1:7788"),
            ("http = \"0.0.0.0:80\"\n", 1, "no loopback address"),
            ("[webhook]\nurl = \"example.org\"\n", 2, "https://"),
            ("[webhook]\nevents = [\"session.stoped\"]\n", 2, "session.stopped"),
            ("[webhook]\nsecret = 1\n", 2, "1"),
            ("[notify]\non = [\"waiting\", \"fail\"]\n", 2, "interrupted"),
            ("[notify]\ncomand = \"x\"\n", 2, "comand"),
            ("[retention]\nlaunches = 7\n", 2, "7"),
            ("[prices.m]\nin = \"3\"\n", 2, "expected a number"),
            ("[prices]\nm = 3\n", 2, "expected a table"),
            ("[adapters.codex]\nroots = \"/x\"\n", 2, "expected a list"),
            ("[acp.goose]\nenv = {}\n", 1, "`command` is missing"),
            ("[acp.goose]\ncommand = []\n", 1, "names no program"),
            ("[acp.goose]\ncommand = \"goose acp\"\n", 1, "no list of words"),
            ("[acp.goose]\ncommand = [\"goose\"]\nenv = {\"A=B\" = \"x\"}\n", 3, "A=B"),
            ("[acp.goose]\ncommand = [\"goose\"]\nargs = []\n", 3, "args"),
            ("[acp.\"a b\"]\ncommand = [\"goose\"]\n", 1, "a b"),
            ("[nats]\nserve = \"read\"\n", 1, "url"),
            ("[nats]\nurl = \"nats://ann:pw@n\"\n", 2, "no password"),
            ("[nats]\nurl = \"nats://n\"\nserve = \"all\"\n", 3, "off, read, act"),
            ("[nats]\nurl = \"nats://n\"\nname = \"a.b\"\n", 3, "a.b"),
            ("[nats]\nurl = \"nats://n\"\nasker = \"all\"\n", 3, "reserved"),
            ("[nats]\nurl = \"nats://n\"\nallow = [\"root\"]\n", 3, "bypass"),
            ("[nats]\nurl = \"nats://n\"\ncreds = \"a\"\nnkey = \"b\"\n", 4, "not both"),
            ("[nats]\nurl = \"nats://n\"\ntls = {cert = \"c\"}\n", 3, "both `cert` and `key`"),
            ("adapter = \"acp:goose\"\n", 1, "[acp.goose]"),
            ("[prices.m]\nin = 3\nout = -1\n", 3, "-1"),
            ("[prices.m]\ncache_read = 1\n", 2, "cacheRead"),
        ] {
            let mistake = only_mistake(text);
            assert_eq!(mistake.line, Some(line), "{text:?}: {mistake}");
            assert!(mistake.message.contains(word), "{text:?}: {mistake}");
        }
    }

    #[test]
    fn a_mistake_leaves_the_rest_of_the_file_in_force() {
        let text = "adapter = \"codex\"\ncolour = 1\n[webhook]\nurl = 5\nsecret = \"s\"\n[adapters.codex]\nroot = []\n\
            roots = [\"/x\"]\ntimeout = 3\n[adapters.claud]\nenabled = false\n[retention]\nlaunches = \"3d\"\n";
        let settings = parse(text);
        let told: Vec<_> = settings
            .mistakes
            .iter()
            .map(|it| (it.line, it.column, it.key.as_deref(), it.invalidates))
            .collect();
        assert!(told.is_sorted_by_key(|told| told.0), "as they stand in the file: {told:?}");
        for wanted in [
            (Some(2), Some(1), Some("colour"), Invalidates::Nothing),
            (Some(4), Some(7), Some("webhook.url"), Invalidates::Key),
            (Some(7), Some(1), Some("adapters.codex.root"), Invalidates::Nothing),
            (Some(9), Some(11), Some("adapters.codex.timeout"), Invalidates::Key),
            (Some(10), Some(11), Some("adapters.claud"), Invalidates::Nothing),
        ] {
            assert!(told.contains(&wanted), "{wanted:?}: {told:?}");
        }
        assert_eq!(told.len(), 5, "{told:?}");
        let words = settings.mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(
            words.contains("did you mean `roots`?") && words.contains("did you mean `claude-code`?"),
            "{words}"
        );
        assert_eq!(settings.adapter.value.as_deref(), Some("codex"));
        assert_eq!(settings.webhook.secret.value.as_deref(), Some("s"));
        assert_eq!(settings.adapter("codex").roots.value, [Path::new("/x")]);
        assert_eq!(settings.launches_kept.value, Duration::from_hours(72));
        assert!(
            settings.invalid(&["webhook"]).is_some() && settings.invalid(&["notify", "prices"]).is_none()
        );
        assert!(settings.prevents_launch().is_none() && settings.hides_sessions().is_some());
    }

    #[test]
    fn a_gateway_that_lacks_its_address_does_not_take_the_others_along() {
        let settings = parse(
            "[[adapters.openclaw.gateways]]\ntoken = \"t\"\n[[adapters.openclaw.gateways]]\nurl = \"ws://x\"\ntokn = 1\n",
        );
        assert_eq!(settings.adapter("openclaw").gateways.value.len(), 1, "{:?}", settings.mistakes);
        assert_eq!(settings.mistakes.len(), 2, "{:?}", settings.mistakes);
    }

    #[test]
    fn a_file_that_is_no_toml_is_all_defaults_and_starts_nothing() {
        let settings = parse("[adapters\nadapter = \"codex\"\n");
        assert_eq!(settings.mistakes.len(), 1, "{:?}", settings.mistakes);
        assert_eq!(settings.adapter.value, None);
        assert!(settings.prevents_launch().is_some());
        assert_eq!(settings.kept_at_least(), Duration::MAX);
    }

    #[test]
    fn mistakes_without_number_are_not_told_one_by_one() {
        let text: String =
            (0..1000).flat_map(|number| ["k".to_owned(), number.to_string(), " = 1\n".to_owned()]).collect();
        let settings = parse(&text);
        assert!(settings.mistakes.len() < 60 && settings.prevents_launch().is_some());
    }

    #[test]
    fn an_empty_file_is_all_defaults() {
        assert_eq!(parse(""), Settings::defaults(&environ(&[])));
    }

    #[test]
    fn every_documented_section_is_understood() {
        let text = "adapter = \"codex\"\nmodel = \"m\"\nhttp = \"127.0.0.2:7788\"\n\
            [webhook]\nurl = \"https://example.org/hook\"\nsecret = \"s\"\nevents = [\"session.waiting\"]\n\
            [notify]\ncommand = \"notify-send agent\"\non = [\"died\"]\n\
            [retention]\nlaunches = \"2w\"\n\
            [prices.\"claude-opus-5-5\"]\nin = 5\nout = 25.5\ncacheRead = 0.5\n";
        let settings = parse(text);
        assert_eq!(settings.mistakes, []);
        assert_eq!(settings.adapter.value.as_deref(), Some("codex"));
        assert_eq!(settings.http.value, Some(SocketAddr::from(([127, 0, 0, 2], 7788))));
        assert_eq!(settings.webhook.events.value, [EventKind::SessionWaiting]);
        assert_eq!(settings.notify.on.value, ["died"]);
        assert_eq!(settings.launches_kept.value, 2 * RETENTION);
        let price = Price { input: Some(5.0), output: Some(25.5), cache_read: Some(0.5), cache_write: None };
        assert_eq!(settings.prices["claude-opus-5-5"], price);

        let moved = Settings::parse(text, &environ(&[("AGENTCTL_WEBHOOK_URL", "http://127.0.0.1:1")]));
        assert_eq!(moved.webhook.url.value.as_deref(), Some("http://127.0.0.1:1"));
        assert_eq!(moved.webhook.url.origin, Origin::Environment("AGENTCTL_WEBHOOK_URL".into()));
        assert_eq!(moved.webhook.secret, settings.webhook.secret);
    }
}
