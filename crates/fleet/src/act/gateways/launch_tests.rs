//! Launches in a scripted server: which directories are checked, and what stays if the server does not answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use agentctl_adapters::gateway::Addressee;
use agentctl_adapters::{Adapter, Answer, Card, Conversation, Follow, Keys, ReadError, Root, Scope};
use agentctl_model::{Entry, Environ, Harvest, Joined, KernelView, ProcessHead, Session};
use agentctl_process::fake::Scripted;

use super::*;
use crate::act::launch::{Choice, LaunchOptions, LaunchRequest};
use crate::keep::locks::{Locks, ManualLock};
use crate::keep::store::Store;

/// A server that accepts everything and shows nothing.
struct Far {
    hears_a_stop: bool,
}

static HEARS: Far = Far { hears_a_stop: true };
static DEAF: Far = Far { hears_a_stop: false };
static HEARING: Behind = Behind(&HEARS);
static SILENT: Behind = Behind(&DEAF);

struct Behind(&'static Far);

impl Gateway for Far {
    fn conversation(&self, _: &Root, _: &str) -> Conversation<'_> {
        Conversation::Nothing
    }

    fn root_at(&self, _: &str, _: Keys) -> Option<Root> {
        None
    }
    fn wants_device(&self, _: &Root) -> bool {
        false
    }
    fn read(&self, _: &Root, _: &str, _: usize) -> Result<Vec<Entry>, ReadError> {
        Ok(Vec::new())
    }
    fn follow(&self, root: &Root, _: &str, _: usize) -> Result<Box<dyn Follow>, ReadError> {
        Err(ReadError::new(&root.path, std::io::ErrorKind::Unsupported.into()))
    }
    fn is_reachable(&self, _: &Root) -> bool {
        true
    }
    fn is_here(&self, root: &Root) -> bool {
        root.path == *"here"
    }
    fn is_meant(&self, root: &Root, said: &str) -> bool {
        root.path.as_os_str() == said
    }
    fn request(&self, root: &Root, turn: &TurnRequest<'_>) -> Result<Request, Error> {
        let to = root.path.to_string_lossy().into_owned();
        Ok(Request { to, method: "begin", params: turn.cwd.map(|cwd| cwd.display().to_string()).into() })
    }
    fn begin(&self, _: &Root, _: &TurnRequest<'_>) -> Result<Begun, Error> {
        Ok(Begun { id: "s-1".into(), run: None })
    }
    fn shows(&self, _: &Session, _: &Begun) -> bool {
        false
    }
    fn stop(&self, _: &Root, _: &str) -> Result<bool, Error> {
        self.hears_a_stop.then_some(true).ok_or_else(|| Error::no_answer("connection refused"))
    }
    fn send(&self, _: &Root, _: &str, _: &str, _: &str) -> Result<(), Error> {
        Ok(())
    }
    fn tell(&self, _: &Root, _: &Addressee, _: &str, _: &str) -> Result<(), Error> {
        Ok(())
    }
    fn answer(&self, _: &Root, _: &str, _: &Answer) -> Result<(), Error> {
        Ok(())
    }
}

impl Adapter for Behind {
    fn conversation(&self, _: &Path, _: &str) -> Conversation<'_> {
        Conversation::Nothing
    }

    fn card(&self) -> &'static Card {
        static CARD: Card = Card::new("far", "Far");
        &CARD
    }
    fn root(&self, _: &Environ) -> Option<Root> {
        None
    }
    fn survey(&self, _: &Root, _: &Scope<'_>) -> Harvest {
        Harvest::complete(Vec::new())
    }
    fn recognises(&self, _: &ProcessHead) -> bool {
        false
    }
    fn join(&self, _: &Root, _: &Harvest, _: &KernelView) -> Joined {
        Joined::default()
    }
    fn read(&self, _: &Path, _: &str, _: usize) -> Result<Vec<Entry>, ReadError> {
        Ok(Vec::new())
    }
    fn follow(&self, place: &Path, _: &str, _: usize) -> Result<Box<dyn Follow>, ReadError> {
        Err(ReadError::new(place, std::io::ErrorKind::Unsupported.into()))
    }
    fn gateway(&self) -> Option<&'static dyn Gateway> {
        Some(self.0)
    }
}

struct Scene {
    home: tempfile::TempDir,
    fleet: Fleet,
    caller: Caller,
}

impl Scene {
    fn with(adapter: &'static Behind) -> Self {
        let home = tempfile::tempdir().unwrap();
        let source = |root| Source { adapter, root: Root::at(root), timeout: Duration::from_mins(1) };
        let sources = ["here", "there"].map(source).to_vec();
        let fleet = Fleet::new(sources, Arc::new(Scripted::new()));
        let caller = Caller {
            environ: Environ::default(),
            programs: BTreeMap::new(),
            home: home.path().to_owned(),
            agentctl: "/none".into(),
        };
        Self { home, fleet, caller }
    }

    fn launch(&self, gateway: &str, cwd: &Path) -> Result<GatewayLaunch, Error> {
        let options = LaunchOptions {
            gateway: Some(gateway.into()),
            labels: [("k".into(), "v".into())].into(),
            ..LaunchOptions::default()
        };
        let request = LaunchRequest {
            choices: vec![Choice { adapter: "far".into(), model: None, branch: None }],
            cwd: cwd.to_owned(),
            cwd_is_chosen: true,
            options,
            ..LaunchRequest::default()
        };
        let plan = self.fleet.plan_launch(&request, "go".into(), &BTreeMap::new()).unwrap();
        let order = plan.slots.into_iter().next().unwrap().order.unwrap();
        assert_eq!(order.root, gateway);
        let server = self.fleet.server_named("far", gateway).unwrap();
        server.launch(order, "go", &self.caller, Timestamp::UNIX_EPOCH)
    }

    fn records(&self) -> usize {
        std::fs::read_dir(self.caller.launches()).map_or(0, Iterator::count)
    }
}

#[test]
fn a_lock_here_holds_no_folder_of_another_machine() {
    let scene = Scene::with(&HEARING);
    let folder = scene.home.path().join("project");
    std::fs::create_dir(&folder).unwrap();
    let lock = ManualLock {
        directory: folder.clone(),
        by: Some("dev".into()),
        reason: None,
        since: Timestamp::UNIX_EPOCH,
        until: None,
    };
    Locks::of(Store::at(scene.home.path())).lock(lock, false).unwrap();
    let refused = scene.launch("here", &folder).unwrap_err();
    assert!(refused.kind == ErrorKind::Refused && refused.message.contains("dev"), "{refused:?}");
    assert!(scene.launch("there", &folder).is_ok());
}

#[test]
fn what_could_not_be_taken_back_is_said_and_keeps_its_record() {
    let scene = Scene::with(&SILENT);
    let mut launched = scene.launch("there", Path::new("/w")).unwrap();
    launched.cancel();
    let error = launched.outcome(&scene.fleet).unwrap().unwrap_err();
    assert!(error.message.contains("could not be taken back, session s-1 may go on"), "{error:?}");
    assert!(error.message.contains("connection refused"), "{error:?}");
    assert_eq!(scene.records(), 1, "it goes on with its labels");

    let scene = Scene::with(&HEARING);
    let mut launched = scene.launch("there", Path::new("/w")).unwrap();
    assert_eq!(scene.records(), 1);
    launched.cancel();
    let error = launched.outcome(&scene.fleet).unwrap().unwrap_err();
    assert!(error.message.contains("was taken back"), "{error:?}");
    assert_eq!(scene.records(), 0);
}

#[test]
fn a_turn_that_is_not_shown_in_time_keeps_its_labels() {
    let scene = Scene::with(&HEARING);
    let mut launched = scene.launch("there", Path::new("/w")).unwrap();
    launched.until = Instant::now();
    let error = launched.outcome(&scene.fleet).unwrap().unwrap_err();
    assert!(error.message.contains("does not show the turn"), "{error:?}");
    assert_eq!(scene.records(), 1, "the gateway has the session: nothing is concluded from the time");
}
