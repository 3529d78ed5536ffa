//! Changing a field under a CRC-32C without reading what it covers.
//!
//! Invariants:
//! 1. The CRC is linear: the CRCs of two messages of one length differ by a function of the bits in which they differ. A
//!    [`Field`] holds that function for one place, as one table for each byte.
//! 2. After [`Field::set`] field and CRC agree, when they agreed before.

use crc32c::crc32c;

/// The effect of a field of `N` bytes, at one distance from the end of what the CRC covers.
#[derive(Clone, Debug)]
pub(crate) struct Field<const N: usize> {
    tables: Box<[[u32; 256]; N]>,
}

impl<const N: usize> Field<N> {
    /// The field that `behind` covered bytes follow.
    pub(crate) fn new(behind: usize) -> Self {
        let mut tables = Box::new([[0; 256]; N]);
        let mut bytes = vec![0_u8; N + behind];
        let zero = crc32c(&bytes);
        for (at, table) in tables.iter_mut().enumerate() {
            for bit in 0..8 {
                bytes[at] = 1 << bit;
                let effect = crc32c(&bytes[at..]) ^ crc32c_of_zeros(&mut bytes, at);
                // A byte's effect is that of its bits together.
                for (value, entry) in table.iter_mut().enumerate() {
                    if value & (1 << bit) != 0 {
                        *entry ^= effect;
                    }
                }
            }
            bytes[at] = 0;
        }
        debug_assert_eq!(zero, crc32c(&bytes));
        Self { tables }
    }

    /// Writes `value` into `field`, whose content the present `crc` covers, and returns the CRC from now on.
    #[inline]
    pub(crate) fn set(&self, field: &mut [u8; N], value: [u8; N], crc: u32) -> u32 {
        let mut crc = crc;
        for ((table, old), new) in self.tables.iter().zip(field.iter()).zip(value) {
            crc ^= table[usize::from(old ^ new)];
        }
        *field = value;
        crc
    }
}

/// The CRC of as many zeros as `bytes[at..]` has; leaves the byte at `at` as it was.
fn crc32c_of_zeros(bytes: &mut [u8], at: usize) -> u32 {
    let kept = std::mem::take(&mut bytes[at]);
    let crc = crc32c(&bytes[at..]);
    bytes[at] = kept;
    crc
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a patched field has the CRC of the whole read anew. Method: fields at several places of pseudo-random messages.
    #[test]
    fn agrees_with_reading_anew() {
        let mut state = 1_u64;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        for (length, at) in [(8, 0), (9, 1), (100, 0), (100, 92), (100, 40), (5_000, 17)] {
            let mut message: Vec<u8> = (0..length).map(|_| random()).collect();
            let field = Field::<8>::new(length - at - 8);
            let mut crc = crc32c(&message);
            for _ in 0..10 {
                let value = std::array::from_fn(|_| random());
                let place: &mut [u8; 8] =
                    message[at..].first_chunk_mut().expect("the field is in the message");
                crc = field.set(place, value, crc);
                assert_eq!(crc, crc32c(&message), "{length} bytes, field at {at}");
            }
        }
    }
}
