//! The environment of the process: variables, folders, terminal preferences, the clock. This is the only file
//! that reads the environment; everything else gets the values from here.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, OnceLock};

use agentctl_adapters::agents::acp;
use agentctl_adapters::{Adapter, Gateway, Keys, Root, Secret};
use agentctl_daemon::{Home, HomeError};
use agentctl_files::own;
use agentctl_fleet::act::launch::Launcher;
use agentctl_fleet::{Caller, Fleet, Source, Store};
use agentctl_model::{Environ, ErrorKind};
use agentctl_snapshot::Replay;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::failure::Failure;
use crate::link::client::{Client, Silence};
use crate::render::path;
use crate::render::style::Colour;
use crate::settings::{AdapterSettings, Mistake, Origin, Settings};

mod bus;
mod device_key;
mod instance;

const CONFIG: &str = "config.toml";

/// Settings and keys are a few kilobytes.
const LARGEST: u64 = 4 << 20;

pub(crate) struct Surroundings {
    pub(crate) environ: Environ,
    variables: Vec<(OsString, OsString)>,
    pub(crate) home: Option<PathBuf>,
    pub(crate) cwd: Option<PathBuf>,
    /// Found when it is first needed: the whole time zone database is listed for it, which a list in JSON never needs.
    pub(crate) zone: LazyLock<TimeZone>,
    /// The snapshot that is asked instead of this machine.
    pub(crate) replay: Option<Arc<Replay>>,
    /// Why the daemon cannot be asked, once a request of this command has shown it.
    pub(crate) silent_daemon: Arc<OnceLock<Silence>>,
}

impl Surroundings {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub(crate) fn gather() -> Self {
        let cwd = std::env::current_dir().ok();
        Self::from_variables(std::env::vars_os().collect(), cwd)
    }

    fn from_variables(variables: Vec<(OsString, OsString)>, cwd: Option<PathBuf>) -> Self {
        let environ: Environ = variables.iter().cloned().collect();
        let home = environ.path("HOME");
        let (zone, replay, silent_daemon) =
            (LazyLock::new(TimeZone::system as fn() -> TimeZone), None, Arc::default());
        Self { environ, variables, home, cwd, zone, replay, silent_daemon }
    }

    /// The same surroundings, in which a snapshot is asked instead of this machine.
    pub(crate) fn replaying(self, file: &Path) -> Result<Self, Failure> {
        let (own, _) = self.own_folder().unzip();
        let replay = Replay::open(&self.meant(file), own.as_deref())?;
        Ok(Self { home: replay.manifest.home.clone(), replay: Some(Arc::new(replay)), ..self })
    }

    /// Where the records of a session lie, on the machine that is asked.
    pub(crate) fn records(&self, place: &Path) -> String {
        let place = place.to_string_lossy();
        self.replay.as_ref().map_or_else(|| place.clone().into_owned(), |replay| replay.text(&place))
    }

    /// The same agentctl with the variables of another caller; its own folder stays.
    pub(crate) fn elsewhere(&self, variables: &BTreeMap<String, String>) -> Self {
        let mut variables: BTreeMap<OsString, OsString> =
            variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        variables.extend(self.own_folder().map(|(folder, _)| ("AGENTCTL_HOME".into(), folder.into())));
        Self::from_variables(variables.into_iter().collect(), None)
    }

    /// The variables that moved agentctl's folder or an agent's root.
    pub(crate) fn root_variables(&self) -> BTreeMap<String, String> {
        let own = self.own_folder().map(|(_, origin)| origin);
        let roots = agentctl_adapters::registry().into_iter().map(|adapter| self.root_origin(adapter));
        let name = |origin| match origin {
            Origin::Environment(name) => Some(name),
            Origin::Default | Origin::File => None,
        };
        let names = roots.chain(own).filter_map(name);
        names.filter_map(|name| Some((name.clone(), self.environ.text(&name)?.to_owned()))).collect()
    }

    /// The variables here with these beside them. One that is not text cannot be told to anybody.
    pub(crate) fn variables_with(&self, others: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let own = self.variables.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
        own.chain(others.clone()).collect()
    }

    /// The same surroundings for a further answer of a process that lives long: whether the daemon answers is not known
    /// yet.
    pub(crate) fn anew(&self) -> Self {
        Self::from_variables(self.variables.clone(), self.cwd.clone())
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.replay.as_ref().map_or_else(clock, |replay| replay.manifest.taken_at)
    }

    pub(crate) fn host(&self) -> String {
        if let Some(replay) = &self.replay {
            return replay.manifest.host.clone();
        }
        rustix::system::uname().nodename().to_string_lossy().into_owned()
    }

    /// Whether output there is coloured. The flag overrides every variable; then come `NO_COLOR`,
    /// `CLICOLOR_FORCE`, `CLICOLOR=0` and a terminal without colours. Otherwise a terminal is coloured and a
    /// pipe is not.
    pub(crate) fn wants_colour(&self, asked: Colour, terminal: bool) -> bool {
        match asked {
            Colour::Always => return true,
            Colour::Never => return false,
            Colour::Auto => {}
        }
        if self.environ.get("NO_COLOR").is_some() {
            return false;
        }
        if self.environ.text("CLICOLOR_FORCE").is_some_and(|value| value != "0") {
            return true;
        }
        let refused = self.environ.text("CLICOLOR") == Some("0") || self.environ.text("TERM") == Some("dumb");
        terminal && !refused
    }

    pub(crate) fn columns(&self) -> Option<usize> {
        self.environ.text("COLUMNS").and_then(|columns| columns.parse().ok()).filter(|columns| *columns > 0)
    }

    /// The folder of agentctl itself, and its origin.
    pub(crate) fn own_folder(&self) -> Option<(PathBuf, Origin)> {
        if let Some(folder) = self.environ.path("AGENTCTL_HOME") {
            let folder = path::expand(&folder, self.home.as_deref());
            return Some((folder, Origin::Environment("AGENTCTL_HOME".into())));
        }
        self.home.as_ref().map(|home| (home.join(".agentctl"), Origin::Default))
    }

    /// The files of agentctl itself.
    pub(crate) fn store(&self) -> Result<Store, Failure> {
        let nowhere = || {
            Failure::new(ErrorKind::Failed, "neither AGENTCTL_HOME nor HOME says where agentctl's folder is")
        };
        self.own_folder().map(|(folder, _)| Store::at(folder)).ok_or_else(nowhere)
    }

    /// The caller for whom agents are started and stopped: this process.
    pub(crate) fn caller(&self, settings: &Settings) -> Result<Caller, Failure> {
        let agentctl = self.own_program()?;
        Ok(Caller {
            environ: self.environ.clone(),
            programs: settings.programs(),
            home: self.store()?.folder().to_owned(),
            agentctl,
        })
    }

    /// This very program.
    #[expect(clippy::unused_self, reason = "the program is part of the surroundings")]
    pub(crate) fn own_program(&self) -> Result<PathBuf, Failure> {
        own_program()
            .map_err(|error| Failure::new(ErrorKind::Failed, format!("cannot find agentctl itself: {error}")))
    }

    /// The inputs of a launch, under these settings.
    pub(crate) fn launcher(&self, settings: &Settings) -> Result<Launcher, Failure> {
        Ok(Launcher {
            fleet: self.fleet_under(settings),
            caller: self.caller(settings)?,
            defaults: settings.launch_defaults(),
            kept: settings.kept_at_least(),
            mistake: settings.prevents_launch().map(|mistake| self.describe(mistake)),
        })
    }

    pub(crate) fn config_path(&self) -> Option<PathBuf> {
        self.own_folder().map(|(folder, _)| folder.join(CONFIG))
    }

    /// The effective settings: the contents of the file without its mistakes, which are listed separately.
    pub(crate) fn settings(&self) -> Result<Settings, SettingsError> {
        let defaults = || Settings::defaults(&self.environ);
        // The settings of this machine say nothing about another one.
        if self.replay.is_some() {
            return Ok(defaults());
        }
        let Some((folder, _)) = self.own_folder() else { return Ok(defaults()) };
        let Some(folder) = Home::at(folder).readable().map_err(SettingsError::Home)? else {
            return Ok(defaults());
        };
        let path = folder.join(CONFIG);
        match own::read_kept_elsewhere(&path, LARGEST) {
            Ok(text) => Ok(Settings::parse(&text, &self.environ)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(defaults()),
            Err(error) => Err(SettingsError::Unreadable { path, error }),
        }
    }

    /// Describes a mistake of the config file, with the file and the position.
    pub(crate) fn describe(&self, mistake: &Mistake) -> String {
        let path = self.config_path().map(|path| self.shown(&path)).unwrap_or_default();
        format!("{path}: {mistake}")
    }

    /// The failure of a command that a mistake in the settings prevents.
    pub(crate) fn because_of(&self, mistake: &Mistake) -> Failure {
        Failure::new(ErrorKind::Failed, self.describe(mistake))
            .hint("`agentctl config check` tries it again once it is corrected")
    }

    /// Refuses a folder of agentctl that belongs to another user: its contents are never trusted.
    pub(crate) fn check_home(&self) -> Result<(), Failure> {
        let Some((folder, _)) = self.own_folder() else { return Ok(()) };
        Home::at(folder).readable().map(drop).map_err(|error| SettingsError::Home(error).into())
    }

    /// The client of this folder's daemon, unless the user wants none. Whether a daemon runs shows with the
    /// first request.
    pub(crate) fn client(&self) -> Option<Client> {
        if self.environ.get("AGENTCTL_NO_DAEMON").is_some() || self.replay.is_some() {
            return None;
        }
        let (folder, _) = self.own_folder()?;
        Some(Client::at(Home::at(folder).socket()).with_short_timeout(self.silent_daemon.clone()))
    }

    /// All sources, under the effective settings.
    pub(crate) fn fleet(&self) -> Result<Fleet, Failure> {
        Ok(self.fleet_under(&self.settings()?))
    }

    pub(crate) fn fleet_under(&self, settings: &Settings) -> Fleet {
        if let Some(replay) = &self.replay {
            return replay.fleet();
        }
        let mut sources = Vec::new();
        for adapter in agentctl_adapters::registry() {
            let chosen = settings.adapter(adapter.card().name);
            if chosen.enabled.value {
                let timeout = chosen.timeout.value;
                let mut roots = self.roots(adapter, &chosen.roots.value);
                if let Some(gateway) = adapter.gateway() {
                    self.add_gateways(gateway, &chosen, &mut roots);
                }
                sources.extend(roots.into_iter().map(|root| Source { adapter, root, timeout }));
            }
        }
        let agents = settings.acp_agents();
        // The sessions of the others are read by the adapters that know them.
        for agent in agents.iter().filter(|agent| agent.native.is_none()) {
            let (adapter, root) = (acp::adapter(agent), acp::root(agent));
            sources.push(Source { adapter, root, timeout: settings.adapter(&agent.name).timeout.value });
        }
        let fleet = Fleet::new(sources, agentctl_process::system())
            .with_prices(settings.prices.clone())
            .with_acp(agents, self.environ.clone());
        match self.own_folder() {
            Some((folder, _)) => fleet
                .with_launches(folder.join(agentctl_fleet::keep::launches::FOLDER))
                .with_budgets(Store::at(folder), TimeZone::system),
            None => fleet,
        }
    }

    /// The root that the agent's own variables name, then the configured ones; each location once.
    pub(crate) fn roots(&self, adapter: &'static dyn Adapter, configured: &[PathBuf]) -> Vec<Root> {
        let own = adapter.root(&self.environ);
        let mut roots: Vec<Root> = Vec::new();
        let written = configured.iter().map(|path| adapter.configured_root(path, &self.environ));
        for root in own.into_iter().chain(written) {
            if !roots.iter().any(|known| same_place(known, &root)) {
                roots.push(root);
            }
        }
        roots
    }

    /// Adds the configured gateways with their keys; a gateway that is already known only gets the keys it
    /// lacks.
    fn add_gateways(&self, gateway: &dyn Gateway, chosen: &AdapterSettings, roots: &mut Vec<Root>) {
        for configured in &chosen.gateways.value {
            let mut keys = configured.keys.clone();
            let written =
                configured.token_file.as_ref().and_then(|path| agentctl_files::read_text(path, LARGEST).ok());
            keys.token = keys.token.or_else(|| written.and_then(Secret::new));
            let Some(root) = gateway.root_at(&configured.url, keys.clone()) else { continue };
            match roots.iter_mut().find(|known| known.path == root.path) {
                Some(known) => {
                    let known = known.keys.get_or_insert_default();
                    known.token = keys.token.or_else(|| known.token.take());
                    known.password = keys.password.or_else(|| known.password.take());
                    known.pin = keys.pin.or_else(|| known.pin.take());
                }
                None => roots.push(root),
            }
        }
        for root in roots {
            let keys = root.keys.take().unwrap_or_default();
            let device = if gateway.wants_device(root) { self.device_key() } else { None };
            root.keys = Some(Keys { device, approvals: chosen.approvals.value, ..keys });
        }
    }

    /// The key by which a remote gateway knows this machine; it is created when it is first needed. If it
    /// cannot be stored there is none, and the gateway will report that.
    fn device_key(&self) -> Option<Secret> {
        let (folder, _) = self.own_folder()?;
        let path = folder.join("device.key");
        if let Ok(text) = own::read_text(&path, LARGEST) {
            return Secret::new(text);
        }
        device_key::make(&folder, &path).ok()?;
        own::read_text(&path, LARGEST).ok().and_then(Secret::new)
    }

    /// The variable, if any, that moved the agent's root from its default location.
    pub(crate) fn root_origin(&self, adapter: &'static dyn Adapter) -> Origin {
        let own = adapter.root(&self.environ);
        let decisive = |name: &OsStr| {
            let others = self.variables.iter().filter(|(other, _)| other != name).cloned();
            adapter.root(&others.collect()) != own
        };
        self.variables
            .iter()
            .map(|(name, _)| name)
            .find(|name| *name != "HOME" && decisive(name))
            .map_or(Origin::Default, |name| Origin::Environment(name.to_string_lossy().into_owned()))
    }

    /// The first executable of this name on the PATH; a name with a slash is the path itself.
    pub(crate) fn on_path(&self, program: &Path) -> Option<PathBuf> {
        agentctl_fleet::find_program(program, &self.environ)
    }

    /// A path as this user would write it.
    pub(crate) fn shown(&self, path: &Path) -> String {
        path::shown(&path.to_string_lossy(), self.home.as_deref())
    }

    /// The folder that this user means by a path on the command line.
    pub(crate) fn meant(&self, path: &Path) -> PathBuf {
        path::meant(path, self.home.as_deref(), self.cwd.as_deref())
    }

    /// The same folder as its real path and as typed: agents may have recorded either.
    pub(crate) fn meant_folders(&self, given: &Path) -> Vec<PathBuf> {
        let typed = self.cwd.as_ref().map(|cwd| cwd.join(given));
        std::iter::once(self.meant(given)).chain(typed).collect()
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
pub(crate) fn clock() -> Timestamp {
    // The time is cut to milliseconds, which is the finest resolution that any agent writes.
    let now = Timestamp::now();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}

fn same_place(one: &Root, other: &Root) -> bool {
    let real = |path: &Path| agentctl_files::real_path_within(path).unwrap_or_else(|| path.to_owned());
    // For an address it does not matter where its gateway stores its data.
    let is_address = one.path.to_string_lossy().contains("://");
    one == other || (real(&one.path) == real(&other.path) && (is_address || one.store == other.store))
}

/// The settings cannot be read at all.
#[derive(Debug)]
pub(crate) enum SettingsError {
    /// The folder belongs to another user.
    Home(HomeError),
    Unreadable {
        path: PathBuf,
        error: io::Error,
    },
}

impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Self {
        let message = match &error {
            SettingsError::Home(error) => return Self::new(ErrorKind::Refused, error.to_string()),
            SettingsError::Unreadable { path, error } => format!("cannot read {}: {error}", path.display()),
        };
        Self::new(ErrorKind::Failed, message)
            .hint("`agentctl config check` tries it again once it is corrected")
    }
}

/// This program. Where the file that a daemon runs was replaced by an update, the kernel calls it deleted, and the one in
/// its place is meant.
pub(crate) fn own_program() -> std::io::Result<PathBuf> {
    let exact = std::env::current_exe()?;
    let replaced = exact.to_str().and_then(|path| path.strip_suffix(" (deleted)")).map(PathBuf::from);
    Ok(replaced.filter(|_| agentctl_files::real_path(&exact).is_err()).unwrap_or(exact))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Surroundings {
        Surroundings::from_variables(
            variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            None,
        )
    }

    #[test]
    fn our_folder_is_in_home_unless_a_variable_says_otherwise() {
        let plain = with(&[("HOME", "/home/dev")]).own_folder();
        assert_eq!(plain, Some((PathBuf::from("/home/dev/.agentctl"), Origin::Default)));
        let moved = with(&[("HOME", "/home/dev"), ("AGENTCTL_HOME", "~/elsewhere")]).own_folder();
        let origin = Origin::Environment("AGENTCTL_HOME".into());
        assert_eq!(moved, Some((PathBuf::from("/home/dev/elsewhere"), origin)));
        assert_eq!(with(&[]).own_folder(), None);
    }

    #[test]
    fn the_variable_that_moved_a_root_is_named_and_roots_are_read_once() {
        let adapter = agentctl_adapters::registry()[0];
        let plain = with(&[("HOME", "/home/dev"), ("TERM", "x")]);
        assert_eq!(plain.root_origin(adapter), Origin::Default);
        let moved = with(&[("HOME", "/home/dev"), ("TERM", "x"), ("CLAUDE_CONFIG_DIR", "/srv/c")]);
        assert_eq!(moved.root_origin(adapter), Origin::Environment("CLAUDE_CONFIG_DIR".into()));
        let roots = moved.roots(adapter, &["/srv/c".into(), "/srv/d".into(), "/srv/d".into()]);
        let paths: Vec<&Path> = roots.iter().map(|root| root.path.as_path()).collect();
        assert_eq!(paths, [Path::new("/srv/c"), Path::new("/srv/d")]);
    }

    #[test]
    fn an_empty_no_color_is_no_wish() {
        let auto =
            |variables: &[(&str, &str)], terminal| with(variables).wants_colour(Colour::Auto, terminal);
        assert!(auto(&[("NO_COLOR", "")], true) && !auto(&[], false));
        assert!(
            !auto(&[("NO_COLOR", "1")], true) && !auto(&[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")], true)
        );
        assert!(!auto(&[("TERM", "dumb")], true) && !auto(&[("CLICOLOR", "0")], true));
        assert!(auto(&[("CLICOLOR_FORCE", "1"), ("CLICOLOR", "0")], false));
        assert!(!auto(&[("CLICOLOR_FORCE", "0")], false));
        assert!(with(&[("NO_COLOR", "1")]).wants_colour(Colour::Always, false));
        assert!(!with(&[("CLICOLOR_FORCE", "1")]).wants_colour(Colour::Never, true));
        assert_eq!(with(&[("COLUMNS", "120")]).columns(), Some(120));
        assert_eq!(with(&[("COLUMNS", "0")]).columns(), None);
    }
}
