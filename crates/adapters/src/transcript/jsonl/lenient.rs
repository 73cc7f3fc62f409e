//! Records whose inner parts may have any shape: what does not fit is absent, and the rest of the record stays.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// For `#[serde(borrow, deserialize_with = "lenient")]`: a value of another shape than expected is the default.
pub fn lenient<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    let raw = <&'de RawValue>::deserialize(from)?;
    Ok(serde_json::from_str(raw.get()).unwrap_or_default())
}
