//! Our field tables against Apache Kafka's message schemas, when `PELTON_KAFKA_SCHEMAS` names their folder.

use std::path::Path;

use pelton_protocol::codec::{Field, Kind, Table, Versions};
use pelton_protocol::fuzz::{Target, targets};
use pelton_protocol::{control_record, group_record, metadata_record, transaction_record};
use serde_json::Value;

/// The highest version served where Kafka's newest one is unstable.
const STABLE_MAX: [(&str, i16); 2] = [("InitProducerIdRequest", 5), ("InitProducerIdResponse", 5)];

// Goal: no field differs from Kafka's in name, type, order, versions, nullability, tag or default.
// Method: the tables that the macros emit, compared with the schema files.
#[test]
fn tables_are_kafkas() {
    let Some(folder) = std::env::var_os("PELTON_KAFKA_SCHEMAS") else {
        println!("skipped: PELTON_KAFKA_SCHEMAS names no folder of Kafka's message schemas");
        return;
    };
    for target in targets() {
        let path = Path::new(&folder)
            .join("client")
            .join(target.name)
            .with_extension("json");
        let schema = read(&path);
        assert_eq!(schema["apiKey"], target.key, "{}", target.name);
        check(target, &schema);
    }
}

// Goal: as above for the records of the metadata log, and no record type is missing. Method: every schema file of
// metadata records finds its table; control records are found by name (their types are in no schema).
#[test]
fn record_tables_are_kafkas() {
    let Some(folder) = std::env::var_os("PELTON_KAFKA_SCHEMAS") else {
        println!("skipped: PELTON_KAFKA_SCHEMAS names no folder of Kafka's message schemas");
        return;
    };
    let folder = Path::new(&folder);
    let mut compared = 0;
    for file in folder.join("metadata").read_dir().unwrap() {
        let schema = read(&file.unwrap().path());
        let all = metadata_record::targets().iter();
        let found = all.filter(|target| schema["apiKey"] == target.key);
        let [target] = found.collect::<Vec<_>>()[..] else {
            panic!("{} has no table", schema["name"]);
        };
        check(target, &schema);
        compared += 1;
    }
    assert_eq!(compared, metadata_record::targets().len());
    for target in control_record::targets() {
        let path = folder.join("client").join(target.name);
        check(target, &read(&path.with_extension("json")));
    }
}

// Goal: as above for the keys and values of `__consumer_offsets` and `__transaction_state`. Method: each of ours against the
// schema of its name.
#[test]
fn coordinator_record_tables_are_kafkas() {
    let Some(folder) = std::env::var_os("PELTON_KAFKA_SCHEMAS") else {
        println!("skipped: PELTON_KAFKA_SCHEMAS names no folder of Kafka's message schemas");
        return;
    };
    let groups = group_record::targets().map(|target| ("group", target));
    let transactions = transaction_record::targets().map(|target| ("transaction", target));
    for (kind, target) in groups.chain(transactions) {
        let folder = Path::new(&folder).join(kind);
        let schema = read(&folder.join(target.name).with_extension("json"));
        assert_eq!(schema["apiKey"], target.key, "{}", target.name);
        check(target, &schema);
    }
}

#[expect(clippy::disallowed_methods, reason = "test data, named by the caller")]
fn read(path: &Path) -> Value {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let text = String::from_utf8(bytes).unwrap();
    let lines = text.lines();
    let data: Vec<&str> = lines
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    serde_json::from_str(&data.join("\n"))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn check(target: &Target, schema: &Value) {
    assert_eq!(schema["name"], target.name);
    let mut valid = versions(&schema["validVersions"]);
    if let Some((_, max)) = STABLE_MAX.iter().find(|(name, _)| *name == target.name) {
        valid.max = *max;
    }
    assert_eq!(target.versions, valid, "{}", target.name);
    assert_eq!(
        target.flexible,
        versions(&schema["flexibleVersions"]),
        "{}",
        target.name
    );
    let Kind::Struct { table } = target.kind else {
        panic!("{} is a struct", target.name);
    };
    compare(
        target.name,
        table,
        &schema["fields"],
        &schema["commonStructs"],
    );
}

fn compare(path: &str, table: &Table, fields: &Value, common: &Value) {
    let theirs = fields.as_array().unwrap();
    let names: Vec<String> = theirs.iter().map(|field| snake(&field["name"])).collect();
    let ours: Vec<&str> = table.fields.iter().map(|field| field.name).collect();
    assert_eq!(ours, names, "{path}");
    for (field, schema) in table.fields.iter().zip(theirs) {
        compare_field(&format!("{path}.{}", field.name), field, schema, common);
    }
}

fn compare_field(path: &str, field: &Field, schema: &Value, common: &Value) {
    assert_eq!(schema["type"], type_name(&field.kind), "{path}");
    // Records of coordinators have fields of which only the tagged versions are told.
    let spoken = schema.get("versions").unwrap_or(&schema["taggedVersions"]);
    assert_eq!(field.versions, versions(spoken), "{path}");
    assert_eq!(
        field.nullable,
        versions(&schema["nullableVersions"]),
        "{path}: nullable"
    );
    assert_eq!(
        field.tagged,
        versions(&schema["taggedVersions"]),
        "{path}: tagged"
    );
    assert_eq!(
        field.tag.map(u64::from),
        schema["tag"].as_u64(),
        "{path}: tag"
    );
    // A default of records is never on the wire: they are not tagged.
    if !matches!(field.kind, Kind::Records) {
        let ours = default(field.default);
        let theirs = match &schema["default"] {
            Value::String(text) => default(text),
            Value::Number(number) => default(&number.to_string()),
            Value::Bool(truth) => default(&truth.to_string()),
            // A default of null is written both ways; this one is so on the wire, too.
            Value::Null if schema.get("default").is_some() && field.is_null_written() => {
                "written".to_owned()
            }
            Value::Null if schema.get("default").is_some() => "null".to_owned(),
            Value::Null => String::new(),
            Value::Array(_) | Value::Object(_) => panic!("{path}: default of an odd type"),
        };
        assert_eq!(ours, theirs, "{path}: default");
    }
    if let Some(nested) = nested_table(&field.kind) {
        let fields = if schema["fields"].is_array() {
            &schema["fields"]
        } else {
            let structs = common.as_array().unwrap();
            &structs
                .iter()
                .find(|row| row["name"] == nested.name)
                .unwrap()["fields"]
        };
        compare(path, nested, fields, common);
    }
}

fn nested_table(kind: &Kind) -> Option<&'static Table> {
    match kind {
        Kind::Struct { table } => Some(table),
        Kind::Array { element } => nested_table(element),
        Kind::Bool
        | Kind::Int8
        | Kind::Int16
        | Kind::Uint16
        | Kind::Int32
        | Kind::Int64
        | Kind::Float64
        | Kind::Uuid
        | Kind::String
        | Kind::Bytes
        | Kind::Records => None,
    }
}

fn type_name(kind: &Kind) -> String {
    match kind {
        Kind::Array { element } => format!("[]{}", type_name(element)),
        Kind::Struct { table } => table.name.to_owned(),
        Kind::Bool
        | Kind::Int8
        | Kind::Int16
        | Kind::Uint16
        | Kind::Int32
        | Kind::Int64
        | Kind::Float64
        | Kind::Uuid
        | Kind::String
        | Kind::Bytes
        | Kind::Records => format!("{kind:?}").to_lowercase(),
    }
}

fn versions(range: &Value) -> Versions {
    match range.as_str() {
        None | Some("none") => Versions::NONE,
        Some(text) => match text.split_once('-') {
            Some((min, max)) => Versions::range(min.parse().unwrap(), max.parse().unwrap()),
            None => match text.strip_suffix('+') {
                Some(min) => Versions::since(min.parse().unwrap()),
                None => Versions::range(text.parse().unwrap(), text.parse().unwrap()),
            },
        },
    }
}

/// A default in one spelling; empty for the type's zero.
fn default(text: &str) -> String {
    let text = text.replace('_', "");
    // The model's newtypes are written as such: `LeaderEpoch(-1)`.
    let inner = text
        .split_once('(')
        .map(|(_, rest)| rest.trim_end_matches(')').to_owned());
    let text = inner.unwrap_or(text);
    let decimal = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).unwrap().to_string(),
        None => text,
    };
    match decimal.as_str() {
        "0" | "false" => String::new(),
        other => other.to_owned(),
    }
}

fn snake(name: &Value) -> String {
    let mut snake = String::new();
    let mut was_lower = false;
    for letter in name.as_str().unwrap().chars() {
        if letter.is_ascii_uppercase() && was_lower {
            snake.push('_');
        }
        was_lower = !letter.is_ascii_uppercase();
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}
