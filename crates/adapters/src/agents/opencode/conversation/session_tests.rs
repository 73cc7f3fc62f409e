use super::*;
use crate::Reach;

/// Messages, oldest first; the id of each is its index.
struct Told(Vec<String>);

impl Conversation for Told {
    type Error = std::convert::Infallible;

    fn newest(&self, _: &str, limit: usize) -> Result<Vec<String>, Self::Error> {
        Ok((0..self.0.len()).rev().take(limit).map(|index| index.to_string()).collect())
    }

    fn oldest(&self, _: &str, limit: usize) -> Result<Vec<String>, Self::Error> {
        Ok((0..self.0.len()).take(limit).map(|index| index.to_string()).collect())
    }

    fn message(&self, _: &str, id: &str) -> Result<Vec<u8>, Self::Error> {
        Ok(self.0[id.parse::<usize>().unwrap()].clone().into_bytes())
    }

    fn parts(&self, _: &str, _: u64) -> Result<Vec<RawPart>, Self::Error> {
        Ok(Vec::new())
    }
}

fn reply(created: i64, input: u64) -> String {
    format!(
        r#"{{"role":"assistant","finish":"stop","time":{{"created":{created},"completed":{created}}},"tokens":{{"input":{input}}}}}"#
    )
}

fn input_of(total: Option<u64>, messages: &[String]) -> Option<u64> {
    let tokens = total.map(|input| Tokens { input: Some(input), ..Tokens::default() });
    let head = Head {
        id: "ses".into(),
        created: records::moment(1000),
        total: Some(Total { tokens, cost: None }),
        ..Head::default()
    };
    let scope = Scope { usage: true, subagents: true, ..Scope::new(Reach::All { since: None }) };
    let Ok(session) = read(&head, PathBuf::new(), None, Witness::Database, &Told(messages.to_vec()), &scope);
    session.found.facts.tokens.and_then(|tokens| tokens.input)
}

#[test]
fn a_fork_whose_first_copy_is_damaged_still_counts_only_its_own() {
    let fork = ["{".to_owned(), reply(10, 500), reply(2000, 7)];
    assert_eq!(input_of(Some(507), &fork), Some(7));
    assert_eq!(input_of(Some(507), &fork[2..]), Some(507), "nothing is copied: the running total counts");
}

#[test]
fn totals_that_were_never_kept_up_leave_it_to_the_messages() {
    assert_eq!(input_of(None, &[reply(2000, 7), reply(3000, 8)]), Some(15));
    assert_eq!(input_of(None, &[]), None);
}

#[test]
fn a_row_with_an_empty_directory_says_nothing_of_one() {
    let cwd = |directory: &str| {
        let head = Head { directory: Some(directory.into()), ..Head::default() };
        let scope = Scope::new(Reach::All { since: None });
        let Ok(session) = read(&head, PathBuf::new(), None, Witness::Database, &Told(Vec::new()), &scope);
        session.found.facts.cwd
    };
    assert_eq!((cwd(""), cwd("/w").as_deref()), (None, Some("/w")));
}
