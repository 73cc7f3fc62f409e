//! The address of a gateway, split into its parts. Pure.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// OpenClaw's own port, if the user chose no other.
pub(crate) const DEFAULT_PORT: u16 = 18789;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) secure: bool,
    /// Without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) path: String,
}

impl Address {
    pub(crate) fn local(port: u16, secure: bool) -> Self {
        Self { secure, host: Ipv4Addr::LOCALHOST.to_string(), port, path: "/".to_owned() }
    }

    /// `ws://host:port/path` or `wss://…`; `None` for everything else, above all for addresses that contain a
    /// password or a query, because addresses are shown.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.trim().split_once("://")?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "ws" => false,
            "wss" => true,
            _ => return None,
        };
        if rest.contains(['?', '#', '@']) {
            return None;
        }
        let end = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (host, port) = match authority.strip_prefix('[') {
            Some(bracketed) => {
                let (host, port) = bracketed.split_once(']')?;
                (host, port.strip_prefix(':'))
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
        let fits = !host.is_empty() && host.chars().all(plain) && path.chars().all(|c| c.is_ascii_graphic());
        let port = match port {
            Some(port) => port.parse().ok()?,
            None if secure => 443,
            None => DEFAULT_PORT,
        };
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        fits.then(|| Self { secure, host: host.to_ascii_lowercase(), port, path })
    }

    /// The value of the `Host` header.
    pub(crate) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    pub(crate) fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.ip().is_some_and(|ip| ip.is_loopback())
    }

    /// Where OpenClaw's own client also connects without encryption: this machine and private networks.
    pub(crate) fn is_private(&self) -> bool {
        let named = [".local", ".ts.net"].iter().any(|ending| self.host.ends_with(ending));
        let numbered = self.ip().is_some_and(|ip| match ip {
            IpAddr::V4(ip) => ip.is_private() || ip.is_link_local() || is_carrier_grade(ip),
            IpAddr::V6(ip) => is_unique_local(ip) || ip.is_unicast_link_local(),
        });
        self.is_loopback() || named || numbered
    }

    fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

/// 100.64.0.0/10, which Tailscale uses.
fn is_carrier_grade(ip: Ipv4Addr) -> bool {
    let [first, second, ..] = ip.octets();
    first == 100 && (64..128).contains(&second)
}

fn is_unique_local(ip: Ipv6Addr) -> bool {
    ip.segments()[0] & 0xfe00 == 0xfc00
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "wss" } else { "ws" };
        let path = if self.path == "/" { "" } else { &self.path };
        write!(out, "{scheme}://{}{path}", self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Option<String> {
        Address::parse(text).map(|address| address.to_string())
    }

    #[test]
    fn addresses_are_taken_apart_and_put_together() {
        assert_eq!(shown("ws://127.0.0.1:18789").as_deref(), Some("ws://127.0.0.1:18789"));
        assert_eq!(shown("WS://Box.local").as_deref(), Some("ws://box.local:18789"));
        assert_eq!(shown("wss://gw.example/a/b").as_deref(), Some("wss://gw.example:443/a/b"));
        assert_eq!(shown("ws://[::1]:7/").as_deref(), Some("ws://[::1]:7"));
        for odd in [
            "http://x",
            "ws://",
            "ws://a:b@c",
            "ws://h:9/?token=t",
            "ws://h:99999",
            "ws://h/\r\nX: 1",
            "/home/dev",
            "ws://[::1",
        ] {
            assert_eq!(shown(odd), None, "{odd}");
        }
    }

    #[test]
    fn plain_words_stay_in_private_networks() {
        let private = |host: &str| Address::parse(&format!("ws://{host}:1")).unwrap().is_private();
        for host in ["localhost", "127.0.0.9", "[::1]", "10.1.2.3", "100.100.1.1", "box.local", "[fd00::1]"] {
            assert!(private(host), "{host}");
        }
        for host in ["8.8.8.8", "100.128.0.1", "gw.example", "[2001:db8::1]", "local"] {
            assert!(!private(host), "{host}");
        }
        assert!(
            Address::local(1, false).is_loopback() && !Address::parse("ws://10.0.0.1").unwrap().is_loopback()
        );
    }
}
