//! The text of a GitHub issue, fetched with the user's own `gh`.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::time::Duration;

use agentctl_process::{Order, spawn};
use serde_json::Value;

use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::surroundings::Surroundings;

const PATIENCE: Duration = Duration::from_mins(1);

/// Title and body of the issue.
pub(crate) fn fetch(issue: u64, repo: Option<&str>, surroundings: &Surroundings) -> Result<String, Failure> {
    let failed = |why: String| Failure::new(Exit::Failed, format!("cannot fetch issue #{issue}: {why}"));
    let program = surroundings.on_path(Path::new("gh")).ok_or_else(|| {
        failed("the GitHub CLI `gh` is not installed".to_owned())
            .hint("install it, or paste the issue into the prompt")
    })?;
    let number = issue.to_string();
    let mut args = vec!["issue", "view", &number, "--json", "title,body"];
    args.extend(repo.into_iter().flat_map(|repo| ["--repo", repo]));
    let file = || tempfile::tempfile().map_err(|error| failed(error.to_string()));
    let (mut said, mut complained) = (file()?, file()?);
    let copy = |file: &File| file.try_clone().map_err(|error| failed(error.to_string()));
    let order = Order {
        program,
        args: args.iter().map(Into::into).collect(),
        environ: surroundings.environ.clone(),
        cwd: surroundings.cwd.clone().unwrap_or_else(|| "/".into()),
        stdin: None,
        stdout: copy(&said)?,
        stderr: copy(&complained)?,
    };
    let mut started = spawn(order).map_err(|error| failed(error.to_string()))?;
    let ending = started.ends_within(PATIENCE).map_err(|error| failed(error.to_string()))?;
    let text = |file: &mut File| {
        let mut text = String::new();
        let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
        read.map(|_| text).map_err(|error| failed(error.to_string()))
    };
    match ending {
        None => Err(failed(format!("`gh` did not answer within {} s", PATIENCE.as_secs()))),
        Some(ending) if !ending.is_success() => Err(failed(text(&mut complained)?.trim().to_owned())),
        Some(_) => {
            let answer: Value =
                serde_json::from_str(&text(&mut said)?).map_err(|error| failed(error.to_string()))?;
            let part = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
            Ok(format!("{}\n\n{}", part("title"), part("body")))
        }
    }
}
