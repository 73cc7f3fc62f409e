//! A server that proves who it is, and users that do: TLS, certificates of one's own, keys and credentials in files. What is
//! wrong is said with its file, and no secret is ever shown.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use agentctl_testkit::{NatsServer, TestHome, skip, until_seen};
use data_encoding::BASE64URL_NOPAD;
use nkeys::KeyPair;
use serde_json::{Value, json};

use crate::scene::{Asker, Machine, PATIENCE};

/// Certificates that openssl made: who signs, the server, a user, and somebody who signs nothing of this.
struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    fn make(home: &TestHome) -> Option<Self> {
        let folder = home.work_dir("certificates");
        let openssl = |arguments: &[&str]| {
            let mut openssl = home.command("openssl");
            openssl.current_dir(&folder).args(arguments);
            home.run(openssl)
        };
        if openssl(&["version"]).code != Some(0) {
            skip("openssl is not installed");
            return None;
        }
        let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
        for name in ["ca", "other"] {
            let (pem, secret, subject) =
                (format!("{name}.pem"), format!("{name}.key"), format!("/CN={name}"));
            let more = ["-keyout", &secret, "-out", &pem, "-subj", &subject, "-days", "30"];
            let _ = openssl(&[&["req", "-x509"], &key[..], &more].concat()).ok();
        }
        fs::write(folder.join("names"), "subjectAltName=IP:127.0.0.1,DNS:localhost\n").unwrap();
        for name in ["server", "user"] {
            let (request, secret) = (format!("{name}.csr"), format!("{name}.key"));
            let (pem, subject) = (format!("{name}.pem"), format!("/CN={name}"));
            let more = ["-keyout", &secret, "-out", &request, "-subj", &subject];
            let _ = openssl(&[&["req"], &key[..], &more].concat()).ok();
            let sign =
                ["x509", "-req", "-in", &request, "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"];
            let _ = openssl(&[&sign[..], &["-out", &pem, "-days", "30", "-extfile", "names"]].concat()).ok();
            fs::set_permissions(folder.join(secret), fs::Permissions::from_mode(0o600)).unwrap();
        }
        Some(Self { folder })
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// The part of a server's configuration. `more` may ask for certificates of the users.
    fn of_server(&self, more: &str) -> String {
        let at = |name: &str| self.path(name);
        format!(
            "tls {{ cert_file: {:?}, key_file: {:?}, ca_file: {:?}\n{more} }}\n",
            at("server.pem"),
            at("server.key"),
            at("ca.pem")
        )
    }
}

fn started(asker: &Asker, config: &str) -> Option<NatsServer> {
    NatsServer::start(&asker.home, config).map_err(skip).ok()
}

fn tls(server: &NatsServer) -> String {
    format!("tls://127.0.0.1:{}", server.port)
}

/// The row of the bus, which says why nothing is heard of it.
#[track_caller]
fn refused(asker: &Asker, words: &str) -> Value {
    let rows = asker.rows();
    let [row] = rows.as_slice() else { panic!("{rows:#?}") };
    assert_eq!((&row["name"], &row["coverage"]), (&json!("nats"), &json!("failed")), "{row:#}");
    assert!(row["error"].as_str().unwrap().contains(words), "expected {words}: {row:#}");
    assert!(row["hint"].is_string(), "{row:#}");
    row.clone()
}

#[test]
fn a_server_proves_who_it_is_before_anything_is_asked() {
    let asker = Asker::new();
    let Some(made) = Certificates::make(&asker.home) else { return };
    let Some(server) = started(&asker, &made.of_server("")) else { return };
    let url = tls(&server);
    let ca = format!("tls = {{ ca = {:?} }}", made.path("ca.pem"));
    asker.configure(&url, "ann", &ca);
    let _ = asker.home.agentctl(&["hosts", "init"]).ok();
    let machine = Machine::start("dev1", &url, &format!("serve = \"read\"\n{ca}"));
    asker.hears(&["dev1"]);
    let listed = asker.home.agentctl(&["list", "--host", "dev1", "--json"]).ok().json();
    assert_eq!(listed["hosts"][0]["coverage"], "complete", "{listed:#}");

    let other = format!("tls = {{ ca = {:?} }}", made.path("other.pem"));
    asker.configure(&url, "ann", &other);
    let row = refused(&asker, "cannot prove who it is");
    assert!(row["hint"].as_str().unwrap().contains("tls = { ca"), "{row:#}");
    // Without a file those count whom the system trusts.
    asker.configure(&url, "ann", "");
    refused(&asker, "cannot prove who it is");
    asker.configure(&url, "ann", "tls = { ca = \"/nowhere/ca.pem\" }");
    refused(&asker, "/nowhere/ca.pem");
    asker.configure(&url, "ann", &format!("tls = {{ ca = {:?} }}", made.path("server.key")));
    refused(&asker, "holds no certificate");
    // A name that the certificate does not have.
    let elsewhere = url.replace("127.0.0.1", "127.0.0.2");
    asker.configure(&elsewhere, "ann", &ca);
    let rows = asker.rows();
    assert_eq!(rows[0]["coverage"], "failed", "{rows:#?}");
    drop(machine);

    // The same for a machine that serves: its log says why, and says it once.
    let lost = Machine::start("dev2", &url, &format!("serve = \"read\"\n{other}"));
    until_seen(PATIENCE, "the log to say it", || {
        let log = lost.log();
        if log.to_lowercase().contains("certificate") { Ok(()) } else { Err(log) }
    });

    // tls:// refuses a server without it, and so does a `ca`.
    let plain = Asker::new();
    let Some(server) = started(&plain, "") else { return };
    plain.configure(&tls(&server), "ann", &ca);
    let rows = plain.rows();
    assert_eq!((&rows[0]["name"], &rows[0]["coverage"]), (&json!("nats"), &json!("failed")), "{rows:#?}");
    plain.configure(&server.url(), "ann", &ca);
    assert_eq!(plain.rows()[0]["coverage"], "failed");
}

#[test]
fn a_user_may_have_to_show_a_certificate_of_his_own() {
    let asker = Asker::new();
    let Some(made) = Certificates::make(&asker.home) else { return };
    let Some(server) = started(&asker, &made.of_server("verify: true")) else { return };
    let url = tls(&server);
    let ca = made.path("ca.pem");
    let own = |cert: &str, key: &str| format!("tls = {{ ca = {ca:?}, cert = {cert:?}, key = {key:?} }}");
    asker.configure(&url, "ann", &own(&made.path("user.pem"), &made.path("user.key")));
    let _ = asker.home.agentctl(&["hosts", "init"]).ok();
    assert!(asker.rows().is_empty(), "{:#?}", asker.rows());
    asker.configure(&url, "ann", &format!("tls = {{ ca = {ca:?} }}"));
    assert_eq!(asker.rows()[0]["coverage"], "failed");
    asker.configure(&url, "ann", &own(&made.path("other.pem"), &made.path("user.key")));
    assert_eq!(asker.rows()[0]["coverage"], "failed");
    // A key that others can read is none.
    let open = made.folder.join("open.key");
    fs::copy(made.path("user.key"), &open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    asker.configure(&url, "ann", &own(&made.path("user.pem"), open.to_str().unwrap()));
    refused(&asker, "can be read by others");
}

/// A token that one key signs for another, as `nsc` makes them.
fn token(signer: &KeyPair, subject: &KeyPair, claims: &Value) -> String {
    let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    let head = part(&json!({"typ": "JWT", "alg": "ed25519-nkey"}));
    let body = part(&json!({
        "jti": "test", "iat": 1_700_000_000, "iss": signer.public_key(), "sub": subject.public_key(),
        "name": "test", "nats": claims,
    }));
    let whole = format!("{head}.{body}");
    let signature = signer.sign(whole.as_bytes()).unwrap();
    format!("{whole}.{}", BASE64URL_NOPAD.encode(&signature))
}

/// A server that knows an operator alone, and credentials of users whom accounts of the operator let in.
struct Operated {
    config: String,
    account: KeyPair,
}

impl Operated {
    fn new() -> Self {
        let (operator, account, system) =
            (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_account());
        let limits = json!({
            "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1,
            "leaf": -1, "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1,
        });
        let of = |one: &KeyPair, limits: &Value| {
            token(&operator, one, &json!({"type": "account", "version": 2, "limits": limits}))
        };
        // The system account keeps no streams.
        let mut bare = limits.clone();
        for key in ["mem_storage", "disk_storage", "streams", "consumer"] {
            bare.as_object_mut().unwrap().remove(key);
        }
        let config = format!(
            "operator: {:?}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{\n {}: {:?}\n {}: {:?}\n}}\n",
            token(&operator, &operator, &json!({"type": "operator", "version": 2})),
            system.public_key(),
            account.public_key(),
            of(&account, &limits),
            system.public_key(),
            of(&system, &bare),
        );
        Self { config, account }
    }

    /// A file of credentials, and the secret in it.
    fn user(signer: &KeyPair, path: &Path) -> String {
        let user = KeyPair::new_user();
        let claims = json!({"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1, "pub": {}, "sub": {}});
        let token = token(signer, &user, &claims);
        let seed = user.seed().unwrap();
        let text = format!(
            "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        );
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        seed
    }
}

#[test]
fn credentials_are_read_from_their_file_and_shown_nowhere() {
    let asker = Asker::new();
    let operated = Operated::new();
    let Some(server) = started(&asker, &operated.config) else { return };
    let folder = asker.home.work_dir("secrets");
    let at = |name: &str| folder.join(name);
    let line = |name: &str| format!("creds = {:?}", at(name).display().to_string());
    let secrets =
        [Operated::user(&operated.account, &at("ann")), Operated::user(&operated.account, &at("dev1"))];
    asker.configure(&server.url(), "ann", &line("ann"));
    let _ = asker.home.agentctl(&["hosts", "init"]).ok();
    let mut machine = Machine::start("dev1", &server.url(), &format!("serve = \"act\"\n{}", line("dev1")));
    asker.hears(&["dev1"]);

    // Somebody whom no account of the operator let in.
    Operated::user(&KeyPair::new_account(), &at("stranger"));
    asker.configure(&server.url(), "ann", &line("stranger"));
    let row = refused(&asker, "does not let this user in");
    assert!(row["hint"].as_str().unwrap().contains("creds"), "{row:#}");
    asker.configure(&server.url(), "ann", "");
    refused(&asker, "does not let this user in");
    asker.configure(&server.url(), "ann", &line("missing"));
    refused(&asker, "missing cannot be read");
    fs::set_permissions(at("ann"), fs::Permissions::from_mode(0o640)).unwrap();
    asker.configure(&server.url(), "ann", &line("ann"));
    refused(&asker, "chmod 600");
    fs::set_permissions(at("ann"), fs::Permissions::from_mode(0o600)).unwrap();
    let broken = fs::read_to_string(at("ann")).unwrap().replace("-----BEGIN USER NKEY SEED-----", "");
    fs::write(at("broken"), &broken).unwrap();
    fs::set_permissions(at("broken"), fs::Permissions::from_mode(0o600)).unwrap();
    asker.configure(&server.url(), "ann", &line("broken"));
    refused(&asker, "is no file of credentials");
    let shown = [&["hosts"][..], &["hosts", "--json"], &["hosts", "check", "dev1"], &["config", "check"]];
    let of_broken = shown.map(|arguments| {
        let output = asker.home.agentctl(arguments);
        output.stdout + &output.stderr
    });

    // A secret stands in its file and nowhere else: not in what is printed, logged or kept, and on no command line.
    asker.configure(&server.url(), "ann", &line("ann"));
    let printed = [
        &["hosts", "--json"][..],
        &["hosts"],
        &["hosts", "check", "dev1", "--json"],
        &["config", "show", "--json"],
        &["config", "show"],
        &["doctor", "--json"],
        &["list", "--host", "all", "--json"],
    ];
    let mut seen: Vec<(String, String)> = printed
        .iter()
        .map(|arguments| {
            let output = asker.home.agentctl(arguments);
            (arguments.join(" "), output.stdout + &output.stderr)
        })
        .collect();
    seen.extend(of_broken.map(|text| ("with a broken file".to_owned(), text)));
    seen.push(("the daemon's log".to_owned(), machine.log()));
    seen.push(("the server's log".to_owned(), server.log()));
    let pid = machine.daemon().pid();
    for part in ["cmdline", "environ"] {
        let bytes = fs::read(format!("/proc/{pid}/{part}")).unwrap();
        seen.push((part.to_owned(), String::from_utf8_lossy(&bytes).into_owned()));
    }
    for home in [&asker.home, &machine.house.home] {
        for (path, text) in files_below(&home.agentctl_home()) {
            seen.push((path, text));
        }
    }
    for (place, text) in &seen {
        for secret in &secrets {
            assert!(!text.contains(secret.as_str()), "a secret stands in {place}");
        }
    }
    assert!(seen.len() > 12);
    asker.hears(&["dev1"]);
}

/// Every file below a folder, as text.
fn files_below(folder: &Path) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            all.extend(files_below(&path));
        } else if kind.is_file() {
            let bytes = fs::read(&path).unwrap_or_default();
            all.push((path.display().to_string(), String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
    all
}
