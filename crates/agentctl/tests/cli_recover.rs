//! `recover`: what went down with the machine is offered, put away, or refused with a reason.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests run processes and wait for them")]

mod machine;

use machine::{DIED, Machine, TOOLS};

/// A machine on which DIED died long before this boot.
fn after_a_boot() -> Machine {
    let machine = Machine::furnished();
    machine.folder_of_died();
    let transcript = machine.transcript("-home-dev-w-sig", DIED);
    let text = std::fs::read_to_string(&transcript).unwrap();
    std::fs::write(&transcript, text.replace("2026-11-15T", "2020-11-15T")).unwrap();
    machine
}

fn offered(machine: &Machine) -> Vec<String> {
    let answer = machine.json(&["recover", "--since", "all", "--json"]);
    let ids = answer["sessions"].as_array().unwrap().iter();
    ids.map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_went_down_is_offered_as_often_as_it_is_asked_for() {
    let machine = after_a_boot();
    let answer = machine.json(&["recover", "--since", "all", "--json"]);
    let one = &answer["sessions"][0];
    assert_eq!(
        (&one["id"], &one["status"], &one["outcome"]),
        (&DIED.into(), &"stopped".into(), &"died".into())
    );
    assert_eq!(
        (&one["lostBy"], &one["problem"]),
        (&"older-than-boot".into(), &serde_json::Value::Null),
        "{one:#}"
    );
    assert_eq!(one["command"], format!("agentctl recover --yes {DIED}"));
    assert!(one["doing"].as_str().unwrap().starts_with("Bash: for i in"), "{one:#}");
    assert!(answer["bootedAt"].is_string() && answer["message"].is_string(), "{answer:#}");
    assert_eq!(offered(&machine), [DIED], "looking uses nothing up");
    assert!(!machine.home().join(".agentctl/marks.json").exists());

    let narrow = machine.command(&["recover", "--since", "all"]).env("COLUMNS", "80").output().unwrap();
    let table = machine::Ended::of(&narrow).out;
    assert!(table.contains("  → agentctl recover --yes a0"), "{table}");
    assert!(table.contains("The machine went down"), "the message is shown: {table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    let other = machine.run(&["recover", "--since", "all", "--message", "go on, please"]);
    assert!(other.out.contains("go on, please") && !other.out.contains("The machine went down"), "{other:?}");
    // It is older than a week, and none of the others went down.
    assert_eq!(machine.run(&["recover"]).out, "nothing to recover\n");
    let named = machine.run(&["recover", "a0"]);
    assert!(named.out.contains("agentctl recover --yes a0"), "whoever is named is not too old: {named:?}");
}

#[test]
fn one_that_is_put_away_is_not_offered_again() {
    let machine = after_a_boot();
    assert_eq!(machine.run(&["recover", "--dismiss", "nobody"]).code, Some(3));
    let finished = machine.run(&["recover", "--dismiss", TOOLS]);
    assert_eq!(finished.code, Some(7), "{finished:?}");
    assert!(finished.err.contains("has nothing to recover"), "{finished:?}");
    assert_eq!(machine.run(&["recover", "--yes", TOOLS]).code, Some(7));
    assert_eq!(machine.run(&["recover", "--yes", "--dismiss", DIED]).code, Some(2));
    assert_eq!(machine.run(&["recover", "--yes", "--message", " "]).code, Some(2));
    assert_eq!(machine.run(&["recover", "--yes", "--jobs", "0"]).code, Some(2));
    assert_eq!(offered(&machine), [DIED]);

    let told = machine.json(&["recover", "--dismiss", DIED, "--json"]);
    assert_eq!(told["dismissed"][0]["id"], DIED);
    assert!(offered(&machine).is_empty());
    assert_eq!(machine.run(&["recover", "--dismiss", DIED]).code, Some(7), "it is put away already");
    let none = machine.json(&["recover", "--yes", "--since", "all", "--json"]);
    assert!(none["sessions"].as_array().unwrap().is_empty() && none["failed"].as_array().unwrap().is_empty());
    let kept = std::fs::read_to_string(machine.home().join(".agentctl/marks.json")).unwrap();
    assert!(!kept.contains("died") && kept.contains(DIED), "no status is stored: {kept}");
}

#[test]
fn what_cannot_be_resumed_says_why_and_stays() {
    let machine = after_a_boot();
    // No agent is installed in this home.
    let failed = machine.run(&["recover", "--yes", DIED]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.err.contains("is not installed"), "{failed:?}");
    assert_eq!(offered(&machine), [DIED], "nobody has taken it up");
    assert_eq!(std::fs::read_dir(machine.home().join(".agentctl/launches")).unwrap().count(), 0);

    // Somebody has locked its folder.
    let folder = machine.home().join("w");
    assert_eq!(machine.run(&["lock", folder.to_str().unwrap(), "--by", "ann"]).code, Some(0));
    let refused = machine.json_of(&["recover", "--yes", DIED, "--json"], 7);
    let why = refused["failed"][0]["error"].as_str().unwrap();
    assert!(why.contains("ann") && why.contains("once the folder is free"), "{refused:#}");
    assert_eq!(offered(&machine), [DIED]);

    // Its folder is gone.
    std::fs::remove_dir_all(folder).unwrap();
    let shown = machine.run(&["recover", "--since", "all"]);
    assert!(shown.out.contains("  ✕ the folder of session"), "{shown:?}");

    // Marks that cannot be read hide nothing, and nothing is resumed.
    machine.write(".agentctl/marks.json", "{");
    let shown = machine.run(&["recover", "--since", "all"]);
    assert!(shown.out.contains("  ✕ ") && shown.err.contains("marks.json is damaged"), "{shown:?}");
    let refused = machine.run(&["recover", "--yes", "--since", "all"]);
    assert!(refused.code == Some(1) && refused.err.contains("nothing was resumed"), "{refused:?}");
}
