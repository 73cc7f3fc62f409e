//! A holder as a server that announces changes by itself: what its agent asks for is in no file.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use agentctl_adapters::Feed;
use agentctl_adapters::feed::{FeedMessage, Lost};

use super::reach;
use super::wire::{Ask, Reader, Reply, connect, write_line};

/// Listens to the holder of one launch.
pub(crate) struct HoldFeed {
    folder: PathBuf,
    line: Option<(UnixStream, Reader)>,
}

impl HoldFeed {
    pub(crate) fn of(folder: PathBuf) -> Self {
        Self { folder, line: None }
    }

    fn connect(&mut self) -> io::Result<&mut (UnixStream, Reader)> {
        let mut stream = connect(&self.folder)?;
        write_line(&mut stream, &Ask::Watch)?;
        let reader = Reader::of(&stream)?;
        Ok(self.line.insert((stream, reader)))
    }
}

impl Feed for HoldFeed {
    fn next(&mut self, timeout: Duration) -> Result<FeedMessage, Lost> {
        let heard = match &mut self.line {
            Some(line) => Ok(line),
            None => self.connect(),
        };
        let heard = heard.and_then(|(stream, reader)| {
            stream.set_read_timeout(Some(timeout))?;
            reader.line::<Reply>()
        });
        match heard {
            Ok(_) => Ok(FeedMessage::Changed),
            Err(error) if reach::is_timeout(&error) => Ok(FeedMessage::Nothing),
            Err(error) => {
                self.line = None;
                Err(Lost::new(error.to_string()))
            }
        }
    }
}
