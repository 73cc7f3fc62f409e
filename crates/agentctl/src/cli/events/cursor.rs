//! The cursor of several streams: one opaque text that holds the cursor of each machine. Pure.

use std::collections::BTreeMap;

use data_encoding::BASE64URL_NOPAD;

/// What a cursor of several machines begins with.
const MARK: &str = "hosts-";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cursors(BTreeMap<String, String>);

impl Cursors {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let bytes = BASE64URL_NOPAD.decode(text.strip_prefix(MARK)?.as_bytes()).ok()?;
        serde_json::from_slice(&bytes).ok().map(Self)
    }

    pub(crate) fn get(&self, host: &str) -> Option<&str> {
        self.0.get(host).map(String::as_str)
    }

    pub(crate) fn set(&mut self, host: &str, cursor: &str) {
        self.0.insert(host.to_owned(), cursor.to_owned());
    }

    pub(crate) fn text(&self) -> String {
        // A map of texts always becomes JSON.
        let json = serde_json::to_vec(&self.0).unwrap_or_default();
        format!("{MARK}{}", BASE64URL_NOPAD.encode(&json))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_is_understood_is_written_and_understood_again(
            hosts in prop::collection::btree_map(".{0,8}", ".{0,12}", 0..4),
            noise in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let cursors = Cursors(hosts);
            prop_assert_eq!(Cursors::parse(&cursors.text()), Some(cursors));
            let text = format!("{MARK}{}", BASE64URL_NOPAD.encode(&noise));
            if let Some(cursors) = Cursors::parse(&text) {
                prop_assert_eq!(Cursors::parse(&cursors.text()), Some(cursors));
            }
        }
    }

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
