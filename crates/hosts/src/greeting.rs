//! The first line that `agentctl __serve-stdio` prints. Login scripts of the other machine may print before it, so it
//! begins with a mark and is searched for. Pure.

use serde::{Deserialize, Serialize};

/// What the line begins with. The number is the version of the road, not of the program.
pub const MARK: &str = "agentctl-stdio/1 ";
/// How much may come before the line, and how long the line may be.
pub(crate) const LARGEST_NOISE: usize = 64 << 10;
pub(crate) const LARGEST_GREETING: usize = 256 << 10;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Greeting {
    /// Of agentctl there.
    pub version: String,
    /// The name that the machine gives itself.
    pub host: String,
    /// The same for every road that leads to the same agentctl folder of the same user since the same boot.
    pub instance: String,
    /// The sources that a login there resolves to, for the header of every request. Without it the API resolves them
    /// itself.
    pub caller: Option<String>,
}

impl Greeting {
    /// The whole line.
    pub fn line(&self) -> String {
        // A struct of strings always becomes JSON.
        let json = serde_json::to_string(self).unwrap_or_default();
        format!("{MARK}{json}\n")
    }
}

/// What was found in the bytes so far.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Search {
    /// The greeting, and at which byte the answers begin.
    Found(Greeting, usize),
    NotYet,
    /// There is none, or none that this version understands.
    Never(String),
}

pub(crate) fn search(bytes: &[u8]) -> Search {
    let Some(start) = memchr::memmem::find(bytes, MARK.as_bytes()) else {
        if bytes.len() > LARGEST_NOISE {
            return Search::Never("it prints other things and no greeting of agentctl".to_owned());
        }
        return Search::NotYet;
    };
    if start > LARGEST_NOISE {
        return Search::Never("it prints too much before the greeting of agentctl".to_owned());
    }
    let begin = start + MARK.len();
    match memchr::memchr(b'\n', &bytes[begin..]) {
        Some(length) => match serde_json::from_slice(&bytes[begin..begin + length]) {
            Ok(greeting) => Search::Found(greeting, begin + length + 1),
            Err(_) => Search::Never("the greeting of agentctl cannot be read".to_owned()),
        },
        None if bytes.len() - begin > LARGEST_GREETING => {
            Search::Never("the greeting of agentctl does not end".to_owned())
        }
        None => Search::NotYet,
    }
}

/// Whether a greeting is found in these bytes, and where it ends.
#[cfg(fuzzing)]
pub fn fuzz(bytes: &[u8]) -> Option<usize> {
    match search(bytes) {
        Search::Found(_, end) => Some(end),
        Search::NotYet | Search::Never(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting() -> Greeting {
        Greeting {
            version: "0.1.0".into(),
            host: "böx".into(),
            instance: "ab".into(),
            caller: Some("{\"sources\":[]}".into()),
        }
    }

    #[test]
    fn the_greeting_is_found_behind_noise_and_cut_anywhere() {
        let line = greeting().line();
        assert_eq!(line.matches('\n').count(), 1);
        for noise in ["", "Welcome!\n", "no line end: ", "agentctl-stdio/"] {
            let bytes = [noise.as_bytes(), line.as_bytes(), b"HTTP/1.1 200 OK"].concat();
            let whole = noise.len() + line.len();
            for cut in 0..whole {
                assert_eq!(search(&bytes[..cut]), Search::NotYet, "{noise:?} {cut}");
            }
            assert_eq!(search(&bytes), Search::Found(greeting(), whole));
        }
    }

    #[test]
    fn noise_and_garbage_have_an_end() {
        let never = |bytes: &[u8]| matches!(search(bytes), Search::Never(_));
        assert!(never(&vec![b'x'; LARGEST_NOISE + 1]));
        assert!(never(&[&vec![b'x'; LARGEST_NOISE + 1][..], greeting().line().as_bytes()].concat()));
        assert!(never(format!("{MARK}{{\n").as_bytes()));
        assert!(never(format!("{MARK}{}", "y".repeat(LARGEST_GREETING + 1)).as_bytes()));
    }
}
