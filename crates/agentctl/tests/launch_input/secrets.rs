//! What was given to the agent alone is stored nowhere.

use serde_json::Value;

use crate::callback::WORKER;
use crate::scene::Scene;

#[test]
fn a_variable_of_the_agent_leaves_only_its_name_once_the_agent_was_started() {
    let scene = Scene::new();
    scene.put_on_path(
        "claude",
        &WORKER.replacen("printf", "printf '%s' \"$FRIEND\" > \"$HOME/friend\"\nprintf", 1),
    );
    let launched =
        scene.launch(&["claude-code", "-p", "go", "--env", "FRIEND=s3cret-word", "--json"]).ok().json();
    assert_eq!(std::fs::read_to_string(scene.home.path().join("friend")).unwrap(), "s3cret-word");
    let mut grep = scene.home.command("grep");
    grep.args(["-rl", "s3cret-word"]).arg(scene.home.agentctl_home());
    assert_eq!(scene.home.run(grep).stdout, "");
    let folder = scene.home.agentctl_home().join("launches").join(launched["launch"]["id"].as_str().unwrap());
    let record: Value = serde_json::from_slice(&std::fs::read(folder.join("launch.json")).unwrap()).unwrap();
    assert_eq!(record["order"]["env"], serde_json::json!({"FRIEND": null}), "{record:#}");
}
