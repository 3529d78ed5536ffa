//! Patterns that clients send: each must match a whole name, as in Kafka (RE2J).
//!
//! 1. The engine takes time linear in the name, and a pattern whose program would be large is refused.

use pelton_model::limits::{PATTERN_BYTES_MAX, PATTERN_PROGRAM_BYTES_MAX};
pub use regex::Regex;
use regex::RegexBuilder;

/// Compiles a pattern that matches whole names.
///
/// # Errors
/// Why it cannot be used, in words.
pub fn whole(pattern: &str) -> Result<Regex, String> {
    if PATTERN_BYTES_MAX < pattern.len() {
        return Err(format!("it is longer than {PATTERN_BYTES_MAX} bytes"));
    }
    // By itself first: wrapping must not make it valid.
    let build = |text: &str| {
        let mut builder = RegexBuilder::new(text);
        builder
            .size_limit(PATTERN_PROGRAM_BYTES_MAX)
            .dfa_size_limit(PATTERN_PROGRAM_BYTES_MAX);
        builder.build()
    };
    let built = build(pattern).and_then(|_| build(&format!("^(?:{pattern})$")));
    built.map_err(|error| error.to_string())
}
