//! The agentctl binary: reads flags, prints text or JSON. It decides nothing about sessions; the fleet does.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write what is read"))]

mod acp;
mod cli;
mod daemon_context;
mod exit_codes;
mod failure;
#[cfg(fuzzing)]
pub mod fuzzing;
mod interrupt;
mod link;
mod mcp;
mod output;
mod render;
mod rpc;
mod settings;
mod surroundings;
mod top;

use std::io::Write;
use std::process::ExitCode;

use clap_complete::CompleteEnv;

use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::surroundings::Surroundings;

/// A list of ten thousand sessions makes a few hundred thousand small allocations on several threads; the
/// system's allocator spends a fifth of the total time on page faults for them. Without huge pages (`no_thp`) a small
/// process stays small: with them, an idle server would hold nine megabytes that it does not use.
#[cfg(not(fuzzing))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if let Some(version) = cli::version_alone() {
        // A closed output is no error.
        let _ = std::io::stdout().write_all(version.as_bytes());
        return Exit::Done.into();
    }
    if std::env::args_os().nth(1).is_some_and(|first| first == agentctl_files::HELPER_ARGUMENT) {
        return match agentctl_files::run_helper(&agentctl_fleet::QUESTIONS) {
            Ok(()) => Exit::Done,
            Err(_) => Exit::Failed,
        }
        .into();
    }
    agentctl_files::use_helper_process();
    let exit = run();
    agentctl_files::end_helpers();
    exit
}

fn run() -> ExitCode {
    let surroundings = Surroundings::gather();
    // A shell that asks for completions must get no other output, so this comes first.
    let completed = CompleteEnv::with_factory(cli::command)
        .try_complete(std::env::args_os(), surroundings.cwd.as_deref());
    match completed {
        Ok(false) => {}
        Ok(true) => return Exit::Done.into(),
        Err(error) => {
            let _ = error.print();
            return Exit::Usage.into();
        }
    }
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(refusal) => {
            // Help and version come this way too; a closed output is no error.
            let _ = refusal.print();
            return if refusal.use_stderr() { Exit::Usage } else { Exit::Done }.into();
        }
    };
    if let Some(point) = surroundings.environ.text("AGENTCTL_FAULT") {
        agentctl_fleet::keep::fault::arm(point);
    }
    if let Some((home, _)) = surroundings.own_folder() {
        agentctl_adapters::sqlite::keep_copies_below(&home);
    }
    let mut out = Output::new(&surroundings, cli.colour());
    let silent_daemon = surroundings.silent_daemon.clone();
    let ended = cli::run(cli, surroundings, &mut out).and_then(|exit| {
        out.flush()?;
        Ok(exit)
    });
    let exit = match ended {
        Ok(exit) => exit,
        Err(Failure::ReaderGone) => Exit::Done,
        Err(Failure::Said(error)) => {
            out.error(&error.message);
            if let Some(hint) = &error.hint {
                out.hint(hint);
            }
            error.kind.into()
        }
    };
    // A command that requires the daemon has already reported it.
    if let Some(silence) = silent_daemon.get().filter(|_| exit != Exit::NoDaemon) {
        out.warn(&format!("{}, so agentctl looked by itself", silence.why));
        out.hint(silence.hint);
    }
    exit.into()
}
