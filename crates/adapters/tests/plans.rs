//! What would be started, agent by agent, word for word: a plan changes only on purpose.

use std::fmt::Write;

use agentctl_adapters::registry;
use agentctl_model::{Conversation, Intent, Permission};

fn intent(conversation: Conversation) -> Intent {
    Intent {
        conversation,
        words: "--help is not a flag here".to_owned(),
        cwd: "/work/my project".into(),
        model: None,
        permission: None,
        system_prompt: None,
        fresh_id: "11111111-1111-4111-8111-111111111111".to_owned(),
    }
}

/// Every intent that a user can have, by its name.
fn intents(adapter: &str) -> Vec<(String, Intent)> {
    // Some agents take only ids of their own form.
    let stored = || match adapter {
        "codex" => ("01a1df23-bfed-7611-801d-f77972108d9b".to_owned(), "/root/place".into()),
        _ => ("ses_stored".to_owned(), "/root/place/2026_ses_stored.jsonl".into()),
    };
    let (id, place) = stored();
    let resume = intent(Conversation::Stored { id, place });
    let (id, place) = stored();
    let fork = intent(Conversation::ForkOf { id, place });
    let new = intent(Conversation::New);
    let full = Intent {
        model: Some("maker/model-5".to_owned()),
        permission: Some(Permission::Bypass),
        system_prompt: Some("Be \"brief\".\nAlways.".to_owned()),
        ..new.clone()
    };
    let mut all = vec![
        ("launch".to_owned(), new.clone()),
        ("launch, everything".to_owned(), full.clone()),
        ("resume".to_owned(), resume.clone()),
        ("resume, everything".to_owned(), Intent { conversation: resume.conversation, ..full }),
        ("fork".to_owned(), fork),
    ];
    for permission in Permission::ALL {
        all.push((
            format!("launch, {}", permission.word()),
            Intent { permission: Some(permission), ..new.clone() },
        ));
    }
    all
}

#[test]
fn plans_are_as_they_were() {
    for adapter in registry() {
        let name = adapter.card().name;
        let Some(control) = adapter.control() else { continue };
        let mut told = String::new();
        for (what, intent) in intents(name) {
            let _ = match control.plan(&intent) {
                Ok(plan) => writeln!(told, "# {what}\n{}", serde_json::to_string_pretty(&plan).unwrap()),
                Err(refusal) => {
                    writeln!(told, "# {what}\nrefused: {}\nhint: {:?}", refusal.reason, refusal.hint)
                }
            };
        }
        insta::assert_snapshot!(format!("plan_{name}"), told);
    }
}

/// The words reach an agent as words: on stdin, or behind everything that could be a flag.
#[test]
fn words_are_never_a_flag() {
    for adapter in registry() {
        let Some(control) = adapter.control() else { continue };
        for (what, intent) in intents(adapter.card().name) {
            let Ok(plan) = control.plan(&intent) else { continue };
            let Some(at) = plan.args.iter().position(|arg| *arg == intent.words) else { continue };
            assert_eq!(
                at.checked_sub(1).map(|before| plan.args[before].as_str()),
                Some("--"),
                "{what}: {plan:?}"
            );
            assert_eq!(at + 1, plan.args.len(), "{what}: {plan:?}");
        }
    }
}
