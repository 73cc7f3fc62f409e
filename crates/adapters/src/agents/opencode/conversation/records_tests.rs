use super::*;
use proptest::prelude::*;

const USER: &str = r#"{"role":"user","time":{"created":1794726970030},"agent":"build","model":{"providerID":"fake","modelID":"fake-small"},"summary":{"diffs":[]}}"#;
const ASSISTANT: &str = r#"{"parentID":"msg_1de1042ae001KHSj7tLjjT7aar","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/home/dev/work/sub","root":"/home/dev/work/sub"},"cost":0.25,"tokens":{"total":168,"input":112,"output":42,"reasoning":3,"cache":{"write":5,"read":11}},"modelID":"fake-small","providerID":"fake","time":{"created":1794726977463,"completed":1794726986038},"finish":"stop"}"#;
const TOOL: &str = r#"{"type":"tool","callID":"call_1","tool":"bash","state":{"status":"completed","input":{"command":"sleep 92"},"output":"done\n","time":{"start":1794726130595,"end":1794726130695}}}"#;
const TEXT: &str =
    r#"{"type":"text","text":"Hello \"you\"","time":{"start":1794726984803,"end":1794726984875}}"#;
const SESSION: &str = r#"{"id":"ses_e21fcbd3cffezvH9zda9ZzW3Rw","version":"1.1.65","projectID":"global","directory":"/home/dev/work/old","title":"Old","time":{"created":1794726118083,"updated":1794726118862}}"#;

#[test]
fn an_assistant_message_says_model_tokens_and_end() {
    let message = Message::parse(ASSISTANT.as_bytes()).unwrap();
    assert_eq!(message.model().as_deref(), Some("fake/fake-small"));
    let tokens = message.tokens().unwrap();
    assert_eq!(
        (tokens.input, tokens.output, tokens.cache_read, tokens.cache_write),
        (Some(112), Some(42), Some(11), Some(5))
    );
    assert!(!message.is_open() && message.cost == Some(0.25));
}

#[test]
fn a_prompt_names_the_model_it_was_meant_for_and_counts_nothing() {
    let message = Message::parse(USER.as_bytes()).unwrap();
    assert_eq!(message.model().as_deref(), Some("fake/fake-small"));
    assert_eq!(message.tokens(), None);
    assert_eq!(model_of_column(r#"{"id":"m","providerID":"p","variant":"default"}"#).as_deref(), Some("p/m"));
    assert_eq!(model_of_column(r#"{"id":"","providerID":"p"}"#), None, "half a name is none");
}

#[test]
fn zeros_and_odd_numbers_are_not_counts() {
    let spent = |tokens: &str| {
        Message::parse(format!(r#"{{"role":"assistant","tokens":{tokens}}}"#).as_bytes()).unwrap().tokens()
    };
    assert_eq!(spent(r#"{"input":0,"output":0,"cache":{"read":0,"write":0}}"#), None);
    let odd = spent(r#"{"input":-3,"output":1.5,"cache":{"read":7}}"#).unwrap();
    assert_eq!((odd.input, odd.output, odd.cache_read, odd.cache_write), (None, None, Some(7), None));
}

#[test]
fn an_odd_field_does_not_cost_the_message() {
    let odd =
        ASSISTANT.replace(r#"{"write":5,"read":11}"#, "null").replace(r#""cost":0.25"#, r#""cost":"dear""#);
    let message = Message::parse(odd.as_bytes()).unwrap();
    let tokens = message.tokens().unwrap();
    assert_eq!((tokens.input, tokens.cache_read, message.cost), (Some(112), None, None));
    assert!(!message.is_open() && message.error.is_none());
    let error = |json: &str| {
        let line = format!(r#"{{"role":"assistant","time":null,"error":{json}}}"#);
        Message::parse(line.as_bytes()).unwrap().error.map(|error| error.words())
    };
    assert_eq!(error(r#""lost""#).as_deref(), Some("error"), "an error of any shape is one");
    assert_eq!(error("null"), None);
    let tool = TOOL.replace(r#""done\n""#, "[1]");
    assert!(Part::parse(tool.as_bytes()).unwrap().state.unwrap().output.is_none());
}

#[test]
fn only_the_agents_own_titles_are_no_names() {
    assert!(is_default_title("New session - 2026-11-15T06:56:06.111Z"));
    assert!(is_default_title("Child session - 2026-11-15T06:56:06.111Z"));
    assert!(is_default_title("New session - 2026-11-15T06:56:06.111Z (fork #2)"));
    assert!(!is_default_title("New session - my plan"));
    assert!(!is_default_title("my plan (fork #1)"));
    assert!(!is_default_title("New session"));
}

#[test]
fn words_that_the_agent_put_into_the_users_mouth_are_not_a_prompt() {
    let part = |json: &'static str| Part::parse(json.as_bytes()).unwrap();
    assert_eq!(part(r#"{"type":"text","text":"x"}"#).words(), Some("x"));
    assert_eq!(part(r#"{"type":"text","text":"x","synthetic":true}"#).words(), None);
    assert_eq!(part(r#"{"type":"reasoning","text":"x"}"#).words(), None);
    assert_eq!(part(r#"{"type":"text","text":" \n"}"#).words(), None);
}

#[test]
fn the_beginning_of_a_long_text_is_its_beginning() {
    let said = "line \\\"one\\\"\\n日本 \\u00e9 ".repeat(900);
    let whole = format!(r#"{{"type":"text","text":"{said}","time":{{}}}}"#);
    let pretty = format!("{{\n  \"id\": \"prt_1\",\n  \"type\": \"text\",\n  \"text\": \"{said}\"\n}}");
    let text = Part::parse(whole.as_bytes()).unwrap().text.unwrap().into_owned();
    for json in [&whole, &pretty] {
        for cut in 300..360 {
            let part = Part::parse_beginning(&json.as_bytes()[..cut]).unwrap();
            let beginning = part.words().unwrap();
            assert!(beginning.len() > 50 && text.starts_with(beginning), "{cut}: {beginning}");
        }
    }
    assert!(Part::parse_beginning(&TOOL.repeat(9).as_bytes()[..500]).is_none());
    assert!(Part::parse_beginning(br#"{"type":"text""#).is_none());
}

/// A recorded file, damaged: cut, changed, or with another one appended.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let record = prop::sample::select(vec![USER, ASSISTANT, TOOL, TEXT, SESSION]);
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (record.clone(), record, any::<prop::sample::Index>(), changes, any::<bool>()).prop_map(
        |(first, second, cut, changes, joined)| {
            let mut bytes = first.as_bytes()[..=cut.index(first.len())].to_vec();
            if joined {
                bytes.extend_from_slice(second.as_bytes());
            }
            for (at, byte) in changes {
                let place = at.index(bytes.len());
                bytes[place] = byte;
            }
            bytes
        },
    )
}

fn stands_in(bytes: &[u8], text: &str) -> bool {
    // A text that is written with escapes has a different spelling in the bytes.
    bytes.contains(&b'\\') || memchr::memmem::find(bytes, text.as_bytes()).is_some()
}

proptest! {
    #[test]
    fn damaged_records_invent_nothing(bytes in damaged()) {
        if let Some(message) = Message::parse(&bytes) {
            if let Some(model) = message.model() {
                let (provider, name) = model.split_once('/').unwrap();
                prop_assert!(stands_in(&bytes, provider) && stands_in(&bytes, name));
            }
            if let Some(tokens) = message.tokens() {
                for count in [tokens.input, tokens.output, tokens.cache_read, tokens.cache_write].into_iter().flatten() {
                    prop_assert!(stands_in(&bytes, &count.to_string()), "{} is not there", count);
                }
            }
            let _ = crate::agents::opencode::conversation::turn::turn(&message, &[]);
        }
        let _ = Part::parse_beginning(&bytes);
        if let Some(part) = Part::parse(&bytes) {
            if let Some(words) = part.words() {
                prop_assert!(stands_in(&bytes, words));
            }
            let _ = crate::agents::opencode::conversation::turn::turn(&Message::parse(ASSISTANT.as_bytes()).unwrap(), &[part]);
        }
        if let Ok(file) = serde_json::from_slice::<SessionFile<'_>>(&bytes) {
            prop_assert!(stands_in(&bytes, &file.id));
            prop_assert!(file.directory.is_none_or(|directory| stands_in(&bytes, &directory)));
        }
    }
}
