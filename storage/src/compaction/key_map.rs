//! Where the newest record of each key lies: a hash table of fixed memory, keyed by a hash of the key.
//!
//! | word | field |
//! |---:|---|
//! | 0, 1 | the key's 128-bit hash |
//! | 2 | offset + 1; 0 is an empty slot |
//!
//! Invariants:
//! 1. Memory is fixed when the map is made; an entry is 24 bytes, as in Kafka, whatever the key's length.
//! 2. A full map takes no further key: the pass ends at the record before and goes on later from there.
//! 3. The hash is keyed (SipHash): nobody who does not know the seed can make two keys collide, which would lose one.
//!
//! Source: Kafka's `SkimpyOffsetMap`, which uses MD5.

use std::hash::Hasher;

use pelton_model::Offset;
use siphasher::sip128::{Hasher128, SipHasher13};

/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 24;
/// A map has at least so many slots: below, no pass would get anywhere.
const SLOTS_MIN: usize = 64;

/// The secret of a map's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashSeed(pub [u64; 2]);

/// See the module.
#[derive(Debug)]
pub struct KeyMap {
    slots: Vec<[u64; 3]>,
    mask: Option<u64>,
    entries: usize,
    entries_max: usize,
    seed: HashSeed,
}

/// The map has no room for another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl KeyMap {
    /// A map of at most `bytes_max` bytes, filled at most to `load_factor`; no larger than `keys_max` keys need.
    #[must_use]
    pub fn new(bytes_max: usize, load_factor: f64, keys_max: u64, seed: HashSeed) -> Self {
        let affordable = (bytes_max / ENTRY_BYTES).max(SLOTS_MIN);
        // Half empty is fast; more than that is waste.
        let wanted = usize::try_from(keys_max.saturating_mul(2)).unwrap_or(usize::MAX);
        let wanted = wanted
            .max(SLOTS_MIN)
            .checked_next_power_of_two()
            .unwrap_or(usize::MAX);
        let slots = affordable.min(wanted);
        let mask = slots.is_power_of_two().then(|| slots as u64 - 1);
        // One slot stays empty, so that every search ends.
        let entries_max = share(slots, load_factor).clamp(1, slots - 1);
        Self {
            slots: vec![[0; 3]; slots],
            mask,
            entries: 0,
            entries_max,
            seed,
        }
    }

    /// The number of keys held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Whether no key is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// The number of keys it takes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.entries_max
    }

    /// Notes that the newest record of `key` lies at `offset`.
    ///
    /// # Errors
    /// [`Full`]: nothing was noted. Known keys are always taken.
    pub fn put(&mut self, key: &[u8], offset: Offset) -> Result<(), Full> {
        assert!(Offset::ZERO <= offset);
        let hash = self.hash(key);
        let index = self.find(hash);
        let slot = &mut self.slots[index];
        if slot[2] == 0 {
            if self.entries == self.entries_max {
                return Err(Full);
            }
            self.entries += 1;
        }
        *slot = [hash[0], hash[1], offset.0.cast_unsigned() + 1];
        Ok(())
    }

    /// Where the newest record of `key` lies, as far as it was noted.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<Offset> {
        let slot = self.slots[self.find(self.hash(key))];
        let offset = slot[2].checked_sub(1)?;
        Some(Offset(offset.cast_signed()))
    }

    fn hash(&self, key: &[u8]) -> [u64; 2] {
        let HashSeed([first, second]) = self.seed;
        let mut hasher = SipHasher13::new_with_keys(first, second);
        hasher.write(key);
        let hash = hasher.finish128();
        [hash.h1, hash.h2]
    }

    /// The slot of this hash, or the empty one where it belongs.
    fn find(&self, hash: [u64; 2]) -> usize {
        let mut index = self.home(hash[0]);
        loop {
            let slot = &self.slots[index];
            if slot[2] == 0 || (slot[0] == hash[0] && slot[1] == hash[1]) {
                return index;
            }
            index += 1;
            if index == self.slots.len() {
                index = 0;
            }
        }
    }

    fn home(&self, hash: u64) -> usize {
        let index = match self.mask {
            Some(mask) => hash & mask,
            None => {
                let scaled = u128::from(hash) * self.slots.len() as u128;
                u64::try_from(scaled >> 64).expect("a product of words has two")
            }
        };
        usize::try_from(index).expect("below the number of slots")
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a count that lies in memory; casts of floats saturate"
)]
fn share(slots: usize, load_factor: f64) -> usize {
    (slots as f64 * load_factor) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const SEED: HashSeed = HashSeed([1, 2]);

    // Goal: bounds hold at their edges. Method: maps of odd sizes, filled until they refuse.
    #[test]
    fn bounds() {
        let check = |bytes: usize, load: f64, keys: u64, capacity: usize| {
            let mut map = KeyMap::new(bytes, load, keys, SEED);
            assert_eq!(map.capacity(), capacity);
            assert!(map.slots.len() * ENTRY_BYTES <= bytes.max(SLOTS_MIN * ENTRY_BYTES));
            let mut taken = 0_u64;
            while map.put(&taken.to_be_bytes(), Offset(taken.cast_signed())) == Ok(()) {
                taken += 1;
            }
            assert_eq!((taken, map.len()), (capacity as u64, capacity));
            // Known keys still go in, and all are found.
            assert_eq!(map.put(&0_u64.to_be_bytes(), Offset(1_000_000)), Ok(()));
            assert_eq!(map.get(&0_u64.to_be_bytes()), Some(Offset(1_000_000)));
            for key in 1..taken {
                assert_eq!(map.get(&key.to_be_bytes()), Some(Offset(key.cast_signed())));
            }
            assert_eq!(map.get(b"absent"), None);
        };
        check(0, 0.9, 10, 57);
        check(24 * 1000, 0.9, u64::MAX, 900);
        check(24 * 1000, 1.0, u64::MAX, 999);
        check(24 * 1000, 0.0, u64::MAX, 1);
        check(24 * 1000, 0.9, 100, 230);
        check(24 * 1024, f64::INFINITY, 1 << 60, 1023);
    }

    proptest! {
        // Goal: a map is a map. Method: random puts of few keys, against a tree.
        #[test]
        fn model(puts in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..3), 0_i64..100), 0..200)) {
            let mut map = KeyMap::new(24 * 97, 0.9, 1000, SEED);
            let mut model = BTreeMap::new();
            for (key, offset) in puts {
                match map.put(&key, Offset(offset)) {
                    Ok(()) => { model.insert(key, offset); }
                    Err(Full) => prop_assert!(!model.contains_key(&key) && model.len() == map.capacity()),
                }
            }
            prop_assert_eq!(map.len(), model.len());
            for (key, offset) in model {
                prop_assert_eq!(map.get(&key), Some(Offset(offset)));
            }
        }
    }
}
