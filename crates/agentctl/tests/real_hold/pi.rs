//! Pi over its mode `rpc`.

use agentctl_testkit::{Pi, agents::pi};

use crate::rounds::{self, Always, Manner};
use crate::steer::Scene;

const MANNER: Manner = Manner { queues: true, reason: "as-message", goes_on: true, always: Always::Session };

fn scene() -> Option<Scene> {
    let scene = Scene::with_model(rounds::model(), "pi", |home, url| Pi::settle(home, url).map(drop))?;
    Some(Scene { model_name: Some(pi::MODEL), ..scene })
}

#[test]
fn pi_is_spoken_to() {
    let Some(scene) = scene() else { return };
    let held = rounds::speaks(&scene);
    rounds::hears_in_mid_turn(&held, MANNER);
    rounds::is_interrupted(&held);
    rounds::survives_an_error(&held, "for good");
    let held = rounds::is_resumed(&held);
    rounds::at_work(&held);
    held.stop("interrupted");
}
