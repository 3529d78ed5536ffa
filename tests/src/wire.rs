//! Kafka's wire primitives, written by hand so that a test can lie with them.
//!
//! A [`Body`] knows whether its message version is flexible and writes strings, bytes and arrays in that form; `raw` puts
//! any bytes in place of a field. Source: Kafka's protocol guide, KIP-482 (flexible versions).

/// The correlation id of every request under test.
pub const CORRELATION: i32 = 7;

/// A request or a part of one, in classic or flexible form.
#[derive(Clone, Debug)]
pub struct Body {
    bytes: Vec<u8>,
    flexible: bool,
}

impl Body {
    /// An empty body of a flexible or a classic message version.
    #[must_use]
    pub fn new(flexible: bool) -> Self {
        Self { bytes: Vec::new(), flexible }
    }

    /// Appends bytes as they are.
    #[must_use]
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Appends one byte.
    #[must_use]
    pub fn i8(self, value: i8) -> Self {
        self.raw(&value.to_be_bytes())
    }

    /// Appends a boolean.
    #[must_use]
    pub fn bool(self, value: bool) -> Self {
        self.i8(i8::from(value))
    }

    /// Appends a 16-bit integer.
    #[must_use]
    pub fn i16(self, value: i16) -> Self {
        self.raw(&value.to_be_bytes())
    }

    /// Appends a 32-bit integer.
    #[must_use]
    pub fn i32(self, value: i32) -> Self {
        self.raw(&value.to_be_bytes())
    }

    /// Appends a 64-bit integer.
    #[must_use]
    pub fn i64(self, value: i64) -> Self {
        self.raw(&value.to_be_bytes())
    }

    /// Appends a string.
    #[must_use]
    pub fn string(self, value: &str) -> Self {
        self.nullable_string(Some(value))
    }

    /// Appends a string or null.
    #[must_use]
    pub fn nullable_string(self, value: Option<&str>) -> Self {
        let flexible = self.flexible;
        match (flexible, value) {
            (true, None) => self.raw(&[0]),
            (true, Some(text)) => self.raw(&uvarint(text.len() as u64 + 1)).raw(text.as_bytes()),
            (false, None) => self.i16(-1),
            (false, Some(text)) => self.i16(text.len() as i16).raw(text.as_bytes()),
        }
    }

    /// Appends a byte field (records among them) or null.
    #[must_use]
    pub fn nullable_bytes(self, value: Option<&[u8]>) -> Self {
        let flexible = self.flexible;
        match (flexible, value) {
            (true, None) => self.raw(&[0]),
            (true, Some(bytes)) => self.raw(&uvarint(bytes.len() as u64 + 1)).raw(bytes),
            (false, None) => self.i32(-1),
            (false, Some(bytes)) => self.i32(bytes.len() as i32).raw(bytes),
        }
    }

    /// Appends an array's count: −1 is null, `i32::MAX` is a lie.
    #[must_use]
    pub fn count(self, count: i32) -> Self {
        if self.flexible {
            self.raw(&uvarint((i64::from(count) + 1) as u64))
        } else {
            self.i32(count)
        }
    }

    /// Appends an empty tag buffer where the version has one.
    #[must_use]
    pub fn tags(self) -> Self {
        if self.flexible { self.raw(&[0]) } else { self }
    }

    /// Appends what `each` writes for every item, preceded by the count.
    #[must_use]
    pub fn array<T>(self, items: &[T], each: impl Fn(Self, &T) -> Self) -> Self {
        let counted = self.count(items.len() as i32);
        items.iter().fold(counted, each)
    }

    /// The bytes so far.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Puts the four-byte length before `payload`.
#[must_use]
pub fn frame(payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as i32).to_be_bytes().to_vec();
    bytes.extend_from_slice(payload);
    bytes
}

/// A request header: key, version, correlation id, client id (never compact), and tags where the version has them.
#[must_use]
pub fn header(key: i16, version: i16, client_id: Option<&[u8]>, tags: &[u8]) -> Vec<u8> {
    let body = Body::new(false).i16(key).i16(version).i32(CORRELATION);
    let body = match client_id {
        None => body.i16(-1),
        Some(id) => body.i16(id.len() as i16).raw(id),
    };
    body.raw(tags).into_bytes()
}

/// A whole frame of an ordinary request.
#[must_use]
pub fn request(key: i16, version: i16, flexible: bool, body: &[u8]) -> Vec<u8> {
    let tags: &[u8] = if flexible { &[0] } else { &[] };
    let mut payload = header(key, version, Some(b"pelton-tests"), tags);
    payload.extend_from_slice(body);
    frame(&payload)
}

/// An unsigned varint.
#[must_use]
pub fn uvarint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 127 {
        bytes.push((value & 127) as u8 | 128);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A zigzag varint.
#[must_use]
pub fn varint(value: i64) -> Vec<u8> {
    uvarint(((value << 1) ^ (value >> 63)) as u64)
}
