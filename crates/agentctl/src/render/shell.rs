//! Commands that a person can paste into a shell.

/// The words as one command line. `None` when a word has characters that must not be shown on a terminal.
pub(crate) fn command(words: &[String]) -> Option<String> {
    words.iter().map(|word| quoted(word)).collect::<Option<Vec<_>>>().map(|words| words.join(" "))
}

/// Quotes a word for the shell. Text from storage is quoted as a whole, so nothing in it is ever executed.
pub(crate) fn quoted(word: &str) -> Option<String> {
    if agentctl_model::text::clean(word) != word || word.contains(['\n', '\t']) {
        return None;
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return Some(word.to_owned());
    }
    Some(format!("'{}'", word.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_words_are_quoted_and_hostile_ones_refused() {
        let line = |words: &[&str]| command(&words.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(line(&["claude", "--resume", "5f0c-1"]).as_deref(), Some("claude --resume 5f0c-1"));
        assert_eq!(line(&["cd", "/w/my site"]).as_deref(), Some("cd '/w/my site'"));
        assert_eq!(line(&["a", "$(rm -rf ~)", "it's", ""]).as_deref(), Some(r"a '$(rm -rf ~)' 'it'\''s' ''"));
        assert_eq!(line(&["tmux", "a", ";", "b"]).as_deref(), Some("tmux a ';' b"));
        for hostile in ["a\nb", "a\u{1b}[2J", "a\u{202e}b", "a\tb"] {
            assert_eq!(line(&[hostile]), None, "{hostile:?}");
        }
    }
}
