//! A stream of bytes cut into records.
//!
//! Invariants:
//! 1. a record's bytes are exactly what stood between two separators: nothing is trimmed or decoded;
//! 2. what waits for its separator is bounded by the largest record, so an endless line ends the command.

/// How input is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InputFormat {
    /// What ends a record.
    pub(crate) record_separator: Vec<u8>,
    /// What stands between key and value; without it a record has no key.
    pub(crate) key_separator: Option<Vec<u8>>,
    /// A key or value that is exactly this is null.
    pub(crate) null: Option<Vec<u8>>,
    /// The most bytes one record may have.
    pub(crate) record_bytes_max: usize,
}

/// A record as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InputRecord {
    /// The key.
    pub(crate) key: Option<Vec<u8>>,
    /// The value.
    pub(crate) value: Option<Vec<u8>>,
}

/// Input that makes no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InputError {
    /// The record of this number (from 1) is larger than allowed.
    TooLarge {
        /// Its number.
        number: u64,
        /// The bound, bytes.
        bytes_max: usize,
    },
    /// The record of this number has no key separator.
    NoKey {
        /// Its number.
        number: u64,
    },
}

impl std::fmt::Display for InputError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLarge { number, bytes_max } => {
                write!(
                    f,
                    "record {number} of the input has more than {bytes_max} bytes"
                )
            }
            Self::NoKey { number } => {
                write!(f, "record {number} of the input has no key separator in it")
            }
        }
    }
}

/// Cuts bytes into records as they come.
#[derive(Debug)]
pub(crate) struct Splitter {
    format: InputFormat,
    pending: Vec<u8>,
    /// Where the search for a separator goes on.
    searched: usize,
    count: u64,
}

impl Splitter {
    /// Starts with nothing read.
    pub(crate) fn new(format: InputFormat) -> Self {
        assert!(!format.record_separator.is_empty());
        Self {
            format,
            pending: Vec::new(),
            searched: 0,
            count: 0,
        }
    }

    /// Takes what was read and returns the records that are whole now.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<InputRecord>, InputError> {
        self.pending.extend_from_slice(bytes);
        let separator_bytes = self.format.record_separator.len();
        let mut records = Vec::new();
        let mut start = 0;
        let mut from = self.searched;
        while let Some(at) = find(&self.pending[from..], &self.format.record_separator) {
            let end = from + at;
            records.push(self.record(start, end)?);
            start = end + separator_bytes;
            from = start;
        }
        self.pending.drain(..start);
        if self.pending.len() > self.format.record_bytes_max + separator_bytes {
            return Err(self.too_large());
        }
        // A separator may be cut in half by the end of what was read.
        self.searched = self.pending.len().saturating_sub(separator_bytes - 1);
        Ok(records)
    }

    /// The last record, if the input did not end in a separator.
    pub(crate) fn finish(&mut self) -> Result<Option<InputRecord>, InputError> {
        if self.pending.is_empty() {
            return Ok(None);
        }
        let record = self.record(0, self.pending.len())?;
        self.pending.clear();
        self.searched = 0;
        Ok(Some(record))
    }

    fn too_large(&self) -> InputError {
        InputError::TooLarge {
            number: self.count + 1,
            bytes_max: self.format.record_bytes_max,
        }
    }

    fn record(&mut self, start: usize, end: usize) -> Result<InputRecord, InputError> {
        let bytes = &self.pending[start..end];
        if bytes.len() > self.format.record_bytes_max {
            return Err(self.too_large());
        }
        self.count += 1;
        let null = self.format.null.as_deref();
        let field = |bytes: &[u8]| (null != Some(bytes)).then(|| bytes.to_vec());
        let Some(separator) = &self.format.key_separator else {
            return Ok(InputRecord {
                key: None,
                value: field(bytes),
            });
        };
        let at = find(bytes, separator).ok_or(InputError::NoKey { number: self.count })?;
        Ok(InputRecord {
            key: field(&bytes[..at]),
            value: field(&bytes[at + separator.len()..]),
        })
    }
}

/// Where `needle` (not empty) first stands in `hay`.
fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    let first = *needle.first()?;
    let mut from = 0;
    while let Some(at) = hay.get(from..)?.iter().position(|&byte| byte == first) {
        if hay[from + at..].starts_with(needle) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(record: &str, key: Option<&str>, null: Option<&str>) -> InputFormat {
        InputFormat {
            record_separator: record.as_bytes().to_vec(),
            key_separator: key.map(|text| text.as_bytes().to_vec()),
            null: null.map(|text| text.as_bytes().to_vec()),
            record_bytes_max: 10,
        }
    }

    type Pair<'a> = (Option<&'a str>, Option<&'a str>);

    // Goal: records come out the same however the input is cut. Method: push it in pieces of every size.
    #[test]
    fn cut_anywhere() {
        #[track_caller]
        fn check(format: &InputFormat, text: &str, expected: &[Pair<'_>]) {
            for piece in 1..=text.len().max(1) {
                let mut splitter = Splitter::new(format.clone());
                let mut records = Vec::new();
                for bytes in text.as_bytes().chunks(piece) {
                    records.extend(splitter.push(bytes).expect("valid input"));
                }
                records.extend(splitter.finish().expect("valid input"));
                let wanted: Vec<_> = expected
                    .iter()
                    .map(|(key, value)| InputRecord {
                        key: key.map(|text| text.as_bytes().to_vec()),
                        value: value.map(|text| text.as_bytes().to_vec()),
                    })
                    .collect();
                assert_eq!(records, wanted, "{text:?} in pieces of {piece}");
            }
        }
        let lines = format("\n", None, None);
        check(&lines, "", &[]);
        check(&lines, "a\nb\n", &[(None, Some("a")), (None, Some("b"))]);
        check(&lines, "a\nb", &[(None, Some("a")), (None, Some("b"))]);
        check(&lines, "\n\n", &[(None, Some("")), (None, Some(""))]);
        check(&lines, " a\r\n", &[(None, Some(" a\r"))]);
        let keyed = format("\n", Some(":"), Some("NULL"));
        check(&keyed, "k:v\n", &[(Some("k"), Some("v"))]);
        check(
            &keyed,
            "k:v:w\n:\n",
            &[(Some("k"), Some("v:w")), (Some(""), Some(""))],
        );
        check(
            &keyed,
            "k:NULL\nNULL:v",
            &[(Some("k"), None), (None, Some("v"))],
        );
        let long = format("--;", None, None);
        check(
            &long,
            "a-;b--;c---;",
            &[(None, Some("a-;b")), (None, Some("c-"))],
        );
    }

    // Goal: bad input is named by its record. Method: a record without key, and one too large in one or many pieces.
    #[test]
    fn refusals() {
        let mut splitter = Splitter::new(format("\n", Some(":"), None));
        assert_eq!(
            splitter.push(b"a:b\nc\n"),
            Err(InputError::NoKey { number: 2 })
        );
        let mut splitter = Splitter::new(format("\n", None, None));
        let too_large = InputError::TooLarge {
            number: 1,
            bytes_max: 10,
        };
        assert_eq!(splitter.push(b"12345678901\n"), Err(too_large.clone()));
        let mut splitter = Splitter::new(format("\n", None, None));
        assert_eq!(splitter.push(b"12345678901"), Ok(Vec::new()));
        assert_eq!(splitter.push(b"2"), Err(too_large));
    }
}
