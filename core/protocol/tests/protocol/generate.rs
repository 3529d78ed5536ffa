//! Random valid messages as bytes, made from the schema tables alone.
//!
//! The bytes are canonical: a tagged field that equals its default is left out, tags ascend, booleans are 0 or 1. So a
//! correct codec gives the very same bytes back. It shares no code with the encoder.

use pelton_protocol::codec::{Field, Kind, Table};
use pelton_protocol::fuzz::Target;

/// A small deterministic generator (splitmix64): a failing case is named by its seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound).unwrap()).unwrap()
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn integer(&mut self) -> i64 {
        match self.below(8) {
            0 => 0,
            1 => -1,
            2 => 1,
            3 => i64::MAX,
            4 => i64::MIN,
            _ => self.next().cast_signed(),
        }
    }
}

/// The bytes of a random message of `version`.
pub(crate) fn message(target: &Target, version: i16, random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    let flexible = target.flexible.contains(version);
    value(&target.kind, version, flexible, None, random, &mut out);
    out
}

/// Writes a value; one that differs from the default of `unlike`, when given.
fn value(
    kind: &Kind,
    version: i16,
    flexible: bool,
    unlike: Option<&Field>,
    random: &mut Random,
    out: &mut Vec<u8>,
) {
    match *kind {
        Kind::Bool => out.push(u8::from(unlike.is_some() || random.chance(50))),
        Kind::Int8 => integer::<1>(unlike, random, out),
        Kind::Int16 | Kind::Uint16 => integer::<2>(unlike, random, out),
        Kind::Int32 => integer::<4>(unlike, random, out),
        Kind::Int64 => integer::<8>(unlike, random, out),
        Kind::Float64 => out.extend(f64::from_bits(random.next() >> 2).to_be_bytes()),
        Kind::Uuid => {
            let mut id = [0; 16];
            if unlike.is_some() || random.chance(80) {
                id[..8].copy_from_slice(&random.next().to_be_bytes());
                id[8..].copy_from_slice(&(random.next() | 1).to_be_bytes());
            }
            out.extend(id);
        }
        Kind::String => {
            let text = text(unlike.is_some(), random);
            if flexible {
                varint(text.len() + 1, out);
            } else {
                out.extend(u16::try_from(text.len()).unwrap().to_be_bytes());
            }
            out.extend(text.as_bytes());
        }
        Kind::Bytes | Kind::Records => {
            let length = random.below(1500);
            long_length(length, flexible, out);
            out.extend((0..length).map(|_| random.next().to_be_bytes()[0]));
        }
        Kind::Array { element } => {
            let count = random.below(4).max(usize::from(unlike.is_some()));
            long_length(count, flexible, out);
            for _ in 0..count {
                value(element, version, flexible, None, random, out);
            }
        }
        Kind::Struct { table } => structure(table, version, flexible, unlike, random, out),
    }
}

fn structure(
    table: &Table,
    version: i16,
    flexible: bool,
    unlike: Option<&Field>,
    random: &mut Random,
    out: &mut Vec<u8>,
) {
    let mut must_differ = unlike.is_some();
    for row in table.fields {
        if row.is_inline(version) {
            field(row, version, flexible, must_differ, random, out);
            must_differ = false;
        }
    }
    if !flexible {
        return;
    }
    let mut tagged: Vec<(u32, Vec<u8>)> = Vec::new();
    for row in table.fields {
        if row.is_tagged(version) && random.chance(60) {
            let mut bytes = Vec::new();
            field(row, version, flexible, true, random, &mut bytes);
            // Under a tag a varint tells whether a struct is there.
            if bytes == [0xff] && matches!(row.kind, Kind::Struct { .. }) {
                bytes = vec![0];
            }
            tagged.push((row.tag.unwrap(), bytes));
        } else if row.is_tagged(version) && row.is_null_written() {
            tagged.push((row.tag.unwrap(), vec![0]));
        }
    }
    tagged.sort_unstable();
    varint(tagged.len(), out);
    for (tag, bytes) in tagged {
        varint(usize::try_from(tag).unwrap(), out);
        varint(bytes.len(), out);
        out.extend(bytes);
    }
}

fn field(
    row: &Field,
    version: i16,
    flexible: bool,
    must_differ: bool,
    random: &mut Random,
    out: &mut Vec<u8>,
) {
    let nullable = row.nullable.contains(version);
    if nullable && random.chance(25) && !(must_differ && row.default == "null") {
        if matches!(row.kind, Kind::Struct { .. }) {
            out.push(0xff);
        } else if flexible {
            out.push(0);
        } else if matches!(row.kind, Kind::String) {
            out.extend([0xff; 2]);
        } else {
            out.extend([0xff; 4]);
        }
        return;
    }
    if nullable && matches!(row.kind, Kind::Struct { .. }) {
        out.push(1);
    }
    let unlike = must_differ.then_some(row);
    value(&row.kind, version, flexible, unlike, random, out);
}

fn integer<const N: usize>(unlike: Option<&Field>, random: &mut Random, out: &mut Vec<u8>) {
    let default = unlike.map_or(0, |row| row.default.replace('_', "").parse().unwrap_or(0));
    loop {
        // The low bytes of the extremes are −1 and 0: shift them to have the extremes of the narrow type too.
        let wide = random.integer();
        let value = if random.chance(50) {
            wide >> (64 - 8 * N)
        } else {
            wide
        };
        let bytes = &value.to_be_bytes()[8 - N..];
        let is_default = *bytes == i64::to_be_bytes(default)[8 - N..];
        if unlike.is_none() || !is_default {
            out.extend(bytes);
            return;
        }
    }
}

fn text(not_empty: bool, random: &mut Random) -> String {
    let length = match random.below(10) {
        0 => 0,
        1 => 100 + random.below(300),
        _ => random.below(40),
    };
    (0..length.max(usize::from(not_empty)))
        .map(|_| match random.below(20) {
            0 => 'ж',
            1 => '\u{1f980}',
            _ => char::from(b'a' + u8::try_from(random.below(26)).unwrap()),
        })
        .collect()
}

fn long_length(length: usize, flexible: bool, out: &mut Vec<u8>) {
    if flexible {
        varint(length + 1, out);
    } else {
        out.extend(u32::try_from(length).unwrap().to_be_bytes());
    }
}

fn varint(mut value: usize, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap());
}
