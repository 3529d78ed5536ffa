//! Latencies by API and client, and by API and topic, of one shard.
//!
//! Invariants:
//! 1. At most as many series as configured, and one more for each API that counts all others; names are cut at [`NAME_BYTES_MAX`].
//! 2. What was counted is never lost: a series that gives way is added to that of the others.
//! 3. A series gives way only when nobody holds it and it was not used for [`IDLE_MS`]; so a flood of names ends up with the others.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use pelton_model::Monotonic;
use pelton_model::histogram::Histogram;
use pelton_model::map::Map;
use pelton_protocol::codec::Str;

/// The name that stands for all without a series of their own.
pub(crate) const OTHER: &str = "(other)";
/// A name is cut here: clients choose theirs.
const NAME_BYTES_MAX: usize = 128;
/// How long a series must be idle before another may take its place.
const IDLE_MS: u64 = 300_000;
/// How long nothing is looked for after nothing could give way.
const LOOK_AGAIN_MS: u64 = 1_000;

/// What is counted of one name and API.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) api: i16,
    pub(crate) name: Str,
    durations: RefCell<Histogram>,
    bytes_in: Cell<u64>,
    bytes_out: Cell<u64>,
    last_used: Cell<Monotonic>,
}

impl Series {
    fn new(api: i16, name: Str, now: Monotonic) -> Rc<Self> {
        Rc::new(Self {
            api,
            name,
            durations: RefCell::default(),
            bytes_in: Cell::new(0),
            bytes_out: Cell::new(0),
            last_used: Cell::new(now),
        })
    }

    /// Counts a request that ended at `now`.
    #[inline]
    pub(crate) fn count(&self, duration_ns: u64, bytes_in: u64, bytes_out: u64, now: Monotonic) {
        self.durations.borrow_mut().record(duration_ns);
        self.bytes_in.set(self.bytes_in.get() + bytes_in);
        self.bytes_out.set(self.bytes_out.get() + bytes_out);
        self.last_used.set(now);
    }

    fn add(&self, other: &Self) {
        self.durations.borrow_mut().merge(&other.durations.borrow());
        self.bytes_in
            .set(self.bytes_in.get() + other.bytes_in.get());
        self.bytes_out
            .set(self.bytes_out.get() + other.bytes_out.get());
    }

    fn report(&self) -> SeriesReport {
        SeriesReport {
            api: self.api,
            name: self.name.to_string(),
            durations: self.durations.borrow().clone(),
            bytes_in: self.bytes_in.get(),
            bytes_out: self.bytes_out.get(),
        }
    }
}

/// A series on its way to whoever asked.
#[derive(Clone, Debug)]
pub struct SeriesReport {
    /// The API's number.
    pub api: i16,
    /// The client or topic.
    pub name: String,
    /// How long requests took.
    pub durations: Histogram,
    /// Bytes of requests.
    pub bytes_in: u64,
    /// Bytes of answers.
    pub bytes_out: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct SeriesTable {
    count_max: usize,
    count: usize,
    by_api: BTreeMap<i16, OfApi>,
    look_again: Monotonic,
}

#[derive(Debug)]
struct OfApi {
    by_name: Map<Str, Rc<Series>>,
    other: Rc<Series>,
}

impl SeriesTable {
    pub(crate) fn new(count_max: usize) -> Self {
        Self {
            count_max,
            count: 0,
            by_api: BTreeMap::new(),
            look_again: Monotonic(0),
        }
    }

    /// The series of a name, a new one if there is room.
    pub(crate) fn get(&mut self, api: i16, name: &str, now: Monotonic) -> Rc<Series> {
        let name = cut(name);
        let of_api = self.by_api.entry(api).or_insert_with(|| OfApi {
            by_name: Map::default(),
            other: Series::new(api, Str::from(OTHER), now),
        });
        if let Some(known) = of_api.by_name.get(name) {
            return Rc::clone(known);
        }
        let other = Rc::clone(&of_api.other);
        if name == OTHER || (self.count_max <= self.count && !self.make_room(now)) {
            return other;
        }
        let series = Series::new(api, Str::from(name), now);
        if let Some(of_api) = self.by_api.get_mut(&api) {
            of_api
                .by_name
                .insert(series.name.clone(), Rc::clone(&series));
            self.count += 1;
        }
        series
    }

    /// Has the series that was idle longest give way; whether one did.
    fn make_room(&mut self, now: Monotonic) -> bool {
        if now < self.look_again || self.count_max == 0 {
            return false;
        }
        let all = self
            .by_api
            .values()
            .flat_map(|of_api| of_api.by_name.values());
        let idle = all.filter(|series| {
            Rc::strong_count(series) == 1 && series.last_used.get().plus_ms(IDLE_MS) <= now
        });
        let victim = idle.min_by_key(|series| (series.last_used.get(), series.api, &series.name));
        let Some(victim) = victim.cloned() else {
            self.look_again = now.plus_ms(LOOK_AGAIN_MS);
            return false;
        };
        if let Some(of_api) = self.by_api.get_mut(&victim.api) {
            of_api.by_name.remove(&victim.name);
            of_api.other.add(&victim);
            self.count -= 1;
        }
        true
    }

    /// Every series, in no order that matters.
    pub(crate) fn report(&self) -> Vec<SeriesReport> {
        let mut reports = Vec::with_capacity(self.count + self.by_api.len());
        for of_api in self.by_api.values() {
            reports.extend(of_api.by_name.values().map(|series| series.report()));
            let other = of_api.other.report();
            if other.durations.count() > 0 {
                reports.push(other);
            }
        }
        reports
    }
}

fn cut(name: &str) -> &str {
    let mut end = name.len().min(NAME_BYTES_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(table: &SeriesTable) -> Vec<(String, u64)> {
        let mut names: Vec<_> = table
            .report()
            .into_iter()
            .map(|series| (series.name, series.durations.count()))
            .collect();
        names.sort();
        names
    }

    fn count(table: &mut SeriesTable, name: &str, now: Monotonic) {
        table.get(0, name, now).count(1, 1, 1, now);
    }

    // Goal: cardinality is bounded and nothing is lost. Method: more names than there is room for, now and after a pause.
    #[test]
    fn others_are_counted_together() {
        let owned = |rows: &[(&str, u64)]| -> Vec<(String, u64)> {
            rows.iter()
                .map(|&(name, count)| (name.to_owned(), count))
                .collect()
        };
        let mut table = SeriesTable::new(2);
        let now = Monotonic(0).plus_ms(1);
        for name in ["a", "b", "c", "d", "a", OTHER] {
            count(&mut table, name, now);
        }
        assert_eq!(names(&table), owned(&[(OTHER, 3), ("a", 2), ("b", 1)]));
        let later = now.plus_ms(IDLE_MS);
        let held = table.get(0, "a", later);
        held.count(1, 1, 1, later);
        count(&mut table, "e", later);
        assert_eq!(names(&table), owned(&[(OTHER, 4), ("a", 3), ("e", 1)]));
        count(&mut table, "f", later.plus_ms(IDLE_MS));
        assert_eq!(
            names(&table),
            owned(&[(OTHER, 5), ("a", 3), ("f", 1)]),
            "a is held"
        );
    }

    // Goal: a name is cut between characters. Method: two-byte characters across the bound.
    #[test]
    fn long_names() {
        let long = format!("x{}", "é".repeat(NAME_BYTES_MAX));
        assert_eq!(cut(&long).len(), NAME_BYTES_MAX - 1);
        assert_eq!(cut("short"), "short");
        let mut table = SeriesTable::new(0);
        count(&mut table, &long, Monotonic(0));
        assert_eq!(names(&table), [(OTHER.to_owned(), 1)]);
    }
}
