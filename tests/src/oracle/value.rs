//! Messages without types: any request and any answer as a tree, written and read by the schema tables of the protocol crate.
//!
//! Invariants:
//! 1. A struct in a request names the fields that matter; a field that it lacks is written with its default, or, where it is
//!    tagged, not at all. So a smaller tree is a smaller request.
//! 2. [`Value::Slot`] and [`Value::Batch`] stand in requests only, until they are resolved for one broker.
//! 3. The writer is [`crate::wire`]'s, by hand, not the encoder under test. Source: KIP-482, KIP-893.

use std::fmt;

use pelton_protocol::codec::{DecodeError, Field, Kind, Reader, Table};
use pelton_protocol::fuzz::{Target, targets};

use super::records::Spec;
use crate::wire::{Body, uvarint};

/// A field's or an element's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Null.
    Null,
    /// Any integer, and a boolean as 0 or 1.
    Int(i64),
    /// A floating point number.
    Float(f64),
    /// A topic id, or another UUID.
    Uuid([u8; 16]),
    /// A string.
    Text(String),
    /// Bytes, records among them.
    Bytes(Vec<u8>),
    /// An array.
    List(Vec<Value>),
    /// A struct's fields.
    Struct(Vec<(&'static str, Value)>),
    /// What the broker has said earlier in the sequence, by a name of ours.
    Slot(String),
    /// Record batches.
    Batch(Vec<Spec>),
}

impl Value {
    /// A string.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    /// A field of a struct.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Self> {
        let Self::Struct(fields) = self else { return None };
        fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value)
    }

    /// The elements of an array; nothing when it is none.
    #[must_use]
    pub fn items(&self) -> &[Self] {
        if let Self::List(items) = self { items } else { &[] }
    }

    /// The elements of a field that is an array.
    pub fn each<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Self> + use<'a> {
        self.get(name).map_or(&[][..], Self::items).iter()
    }

    /// A field that is an integer.
    #[must_use]
    pub fn int(&self, name: &str) -> Option<i64> {
        if let Some(Self::Int(number)) = self.get(name) { Some(*number) } else { None }
    }

    /// A field that is a string.
    #[must_use]
    pub fn str(&self, name: &str) -> Option<&str> {
        if let Some(Self::Text(text)) = self.get(name) { Some(text) } else { None }
    }

    /// Sets a field of a struct.
    ///
    /// # Panics
    /// When it is no struct.
    pub fn set(&mut self, name: &'static str, value: Self) {
        let Self::Struct(fields) = self else { panic!("{name}: not a struct") };
        match fields.iter_mut().find(|(field, _)| *field == name) {
            Some((_, old)) => *old = value,
            None => fields.push((name, value)),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Int(number) => write!(f, "{number}"),
            Self::Float(number) => write!(f, "{number}"),
            Self::Uuid(id) => bytes(f, id),
            Self::Text(text) if text.len() > 60 => {
                let start: String = text.chars().take(20).collect();
                write!(f, "\"{start}…\"({})", text.len())
            }
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Bytes(content) => bytes(f, content),
            Self::List(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if index > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
            Self::Struct(fields) => {
                f.write_str("{")?;
                for (index, (name, value)) in fields.iter().enumerate() {
                    write!(f, "{}{name}: {value}", if index > 0 { ", " } else { "" })?;
                }
                f.write_str("}")
            }
            Self::Slot(name) => write!(f, "<{name}>"),
            Self::Batch(batches) => write!(f, "{batches:?}"),
        }
    }
}

fn bytes(f: &mut fmt::Formatter<'_>, content: &[u8]) -> fmt::Result {
    f.write_str("0x")?;
    content.iter().take(16).try_for_each(|byte| write!(f, "{byte:02x}"))?;
    if content.len() > 16 { write!(f, "…({})", content.len()) } else { Ok(()) }
}

/// Whether an answer holds an error code that is `sought`.
pub fn has_code(value: &Value, sought: impl Fn(i64) -> bool + Copy) -> bool {
    match value {
        Value::Struct(fields) => fields.iter().any(|(name, value)| match value {
            Value::Int(code) => name.ends_with("error_code") && sought(*code),
            other => has_code(other, sought),
        }),
        Value::List(items) => items.iter().any(|item| has_code(item, sought)),
        Value::Null
        | Value::Int(_)
        | Value::Float(_)
        | Value::Uuid(_)
        | Value::Text(_)
        | Value::Bytes(_)
        | Value::Slot(_)
        | Value::Batch(_) => false,
    }
}

/// The request or the response of an API.
///
/// # Panics
/// When the API is not served.
#[must_use]
pub fn target(key: i16, kind: &str) -> &'static Target {
    let mut found = targets().iter().filter(|it| it.key == key && it.name.ends_with(kind));
    found.next().unwrap_or_else(|| panic!("no {kind} of API {key}"))
}

/// The fields of a message.
///
/// # Panics
/// Never: every message is a struct.
#[must_use]
pub fn table(target: &Target) -> &'static Table {
    match target.kind {
        Kind::Struct { table } => table,
        other => panic!("{}: {other:?}", target.name),
    }
}

/// What an absent field is, by its kind and the schema's default.
#[must_use]
pub fn default(field: &Field) -> Value {
    if matches!(field.default, "null" | "written") {
        return Value::Null;
    }
    match field.kind {
        Kind::Bool => Value::Int(i64::from(field.default == "true")),
        Kind::Int8 | Kind::Int16 | Kind::Uint16 | Kind::Int32 | Kind::Int64 => {
            Value::Int(number(field.default))
        }
        Kind::Float64 => Value::Float(0.0),
        Kind::Uuid => Value::Uuid([0; 16]),
        Kind::String => Value::text(field.default.trim_matches('"')),
        Kind::Bytes | Kind::Records => Value::Bytes(Vec::new()),
        Kind::Array { .. } => Value::List(Vec::new()),
        Kind::Struct { .. } => Value::Struct(Vec::new()),
    }
}

/// A number as the source writes it, a newtype's constructor around it or not.
fn number(source: &str) -> i64 {
    let inner = source.split_once('(').map_or(source, |(_, inner)| inner.trim_end_matches(')'));
    let digits = inner.replace('_', "");
    match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).unwrap_or(0),
        None => digits.parse().unwrap_or(0),
    }
}

/// A body of `version`.
#[must_use]
pub fn encode(target: &Target, version: i16, value: &Value) -> Vec<u8> {
    let flexible = target.flexible.contains(version);
    let form = Form { version, flexible };
    structure(Body::new(flexible), table(target), form, value).into_bytes()
}

#[derive(Clone, Copy)]
struct Form {
    version: i16,
    flexible: bool,
}

fn structure(body: Body, table: &Table, form: Form, value: &Value) -> Body {
    let inline = table.fields.iter().filter(|field| field.is_inline(form.version));
    let mut body = inline.fold(body, |body, field| {
        let nullable = field.nullable.contains(form.version);
        match value.get(field.name) {
            Some(value) => put(body, &field.kind, nullable, form, value),
            None => put(body, &field.kind, nullable, form, &default(field)),
        }
    });
    if !form.flexible {
        return body;
    }
    let mut tagged: Vec<(u32, Vec<u8>)> = Vec::new();
    for field in table.fields.iter().filter(|field| field.is_tagged(form.version)) {
        if let (Some(tag), Some(value)) = (field.tag, value.get(field.name)) {
            let nullable = field.nullable.contains(form.version);
            let bytes = put(Body::new(true), &field.kind, nullable, form, value).into_bytes();
            let absent = matches!(field.kind, Kind::Struct { .. }) && bytes == [0xff];
            tagged.push((tag, if absent { vec![0] } else { bytes }));
        }
    }
    tagged.sort_unstable();
    body = body.raw(&uvarint(tagged.len() as u64));
    for (tag, bytes) in tagged {
        body = body.raw(&uvarint(u64::from(tag))).raw(&uvarint(bytes.len() as u64)).raw(&bytes);
    }
    body
}

fn put(body: Body, kind: &Kind, nullable: bool, form: Form, value: &Value) -> Body {
    match (kind, value) {
        (Kind::Bool, Value::Int(number)) => body.bool(*number != 0),
        (Kind::Int8, Value::Int(number)) => body.i8(*number as i8),
        (Kind::Int16 | Kind::Uint16, Value::Int(number)) => body.i16(*number as i16),
        (Kind::Int32, Value::Int(number)) => body.i32(*number as i32),
        (Kind::Int64, Value::Int(number)) => body.i64(*number),
        (Kind::Float64, Value::Float(number)) => body.raw(&number.to_be_bytes()),
        (Kind::Uuid, Value::Uuid(id)) => body.raw(id),
        (Kind::String, Value::Text(text)) => body.string(text),
        (Kind::String, Value::Null) => body.nullable_string(None),
        (Kind::Bytes | Kind::Records, Value::Bytes(bytes)) => body.nullable_bytes(Some(bytes)),
        (Kind::Bytes | Kind::Records, Value::Null) => body.nullable_bytes(None),
        (Kind::Array { .. }, Value::Null) => body.count(-1),
        (Kind::Array { element }, Value::List(items)) => {
            body.array(items, |body, item| put(body, element, false, form, item))
        }
        (Kind::Struct { .. }, Value::Null) => body.i8(-1),
        (Kind::Struct { table }, Value::Struct(_)) => {
            let body = if nullable { body.i8(1) } else { body };
            structure(body, table, form, value)
        }
        // A value of another kind: a mutation that does not fit is the kind's zero.
        (kind, _) => body.raw(&vec![0; zero_bytes(kind)]),
    }
}

fn zero_bytes(kind: &Kind) -> usize {
    match kind {
        Kind::Bool | Kind::Int8 | Kind::Struct { .. } => 1,
        Kind::Int16 | Kind::Uint16 | Kind::String => 2,
        Kind::Int32 | Kind::Bytes | Kind::Records | Kind::Array { .. } => 4,
        Kind::Int64 | Kind::Float64 => 8,
        Kind::Uuid => 16,
    }
}

/// Reads a body of `version`; every field that the version has is there.
///
/// # Errors
/// What the reader says, when the bytes are no such message or bytes are left over.
pub fn decode(target: &Target, version: i16, body: &[u8]) -> Result<Value, String> {
    let mut reader = Reader::new(body);
    let form = Form { version, flexible: target.flexible.contains(version) };
    let value = take_struct(&mut reader, table(target), form).map_err(|error| error.to_string())?;
    match reader.remaining() {
        0 => Ok(value),
        left => Err(format!("{left} bytes left over")),
    }
}

fn take_struct(reader: &mut Reader<'_>, table: &Table, form: Form) -> Result<Value, DecodeError> {
    let mut fields = Vec::new();
    for field in table.fields.iter().filter(|field| field.is_inline(form.version)) {
        fields.push((field.name, take(reader, field, &field.kind, form)?));
    }
    if form.flexible {
        for _ in 0..reader.tag_count()? {
            let (tag, end) = reader.tag()?;
            let known = |field: &&Field| field.is_tagged(form.version) && field.tag == Some(tag);
            if let Some(field) = table.fields.iter().find(known) {
                fields.push((field.name, take(reader, field, &field.kind, form)?));
            }
            reader.finish_tag(tag, end)?;
        }
    }
    Ok(Value::Struct(fields))
}

fn take(
    reader: &mut Reader<'_>,
    field: &Field,
    kind: &Kind,
    form: Form,
) -> Result<Value, DecodeError> {
    Ok(match kind {
        Kind::Bool | Kind::Int8 => Value::Int(i64::from(reader.int8()?)),
        Kind::Int16 => Value::Int(i64::from(reader.int16()?)),
        Kind::Uint16 => Value::Int(i64::from(u16::from_be_bytes(reader.array()?))),
        Kind::Int32 => Value::Int(i64::from(reader.int32()?)),
        Kind::Int64 => Value::Int(reader.int64()?),
        Kind::Float64 => Value::Float(f64::from_be_bytes(reader.array()?)),
        Kind::Uuid => Value::Uuid(reader.array()?),
        Kind::String => match reader.string(form.flexible)? {
            None => Value::Null,
            Some(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        },
        Kind::Bytes | Kind::Records => match reader.bytes(form.flexible)? {
            None => Value::Null,
            Some(bytes) => Value::Bytes(bytes.to_vec()),
        },
        Kind::Array { element } => match reader.count(form.flexible, 1, 1)? {
            None => Value::Null,
            Some(count) => {
                let items = (0..count).map(|_| take(reader, &NEVER_NULL, element, form));
                Value::List(items.collect::<Result<_, _>>()?)
            }
        },
        Kind::Struct { table } => {
            let nullable = field.nullable.contains(form.version);
            if nullable && reader.int8()? < 1 {
                Value::Null
            } else {
                take_struct(reader, table, form)?
            }
        }
    })
}

/// Elements of arrays are never null.
static NEVER_NULL: Field = Field {
    name: "element",
    kind: Kind::Bool,
    versions: pelton_protocol::codec::Versions::NONE,
    nullable: pelton_protocol::codec::Versions::NONE,
    tag: None,
    tagged: pelton_protocol::codec::Versions::NONE,
    default: "",
};
