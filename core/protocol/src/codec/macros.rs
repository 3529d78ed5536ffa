//! The macros in which messages are written; how to use them stands in [`crate::codec`].
//!
//! Each field becomes a constant [`crate::codec::Field`]; the codec branches on those constants, so that the table the
//! tests compare with Kafka's schemas is the very one that decides what is on the wire.

/// Defines a request, a response or another message with a key: the struct, its default and its codec.
#[macro_export]
macro_rules! message {
    ($(#[$meta:meta])* $name:ident, key $key:literal, versions $min:literal - $max:literal,
        flexible $($flexible:literal +)? $($none:ident)? { $($body:tt)* }) => {
        $crate::structure! { $(#[$meta])* $name { $($body)* } }
        $crate::message_key! { $name, $key, $min, $max, $($flexible)? }

        impl $name {
            /// Reads a message of `version`; what follows it is left alone.
            ///
            /// # Errors
            /// When the version is not spoken or the bytes are no such message.
            pub fn decode(
                reader: &mut $crate::codec::Reader<'_>,
                version: i16,
            ) -> ::std::result::Result<Self, $crate::codec::DecodeError> {
                <Self as $crate::codec::Message>::decode(reader, version)
            }

            /// Writes the message in `version`.
            ///
            /// # Panics
            /// When the version is not spoken.
            pub fn encode(&self, writer: &mut $crate::codec::Writer, version: i16) {
                <Self as $crate::codec::Message>::encode(self, writer, version);
            }
        }
    };
}

/// Gives a struct defined elsewhere the codec of a message with a key.
#[macro_export]
macro_rules! message_for {
    ($name:ident, key $key:literal, versions $min:literal - $max:literal,
        flexible $($flexible:literal +)? $($none:ident)? { $($body:tt)* }) => {
        $crate::wire! { $name { $($body)* } }
        $crate::message_key! { $name, $key, $min, $max, $($flexible)? }
    };
}

/// Defines a struct that stands within messages.
#[macro_export]
macro_rules! structure {
    ($(#[$meta:meta])* $name:ident { $($body:tt)* }) => {
        $crate::structure_type! { $(#[$meta])* $name { $($body)* } }
        $crate::wire! { $name { $($body)* } }

        impl ::std::default::Default for $name {
            fn default() -> Self {
                <Self as $crate::codec::Wire>::initial()
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! message_key {
    ($name:ident, $key:literal, $min:literal, $max:literal, $($flexible:literal)?) => {
        impl $crate::codec::Message for $name {
            const NAME: &'static str = stringify!($name);
            const KEY: i16 = $key;
            const VERSIONS: $crate::codec::Versions = $crate::codec::Versions::range($min, $max);
            const FLEXIBLE: $crate::codec::Versions = $crate::versions!($($flexible)?);
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! structure_type {
    ($(#[$meta:meta])* $name:ident { $(
        $(#[$doc:meta])* $field:ident : $type:ty, $min:literal $(+)? $(- $max:literal)?
        $(, nullable $null_min:literal $(+)? $(- $null_max:literal)? $(default $null:ident)?)?
        $(, tag $tag:literal $tag_min:literal +)?
        $(, default $default:expr)?;
    )* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }
    };
}

/// Gives a struct defined elsewhere a codec, for use within messages.
#[macro_export]
macro_rules! wire {
    ($name:ident { $(
        $(#[$doc:meta])* $field:ident : $type:ty, $min:literal $(+)? $(- $max:literal)?
        $(, nullable $null_min:literal $(+)? $(- $null_max:literal)? $(default $null:ident)?)?
        $(, tag $tag:literal $tag_min:literal +)?
        $(, default $default:expr)?;
    )* }) => {
        const _: () = {
            use $crate::codec::{
                Context, DecodeError, Kind, Nullable, Reader, Table, Wire, Writer,
            };

            $(
                #[expect(non_upper_case_globals, reason = "named after the field it describes")]
                const $field: $crate::codec::Field = $crate::codec::Field {
                    name: stringify!($field),
                    kind: <$type as Wire>::KIND,
                    versions: $crate::versions!($min $(, $max)?),
                    nullable: $crate::versions!($($null_min $(, $null_max)?)?),
                    tag: $crate::tag!($($tag)?),
                    tagged: $crate::versions!($($tag_min)?),
                    default: concat!("" $(, stringify!($default))? $($(, stringify!($null))?)?),
                };
            )*

            impl Wire for $name {
                const KIND: Kind = Kind::Struct {
                    table: &Table { name: stringify!($name), fields: &[$($field),*] },
                };

                #[inline]
                fn bytes_min(context: Context) -> usize {
                    usize::from(context.flexible)
                    $(
                        + if $field.is_inline(context.version) {
                            <$type as Wire>::bytes_min(context)
                        } else {
                            0
                        }
                    )*
                }

                #[inline]
                fn initial() -> Self {
                    Self { $($field: $crate::initial!($type $(, $default)?),)* }
                }

                #[inline]
                fn read(
                    reader: &mut Reader<'_>,
                    context: Context,
                ) -> ::std::result::Result<Self, DecodeError> {
                    let mut decoded = Self::initial();
                    let _ = &mut decoded;
                    $(
                        if $field.is_inline(context.version) {
                            decoded.$field =
                                <$type as Wire>::read(reader, context.field($field.nullable))?;
                        }
                    )*
                    if context.flexible {
                        for _ in 0..reader.tag_count()? {
                            let (tag_number, tag_end) = reader.tag()?;
                            $($(
                                if tag_number == $tag && $field.is_tagged(context.version) {
                                    let context = context.field($field.nullable).under_tag();
                                    decoded.$field = <$type as Wire>::read(reader, context)?;
                                }
                            )?)*
                            reader.finish_tag(tag_number, tag_end)?;
                        }
                    }
                    Ok(decoded)
                }

                #[inline]
                fn write(&self, writer: &mut Writer, context: Context) {
                    $(
                        if $field.is_inline(context.version) {
                            self.$field.write(writer, context.field($field.nullable));
                        }
                    )*
                    if context.flexible {
                        let defaults = Self::initial();
                        let _ = &defaults;
                        writer.unsigned_varint(0 $($(
                            + u32::from($crate::tag_is_due!(
                                $tag, $field, self, defaults, context.version
                            ))
                        )?)*);
                        // Ascending, whatever the order of the fields: PartitionChangeRecord declares tag 8 before 6.
                        for tag_number in 0..$crate::codec::tags_end(&[$($($tag,)?)*]) {
                            let _ = tag_number;
                            $($(
                                if tag_number == $tag
                                    && $crate::tag_is_due!(
                                        $tag, $field, self, defaults, context.version
                                    )
                                {
                                    let context = context.field($field.nullable).under_tag();
                                    writer.tagged($tag, |writer| {
                                        self.$field.write(writer, context);
                                    });
                                }
                            )?)*
                        }
                    }
                }

                #[inline]
                fn visit_error_codes(&self, visit: &mut impl FnMut(i16)) {
                    let _ = &visit;
                    $($crate::visit_error_codes!($field, self, visit);)*
                }
            }

            impl Nullable for $name {
                #[inline]
                fn bytes_min_nullable(_: Context) -> usize {
                    1
                }

                fn read_nullable(
                    reader: &mut Reader<'_>,
                    context: Context,
                ) -> ::std::result::Result<Option<Self>, DecodeError> {
                    let is_null = if context.tagged {
                        reader.unsigned_varint()? == 0
                    } else {
                        reader.int8()? < 0
                    };
                    if is_null {
                        Ok(None)
                    } else {
                        <Self as Wire>::read(reader, context).map(Some)
                    }
                }

                fn write_nullable(present: Option<&Self>, writer: &mut Writer, context: Context) {
                    match present {
                        None if context.tagged => writer.unsigned_varint(0),
                        None => writer.int8(-1),
                        Some(present) => {
                            writer.int8(1);
                            present.write(writer, context);
                        }
                    }
                }
            }
        };
    };
}

/// A field's own error code, or those within it.
#[doc(hidden)]
#[macro_export]
macro_rules! visit_error_codes {
    (error_code, $this:ident, $visit:ident) => {
        $visit($this.error_code)
    };
    ($field:ident, $this:ident, $visit:ident) => {
        $this.$field.visit_error_codes($visit)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! tag_is_due {
    ($tag:literal, $field:ident, $this:ident, $defaults:ident, $version:expr) => {
        $field.is_tagged($version) && ($this.$field != $defaults.$field || $field.is_null_written())
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! versions {
    () => {
        $crate::codec::Versions::NONE
    };
    ($min:literal) => {
        $crate::codec::Versions::since($min)
    };
    ($min:literal, $max:literal) => {
        $crate::codec::Versions::range($min, $max)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! tag {
    () => {
        None
    };
    ($tag:literal) => {
        Some($tag)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! initial {
    ($type:ty) => {
        <$type as $crate::codec::Wire>::initial()
    };
    ($type:ty, $default:expr) => {
        $default
    };
}
