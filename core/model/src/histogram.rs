//! Counts of durations in buckets whose width grows with the value (an HDR histogram): a record costs a dozen instructions, any quantile is
//! within 1/64 of the truth, and histograms of many shards add up.
//!
//! | nanoseconds | bucket width |
//! |---|---|
//! | below 2^14 | 2^7 |
//! | `[2^k, 2^(k+1))`, 14 ≤ k < 38 | 2^(k-6) |
//! | 2^38 (275 s) and more | counted in the last bucket |
//!
//! Source: the layout of HdrHistogram (G. Tene), with 128 sub-buckets and a unit of 128 ns.

/// Bits of a value below the resolution.
const UNIT_BITS: u32 = 7;
/// Buckets of equal width in each doubling, as a power of two.
const HALF_BITS: u32 = 6;
/// The first value that is not told from larger ones, as a power of two.
const END_BITS: u32 = 38;
/// Buckets in all.
const BUCKETS: usize = ((END_BITS - UNIT_BITS - HALF_BITS - 1) << HALF_BITS) as usize + 128;

const _: () = assert!(BUCKETS == 1664);
const _: () = assert!(index(u64::MAX) == BUCKETS - 1);

/// Buckets that come into memory together: those of one doubling.
type Doubling = [u64; 1 << HALF_BITS];

/// See the module. It holds half a KiB for each doubling that a duration fell into.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    doublings: [Option<Box<Doubling>>; BUCKETS >> HALF_BITS],
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        self.filled().eq(other.filled())
    }
}

impl Eq for Histogram {}

/// The bucket of a value.
#[inline]
const fn index(nanoseconds: u64) -> usize {
    let end = 1 << END_BITS;
    let value = if nanoseconds < end {
        nanoseconds
    } else {
        end - 1
    };
    let units = value >> UNIT_BITS;
    // Small values are in the first doubling, whose buckets are as wide as the unit.
    let shift = (units | (1 << HALF_BITS)).ilog2() - HALF_BITS;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "below the number of buckets"
    )]
    let index = ((shift as u64) << HALF_BITS) as usize + (units >> shift) as usize;
    index
}

/// The largest value of a bucket.
const fn last_of(index: usize) -> u64 {
    let index = index as u64;
    let doubling = index >> HALF_BITS;
    let shift = if doubling < 2 { 0 } else { doubling - 1 };
    let units = index - (shift << HALF_BITS);
    (((units + 1) << shift) << UNIT_BITS) - 1
}

/// The least value of a bucket.
const fn first_of(bucket: usize) -> u64 {
    if bucket == 0 {
        0
    } else {
        last_of(bucket - 1) + 1
    }
}

impl Histogram {
    /// Counts one duration.
    #[inline]
    pub fn record(&mut self, nanoseconds: u64) {
        *self.count_mut(index(nanoseconds)) += 1;
    }

    /// Counts `count` durations in the bucket of `nanoseconds`; with what [`Histogram::buckets`] gives, a histogram is built anew.
    pub fn record_many(&mut self, nanoseconds: u64, count: u64) {
        let bucket = self.count_mut(index(nanoseconds));
        *bucket = bucket.saturating_add(count);
    }

    /// Adds what another has counted.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, more) in other.filled() {
            *self.count_mut(bucket) += more;
        }
    }

    /// Takes away what an earlier state of this histogram had counted.
    pub fn subtract(&mut self, earlier: &Self) {
        for (bucket, less) in earlier.filled() {
            let count = self.count_mut(bucket);
            *count = count.saturating_sub(less);
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// How many durations were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.filled().map(|(_, count)| count).sum()
    }

    /// The sum of all durations, nanoseconds: each counts as the middle of its bucket. Never falls while durations are added.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        self.filled().fold(0, |sum: u64, (bucket, count)| {
            let middle = u64::midpoint(first_of(bucket), last_of(bucket));
            sum.saturating_add(middle.saturating_mul(count))
        })
    }

    /// The largest duration, rounded up to the end of its bucket; 0 when there is none.
    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.filled()
            .last()
            .map_or(0, |(bucket, _)| last_of(bucket))
    }

    /// The least duration that `per_million` of a million durations do not exceed, rounded up to the end of its bucket; 0 when there is
    /// none.
    #[must_use]
    pub fn quantile_ns(&self, per_million: u32) -> u64 {
        let wanted = u128::from(self.count()) * u128::from(per_million);
        let wanted = wanted.div_ceil(1_000_000).max(1);
        let mut seen = 0_u128;
        for (bucket, count) in self.filled() {
            seen += u128::from(count);
            if wanted <= seen {
                return last_of(bucket);
            }
        }
        self.max_ns()
    }

    /// How many durations were at most `nanoseconds` long, counting whole buckets.
    #[must_use]
    pub fn count_up_to(&self, nanoseconds: u64) -> u64 {
        self.filled()
            .take_while(|(bucket, _)| last_of(*bucket) <= nanoseconds)
            .map(|(_, count)| count)
            .sum()
    }

    /// The buckets that are not empty: the largest value of each, and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        self.filled()
            .map(|(bucket, count)| (last_of(bucket), count))
    }

    /// The buckets that are not empty, in order: the number of each, and its count.
    fn filled(&self) -> impl Iterator<Item = (usize, u64)> {
        let there = self.doublings.iter().enumerate();
        let there = there.filter_map(|(at, doubling)| Some((at, doubling.as_deref()?)));
        let numbered = there.flat_map(|(at, doubling)| {
            let first = at << HALF_BITS;
            doubling
                .iter()
                .enumerate()
                .map(move |(bucket, &count)| (first + bucket, count))
        });
        numbered.filter(|(_, count)| *count > 0)
    }

    #[inline]
    fn count_mut(&mut self, bucket: usize) -> &mut u64 {
        let doubling = &mut self.doublings[bucket >> HALF_BITS];
        let doubling = doubling.get_or_insert_with(|| Box::new([0; 1 << HALF_BITS]));
        &mut doubling[bucket & ((1 << HALF_BITS) - 1)]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // Goal: buckets are seamless, in order and narrow enough. Method: the end of each is in it, the next value in the next one.
    #[test]
    fn buckets_are_seamless() {
        let mut first = 0;
        for bucket in 0..BUCKETS - 1 {
            let last = last_of(bucket);
            assert_eq!((index(first), index(last)), (bucket, bucket));
            assert_eq!(index(last + 1), bucket + 1);
            let width = last + 1 - first;
            assert!(width <= 128 || width * 64 <= first, "{first}");
            first = last + 1;
        }
        assert_eq!(last_of(BUCKETS - 1), (1 << END_BITS) - 1);
    }

    // Goal: nothing and extremes are told as what they are. Method: a table.
    #[test]
    fn extremes() {
        fn check(values: &[u64], per_million: u32, expected: u64) {
            let mut histogram = Histogram::default();
            for &value in values {
                histogram.record(value);
            }
            assert_eq!(histogram.quantile_ns(per_million), expected, "{values:?}");
        }
        check(&[], 500_000, 0);
        check(&[0], 0, 127);
        check(&[0], 1_000_000, 127);
        check(&[128, 1_000_000], 500_000, 255);
        check(&[u64::MAX], 999_000, (1 << END_BITS) - 1);
    }

    proptest! {
        // Goal: quantiles, sums and counts against the sorted values. Method: random values, merged from two histograms.
        #[test]
        fn against_the_values(mut values in prop::collection::vec(0_u64..1 << 37, 1..200), split in 0_usize..200, per_million in 0_u32..=1_000_000) {
            let (mut low, mut high) = (Histogram::default(), Histogram::default());
            for (at, &value) in values.iter().enumerate() {
                if at < split { low.record(value) } else { high.record(value) }
            }
            let before = low.clone();
            low.merge(&high);
            values.sort_unstable();
            let count = values.len() as u64;
            prop_assert_eq!(low.count(), count);
            let rank = (count * u64::from(per_million)).div_ceil(1_000_000).max(1);
            let exact = values[usize::try_from(rank).expect("small") - 1];
            let found = low.quantile_ns(per_million);
            prop_assert!(exact <= found && found - exact <= 127.max(exact / 64));
            let sum: u64 = values.iter().sum();
            prop_assert!(low.sum_ns().abs_diff(sum) <= 64 * count + sum / 64);
            prop_assert!(*values.last().expect("not empty") <= low.max_ns());
            let mut copy = Histogram::default();
            low.buckets().for_each(|(last, count)| copy.record_many(last, count));
            prop_assert_eq!(&copy, &low);
            copy.subtract(&before);
            prop_assert_eq!(copy, high);
            let below = values.iter().filter(|value| **value <= found).count() as u64;
            prop_assert_eq!(low.count_up_to(found), below);
        }
    }
}
