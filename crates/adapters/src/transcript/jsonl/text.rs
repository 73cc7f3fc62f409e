//! A text inside a record, borrowed from its line unless it is written with escapes.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// Does what serde does for a bare `Cow` but not for one inside an `Option`: a text without escapes is not copied.
/// One `#[serde(borrow)]` in a struct is enough for all of its fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text<'a>(Cow<'a, str>);

impl Text<'_> {
    pub fn into_owned(self) -> String {
        self.0.into_owned()
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Text<'_> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for Text<'_> {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for Text<'_> {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Borrowing;
        impl<'de> Visitor<'de> for Borrowing {
            type Value = Text<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a text")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        from.deserialize_str(Borrowing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    struct Record<'a> {
        #[serde(borrow)]
        plain: Option<Text<'a>>,
        escaped: Option<Text<'a>>,
        absent: Option<Text<'a>>,
    }

    #[test]
    fn only_what_has_escapes_is_copied() {
        let record: Record<'_> = serde_json::from_str(r#"{"plain":"a b","escaped":"a\nb"}"#).unwrap();
        assert!(matches!(record.plain, Some(Text(Cow::Borrowed("a b")))));
        assert!(matches!(record.escaped, Some(Text(Cow::Owned(text))) if text == "a\nb"));
        assert!(record.absent.is_none());
    }
}
