//! Writes what [`super::write`] writes, more quickly: a list of ten thousand sessions is twelve megabytes, and writing
//! it was the largest part of its cost.
//!
//! Keys of our own structs need no look, and a text is looked at eight bytes at a time and copied in long runs.

use std::fmt::{self, Display, Write};

use serde::ser::{
    Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde_json::Error;

use crate::text::is_harmless;

/// Appends a value as JSON on one line.
pub fn append(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) -> serde_json::Result<()> {
    value.serialize(Compact(out))
}

/// Writes one value at the end of the bytes.
struct Compact<'o>(&'o mut Vec<u8>);

impl<'o> Compact<'o> {
    fn literal(self, text: &[u8]) {
        self.0.extend_from_slice(text);
    }

    /// A number, as `serde_json` writes it.
    fn number(self, number: &impl Serialize) -> serde_json::Result<()> {
        serde_json::to_writer(self.0, number)
    }

    fn open(self, open: u8, close: &'static str) -> Members<'o> {
        self.0.push(open);
        Members { out: self.0, is_first: true, close }
    }

    /// An enum's variant with content is an object with one member.
    fn variant(self, variant: &'static str) -> Self {
        self.0.push(b'{');
        append_text(self.0, variant);
        self.0.push(b':');
        self
    }
}

/// The elements of an array or the members of an object.
struct Members<'o> {
    out: &'o mut Vec<u8>,
    is_first: bool,
    close: &'static str,
}

impl Members<'_> {
    fn next(&mut self) {
        if !std::mem::take(&mut self.is_first) {
            self.out.push(b',');
        }
    }

    fn element(&mut self, value: &(impl Serialize + ?Sized)) -> serde_json::Result<()> {
        self.next();
        append(self.out, value)
    }

    fn member(&mut self, key: &'static str, value: &(impl Serialize + ?Sized)) -> serde_json::Result<()> {
        self.next();
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        append(self.out, value)
    }

    fn close(self) {
        self.out.extend_from_slice(self.close.as_bytes());
    }
}

/// Appends a text with its quotes, without the characters that must never reach a terminal.
fn append_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    append_escaped(out, text);
    out.push(b'"');
}

fn append_escaped(out: &mut Vec<u8>, text: &str) {
    let mut rest = text;
    loop {
        let plain = plain_length(rest.as_bytes());
        out.extend_from_slice(&rest.as_bytes()[..plain]);
        let mut others = rest[plain..].chars();
        let Some(special) = others.next() else { return };
        match special {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\t' => out.extend_from_slice(b"\\t"),
            other if is_harmless(other) => out.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
            _ => {}
        }
        rest = others.as_str();
    }
}

/// How many bytes from the beginning are printable ASCII that JSON does not escape.
fn plain_length(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    // The lowest bit that is set belongs to the first such byte; those above it may be wrong.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    let below_space = |word: u64| word.wrapping_sub(ONES * 0x20) & !word & HIGH;
    let equal = |word: u64, byte: u8| zeros(word ^ (ONES * u64::from(byte)));
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let special =
            (word & HIGH) | below_space(word) | equal(word, b'"') | equal(word, b'\\') | equal(word, 0x7f);
        if special != 0 {
            return index * 8 + special.trailing_zeros() as usize / 8;
        }
    }
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    words.len() * 8 + rest.iter().position(|byte| !is_plain(byte)).unwrap_or(rest.len())
}

/// Lets a value that prints itself write into the bytes.
struct Escaped<'o>(&'o mut Vec<u8>);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        append_escaped(self.0, text);
        Ok(())
    }
}

impl<'o> Serializer for Compact<'o> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Members<'o>;
    type SerializeTuple = Members<'o>;
    type SerializeTupleStruct = Members<'o>;
    type SerializeTupleVariant = Members<'o>;
    type SerializeMap = Members<'o>;
    type SerializeStruct = Members<'o>;
    type SerializeStructVariant = Members<'o>;

    fn serialize_bool(self, value: bool) -> serde_json::Result<()> {
        self.literal(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn serialize_i8(self, value: i8) -> serde_json::Result<()> {
        self.number(&value)
    }

    fn serialize_i16(self, value: i16) -> serde_json::Result<()> {
        self.number(&value)
    }

    fn serialize_i32(self, value: i32) -> serde_json::Result<()> {
        self.number(&value)
    }

    fn serialize_i64(self, value: i64) -> serde_json::Result<()> {
        self.number(&value)
    }

    fn serialize_i128(self, value: i128) -> serde_json::Result<()> {
        self.number(&value)
    }

    fn serialize_u8(self, value: u8) -> serde_json::Result<()> {
        self.number(&value)
    }

    fn serialize_u16(self, value: u16) -> serde_json::Result<()> {
        self.number(&value)
    }

    fn serialize_u32(self, value: u32) -> serde_json::Result<()> {
        self.number(&value)
    }

    fn serialize_u64(self, value: u64) -> serde_json::Result<()> {
        self.number(&value)
    }

    fn serialize_u128(self, value: u128) -> serde_json::Result<()> {
        self.number(&value)
    }

    fn serialize_f32(self, value: f32) -> serde_json::Result<()> {
        self.number(&value)
    }

    fn serialize_f64(self, value: f64) -> serde_json::Result<()> {
        self.number(&value)
    }

    fn serialize_char(self, value: char) -> serde_json::Result<()> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> serde_json::Result<()> {
        append_text(self.0, value);
        Ok(())
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> serde_json::Result<()> {
        self.0.push(b'"');
        let written = write!(Escaped(self.0), "{value}");
        self.0.push(b'"');
        written.map_err(serde::ser::Error::custom)
    }

    fn serialize_bytes(self, value: &[u8]) -> serde_json::Result<()> {
        value.serialize(self)
    }

    fn serialize_none(self) -> serde_json::Result<()> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> serde_json::Result<()> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> serde_json::Result<()> {
        self.literal(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> serde_json::Result<()> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> serde_json::Result<()> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> serde_json::Result<()> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> serde_json::Result<()> {
        let inside = self.variant(variant);
        append(inside.0, value)?;
        inside.literal(b"}");
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> serde_json::Result<Members<'o>> {
        Ok(self.open(b'[', "]"))
    }

    fn serialize_tuple(self, _: usize) -> serde_json::Result<Members<'o>> {
        Ok(self.open(b'[', "]"))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> serde_json::Result<Members<'o>> {
        Ok(self.open(b'[', "]"))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> serde_json::Result<Members<'o>> {
        Ok(self.variant(variant).open(b'[', "]}"))
    }

    fn serialize_map(self, _: Option<usize>) -> serde_json::Result<Members<'o>> {
        Ok(self.open(b'{', "}"))
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> serde_json::Result<Members<'o>> {
        // Text that is JSON already would have to be copied unseen. Nothing that is written here has any.
        if name.starts_with("$serde_json::") {
            return Err(serde::ser::Error::custom("JSON within a value cannot be written"));
        }
        Ok(self.open(b'{', "}"))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> serde_json::Result<Members<'o>> {
        Ok(self.variant(variant).open(b'{', "}}"))
    }
}

impl SerializeSeq for Members<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> serde_json::Result<()> {
        self.element(value)
    }

    fn end(self) -> serde_json::Result<()> {
        self.close();
        Ok(())
    }
}

impl SerializeTuple for Members<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> serde_json::Result<()> {
        self.element(value)
    }

    fn end(self) -> serde_json::Result<()> {
        self.close();
        Ok(())
    }
}

impl SerializeTupleStruct for Members<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> serde_json::Result<()> {
        self.element(value)
    }

    fn end(self) -> serde_json::Result<()> {
        self.close();
        Ok(())
    }
}

impl SerializeTupleVariant for Members<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> serde_json::Result<()> {
        self.element(value)
    }

    fn end(self) -> serde_json::Result<()> {
        self.close();
        Ok(())
    }
}

impl SerializeMap for Members<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> serde_json::Result<()> {
        self.next();
        let from = self.out.len();
        append(self.out, key)?;
        match self.out.get(from) {
            Some(b'"') => {}
            Some(b'[' | b'{' | b'n') | None => return Err(serde::ser::Error::custom("a key is a text")),
            // Numbers and truth values become texts.
            Some(_) => {
                self.out.insert(from, b'"');
                self.out.push(b'"');
            }
        }
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> serde_json::Result<()> {
        self.out.push(b':');
        append(self.out, value)
    }

    fn end(self) -> serde_json::Result<()> {
        self.close();
        Ok(())
    }
}

impl SerializeStruct for Members<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> serde_json::Result<()> {
        self.member(key, value)
    }

    fn end(self) -> serde_json::Result<()> {
        self.close();
        Ok(())
    }
}

impl SerializeStructVariant for Members<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> serde_json::Result<()> {
        self.member(key, value)
    }

    fn end(self) -> serde_json::Result<()> {
        self.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::Serialize;
    use serde_json::{Value, json};

    use super::super::write;
    use super::*;

    fn both(value: &impl Serialize) -> (String, String) {
        let (mut quick, mut slow) = (Vec::new(), Vec::new());
        append(&mut quick, value).unwrap();
        write(&mut slow, value).unwrap();
        (String::from_utf8(quick).unwrap(), String::from_utf8(slow).unwrap())
    }

    #[track_caller]
    fn check(value: &impl Serialize) {
        let (quick, slow) = both(value);
        assert_eq!(quick, slow);
    }

    #[derive(Serialize)]
    enum Kind {
        Unit,
        New(Option<u8>),
        Tuple(u8, f64),
        Fields { a: (), b: Option<()> },
    }

    #[derive(Serialize)]
    struct Plain;

    #[derive(Serialize)]
    struct Pair(i8, char);

    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct All {
        kinds: Vec<Kind>,
        by_number: BTreeMap<u64, bool>,
        by_sign: BTreeMap<bool, i64>,
        by_letter: BTreeMap<char, Option<Plain>>,
        pair_of: Pair,
        tuple: (f32, u16, i128, [u8; 2]),
        time: jiff::Timestamp,
        #[serde(flatten)]
        rest: Value,
    }

    #[test]
    fn every_shape_of_value_is_written_alike() {
        let fields = Kind::Fields { a: (), b: None };
        check(&All {
            kinds: vec![Kind::Unit, Kind::New(None), Kind::New(Some(3)), Kind::Tuple(1, f64::NAN), fields],
            by_number: BTreeMap::from([(0, true), (u64::MAX, false)]),
            by_sign: BTreeMap::from([(true, i64::MIN)]),
            by_letter: BTreeMap::from([('"', Some(Plain)), ('\u{1b}', None)]),
            pair_of: Pair(-1, '\\'),
            tuple: (0.1, 7, -5, [1, 2]),
            time: jiff::Timestamp::UNIX_EPOCH,
            rest: json!({"a\u{1b}\"": [], "b": {}, "c": [1.0, 1e300, -0.0, null, "x"]}),
        });
        check(&json!([]));
        check(&serde_json::from_str::<Value>("\"\"").unwrap());
    }

    #[test]
    fn what_cannot_be_written_alike_is_refused() {
        for key in [None, Some(1)] {
            let refused = append(&mut Vec::new(), &BTreeMap::from([(key, true)])).is_err();
            assert_eq!(refused, serde_json::to_string(&BTreeMap::from([(key, true)])).is_err(), "{key:?}");
        }
        assert!(append(&mut Vec::new(), &BTreeMap::from([([1], true)])).is_err());
    }

    fn text() -> impl Strategy<Value = String> {
        let special = prop::sample::select(vec![
            '"', '\\', '/', '\n', '\t', '\r', '\0', '\u{1f}', ' ', '~', '\u{7f}', '\u{80}', '\u{9b}', 'é',
            '\u{202e}', '\u{2066}', '😀',
        ]);
        let letters = prop_oneof![6 => prop::char::range(' ', '~'), 1 => special, 1 => any::<char>()];
        prop::collection::vec(letters, 0..40).prop_map(|letters| letters.into_iter().collect())
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            text().prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((text(), inner), 0..4).prop_map(|all| all.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_value_is_written_as_serde_json_writes_it(value in value()) {
            let (quick, slow) = both(&value);
            prop_assert_eq!(quick, slow);
        }
    }
}
