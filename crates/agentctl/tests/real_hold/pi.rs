//! Pi over its mode `rpc`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use agentctl_testkit::agents::{self, pi};
use agentctl_testkit::{Pi, Skip, TestHome};

use crate::manner::{Agent, Always, Asks, AtInterrupt, MidTurn, RUNNER, nothing, shell};
use crate::road::Road;
use crate::{Stage, rounds};

/// As it comes, it never asks.
pub(crate) static PI: Agent = Agent {
    name: "pi",
    settle: |home, url| Pi::settle(home, url).map(drop),
    model: Some(pi::MODEL),
    arguments: nothing,
    runs: shell,
    witness: RUNNER,
    mid_turn: MidTurn::Queued(AtInterrupt::Rests),
    asks: None,
    question: None,
    failure: "for good",
};

/// With an extension that asks. How far its "Always" reaches is up to the extension.
pub(crate) static PI_WITH_A_GATE: Agent = Agent {
    settle: settle_beside_its_loader,
    arguments: |scene| {
        let gate = scene.home.path().join("gate.js");
        vec!["--".to_owned(), "-e".to_owned(), gate.to_str().unwrap().to_owned()]
    },
    asks: Some(Asks { reason: "as-message", goes_on: false, always: Always::Wider, settings: &[] }),
    question: Some(|| shell("echo worded")),
    ..PI
};

#[test]
fn pi_is_spoken_to() {
    let Some(stage) = Stage::set(&PI, Road::Alone) else { return };
    rounds::all(&stage);
}

#[test]
fn dialogs_of_pi_are_answered() {
    let Some(stage) = Stage::set(&PI_WITH_A_GATE, Road::Alone) else { return };
    rounds::all(&stage);
    // A choice of an extension can be named by its words.
    let held = rounds::speaks(&stage);
    held.asks_to_run("touch named", "[[text:three]]");
    assert!(held.refused("answer", &["Perhaps"]).contains("Allow, Always, Block"));
    assert_eq!(held.done("answer", &["Always"])["decision"], "answer");
    held.idle("three");
    assert_eq!(held.send("[[bash:mkdir named-too]] [[text:four]]"), "now");
    held.idle("four");
    assert!(held.exists("named") && held.exists("named-too"));
    held.stop("completed");
}

const GATE: &str = r#"let always = false;
export default function (pi) {
  pi.on("tool_call", async (event, ctx) => {
    const command = event.input.command ?? "";
    if (command.includes("worded")) {
      return { block: true, reason: "words: " + (await ctx.ui.input("Which colour?")) };
    }
    if (always) return undefined;
    const choice = await ctx.ui.select("Allow command? " + command, ["Allow", "Always", "Block"]);
    always = choice === "Always";
    return choice === "Allow" || always ? undefined : { block: true, reason: "chosen: " + choice };
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
