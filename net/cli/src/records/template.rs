//! How a record is printed: literal bytes and `{fields}`.

use std::io::{self, Write};
use std::str::FromStr;

/// A field of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Topic,
    Partition,
    Offset,
    Timestamp,
    Key,
    Value,
    Headers,
}

const FIELDS: [(&str, Field); 7] = [
    ("topic", Field::Topic),
    ("partition", Field::Partition),
    ("offset", Field::Offset),
    ("timestamp", Field::Timestamp),
    ("key", Field::Key),
    ("value", Field::Value),
    ("headers", Field::Headers),
];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(Vec<u8>),
    Field(Field),
}

/// A parsed `--format`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Part>);

/// A record's fields, borrowed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown<'a> {
    /// The topic's name.
    pub(crate) topic: &'a str,
    /// The partition.
    pub(crate) partition: i32,
    /// The offset.
    pub(crate) offset: i64,
    /// Milliseconds since 1970; −1 for none.
    pub(crate) timestamp: i64,
    /// The key.
    pub(crate) key: Option<&'a [u8]>,
    /// The value.
    pub(crate) value: Option<&'a [u8]>,
    /// The headers in their order.
    pub(crate) headers: &'a [(&'a [u8], Option<&'a [u8]>)],
}

impl FromStr for Template {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (literal, after) = rest.split_once('{').unwrap_or((rest, ""));
            let has_field = literal.len() < rest.len();
            if !literal.is_empty() {
                let bytes =
                    super::unescape(literal).ok_or("escapes are \\t \\n \\r \\0 \\\\ and \\xHH")?;
                parts.push(Part::Literal(bytes));
            }
            rest = after;
            if has_field {
                let (name, after) = after.split_once('}').ok_or("a { without its }")?;
                parts.push(Part::Field(field(name)?));
                rest = after;
            }
        }
        Ok(Self(parts))
    }
}

fn field(name: &str) -> Result<Field, String> {
    FIELDS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, field)| *field)
        .ok_or_else(|| {
            let known: Vec<_> = FIELDS
                .iter()
                .map(|(known, _)| format!("{{{known}}}"))
                .collect();
            format!("{{{name}}} is no field; the fields are {}", known.join(" "))
        })
}

impl Template {
    /// Writes one record; null is written as `null`.
    pub(crate) fn write(
        &self,
        record: &Shown<'_>,
        null: &[u8],
        out: &mut impl Write,
    ) -> io::Result<()> {
        for part in &self.0 {
            match part {
                Part::Literal(bytes) => out.write_all(bytes)?,
                Part::Field(field) => write_field(*field, record, null, out)?,
            }
        }
        Ok(())
    }
}

fn write_field(
    field: Field,
    record: &Shown<'_>,
    null: &[u8],
    out: &mut impl Write,
) -> io::Result<()> {
    match field {
        Field::Topic => out.write_all(record.topic.as_bytes()),
        Field::Partition => write!(out, "{}", record.partition),
        Field::Offset => write!(out, "{}", record.offset),
        Field::Timestamp => write!(out, "{}", record.timestamp),
        Field::Key => out.write_all(record.key.unwrap_or(null)),
        Field::Value => out.write_all(record.value.unwrap_or(null)),
        Field::Headers => write_headers(record.headers, null, out),
    }
}

fn write_headers(
    headers: &[(&[u8], Option<&[u8]>)],
    null: &[u8],
    out: &mut impl Write,
) -> io::Result<()> {
    for (index, (name, value)) in headers.iter().enumerate() {
        if index > 0 {
            out.write_all(b",")?;
        }
        out.write_all(name)?;
        out.write_all(b"=")?;
        out.write_all(value.unwrap_or(null))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: templates print what they say. Method: a table over one record.
    #[test]
    fn prints() {
        fn check(format: &str, expected: &str) {
            let template: Template = format.parse().expect("a valid format");
            let record = Shown {
                topic: "t",
                partition: 2,
                offset: 7,
                timestamp: 99,
                key: None,
                value: Some(b"v"),
                headers: &[(b"a", Some(b"1")), (b"b", None)],
            };
            let mut out = Vec::new();
            template
                .write(&record, b"NULL", &mut out)
                .expect("memory takes all");
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
        check("{value}\\n", "v\n");
        check(
            "{topic}-{partition}@{offset} {timestamp}\\t{key}={value}",
            "t-2@7 99\tNULL=v",
        );
        check("{headers}", "a=1,b=NULL");
        check("", "");
        check("x}", "x}");
    }

    // Goal: mistakes are explained. Method: one of each.
    #[test]
    fn mistakes() {
        fn check(format: &str, part: &str) {
            let error = format.parse::<Template>().expect_err("refused");
            assert!(error.contains(part), "{error}");
        }
        check("{valu}", "{valu} is no field");
        check("{value", "without its }");
        check("\\q", "escapes are");
    }
}
