//! Gateways as a user meets them: found, configured, unreachable, and with secrets that are never shown.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod machine;

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use agentctl_testkit::agents::openclaw::{Ledger, ScriptedGateway, Step};
use machine::Machine;
use serde_json::json;

const SECRETS: [&str; 3] = ["token-of-the-file", "token-of-the-settings", "token-of-openclaw"];

/// A gateway with one running session, and the tokens that were shown to it.
fn gateway(key: &'static str) -> (ScriptedGateway, Arc<Mutex<Vec<String>>>) {
    let tokens = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&tokens);
    let row = json!({"key": key, "hasActiveRun": true, "workspaceDir": "/w", "displayName": "a run"});
    let ledger = Ledger { rows: vec![row], ..Ledger::default() };
    let gateway = ScriptedGateway::start(move |step| {
        if let Step::Request { method: "connect", params } = step {
            seen.lock().unwrap().push(params["auth"]["token"].as_str().unwrap_or("none").to_owned());
        }
        ledger.answer(step)
    });
    (gateway, tokens)
}

#[test]
fn several_gateways_are_read_beside_everything_else_and_their_secrets_stay_inside() {
    let machine = Machine::furnished();
    let (own, own_tokens) = gateway("agent:main:own");
    let (second, second_tokens) = gateway("agent:main:second");
    let (third, third_tokens) = gateway("agent:main:third");
    let port = own.url().rsplit(':').next().unwrap().to_owned();
    let config = format!("{{gateway: {{port: {port}, auth: {{token: '{}'}}}}, /* mine */}}", SECRETS[2]);
    machine.write(".openclaw/openclaw.json", &config);
    machine.write(".secrets/token", &format!("{}\n", SECRETS[0]));
    let settings = format!(
        "[adapters.openclaw]\ntimeout = \"30s\"\ngateways = [\n{{url = \"{}\", tokenFile = \"~/.secrets/token\"}},\n\
        {{url = \"{}\", token = \"{}\"}},\n{{url = \"ws://127.0.0.1:1\", token = \"{}\"}}]\n",
        second.url(),
        third.url(),
        SECRETS[1],
        SECRETS[1]
    );
    machine.write(".agentctl/config.toml", &settings);

    let list = machine.json(&["list", "--json"]);
    let mut ids: Vec<&str> =
        list["sessions"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["agent:main:own", "agent:main:second", "agent:main:third"]);
    let away = list["sources"].as_array().unwrap().iter().find(|source| source["root"] == "ws://127.0.0.1:1");
    assert_eq!(away.unwrap()["error"], "connection refused", "{list:#}");
    assert_eq!(machine.ids(&["-a", "--adapter", "claude-code"]).len(), 4, "the others are as they were");
    assert_eq!(machine.ids(&["--adapter", "openclaw"]).len(), 3);

    for args in [
        &["list"][..],
        &["list", "--json"],
        &["config", "show"],
        &["config", "show", "--json"],
        &["doctor"],
        &["doctor", "--json"],
        &["status", "agent:main:own", "--json"],
        &["explain", "agent:main:second"],
        &["peek", "agent:main:third"],
        &["adapters"],
    ] {
        let ended = machine.run(args);
        for secret in SECRETS {
            assert!(!ended.out.contains(secret) && !ended.err.contains(secret), "{args:?}: {ended:?}");
        }
    }
    let all_were = |tokens: &Mutex<Vec<String>>, wanted: &str| {
        let tokens = tokens.lock().unwrap();
        assert!(!tokens.is_empty() && tokens.iter().all(|token| token == wanted), "{tokens:?}");
    };
    all_were(&own_tokens, SECRETS[2]);
    all_were(&second_tokens, SECRETS[0]);
    all_were(&third_tokens, SECRETS[1]);
    assert!(!machine.home().join(".agentctl/device.key").exists(), "loopback needs no identity");
}

#[test]
fn a_gateway_elsewhere_gets_to_know_this_machine_and_a_public_one_no_secret() {
    let machine = Machine::empty();
    let settings = "[adapters.openclaw]\ngateways = [{url = \"ws://203.0.113.9:18789\", token = \"token-of-the-settings\"},\
        {url = \"wss://127.0.0.1:1\", token = \"token-of-the-settings\"}]\n";
    machine.write(".agentctl/config.toml", settings);
    let list = machine.json(&["list", "--json", "--adapter", "openclaw"]);
    let words = |index: usize| list["sources"][index]["error"].as_str().unwrap_or_default().to_owned();
    assert_eq!(list["sources"][0]["coverage"], "not-installed", "{list:#}");
    assert!(words(1).contains("in plain words") && words(1).contains("ssh -N -L"), "{list:#}");
    assert!(words(2).contains("connection refused"), "{list:#}");
    let key = std::fs::read_to_string(machine.home().join(".agentctl/device.key")).unwrap();
    assert_eq!(key.trim().len(), 64);
    assert!(!list.to_string().contains(key.trim()));
}

/// Accepts one connection after the other as a gateway does, up to where the client shows its keys, and
/// prints everything that it receives.
const IMPOSTOR: &str = r#"
import base64, hashlib, re, socket
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
def plain(frame):
    """The text of a client's frame, which is masked by four bytes behind its length."""
    if not frame or frame[0] != 0x81:
        return frame
    start = {126: 4, 127: 10}.get(frame[1] & 0x7f, 2)
    mask, text = frame[start:start + 4], frame[start + 4:]
    return bytes(byte ^ mask[index % 4] for index, byte in enumerate(text))
hello = b'{"type":"event","event":"connect.challenge","payload":{"nonce":"n","ts":1}}'
while True:
    client, _ = listener.accept()
    client.settimeout(20)
    try:
        told = client.recv(65536)
        key = re.search(rb"(?i)sec-websocket-key: *(\S+)", told).group(1)
        accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
        client.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                       b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")
        client.sendall(bytes([0x81, len(hello)]) + hello)
        while told:
            print(told, flush=True)
            told = plain(client.recv(65536))
    except OSError:
        pass
    print("gone", flush=True)
    client.close()
"#;

/// Everything that an impostor of this user received during one list, and what the list reports of its
/// gateway.
fn told_to_an_impostor(uid: u32) -> (String, serde_json::Value) {
    let mut command = Command::new("python3");
    let mut impostor =
        command.args(["-c", IMPOSTOR]).uid(uid).current_dir("/").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(impostor.stdout.take().unwrap()).lines().map(Result::unwrap);
    let url = format!("ws://127.0.0.1:{}", lines.next().unwrap());
    let machine = Machine::empty();
    let settings = format!(
        "[adapters.openclaw]\ntimeout = \"15s\"\ngateways = [{{url = \"{url}\", token = \"{}\"}}]\n",
        SECRETS[1]
    );
    machine.write(".agentctl/config.toml", &settings);
    let list = machine.json(&["list", "--json"]);
    let told: Vec<String> = lines.by_ref().take_while(|line| line != "gone").collect();
    impostor.kill().unwrap();
    impostor.wait().unwrap();
    let sources = list["sources"].as_array().unwrap();
    (told.join("\n"), sources.iter().find(|source| source["root"] == *url).unwrap().clone())
}

#[test]
#[cfg(target_os = "linux")]
fn whoever_listens_at_the_port_of_a_gateway_that_is_down_gets_no_key() {
    if !rustix::process::geteuid().is_root() {
        return agentctl_testkit::skip("only root can play another user");
    }
    let (told, source) = told_to_an_impostor(65534);
    assert!(told.contains("Upgrade: websocket"), "it was reached: {told}");
    assert!(!told.contains("token"), "{told}");
    let words = source["error"].as_str().unwrap_or_default();
    assert!(words.contains("held by another user (uid 65534), so no key was sent"), "{source:#}");
    assert!(words.contains("wss://"), "{source:#}");
    // The same program as a process of our own user gets what a gateway gets.
    let (told, _) = told_to_an_impostor(0);
    assert!(told.contains(SECRETS[1]), "{told}");
}

#[test]
fn without_openclaw_nothing_is_made_and_nothing_is_said() {
    let machine = Machine::furnished();
    let ended = machine.run(&["list"]);
    assert!(!ended.err.contains("openclaw"), "{ended:?}");
    assert!(!machine.home().join(".agentctl").exists() && !machine.home().join(".openclaw").exists());
}
