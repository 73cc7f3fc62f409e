//! Variables and roots, as the tests of this folder write and read them.

use agentctl_model::Environ;

use crate::{Root, Secret};

pub(crate) fn environ(pairs: &[(&str, &str)]) -> Environ {
    pairs.iter().copied().collect()
}

pub(crate) fn token(root: &Root) -> Option<&str> {
    root.keys.as_ref()?.token.as_ref().map(Secret::reveal)
}

pub(crate) fn address(root: &Root) -> &str {
    root.path.to_str().unwrap()
}
