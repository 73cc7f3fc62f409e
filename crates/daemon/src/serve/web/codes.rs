//! The codes that sign in one tab each. They are kept in memory only, as hashes.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use agentctl_files::{kernel, own};
use data_encoding::HEXLOWER;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use ring::digest::{SHA256, digest};

/// How long a code is good.
pub(crate) const GOOD_FOR: Duration = Duration::from_mins(1);
/// How many codes are good at once; the oldest makes way for the next.
const MOST: usize = 64;
/// The names of the files that lead a browser to the page.
const PREFIX: &str = "open-";
const SUFFIX: &str = ".html";

pub(crate) struct Codes {
    folder: PathBuf,
    given: Vec<Given>,
}

struct Given {
    hash: Vec<u8>,
    at: Instant,
    read_only: bool,
    /// Removed with this value.
    _file: Option<Leader>,
}

/// A file that leads a browser to an address, so that the address is in no argument list.
struct Leader(PathBuf);

impl Drop for Leader {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// An address that signs in one tab.
pub(crate) struct Invitation {
    pub(crate) address: String,
    pub(crate) file: Option<PathBuf>,
}

impl Codes {
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), given: Vec::new() }
    }

    /// Removes the files that a daemon which was killed has left.
    pub(crate) fn remove_left_files(&self) {
        for entry in own::entries(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_leader =
                name.to_str().is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX));
            if is_leader {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// `view` is the part of the page that the tab opens on, as it stands behind the `#`.
    pub(crate) fn invite(
        &mut self,
        page: &str,
        view: Option<&str>,
        read_only: bool,
        file: bool,
    ) -> io::Result<Invitation> {
        self.sweep();
        let code = HEXLOWER.encode(&kernel::random::<32>()?);
        let view = view.map(|view| format!("&to={}", escaped(view))).unwrap_or_default();
        let address = format!("{page}#code={code}{view}");
        let leader = if file { Some(self.leader(&address)?) } else { None };
        let path = leader.as_ref().map(|leader| leader.0.clone());
        if self.given.len() >= MOST {
            self.given.remove(0);
        }
        self.given.push(Given { hash: hash(&code), at: Instant::now(), read_only, _file: leader });
        Ok(Invitation { address, file: path })
    }

    fn leader(&self, address: &str) -> io::Result<Leader> {
        let name = format!("{PREFIX}{}{SUFFIX}", HEXLOWER.encode(&kernel::random::<8>()?));
        let leader = Leader(self.folder.join(name));
        // The address has no character that HTML would read as its own.
        let text = format!(
            "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
            <title>agentctl</title><meta http-equiv=\"refresh\" content=\"0; url={address}\">\n"
        );
        own::create_new(&leader.0)?.write_all(text.as_bytes())?;
        Ok(leader)
    }

    /// Takes a code, which is worth nothing afterwards. Returns whether its tab may only read.
    pub(crate) fn take(&mut self, code: &str) -> Option<bool> {
        self.sweep();
        let hash = hash(code);
        let at = self.given.iter().position(|given| given.hash == hash)?;
        Some(self.given.remove(at).read_only)
    }

    /// Forgets the codes that are too old, and their files.
    pub(crate) fn sweep(&mut self) {
        self.given.retain(|given| given.at.elapsed() < GOOD_FOR);
    }

    pub(crate) fn forget(&mut self) {
        self.given.clear();
    }
}

/// What means nothing in an address or in HTML stays as it is; all else is written as its bytes.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

pub(super) fn escaped(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// Comparing hashes tells nothing about the code in the time that it takes.
fn hash(code: &str) -> Vec<u8> {
    digest(&SHA256, code.as_bytes()).as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn code(invitation: &Invitation) -> String {
        invitation.address.split_once("#code=").unwrap().1.to_owned()
    }

    #[test]
    fn a_code_is_good_once_and_its_file_goes_with_it() {
        let place = tempfile::tempdir().unwrap();
        let mut codes = Codes::in_folder(place.path());
        let first = codes.invite("http://127.0.0.1:1/", None, false, true).unwrap();
        let second = codes.invite("http://127.0.0.1:1/", None, true, false).unwrap();
        let file = first.file.clone().unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(fs::read_to_string(&file).unwrap().contains(&first.address));
        assert!(code(&first).len() * 4 >= 128);
        assert_eq!(codes.take("another"), None);
        assert_eq!(codes.take(&code(&first)), Some(false));
        assert!(!file.exists());
        assert_eq!(codes.take(&code(&first)), None, "a code is good once");
        assert_eq!(codes.take(&code(&second)), Some(true));
    }

    #[test]
    fn an_address_can_lead_to_a_view_and_its_file_has_no_markup_of_it() {
        let place = tempfile::tempdir().unwrap();
        let mut codes = Codes::in_folder(place.path());
        let led = codes.invite("http://127.0.0.1:1/", Some("/s/a\"><b>&c"), false, true).unwrap();
        assert!(led.address.ends_with("&to=%2Fs%2Fa%22%3E%3Cb%3E%26c"), "{}", led.address);
        let text = fs::read_to_string(led.file.unwrap()).unwrap();
        assert!(text.contains(&led.address) && !text.contains("<b>"), "{text}");
    }

    #[test]
    fn an_old_code_is_worth_nothing_and_the_next_daemon_removes_its_file() {
        let place = tempfile::tempdir().unwrap();
        let mut codes = Codes::in_folder(place.path());
        let old = codes.invite("http://127.0.0.1:1/", None, false, true).unwrap();
        // The contract says a minute, whatever the constant is.
        codes.given[0].at = Instant::now().checked_sub(Duration::from_mins(1)).unwrap();
        assert_eq!(codes.take(&code(&old)), None);
        assert!(!old.file.unwrap().exists());
        let killed = codes.invite("http://127.0.0.1:1/", None, false, true).unwrap();
        std::mem::forget(codes);
        assert!(killed.file.as_ref().unwrap().exists());
        Codes::in_folder(place.path()).remove_left_files();
        assert!(!killed.file.unwrap().exists());
    }
}
