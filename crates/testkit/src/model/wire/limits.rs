//! How each provider refuses when a quota is used up: status 429 with its own headers and body.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::Wire;

/// The headers and the body of the refusal.
pub(super) fn refusal(wire: Wire, resets_in: Duration) -> (Vec<(&'static str, String)>, Value) {
    let seconds = resets_in.as_secs();
    let reset = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs()) + seconds;
    let mut headers = vec![("retry-after", seconds.to_string())];
    let body = match wire {
        Wire::Anthropic => {
            headers.extend([
                ("anthropic-ratelimit-unified-status", "rejected".to_owned()),
                ("anthropic-ratelimit-unified-reset", reset.to_string()),
                ("anthropic-ratelimit-unified-representative-claim", "five_hour".to_owned()),
                ("anthropic-ratelimit-unified-5h-status", "rejected".to_owned()),
                ("anthropic-ratelimit-unified-5h-reset", reset.to_string()),
                ("anthropic-ratelimit-unified-5h-utilization", "1.0".to_owned()),
            ]);
            let message = "This request would exceed your account's rate limit. Please try again later.";
            json!({"type": "error", "error": {"type": "rate_limit_error", "message": message}})
        }
        Wire::Responses => {
            headers.extend([
                ("x-codex-primary-used-percent", "100.0".to_owned()),
                ("x-codex-primary-window-minutes", "300".to_owned()),
                ("x-codex-primary-reset-after-seconds", seconds.to_string()),
                ("x-codex-primary-reset-at", reset.to_string()),
            ]);
            json!({"error": {
                "type": "usage_limit_reached", "message": "The usage limit has been reached", "plan_type": "plus",
                "resets_at": reset, "resets_in_seconds": seconds,
            }})
        }
        Wire::Chat => {
            headers.extend([
                ("x-ratelimit-remaining-requests", "0".to_owned()),
                ("x-ratelimit-reset-requests", format!("{seconds}s")),
            ]);
            let message = format!("Rate limit reached for requests. Please try again in {seconds}s.");
            json!({"error": {"message": message, "type": "requests", "param": null, "code": "rate_limit_exceeded"}})
        }
        Wire::Gemini => {
            let message = format!("You exceeded your current quota. Please retry in {seconds}s.");
            json!({"error": {"code": 429, "message": message, "status": "RESOURCE_EXHAUSTED", "details": [
                {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [
                    {"quotaMetric": "generativelanguage.googleapis.com/generate_requests_per_model_per_day",
                     "quotaId": "GenerateRequestsPerDayPerProjectPerModel"},
                ]},
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": format!("{seconds}s")},
            ]}})
        }
    };
    (headers, body)
}
