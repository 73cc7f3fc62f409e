//! `--issue`: the text of an issue comes through the user's own `gh`, here a script.

use crate::scene::Scene;

#[test]
fn an_issue_stands_behind_the_prompt() {
    let scene = Scene::new();
    scene.put_on_path(
        "gh",
        "#!/bin/sh\nprintf '%s ' \"$@\" > \"$HOME/asked\"\nprintf '{\"title\":\"It hurts\",\"body\":\"Here.\\\\n\"}'\n",
    );
    let launched = scene.launch(&["claude-code", "-p", "Fix it.", "--issue", "7", "--repo", "me/site"]);
    scene.reaches_the_agent(&launched);
    let told = String::from_utf8(scene.told()).unwrap();
    assert_eq!(told, "Fix it.\n\n<issue name=\"#7\">\nIt hurts\n\nHere.\n</issue>");
    let asked = std::fs::read_to_string(scene.home.path().join("asked")).unwrap();
    assert_eq!(asked, "issue view 7 --json title,body --repo=me/site ");
    // An issue is enough of a prompt.
    scene.reaches_the_agent(&scene.launch(&["claude-code", "--issue", "8"]));
    assert!(String::from_utf8(scene.told()).unwrap().starts_with("<issue name=\"#8\">\nIt hurts"));
}

#[test]
fn an_issue_that_cannot_be_had() {
    let scene = Scene::new();
    let issue = ["claude-code", "-p", "x", "--issue", "7"];
    scene.put_on_path("gh", "#!/bin/sh\necho 'GraphQL: no issue 7 here' >&2\nexit 1\n");
    scene.refuses(&issue, 1, &["cannot fetch issue #7", "GraphQL: no issue 7 here"]);
    scene.put_on_path("gh", "#!/bin/sh\necho 'not what was asked for'\n");
    scene.refuses(&issue, 1, &["cannot fetch issue #7"]);
    let mut command = scene.home.agentctl_command(&[&["launch"], &issue[..]].concat());
    command.env("PATH", "/nowhere");
    let refused = scene.home.run(command);
    scene.is_refusal(&refused, &issue, 1, &["the GitHub CLI `gh` is not installed"]);
}
