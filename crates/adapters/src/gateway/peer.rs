//! Who holds the other end of a connection that stays on this machine. While a gateway is down, anybody here can listen at
//! its port. An adapter never looks at the kernel itself: the fleet brings the look along, with the keys that it guards.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;

/// What the kernel says of the other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// It belongs to this user or to root. A tunnel is one of these: its near end is the user's own ssh.
    Ours,
    /// It belongs to another user of this machine.
    Stranger { uid: u32 },
    /// It is not among the sockets that can be seen from here.
    Elsewhere,
    /// The sockets could not be looked at, for this reason.
    Unseen(String),
    /// This platform shows nobody's sockets.
    NeverShown,
}

type Look = dyn Fn(SocketAddr, SocketAddr) -> Peer + Send + Sync;

/// The way to ask the kernel who holds the other end. It opens nothing, so keys are compared without it.
#[derive(Clone, Default)]
pub struct PeerCheck(Option<Arc<Look>>);

impl PeerCheck {
    /// The first address is ours, the second one is the other end's.
    pub fn new(look: impl Fn(SocketAddr, SocketAddr) -> Peer + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(look)))
    }

    /// Why nothing may be said over this connection; `None` when something may. What cannot be proved is not believed,
    /// except where no kernel could prove it.
    ///
    /// The other end must have said something by now: before it accepts the connection it has no owner.
    pub(crate) fn objection(&self, near: SocketAddr, far: SocketAddr) -> Option<String> {
        let look = self.0.as_ref();
        let seen = look.map_or_else(|| Peer::Unseen("nobody looked".to_owned()), |look| look(near, far));
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
