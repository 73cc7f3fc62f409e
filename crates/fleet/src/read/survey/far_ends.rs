//! Gives each source the kernel's answer to who owns a port, so that a key is only sent to the right user's server.

use std::net::SocketAddr;
use std::sync::Arc;

use agentctl_adapters::{FarEnd, FarEnds};
use agentctl_model::Observed;
use agentctl_process::Kernel;

use crate::Source;

const ROOT: u32 = 0;

/// Returns the same sources, each of which asks this kernel before it sends a key to a port of this machine.
pub(crate) fn guarded(mut sources: Vec<Source>, kernel: &Arc<dyn Kernel>) -> Vec<Source> {
    let asked = Arc::clone(kernel);
    let far_ends = FarEnds::new(move |near, far| far_end(asked.as_ref(), near, far));
    for keys in sources.iter_mut().filter_map(|source| source.root.keys.as_mut()) {
        keys.far_ends = far_ends.clone();
    }
    sources
}

fn far_end(kernel: &dyn Kernel, near: SocketAddr, far: SocketAddr) -> FarEnd {
    if !kernel.witnesses().sockets {
        return FarEnd::NeverShown;
    }
    match kernel.accepted_by(near, far) {
        Observed::Seen(Some(uid)) if uid == ROOT || Some(uid) == kernel.own_uid() => FarEnd::Ours,
        Observed::Seen(Some(uid)) => FarEnd::Stranger { uid },
        Observed::Seen(None) => FarEnd::Elsewhere,
        Observed::Unobservable(why) => FarEnd::Unseen(why),
    }
}
