//! The files that a browser gets. They are part of the binary.

use std::borrow::Cow;

use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::serve::problem::Problem;

macro_rules! files {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_bytes!(concat!("page/", $path)))),*]
    };
}

/// Every file of the folder `page`, by its path there.
const FILES: &[(&str, &[u8])] = files![
    "icon.svg",
    "index.html",
    "link/api.js",
    "link/door.js",
    "link/fleet.js",
    "link/stream.js",
    "main.js",
    "style.css",
    "ui.js",
    "vendor/LICENSE-htm.txt",
    "vendor/LICENSE-preact.txt",
    "vendor/VENDORED.toml",
    "vendor/hooks.js",
    "vendor/htm.js",
    "vendor/preact.js",
    "views/conversation.js",
    "views/diff.js",
    "views/frame.js",
    "views/groups.js",
    "views/help.js",
    "views/hosts.js",
    "views/inbox.js",
    "views/launch.js",
    "views/list.js",
    "views/parts.js",
    "views/range.js",
    "views/request.js",
    "views/session.js",
    "views/timeline.js",
    "views/usage.js",
    "words.js",
    "words/session.js",
    "words/status.js",
    "words/text.js",
    "words/times.js",
];

const INDEX: &str = "index.html";

pub(crate) async fn index() -> Result<Response, Problem> {
    file(INDEX)
}

pub(crate) async fn asset(Path(path): Path<String>) -> Result<Response, Problem> {
    file(&path)
}

fn file(path: &str) -> Result<Response, Problem> {
    let found = FILES.iter().find(|(name, _)| *name == path);
    let (_, bytes) = found.ok_or_else(|| Problem::not_found(format!("the page has no file `{path}`")))?;
    Ok(([(header::CONTENT_TYPE, kind(path))], served(path, bytes)).into_response())
}

/// What a browser gets of a file: our own scripts and styles without comments and indentation, which are for who reads
/// them here. A comment has lines of its own, and no text of the page begins with one.
fn served(path: &str, bytes: &'static [u8]) -> Cow<'static, [u8]> {
    let is_source = ["text/javascript", "text/css"].iter().any(|of| kind(path).starts_with(of));
    let is_ours = is_source && !path.starts_with("vendor/");
    let Some(text) = std::str::from_utf8(bytes).ok().filter(|_| is_ours) else { return Cow::Borrowed(bytes) };
    let is_comment =
        |line: &&str| line.starts_with("//") || (line.starts_with("/**") && line.ends_with("*/"));
    let lines = text.lines().map(str::trim_start).filter(|line| !line.is_empty() && !is_comment(line));
    Cow::Owned(lines.flat_map(|line| [line, "\n"]).collect::<String>().into_bytes())
}

fn kind(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use data_encoding::HEXLOWER;
    use ring::digest::{SHA256, digest};

    use super::*;

    /// All that a browser loads before it shows anything, uncompressed.
    const BUDGET: usize = 120 << 10;

    fn is_script(path: &str) -> bool {
        kind(path).starts_with("text/javascript")
    }

    fn below(folder: &Path, prefix: &str, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
            if entry.path().is_dir() {
                below(&entry.path(), &format!("{name}/"), found);
            } else {
                found.push(name);
            }
        }
    }

    #[test]
    fn every_file_of_the_page_is_served_and_all_are_small() {
        let mut found = Vec::new();
        below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/serve/web/page"), "", &mut found);
        found.sort();
        let listed: Vec<&str> = FILES.iter().map(|(path, _)| *path).collect();
        assert_eq!(listed, found);
        let loaded = FILES.iter().filter(|(path, _)| is_script(path) || kind(path).starts_with("text/css"));
        let bytes: usize = loaded.map(|(path, bytes)| served(path, bytes).len()).sum();
        assert!(bytes < BUDGET, "script and style have {bytes} bytes");
    }

    #[test]
    fn comments_and_indentation_stay_here() {
        let script = b"// A\n/** B */\nlet url = 'http://x'; // c\n\n\tlet b = `\n\t\t<p>//</p>`;\n";
        let told = served("main.js", script);
        assert_eq!(told.as_ref(), b"let url = 'http://x'; // c\nlet b = `\n<p>//</p>`;\n");
        assert_eq!(served("vendor/preact.js", script).as_ref(), script);
        assert_eq!(served("index.html", script).as_ref(), script);
    }

    /// Each vendored file is the one whose sum, version and licence are noted.
    #[test]
    fn what_others_wrote_is_what_was_noted() {
        let of = |path: &str| FILES.iter().find(|(name, _)| *name == path).map(|(_, bytes)| *bytes);
        let notes = String::from_utf8(of("vendor/VENDORED.toml").unwrap().to_vec()).unwrap();
        let notes: Vec<BTreeMap<&str, &str>> = notes
            .split("[[file]]")
            .skip(1)
            .map(|note| {
                let fields = note.lines().filter_map(|line| line.split_once(" = "));
                fields.map(|(name, value)| (name, value.trim_matches('"'))).collect()
            })
            .collect();
        let mut pinned: Vec<String> = Vec::new();
        for note in &notes {
            let path = format!("vendor/{}", note["path"]);
            let sum = HEXLOWER.encode(digest(&SHA256, of(&path).unwrap()).as_ref());
            assert_eq!(sum, note["sha256"], "{path}");
            assert!(!note["version"].is_empty() && !note["licence"].is_empty());
            assert!(
                of(&format!("vendor/LICENSE-{}.txt", note["package"])).is_some(),
                "{path} without its licence"
            );
            pinned.push(path);
        }
        let scripts = FILES.iter().map(|(path, _)| *path);
        let scripts: Vec<&str> =
            scripts.filter(|path| path.starts_with("vendor/") && is_script(path)).collect();
        pinned.sort();
        assert_eq!(pinned, scripts);
    }
}
