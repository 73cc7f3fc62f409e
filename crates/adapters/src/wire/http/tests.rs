use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::wire::deadline::Bounded;

/// A recorded server: it sends its bytes in pieces of one size, and between them reports that there is nothing yet.
struct Recorded<'a> {
    says: &'a [u8],
    most: usize,
    hesitates: bool,
    asked: usize,
}

impl<'a> Recorded<'a> {
    fn new(says: &'a [u8], most: usize) -> Self {
        Self { says, most, hesitates: false, asked: 0 }
    }
}

impl Read for Recorded<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.asked += 1;
        if self.hesitates && self.asked % 2 == 1 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = self.says.len().min(into.len()).min(self.most);
        into[..count].copy_from_slice(&self.says[..count]);
        self.says = &self.says[count..];
        Ok(count)
    }
}

const LARGEST: usize = 1 << 20;

/// The status and the body, which must be the same however the bytes arrive.
fn answered(says: &[u8]) -> io::Result<(u16, String)> {
    let read = |most| -> io::Result<(u16, String)> {
        let mut response = Response::read(Recorded::new(says, most))?;
        let body = response.whole(LARGEST)?;
        Ok((response.head.status, String::from_utf8(body).unwrap()))
    };
    let whole = read(usize::MAX);
    for most in [1, 2, 3, 7] {
        let pieces = read(most);
        assert_eq!(whole.as_ref().ok(), pieces.as_ref().ok(), "in pieces of {most}");
        assert_eq!(whole.as_ref().err().map(io::Error::kind), pieces.as_ref().err().map(io::Error::kind));
    }
    whole
}

#[test]
fn bodies_are_taken_whole_or_not_at_all() {
    let body = |says: &str| answered(says.as_bytes()).map(|(_, body)| body);
    assert_eq!(body("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap(), "{}");
    assert_eq!(body("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}more").unwrap(), "{}");
    assert_eq!(body("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap(), "");
    assert_eq!(body("HTTP/1.0 200 OK\r\n\r\n{}").unwrap(), "{}");
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    assert_eq!(body(&format!("{chunked}1\r\n{{\r\n1;x\r\n}}\r\n0\r\n\r\n")).unwrap(), "{}");
    assert_eq!(
        body(&format!("{chunked}A\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\nmore")).unwrap(),
        "0123456789"
    );
    assert_eq!(
        answered(b"HTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\r\n").unwrap(),
        (204, String::new())
    );
    assert_eq!(
        answered(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno").unwrap(),
        (404, "no".into())
    );
    for (odd, kind) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", io::ErrorKind::UnexpectedEof),
        (&format!("{chunked}5\r\n{{}}"), io::ErrorKind::UnexpectedEof),
        (&format!("{chunked}2\r\n{{}}\r\n"), io::ErrorKind::UnexpectedEof),
        (&format!("{chunked}2\r\n{{}}\r\n0\r\n"), io::ErrorKind::UnexpectedEof),
        (&format!("{chunked}2\r\n{{}}x\r\n0\r\n\r\n"), io::ErrorKind::InvalidData),
        (&format!("{chunked}x\r\n{{}}\r\n0\r\n\r\n"), io::ErrorKind::InvalidData),
        (&format!("{chunked}fffffffffffffffff\r\n{{}}"), io::ErrorKind::InvalidData),
        ("HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\n{}", io::ErrorKind::InvalidData),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", io::ErrorKind::InvalidData),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n{}", io::ErrorKind::InvalidData),
        ("\0\u{ff}\r\n\r\n", io::ErrorKind::InvalidData),
        ("HTTP/1.1 200 OK\r\nHalf", io::ErrorKind::UnexpectedEof),
        ("", io::ErrorKind::UnexpectedEof),
    ] {
        assert_eq!(body(odd).unwrap_err().kind(), kind, "{odd}");
    }
}

#[test]
fn what_is_too_large_is_refused() {
    let refused = |says: &[u8]| answered(says).unwrap_err().to_string();
    let length = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", u64::MAX);
    assert!(refused(length.as_bytes()).contains("more than"), "before anything of it came");
    let endless = "x".repeat(LARGEST + 1);
    assert!(refused(format!("HTTP/1.1 200 OK\r\n\r\n{endless}").as_bytes()).contains("more than"));
    let chunk =
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{endless}", u64::MAX >> 1);
    assert!(refused(chunk.as_bytes()).contains("more than"));
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert!(refused(format!("{chunked}{}", "1".repeat(1 << 16)).as_bytes()).contains("between chunks"));
    assert!(refused(format!("{chunked}1;{}", "x".repeat(1 << 16)).as_bytes()).contains("between chunks"));
    assert!(answered(format!("{chunked}0\r\n{}", "a: b\r\n".repeat(1 << 12)).as_bytes()).is_err());
    assert!(refused("HTTP/1.1 200 OK\r\n".repeat(1 << 13).as_bytes()).contains("does not end"));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(MOST_HEADERS + 1));
    assert!(answered(many.as_bytes()).is_err());
}

/// Three million reads. A decoder that began again with each of them would examine ten million million bytes, for
/// hours.
#[test]
fn each_byte_is_decoded_once_however_small_the_pieces_are() {
    let says = [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        &b"1\r\nx\r\n".repeat(LARGEST)[..],
        b"0\r\n\r\n",
    ];
    let says = says.concat();
    let began = Instant::now();
    let mut response = Response::read(Recorded::new(&says, 2)).unwrap();
    assert_eq!(response.whole(LARGEST).unwrap().len(), LARGEST);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[test]
fn bytes_that_drip_buy_no_time() {
    for head in ["", "HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n"] {
        let (near, mut far) = UnixStream::pair().unwrap();
        let trickle = std::thread::spawn(move || {
            let _ = far.write_all(head.as_bytes());
            while far.write_all(b"x").is_ok() {
                std::thread::yield_now();
            }
        });
        let began = Instant::now();
        let stream = Bounded::new(near, began + Duration::from_millis(100));
        let error = Response::read(stream).and_then(|mut response| response.whole(10 << 20)).unwrap_err();
        // A head that does not end may be detected before the deadline.
        assert!(matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::InvalidData), "{error}");
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        trickle.join().unwrap();
    }
}

#[test]
fn a_request_is_written_as_it_is_meant_or_not_at_all() {
    let written = |request: Request<'_>| {
        let mut sent = Vec::new();
        request.write_to(&mut sent).map(|()| String::from_utf8(sent).unwrap())
    };
    assert_eq!(
        written(Request { headers: &[("X-Test", "1")], ..Request::get("h", "/a?b=c") }).unwrap(),
        "GET /a?b=c HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAccept: application/json\r\nX-Test: 1\r\n\r\n"
    );
    let post = Request { method: "POST", body: Some("{\"a\":\"\\n\"}\n"), ..Request::get("h", "/") };
    assert!(written(post).unwrap().ends_with("Content-Length: 11\r\n\r\n{\"a\":\"\\n\"}\n"));
    for target in ["/a\r\nX-Evil: 1", "/a\nX", "/a\rX", "/\0"] {
        assert_eq!(written(Request::get("h", target)).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
    let headers = &[("X-Test", "1\r\nX-Evil: 2")];
    assert!(written(Request { headers, ..Request::get("h", "/") }).is_err());
    assert_eq!(escaped("/a b+c~/日"), "%2Fa%20b%2Bc~%2F%E6%97%A5");
}

fn events(says: &[u8], most: usize) -> Events<Recorded<'_>> {
    Response::read(Recorded::new(says, most)).unwrap().events(256)
}

fn event(kind: &str, data: &str) -> Event {
    Event { kind: kind.into(), data: data.into() }
}

/// The body in chunks of seven bytes.
fn streamed(body: &str) -> Vec<u8> {
    let mut says = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for piece in body.as_bytes().chunks(7) {
        says.extend(format!("{:x}\r\n", piece.len()).into_bytes());
        says.extend(piece);
        says.extend(b"\r\n");
    }
    says.extend(b"0\r\n\r\n");
    says
}

#[test]
fn events_are_taken_out_of_chunks_wherever_these_are_cut() {
    let says = streamed(
        ": listening\nid: a-0\n\nid: a-1\nevent: x\ndata: {\"é\":1}\n\nevent: lost\n\nid: a-2\r\ndata: 2\r\ndata:3\r\n\r\n\
         id: a-3\ndata: not whole\n",
    );
    for most in [1, 5, usize::MAX] {
        let mut events = events(&says, most);
        events.stream().hesitates = true;
        let mut next = || loop {
            match events.next_event() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => break (other.unwrap(), events.cursor().map(str::to_owned)),
            }
        };
        assert_eq!(next(), (Some(event("x", "{\"é\":1}")), Some("a-1".into())));
        assert_eq!(next(), (Some(event("", "2\n3")), Some("a-2".into())), "a kind is of one event");
        assert_eq!(next(), (None, Some("a-2".into())), "half an event is none, and may be asked for again");
    }
}

#[test]
fn an_event_that_is_too_large_is_passed_over_and_said() {
    let huge = "x".repeat(10_000);
    let lines = "data: x\n".repeat(1000);
    for large in [format!("data: {huge}\n"), lines, format!("{huge}\n"), format!("event: {huge}\ndata: 1\n")]
    {
        let says = format!("data: 1\n\nid: 2\n{large}\nid: 3\ndata: 3\n\n");
        let ends = ["\n", "\r\n"].into_iter();
        for (end, most) in ends.flat_map(|end| [1, 3, usize::MAX].map(|most| (end, most))) {
            let says = streamed(&says.replace('\n', end));
            let mut events = events(&says, most);
            assert_eq!(events.next_event().unwrap(), Some(event("", "1")));
            assert_eq!(events.next_event().unwrap_err().kind(), io::ErrorKind::FileTooLarge);
            assert_eq!(events.next_event().unwrap(), Some(event("", "3")));
            assert!(events.held() <= 1024 + 2 * PIECE, "{} bytes are kept", events.held());
        }
    }
    let endless = streamed(&"x".repeat(1 << 20));
    assert_eq!(events(&endless, usize::MAX).next_event().unwrap(), None, "a line without an end is no event");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic_or_hang(noise in prop::collection::vec(any::<u8>(), 0..400), chunked: bool) {
        let _ = answered(&noise);
        let coding = if chunked { "Transfer-Encoding: chunked\r\n" } else { "" };
        let says = [format!("HTTP/1.1 200 OK\r\n{coding}\r\n").as_bytes(), &noise].concat();
        let _ = Response::read(Recorded::new(&says, 3)).and_then(|mut response| response.whole(LARGEST));
        let mut events = events(&says, 3);
        while matches!(events.next_event(), Ok(Some(_))) {}
    }

    #[test]
    fn events_are_the_same_however_they_are_cut(
        said in prop::collection::vec(
            prop::sample::select(vec!["\n", "\r\n", "\n\n", "\r\n\r\n", "data: x", "id: 1", "data:", ": c", "event: k", "é"]),
            0..40,
        ),
        long in any::<prop::sample::Index>(),
        most in 1_usize..9,
    ) {
        let mut said = said;
        let huge = format!("data: {}", "y".repeat(1100));
        said.insert(long.index(said.len() + 1), &huge);
        let says = streamed(&said.concat());
        let all = |most| {
            let (mut events, mut told) = (events(&says, most), Vec::new());
            loop {
                match events.next_event() {
                    Ok(None) => break told,
                    other => told.push(other.map_err(|error| error.kind())),
                }
            }
        };
        prop_assert_eq!(all(most), all(usize::MAX));
    }
}
