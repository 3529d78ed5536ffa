//! Two masked answers, field by field.
//!
//! Elements of arrays are matched by what names them, not by their place: Kafka's order comes from hash maps more often than not.
//! Where a request names something twice, what is said of it is not compared: Kafka's maps keep the last, or the first.
//! Where a broker refuses and the other does not, the codes alone are the difference: the rest follows from them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kafka_protocol::messages::ApiKey;

use super::step::{Outcome, Step};
use super::value::{Value, has_code};

/// One field that differs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// The API's name.
    pub api: String,
    /// The field, elements of arrays by their names where these are not the sequence's.
    pub path: String,
    /// What Kafka says.
    pub kafka: String,
    /// What Pelton says.
    pub pelton: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { api, path, kafka, pelton } = self;
        write!(f, "{api} {path}: Kafka {kafka}, Pelton {pelton}")
    }
}

impl Difference {
    /// Whether one broker may have done what the other has not: nothing after it can be compared.
    #[must_use]
    pub fn parts(&self) -> bool {
        let is_granted = |code: &str| code == "None";
        self.path.is_empty()
            || self.path.ends_with("error_code")
                && is_granted(&self.kafka) != is_granted(&self.pelton)
    }
}

/// The fields that name an element of an array, the first that is there.
const NAMES: [&str; 19] = [
    "name",
    "topic",
    "topic_name",
    "topic_id",
    "group_id",
    "transactional_id",
    "partition_index",
    "partition",
    "partition_id",
    "index",
    "member_id",
    "resource_name",
    "feature",
    "key",
    "api_key",
    "base_offset",
    "first_offset",
    "producer_id",
    "node_id",
];

/// How much of a value a difference tells.
const SHOWN_CHARS: usize = 100;

/// All fields of a step's two outcomes that differ.
#[must_use]
pub fn differences(step: &Step, kafka: &Outcome, pelton: &Outcome) -> Vec<Difference> {
    let mut found = Vec::new();
    match (kafka, pelton) {
        (Outcome::Answer(..), Outcome::Answer(..)) if step.repeats_transaction() => {}
        (Outcome::Answer(kafka, _), Outcome::Answer(pelton, _)) => {
            values(String::new(), kafka, pelton, &mut found);
        }
        (kafka, pelton) if kafka == pelton => {}
        (kafka, pelton) => found.push((String::new(), outcome(kafka), outcome(pelton))),
    }
    if found.iter().any(|(path, ..)| path.ends_with("error_code")) {
        found.retain(|(path, ..)| path.ends_with("error_code"));
    }
    if step.api == ApiKey::Produce && is_spoiled(kafka, pelton) {
        found.iter_mut().for_each(|(path, ..)| path.insert_str(0, "(with a corrupt batch) "));
    }
    let api = format!("{:?}", step.api);
    let difference = |(path, kafka, pelton): (String, String, String)| Difference {
        api: api.clone(),
        path,
        kafka,
        pelton,
    };
    let mut found: Vec<Difference> = found.into_iter().map(difference).collect();
    found.sort();
    found.dedup();
    found
}

/// Whether Kafka calls every partition of a Produce corrupt, and Pelton the one that is, or the topic of one that it has not looked at.
fn is_spoiled(kafka: &Outcome, pelton: &Outcome) -> bool {
    let (Outcome::Answer(kafka, _), Outcome::Answer(pelton, _)) = (kafka, pelton) else {
        return false;
    };
    const CORRUPT: i64 = 2;
    const UNJUDGED: [i64; 2] = [3, 100];
    let has_it = has_code(pelton, |code| code == CORRUPT || UNJUDGED.contains(&code));
    has_it && has_code(kafka, |code| code == CORRUPT) && !has_code(kafka, |code| code != CORRUPT)
}

/// An outcome in a few words: of an answer whether it refuses anything.
fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Answer(masked, _) => {
            let mut codes = Vec::new();
            collect_codes(masked, &mut codes);
            codes.sort();
            codes.dedup();
            format!("an answer ({})", codes.join(" "))
        }
        other => other.to_string(),
    }
}

fn collect_codes(value: &Value, codes: &mut Vec<String>) {
    match value {
        Value::Struct(fields) => {
            for (name, value) in fields {
                match value {
                    Value::Int(_) if name.ends_with("error_code") => codes.push(shown(name, value)),
                    other => collect_codes(other, codes),
                }
            }
        }
        Value::List(items) => items.iter().for_each(|item| collect_codes(item, codes)),
        _ => {}
    }
}

type Found = Vec<(String, String, String)>;

fn values(path: String, kafka: &Value, pelton: &Value, found: &mut Found) {
    let field = path.rsplit('.').next().unwrap_or_default().to_owned();
    match (kafka, pelton) {
        (Value::Struct(theirs), Value::Struct(ours)) => {
            let mut names: Vec<&str> = theirs.iter().chain(ours).map(|(name, _)| *name).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                let inner =
                    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
                match (kafka.get(name), pelton.get(name)) {
                    (Some(kafka), Some(pelton)) => values(inner, kafka, pelton, found),
                    // A tagged field that is its default may be left out.
                    (kafka, pelton) => {
                        found.push((inner, missing(name, kafka), missing(name, pelton)))
                    }
                }
            }
        }
        (Value::List(theirs), Value::List(ours)) => lists(&path, theirs, ours, found),
        (kafka, pelton) if kafka == pelton => {}
        (kafka, pelton) => found.push((path, shown(&field, kafka), shown(&field, pelton))),
    }
}

fn missing(field: &str, value: Option<&Value>) -> String {
    value.map_or_else(|| "absent".to_owned(), |value| shown(field, value))
}

fn lists(path: &str, kafka: &[Value], pelton: &[Value], found: &mut Found) {
    let (mut theirs, mut ours) = (named(kafka), named(pelton));
    let names: BTreeSet<String> = theirs.keys().chain(ours.keys()).cloned().collect();
    for name in names {
        let inner = format!("{path}{}", place(&name));
        match (theirs.remove(&name), ours.remove(&name)) {
            (Some(Entry::Repeated), _) | (_, Some(Entry::Repeated)) => {}
            (Some(Entry::One(kafka)), Some(Entry::One(pelton))) => {
                values(inner, &kafka, &pelton, found);
            }
            (kafka, pelton) => {
                let told = |side: Option<Entry>| match side {
                    Some(Entry::One(value)) => shown("", &value),
                    Some(Entry::Repeated) | None => "absent".to_owned(),
                };
                found.push((inner, told(kafka), told(pelton)));
            }
        }
    }
}

/// What an array says under one name.
enum Entry {
    One(Value),
    /// Several elements that hold no arrays: Kafka answers the last of them, or each.
    Repeated,
}

/// An array's elements by name. Elements that hold arrays (a topic's partitions) are put together; what then holds nothing is
/// left out: Kafka groups by maps, and a topic without partitions does not come back.
fn named(items: &[Value]) -> BTreeMap<String, Entry> {
    let mut all = BTreeMap::new();
    for (place, item) in items.iter().filter(|item| !is_hollow(item)).enumerate() {
        let field = NAMES.iter().find_map(|name| item.get(name).filter(|it| **it != Value::Null));
        let name = match (field, item) {
            (Some(name), _) => name.to_string(),
            (None, Value::Struct(_)) => place.to_string(),
            (None, item) => item.to_string(),
        };
        let entry = match all.remove(&name) {
            None => Entry::One(item.clone()),
            Some(Entry::One(before)) => join(before, item),
            Some(Entry::Repeated) => Entry::Repeated,
        };
        all.insert(name, entry);
    }
    all
}

fn join(before: Value, item: &Value) -> Entry {
    let Value::Struct(fields) = before else { return Entry::Repeated };
    let mut is_joined = false;
    let joined = fields.into_iter().map(|(name, value)| match (value, item.get(name)) {
        (Value::List(before), Some(Value::List(more))) if holds_partitions(name) => {
            is_joined = true;
            (name, Value::List([&before[..], more].concat()))
        }
        (value, _) => (name, value),
    });
    let joined = Value::Struct(joined.collect());
    if is_joined { Entry::One(joined) } else { Entry::Repeated }
}

/// Whether an array tells of a topic's partitions.
fn holds_partitions(field: &str) -> bool {
    field.starts_with("partition") || field == "results_by_partition"
}

/// Whether an element has a name and arrays, and these are empty.
fn is_hollow(item: &Value) -> bool {
    let Value::Struct(fields) = item else { return false };
    let is_list = |value: &Value| matches!(value, Value::List(_));
    let is_nothing =
        |(name, value): &(&str, Value)| NAMES.contains(name) || *value == Value::List(Vec::new());
    fields.iter().any(|(_, value)| is_list(value)) && fields.iter().all(is_nothing)
}

/// An element's name in a path: settings and features are named, what the sequence made up is not.
fn place(name: &str) -> String {
    let is_setting =
        name.trim_matches(['"', '.']).contains('.') && !name.contains('~') && !name.contains('{');
    if is_setting { format!("[{}]", name.trim_matches('"')) } else { "[]".to_owned() }
}

fn shown(field: &str, value: &Value) -> String {
    let text = match value {
        Value::Int(code) if field.ends_with("error_code") => error_name(*code),
        other => other.to_string(),
    };
    if text.chars().count() > SHOWN_CHARS {
        return text.chars().take(SHOWN_CHARS).chain(['…']).collect();
    }
    text
}

fn error_name(code: i64) -> String {
    use kafka_protocol::error::ResponseError;
    match i16::try_from(code) {
        Ok(0) => "None".to_owned(),
        Ok(code) => ResponseError::try_from_code(code)
            .map_or_else(|| format!("error {code}"), |error| format!("{error:?}")),
        Err(_) => format!("error {code}"),
    }
}
