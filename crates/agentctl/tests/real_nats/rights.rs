//! Who may do what: attacks on a server with the configuration that docs/hosts.md shows.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentctl_hosts::nats::BusDoor;
use agentctl_hosts::nats::dial::{Manner, dial};
use agentctl_hosts::nats::message::{self, AnswerHead, RequestHead};
use agentctl_hosts::nats::subjects::{self, Tree};
use agentctl_hosts::{Ask, Step};
use agentctl_testkit::{NatsServer, skip};
use async_nats::{Client, RequestErrorKind};
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::scene::{Asker, Machine, PATIENCE, connect, door, get, named, post, reach, settings};

/// Long enough for a message on loopback to come, were it let through.
const COMES: Duration = Duration::from_secs(1);

/// The server of docs/hosts.md, with keys that `agentctl hosts key` made, and one account more.
pub(crate) struct Guarded {
    server: NatsServer,
    keys: BTreeMap<&'static str, PathBuf>,
    admin: Asker,
}

impl Guarded {
    pub(crate) fn set() -> Option<Self> {
        let admin = Asker::new();
        let folder = admin.home.work_dir("keys");
        let mut keys = BTreeMap::new();
        let mut config = documented();
        let end = config.rfind('}').unwrap();
        config.insert_str(end, "  OTHER { users: [ { nkey: \"U_OTHER\" } ] }\n");
        for user in ["admin", "dev1", "dev2", "ann", "bob", "other"] {
            let path = folder.join(user);
            let made = admin.home.agentctl(&["hosts", "key", path.to_str().unwrap()]).ok();
            let public =
                made.stdout.split_whitespace().find(|word| word.starts_with('U')).unwrap().to_owned();
            assert_eq!(public.len(), 56, "{made:?}");
            config = config.replace(&format!("U_{}", user.to_uppercase()), &public);
            keys.insert(user, path);
        }
        let server = match NatsServer::start(&admin.home, &config) {
            Ok(server) => server,
            Err(reason) => {
                skip(reason);
                return None;
            }
        };
        let guarded = Self { server, keys, admin };
        guarded.admin.configure(&guarded.server.url(), "admin", &guarded.key_line("admin"));
        let _ = guarded.admin.home.agentctl(&["hosts", "init"]).ok();
        Some(guarded)
    }

    fn key_line(&self, user: &str) -> String {
        format!("nkey = \"{}\"", self.keys[user].display())
    }

    pub(crate) fn machine(&self, name: &str, more: &str) -> Machine {
        Machine::start(name, &self.server.url(), &format!("{}\n{more}", self.key_line(name)))
    }

    pub(crate) fn asker(&self, name: &str) -> Asker {
        let asker = Asker::new();
        asker.configure(&self.server.url(), name, &self.key_line(name));
        asker
    }

    fn door(&self, name: &str) -> Arc<BusDoor> {
        door(&self.server.url(), name, Some(&self.keys[name]))
    }

    /// Whoever has this key, with a client of his own.
    async fn client(&self, key: &str, inbox: &str) -> Client {
        let settings = settings(&self.server.url(), inbox, Some(&self.keys[key]));
        let user = named(inbox);
        dial(&settings, Manner { user: &user, stays: false, tell: None }).await.unwrap().0
    }
}

/// The configuration of the server as the document shows it, without what this machine decides.
fn documented() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/hosts.md");
    let text = fs::read_to_string(path).unwrap();
    let begin = text.find("# server.conf").unwrap();
    let config = &text[begin..begin + text[begin..].find("```").unwrap()];
    let kept = config.lines().filter(|line| !line.starts_with("jetstream") && !line.starts_with("# tls"));
    kept.collect::<Vec<_>>().join("\n")
}

fn on_runtime<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap().block_on(work)
}

fn head(method: &str, target: &str) -> RequestHead {
    RequestHead {
        road: message::VERSION,
        method: method.into(),
        target: target.into(),
        accept: "application/json".into(),
        cursor: None,
        instance: None,
        asker: None,
        nonce: None,
    }
}

#[test]
fn the_documented_rights_are_enough_and_a_reader_cannot_act() {
    let Some(guarded) = Guarded::set() else { return };
    let machine = guarded.machine("dev1", "serve = \"act\"");
    let second = guarded.machine("dev2", "serve = \"read\"");
    let ann = guarded.asker("ann");
    ann.hears(&["dev1", "dev2"]);
    let check = ann.home.agentctl(&["hosts", "check", "dev1", "--json"]).ok().json();
    assert!(check["steps"].as_array().unwrap().iter().all(|step| step["ok"] == true), "{check:#}");

    let locks = |machine: &Machine| machine.house.get("/v1/locks").json()["locks"].as_array().unwrap().len();
    let body = json!({"directory": machine.house.home.work_dir("x")});
    let bob = guarded.door("bob");
    let mut road = reach(&bob, &machine.name);
    assert_eq!(post(&mut road, "/v1/locks", &body).0, 200);
    assert_eq!(locks(&machine), 1);

    // The reader: the server lets nothing of his through to the subjects to act.
    let mut road = reach(&guarded.door("ann"), &machine.name);
    let before = machine.house.requests();
    let other = json!({"directory": machine.house.home.work_dir("y")}).to_string();
    let refused = road.ask(Ask::write("POST", "/v1/locks", &other), PATIENCE).unwrap_err();
    assert_eq!(refused.step, Step::Authenticate, "{refused:?}");
    assert!(refused.message.contains("Permissions Violation"), "{refused:?}");
    assert_eq!(machine.house.requests(), before + 1, "the machine heard of it");

    // A deed on the subjects to read is no deed, whoever sends it, and a host that serves to read hears no other.
    on_runtime(async {
        let bob = guarded.client("bob", "bob").await;
        for machine in [&machine, &second] {
            let payload = message::encode(&head("POST", "/v1/locks"), other.as_bytes());
            let reply = bob.request(Tree::Read.request(&machine.name), payload.into()).await.unwrap();
            let (head, body) = message::decode_answer(&reply.payload).unwrap();
            assert_eq!(head.status, 403, "{}", String::from_utf8_lossy(body));
        }
        let payload = message::encode(&head("POST", "/v1/locks"), other.as_bytes());
        let nobody = bob.request(Tree::Act.request(&second.name), payload.into()).await.unwrap_err();
        assert_eq!(nobody.kind(), RequestErrorKind::NoResponders);
    });
    assert_eq!((locks(&machine), locks(&second)), (1, 0));

    // Nor is one that is asked of all.
    let nonce = "0123456789abcdef0123456789abcdef";
    on_runtime(async {
        let bob = guarded.client("bob", "bob").await;
        let mut heard = bob.subscribe(subjects::answers(&named("bob"), nonce)).await.unwrap();
        bob.flush().await.unwrap();
        let deed =
            RequestHead { asker: Some("bob".into()), nonce: Some(nonce.into()), ..head("POST", "/v1/locks") };
        let payload = message::encode(&deed, other.as_bytes());
        bob.publish(subjects::fan_out(subjects::bucket(&machine.name)), payload.into()).await.unwrap();
        let reply = tokio::time::timeout(PATIENCE, heard.next()).await.unwrap().unwrap();
        assert_eq!(message::decode_answer(&reply.payload).unwrap().0.status, 403);
    });
    assert_eq!(locks(&machine), 1);

    // What the file takes back is taken back at once, although the daemon still listens.
    machine.configure(&guarded.server.url(), &format!("{}\nserve = \"read\"", guarded.key_line("dev1")));
    let mut road = reach(&bob, &machine.name);
    let (status, problem) = post(&mut road, "/v1/locks", &json!({"directory": "/"}));
    assert_eq!((status, &problem["code"]), (403, &json!("forbidden")), "{problem:#}");
    assert_eq!(locks(&machine), 1);

    // The reader cannot take a machine out of the roster; who acts can.
    let forget = |asker: &Asker| asker.home.agentctl(&["hosts", "forget", "dev2"]).code;
    let impatient = Asker::new();
    impatient.configure(
        &guarded.server.url(),
        "ann",
        &format!("{}\ntimeout = \"2s\"", guarded.key_line("ann")),
    );
    assert_ne!(forget(&impatient), Some(0));
    ann.hears(&["dev1", "dev2"]);
    let bob = guarded.asker("bob");
    assert_eq!(forget(&bob), Some(0));
    // It still answers, and is shown with a warning.
    let rows = ann.rows();
    let row = rows.iter().find(|row| row["name"] == "dev2").unwrap();
    assert!(row["hint"].as_str().unwrap().contains("roster"), "{row:#}");
    assert_eq!(forget(&bob), Some(3), "it is not in it any more");
}

#[test]
fn one_machine_cannot_answer_for_another_and_another_account_sees_nothing() {
    let Some(guarded) = Guarded::set() else { return };
    let machine = guarded.machine("dev1", "serve = \"act\"");
    let ann = guarded.asker("ann");
    ann.hears(&["dev1"]);
    let nonce = "0123456789abcdef0123456789abcdef";
    on_runtime(async {
        let asker = guarded.client("ann", "ann").await;
        let mut heard = asker.subscribe(subjects::answers(&named("ann"), nonce)).await.unwrap();
        asker.flush().await.unwrap();
        let thief = guarded.client("dev2", "dev2").await;
        let false_answer = AnswerHead {
            road: message::VERSION,
            status: 200,
            version: "0".into(),
            instance: "false".into(),
            part: 0,
            bytes: 2,
            more: None,
        };
        let payload = message::encode(&false_answer, b"{}");
        // In the name of dev1: the server keeps it back. In its own name it passes, so the way is open.
        let (one, two) = (named("dev1"), named("dev2"));
        thief.publish(subjects::answer(&one, &named("ann"), nonce), payload.clone().into()).await.unwrap();
        thief.publish(subjects::event(&one, "session.stopped"), payload.clone().into()).await.unwrap();
        thief.publish(subjects::roster_entry(&one), payload.clone().into()).await.unwrap();
        thief.publish(subjects::answer(&two, &named("ann"), nonce), payload.into()).await.unwrap();
        let first = tokio::time::timeout(PATIENCE, heard.next()).await.unwrap().unwrap();
        assert_eq!(subjects::answerer(&first.subject), Some(two));
        assert!(tokio::time::timeout(COMES, heard.next()).await.is_err(), "a second answer came");

        // It hears neither what is asked of dev1, nor what dev1 answers, nor anybody's inbox.
        let (mut requests, mut answered) = (Vec::new(), Vec::new());
        for subject in
            ["agentctl.read.dev1.>", "agentctl.act.dev1.>", "agentctl.read.>", "_INBOX.>", "_INBOX.ann.>"]
        {
            requests.push(thief.subscribe(subject).await.unwrap());
        }
        for subject in ["agentctl.answer.>", "agentctl.answer.dev1.>", "agentctl.event.>"] {
            answered.push(thief.subscribe(subject).await.unwrap());
        }
        thief.flush().await.unwrap();
        let stranger = guarded.client("other", "other").await;
        let mut everything = stranger.subscribe(">").await.unwrap();
        stranger.flush().await.unwrap();
        ann.hears(&["dev1"]);
        let _ = tokio::task::block_in_place(|| {
            reach(&guarded.door("bob"), &machine.name).ask(Ask::get("/v1/sessions"), PATIENCE).unwrap()
        });
        for one in requests.iter_mut().chain(&mut answered) {
            assert!(tokio::time::timeout(COMES / 4, one.next()).await.is_err(), "the thief heard something");
        }
        // Nothing of the fleet reaches another account, and nothing of it is answered there.
        while let Ok(Some(message)) = tokio::time::timeout(COMES, everything.next()).await {
            assert!(!message.subject.starts_with("agentctl."), "{message:?}");
        }
        everything.unsubscribe().await.unwrap();
        stranger.flush().await.unwrap();
        let nobody = stranger.request(subjects::hello(&machine.name), "".into()).await.unwrap_err();
        assert_eq!(nobody.kind(), RequestErrorKind::NoResponders);
    });
    ann.hears(&["dev1"]);
    // Whom the server does not know is told so, and his key is in no word of it.
    let unknown = Asker::new();
    let path = unknown.home.work_dir("keys").join("unknown");
    let _ = unknown.home.agentctl(&["hosts", "key", path.to_str().unwrap()]).ok();
    unknown.configure(&guarded.server.url(), "eve", &format!("nkey = \"{}\"", path.display()));
    let rows = unknown.rows();
    assert_eq!((&rows[0]["name"], &rows[0]["coverage"]), (&json!("nats"), &json!("failed")), "{rows:#?}");
    assert!(rows[0]["error"].as_str().unwrap().contains("does not let this user in"), "{rows:#?}");
    let seed = fs::read_to_string(&path).unwrap();
    let said = [unknown.home.agentctl(&["hosts"]), unknown.home.agentctl(&["config", "show", "--json"])];
    for said in said.iter().map(|said| format!("{}{}", said.stdout, said.stderr)).chain([machine.log()]) {
        assert!(!said.contains(seed.trim()) && !said.contains("SUA"), "{said}");
    }
    let _ = connect(&guarded.door("bob"), &machine.name).unwrap();
}

#[test]
fn the_bus_chooses_no_program_variable_or_root() {
    let Some(guarded) = Guarded::set() else { return };
    let machine = guarded.machine("dev1", "serve = \"act\"");
    let bob = guarded.door("bob");
    let mut road = reach(&bob, &machine.name);
    let cwd = machine.house.home.git_repo("project");
    let launch = |more: Value| {
        let mut body = json!({"adapter": "claude-code", "prompt": "x", "cwd": cwd});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let refused = [
        json!({"env": {"A": "b"}}),
        json!({"environment": {"HOME": "/"}}),
        json!({"onCreate": "touch hooked"}),
        json!({"onComplete": "touch hooked"}),
        json!({"callbackSession": "x"}),
        json!({"callbackAgent": "x"}),
        json!({"args": ["--dangerous"]}),
        json!({"files": ["/etc/passwd"]}),
        json!({"spec": "/etc/passwd"}),
        json!({"permissionMode": "bypass"}),
        json!({"permissionMode": "accept-edits"}),
    ];
    for more in &refused {
        let (status, problem) = post(&mut road, "/v1/sessions", &launch(more.clone()));
        assert_eq!((status, &problem["code"]), (403, &json!("forbidden")), "{more}: {problem:#}");
        let mut group = launch(more.clone());
        group.as_object_mut().unwrap().remove("adapter");
        group["launches"] = json!([{"adapter": "claude-code"}]);
        let (status, problem) = post(&mut road, "/v1/groups", &group);
        assert_eq!(status, 403, "{more}: {problem:#}");
    }
    for more in [json!({"onComplete": "x"}), json!({"permissionMode": "bypass"}), json!({"environment": {}})]
    {
        let mut body = json!({"message": "go on"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (status, problem) = post(&mut road, "/v1/sessions/none/resume", &body);
        assert_eq!(status, 403, "{more}: {problem:#}");
    }
    for more in [json!({"script": "touch hooked"}), json!({"webhook": "http://127.0.0.1:1/"})] {
        let fuse = json!({"directory": cwd, "ttl": "1s", "onExpire": more});
        assert_eq!(post(&mut road, "/v1/fuses", &fuse).0, 403);
    }
    let command = json!({"message": "/compact", "command": true});
    assert_eq!(post(&mut road, "/v1/sessions/none/send", &command).0, 403);
    // Nor does it reach whom this machine can reach.
    for target in ["/v1/hosts", "/v1/sessions?host=all", "/v1/sessions?host=box", "/v1/inbox?host=box"] {
        assert_eq!(get(&mut road, target).status, 403, "{target}");
    }
    assert_eq!(post(&mut road, "/v1/sessions/none/stop?host=box", &json!({})).0, 403);
    let tree = json!({"repository": cwd, "branch": "b", "trust": true});
    assert_eq!(post(&mut road, "/v1/worktrees", &tree).0, 403);
    assert_eq!(post(&mut road, "/v1/daemon/stop", &json!({})).0, 403);
    assert!(!cwd.join("hooked").exists());
    // The operator of the machine may let it ask for more; then only the agent is missing here.
    machine.configure(
        &guarded.server.url(),
        &format!("{}\nserve = \"act\"\nallow = [\"bypass\"]", guarded.key_line("dev1")),
    );
    let (status, problem) = post(&mut road, "/v1/sessions", &launch(json!({"permissionMode": "bypass"})));
    assert!(status != 200 && status != 403, "{problem:#}");
}
