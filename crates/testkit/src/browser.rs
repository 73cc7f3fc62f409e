//! A real browser: Debian's Chromium, driven through Playwright as `tests/tools/browser` pins it.

use std::cell::RefCell;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::home::TestHome;
use crate::skip::Skip;
use crate::{agents, cache, tools};

/// A browser. A test ends by asking that it caused no trouble: see [`Browser::assert_no_trouble`].
pub struct Browser {
    line: RefCell<Line>,
}

struct Line {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next: u64,
}

/// One open page.
pub struct Tab<'b> {
    browser: &'b Browser,
    name: String,
}

impl Browser {
    /// Starts it in a home, after what drives it was installed.
    pub fn start(home: &TestHome) -> Result<Self, Skip> {
        let chromium = on_path("chromium").ok_or_else(|| {
            Skip("no Chromium: `apt-get install chromium` as root puts it there".to_owned())
        })?;
        let pinned = tools::folder().join("browser");
        let pins = fs::read(pinned.join("package-lock.json")).expect("read the pins of the browser's driver");
        let installed = cache::kept("browser", &pins, |stage| agents::npm_ci(&pinned, stage));
        let installed = installed.map_err(|error| Skip(format!("no driver of a browser: {error:#}")))?;
        let mut command = home.command(agents::pi_node()?);
        command.arg(pinned.join("drive.mjs")).arg(installed.join("node_modules")).arg(chromium);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("start the driver of the browser");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Ok(Self { line: RefCell::new(Line { child, input, output, next: 1 }) })
    }

    /// One line to the driver; the reason if it was not done.
    pub fn ask(&self, deed: &str, mut wanted: Value) -> Result<Value, String> {
        let mut line = self.line.borrow_mut();
        wanted["do"] = deed.into();
        wanted["tag"] = line.next.into();
        line.next += 1;
        let input = line.input.as_mut().expect("the driver listens");
        writeln!(input, "{wanted}").expect("tell the driver");
        let mut answer = String::new();
        let read = line.output.read_line(&mut answer).expect("hear the driver");
        assert!(read > 0, "the browser ended at {wanted}");
        let mut answer: Value = serde_json::from_str(&answer).expect("the driver speaks JSON");
        match answer["error"].take() {
            Value::Null => Ok(answer["result"].take()),
            error => Err(error.as_str().unwrap_or_default().to_owned()),
        }
    }

    /// Opens an address in a tab of its own.
    #[track_caller]
    pub fn open(&self, name: &str, url: &str) -> Tab<'_> {
        self.open_as(name, url, 1440, "light")
    }

    /// The same with a width, and `light` or `dark`.
    #[track_caller]
    pub fn open_as(&self, name: &str, url: &str, width: u32, scheme: &str) -> Tab<'_> {
        let tab = Tab { browser: self, name: name.to_owned() };
        let _ = tab.ask("open", json!({"url": url, "width": width, "scheme": scheme}));
        tab
    }

    /// A tab that is open already.
    pub fn tab(&self, name: &str) -> Tab<'_> {
        Tab { browser: self, name: name.to_owned() }
    }

    /// What no page may cause, and was not allowed: errors in the console, exceptions, what its policy forbids, requests
    /// to other origins.
    #[track_caller]
    pub fn assert_no_trouble(&self) {
        let troubles = self.ask("troubles", json!({})).expect("ask for troubles");
        assert_eq!(troubles, json!([]), "what the browser complained about");
    }

    /// Troubles with one of these texts are part of the scene.
    pub fn allow(&self, texts: &[&str]) {
        self.ask("allow", json!({"beginnings": texts})).expect("allow troubles");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let line = self.line.get_mut();
        drop(line.input.take());
        // The driver closes the browser when nobody speaks to it any more.
        for _ in 0..100 {
            if matches!(line.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = line.child.kill();
        let _ = line.child.wait();
    }
}

impl Tab<'_> {
    #[track_caller]
    fn ask(&self, deed: &str, mut wanted: Value) -> Value {
        wanted["tab"] = self.name.as_str().into();
        let told = wanted.to_string();
        self.browser.ask(deed, wanted).unwrap_or_else(|error| panic!("{deed} {told}: {error}"))
    }

    /// Waits until something that can be seen has this text; how long that took.
    #[track_caller]
    pub fn sees(&self, css: &str, text: &str) -> Duration {
        self.sees_within(Duration::from_mins(3), css, text)
    }

    #[track_caller]
    pub fn sees_within(&self, within: Duration, css: &str, text: &str) -> Duration {
        let took = self.ask("see", json!({"css": css, "text": text, "within": millis(within)}));
        Duration::from_millis(took.as_u64().unwrap_or_default())
    }

    /// Waits until nothing that can be seen has this text.
    #[track_caller]
    pub fn misses(&self, css: &str, text: &str) {
        let _ = self.ask("see", json!({"css": css, "text": text, "gone": true}));
    }

    /// The texts of everything that is found and can be seen.
    #[track_caller]
    pub fn texts(&self, css: &str) -> Vec<String> {
        let found = self.ask("texts", json!({"css": css}));
        found.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
    }

    /// Clicks the button with exactly this name.
    #[track_caller]
    pub fn click(&self, name: &str) {
        let _ = self.ask("click", json!({"name": name}));
    }

    #[track_caller]
    pub fn click_on(&self, css: &str) {
        let _ = self.ask("click", json!({"css": css}));
    }

    #[track_caller]
    pub fn key(&self, key: &str) {
        let _ = self.ask("key", json!({"key": key}));
    }

    #[track_caller]
    pub fn fill(&self, label: &str, text: &str) {
        let _ = self.ask("fill", json!({"label": label, "text": text}));
    }

    #[track_caller]
    pub fn choose(&self, label: &str, value: &str) {
        let _ = self.ask("choose", json!({"label": label, "value": value}));
    }

    /// Follows an address of the page.
    #[track_caller]
    pub fn go(&self, hash: &str) {
        let _ = self.ask("go", json!({"hash": hash}));
    }

    #[track_caller]
    pub fn back(&self) {
        let _ = self.ask("back", json!({}));
    }

    #[track_caller]
    pub fn forward(&self) {
        let _ = self.ask("forward", json!({}));
    }

    #[track_caller]
    pub fn reload(&self) {
        let _ = self.ask("reload", json!({}));
    }

    #[track_caller]
    pub fn resize(&self, width: u32) {
        let _ = self.ask("size", json!({"width": width}));
    }

    /// The value of an expression in the page.
    #[track_caller]
    pub fn js(&self, code: &str) -> Value {
        self.ask("js", json!({"code": code}))
    }

    /// Waits until an expression of the page has this value. What a script sets is set a moment after what a person sees.
    #[track_caller]
    pub fn becomes(&self, code: &str, value: impl Into<Value>) {
        let _ = self.ask("becomes", json!({"code": code, "value": value.into()}));
    }

    #[track_caller]
    pub fn shot(&self, path: &Path) {
        let _ = self.ask("shot", json!({"path": path}));
    }

    /// Checks the page as it is now with axe-core: nothing serious.
    #[track_caller]
    pub fn assert_accessible(&self) {
        assert_eq!(
            self.ask("axe", json!({})),
            json!([]),
            "what axe-core found in {}",
            self.js("location.hash")
        );
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}
