//! How a value is shown: in the form Kafka writes a parsed value, whatever form it was given in.
//!
//! Invariants:
//! 1. the form shown passes the same check as the form given and means the same;
//! 2. a text of a String, Class or Password is shown as it was given.
//!
//! Source: what a running Apache Kafka 4.3.1 answers to values with spaces, repeated elements and exponents.

use super::key::{ConfigKey, Kind, list, parse_bool, parse_double};

impl ConfigKey {
    /// The value as clients are shown it.
    #[must_use]
    pub fn canonical(&self, value: &str) -> String {
        let text = value.trim();
        match self.kind {
            Kind::Boolean => parse_bool(text).map_or_else(|| text.to_owned(), |b| b.to_string()),
            Kind::Short | Kind::Int | Kind::Long => text
                .parse::<i64>()
                .map_or_else(|_| text.to_owned(), |number| number.to_string()),
            Kind::Double => parse_double(text).map_or_else(|| text.to_owned(), java_double),
            Kind::List => distinct(text).join(","),
            Kind::String | Kind::Class | Kind::Password => value.to_owned(),
        }
    }
}

/// The elements of a list value, each once.
fn distinct(text: &str) -> Vec<&str> {
    let mut elements: Vec<&str> = Vec::new();
    for element in list(text) {
        if !elements.contains(&element) {
            elements.push(element);
        }
    }
    elements
}

/// A number as Java writes a `double`.
fn java_double(number: f64) -> String {
    let size = number.abs();
    if number == 0.0 || (1e-3..1e7).contains(&size) {
        return format!("{number:?}");
    }
    if !number.is_finite() {
        let sign = if number.is_sign_negative() { "-" } else { "" };
        return if number.is_nan() {
            "NaN".to_owned()
        } else {
            format!("{sign}Infinity")
        };
    }
    let text = format!("{number:E}");
    match text.split_once('E') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0E{exponent}"),
        Some(_) | None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{broker_key, broker_keys, topic_key, topic_keys};

    // Goal: values read as in Kafka's answers. Method: what a 4.3.1 shows after these were set.
    #[test]
    fn as_kafka_shows_them() {
        fn check(name: &str, given: &str, shown: &str) {
            let key = topic_key(name).map(|row| &row.key);
            let key = key.or_else(|| broker_key(name)).expect("a known name");
            assert_eq!(key.canonical(given), shown, "{name}={given}");
            assert_eq!(key.validate(shown), Ok(()), "{name}={shown}");
        }
        check("cleanup.policy", " delete , compact ", "delete,compact");
        check("cleanup.policy", "delete,delete", "delete");
        check("cleanup.policy", "", "");
        check("retention.ms", " 5000 ", "5000");
        check("retention.ms", "+5", "5");
        check("min.cleanable.dirty.ratio", "1e-1", "0.1");
        check("min.cleanable.dirty.ratio", "1", "1.0");
        check("min.cleanable.dirty.ratio", "0.00001", "1.0E-5");
        check(
            "log.cleaner.io.max.bytes.per.second",
            "1000000",
            "1000000.0",
        );
        check("log.cleaner.io.max.bytes.per.second", "10000000", "1.0E7");
        check(
            "log.cleaner.io.max.bytes.per.second",
            "1.7976931348623157E308",
            "1.7976931348623157E308",
        );
        check("preallocate", " TRUE", "true");
        check("compression.type", "gzip", "gzip");
    }

    // Goal: defaults are shown as the tables write them. Method: every default of every table.
    #[test]
    fn defaults_stay() {
        for key in broker_keys().chain(topic_keys().iter().map(|row| &row.key)) {
            if let Some(default) = key.default {
                assert_eq!(key.canonical(default), default, "{}", key.name);
            }
        }
    }
}
