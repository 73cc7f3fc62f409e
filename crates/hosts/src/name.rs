//! The name of a host, as it stands in front of an id and in subjects of the bus. Pure.

use std::fmt;

/// This machine, wherever hosts are named.
pub const LOCAL: &str = "local";
/// The bus, wherever hosts are named.
const BUS: &str = "nats";
/// Words that mean something else where a host's name may stand.
const RESERVED: [&str; 3] = ["all", BUS, LOCAL];
const LONGEST: usize = 63;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

impl HostName {
    /// The name, or why it is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        if RESERVED.contains(&text) {
            return Err(format!("`{text}` is reserved and cannot be the name of a host"));
        }
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if text.is_empty() || text.len() > LONGEST || !text.bytes().all(fits) {
            return Err(format!(
                "`{}` is no name of a host: up to {LONGEST} letters, digits, `-` and `_`",
                agentctl_model::text::one_line(text)
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// The bus itself, in the place of hosts of which it says nothing. No host can be called so.
    pub fn bus() -> Self {
        Self(BUS.to_owned())
    }

    /// This machine, where it stands among others.
    pub fn here() -> Self {
        Self(LOCAL.to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_stand_in_an_id_and_in_a_subject() {
        for good in ["box", "dev-1", "A_b", "9", &"x".repeat(63)] {
            assert_eq!(HostName::parse(good).map(|name| name.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "all", "nats", "local", "a.b", "a/b", "a b", "ö", "*", ">", &"x".repeat(64)] {
            assert!(HostName::parse(bad).is_err(), "{bad:?}");
        }
    }
}
