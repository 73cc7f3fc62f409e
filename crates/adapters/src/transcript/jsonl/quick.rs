//! Reads records with serde, like `serde_json`, but passes over what nobody asked for many times as fast: most bytes of a
//! transcript are long texts that a look at its ends does not need. Pure.
//!
//! It walks with [`Walk`], which only knows JSON as machines write it. Whatever is odd is read by `serde_json` instead, from
//! the beginning, so that both always agree on what a line says.

use std::fmt;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::walk::{Walk, has_controls};

/// What `serde_json::from_slice` gives.
pub(crate) fn from_slice<'a, T: Deserialize<'a>>(line: &'a [u8]) -> serde_json::Result<T> {
    match simdutf8::basic::from_utf8(line) {
        Ok(text) => from_str(text),
        Err(_) => serde_json::from_slice(line),
    }
}

/// What `serde_json::from_str` gives.
pub(crate) fn from_str<'a, T: Deserialize<'a>>(text: &'a str) -> serde_json::Result<T> {
    if !has_controls(text.as_bytes()) {
        let mut reader = Reader { text, walk: Walk::new(text.as_bytes()) };
        if let Ok(value) = T::deserialize(&mut reader)
            && reader.walk.is_over()
        {
            return Ok(value);
        }
    }
    serde_json::from_str(text)
}

/// Something that only the slower parser judges.
#[derive(Debug)]
struct Odd;

impl fmt::Display for Odd {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("something odd")
    }
}

impl std::error::Error for Odd {}

impl serde::de::Error for Odd {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

struct Reader<'de> {
    text: &'de str,
    walk: Walk<'de>,
}

impl<'de> Reader<'de> {
    /// The next value as it is written.
    fn written(&mut self) -> Result<&'de str, Odd> {
        let from = self.walk.position();
        self.walk.value().ok_or(Odd)?;
        self.text.get(from..self.walk.position()).ok_or(Odd)
    }

    fn number<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Odd> {
        let written = self.written()?;
        if written.contains(['.', 'e', 'E']) {
            return visitor.visit_f64(serde_json::from_str(written).map_err(|_| Odd)?);
        }
        match written.parse() {
            Ok(number) => visitor.visit_u64(number),
            Err(_) if written == "-0" => Err(Odd),
            Err(_) => visitor.visit_i64(written.parse().map_err(|_| Odd)?),
        }
    }

    /// A string without its quotes, if it is written without escapes.
    fn string<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Odd> {
        let written = self.written()?;
        let inner = written.get(1..written.len() - 1).ok_or(Odd)?;
        if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
            return visitor.visit_borrowed_str(inner);
        }
        visitor.visit_string(serde_json::from_str(written).map_err(|_| Odd)?)
    }
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Odd;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Odd> {
        match self.walk.peek().ok_or(Odd)? {
            b'"' => self.string(visitor),
            b'{' => {
                self.walk.enter(b'{').ok_or(Odd)?;
                let value = visitor.visit_map(Parts { reader: self, is_first: true })?;
                self.walk.leave(b'}').ok_or(Odd)?;
                Ok(value)
            }
            b'[' => {
                self.walk.enter(b'[').ok_or(Odd)?;
                let value = visitor.visit_seq(Parts { reader: self, is_first: true })?;
                self.walk.leave(b']').ok_or(Odd)?;
                Ok(value)
            }
            b't' | b'f' => visitor.visit_bool(self.written()? == "true"),
            b'n' => {
                self.written()?;
                visitor.visit_unit()
            }
            _ => self.number(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Odd> {
        if self.walk.peek() == Some(b'n') {
            self.written()?;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Odd> {
        // A `RawValue` asks for itself by this name, and takes a map with the name as its only key.
        if name == "$serde_json::private::RawValue" {
            return visitor.visit_map(Raw { name: Some(name), written: self.written()? });
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Odd> {
        Err(Odd)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Odd> {
        Err(Odd)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Odd> {
        Err(Odd)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Odd> {
        self.walk.value().ok_or(Odd)?;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string unit unit_struct seq tuple tuple_struct map struct
        identifier
    }
}

/// The members of an object or the items of an array.
struct Parts<'r, 'de> {
    reader: &'r mut Reader<'de>,
    is_first: bool,
}

impl Parts<'_, '_> {
    /// Whether another one comes.
    fn another(&mut self, close: u8) -> Result<bool, Odd> {
        let walk = &mut self.reader.walk;
        if walk.peek() == Some(close) {
            return Ok(false);
        }
        if !std::mem::take(&mut self.is_first) {
            walk.step(b',').ok_or(Odd)?;
        }
        Ok(true)
    }
}

impl<'de> MapAccess<'de> for Parts<'_, 'de> {
    type Error = Odd;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Odd> {
        if !self.another(b'}')? {
            return Ok(None);
        }
        let from = self.reader.walk.position() + 1;
        let length = self.reader.walk.plain().ok_or(Odd)?.len();
        let key = self.reader.text.get(from..from + length).ok_or(Odd)?;
        self.reader.walk.step(b':').ok_or(Odd)?;
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Odd> {
        seed.deserialize(&mut *self.reader)
    }
}

impl<'de> SeqAccess<'de> for Parts<'_, 'de> {
    type Error = Odd;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Odd> {
        if !self.another(b']')? {
            return Ok(None);
        }
        seed.deserialize(&mut *self.reader).map(Some)
    }
}

/// A value as it is written, for a `RawValue`.
struct Raw<'de> {
    name: Option<&'static str>,
    written: &'de str,
}

impl<'de> MapAccess<'de> for Raw<'de> {
    type Error = Odd;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Odd> {
        self.name.take().map(|name| seed.deserialize(BorrowedStrDeserializer::new(name))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Odd> {
        seed.deserialize(BorrowedStrDeserializer::new(self.written))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;
    use serde::Deserialize;
    use serde_json::Value;
    use serde_json::value::RawValue;

    use super::*;
    use crate::transcript::jsonl::lenient::lenient;
    use crate::transcript::jsonl::text::Text;

    /// Every shape that records are made of.
    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    #[allow(dead_code, reason = "compared as it is printed")]
    struct Record<'a> {
        #[serde(borrow)]
        text: Option<Text<'a>>,
        count: Option<u64>,
        signed: Option<i64>,
        cost: Option<f64>,
        flag: Option<bool>,
        raw: Option<&'a RawValue>,
        #[serde(deserialize_with = "lenient")]
        gentle: Option<Text<'a>>,
        many: Vec<Part<'a>>,
        by_name: HashMap<String, u64>,
        pair: Option<(u8, String)>,
        any: Option<Value>,
        inner: Option<Box<Record<'a>>>,
        either: Option<Either>,
        word: Option<Word>,
    }

    #[allow(dead_code, reason = "compared as it is printed")]
    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Part<'a> {
        #[serde(borrow, rename = "type")]
        kind: Text<'a>,
        text: Option<Text<'a>>,
    }

    #[allow(dead_code, reason = "compared as it is printed")]
    #[derive(Debug, Deserialize)]
    #[serde(untagged)]
    enum Either {
        Number(u64),
        Words(String),
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Word {
        Yes,
        No,
    }

    const VALUES: [&str; 38] = [
        "null",
        "true",
        "false",
        "0",
        "-0",
        "7",
        "-7",
        "255",
        "256",
        "1.5",
        "1e3",
        "1E400",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        "01",
        "1.",
        "nul",
        r#""""#,
        r#""plain""#,
        r#""yes""#,
        r#""é日😀""#,
        r#""a\nb\u00e9\ud83d\ude00""#,
        r#""\ud83d""#,
        r#""\x""#,
        r#""half"#,
        "[]",
        "[1,2]",
        r#"[7,"x"]"#,
        r#"[{"type":"a","text":"b"},{"type":"c"}]"#,
        "[1,]",
        "{}",
        r#"{"a":1,"b":2}"#,
        r#"{"type":"x"}"#,
        r#"{"text":"in","raw":[1,{"é":2}]}"#,
        r#"{"a" : 1}"#,
        "\"\t\"",
    ];

    const KEYS: [&str; 17] = [
        "text",
        "count",
        "signed",
        "cost",
        "flag",
        "raw",
        "gentle",
        "many",
        "by_name",
        "pair",
        "any",
        "inner",
        "either",
        "word",
        "other",
        "é",
        r"te\u0078t",
    ];

    fn agree(line: &[u8]) -> Result<(), TestCaseError> {
        let said =
            |read: serde_json::Result<Record<'_>>| read.map_err(drop).map(|record| format!("{record:?}"));
        prop_assert_eq!(
            said(from_slice(line)),
            said(serde_json::from_slice(line)),
            "{}",
            String::from_utf8_lossy(line)
        );
        prop_assert_eq!(from_slice::<Value>(line).ok(), serde_json::from_slice::<Value>(line).ok());
        Ok(())
    }

    proptest! {
        #[test]
        fn both_parsers_say_the_same(
            members in prop::collection::vec(
                (prop::sample::select(KEYS.to_vec()), prop::sample::select(VALUES.to_vec())), 0..5,
            ),
            colon in prop::sample::select(vec![":", ":", ":", ": ", ""]),
            end in prop::sample::select(vec!["}", "}", "}", "}", ",}", "} ", "}}", "", "]"]),
            broken in prop::option::weighted(0.2, (any::<prop::sample::Index>(), any::<u8>())),
        ) {
            let members: Vec<String> =
                members.iter().map(|(key, value)| format!("\"{key}\"{colon}{value}")).collect();
            let mut line = format!("{{{}{end}", members.join(",")).into_bytes();
            if let Some((at, byte)) = broken {
                let at = at.index(line.len());
                line[at] = byte;
            }
            agree(&line)?;
        }

        #[test]
        fn a_single_value_too(value in prop::sample::select(VALUES.to_vec())) {
            agree(value.as_bytes())?;
            prop_assert_eq!(from_str::<Text<'_>>(value).ok(), serde_json::from_str::<Text<'_>>(value).ok());
            prop_assert_eq!(from_str::<u8>(value).ok(), serde_json::from_str::<u8>(value).ok());
        }
    }

    #[test]
    fn a_record_as_machines_write_it_needs_no_other_parser() {
        let line = r#"{"text":"a\"b","count":3,"raw":{"x":[1]},"many":[{"type":"é"}],"other":{"deep":[null,-1.5e3]}}"#;
        let mut reader = Reader { text: line, walk: Walk::new(line.as_bytes()) };
        let record = Record::deserialize(&mut reader).unwrap();
        assert!(reader.walk.is_over());
        assert_eq!(record.raw.unwrap().get(), r#"{"x":[1]}"#);
        assert_eq!((record.text.as_deref(), record.many.len()), (Some("a\"b"), 1));
    }

    #[test]
    fn nothing_is_too_deep_for_both() {
        for depth in [90, 99, 100, 101, 120, 127, 128, 129, 500] {
            let line = format!("{{\"any\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
            agree(line.as_bytes()).unwrap();
        }
    }
}
