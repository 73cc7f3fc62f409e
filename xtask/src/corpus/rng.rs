//! A small seeded generator of numbers and ids.
//!
//! It is not taken from a crate, so that a corpus stays byte-identical when dependencies are updated.

use std::fmt::Write as _;

/// The generator splitmix64. It has 64 bits of state, which is enough to vary a corpus.
pub(crate) struct Rng(u64);

impl Rng {
    /// A separate stream for each session, so that a session does not depend on how the others were written.
    pub(crate) fn for_stream(seed: u64, agent: &str, index: u64) -> Self {
        let mut rng = Self(seed ^ 0x9E37_79B9_7F4A_7C15);
        for byte in agent.bytes() {
            rng.0 = rng.0.wrapping_mul(0x0100_0000_01B3) ^ u64::from(byte);
            rng.next();
        }
        rng.0 ^= index.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        rng.next();
        rng
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `low..high`; `low` when the range is empty.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        if high <= low { low } else { low + self.next() % (high - low) }
    }

    pub(crate) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.between(0, len as u64)).unwrap_or(0)
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.index(of.len())]
    }

    /// A number in `0.0..1.0`.
    #[allow(clippy::cast_precision_loss, reason = "53 random bits fit a double exactly")]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// A number with the standard normal distribution, by the Box-Muller method.
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// A length with a log-normal distribution, at most `most`.
    pub(crate) fn length(&mut self, mean_ln: f64, sigma: f64, most: usize) -> usize {
        whole((mean_ln + sigma * self.normal()).exp()).min(most)
    }

    pub(crate) fn hex(&mut self, digits: usize) -> String {
        let mut text = String::with_capacity(digits + 16);
        while text.len() < digits {
            // Writing to a string cannot fail.
            let _ = write!(text, "{:016x}", self.next());
        }
        text.truncate(digits);
        text
    }

    pub(crate) fn uuid4(&mut self) -> String {
        let hex = self.hex(32);
        format!("{}-{}-4{}-a{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
    }
}

/// The whole part of a size that is known to be positive and far below 2^53.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float to int casts saturate")]
pub(crate) fn whole(size: f64) -> usize {
    size as usize
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn streams_repeat_and_differ() {
        let ids = |seed, index| Rng::for_stream(seed, "claude", index).uuid4();
        assert_eq!(ids(1, 7), ids(1, 7));
        assert_ne!(ids(1, 7), ids(1, 8));
        assert_ne!(ids(1, 7), ids(2, 7));
        assert_ne!(Rng::for_stream(1, "claude", 0).next(), Rng::for_stream(1, "codex", 0).next());
    }

    #[test]
    fn an_id_has_the_shape_of_a_uuid() {
        let id = Rng::for_stream(3, "x", 0).uuid4();
        assert_eq!(id.len(), 36);
        assert_eq!(id.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
    }

    #[test]
    fn the_normal_is_centred() {
        let mut rng = Rng::for_stream(1, "n", 0);
        let mean = (0..20_000).map(|_| rng.normal()).sum::<f64>() / 20_000.0;
        assert!(mean.abs() < 0.05, "{mean}");
    }
}
