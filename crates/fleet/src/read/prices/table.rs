//! The prices that come with agentctl: what a provider asks for a model at the time of a call. The only file that knows
//! where they come from.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::SystemTime;

use agentctl_model::{Call, Tokens};
use genai_prices::{Calculator, PriceRequest, Usage, UsageKey};
use jiff::Timestamp;

/// What the prices are called where their origin is told.
pub(crate) const NAME: &str = "genai-prices 0.2.1 (October 2026)";

/// Unpacks the table for the whole program, as the first look at it does.
pub(crate) fn unpack() {
    let _ = Calculator::bundled();
}

/// The table, with what was already looked up.
#[derive(Default)]
pub(crate) struct Table {
    rates: RefCell<HashMap<(&'static str, i64), ByModel>>,
    /// What was looked up last: most calls follow another one of the same model on the same day.
    last: RefCell<Option<(&'static str, i64, String, Rate)>>,
}

/// What the models of one provider cost on one day.
type ByModel = HashMap<String, Rate>;

/// How a model is charged on one day.
#[derive(Debug, Clone, Copy)]
enum Rate {
    /// Nobody knows.
    Unknown,
    /// Dollars for one token of input, output, cache read and cache write.
    PerToken([f64; 4]),
    /// The price depends on how long the call is, or on the time of day.
    ByCall,
}

impl Table {
    /// What the call costs; `None` if its provider or model is not in the table, or nothing tells the provider.
    pub(crate) fn price(&self, adapter: &str, model: &str, call: &Call) -> Option<f64> {
        let (provider, model) = provider_of(adapter, model)?;
        // Unreported input or output leaves the sum unknown.
        let Tokens { input: Some(input), output: Some(output), cache_read, cache_write } = call.tokens else {
            return None;
        };
        let counts = [input, output, cache_read.unwrap_or(0), cache_write.unwrap_or(0)];
        let at = call.at?;
        match self.rate(provider, model, at) {
            Rate::Unknown => None,
            Rate::PerToken(rates) => {
                Some(rates.iter().zip(counts).map(|(rate, count)| rate * float(count)).sum())
            }
            Rate::ByCall => calculate(provider, model, at, counts),
        }
    }

    fn rate(&self, provider: &'static str, model: &str, at: Timestamp) -> Rate {
        const DAY: i64 = 24 * 60 * 60;
        let day = at.as_second().div_euclid(DAY);
        let mut last = self.last.borrow_mut();
        if let Some((.., rate)) =
            last.as_ref().filter(|(of, on, named, _)| (*of, *on) == (provider, day) && named == model)
        {
            return *rate;
        }
        let mut rates = self.rates.borrow_mut();
        let of_day = rates.entry((provider, day)).or_default();
        let rate = of_day.get(model).copied().unwrap_or_else(|| {
            let rate = rate(provider, model, at);
            of_day.insert(model.to_owned(), rate);
            rate
        });
        *last = Some((provider, day, model.to_owned(), rate));
        rate
    }
}

#[expect(clippy::cast_precision_loss, reason = "no call has 2^53 tokens")]
fn float(count: u64) -> f64 {
    count as f64
}

/// Asks for little and for much of each kind: only where both cost the same for one token the price is one per token.
fn rate(provider: &'static str, model: &str, at: Timestamp) -> Rate {
    const LITTLE: u64 = 1_000;
    const MUCH: u64 = 5_000_000;
    // The prices of this provider follow the time of day.
    if provider == "deepseek" {
        return if calculate(provider, model, at, [1, 1, 0, 0]).is_some() {
            Rate::ByCall
        } else {
            Rate::Unknown
        };
    }
    let mut rates = [0.0; 4];
    for (kind, rate) in rates.iter_mut().enumerate() {
        let of = |count: u64| {
            let mut counts = [0; 4];
            counts[kind] = count;
            calculate(provider, model, at, counts).map(|dollars| dollars / float(count))
        };
        let (Some(little), Some(much)) = (of(LITTLE), of(MUCH)) else { return Rate::Unknown };
        if (little - much).abs() > little.abs() * 1e-9 {
            return Rate::ByCall;
        }
        *rate = little;
    }
    Rate::PerToken(rates)
}

/// The table counts what a cache supplied or took as part of the input.
fn calculate(
    provider: &str,
    model: &str,
    at: Timestamp,
    [input, output, read, written]: [u64; 4],
) -> Option<f64> {
    let mut usage = Usage::from([
        (UsageKey::INPUT_TOKENS, float(input.saturating_add(read).saturating_add(written))),
        (UsageKey::OUTPUT_TOKENS, float(output)),
    ]);
    for (key, count) in [(UsageKey::CACHE_READ_TOKENS, read), (UsageKey::CACHE_WRITE_TOKENS, written)] {
        if count > 0 {
            usage.insert(key, float(count));
        }
    }
    let request = PriceRequest::new(model, &usage).with_provider_id(provider);
    let request = request.with_timestamp(SystemTime::from(at));
    Calculator::bundled()
        .calculate(&request)
        .ok()
        .map(|price| price.total_price)
        .filter(|price| price.is_finite())
}

/// The provider that was paid, and its name for the model. A provider is never guessed from a similar name.
fn provider_of<'m>(adapter: &str, model: &'m str) -> Option<(&'static str, &'m str)> {
    let by_agent = match adapter {
        "claude-code" => Some("anthropic"),
        "codex" => Some("openai"),
        "gemini" => Some("google"),
        "copilot" => Some("github-copilot"),
        "kimi" => Some("moonshotai"),
        _ => None,
    };
    if let Some(provider) = by_agent {
        return Some((provider, model));
    }
    // The other agents name the provider before the model.
    let (provider, model) = model.split_once('/')?;
    let provider = match provider {
        "anthropic" => "anthropic",
        "openai" | "openai-codex" => "openai",
        "google" | "google-gemini-cli" | "gemini" => "google",
        "amazon-bedrock" | "bedrock" | "aws" => "aws",
        "azure" | "azure-openai" | "azure-openai-responses" => "azure",
        "deepseek" => "deepseek",
        "github-copilot" => "github-copilot",
        "groq" => "groq",
        "mistral" => "mistral",
        "moonshotai" | "moonshot" | "kimi" => "moonshotai",
        "openrouter" => "openrouter",
        "xai" | "x-ai" => "x-ai",
        "zai" | "z-ai" => "zai",
        "cerebras" => "cerebras",
        "fireworks" | "fireworks-ai" => "fireworks",
        "together" | "togetherai" => "together",
        "minimax" => "minimax",
        _ => return None,
    };
    Some((provider, model))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn call(at: &str, [input, output, read, written]: [u64; 4]) -> Call {
        let tokens = Tokens {
            input: Some(input),
            output: Some(output),
            cache_read: Some(read),
            cache_write: Some(written),
        };
        Call { at: Some(at.parse().unwrap()), tokens, ..Call::default() }
    }

    fn dollars(adapter: &str, model: &str, call: &Call) -> Option<String> {
        Table::default().price(adapter, model, call).map(|dollars| format!("{dollars:.7}"))
    }

    #[test]
    fn a_call_costs_what_its_agent_says_it_did() {
        // What Claude Code itself wrote for this call (tests/recorded/claude-code/simple-finished).
        let recorded = call("2026-11-15T06:50:13Z", [101, 33, 22, 11]);
        assert_eq!(dollars("claude-code", "claude-opus-5-5", &recorded).as_deref(), Some("0.0011234"));
        assert_eq!(dollars("pi", "anthropic/claude-opus-5-5", &recorded).as_deref(), Some("0.0011234"));
    }

    #[test]
    fn what_was_looked_up_before_changes_no_price() {
        let table = Table::default();
        let days = ["2026-11-15T06:50:13Z", "2026-11-16T06:50:13Z"];
        let models = ["claude-opus-5-5", "claude-haiku-4-5", "claude-that-nobody-knows", "claude-opus-5-5"];
        let asked = || days.iter().flat_map(|day| models.iter().map(move |model| (day, model)));
        let told: HashSet<Option<String>> = asked()
            .map(|(day, model)| {
                let call = call(day, [101, 33, 22, 11]);
                let shared = table.price("claude-code", model, &call).map(|dollars| format!("{dollars:.7}"));
                assert_eq!(shared, dollars("claude-code", model, &call), "{day} {model}");
                shared
            })
            .collect();
        assert_eq!(told.len(), 3, "the models have different prices: {told:?}");
    }

    /// The price of o3 fell on 2025-06-10: from $10 and $40 for a million tokens to $2 and $8.
    #[test]
    fn a_call_costs_what_was_asked_on_its_day() {
        let table = Table::default();
        for (day, whole) in [("2025-06-01", 50.0), ("2025-07-01", 10.0), ("2025-06-01", 50.0)] {
            let call = call(&format!("{day}T12:00:00Z"), [1_000_000, 1_000_000, 0, 0]);
            let dollars = table.price("codex", "o3", &call).unwrap();
            assert!((dollars - whole).abs() < 1e-6, "{day}: {dollars}");
        }
    }

    #[test]
    fn what_is_not_known_has_no_price() {
        let some = call("2026-11-15T06:50:13Z", [1, 1, 0, 0]);
        assert_eq!(dollars("claude-code", "claude-that-nobody-knows", &some), None);
        assert_eq!(
            dollars("opencode", "fake/claude-opus-5-5", &some),
            None,
            "another provider asks another price"
        );
        assert_eq!(dollars("opencode", "claude-opus-5-5", &some), None, "nothing tells the provider");
        let unreported = Call { tokens: Tokens { output: None, ..some.tokens }, ..some.clone() };
        assert_eq!(dollars("claude-code", "claude-opus-5-5", &unreported), None);
        assert_eq!(dollars("claude-code", "claude-opus-5-5", &Call { at: None, ..some }), None);
    }

    #[test]
    fn a_price_that_depends_on_the_length_of_a_call_is_asked_for_each_call() {
        let at = "2025-11-15T06:50:13Z";
        let (short, long) = (call(at, [100_000, 0, 0, 0]), call(at, [300_000, 0, 0, 0]));
        let table = Table::default();
        let [short, long] = [short, long].map(|call| table.price("gemini", "gemini-2.5-pro", &call).unwrap());
        assert!(long > 3.5 * short, "{short} {long}");
    }
}
