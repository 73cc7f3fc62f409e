//! An answer over HTTP: whatever arrives, in whatever pieces, it is read the same way and within its bound.
#![no_main]

use std::io::{self, Read};

use agentctl_adapters::wire::http::Response;
use libfuzzer_sys::fuzz_target;

const LARGEST: usize = 1 << 16;

/// Sends its bytes in pieces.
struct Pieces<'a> {
    says: &'a [u8],
    most: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.says.len().min(into.len()).min(self.most);
        into[..count].copy_from_slice(&self.says[..count]);
        self.says = &self.says[count..];
        Ok(count)
    }
}

fuzz_target!(|says: &[u8]| {
    let body = |most: usize| {
        let mut response = Response::read(Pieces { says, most }).map_err(|error| error.kind())?;
        let body = response.whole(LARGEST).map_err(|error| error.kind())?;
        assert!(body.len() <= LARGEST);
        Ok::<_, io::ErrorKind>((response.head.status, body))
    };
    let whole = body(usize::MAX);
    let events = |most: usize| {
        let response = Response::read(Pieces { says, most }).map_err(|error| error.kind())?;
        let mut events = response.events(LARGEST);
        let mut found = Vec::new();
        // Each event takes a byte at least, so this ends.
        while let Some(event) = events.next_event().map_err(|error| error.kind())? {
            assert!(found.len() <= says.len(), "events out of nothing");
            found.push(format!("{event:?}"));
        }
        Ok::<_, io::ErrorKind>(found)
    };
    let told = events(usize::MAX);
    for most in [1, 3] {
        assert_eq!(whole, body(most), "in pieces of {most}");
        assert_eq!(told, events(most), "in pieces of {most}");
    }
});
