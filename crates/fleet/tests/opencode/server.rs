//! A substitute for OpenCode's own server, with fixed answers by path.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
}

/// Serves until the test ends. A path that is not among the answers is a 404.
pub(crate) fn serve(answers: &'static [(&'static str, &'static str)]) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 4096];
            let count = stream.read(&mut request).unwrap_or(0);
            let text = String::from_utf8_lossy(&request[..count]).into_owned();
            let target = text.split(' ').nth(1).unwrap_or_default().to_owned();
            let path = target.split('?').next().unwrap_or_default();
            let answer = answers.iter().find(|(known, _)| *known == path).map(|(_, body)| *body);
            let head = if answer.is_some() { "200 OK" } else { "404 Not Found" };
            let body = answer.unwrap_or_default();
            let _ = write!(stream, "HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            log.lock().unwrap().push(target);
        }
    });
    Server { address, asked }
}
