//! The text of a GitHub issue, fetched with the user's own `gh`.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::time::Duration;

use agentctl_model::Error;
use agentctl_process::{Order, spawn};
use serde_json::Value;

use crate::Caller;

const TIMEOUT: Duration = Duration::from_mins(1);

/// An issue of a repository. If the repository is not named, `gh` finds it from the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    pub number: u64,
    pub repo: Option<String>,
}

/// Returns the title and body of the issue.
pub(super) fn fetch(issue: &Issue, caller: &Caller, cwd: &Path) -> Result<String, Error> {
    let Issue { number, repo } = issue;
    let failed = |why: String| Error::failed(format!("cannot fetch issue #{number}: {why}"));
    let program = caller.find_program(Path::new("gh")).ok_or_else(|| {
        failed("the GitHub CLI `gh` is not installed".to_owned())
            .hint("install it, or paste the issue into the prompt")
    })?;
    let number = number.to_string();
    // This is one argument, because a separate name that begins with a dash would be a flag.
    let repo = repo.as_ref().map(|repo| format!("--repo={repo}"));
    let mut args = vec!["issue", "view", &number, "--json", "title,body"];
    args.extend(repo.as_deref());
    let file = || tempfile::tempfile().map_err(|error| failed(error.to_string()));
    let (mut said, mut complained) = (file()?, file()?);
    let copy = |file: &File| file.try_clone().map_err(|error| failed(error.to_string()));
    let order = Order {
        program,
        args: args.iter().map(Into::into).collect(),
        environ: caller.environ.clone(),
        cwd: cwd.to_owned(),
        stdin: None,
        stdout: copy(&said)?,
        stderr: copy(&complained)?,
    };
    let mut started = spawn(order).map_err(|error| failed(error.to_string()))?;
    let ending = started.ends_within(TIMEOUT).map_err(|error| failed(error.to_string()))?;
    let text = |file: &mut File| {
        let mut text = String::new();
        let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
        read.map(|_| text).map_err(|error| failed(error.to_string()))
    };
    match ending {
        None => Err(failed(format!("`gh` did not answer within {} s", TIMEOUT.as_secs()))),
        Some(ending) if !ending.is_success() => Err(failed(text(&mut complained)?.trim().to_owned())),
        Some(_) => {
            let answer: Value =
                serde_json::from_str(&text(&mut said)?).map_err(|error| failed(error.to_string()))?;
            let part = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
            Ok(format!("{}\n\n{}", part("title"), part("body")))
        }
    }
}
