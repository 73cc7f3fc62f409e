//! What tokens cost where the agent does not report it: by prices per model that the user has set, and for single calls
//! also by the table that comes with agentctl. Pure.

pub(crate) mod table;

use std::collections::BTreeMap;

use agentctl_model::usage::{Basis, Priced};
use agentctl_model::{Call, Session, Tokens};

use table::Table;

/// Dollars per million tokens; `None` means that no price is set.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Price {
    pub input: Option<f64>,
    pub output: Option<f64>,
    pub cache_read: Option<f64>,
    pub cache_write: Option<f64>,
}

/// By the model as the session object spells it. A similar name may have another price.
pub type Prices = BTreeMap<String, Price>;

const MILLION: f64 = 1_000_000.0;

/// Fills in the cost only where the agent reports none.
pub(crate) fn fill(session: &mut Session, prices: &Prices) {
    if session.cost.is_none() {
        let price = session.model.as_ref().and_then(|model| prices.get(model));
        session.cost = price.zip(session.tokens.as_ref()).and_then(|(price, tokens)| price.of(tokens));
    }
}

/// What a call of an agent costs: by the user's price for its model, or else by the table at the time of the call.
pub(crate) fn of_call(prices: &Prices, table: &Table, adapter: &str, call: &Call) -> Option<Priced> {
    let model = call.model.as_deref()?;
    if let Some(price) = prices.get(model) {
        return price.of(&call.tokens).map(|dollars| Priced { dollars, basis: Basis::Config });
    }
    table.price(adapter, model, call).map(|dollars| Priced { dollars, basis: Basis::Table })
}

impl Price {
    /// Returns `None` unless everything that was used has a price. Agents without a cache of their own count all input
    /// as input, so an unreported cache costs nothing; unreported input or output leaves the sum unknown.
    fn of(&self, tokens: &Tokens) -> Option<f64> {
        let parts = [
            charge(tokens.input?, self.input)?,
            charge(tokens.output?, self.output)?,
            charge(tokens.cache_read.unwrap_or(0), self.cache_read)?,
            charge(tokens.cache_write.unwrap_or(0), self.cache_write)?,
        ];
        Some(parts.iter().sum::<f64>() / MILLION)
    }
}

/// Tokens that were not used need no price.
#[expect(clippy::cast_precision_loss, reason = "no session has 2^53 tokens")]
fn charge(count: u64, price: Option<f64>) -> Option<f64> {
    if count == 0 { Some(0.0) } else { price.map(|price| price * count as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: Tokens = Tokens {
        input: Some(2_000_000),
        output: Some(500_000),
        cache_read: Some(4_000_000),
        cache_write: Some(0),
    };
    const PRICE: Price =
        Price { input: Some(3.0), output: Some(16.0), cache_read: Some(0.25), cache_write: None };

    fn dollars(price: Price, tokens: Tokens) -> Option<String> {
        price.of(&tokens).map(|dollars| format!("{dollars:.4}"))
    }

    #[test]
    fn a_cost_is_the_sum_of_its_parts() {
        assert_eq!(dollars(PRICE, TOKENS).as_deref(), Some("15.0000"));
        let without_cache = Tokens { cache_read: None, cache_write: None, ..TOKENS };
        assert_eq!(dollars(PRICE, without_cache).as_deref(), Some("14.0000"));
    }

    #[test]
    fn an_unknown_part_makes_the_whole_unknown() {
        assert_eq!(dollars(Price { cache_read: None, ..PRICE }, TOKENS), None);
        assert_eq!(dollars(PRICE, Tokens { cache_write: Some(1), ..TOKENS }), None);
        assert_eq!(dollars(PRICE, Tokens { output: None, ..TOKENS }), None);
    }
}
