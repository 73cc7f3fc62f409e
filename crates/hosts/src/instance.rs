//! Whether two roads lead to the same place. Pure.

use ring::digest::{Context, SHA256};

/// One agentctl folder of one user of one machine since one boot. What it is made of cannot be read from it.
pub fn instance(boot: &str, uid: u32, device: u64, inode: u64) -> String {
    let mut context = Context::new(&SHA256);
    // No part can run into the next one: the numbers have a fixed length.
    for number in [u64::from(uid), device, inode] {
        context.update(&number.to_be_bytes());
    }
    context.update(boot.as_bytes());
    data_encoding::HEXLOWER.encode(&context.finish().as_ref()[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_makes_another_instance() {
        let one = instance("boot", 1, 2, 3);
        assert_eq!((one.len(), &one), (32, &instance("boot", 1, 2, 3)));
        for other in [
            instance("b", 1, 2, 3),
            instance("boot", 2, 2, 3),
            instance("boot", 1, 3, 3),
            instance("boot", 1, 2, 4),
        ] {
            assert_ne!(one, other);
        }
    }
}
