//! Who accepted a connection that stays on this machine. While a gateway is down, any user here can listen on its
//! port. An adapter never reads the kernel itself: the fleet supplies the lookup, together with the keys that it
//! protects.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;

/// What the kernel reports about the process that accepted the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// It belongs to this user or to root. A tunnel is such a case: its local end is the user's own ssh.
    Ours,
    /// It belongs to another user of this machine.
    Stranger { uid: u32 },
    /// Its socket is not among the sockets that are visible from here.
    Elsewhere,
    /// The sockets could not be read, for this reason.
    Unseen(String),
    /// This platform never shows who owns a socket.
    NeverShown,
}

type Lookup = dyn Fn(SocketAddr, SocketAddr) -> Peer + Send + Sync;

/// Asks the kernel who accepted a connection. It grants no access by itself, so keys are compared without it.
#[derive(Clone, Default)]
pub struct PeerCheck(Option<Arc<Lookup>>);

impl PeerCheck {
    /// The first address is ours, the second one is the peer's.
    pub fn new(lookup: impl Fn(SocketAddr, SocketAddr) -> Peer + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(lookup)))
    }

    /// Why no key may be sent over this connection; `None` when it may be sent. Without proof the peer is not
    /// trusted, except on platforms whose kernel can never prove it.
    ///
    /// The peer must have sent something by now: before it accepts the connection, its socket has no owner.
    pub(crate) fn objection(&self, near: SocketAddr, far: SocketAddr) -> Option<String> {
        let lookup = self.0.as_ref();
        let seen =
            lookup.map_or_else(|| Peer::Unseen("nobody looked".to_owned()), |lookup| lookup(near, far));
        let is_loopback = far.ip().to_canonical().is_loopback();
        let what = match seen {
            Peer::Ours | Peer::NeverShown => return None,
            // Another machine has its own users.
            Peer::Elsewhere | Peer::Unseen(_) if !is_loopback => return None,
            Peer::Stranger { uid } => {
                return Some(format!(
                    "{far} is held by another user (uid {uid}), so no key was sent: ask that user to leave the port, or \
                     give your gateway another one; if it is your gateway, let it speak TLS and use wss://"
                ));
            }
            Peer::Elsewhere => "its socket is not in the kernel's table".to_owned(),
            Peer::Unseen(why) => why,
        };
        Some(format!(
            "who holds {far} cannot be proved ({what}), so no key was sent: let the gateway speak TLS and use wss://"
        ))
    }
}

impl fmt::Debug for PeerCheck {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if self.0.is_some() { "(asks the kernel)" } else { "(asks nobody)" })
    }
}

impl PartialEq for PeerCheck {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for PeerCheck {}

impl Hash for PeerCheck {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl PartialOrd for PeerCheck {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PeerCheck {
    fn cmp(&self, _: &Self) -> Ordering {
        Ordering::Equal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objection(seen: &Peer, far: &str) -> Option<String> {
        let seen = seen.clone();
        let near = "127.0.0.1:40000".parse().unwrap();
        PeerCheck::new(move |_, _| seen.clone()).objection(near, far.parse().unwrap())
    }

    #[test]
    fn what_is_not_proved_is_not_believed_on_this_machine() {
        let (here, mapped, there) = ("127.0.0.1:7", "[::ffff:127.0.0.1]:7", "10.0.0.7:7");
        for (seen, words) in [
            (Peer::Stranger { uid: 65534 }, "another user (uid 65534)"),
            (Peer::Elsewhere, "not in the kernel's table"),
            (Peer::Unseen("it is hidden".into()), "it is hidden"),
        ] {
            for far in [here, mapped] {
                let why = objection(&seen, far).unwrap();
                assert!(why.contains(words) && why.contains("no key was sent"), "{why}");
            }
            let is_here = matches!(seen, Peer::Stranger { .. });
            assert_eq!(objection(&seen, there).is_some(), is_here, "an address of this very machine");
        }
        for seen in [Peer::Ours, Peer::NeverShown] {
            assert_eq!(objection(&seen, here), None);
        }
        let unasked = PeerCheck::default().objection(here.parse().unwrap(), here.parse().unwrap());
        assert!(unasked.unwrap().contains("nobody looked"));
    }
}
