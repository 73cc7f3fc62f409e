//! A stop that did not happen: the gateway's own denial is a refusal, everything else is a failed attempt.

use serde_json::json;

use crate::office::Office;

#[test]
fn only_a_no_of_the_gateway_is_a_refusal() {
    let office = Office::open();
    let key = |name: &str| format!("agent:main:{name}");
    let row = |name: &str| json!({"key": key(name), "hasActiveRun": true, "workspaceDir": "/w"});
    office.ledger().rows = vec![row("cut"), row("stubborn"), row("never"), row("starting"), row("deleted")];
    for (name, code, said) in [
        ("cut", 1, "whether the gateway took it is not known"),
        ("stubborn", 1, "still says that session agent:main:stubborn is running"),
        ("never", 7, "not yours to stop"),
        ("starting", 1, "retry shortly"),
    ] {
        let ended = office.machine.run(&["stop", &key(name), "--grace", "0s"]);
        assert!(ended.code == Some(code) && ended.err.contains(said), "{name}: {ended:?}");
        let told = office.machine.run(&["stop", &key(name), "--grace", "0s", "--json"]);
        assert_eq!(told.code, Some(code), "{name}: {told:?}");
        let report: serde_json::Value = serde_json::from_str(&told.out).unwrap();
        let report = &report["sessions"][0];
        assert_eq!(report["stopped"], false, "{report:#}");
        assert!(report["error"].as_str().unwrap().contains(said), "{report:#}");
    }
    // Another client has deleted it meanwhile, so nothing is left that could run.
    let ended = office.machine.run(&["stop", &key("deleted"), "--grace", "0s"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    // The exit code is the worst of several: the failed attempt, whatever came after it.
    let ended = office.machine.run(&["stop", &key("cut"), &key("never")]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
}
