//! The only source of chance in a simulation: one generator, seeded once, drawn from in one order.
//!
//! Source: splitmix64 (Steele, Lea, Flood 2014).

/// A deterministic generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Begins a sequence; equal seeds give equal sequences.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed ^ 0x5851_f42d_4c95_7f2d)
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..end`.
    ///
    /// # Panics
    /// When `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0);
        self.draw() % end
    }

    /// A number in `first..=last`.
    ///
    /// # Panics
    /// When the range is empty.
    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        assert!(first <= last);
        first + self.below(last - first + 1)
    }

    /// An index of something with `count` elements.
    pub fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).expect("below a usize")
    }

    /// True `percent` times of a hundred.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A number in `0..=last` whose magnitude is even: small ones are as likely as large ones.
    pub fn magnitude(&mut self, last: u64) -> u64 {
        let bits = u64::from(u64::BITS - last.leading_zeros());
        let bits = self.between(0, bits);
        self.between(0, last.min((1_u64 << bits.min(63)) - 1))
    }
}
