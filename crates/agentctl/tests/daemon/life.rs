//! Starting, ending, being killed, and a home that is not as it should be.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;

use agentctl_testkit::{Background, Signal, until};

use crate::house::{House, SOON};

#[test]
fn it_is_started_once_found_again_and_ended() {
    let house = House::new();
    let status = house.run(&["daemon", "status"]);
    assert_eq!(status.code, Some(5));
    assert!(!house.home.agentctl_home().exists(), "asking creates nothing");
    assert!(house.run(&["daemon", "start"]).ok().stdout.contains("runs now"));
    assert!(house.run(&["daemon", "start"]).ok().stdout.contains("runs already"));
    let standing = house.run(&["daemon", "status", "--json"]).ok().json();
    assert_eq!(standing["running"], true);
    assert_eq!(standing["daemon"]["version"], env!("CARGO_PKG_VERSION"));
    assert!(house.run(&["daemon", "status"]).ok().stdout.contains("running"));
    let first = standing["daemon"]["pid"].clone();
    let _ = house.run(&["daemon", "restart"]).ok();
    let second = house.run(&["daemon", "status", "--json"]).ok().json()["daemon"]["pid"].clone();
    assert_ne!(first, second);
    assert!(house.run(&["daemon", "stop"]).ok().stdout.contains("ended"));
    assert!(house.run(&["daemon", "stop"]).ok().stdout.contains("no daemon runs"));
    assert!(!house.socket().exists());
    assert!(house.run(&["daemon", "logs"]).ok().stdout.contains("serves"));
}

#[test]
fn a_manner_that_a_running_one_does_not_have_is_refused_and_restarting_gives_it() {
    let house = House::new();
    let _ = house.run(&["daemon", "start"]).ok();
    for asked in [&["--read-only"][..], &["--http", "127.0.0.1:0"]] {
        let refused = house.run(&[&["daemon", "start"], asked].concat());
        assert_eq!(refused.code, Some(7), "{refused:?}");
        let next = format!("agentctl daemon restart {}", asked.join(" "));
        assert!(refused.stderr.contains(&next), "{refused:?}");
    }
    let _ = house.run(&["daemon", "restart", "--read-only", "--http", "127.0.0.1:0"]).ok();
    for asked in [&[][..], &["--read-only"], &["--http", "127.0.0.1:0"]] {
        assert!(house.run(&[&["daemon", "start"], asked].concat()).ok().stdout.contains("runs already"));
    }
    // It refuses the request, and is ended all the same, without waiting for it to change its mind.
    let began = std::time::Instant::now();
    let _ = house.run(&["daemon", "stop"]).ok();
    assert!(began.elapsed() < std::time::Duration::from_secs(9), "{:?}", began.elapsed());
}

#[test]
fn one_that_cannot_start_tells_its_own_words_alone() {
    let house = House::new();
    let _ = house.run(&["daemon", "start"]).ok();
    let _ = house.run(&["daemon", "stop"]).ok();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let failed = house.run(&["daemon", "start", "--http", &address]);
    assert_eq!(failed.code, Some(5), "{failed:?}");
    assert!(failed.stderr.contains("cannot serve") && !failed.stderr.contains("stopped"), "{failed:?}");
}

#[test]
fn doctor_says_how_the_daemon_is() {
    let house = House::new();
    let doctor = || house.run(&["doctor", "--json"]).ok().json()["daemon"].clone();
    let none = doctor();
    assert_eq!((&none["running"], &none["answers"]), (&false.into(), &serde_json::Value::Null));
    assert!(!house.home.agentctl_home().exists(), "asking creates nothing");
    let mut daemon = house.daemon(&[]);
    let well = doctor();
    assert_eq!(
        (&well["running"], &well["answers"], &well["sameVersion"]),
        (&true.into(), &true.into(), &true.into())
    );
    assert_eq!((&well["pid"], &well["staleFiles"]), (&daemon.pid().into(), &serde_json::json!([])));
    let words = house.run(&["doctor"]).ok().stdout;
    assert!(words.contains("daemon   runs, pid") && words.contains("daemon.log"), "{words}");
    // A stopped daemon holds its lock and does not answer.
    daemon.signal(Signal::KILL);
    daemon.wait(SOON);
    fs::write(house.home.agentctl_home().join("daemon.pid"), "1").unwrap();
    let left = doctor();
    assert_eq!(left["running"], false);
    let names = left["staleFiles"].to_string();
    assert!(names.contains("agentctl.sock") && names.contains("daemon.pid"), "{names}");
    let lock = fs::File::open(house.home.agentctl_home().join("daemon.lock")).unwrap();
    lock.lock().unwrap();
    let mute = house.run(&["doctor"]);
    assert_eq!(mute.code, Some(1), "{mute:?}");
    assert!(mute.stdout.contains("does not answer"), "{mute:?}");
}

#[test]
fn of_many_started_at_once_exactly_one_serves() {
    let rounds = if std::env::var_os("AGENTCTL_LONG").is_some() { 100 } else { 4 };
    let house = House::new();
    for _ in 0..rounds {
        let commands = (0..4).map(|_| house.home.agentctl_command(&["daemon", "run"]));
        let mut daemons: Vec<Background> =
            commands.map(|command| Background::spawn(&house.home, command)).collect();
        let serving = until(SOON, "three to make way", || {
            let running: Vec<usize> = (0..4).filter(|index| daemons[*index].try_wait().is_none()).collect();
            match running[..] {
                [one] => Some(one),
                [] => panic!("nobody serves"),
                _ => None,
            }
        });
        for (index, daemon) in daemons.iter_mut().enumerate() {
            if index != serving {
                assert!(daemon.wait(SOON).success());
                assert!(daemon.stdout().contains("runs already"), "{}", daemon.stdout());
            }
        }
        let pid = until(SOON, "the one to answer", || {
            let standing = house.run(&["daemon", "status", "--json"]).json();
            (standing["answers"] == true).then(|| standing["daemon"]["pid"].clone())
        });
        assert_eq!(pid, daemons[serving].pid());
        let _ = house.run(&["daemon", "stop"]).ok();
    }
}

#[test]
fn killed_at_any_moment_the_next_one_answers_the_same() {
    let house = House::furnished();
    let list = |house: &House| {
        let mut list = house.run(&["list", "--since", "all", "--json"]).ok().json();
        crate::conformance::forget_moments(&mut list);
        list
    };
    let alone = list(&house);
    let mut daemon = house.daemon(&[]);
    assert_eq!(list(&house), alone);
    daemon.signal(Signal::KILL);
    daemon.wait(SOON);
    assert!(house.socket().exists(), "a killed daemon leaves its socket");
    assert_eq!(list(&house), alone, "reading goes on");
    let before = house.home.agentctl_home().join("daemon.lock");
    assert!(before.exists());
    let _next = house.daemon(&[]);
    assert_eq!(list(&house), alone);
    assert!(house.requests() > 0);
}

#[test]
fn reading_commands_never_start_one_and_needing_ones_do() {
    let house = House::furnished();
    for command in
        [&["list"][..], &["status", "2222"], &["explain", "2222"], &["peek", "2222"], &["logs", "2222"]]
    {
        let _ = house.run(command).ok();
        assert!(!house.home.agentctl_home().exists(), "{command:?}");
    }
    let mut refused = house.home.agentctl_command(&["events"]);
    refused.env("AGENTCTL_NO_DAEMON", "1");
    assert_eq!(house.home.run(refused).code, Some(5));
    let mut command = house.home.agentctl_command(&["events"]);
    command.env_remove("AGENTCTL_NO_DAEMON");
    let mut events = Background::spawn(&house.home, command);
    until(SOON, "the daemon that events needs", || house.socket().exists().then_some(()));
    until(SOON, "a listener", || {
        let standing = house.run(&["daemon", "status", "--json"]).json();
        (standing["daemon"]["listeners"].as_u64()? >= 1).then_some(())
    });
    events.signal(Signal::INT);
    assert_eq!(events.wait(SOON).code(), Some(130));
    let _ = house.run(&["daemon", "stop"]).ok();
}

#[test]
fn it_starts_without_the_marks_of_any_agent() {
    let mut house = House::new();
    for mark in
        ["CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "AGENTCTL_LAUNCH_ID", "PI_SESSION_ID"]
    {
        house.home.set_env(mark, "somebody");
    }
    house.home.set_env("CODEX_HOME", "/srv/codex");
    let _ = house.run(&["daemon", "start"]).ok();
    let pid = house.get("/v1/daemon").json()["pid"].as_u64().unwrap();
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap();
    let environ = String::from_utf8_lossy(&environ).into_owned();
    assert!(!environ.contains("somebody"), "{environ}");
    assert!(environ.contains("CODEX_HOME=/srv/codex"), "where an agent keeps its files is no mark");
    // Read from `/proc`: in a container the leader of the test's own session may be outside, and
    // its number is 0 then, which the typed call of rustix cannot express.
    let session = |who: &str| {
        let stat = fs::read_to_string(format!("/proc/{who}/stat")).unwrap();
        let after_name = stat.rsplit_once(')').unwrap().1;
        after_name.split_ascii_whitespace().nth(3).unwrap().to_owned()
    };
    assert_ne!(session(&pid.to_string()), session("self"), "it has a session of its own");
    let _ = house.run(&["daemon", "stop"]).ok();
}

#[test]
fn a_service_manager_hears_when_it_is_ready_and_when_it_ends() {
    let house = House::new();
    let path = house.home.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(SOON)).unwrap();
    let mut heard = [0; 64];
    let mut hear = || {
        let length = manager.recv(&mut heard).unwrap();
        String::from_utf8_lossy(&heard[..length]).into_owned()
    };
    let mut daemon = house.daemon_with(&[], &[("NOTIFY_SOCKET", path.to_str().unwrap())]);
    assert_eq!(hear(), "READY=1\n");
    daemon.signal(Signal::TERM);
    assert_eq!(hear(), "STOPPING=1\n");
    assert!(daemon.wait(SOON).success());
}

/// An older daemon: it holds the lock, reports its version, and ends when it is asked to.
fn older_daemon(home: &Path) -> std::thread::JoinHandle<Vec<String>> {
    fs::create_dir(home).unwrap();
    let lock = fs::File::create(home.join("daemon.lock")).unwrap();
    lock.lock().unwrap();
    let listener = UnixListener::bind(home.join("agentctl.sock")).unwrap();
    std::thread::spawn(move || {
        let mut asked = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut bytes = [0; 8192];
            let length = stream.read(&mut bytes).unwrap();
            let line =
                String::from_utf8_lossy(&bytes[..length]).lines().next().unwrap_or_default().to_owned();
            let answer = "HTTP/1.1 200 OK\r\nX-Agentctl-Version: 0.0.1\r\nContent-Length: 2\r\n\r\n{}";
            stream.write_all(answer.as_bytes()).unwrap();
            let ends = line.starts_with("POST /v1/daemon/stop");
            asked.push(line);
            if ends {
                break;
            }
        }
        drop(lock);
        asked
    })
}

#[test]
fn a_daemon_of_another_version_is_not_believed_and_makes_way() {
    let house = House::furnished();
    let older = older_daemon(&house.home.agentctl_home());
    assert_eq!(house.run(&["list", "--since", "all", "-q"]).ok().stdout.lines().count(), 4);
    assert!(house.run(&["daemon", "start"]).ok().stdout.contains("runs now"));
    let asked = older.join().unwrap();
    assert!(asked.iter().any(|line| line.starts_with("GET /v1/sessions")), "{asked:?}");
    assert_eq!(house.get("/v1/daemon").json()["version"], env!("CARGO_PKG_VERSION"));
    let _ = house.run(&["daemon", "stop"]).ok();
}

#[test]
fn a_daemon_that_hears_nothing_is_ended_by_its_lock() {
    let house = House::new();
    let mut daemon = house.daemon(&[]);
    // The socket is gone, so the daemon cannot be asked.
    fs::remove_file(house.socket()).unwrap();
    let _ = house.run(&["daemon", "stop"]).ok();
    assert!(daemon.wait(SOON).success(), "a termination is a clean end");
}

#[test]
fn a_home_that_vanishes_ends_it_and_reading_goes_on() {
    let house = House::furnished();
    let mut daemon = house.daemon(&[]);
    let home = house.home.agentctl_home();
    fs::rename(&home, home.with_extension("away")).unwrap();
    // Any change under a root makes it survey.
    let poke = house.home.path().join(".claude/projects/poke");
    until(SOON, "its end", || {
        let _ = fs::create_dir(&poke);
        let _ = fs::remove_dir(&poke);
        daemon.try_wait()
    });
    assert!(daemon.stderr().contains("is gone or was replaced"), "{}", daemon.stderr());
    assert_eq!(house.run(&["list", "--since", "all", "-q"]).ok().stdout.lines().count(), 4);
}

#[test]
fn a_home_in_which_nothing_can_be_written_is_named() {
    let house = House::furnished();
    let home = house.home.agentctl_home();
    fs::write(&home, "a file where the folder should be").unwrap();
    for command in [&["daemon", "start"][..], &["daemon", "run"], &["events"]] {
        let refused = house.run(command);
        assert_eq!(refused.code, Some(5), "{refused:?}");
        assert!(refused.stderr.contains("is no folder"), "{refused:?}");
    }
    assert_eq!(house.run(&["list", "--since", "all", "-q"]).ok().stdout.lines().count(), 4);
    fs::remove_file(&home).unwrap();
    // A folder of that name stands for any reason why the lock cannot be opened.
    fs::create_dir_all(home.join("daemon.lock")).unwrap();
    let refused = house.run(&["daemon", "run"]);
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert!(refused.stderr.contains("daemon.lock"), "{refused:?}");
}

#[test]
fn what_the_old_agentctl_left_is_moved_aside_and_nothing_is_lost() {
    let house = House::new();
    let home = house.home.agentctl_home();
    fs::create_dir(&home).unwrap();
    for (name, text) in
        [("locks.json", "[{\"directory\":\"/x\"}]"), ("state.json", "{}"), ("config.toml", "model = \"m\"\n")]
    {
        fs::write(home.join(name), text).unwrap();
    }
    let _ = house.run(&["list"]).ok();
    assert!(home.join("state.json").exists(), "reading moves nothing");
    let _daemon = house.daemon(&[]);
    let aside = fs::read_dir(&home)
        .unwrap()
        .flatten()
        .find(|entry| entry.file_name().to_string_lossy().starts_with("old-"));
    let aside = aside.expect("a folder aside").path();
    assert_eq!(fs::read_to_string(aside.join("locks.json")).unwrap(), "[{\"directory\":\"/x\"}]");
    assert!(aside.join("state.json").exists() && home.join("config.toml").exists());
}
