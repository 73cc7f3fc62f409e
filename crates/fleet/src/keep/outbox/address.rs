//! Where a webhook may go. This is checked when the address is given, because a client might take a bad address for
//! another port.

/// Whether this is a complete `http` or `https` address with a host, and with a valid port if it names one.
pub fn is_address(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let Some(rest) = rest.filter(|_| text.chars().all(|c| c.is_ascii_graphic())) else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
    let (host, port) = match place.strip_prefix('[') {
        Some(literal) => match literal.split_once(']') {
            Some((host, behind)) if host.parse::<std::net::Ipv6Addr>().is_ok() => {
                (host, behind.strip_prefix(':').or_else(|| behind.is_empty().then_some("")))
            }
            _ => return false,
        },
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, Some("")),
        },
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    !host.is_empty() && port.is_some_and(|port| is_port(port) || (port.is_empty() && !place.ends_with(':')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_and_a_port_that_exists() {
        for good in [
            "http://127.0.0.1:1/x",
            "https://example.org",
            "https://u:p@example.org:8443/a?b#c",
            "http://[::1]:80/",
            "http://[::1]",
        ] {
            assert!(is_address(good), "{good}");
        }
        for bad in [
            "http://",
            "http:///x",
            "http://127.0.0.1:99999/x",
            "http://[::1",
            "http://x:",
            "http://x:0",
            "http://x:a",
            "http://[::1]x",
            "ftp://x",
            "example.org",
            "http://x/\r\ny",
            "http://x y",
            "http://:80",
        ] {
            assert!(!is_address(bad), "{bad:?}");
        }
    }
}
