//! Another machine gives the answers over ssh that it gives itself, for every recorded home.

use agentctl_testkit::Output;
use serde_json::Value;

use crate::Scene;

#[path = "../daemon/house.rs"]
#[allow(dead_code, reason = "another test's room, of which a part is used")]
pub(crate) mod house;

use house::{copy, forget_moments, recorded_homes};

/// What may differ: moments, and what the machine is called and how it was reached.
fn plain(output: &Output) -> (Option<i32>, Vec<Value>) {
    fn forget_names(value: &mut Value) {
        match value {
            Value::Object(object) => {
                object.remove("host");
                object.remove("hosts");
                // What is typed here begins with the machine.
                if let Some(Value::Array(next)) = object.get_mut("next") {
                    for one in next {
                        *one = one.as_str().unwrap().replace("box/", "").into();
                    }
                }
                object.values_mut().for_each(forget_names);
            }
            Value::Array(array) => array.iter_mut().for_each(forget_names),
            _ => {}
        }
    }
    let mut lines: Vec<Value> =
        output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for line in &mut lines {
        forget_moments(line);
        forget_names(line);
    }
    (output.code, lines)
}

#[test]
fn every_recorded_home_answers_over_ssh_as_it_answers_itself() {
    let Some(scene) = Scene::set() else { return };
    let is_long = std::env::var_os("AGENTCTL_LONG").is_some();
    // Some of the homes are enough for the daily run.
    for (number, recorded) in recorded_homes().iter().enumerate().step_by(if is_long { 1 } else { 9 }) {
        let home = scene.far.work_dir(&format!("home-{number}"));
        copy(recorded, &home);
        let login = format!("export HOME='{}'", home.display());
        let program = scene.near.program_with(&scene.far, &format!("agentctl-{number}"), &login);
        scene.configure_program(&program, "60s");
        let there = |arguments: &[&str]| {
            let mut command = scene.far.agentctl_command(arguments);
            command.env("HOME", &home);
            scene.far.run(command)
        };
        let same = |arguments: &[&str]| {
            let (itself, over_ssh) =
                (there(arguments), scene.home.agentctl(&[arguments, &["--host", "box"]].concat()));
            assert_eq!(plain(&over_ssh), plain(&itself), "{arguments:?} in {}", recorded.display());
            itself
        };
        let list = same(&["list", "--since", "all", "--all-agents", "--usage", "--json"]).json();
        let sessions = list["sessions"].as_array().unwrap();
        // One session of each home is enough for the daily run.
        for session in sessions.iter().take(if is_long { usize::MAX } else { 1 }) {
            let id = session["id"].as_str().unwrap();
            same(&["status", id, "--json"]);
            if is_long {
                same(&["explain", id, "--json"]);
            }
            same(&["peek", id, "-n", "5", "--json"]);
        }
        if is_long || number == 0 {
            same(&["inbox", "--since", "all", "--json"]);
        }
    }
}
