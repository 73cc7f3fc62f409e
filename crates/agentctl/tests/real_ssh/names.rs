//! Which machine and which session a text means, and what is said while a machine is not heard.

use std::fs;

use agentctl_testkit::{TestHome, until_seen};
use serde_json::{Value, json};

use crate::{FAR, NEAR, PATIENCE, Scene, transcript};

/// Both machines have a stopped session.
fn told() -> Option<Scene> {
    let scene = Scene::with_box()?;
    transcript(&scene.home, NEAR, "here");
    transcript(&scene.far, FAR, "there");
    Some(scene)
}

fn add_silent(scene: &Scene) {
    let config = scene.home.agentctl_home().join("config.toml");
    let silent = scene.script("silent", "exec cat > /dev/null");
    let more =
        format!("[hosts.quiet]\nssh = \"box\"\nprogram = \"{}\"\ntimeout = \"1s\"\n", silent.display());
    let text = fs::read_to_string(&config).unwrap();
    fs::write(config, text + &more).unwrap();
}

#[test]
fn a_session_of_another_machine_is_read_by_its_name() {
    let Some(scene) = told() else { return };
    let run = |arguments: &[&str]| scene.home.agentctl(arguments);
    let full = format!("box/{FAR}");
    for typed in [full.as_str(), "box/bbbb"] {
        let session = run(&["status", typed, "--json"]).ok().json();
        assert_eq!((&session["id"], &session["host"]), (&FAR.into(), &"box".into()), "{session:#}");
    }
    let by_flag = run(&["status", "bbbb", "--host", "box", "--json"]).ok().json();
    assert_eq!(by_flag["id"], FAR);
    assert_eq!(run(&["status", "bbbb", "--host", "all", "--json"]).ok().json()["host"], "box");
    assert!(run(&["status", "box/bbbb"]).ok().stdout.contains(&full));
    assert!(run(&["explain", "box/bbbb"]).ok().stdout.contains(&format!("{full} is")));
    let said: Vec<Value> = run(&["peek", "box/bbbb", "--json"])
        .ok()
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!((said.len(), &said[0]["text"]), (1, &json!("there")), "{said:#?}");
    assert!(run(&["logs", "-f", "box/bbbb"]).ok().stdout.contains("there"));
    let waited = run(&["wait", "box/bbbb", "aaaa", "--json"]).json();
    let reached: Vec<&str> =
        waited["reached"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(reached, [NEAR, FAR], "{waited:#}");

    // Stopping what is stopped is success, there as here, and one bad id keeps nothing else.
    let stopped = run(&["stop", "box/bbbb", "aaaa", "box/cccc", "--json"]);
    assert_eq!(stopped.code, Some(3), "{stopped:#?}");
    let stopped = stopped.json();
    let done: Vec<bool> =
        stopped["sessions"].as_array().unwrap().iter().map(|one| one["stopped"] == true).collect();
    assert_eq!(done, [false, true, true], "{stopped:#}");

    // A refusal of the other machine keeps its code, words and hint. Commands in the hint name the session as it is named here.
    let there = scene.far.agentctl(&["send", FAR, "words"]);
    let from_here = run(&["send", "box/bbbb", "words"]);
    let hint = there.stderr.replace(&format!("peek {FAR}"), &format!("peek box/{FAR}"));
    assert_ne!(hint, there.stderr, "the hint names a command");
    assert_eq!((from_here.code, from_here.stderr), (there.code, hint));
    assert_eq!(there.code, Some(7));
    assert_eq!(run(&["prune", "--host", "box"]).code, Some(7));

    // A shell completes ids there; the words before them are typed as in fish. A key press waits a second for the other
    // machine, in which a busy one may not answer.
    until_seen(PATIENCE, "the id to be offered", || {
        let mut complete = scene.home.agentctl_command(&["--", "agentctl", "status", "box/b"]);
        complete.env("COMPLETE", "fish");
        let offered = scene.home.run(complete).ok().stdout;
        if offered.starts_with(&full) { Ok(()) } else { Err(offered) }
    });

    // The way into a terminal leads through ssh.
    let way = run(&["attach", "box/bbbb", "--print"]).ok().stdout;
    assert!(way.starts_with("ssh -t -- box ") && way.contains("attach") && way.contains(FAR), "{way}");
}

#[test]
fn a_text_means_another_machine_only_where_nothing_here_fits_it() {
    let Some(scene) = told() else { return };
    let code = |arguments: &[&str]| scene.home.agentctl(arguments).code;
    assert_eq!(code(&["status", "box/cccc"]), Some(3));
    assert_eq!(code(&["status", "bbbb"]), Some(3), "without a host it is this machine");
    assert_eq!(code(&["status", "nobody/bbbb"]), Some(3), "an unknown name is no host");
    assert_eq!(code(&["status", "bbbb", "--host", "nobody"]), Some(2));
    assert_eq!(code(&["stop", "bbbb"]), Some(3));
    // What is read follows the settings, what is done does not.
    let config = scene.home.agentctl_home().join("config.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("host = \"all\"\n{text}")).unwrap();
    assert_eq!(code(&["status", "bbbb"]), Some(0));
    assert_eq!(code(&["stop", "bbbb"]), Some(3));
    assert_eq!(code(&["stop", "bbbb", "--host", "all"]), Some(0));

    // A session of this machine that is called like one of another.
    let named = "cccccccc-0000-4000-8000-00000000000c";
    transcript(&scene.home, named, "called oddly");
    let file = scene.home.path().join(format!(".claude/projects/-w/{named}.jsonl"));
    let title = json!({"type": "custom-title", "customTitle": "box/bbbb", "sessionId": named});
    fs::write(&file, format!("{}{title}\n", fs::read_to_string(&file).unwrap())).unwrap();
    let both = scene.home.agentctl(&["status", "box/bbbb"]);
    assert_eq!(both.code, Some(4), "{both:#?}");
    let here = scene.home.agentctl(&["status", "box/bbbb", "--host", "local", "--json"]).ok().json();
    assert_eq!(here["id"], named);
    let there = scene.home.agentctl(&["status", "bbbb", "--host", "box", "--json"]).ok().json();
    assert_eq!(there["id"], FAR);
}

#[test]
fn nothing_is_concluded_about_a_machine_that_is_not_heard() {
    let Some(scene) = told() else { return };
    add_silent(&scene);
    let run = |arguments: &[&str]| scene.home.agentctl(arguments);
    let lost = run(&["status", "quiet/bbbb"]);
    assert_eq!(lost.code, Some(6), "{lost:#?}");
    assert!(lost.stderr.contains("quiet was not heard"), "{lost:#?}");
    assert_eq!(run(&["stop", "quiet/bbbb"]).code, Some(6));
    // A shortened id may fit another one there; a whole one may not.
    assert_eq!(run(&["status", "bbbb", "--host", "all"]).code, Some(6));
    assert_eq!(run(&["status", FAR, "--host", "all", "--json"]).ok().json()["host"], "box");
    assert_eq!(run(&["status", "dddd", "--host", "all"]).code, Some(6));
    let inbox = run(&["inbox", "--host", "all", "--json"]).ok().json();
    let rows: Vec<&str> =
        inbox["hosts"].as_array().unwrap().iter().map(|row| row["coverage"].as_str().unwrap()).collect();
    assert_eq!(rows, ["complete", "complete", "failed"], "{inbox:#}");
    assert_eq!(run(&["inbox", "--host", "all", "--strict"]).code, Some(6));
    assert_eq!(run(&["locks", "--host", "all", "--json"]).ok().json()["hosts"][2]["name"], "quiet");
    assert!(run(&["inbox", "--host", "quiet"]).ok().stdout.contains("not every machine was heard"));
}

#[test]
fn a_directory_of_another_machine_is_locked_there() {
    let Some(scene) = told() else { return };
    let folder = scene.far.work_dir("site").display().to_string();
    let run = |arguments: &[&str]| scene.home.agentctl(arguments);
    let locked = run(&["lock", &folder, "--host", "box", "--reason", "release", "--json"]).ok().json();
    assert_eq!((&locked["host"], &locked["reason"]), (&"box".into(), &"release".into()), "{locked:#}");
    assert_eq!(
        scene.far.agentctl(&["locks", "--json"]).ok().json()["locks"][0]["directory"],
        folder.as_str()
    );
    let locks = run(&["locks", "--host", "all", "--json"]).ok().json();
    assert_eq!(
        (&locks["locks"][0]["host"], locks["locks"].as_array().unwrap().len()),
        (&"box".into(), 1),
        "{locks:#}"
    );
    assert!(run(&["locks", "--host", "box"]).ok().stdout.contains(&format!("box:{folder}")));
    let _ = run(&["unlock", &folder, "--host", "box"]).ok();
    assert_eq!(run(&["unlock", &folder, "--host", "box"]).code, Some(3));
    assert_eq!(run(&["lock", &folder, "--host", "all"]).code, Some(2));
}

/// One machine is one host, whatever it is called; what stands on two machines says so.
#[test]
fn one_machine_by_two_names_is_told_once() {
    let Some(scene) = told() else { return };
    let own = scene.near.program_of(&scene.home, "own");
    let (own, far) = (own.display().to_string(), scene.far_program().display().to_string());
    let host = |name: &str, program: &str| {
        format!("[hosts.{name}]\nssh = \"{name}\"\nprogram = \"{program}\"\ntimeout = \"30s\"\n")
    };
    scene.configure(&[host("box", &far), host("myself", &own), host("second", &far)].concat());
    let list =
        |home: &TestHome| home.agentctl(&["list", "--since", "all", "--host", "all", "--json"]).ok().json();
    let answer = list(&scene.home);
    let rows: Vec<(&str, Value)> = answer["hosts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["via"].as_str().unwrap(), row["alsoAs"].clone()))
        .collect();
    assert_eq!(rows, [("local", json!(["myself"])), ("ssh", json!(["second"]))], "{answer:#}");
    assert_eq!(answer["sessions"].as_array().unwrap().len(), 2, "{answer:#}");
    assert_eq!(scene.home.agentctl(&["status", "bbbb", "--host", "all", "--json"]).ok().json()["id"], FAR);
    // A copied home.
    transcript(&scene.home, FAR, "there");
    let answer = list(&scene.home);
    let also: Vec<(&str, &Value)> = answer["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|session| session["id"] == FAR)
        .map(|session| (session["host"].as_str().unwrap(), &session["meta"]["alsoOn"]))
        .collect();
    let own_name = answer["host"].as_str().unwrap();
    assert!(
        also.contains(&("box", &json!([own_name]))) && also.contains(&(own_name, &json!(["box"]))),
        "{also:?}"
    );
    assert_eq!(scene.home.agentctl(&["status", "bbbb", "--host", "all"]).code, Some(4));
}

/// What a machine advises is typed here with its name.
#[test]
fn the_hint_of_a_refusal_names_the_session_as_it_is_typed_here() {
    let Some(scene) = Scene::with_box() else { return };
    transcript(&scene.far, FAR, "there");
    let refused = scene.home.agentctl(&["approve", &format!("box/{FAR}")]);
    assert_eq!(refused.code, Some(7), "{refused:?}");
    let hint = refused.stderr.lines().find(|line| line.starts_with("hint: ")).unwrap().to_owned();
    assert!(hint.contains(&format!(" box/{FAR}")) && !hint.contains(&format!(" {FAR}")), "{hint}");
}
