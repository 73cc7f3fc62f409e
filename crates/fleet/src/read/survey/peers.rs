//! Asks the kernel who accepted a connection, for the sources that send keys over it.

use std::net::SocketAddr;
use std::sync::Arc;

use agentctl_adapters::{Peer, PeerCheck};
use agentctl_model::Observed;
use agentctl_process::Kernel;

use crate::Source;

const ROOT: u32 = 0;

/// Returns the same sources; each of them asks this kernel before it sends a key to this machine.
pub(crate) fn guarded(mut sources: Vec<Source>, kernel: &Arc<dyn Kernel>) -> Vec<Source> {
    let asked = Arc::clone(kernel);
    let peer_check = PeerCheck::new(move |near, far| peer(asked.as_ref(), near, far));
    for keys in sources.iter_mut().filter_map(|source| source.root.keys.as_mut()) {
        keys.peer_check = peer_check.clone();
    }
    sources
}

fn peer(kernel: &dyn Kernel, near: SocketAddr, far: SocketAddr) -> Peer {
    if !kernel.witnesses().sockets {
        return Peer::NeverShown;
    }
    match kernel.accepted_by(near, far) {
        Observed::Seen(Some(uid)) if uid == ROOT || Some(uid) == kernel.own_uid() => Peer::Ours,
        Observed::Seen(Some(uid)) => Peer::Stranger { uid },
        Observed::Seen(None) => Peer::Elsewhere,
        Observed::Unobservable(why) => Peer::Unseen(why),
    }
}
