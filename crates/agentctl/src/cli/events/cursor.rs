//! The cursor of several streams: one opaque text that holds the cursor of each machine. Pure.

use std::collections::BTreeMap;

use data_encoding::BASE64URL_NOPAD;

/// What a cursor of several machines begins with.
const MARK: &str = "hosts-";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cursors(BTreeMap<String, String>);

impl Cursors {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let bytes = BASE64URL_NOPAD.decode(text.strip_prefix(MARK)?.as_bytes()).ok()?;
        serde_json::from_slice(&bytes).ok().map(Self)
    }

    pub(super) fn get(&self, host: &str) -> Option<&str> {
        self.0.get(host).map(String::as_str)
    }

    pub(super) fn set(&mut self, host: &str, cursor: &str) {
        self.0.insert(host.to_owned(), cursor.to_owned());
    }

    pub(super) fn text(&self) -> String {
        // A map of texts always becomes JSON.
        let json = serde_json::to_vec(&self.0).unwrap_or_default();
        format!("{MARK}{}", BASE64URL_NOPAD.encode(&json))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_machine_finds_its_own_cursor_again() {
        let mut cursors = Cursors::default();
        cursors.set("box", "life-3");
        cursors.set("dev1", "other-7");
        cursors.set("box", "life-4");
        let read = Cursors::parse(&cursors.text()).unwrap();
        assert_eq!(
            (read.get("box"), read.get("dev1"), read.get("x")),
            (Some("life-4"), Some("other-7"), None)
        );
        for bad in ["", "life-3", "hosts-", "hosts-%", "hosts-AAAA"] {
            assert_eq!(Cursors::parse(bad), None, "{bad}");
        }
    }
}
