//! `[prices."MODEL"]`: dollars per million tokens, for agents that count tokens and not money.

use agentctl_fleet::Price;
use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct PriceForm {
    #[serde(rename = "in")]
    input: Option<Dollars>,
    #[serde(rename = "out")]
    output: Option<Dollars>,
    cache_read: Option<Dollars>,
    cache_write: Option<Dollars>,
}

impl From<PriceForm> for Price {
    fn from(form: PriceForm) -> Self {
        let dollars = |part: Option<Dollars>| part.map(|dollars| dollars.0);
        Self {
            input: dollars(form.input),
            output: dollars(form.output),
            cache_read: dollars(form.cache_read),
            cache_write: dollars(form.cache_write),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "f64")]
struct Dollars(f64);

impl TryFrom<f64> for Dollars {
    type Error = String;

    fn try_from(dollars: f64) -> Result<Self, String> {
        if dollars.is_finite() && dollars >= 0.0 {
            return Ok(Self(dollars));
        }
        Err(format!("`{dollars}` is no price, expected dollars per million tokens"))
    }
}
