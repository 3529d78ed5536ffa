//! One pass over one log, step by step.
//!
//! Invariants:
//! 1. A step takes about one piece of work of the helper; between steps the caller may wait as long as it likes.
//! 2. A pass that is dropped or failed leaves `.cleaned` files at most: the next pass or start removes them.
//! 3. What was cleaned counts only when every group of the pass is in place.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use pelton_model::batch::{BatchHeader, Batches, HEADER_BYTES, retain};
use pelton_model::{Monotonic, Offset, Timestamp};

use super::CleanError;
use super::filter::{Counts, Mapped, Settings, Unclean, Work};
use super::key_map::{HashSeed, KeyMap};
use super::output::{self, Output, Written};
use super::plan::{Gathered, Plan, may_join};
use super::source::Source;
use super::transactions::Transactions;
use crate::config::{LogConfig, TXN_INDEX_BYTES_MAX};
use crate::disk::Disk;
use crate::error::Damage;
use crate::log::Log;
use crate::segment::{FileKind, Segment};
use crate::txn_index::{self, AbortedTxn};

/// What a pass is told.
#[derive(Clone, Debug)]
pub struct PassOptions {
    /// What to clean.
    pub plan: Plan,
    /// Retention of tombstones, active producers.
    pub settings: Settings,
    /// Aborted transactions beside those that the log's transaction indexes list.
    pub aborted: Vec<AbortedTxn>,
    /// The wall clock.
    pub now: Timestamp,
    /// Memory of the key map.
    pub map_bytes_max: usize,
    /// How full the map may become.
    pub load_factor: f64,
    /// The secret of the map's hash: random.
    pub seed: HashSeed,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read and wrote so many bytes; there is more to do.
    Working {
        /// Bytes read and written.
        bytes: u64,
    },
    /// The pass is over.
    Done(Cleaned),
}

/// What a pass did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cleaned {
    /// Everything below is clean now.
    pub cleaned_to: Offset,
    /// Whether the map was full before the plan's end: another pass goes on.
    pub is_partial: bool,
    /// What was read and kept.
    pub counts: Counts,
    /// Segments that were replaced.
    pub segments_before: usize,
    /// By how many.
    pub segments_after: usize,
}

/// See the module.
#[derive(Debug)]
pub struct Pass<D: Disk> {
    disk: D,
    directory: PathBuf,
    config: LogConfig,
    plan: Plan,
    aborted: Vec<AbortedTxn>,
    /// The segments below the plan's end.
    sources: Vec<Rc<Segment<D>>>,
    /// In the helper's hands while a step waits for it.
    work: Option<Box<Work>>,
    phase: Phase<D>,
    /// The first segment with a dirty record.
    map_next: usize,
    segments_before: usize,
    segments_after: usize,
}

#[derive(Debug)]
enum Phase<D: Disk> {
    /// What an earlier pass may have left must go first: a start would take it for part of a later replacement.
    Tidy,
    /// The next segment to be mapped, and the one that is.
    Map {
        next: usize,
        source: Option<Source<D::File>>,
    },
    /// Segments to be cleaned, and those that are becoming one.
    Clean {
        left: VecDeque<Rc<Segment<D>>>,
        group: Option<Box<Group<D>>>,
    },
}

#[derive(Debug)]
struct Group<D: Disk> {
    /// The old segments, the last of them being read or just read.
    segments: Vec<Rc<Segment<D>>>,
    source: Option<Source<D::File>>,
    output: Output<D>,
    has_records: bool,
    /// The last batch read, when it was not written.
    dropped_end: Option<BatchHeader>,
}

impl<D: Disk> Group<D> {
    fn gathered(&self) -> Gathered {
        Gathered {
            base: self.segments[0].base,
            size_bytes: self.output.size_bytes(),
            has_records: self.has_records,
        }
    }
}

impl<D: Disk> Pass<D> {
    /// Prepares a pass; does nothing yet.
    #[must_use]
    pub fn new(log: &Log<D>, options: PassOptions) -> Self {
        let plan = options.plan;
        let sources = log.closed_below(plan.up_to);
        let keys_max = u64::try_from(plan.up_to.0 - plan.first_dirty.0).unwrap_or(0);
        let map = KeyMap::new(
            options.map_bytes_max,
            options.load_factor,
            keys_max,
            options.seed,
        );
        let work = Work::new(
            options.settings,
            options.now,
            map,
            plan.first_dirty,
            Transactions::new(options.aborted.clone()),
        );
        // Segments without a dirty record need not be mapped.
        let map_next = sources
            .partition_point(|segment| segment.base <= plan.first_dirty)
            .saturating_sub(1);
        Self {
            disk: log.disk().background(),
            directory: log.directory().to_owned(),
            config: log.config(),
            plan,
            aborted: options.aborted,
            sources,
            work: Some(Box::new(work)),
            phase: Phase::Tidy,
            map_next,
            segments_before: 0,
            segments_after: 0,
        }
    }

    /// Goes on a little.
    ///
    /// # Errors
    /// The pass is over; see [`CleanError`].
    /// # Cancel safety
    /// A dropped step ends the pass: drop it too.
    pub async fn step(&mut self, log: &Log<D>, now: Monotonic) -> Result<Step, CleanError> {
        log.check_open().map_err(CleanError::Log)?;
        let before = self.work().counts();
        let done = match self.advance(log, now).await {
            Ok(done) => done,
            Err(error) => {
                // The files of a log that was deleted are not where they were.
                log.check_open().map_err(CleanError::Log)?;
                return Err(error);
            }
        };
        let counts = self.work().counts();
        if done {
            return Ok(Step::Done(Cleaned {
                cleaned_to: Offset(self.work().map_end().0 + 1),
                is_partial: self.work().map_end().0 + 1 < self.plan.up_to.0,
                counts,
                segments_before: self.segments_before,
                segments_after: self.segments_after,
            }));
        }
        let total = |c: Counts| c.mapped_bytes + c.read_bytes + c.written_bytes;
        Ok(Step::Working {
            bytes: total(counts) - total(before),
        })
    }

    /// Says whether the pass is over.
    async fn advance(&mut self, log: &Log<D>, now: Monotonic) -> Result<bool, CleanError> {
        match self.phase {
            Phase::Tidy => {
                output::remove_leftovers(&self.disk, &self.directory).await?;
                self.read_transactions().await?;
                self.phase = Phase::Map {
                    next: self.map_next,
                    source: None,
                };
                Ok(false)
            }
            Phase::Map { .. } => self.map_step().await.map(|()| false),
            Phase::Clean { .. } => self.clean_step(log, now).await,
        }
    }

    /// Adds what the log's transaction indexes say. A transaction may end in any later segment.
    async fn read_transactions(&mut self) -> Result<(), CleanError> {
        for entry in self.disk.read_dir(&self.directory).await? {
            let base = entry.name.strip_suffix(".txnindex");
            let Some(base) = base.and_then(|base| base.parse().ok()).map(Offset) else {
                continue;
            };
            let path = self.directory.join(&entry.name);
            let contents = self.disk.read_file(&path, TXN_INDEX_BYTES_MAX).await?;
            // The active segment's may be seen while it grows; what is torn is above the last stable offset.
            let whole = contents.len() - contents.len() % txn_index::ENTRY_BYTES;
            let Ok(aborted) = txn_index::decode(&contents[..whole], base) else {
                // Without it, aborted records would pass for committed ones.
                return Err(CleanError::Damaged {
                    path,
                    position: 0,
                    damage: Damage::Records,
                });
            };
            self.aborted.extend(aborted);
        }
        let work = self.work.as_mut().expect("no step is under way");
        work.rewind(Transactions::new(self.aborted.clone()));
        Ok(())
    }

    /// Removes what an unfinished pass has written.
    pub async fn abandon(self) {
        let base = match &self.phase {
            Phase::Clean {
                group: Some(group), ..
            } => group.segments[0].base,
            Phase::Clean { group: None, .. } | Phase::Map { .. } | Phase::Tidy => return,
        };
        if let Err(error) = output::remove(&self.disk, &self.directory, base, output::CLEANED).await
        {
            tracing::warn!(log = %self.directory.display(), %error, "cannot remove an unfinished segment; the next start will");
        }
    }

    fn work(&self) -> &Work {
        self.work
            .as_ref()
            .expect("no step is under way: they run one after the other")
    }

    async fn map_step(&mut self) -> Result<(), CleanError> {
        let Phase::Map { next, source } = &mut self.phase else {
            return Ok(());
        };
        if source.is_none() {
            let Some(segment) = self.sources.get(*next) else {
                return self.begin_cleaning(false);
            };
            *next += 1;
            let opened = open(&self.disk, segment).await?;
            *source = Some(opened);
        }
        let open = source.as_mut().expect("opened above");
        let Some(piece) = open.next().await? else {
            *source = None;
            return Ok(());
        };
        let position = piece.position;
        let from = self.plan.first_dirty;
        let mut work = self.work.take().expect("one step at a time");
        let job = move || {
            let mapped = map_piece(&mut work, &piece.bytes, from);
            (work, mapped)
        };
        let (work, mapped) = self.disk.offload(job).await;
        self.work = Some(work);
        match mapped {
            Ok(Mapped::Whole) => Ok(()),
            Ok(Mapped::Full) => self.begin_cleaning(true),
            Err(unclean) => Err(damaged(open.path().clone(), position, unclean)),
        }
    }

    /// The map is complete, or full.
    fn begin_cleaning(&mut self, is_full: bool) -> Result<(), CleanError> {
        let work = self.work.as_mut().expect("no step is under way");
        if !is_full {
            work.finish_map(self.plan.up_to);
        }
        work.rewind(Transactions::new(self.aborted.clone()));
        let map_end = work.map_end();
        let mut sources = std::mem::take(&mut self.sources);
        sources.retain(|segment| segment.base <= map_end);
        self.phase = Phase::Clean {
            left: sources.into(),
            group: None,
        };
        Ok(())
    }

    /// Says whether the pass is over.
    async fn clean_step(&mut self, log: &Log<D>, now: Monotonic) -> Result<bool, CleanError> {
        let Phase::Clean { left, group } = &mut self.phase else {
            return Ok(false);
        };
        let Some(current) = group else {
            let Some(first) = left.pop_front() else {
                return Ok(true);
            };
            let base = first.base;
            let source = open(&self.disk, &first).await?;
            *group = Some(Box::new(Group {
                segments: vec![first],
                source: Some(source),
                output: Output::create(&self.disk, &self.directory, base, &self.config).await?,
                has_records: false,
                dropped_end: None,
            }));
            return Ok(false);
        };
        let Some(source) = current.source.as_mut() else {
            let end = left.get(1).map_or(self.plan.up_to, |after| after.base);
            let joins = |next: &mut Rc<Segment<D>>| {
                may_join(&current.gathered(), next.size_bytes(), end, &self.config)
            };
            if let Some(next) = left.pop_front_if(joins) {
                current.source = Some(open(&self.disk, &next).await?);
                current.segments.push(next);
            } else {
                let whole = group.take().expect("checked above");
                self.replace(log, *whole, now).await?;
            }
            return Ok(false);
        };
        let Some(piece) = source.next().await? else {
            current.source = None;
            return Ok(false);
        };
        let position = piece.position;
        let mut work = self.work.take().expect("one step at a time");
        let job = move || {
            let cleaned = clean_piece(&mut work, &piece.bytes);
            (work, cleaned)
        };
        let (work, cleaned) = self.disk.offload(job).await;
        let work = self.work.insert(work);
        match cleaned {
            Ok(cleaned) => {
                current.has_records |= cleaned.has_records;
                current.dropped_end = cleaned.dropped_end;
                current.output.push_transactions(&work.take_retained());
                current.output.push(cleaned.bytes, &cleaned.written).await?;
                Ok(false)
            }
            Err(unclean) => Err(damaged(source.path().clone(), position, unclean)),
        }
    }

    async fn replace(
        &mut self,
        log: &Log<D>,
        mut group: Group<D>,
        now: Monotonic,
    ) -> Result<(), CleanError> {
        if let Some(header) = group.dropped_end {
            let written = Written {
                last_offset: header.last_offset(),
                max_timestamp: header.max_timestamp,
                size_bytes: HEADER_BYTES as u64,
            };
            group
                .output
                .push(retain::empty(&header), &[written])
                .await?;
        }
        let old = group.segments;
        let cleaned = match group.output.finish().await {
            Ok(cleaned) => cleaned,
            Err(error) => {
                // The disk may be full: what was written must not stay on it.
                output::remove(&self.disk, &self.directory, old[0].base, output::CLEANED).await?;
                return Err(error);
            }
        };
        log.replace(&self.disk, &old, cleaned, now).await?;
        self.segments_before += old.len();
        self.segments_after += 1;
        Ok(())
    }
}

async fn open<D: Disk>(disk: &D, segment: &Segment<D>) -> Result<Source<D::File>, CleanError> {
    if segment.is_doomed() {
        return Err(CleanError::Changed);
    }
    Source::open(disk, segment.path(FileKind::Log), segment.size_bytes()).await
}

fn damaged(path: PathBuf, position: u64, unclean: Unclean) -> CleanError {
    let damage = match unclean {
        Unclean::Checksum => Damage::Checksum,
        Unclean::Batch(_) => Damage::Records,
        Unclean::Offsets => Damage::Offsets,
    };
    CleanError::Damaged {
        path,
        position,
        damage,
    }
}

fn map_piece(work: &mut Work, piece: &Bytes, from: Offset) -> Result<Mapped, Unclean> {
    for batch in Batches::new(piece) {
        let (header, batch) = batch?;
        if header.last_offset() < from {
            continue;
        }
        if work.map_batch(&header, &piece.slice_ref(batch), from)? == Mapped::Full {
            return Ok(Mapped::Full);
        }
    }
    Ok(Mapped::Whole)
}

/// What stays of a piece.
struct CleanPiece {
    bytes: Bytes,
    written: Vec<Written>,
    has_records: bool,
    dropped_end: Option<BatchHeader>,
}

fn clean_piece(work: &mut Work, piece: &Bytes) -> Result<CleanPiece, Unclean> {
    let mut out = BytesMut::with_capacity(piece.len());
    let mut written = Vec::new();
    let mut has_records = false;
    let mut dropped_end = None;
    for batch in Batches::new(piece) {
        let (header, batch) = batch?;
        let Some(kept) = work.clean_batch(&header, &piece.slice_ref(batch))? else {
            dropped_end = Some(header);
            continue;
        };
        dropped_end = None;
        let after = BatchHeader::parse(&kept)?;
        assert_eq!(after.base_offset, header.base_offset);
        assert_eq!(after.last_offset(), header.last_offset());
        has_records |= after.record_count > 0;
        written.push(Written {
            last_offset: after.last_offset(),
            max_timestamp: after.max_timestamp,
            size_bytes: kept.len() as u64,
        });
        out.extend_from_slice(&kept);
    }
    Ok(CleanPiece {
        bytes: out.freeze(),
        written,
        has_records,
        dropped_end,
    })
}
