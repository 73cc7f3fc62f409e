//! Pi over its mode `rpc`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use agentctl_testkit::agents::{self, pi};
use agentctl_testkit::{Pi, Skip, TestHome};

use crate::Held;
use crate::rounds::{self, Always, Manner};
use crate::steer::Scene;

const MANNER: Manner = Manner {
    queues: true,
    reason: "as-message",
    goes_on: true,
    always: Always::Session,
    has_questions: false,
};

#[test]
fn pi_is_spoken_to() {
    let scene = Scene::with_model(rounds::model(), "pi", |home, url| Pi::settle(home, url).map(drop));
    let Some(scene) = scene else { return };
    let scene = Scene { model_name: Some(pi::MODEL), ..scene };
    let held = rounds::speaks(&scene);
    rounds::hears_in_mid_turn(&held, MANNER);
    rounds::is_interrupted(&held);
    rounds::survives_an_error(&held, "for good");
    let held = rounds::is_resumed(&held);
    rounds::at_work(&held);
    held.stop("interrupted");
}

/// Stock Pi never asks; an extension does.
const GATE: &str = r#"export default function (pi) {
  pi.on("tool_call", async (event, ctx) => {
    const command = event.input.command ?? "";
    if (command.includes("chosen")) {
      const choice = await ctx.ui.select("Allow " + command + "?", ["Allow", "Block"]);
      return choice === "Allow" ? undefined : { block: true, reason: "chosen: " + choice };
    }
    if (command.includes("worded")) {
      return { block: true, reason: "words: " + (await ctx.ui.input("Why?")) };
    }
  });
}
"#;

/// Puts Pi on the path in a tree of links in which it finds the package that loads extensions. The bundle is pinned
/// without that package, and the old Pi has it.
fn settle_beside_its_loader(home: &mut TestHome, url: &str) -> Result<(), Skip> {
    Pi::settle(home, url)?;
    let (script, old) = (agents::pi()?, agents::pi_old()?);
    let package = script.ancestors().find(|path| path.ends_with("pi-coding-agent")).expect("Pi's package");
    let modules = old.ancestors().find(|path| path.ends_with("node_modules")).expect("its packages");
    let tree = home.path().join("tree/node_modules");
    fs::create_dir_all(&tree).unwrap();
    symlink(modules.join("jiti"), tree.join("jiti")).unwrap();
    symlink(package, tree.join("pi")).unwrap();
    let script = tree.join("pi").join(script.strip_prefix(package).unwrap());
    let wrapper = home.path().join("pi.sh");
    let text = format!(
        "#!/bin/sh\nexec node --preserve-symlinks --preserve-symlinks-main '{}' \"$@\"\n",
        script.display()
    );
    fs::write(&wrapper, text).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    home.put_on_path("pi", &wrapper);
    fs::write(home.path().join("gate.js"), GATE).unwrap();
    Ok(())
}

#[test]
fn dialogs_of_pi_are_answered() {
    let scene = Scene::with_model(rounds::model(), "pi", settle_beside_its_loader);
    let Some(scene) = scene else { return };
    let scene = Scene { model_name: Some(pi::MODEL), ..scene };
    let gate = scene.home.path().join("gate.js");
    let held = Held::launch(&scene, "[[text:one]] first", &["--", "-e", gate.to_str().unwrap()]);
    held.idle("one");
    let first = held.asks_to_run("touch chosen", "[[text:two]]");
    let taken = held.done("approve", &[]);
    assert_eq!((&taken["request"], &taken["decision"]), (&first["id"], &"allow-once".into()), "{taken:#}");
    held.idle("two");
    assert!(held.exists("chosen"));

    let second = held.asks_to_run("mkdir chosen-not", "[[text:three]]");
    assert_ne!(first["id"], second["id"]);
    held.refused("approve", &["--request", first["id"].as_str().unwrap()]);
    let taken = held.done("deny", &["--message", "not on a Tuesday"]);
    assert_eq!(taken["message"], "as-message", "{taken:#}");
    held.becomes("the end of the turn", |seen| seen["status"] == "idle");
    assert!(!held.exists("chosen-not") && held.model_heard("not on a Tuesday"));

    assert_eq!(held.send("[[bash:touch worded]] [[text:four]]"), "now");
    held.asked("question");
    assert_eq!(held.done("answer", &["so be it"])["decision"], "answer");
    held.idle("four");
    assert!(held.model_heard("words: so be it"));
    held.stop("completed");
}
