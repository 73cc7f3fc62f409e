//! A TCP connection to a name, within a deadline: the name lookup is bounded too, and no address of the name can use
//! up the time that the others need.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::wire::deadline::{Bounded, left_until};

/// Connects to the first address of the name that answers.
pub(crate) fn dial(host: &str, port: u16, deadline: Instant) -> io::Result<Bounded<TcpStream>> {
    let stream = first_answer(&addresses(host, port, deadline)?, deadline, TcpStream::connect_timeout)?;
    // Requests are small, and the caller waits for each: without this the system would delay them.
    let _ = stream.set_nodelay(true);
    Ok(Bounded::new(stream, deadline))
}

fn addresses(host: &str, port: u16, deadline: Instant) -> io::Result<Vec<SocketAddr>> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let host = host.to_owned();
    look_up(deadline, move || Ok((host.as_str(), port).to_socket_addrs()?.collect()))
}

/// The system's own lookup takes no deadline, so it runs on its own thread. A late thread is left behind; the system
/// ends its lookup at some point.
fn look_up<T: Send + 'static>(
    deadline: Instant,
    question: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (answers, inbox) = channel();
    std::thread::Builder::new().name("look-up".into()).spawn(move || {
        // If the lookup was late, nobody receives this any more.
        let _ = answers.send(question());
    })?;
    let late = || io::Error::new(io::ErrorKind::TimedOut, "the name was not resolved in time");
    inbox.recv_timeout(left_until(deadline)?).map_err(|_| late())?
}

/// Tries one after the other; each gets its share of the remaining time, so that one that does not answer leaves time
/// for the rest.
fn first_answer<T>(
    addresses: &[SocketAddr],
    deadline: Instant,
    mut connect: impl FnMut(&SocketAddr, Duration) -> io::Result<T>,
) -> io::Result<T> {
    let mut trouble = io::Error::other("no address behind this name");
    for (waiting, address) in (1..=addresses.len()).rev().zip(addresses) {
        let Ok(left) = left_until(deadline) else { break };
        let share = left / u32::try_from(waiting).unwrap_or(u32::MAX);
        match connect(address, share.max(Duration::from_millis(1))) {
            Ok(stream) => return Ok(stream),
            Err(error) => trouble = error,
        }
    }
    Err(trouble)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(80)
    }

    #[test]
    fn a_name_that_is_never_resolved_costs_no_more_than_the_time() {
        let (end, ended) = channel::<()>();
        let began = Instant::now();
        let error = look_up(soon(), move || ended.recv().map_err(io::Error::other)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        drop(end);
        let far = Instant::now() + Duration::from_mins(1);
        assert!(addresses("localhost", 7, far).unwrap().iter().all(|address| address.ip().is_loopback()));
        assert_eq!(addresses("::1", 7, far).unwrap(), ["[::1]:7".parse().unwrap()]);
    }

    #[test]
    fn an_address_without_an_answer_leaves_time_for_the_next() {
        let addresses = ["192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1"].map(|text| text.parse().unwrap());
        let deadline = Instant::now() + Duration::from_mins(3);
        let mut shares = Vec::new();
        let reached = first_answer(&addresses, deadline, |address, share| {
            shares.push(share);
            if address.ip() == addresses[2].ip() { Ok("there") } else { Err(io::ErrorKind::TimedOut.into()) }
        });
        assert_eq!(reached.unwrap(), "there");
        assert!(shares[0] <= Duration::from_mins(1) && shares[1] <= Duration::from_secs(90), "{shares:?}");
        assert!(shares[2] > Duration::from_mins(2), "the last gets all that is left: {shares:?}");
        let nobody = first_answer(&[], deadline, |_, _| Ok(()));
        assert!(nobody.unwrap_err().to_string().contains("no address"));
    }
}
