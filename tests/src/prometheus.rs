//! A strict reader of Prometheus' text format: refuses what a scraper would, and what the documentation calls wrong.
//!
//! Source: "Exposition formats" of the Prometheus documentation.

use std::collections::{BTreeMap, BTreeSet};

type Labels = BTreeMap<String, String>;

/// The samples of a scrape.
#[derive(Debug, Default)]
pub struct Scrape {
    kinds: BTreeMap<String, String>,
    samples: BTreeMap<(String, Labels), f64>,
}

impl Scrape {
    /// The value of the sample with exactly these labels.
    #[must_use]
    pub fn get(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels.iter().map(|&(label, text)| (label.to_owned(), text.to_owned()));
        self.samples.get(&(name.to_owned(), labels.collect())).copied()
    }

    /// The sum of all samples of a name.
    #[must_use]
    pub fn sum(&self, name: &str) -> f64 {
        self.of(name).map(|(_, value)| value).sum()
    }

    /// All samples of a name.
    pub fn of(&self, name: &str) -> impl Iterator<Item = (&Labels, f64)> {
        let samples = self.samples.iter().filter(move |((own, _), _)| own == name);
        samples.map(|((_, labels), value)| (labels, *value))
    }

    /// The names of the families.
    pub fn families(&self) -> impl Iterator<Item = &str> {
        self.kinds.keys().map(String::as_str)
    }
}

/// Reads a scrape.
///
/// # Errors
/// The first line that is wrong, and why.
pub fn parse(text: &str) -> Result<Scrape, String> {
    let mut scrape = Scrape::default();
    let mut family: Option<(String, String)> = None;
    let mut helped = BTreeSet::new();
    if !text.ends_with('\n') {
        return Err("the last line does not end".to_owned());
    }
    for line in text.lines() {
        let wrong = |why: &str| Err(format!("{why}: {line}"));
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
            if help.is_empty() || !helped.insert(name.to_owned()) {
                return wrong("no help, or the second one");
            }
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, ""));
            let is_counter = name.ends_with("_total");
            if !helped.contains(name) || is_counter != (kind == "counter") || !is_name(name) {
                return wrong("a type without help, or a counter by another name");
            }
            if scrape.kinds.insert(name.to_owned(), kind.to_owned()).is_some() {
                return wrong("a family in two pieces");
            }
            family = Some((name.to_owned(), kind.to_owned()));
        } else {
            let (name, labels, value) = sample(line).ok_or_else(|| format!("no sample: {line}"))?;
            let Some((family, kind)) = &family else { return wrong("no family") };
            let endings: &[&str] = match kind.as_str() {
                "counter" | "gauge" => &[""],
                "histogram" => &["_bucket", "_sum", "_count"],
                "summary" => &["", "_sum", "_count"],
                _ => return wrong("a family of no known kind"),
            };
            if !endings.iter().any(|ending| name == format!("{family}{ending}")) {
                return wrong("a sample of another family");
            }
            if kind != "gauge" && value < 0.0 {
                return wrong("below zero");
            }
            if scrape.samples.insert((name, labels), value).is_some() {
                return wrong("told twice");
            }
        }
    }
    histograms(&scrape)?;
    Ok(scrape)
}

fn is_name(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    name.chars().all(is_word) && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// `name{label="text",…} value`.
fn sample(line: &str) -> Option<(String, Labels, f64)> {
    let name_end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(name_end);
    let mut labels = Labels::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"")?;
            let (text, after) = quoted(after)?;
            if !is_name(label) || labels.insert(label.to_owned(), text).is_some() {
                return None;
            }
            match after.strip_prefix(',') {
                Some(more) => rest = more,
                None => {
                    rest = after.strip_prefix('}')?;
                    break;
                }
            }
        }
    }
    let value = rest.strip_prefix(' ')?.parse().ok()?;
    is_name(name).then(|| (name.to_owned(), labels, value))
}

/// The text up to the closing quote, and what follows that.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut plain = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((plain, &text[at + 1..])),
            '\\' => plain.push(match characters.next()?.1 {
                'n' => '\n',
                other @ ('\\' | '"') => other,
                _ => return None,
            }),
            other => plain.push(other),
        }
    }
    None
}

/// Buckets are cumulative, the last is `+Inf` and equals the count.
fn histograms(scrape: &Scrape) -> Result<(), String> {
    for (name, _) in scrape.kinds.iter().filter(|(_, kind)| *kind == "histogram") {
        let mut series: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
        for (labels, value) in scrape.of(&format!("{name}_bucket")) {
            let mut own = labels.clone();
            let bound = own.remove("le").and_then(|le| le.replace('+', "").parse().ok());
            let bound = bound.ok_or_else(|| format!("{name}: a bucket without a bound"))?;
            series.entry(own).or_default().push((bound, value));
        }
        for (labels, mut buckets) in series {
            buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
            let is_cumulative = buckets.is_sorted_by(|a, b| a.1 <= b.1);
            let last = buckets.last().expect("a series has a bucket");
            let count = scrape.samples.get(&(format!("{name}_count"), labels.clone()));
            if !is_cumulative || !last.0.is_infinite() || count != Some(&last.1) {
                return Err(format!("{name}: buckets of {labels:?} do not add up"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: the reader refuses what is wrong. Method: a table of texts.
    #[test]
    fn strictness() {
        fn check(text: &str, is_right: bool) {
            assert_eq!(parse(text).is_ok(), is_right, "{text:?}: {:?}", parse(text));
        }
        let head = "# HELP a b\n# TYPE a gauge\n";
        check(&format!("{head}a 1\na{{l=\"x\\\"\\n\\\\\"}} -2.5\n"), true);
        check(&format!("{head}a 1"), false);
        check(&format!("{head}a 1\na 1\n"), false);
        check(&format!("{head}b 1\n"), false);
        check(&format!("{head}a{{l=\"x\"\\}} 1\n"), false);
        check(&format!("{head}a{{l=\"\\x\"}} 1\n"), false);
        check("a 1\n", false);
        check("# HELP a b\n# TYPE a counter\na 1\n", false);
        check("# TYPE a gauge\na 1\n", false);
        let head = "# HELP h b\n# TYPE h histogram\n";
        let buckets = "h_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_sum 3\n";
        check(&format!("{head}{buckets}h_count 2\n"), true);
        check(&format!("{head}{buckets}h_count 3\n"), false);
        check(&format!("{head}h_bucket{{le=\"1\"}} 1\nh_sum 3\nh_count 1\n"), false);
    }
}
