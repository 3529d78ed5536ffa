//! Hash maps whose hasher is seeded once at boot: a run can be replayed, and a client cannot flood a bucket.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

static SEED: OnceLock<u64> = OnceLock::new();

/// Fixes the seed of every map of the process; later calls change nothing.
pub fn seed(seed: u64) {
    SEED.get_or_init(|| seed);
}

/// A hash map with the process's seeded hasher.
#[expect(
    clippy::disallowed_types,
    reason = "this is the replacement that the ban names"
)]
pub type Map<K, V> = std::collections::HashMap<K, V, Seeded>;
/// A hash set with the process's seeded hasher.
#[expect(
    clippy::disallowed_types,
    reason = "this is the replacement that the ban names"
)]
pub type Set<K> = std::collections::HashSet<K, Seeded>;

/// Builds the process's seeded hasher.
#[derive(Clone, Copy, Debug)]
pub struct Seeded(u64);

impl Default for Seeded {
    fn default() -> Self {
        Self(*SEED.get_or_init(|| RandomState::new().hash_one(0_u8)))
    }
}

impl BuildHasher for Seeded {
    type Hasher = FoldHasher;

    fn build_hasher(&self) -> FoldHasher {
        FoldHasher(self.0 ^ 0x9e37_79b9_7f4a_7c15)
    }
}

/// A folded-multiply hasher (as in wyhash): a few cycles a word, keyed by the seed.
#[derive(Clone, Debug)]
pub struct FoldHasher(u64);

impl FoldHasher {
    fn word(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(0xa076_1d64_78bd_642f_u64);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the fold keeps both halves"
        )]
        let (low, high) = (product as u64, (product >> 64) as u64);
        self.0 = (low ^ high).wrapping_add(0xe703_7ed1_a0b4_28db);
    }
}

impl Hasher for FoldHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.word(u64::from_le_bytes(last) ^ ((bytes.len() as u64) << 56));
    }

    fn write_u8(&mut self, i: u8) {
        self.word(u64::from(i));
    }

    fn write_u32(&mut self, i: u32) {
        self.word(u64::from(i));
    }

    fn write_u64(&mut self, i: u64) {
        self.word(i);
    }

    fn write_usize(&mut self, i: usize) {
        self.word(i as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
