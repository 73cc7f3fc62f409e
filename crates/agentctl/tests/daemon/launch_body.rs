//! Everything that a launch over HTTP can contain: all options of the command line.

use std::fs;
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::attacks::with_http;
use crate::house::{House, exchange};
use crate::launched::Scene;

const GH: &str = "#!/bin/sh\nprintf '%s ' \"$@\" > \"$HOME/asked\"\nprintf '{\"title\":\"It hurts\",\"body\":\"Here.\"}'\n";

#[test]
fn a_group_without_an_end_is_refused_before_anything_is_made() {
    let house = House::new();
    let _daemon = house.daemon(&[]);
    let cwd = house.home.work_dir("a");
    let group = |count: usize| {
        let slots = vec![json!({"adapter": "claude-code"}); count];
        let body = json!({"launches": slots, "cwd": cwd, "prompt": "x"});
        house.write("POST", "/v1/groups", &body.to_string())
    };
    for (count, words) in [(0, "nothing to launch"), (101, "101 launches are more than 100")] {
        let refused = group(count);
        assert_eq!((refused.status, &refused.json()["code"]), (400, &json!("usage")), "{refused:?}");
        assert!(refused.json()["detail"].as_str().unwrap().contains(words), "{refused:?}");
    }
    assert!(!house.home.agentctl_home().join("launches").exists());
}

#[test]
fn a_specification_files_and_an_issue_stand_behind_the_prompt() {
    let scene = Scene::set();
    scene.put_on_path("gh", GH);
    let house = &scene.house;
    let (spec, file) = (house.home.path().join("spec.md"), house.home.path().join("notes"));
    fs::write(&spec, "the spec\n").unwrap();
    fs::write(&file, "a note").unwrap();
    let _daemon = house.daemon(&[]);
    let cwd = house.home.work_dir("a");
    let launch = |more: Value| {
        let mut body = json!({"adapter": "claude-code", "cwd": cwd});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        house.write("POST", "/v1/sessions", &body.to_string())
    };
    for (more, words) in [
        (json!({}), "there is no prompt"),
        (json!({"files": [file]}), "there is no prompt"),
        (json!({"prompt": "x", "spec": "spec.md"}), "no absolute path"),
        (json!({"prompt": "x", "spec": cwd}), "is not a file"),
        (json!({"prompt": "x", "files": [file], "maxFileSize": 3}), "more than 3 bytes"),
        (json!({"prompt": "x", "repo": "me/site"}), "`repo`"),
    ] {
        let reply = launch(more.clone());
        assert!(reply.status == 400 && reply.body.contains(words), "{more}: {reply:?}");
    }
    let launched = launch(
        json!({"spec": spec, "files": [file], "issue": 7, "repo": "me/site", "args": ["--more", "as it is"]}),
    );
    assert_eq!(launched.status, 200, "{launched:?}");
    let folder =
        house.home.agentctl_home().join("launches").join(launched.json()["launch"]["id"].as_str().unwrap());
    let record: Value = serde_json::from_slice(&fs::read(folder.join("launch.json")).unwrap()).unwrap();
    assert_eq!(record["order"]["args"], json!(["--more", "as it is"]), "{record:#}");
    let (spec, file) = (spec.to_str().unwrap(), file.to_str().unwrap());
    let told = fs::read_to_string(house.home.path().join("input")).unwrap();
    assert_eq!(
        told,
        format!(
            "<issue name=\"#7\">\nIt hurts\n\nHere.\n</issue>\n\n<spec name=\"{spec}\">\nthe spec\n</spec>\n\n\
            <file name=\"{file}\">\na note\n</file>"
        )
    );
    let asked = fs::read_to_string(house.home.path().join("asked")).unwrap();
    assert_eq!(asked, "issue view 7 --json title,body --repo=me/site ");
    let known = &launched.json()["launch"];
    assert_eq!((&known["spec"], &known["files"]), (&json!(spec), &json!([file])), "{known:#}");
    scene.open_the_gate();
}

#[test]
fn over_tcp_nobody_chooses_what_is_read() {
    let house = House::new();
    let (_daemon, port, token) = with_http(&house);
    let cwd = house.home.work_dir("a");
    for more in [
        json!({"spec": "/etc/hosts"}),
        json!({"files": ["/etc/hosts"]}),
        json!({"issue": 7}),
        json!({"args": ["--x"]}),
    ] {
        let mut body = json!({"adapter": "claude-code", "prompt": "x", "cwd": cwd});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let body = body.to_string();
        let request = format!(
            "POST /v1/sessions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\nX-Agentctl: 1\r\n\
            Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let reply = exchange(&mut TcpStream::connect(("127.0.0.1", port)).unwrap(), &request).unwrap();
        assert!(reply.status == 403 && reply.body.contains("unix socket alone"), "{more}: {reply:?}");
    }
}

#[test]
fn what_the_slots_of_a_group_did_is_told_as_on_the_command_line() {
    let scene = Scene::set();
    let house = &scene.house;
    let repository = house.home.git_repo("project");
    let _daemon = house.daemon(&[]);
    let body = json!({"prompt": "x", "cwd": repository, "launches": [{"adapter": "claude-code"}, {"adapter": "claude-code"}]});
    let made = house.write("POST", "/v1/groups", &body.to_string()).json();
    let group = made["group"].as_str().unwrap().to_owned();
    let tree = made["sessions"][1]["cwd"].as_str().unwrap_or_else(|| panic!("{made:#}")).to_owned();
    fs::write(format!("{tree}/new"), "one line\n").unwrap();
    let there = house.get(&format!("/v1/groups/{group}/diff"));
    assert_eq!(there.json(), house.home.agentctl(&["group", "diff", &group, "--json"]).json());
    let slots = there.json()["slots"].as_array().unwrap().clone();
    assert_eq!((slots.len(), slots[0]["diff"].as_str()), (2, Some("")), "{slots:#?}");
    assert!(slots[1]["diff"].as_str().unwrap().contains("+one line"), "{slots:#?}");
    let one = house.get(&format!("/v1/groups/{group}/diff?slot=claude-code-2&stat")).json();
    assert_eq!(one["slots"].as_array().unwrap().len(), 1, "{one:#}");
    assert!(one["slots"][0]["diff"].as_str().unwrap().contains("1 file changed"), "{one:#}");
    let unknown = house.get(&format!("/v1/groups/{group}/diff?slot=codex"));
    assert!(
        unknown.status == 404 && unknown.body.contains("it has claude-code, claude-code-2"),
        "{unknown:?}"
    );
    assert_eq!(house.get("/v1/groups/g-none/diff").status, 404);
    // A unique beginning is enough everywhere.
    let begun = &group[..5];
    assert_eq!(house.get(&format!("/v1/groups/{begun}/diff")).json(), there.json());
    let shown = house.home.agentctl(&["group", "show", begun, "--json"]).json();
    assert_eq!(shown["group"], json!(group), "{shown:#}");
    let listed = house.get(&format!("/v1/sessions?group={begun}")).json();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 2, "{listed:#}");
    assert_eq!(house.home.agentctl(&["list", "--group", begun, "-q"]).stdout.lines().count(), 2);
    let body = json!({"prompt": "x", "cwd": repository, "group": "g-other", "launches": [{"adapter": "claude-code"}]});
    assert_eq!(house.write("POST", "/v1/groups", &body.to_string()).status, 200);
    let fits_both = house.get("/v1/groups/g-/diff");
    assert!(fits_both.status == 409 && fits_both.body.contains("g-other"), "{fits_both:?}");
    let refused = house.home.agentctl(&["list", "--group", "g-"]);
    assert!(refused.code == Some(4) && refused.stderr.contains(&group), "{refused:?}");
    scene.open_the_gate();
}

/// An update puts another file in the place of the one that the daemon runs.
#[test]
fn a_daemon_whose_program_was_replaced_still_launches() {
    let scene = Scene::set();
    let house = &scene.house;
    let (program, update) = (house.home.path().join("agentctl"), house.home.path().join("agentctl.new"));
    for copy in [&program, &update] {
        fs::copy(env!("CARGO_BIN_EXE_agentctl"), copy).unwrap();
    }
    let _daemon = house.daemon_of(&program);
    fs::rename(&update, &program).unwrap();
    let body = json!({"adapter": "claude-code", "cwd": house.home.work_dir("a"), "prompt": "x"});
    let launched = house.write("POST", "/v1/sessions", &body.to_string());
    assert_eq!(launched.status, 200, "{launched:?}");
    scene.open_the_gate();
}
