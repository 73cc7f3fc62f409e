//! Plans the size of each session.
//!
//! Real transcript sizes have a log-normal distribution with a heavy tail: half of them are small, one in a hundred has
//! tens of megabytes. `auto` shrinks all of them by one factor, found by bisection, so that the mean is
//! [`AUTO_MEAN_BYTES`] while the shape (and the largest lines) stays.

use anyhow::{Context, bail};

use super::rng::{Rng, whole};

/// 10,000 sessions with this mean are about 3 GB.
pub(crate) const AUTO_MEAN_BYTES: f64 = 300_000.0;

/// The bytes of text in one giant line.
pub(crate) const GIANT_TEXT: usize = 2_200_000;

const CEILING: f64 = 120_000_000.0;

/// Where a session has its giant line, if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Giant {
    /// In the first prompt, so that the working directory comes megabytes into the file.
    Head,
    /// In a tool result in the middle.
    Middle,
}

/// `auto`, or a factor on the natural sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum MeanScale {
    Auto,
    Factor(f64),
}

impl std::str::FromStr for MeanScale {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let factor: f64 =
            text.parse().with_context(|| format!("scale {text:?} is neither `auto` nor a number"))?;
        if !(factor.is_finite() && factor > 0.0) {
            bail!("scale {text} is not above zero");
        }
        Ok(Self::Factor(factor))
    }
}

/// The size distribution of one agent's transcripts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SizeShape {
    pub(crate) median: f64,
    pub(crate) sigma: f64,
    pub(crate) floor: f64,
}

/// The plan of one session, made before it is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) bytes: usize,
    pub(crate) giant: Option<Giant>,
}

/// Plans `count` sessions; the same arguments give the same plan.
pub(crate) fn plan(seed: u64, agent: &str, count: usize, shape: SizeShape, scale: MeanScale) -> Vec<Plan> {
    let mut rng = Rng::for_stream(seed, agent, u64::MAX);
    let natural: Vec<f64> = (0..count).map(|_| shape.median * (shape.sigma * rng.normal()).exp()).collect();
    let factor = match scale {
        MeanScale::Factor(factor) => factor,
        MeanScale::Auto => factor_for_mean(&natural, shape, AUTO_MEAN_BYTES),
    };
    let mut plans: Vec<Plan> = natural
        .iter()
        .map(|size| Plan { bytes: whole(clamped(size * factor, shape)), giant: None })
        .collect();
    // Small corpora have no giant lines, larger ones have at least one of each kind.
    if count >= 20 {
        for n in 0..(count / 1250).max(1) * 2 {
            plans[rng.index(count)].giant = Some(if n % 2 == 0 { Giant::Middle } else { Giant::Head });
        }
    }
    plans
}

fn clamped(size: f64, shape: SizeShape) -> f64 {
    size.clamp(shape.floor, CEILING)
}

#[allow(clippy::cast_precision_loss, reason = "a session count is far below 2^53")]
fn factor_for_mean(natural: &[f64], shape: SizeShape, mean: f64) -> f64 {
    let mean_at = |factor: f64| {
        natural.iter().map(|size| clamped(size * factor, shape)).sum::<f64>() / natural.len().max(1) as f64
    };
    let (mut low, mut high) = (1e-6, 1.0);
    if mean_at(high) <= mean {
        return high;
    }
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if mean_at(middle) > mean { high = middle } else { low = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::{AUTO_MEAN_BYTES, Giant, MeanScale, SizeShape, plan};

    const SHAPE: SizeShape = SizeShape { median: 150_000.0, sigma: 2.1, floor: 12_000.0 };

    #[test]
    fn auto_meets_the_mean() {
        let plans = plan(1, "claude", 10_000, SHAPE, MeanScale::Auto);
        let sum: usize = plans.iter().map(|plan| plan.bytes).sum();
        #[allow(clippy::cast_precision_loss, reason = "a few gigabytes")]
        let mean = sum as f64 / 10_000.0;
        assert!((mean - AUTO_MEAN_BYTES).abs() < AUTO_MEAN_BYTES / 100.0, "{mean}");
        assert!(plans.iter().all(|plan| plan.bytes >= 12_000));
        assert!(plans.iter().any(|plan| plan.giant == Some(Giant::Head)));
        assert!(plans.iter().any(|plan| plan.giant == Some(Giant::Middle)));
    }

    #[test]
    fn a_scale_is_auto_or_a_positive_number() {
        assert_eq!("auto".parse::<MeanScale>().unwrap(), MeanScale::Auto);
        assert_eq!("0.5".parse::<MeanScale>().unwrap(), MeanScale::Factor(0.5));
        for bad in ["", "0", "-1", "nan", "inf", "much"] {
            assert!(bad.parse::<MeanScale>().is_err(), "{bad}");
        }
    }
}
