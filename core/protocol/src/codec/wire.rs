//! What can stand in a message: the traits, and their implementations for Kafka's types.

use bytes::Bytes;
use pelton_model::{
    LeaderEpoch, NodeId, Offset, PartitionEpoch, PartitionId, ProducerEpoch, ProducerId, Sequence,
    Timestamp, TopicId,
};

use super::{DecodeError, Kind, Reader, Records, Str, Versions, Writer};

/// Elements of an array for which room is made before they are read.
const ELEMENTS_RESERVED_MAX: usize = 64;

/// What a field's encoding depends on.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The message's version.
    pub version: i16,
    /// Whether the version has compact lengths and tagged fields.
    pub flexible: bool,
    /// Whether the field may be null in this version.
    pub nullable: bool,
    /// Whether the field stands under a tag, where a varint tells whether a struct is there.
    pub tagged: bool,
}

impl Context {
    /// This context for a field that may be null in `nullable`.
    #[must_use]
    #[inline]
    pub const fn field(self, nullable: Versions) -> Self {
        Self {
            nullable: nullable.contains(self.version),
            tagged: false,
            ..self
        }
    }

    /// This context under a tag.
    #[must_use]
    #[inline]
    pub const fn under_tag(self) -> Self {
        Self {
            tagged: true,
            ..self
        }
    }
}

/// A type that stands in a message.
pub trait Wire: Sized {
    /// Its schema.
    const KIND: Kind;

    /// The least bytes a value takes; bounds counts.
    fn bytes_min(context: Context) -> usize;

    /// The value of a field that a version does not carry and that names no default.
    fn initial() -> Self;

    /// Reads a value.
    ///
    /// # Errors
    /// [`DecodeError`], when the bytes are no such value.
    fn read(reader: &mut Reader<'_>, context: Context) -> Result<Self, DecodeError>;

    /// Writes the value.
    fn write(&self, writer: &mut Writer, context: Context);

    /// Gives `visit` every error code within the value: its fields called `error_code`, 0 included.
    #[inline]
    fn visit_error_codes(&self, _visit: &mut impl FnMut(i16)) {}
}

/// A type that may be null.
pub trait Nullable: Wire {
    /// The least bytes a value or null takes: null is no shorter than empty, save for structs.
    #[inline]
    #[must_use]
    fn bytes_min_nullable(context: Context) -> usize {
        Self::bytes_min(context)
    }

    /// Reads a value or null.
    ///
    /// # Errors
    /// [`DecodeError`], when the bytes are neither.
    fn read_nullable(
        reader: &mut Reader<'_>,
        context: Context,
    ) -> Result<Option<Self>, DecodeError>;

    /// Writes the value or null.
    fn write_nullable(value: Option<&Self>, writer: &mut Writer, context: Context);
}

/// A request, response or metadata record: what has a key and versions of its own.
pub trait Message: Wire {
    /// Kafka's name.
    const NAME: &'static str;
    /// The API key, or the record type.
    const KEY: i16;
    /// The versions spoken.
    const VERSIONS: Versions;
    /// The versions with compact lengths and tagged fields.
    const FLEXIBLE: Versions;

    /// Reads a message of `version`; what follows it is left alone.
    ///
    /// # Errors
    /// `UnsupportedVersion` outside [`Message::VERSIONS`]; others when the bytes are no such message.
    fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(version) {
            return Err(DecodeError::UnsupportedVersion {
                key: Self::KEY,
                version,
            });
        }
        Self::read(reader, context::<Self>(version))
    }

    /// Writes the message in `version`.
    ///
    /// # Panics
    /// When `version` is outside [`Message::VERSIONS`]: it was checked when the request came in.
    fn encode(&self, writer: &mut Writer, version: i16) {
        assert!(Self::VERSIONS.contains(version));
        self.write(writer, context::<Self>(version));
    }
}

const fn context<M: Message>(version: i16) -> Context {
    Context {
        version,
        flexible: M::FLEXIBLE.contains(version),
        nullable: false,
        tagged: false,
    }
}

macro_rules! fixed {
    ($($type:ty, $kind:ident, $bytes:literal, $zero:expr,
        |$reader:ident| $read:expr, |$value:ident, $writer:ident| $write:expr;)*) => {$(
        impl Wire for $type {
            const KIND: Kind = Kind::$kind;
            #[inline]
            fn bytes_min(_: Context) -> usize {
                $bytes
            }
            #[inline]
            fn initial() -> Self {
                $zero
            }
            #[inline]
            fn read($reader: &mut Reader<'_>, _: Context) -> Result<Self, DecodeError> {
                $read
            }
            #[inline]
            fn write(&self, $writer: &mut Writer, _: Context) {
                let $value = *self;
                $write
            }
        }
    )*};
}

fixed! {
    bool, Bool, 1, false, |r| Ok(r.int8()? != 0), |v, w| w.int8(i8::from(v));
    i8, Int8, 1, 0, |r| r.int8(), |v, w| w.int8(v);
    i16, Int16, 2, 0, |r| r.int16(), |v, w| w.int16(v);
    u16, Uint16, 2, 0, |r| Ok(r.int16()?.cast_unsigned()), |v, w| w.int16(v.cast_signed());
    i32, Int32, 4, 0, |r| r.int32(), |v, w| w.int32(v);
    i64, Int64, 8, 0, |r| r.int64(), |v, w| w.int64(v);
    f64, Float64, 8, 0.0, |r| Ok(Self::from_be_bytes(r.array()?)), |v, w| w.raw(&v.to_be_bytes());
    TopicId, Uuid, 16, Self::ZERO, |r| r.uuid(), |v, w| w.uuid(v);
    NodeId, Int32, 4, Self(0), |r| r.int32().map(Self), |v, w| w.int32(v.0);
    PartitionId, Int32, 4, Self(0), |r| r.int32().map(Self), |v, w| w.int32(v.0);
    LeaderEpoch, Int32, 4, Self(0), |r| r.int32().map(Self), |v, w| w.int32(v.0);
    PartitionEpoch, Int32, 4, Self(0), |r| r.int32().map(Self), |v, w| w.int32(v.0);
    Sequence, Int32, 4, Self(0), |r| r.int32().map(Self), |v, w| w.int32(v.0);
    Offset, Int64, 8, Self(0), |r| r.int64().map(Self), |v, w| w.int64(v.0);
    ProducerId, Int64, 8, Self(0), |r| r.int64().map(Self), |v, w| w.int64(v.0);
    Timestamp, Int64, 8, Self(0), |r| r.int64().map(Self), |v, w| w.int64(v.0);
    ProducerEpoch, Int16, 2, Self(0), |r| r.int16().map(Self), |v, w| w.int16(v.0);
}

macro_rules! lengthened {
    ($($type:ty, $kind:ident, $bytes:literal, $zero:expr,
        |$reader:ident, $read_flexible:ident| $read:expr,
        |$value:ident, $writer:ident, $flexible:ident| $write:expr, $null:ident;)*) => {$(
        impl Wire for $type {
            const KIND: Kind = Kind::$kind;
            #[inline]
            fn bytes_min(context: Context) -> usize {
                if context.flexible { 1 } else { $bytes }
            }
            #[inline]
            fn initial() -> Self {
                $zero
            }
            #[inline]
            fn read(reader: &mut Reader<'_>, context: Context) -> Result<Self, DecodeError> {
                match Self::read_nullable(reader, context)? {
                    Some(value) => Ok(value),
                    None => Err(reader.unexpected_null()),
                }
            }
            #[inline]
            fn write(&self, $writer: &mut Writer, context: Context) {
                let ($value, $flexible) = (self, context.flexible);
                $write;
            }
        }

        impl Nullable for $type {
            #[inline]
            fn read_nullable(
                $reader: &mut Reader<'_>,
                context: Context,
            ) -> Result<Option<Self>, DecodeError> {
                let $read_flexible = context.flexible;
                $read
            }
            fn write_nullable(value: Option<&Self>, writer: &mut Writer, context: Context) {
                match value {
                    Some(value) => value.write(writer, context),
                    None => writer.$null(context.flexible),
                }
            }
        }
    )*};
}

lengthened! {
    Str, String, 2, Self::default(), |r, f| r.str(f),
        |v, w, f| w.string(v, f), null_string;
    String, String, 2, Self::new(), |r, f| Ok(r.string(f)?.map(|text| Self::from_utf8_lossy(text).into_owned())),
        |v, w, f| w.string(v, f), null_string;
    Bytes, Bytes, 4, Self::new(), |r, f| r.bytes(f),
        |v, w, f| { w.length(v.len(), f); w.raw(v) }, null_length;
    Vec<u8>, Bytes, 4, Self::new(), |r, f| Ok(r.bytes(f)?.map(|bytes| bytes.to_vec())),
        |v, w, f| { w.length(v.len(), f); w.raw(v) }, null_length;
    Records, Records, 4, Self::EMPTY, |r, f| r.records(f),
        |v, w, f| w.records(v, f), null_length;
}

impl<T: Wire> Wire for Vec<T> {
    const KIND: Kind = Kind::Array { element: &T::KIND };

    #[inline]
    fn bytes_min(context: Context) -> usize {
        if context.flexible { 1 } else { 4 }
    }

    #[inline]
    fn initial() -> Self {
        Self::new()
    }

    #[inline]
    fn read(reader: &mut Reader<'_>, context: Context) -> Result<Self, DecodeError> {
        match Self::read_nullable(reader, context)? {
            Some(elements) => Ok(elements),
            None => Err(reader.unexpected_null()),
        }
    }

    #[inline]
    fn write(&self, writer: &mut Writer, context: Context) {
        writer.length(self.len(), context.flexible);
        for element in self {
            element.write(writer, context);
        }
    }

    #[inline]
    fn visit_error_codes(&self, visit: &mut impl FnMut(i16)) {
        for element in self {
            element.visit_error_codes(visit);
        }
    }
}

impl<T: Wire> Nullable for Vec<T> {
    #[inline]
    fn read_nullable(
        reader: &mut Reader<'_>,
        context: Context,
    ) -> Result<Option<Self>, DecodeError> {
        let bytes_min = T::bytes_min(context);
        let Some(count) = reader.count(context.flexible, bytes_min, size_of::<T>())? else {
            return Ok(None);
        };
        let mut elements = Self::with_capacity(count.min(ELEMENTS_RESERVED_MAX));
        for _ in 0..count {
            elements.push(T::read(reader, context)?);
        }
        Ok(Some(elements))
    }

    fn write_nullable(value: Option<&Self>, writer: &mut Writer, context: Context) {
        match value {
            Some(elements) => elements.write(writer, context),
            None => writer.null_length(context.flexible),
        }
    }
}

impl<T: Nullable> Wire for Option<T> {
    const KIND: Kind = T::KIND;

    #[inline]
    fn bytes_min(context: Context) -> usize {
        T::bytes_min_nullable(context)
    }

    #[inline]
    fn initial() -> Self {
        None
    }

    #[inline]
    fn read(reader: &mut Reader<'_>, context: Context) -> Result<Self, DecodeError> {
        if context.nullable {
            T::read_nullable(reader, context)
        } else {
            T::read(reader, context).map(Some)
        }
    }

    #[inline]
    fn write(&self, writer: &mut Writer, context: Context) {
        match self {
            value if context.nullable => T::write_nullable(value.as_ref(), writer, context),
            Some(value) => value.write(writer, context),
            None => T::initial().write(writer, context),
        }
    }

    #[inline]
    fn visit_error_codes(&self, visit: &mut impl FnMut(i16)) {
        if let Some(value) = self {
            value.visit_error_codes(visit);
        }
    }
}
