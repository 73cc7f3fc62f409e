//! What works where: the cards say what the code does, and docs/steering.md says what the cards say.
#![allow(clippy::disallowed_methods, reason = "the document is read and written")]
#![allow(clippy::unwrap_used, reason = "a failing unwrap is a failing test")]

use std::fmt::Write;
use std::fs;
use std::path::Path;

use agentctl_adapters::hold::HoldWay;
use agentctl_adapters::{Adapter, registry};
use agentctl_model::way::{Command, OF_HELD_SESSIONS, Place, Reason};
use agentctl_model::{Conversation, Intent, Way};

fn intent() -> Intent {
    Intent {
        conversation: Conversation::New,
        words: "begin".to_owned(),
        cwd: "/work".into(),
        model: None,
        permission: None,
        system_prompt: None,
        fresh_id: "11111111-1111-4111-8111-111111111111".to_owned(),
        more: Vec::new(),
        store: Some("/home/dev/.pi/agent/sessions".into()),
    }
}

fn way(adapter: &dyn Adapter, fits: impl Fn(Place) -> bool) -> Option<&'static Way> {
    adapter.card().ways.iter().find(|way| fits(way.place))
}

#[test]
fn a_card_names_the_ways_that_there_are() {
    for adapter in registry() {
        let (card, control) = (adapter.card(), adapter.control());
        let name = card.name;
        let has = |place| way(adapter, |one| one == place).is_some();
        let held = control.and_then(|control| control.hold(&intent()).ok()).map(|plan| plan.way);
        assert_eq!(has(Place::Held), matches!(held, Some(HoldWay::Line(_))), "{name}");
        assert_eq!(has(Place::PrivateServer), matches!(held, Some(HoldWay::Server(_))), "{name}");
        assert_eq!(has(Place::Server), card.can_be_asked, "{name}");
        assert_eq!(has(Place::Gateway), adapter.gateway().is_some(), "{name}");
        let on_screen = control.is_some_and(|control| control.terminal(&intent()).is_ok());
        assert_eq!(has(Place::Terminal), on_screen, "{name}");

        let Some(way) = way(adapter, Place::is_held) else { continue };
        let manners = way.manners.unwrap();
        assert!(OF_HELD_SESSIONS.iter().all(|one| way.gives(*one)), "{name}");
        assert_eq!(way.commands.contains(&Command::Answer), manners.questions != "no", "{name}");
        if let Some(HoldWay::Line(protocol)) = held {
            assert_eq!(manners.reason == Reason::WithAnswer, protocol.takes_reasons(), "{name}");
        }
    }
}

const BEGIN: &str = "<!-- Made from crates/adapters/src/ways.rs by the test steering_table; AGENTCTL_UPDATE_DOCS=1 with it writes it anew. -->\n";
const END: &str = "<!-- The end of what is made. -->\n";

#[test]
fn the_tables_of_the_document_are_those_of_the_cards() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/steering.md");
    let written = fs::read_to_string(&path).unwrap();
    let (before, rest) = written.split_once(BEGIN).expect("the mark before the tables");
    let (_, after) = rest.split_once(END).expect("the mark behind the tables");
    let made = format!("{before}{BEGIN}{}{END}{after}", tables());
    if std::env::var_os("AGENTCTL_UPDATE_DOCS").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let new: Vec<&str> = made.lines().filter(|line| !written.lines().any(|known| known == *line)).collect();
    assert!(
        fs::read_to_string(&path).unwrap() == made,
        "docs/steering.md is stale; AGENTCTL_UPDATE_DOCS=1 with this test writes it anew. New: {new:#?}"
    );
}

fn tables() -> String {
    let mut text = String::from(
        "With `--hold`:\n\n\
         | agent | held over | a message in mid-turn | `--always` for the session | a reason with a denial | questions | when the runner dies |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for adapter in registry() {
        let Some(way) = way(adapter, Place::is_held) else { continue };
        let manners = way.manners.unwrap();
        let cells = [
            adapter.card().title,
            way.over,
            manners.mid_turn,
            manners.always,
            manners.reason.words(),
            manners.questions,
            manners.without_runner,
        ];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text.push_str("\nEverywhere:\n\n| where | agents | over | what works |\n|---|---|---|---|\n");
    let mut ways: Vec<(&Way, Vec<&str>)> = Vec::new();
    for adapter in registry() {
        for way in adapter.card().ways {
            match ways.iter_mut().find(|(known, _)| same_row(known, way)) {
                Some((_, agents)) => agents.push(adapter.card().title),
                None => ways.push((way, vec![adapter.card().title])),
            }
        }
    }
    ways.sort_by_key(|(way, _)| way.place);
    for (way, agents) in ways {
        let commands: Vec<String> =
            way.commands.iter().map(|command| format!("`{}`", command.as_str())).collect();
        let cells = [way.place.as_str(), &agents.join(", "), way.over, &commands.join(", ")];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

fn same_row(one: &Way, other: &Way) -> bool {
    (one.place, one.over, one.commands) == (other.place, other.over, other.commands)
}
