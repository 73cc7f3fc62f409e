//! The exact command of every agent's plan: a plan changes only on purpose.

use std::fmt::Write;

use agentctl_adapters::{Control, registry};
use agentctl_model::{Conversation, Intent, Permission, SpawnPlan, Stdin};

fn intent(conversation: Conversation) -> Intent {
    Intent {
        conversation,
        words: "--help is not a flag here".to_owned(),
        cwd: "/work/my project".into(),
        model: None,
        permission: None,
        system_prompt: None,
        fresh_id: "11111111-1111-4111-8111-111111111111".to_owned(),
        more: Vec::new(),
        store: Some("/home/dev/.pi/agent/sessions".into()),
    }
}

/// Every intent that a user can have, with its name.
fn intents(adapter: &str) -> Vec<(String, Intent)> {
    // Some agents accept only ids of their own form.
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
        (
            "launch, more".to_owned(),
            Intent { more: vec!["--more".to_owned(), "as it is".to_owned()], ..new.clone() },
        ),
    ];
    for permission in Permission::ALL {
        all.push((
            format!("launch, {}", permission.as_str()),
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
                    writeln!(told, "# {what}\nrefused: {}\nhint: {:?}", refusal.message, refusal.hint)
                }
            };
        }
        insta::assert_snapshot!(format!("plan_{name}"), told);
    }
}

/// The same for the agent's own screen.
#[test]
fn plans_for_a_terminal_are_as_they_were() {
    for adapter in registry() {
        let name = adapter.card().name;
        let Some(control) = adapter.control() else { continue };
        let mut told = String::new();
        for (what, intent) in intents(name) {
            let _ = match control.terminal(&intent) {
                Ok(plan) => {
                    let argv = std::iter::once(&plan.program).chain(&plan.args);
                    let argv: Vec<String> = argv.map(|word| format!("{word:?}")).collect();
                    writeln!(told, "# {what}\n{}\n{:?} {:?}", argv.join(" "), plan.env, plan.id)
                }
                Err(refusal) => {
                    writeln!(told, "# {what}\nrefused: {}\nhint: {:?}", refusal.message, refusal.hint)
                }
            };
        }
        insta::assert_snapshot!(format!("terminal_{name}"), told);
    }
}

/// Every plan that an agent has: for a run, and for its own screen.
fn every_plan(control: &dyn Control, intent: &Intent) -> Vec<SpawnPlan> {
    [control.plan(intent), control.terminal(intent)].into_iter().flatten().collect()
}

/// A prompt for a screen that is too long for an argument, or that the agent would take for something else, is refused
/// before anything starts; and no screen is given an agent whose output would be for a program.
#[test]
fn a_prompt_for_a_screen_is_an_argument_of_an_interactive_run() {
    for adapter in registry() {
        let Some(control) = adapter.control() else { continue };
        let name = adapter.card().name;
        let long = Intent { words: "x".repeat(128 * 1024), ..intent(Conversation::New) };
        let refusal = control.terminal(&long).unwrap_err();
        let Ok(plan) = control.terminal(&intent(Conversation::New)) else {
            assert_eq!(name, "kimi", "no screen: {refusal:?}");
            continue;
        };
        assert!(refusal.message.contains("argument"), "{name}: {refusal:?}");
        assert_eq!(plan.stdin, Stdin::Terminal, "{name}");
        let of_a_run = ["-p", "exec", "run", "json", "stream-json", "--json"];
        assert!(!plan.args.iter().any(|arg| of_a_run.contains(&arg.as_str())), "{name}: {plan:?}");
    }
}

/// The prompt reaches an agent exactly once, and as a prompt: on stdin, as the last argument after `--`, or
/// as the value of a flag within one argument.
#[test]
fn words_arrive_once_and_are_never_a_flag() {
    for adapter in registry() {
        let Some(control) = adapter.control() else { continue };
        let name = adapter.card().name;
        let mut plans = 0;
        for (what, intent) in intents(name) {
            for plan in every_plan(control, &intent) {
                plans += 1;
                let holds = |(_, argument): &(usize, &String)| argument.contains(&intent.words);
                let holding: Vec<(usize, &String)> = plan.args.iter().enumerate().filter(holds).collect();
                match (plan.stdin, &holding[..]) {
                    (Stdin::Words, []) => {}
                    (Stdin::Nothing | Stdin::Terminal, [(at, argument)]) if **argument == intent.words => {
                        assert!(plan.args[..*at].contains(&"--".to_owned()), "{name}, {what}: {plan:?}");
                        assert_eq!(at + 1, plan.args.len(), "{name}, {what}: {plan:?}");
                    }
                    (Stdin::Nothing | Stdin::Terminal, [(_, argument)]) => {
                        let flag =
                            argument.strip_suffix(&intent.words).and_then(|flag| flag.strip_suffix('='));
                        let is_name = |word: &str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
                        let named = flag.and_then(|flag| flag.strip_prefix("--")).is_some_and(is_name);
                        assert!(named, "{name}, {what}: {plan:?}");
                    }
                    _ => panic!("{name}, {what}: the words do not arrive once: {plan:?}"),
                }
            }
        }
        assert!(plans > 0, "{name} has no plan at all");
    }
}

/// A value that somebody typed, or that an agent stored, never becomes a flag of the agent.
#[test]
fn values_are_never_a_flag() {
    for adapter in registry() {
        let Some(control) = adapter.control() else { continue };
        let name = adapter.card().name;
        let evil = |word: &str| Some(format!("--evil-{word}"));
        let (id, place) = ("--evil-id".to_owned(), "/root/place/2026_ses_stored.jsonl".into());
        let stored = Conversation::Stored { id, place };
        // The values are tried one at a time, because an agent may refuse some of them.
        let given = [
            Intent { model: evil("model"), ..intent(Conversation::New) },
            Intent { model: Some("--evil/model".to_owned()), ..intent(Conversation::New) },
            Intent { system_prompt: evil("instructions"), ..intent(Conversation::New) },
            intent(stored),
        ];
        for intent in given {
            for plan in every_plan(control, &intent) {
                let flags = plan.args.iter().take_while(|arg| *arg != "--");
                assert!(!flags.into_iter().any(|arg| arg.starts_with("--evil")), "{name}: {plan:?}");
            }
            match control.plan(&intent) {
                Ok(_) => {}
                // Wrong usage is reported before any plan is made.
                Err(refusal) => {
                    let told = intent.model.as_deref().and_then(|model| control.misfit("model", model));
                    let lacks = intent.model.is_none() || refusal.message.contains("provider/model");
                    assert!(told.is_some() || lacks, "{name}: {refusal:?}");
                }
            }
        }
        assert_eq!(control.misfit("system prompt", "- be brief"), None, "{name}: a list is no flag");
    }
}

/// Extra arguments for the agent arrive unchanged, and positional arguments still stand last.
#[test]
fn further_arguments_arrive_as_they_are() {
    for adapter in registry() {
        let Some(control) = adapter.control() else { continue };
        for (what, intent) in intents(adapter.card().name) {
            let more = vec!["--more".to_owned(), "as it is".to_owned(), "-".to_owned()];
            let (Ok(without), Ok(plan)) =
                (control.plan(&intent), control.plan(&Intent { more: more.clone(), ..intent.clone() }))
            else {
                continue;
            };
            let at = plan.args.windows(more.len()).position(|window| window == more);
            let at = at.unwrap_or_else(|| panic!("{what}: {plan:?}"));
            let mut rest = plan.args.clone();
            rest.drain(at..at + more.len());
            if intent.more.is_empty() {
                assert_eq!(rest, without.args, "{what}");
            }
        }
    }
}
