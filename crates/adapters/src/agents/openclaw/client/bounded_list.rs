//! Lists with a maximum length. Pure. A gateway that sends more at once than was requested is not trusted, and the
//! rest is not even parsed.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Several times what is requested at once.
const MOST: usize = 5000;

/// For `deserialize_with`.
pub(crate) fn bounded_list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    from.deserialize_seq(BoundedList(PhantomData))
}

struct BoundedList<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for BoundedList<T> {
    type Value = Vec<T>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a list of at most {MOST}")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            if list.len() == MOST {
                return Err(A::Error::custom(format!("more than {MOST} at once, which nobody asked for")));
            }
            list.push(item);
        }
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Page(#[serde(deserialize_with = "bounded_list")] Vec<u8>);

    #[test]
    fn a_list_has_an_end() {
        let page = |count: usize| serde_json::from_value::<Page>(vec![0; count].into());
        assert_eq!(page(MOST).unwrap().0.len(), MOST);
        assert!(page(MOST + 1).err().unwrap().to_string().contains("more than 5000"));
    }
}
