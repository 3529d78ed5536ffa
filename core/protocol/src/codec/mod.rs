//! The codec: a bounded reader, a writer, and a macro in which a message file reads like Kafka's schema.
//!
//! # How to add a message
//!
//! One file in `message/`, one row in [`crate::api`]. A field line is
//! `name: RustType, VERSIONS [, nullable VERSIONS [default null]] [, tag T N+] [, default VALUE];` where VERSIONS is
//! `3+` (from 3 on) or `0-12` (a closed range); a message that is never flexible says `flexible none`. Order is wire order; names are Kafka's in snake_case; every field has a doc.
//!
//! ```
//! use pelton_protocol::codec::Str;
//!
//! pelton_protocol::structure! {
//!     /// A nested struct, named as in Kafka's schema.
//!     Endpoint {
//!         /// The host.
//!         host: Str, 0+;
//!         /// The port.
//!         port: i32, 0+, default -1;
//!     }
//! }
//! pelton_protocol::message! {
//!     /// A top-level message: key, versions served, first flexible version.
//!     ExampleRequest, key 999, versions 0-4, flexible 2+ {
//!         /// Null is read and written from version 1 on.
//!         endpoints: Option<Vec<Endpoint>>, 0+, nullable 1+ default null;
//!         /// Tagged (number 0) from version 3 on.
//!         rack: Option<Str>, 3+, nullable 3+ default null, tag 0 3+;
//!     }
//! }
//! let mut writer = pelton_protocol::codec::Writer::new();
//! ExampleRequest::default().encode(&mut writer, 3);
//! let bytes = writer.into_bytes();
//! let mut reader = pelton_protocol::codec::Reader::new(&bytes);
//! assert_eq!(ExampleRequest::decode(&mut reader, 3), Ok(ExampleRequest::default()));
//! ```
//!
//! Where the struct lives elsewhere (`pelton_model::record_type`), [`crate::wire`] and [`crate::message_for`] give it a
//! codec from the same field lines, naming *all* of its public fields:
//!
//! ```text
//! wire! { BrokerEndpoint { name: String, 0+; host: String, 0+; port: u16, 0+; security_protocol: i16, 0+; } }
//! message_for! { TopicRecord, key 2, versions 0-0, flexible 0+ { name: String, 0+; topic_id: TopicId, 0+; } }
//! // then `<TopicRecord as Message>::decode(&mut reader, version)`, `record.encode(&mut writer, version)`
//! ```
//!
//! Types: `bool i8 i16 u16 i32 i64 f64`, [`pelton_model::TopicId`] (uuid), [`Str`] or `String`, `Bytes` or `Vec<u8>`,
//! [`Records`], `Vec<T>`, a struct of this macro, `Option<T>` of any nullable one, and the model's id newtypes
//! (`LeaderEpoch`, `Offset`, …; their defaults are written `LeaderEpoch(-1)`).
//!
//! # Invariants
//! 1. Decoding never panics and never allocates by claim: a count is refused unless every element could still fit in
//!    the bytes that remain, capacity grows with elements read, and decoded arrays together stay within
//!    16 MiB plus four times the input ([`Reader`]).
//! 2. Null, empty, default and absent are kept apart. `Option` fields are null by default.
//! 3. A tagged field that equals its default is omitted; a tag is written only in its own versions; tags are written in
//!    ascending order and read in any; unknown tags are skipped.
//! 4. What Apache Kafka's readers tolerate is tolerated: any negative length is null where null may be, any non-zero
//!    byte is true, ill-formed UTF-8 is read as U+FFFD, bytes after the body are left alone.
//! 5. `Some`/`None` is written as the version demands: where a version has no null, null is written as empty.
//!
//! It does not keep unknown tagged fields, and does not reject values that a version cannot carry: they are dropped.
//! Source: KIP-482 (flexible versions), KIP-893 (nullable structs), the 4.3 message schemas.

mod macros;
mod reader;
mod records;
mod schema;
mod wire;
mod writer;

pub use reader::{DecodeError, Reader};
pub use records::{FrameSplitter, Records};
pub use schema::{Field, Kind, Table, Versions, tags_end};
pub use smol_str::SmolStr as Str;
pub use wire::{Context, Message, Nullable, Wire};
pub use writer::Writer;
