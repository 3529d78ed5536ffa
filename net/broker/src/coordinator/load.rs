//! Reading a partition's log into its coordinator.
//!
//! Invariants:
//! 1. One partition at a time, piece by piece: memory is bounded by `offsets.load.buffer.size` (or one batch), however long the log.
//! 2. Reading, checking and decoding run on the helper thread; the shard only applies, and serves others between pieces.
//! 3. Requests are refused with COORDINATOR_LOAD_IN_PROGRESS until everything is applied. A log that cannot be read is not served from:
//!    forgotten offsets would be worse than none. It is tried again after a second, then after twice as long each time, up to a minute.
//! 4. Records of unknown types, and such that cannot be decoded, are left alone, as Kafka does.

use std::rc::Rc;

use bytes::Bytes;
use pelton_model::batch::{BatchHeader, Batches, RecordIter, verify_crc};
use pelton_model::limits::DECOMPRESSED_BYTES_MAX;
use pelton_model::slice::Slice;
use pelton_model::{Monotonic, Offset};
use pelton_storage::disk::range::read_slice;
use pelton_storage::{ReadError, ReadOptions};
use pelton_transport::net::Net;

use super::machine::{Kind, Loaded, Machine};
use super::{Hosted, Phase};
use crate::env::Env;
use crate::shard::Shard;

/// Records applied before others get their turn.
const APPLY_RECORDS: usize = 1_000;
/// The least that is read at once.
const READ_BYTES_MIN: usize = 64 * 1024;

/// The rest after the first time that a log could not be read.
const RETRY_MS_MIN: u64 = 1_000;
/// The longest rest.
const RETRY_MS_MAX: u64 = 60_000;

/// A piece of a log, decoded.
struct Piece {
    loaded: Vec<Loaded>,
    next: Offset,
    skipped: u64,
}

/// Why a log cannot be loaded.
enum LoadError {
    /// It cannot be read.
    Read(ReadError),
    /// The file cannot.
    File(std::io::Error),
    /// A batch is damaged.
    Damaged(Offset),
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::File(error) => error.fmt(f),
            Self::Damaged(offset) => write!(f, "the batch at offset {} is damaged", offset.0),
        }
    }
}

/// What a load comes to.
#[derive(Default)]
struct Tally {
    records: u64,
    skipped: u64,
}

impl<E: Env> Shard<E> {
    /// The shard's loader: one partition after the other.
    pub(crate) async fn run_coordinator_loader(self: Rc<Self>) {
        loop {
            let next = self.coordinators.to_load.borrow_mut().pop_front();
            if let Some(hosted) = next {
                if self.is_stopping.get() {
                    return;
                }
                self.load_coordinator(&hosted).await;
                continue;
            }
            match self.list_due_retries() {
                Some(at) => {
                    let wanted = &self.coordinators.load_wanted;
                    self.sleep_or_notified(at, wanted).await;
                }
                None => self.coordinators.load_wanted.notified().await,
            }
            self.list_due_retries();
        }
    }

    /// Lists again what is to be tried now; when the next is due.
    fn list_due_retries(&self) -> Option<Monotonic> {
        let now = self.net.now();
        let coordinators = &self.coordinators;
        let mut to_retry = coordinators.to_retry.borrow_mut();
        // Given up meanwhile: another took its place, or none.
        to_retry.retain(|(_, hosted)| hosted.phase.get() == Phase::Failed);
        to_retry.retain(|(at, hosted)| {
            let is_due = *at <= now;
            if is_due {
                hosted.phase.set(Phase::Loading);
                coordinators
                    .to_load
                    .borrow_mut()
                    .push_back(Rc::clone(hosted));
                coordinators.load_wanted.notify();
            }
            !is_due
        });
        to_retry.iter().map(|(at, _)| *at).min()
    }

    /// Notes that a log could not be read. Whatever was the matter may pass: a disk that is full of errors, a file that is put back.
    fn retry_load(&self, hosted: &Rc<Hosted<E>>) -> u64 {
        // What was applied of it is not the whole.
        let fresh = Machine::new(hosted.kind, &self.coordinator_settings());
        hosted.state.replace(fresh);
        hosted.phase.set(Phase::Failed);
        let failures = hosted.failures.get();
        hosted.failures.set(failures.saturating_add(1));
        let doubled = RETRY_MS_MIN.saturating_mul(1 << failures.min(16));
        let wait_ms = doubled.min(RETRY_MS_MAX);
        let at = self.net.now().plus_ms(wait_ms);
        let mut to_retry = self.coordinators.to_retry.borrow_mut();
        to_retry.push((at, Rc::clone(hosted)));
        wait_ms
    }

    async fn load_coordinator(self: &Rc<Self>, hosted: &Rc<Hosted<E>>) {
        let began = self.net.now();
        // A producer id may be wanted soon, and getting one takes a while.
        if hosted.kind == Kind::Transactions {
            self.want_producer_ids();
        }
        let loaded = self.replay_log(hosted).await;
        if hosted.phase.get() != Phase::Loading {
            return;
        }
        let partition = hosted.slot.id.partition;
        match loaded {
            Ok(tally) => {
                let took_us = self.net.now().since(began) / 1_000;
                hosted.phase.set(Phase::Active);
                let made = self.with_scene(|scene| hosted.state.borrow_mut().loaded(scene));
                self.carry_out(hosted, made);
                self.rearm_coordinators(hosted);
                if tally.records > 0 {
                    tracing::info!(topic = hosted.kind.topic(), %partition, records = tally.records, skipped = tally.skipped, took_us, "loaded a coordinator");
                }
            }
            Err(error) => {
                let retry_ms = self.retry_load(hosted);
                tracing::error!(topic = hosted.kind.topic(), %partition, %error, retry_ms, "cannot load a coordinator: it does not serve");
                if let LoadError::Read(ReadError::Storage(error)) = &error {
                    self.blame(hosted.slot.dir(), error);
                }
            }
        }
    }

    async fn replay_log(self: &Rc<Self>, hosted: &Rc<Hosted<E>>) -> Result<Tally, LoadError> {
        let mut tally = Tally::default();
        let slot = &hosted.slot;
        let mut from = slot.state.borrow().log_start();
        loop {
            // Nothing is decided here meanwhile, but transactions may end.
            let end = slot.state.borrow().log_end();
            if end <= from || hosted.phase.get() != Phase::Loading || self.is_stopping.get() {
                break;
            }
            let bytes_max = hosted.kind.load_bytes(&self.settings());
            let options = ReadOptions {
                from,
                up_to: end,
                bytes_max: bytes_max.max(READ_BYTES_MIN),
                at_least_one: true,
            };
            self.make_room(slot).await;
            let read = slot.log().read(options).await.map_err(LoadError::Read)?;
            if read.slices.is_empty() {
                break;
            }
            let slices = read.slices;
            let kind = hosted.kind;
            let decoded = self.net.run_blocking(move || decode(kind, slices, from));
            let piece = decoded.await?;
            assert!(from < piece.next, "a piece has at least one batch");
            from = piece.next;
            tally.records += piece.loaded.len() as u64;
            tally.skipped += piece.skipped;
            self.apply_piece(hosted, piece).await;
        }
        Ok(tally)
    }

    async fn apply_piece(&self, hosted: &Hosted<E>, piece: Piece) {
        let mut loaded = piece.loaded.into_iter().peekable();
        while loaded.peek().is_some() {
            {
                let mut state = hosted.state.borrow_mut();
                for one in loaded.by_ref().take(APPLY_RECORDS) {
                    state.replay(&one);
                }
            }
            self.net.yield_now().await;
        }
    }
}

fn decode(kind: Kind, slices: Vec<Slice>, from: Offset) -> Result<Piece, LoadError> {
    let mut piece = Piece {
        loaded: Vec::new(),
        next: from,
        skipped: 0,
    };
    for slice in slices {
        let bytes = read_slice(slice).map_err(LoadError::File)?;
        for batch in Batches::new(&bytes) {
            let damaged = LoadError::Damaged(piece.next);
            let Ok((header, batch)) = batch else {
                return Err(damaged);
            };
            if !verify_crc(batch) || !piece.add(kind, &header, &bytes.slice_ref(batch)) {
                return Err(damaged);
            }
            piece.next = header.last_offset().plus(1);
        }
    }
    Ok(piece)
}

impl Piece {
    /// Adds a batch's records; whether they could be read.
    fn add(&mut self, kind: Kind, header: &BatchHeader, batch: &Bytes) -> bool {
        let Ok(records) = RecordIter::new(batch, DECOMPRESSED_BYTES_MAX) else {
            return false;
        };
        for record in records {
            let Ok(record) = record else {
                return false;
            };
            if record.offset(header) < self.next {
                // The batch holds the first offset wanted, and others before it.
                continue;
            }
            let Some(key) = record.key else {
                self.skipped += 1;
                continue;
            };
            if header.is_control() {
                let end = transaction_end(&key).filter(|_| kind == Kind::Groups);
                if let Some(committed) = end {
                    self.loaded.push(Loaded::End(header.producer_id, committed));
                }
                continue;
            }
            let producer = header.is_transactional().then_some(header.producer_id);
            match Loaded::decode(kind, producer, &key, record.value.as_ref()) {
                Some(loaded) => self.loaded.push(loaded),
                None => self.skipped += 1,
            }
        }
        true
    }
}

/// Whether a control record ends a transaction, and how: its key is a version and a type, 0 to abort, 1 to commit.
fn transaction_end(key: &[u8]) -> Option<bool> {
    match key.get(2..4)? {
        [0, 0] => Some(false),
        [0, 1] => Some(true),
        _ => None,
    }
}
