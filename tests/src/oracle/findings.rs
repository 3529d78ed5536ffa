//! Differences that are meant: `tests/oracle/FINDINGS.md`, a pattern and its reason each.
//!
//! A finding is a list item whose first words are patterns in backquotes, commas between them, then a colon and the reason. A pattern is a
//! difference as [`Difference`] shows it, in which `*` stands for anything.

use super::compare::Difference;
use crate::peer::own_file;

/// Patterns of differences that are meant.
#[derive(Debug)]
pub struct Findings(Vec<String>);

impl Findings {
    /// The committed ones.
    ///
    /// # Panics
    /// When the list is not where the source is.
    #[must_use]
    pub fn committed() -> Self {
        Self::parse(&std::fs::read_to_string(own_file("oracle/FINDINGS.md")).expect("the list"))
    }

    /// The patterns of a list.
    ///
    /// # Panics
    /// When an item gives no reason.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut patterns = Vec::new();
        for item in text.split("\n- ").skip(1) {
            let item = item.split("\n\n").next().unwrap_or_default();
            let (named, reason) = item.split_once("`: ").unwrap_or((item, ""));
            assert!(!reason.trim().is_empty(), "a finding without a reason: {item}");
            patterns.extend(named.split('`').skip(1).step_by(2).map(str::to_owned));
        }
        Self(patterns)
    }

    /// Whether a difference is one of them.
    #[must_use]
    pub fn allow(&self, difference: &Difference) -> bool {
        let line = difference.to_string();
        self.0.iter().any(|pattern| matches(pattern, &line))
    }
}

/// Whether `*` of the pattern can stand for what is between its other parts.
fn matches(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}
