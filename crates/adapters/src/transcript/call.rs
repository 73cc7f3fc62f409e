//! A tool call in words from which a person can decide: `bash: make test | tee log`. It is complete and hides
//! nothing.

use agentctl_model::text::visible;
use serde_json::Value;

/// The tool and what it works on.
pub(crate) fn words(tool: &str, what: &str) -> String {
    if what.is_empty() { visible(tool) } else { format!("{}: {}", visible(tool), visible(what)) }
}

/// The first of these arguments that the call has; otherwise all questions that it asks a person, one per line.
pub(crate) fn argument(arguments: &Value, keys: &[&str]) -> Option<String> {
    let argument = keys.iter().find_map(|key| match arguments.get(key)? {
        Value::String(text) => Some(text.clone()),
        Value::Array(argv) => {
            let words: Option<Vec<String>> = argv.iter().map(|word| Some(quoted(word.as_str()?))).collect();
            words.map(|words| words.join(" "))
        }
        _ => None,
    });
    argument.or_else(|| {
        let asked = arguments.get("questions")?.as_array()?;
        let questions: Vec<&str> = asked.iter().filter_map(|one| one.get("question")?.as_str()).collect();
        (!questions.is_empty()).then(|| questions.join("\n"))
    })
}

/// One word of a command that is given as a list: the reader must see where it begins and ends.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_is_told_byte_for_byte_and_hides_nothing() {
        let command = "cd  'a  b' && rm -rf x | tee \"q\"  # end ";
        assert_eq!(words("bash", command), format!("bash: {command}"));
        assert_eq!(words("bash", "a\u{1b}[2Kb\u{202e}c\r"), "bash: a⟨U+001B⟩[2Kb⟨U+202E⟩c⟨U+000D⟩");
        assert_eq!(words("evil\u{7}", ""), "evil⟨U+0007⟩");
        let long = "x".repeat(5000);
        assert_eq!(words("bash", &long), format!("bash: {long}"));
        let listed = json!({"command": ["bash", "-lc", "a  b; c 'd'"]});
        let asked = json!({"questions": [{"question": "Which?"}, {"question": "Why?"}]});
        assert_eq!(argument(&asked, &["command"]).unwrap(), "Which?\nWhy?");
        assert_eq!(argument(&listed, &["cmd", "command"]).unwrap(), r"bash -lc 'a  b; c '\''d'\'''");
    }
}
