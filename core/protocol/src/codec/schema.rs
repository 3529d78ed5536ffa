//! Message schemas as static data, emitted by the macros beside each codec.
//!
//! They exist so that a test can compare them with Kafka's own, field by field; the codec uses the version ranges.

/// An inclusive range of versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The first version.
    pub min: i16,
    /// The last version; `i16::MAX` when the range is open.
    pub max: i16,
}

impl Versions {
    /// No version at all.
    pub const NONE: Self = Self { min: 1, max: 0 };

    /// From `min` on.
    #[must_use]
    pub const fn since(min: i16) -> Self {
        Self { min, max: i16::MAX }
    }

    /// From `min` to `max`, both included.
    #[must_use]
    pub const fn range(min: i16, max: i16) -> Self {
        assert!(min <= max);
        Self { min, max }
    }

    /// Whether `version` is in the range.
    #[must_use]
    #[inline]
    pub const fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }
}

/// A wire type, with Kafka's names.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `bool`
    Bool,
    /// `int8`
    Int8,
    /// `int16`
    Int16,
    /// `uint16`
    Uint16,
    /// `int32`
    Int32,
    /// `int64`
    Int64,
    /// `float64`
    Float64,
    /// `uuid`
    Uuid,
    /// `string`
    String,
    /// `bytes`
    Bytes,
    /// `records`
    Records,
    /// `[]T`
    Array {
        /// The type of an element.
        element: &'static Kind,
    },
    /// A struct.
    Struct {
        /// Its fields.
        table: &'static Table,
    },
}

/// A struct's name and fields in wire order.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Kafka's name of the struct or message.
    pub name: &'static str,
    /// The fields.
    pub fields: &'static [Field],
}

/// A field's row in the schema.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Kafka's name in `snake_case`.
    pub name: &'static str,
    /// The type.
    pub kind: Kind,
    /// The versions that have the field.
    pub versions: Versions,
    /// The versions in which it may be null.
    pub nullable: Versions,
    /// Its tag; meaningful in the `tagged` versions.
    pub tag: Option<u32>,
    /// The versions in which it is tagged.
    pub tagged: Versions,
    /// The default as written in the source: empty where it is the type's zero, `null` where it is null,
    /// `written` where it is null and is written all the same.
    pub default: &'static str,
}

impl Field {
    /// Whether `version` carries the field among the untagged ones.
    #[must_use]
    #[inline]
    pub const fn is_inline(&self, version: i16) -> bool {
        self.versions.contains(version) && !self.tagged.contains(version)
    }

    /// Whether `version` carries the field under its tag.
    #[must_use]
    #[inline]
    pub const fn is_tagged(&self, version: i16) -> bool {
        self.versions.contains(version) && self.tagged.contains(version)
    }

    /// Whether null is written under the tag though it is the initial value: Kafka takes an absent struct for an empty one
    /// where the schema's default is the JSON null and not the text.
    #[must_use]
    #[inline]
    pub const fn is_null_written(&self) -> bool {
        matches!(self.default.as_bytes(), b"written")
    }
}

/// One more than the highest of `tags`; 0 without any.
#[doc(hidden)]
#[must_use]
#[inline]
pub const fn tags_end(tags: &[u32]) -> u32 {
    let mut end = 0;
    let mut index = 0;
    while index < tags.len() {
        if end <= tags[index] {
            end = tags[index] + 1;
        }
        index += 1;
    }
    end
}
