//! The fake model by hand: prints its address, then one line per request, until it is interrupted.

use std::io::Write;
use std::time::Duration;

use agentctl_testkit::FakeModel;

fn main() -> std::io::Result<()> {
    let model = FakeModel::start();
    let mut out = std::io::stdout();
    writeln!(out, "{}", model.url())?;
    let mut shown = 0;
    loop {
        for seen in model.requests().drain(shown..) {
            let question = seen.ask.map(|ask| (ask.is_side_request(), ask.replies, ask.prompt));
            writeln!(out, "{} {} {question:?}", seen.method, seen.path)?;
            shown += 1;
        }
        out.flush()?;
        std::thread::sleep(Duration::from_millis(100));
    }
}
