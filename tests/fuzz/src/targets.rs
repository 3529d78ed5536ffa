//! Every decoder of foreign bytes as a function that takes any bytes and must return: no panic, no claim believed.
//!
//! One list, used twice: by cargo-fuzz (a binary per name, see `fuzz_targets/any.rs`) and by the bounded run in the test
//! suite. What the crates offer under `fuzz` is taken from there; what concerns two crates, or a file, is written here.

use std::path::Path;

use bytes::{Bytes, BytesMut};
use futures_lite::future::block_on;
use pelton_machine::connection::{FrameReader, Step};
use pelton_model::producer_state::ProducerStates;
use pelton_model::{Monotonic, Offset, batch, limits};
use pelton_protocol::{fuzz as protocol, group_record, transaction_record};
use pelton_storage::disk::memory::MemoryDisk;
use pelton_storage::disk::range::read_slice;
use pelton_storage::disk::{Disk, DiskFile, OpenMode};
use pelton_storage::index::{OffsetEntry, TimeEntry, decode_all};
use pelton_storage::{Log, LogConfig, LogStore, OpenOptions, ReadOptions, format};

/// A decoder by name.
pub(crate) type Target = (String, Decoder);

type Decoder = fn(&[u8]);

/// All of them.
#[must_use]
pub(crate) fn all() -> Vec<Target> {
    let named: [(&str, Decoder); 16] = [
        ("request", protocol::request),
        ("metadata_batch", protocol::metadata_batch),
        ("metadata_value", protocol::metadata_value),
        ("group_record", group_record::fuzz),
        ("transaction_record", transaction_record::fuzz),
        ("batches", batch::fuzz::batches),
        ("produce", batch::fuzz::produce),
        ("produce_records", batch::fuzz::produce_records),
        ("decompress", batch::fuzz::decompress),
        ("producer_snapshot", producer_snapshot),
        ("frames", frames),
        ("checkpoints", checkpoints),
        ("identity", identity),
        ("indexes", indexes),
        ("segment", segment),
        ("damaged_segment", damaged_segment),
    ];
    let named = named.into_iter().map(|(name, run)| (name.to_owned(), run));
    let messages = protocol::targets().iter().chain(protocol::records());
    named.chain(messages.map(|target| (snake_case(target.name), target.run))).collect()
}

fn snake_case(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// A producer snapshot that is accepted is written again to the same producers.
fn producer_snapshot(data: &[u8]) {
    if let Ok(states) = ProducerStates::decode_snapshot(data) {
        let written = states.encode_snapshot(Offset(i64::MAX));
        assert!(ProducerStates::decode_snapshot(&written).is_ok());
    }
}

/// Frames come out whole whatever the pieces they arrive in; the first byte sets the size of the pieces.
fn frames(data: &[u8]) {
    let Some((&size, stream)) = data.split_first() else { return };
    let whole = split(stream, stream.len().max(1));
    let pieces = split(stream, usize::from(size) + 1);
    assert_eq!(whole, pieces);
}

/// The frames of a stream, and whether it was refused.
fn split(stream: &[u8], piece: usize) -> (Vec<Vec<u8>>, bool) {
    let mut reader = FrameReader::new(limits::REQUEST_BYTES_MAX);
    let mut buffer = BytesMut::new();
    let mut frames = Vec::new();
    for bytes in stream.chunks(piece) {
        buffer.extend_from_slice(bytes);
        loop {
            match reader.next(&mut buffer) {
                Ok(Step::Frame(frame)) => frames.push(frame.bytes.to_vec()),
                Ok(Step::Read) => break,
                Ok(Step::Reserve { pool, bytes }) => reader.on_reserved(pool, bytes, Monotonic(0)),
                Err(_) => return (frames, true),
            }
        }
    }
    (frames, false)
}

/// Checkpoint files of a log directory and of a partition.
fn checkpoints(data: &[u8]) {
    let sizes = [
        format::decode_checkpoint(data).map_or(0, |rows| rows.len()),
        format::decode_epochs(data).map_or(0, |entries| entries.len()),
    ];
    assert!(sizes.iter().all(|size| *size <= data.len()));
    let _any_id = format::decode_partition_metadata(data);
}

/// `meta.properties` and the mark of a clean stop.
fn identity(data: &[u8]) {
    let _any_identity = format::decode_meta(data);
    let _any_epoch = format::decode_clean_marker(data);
}

/// Offset and time index files.
fn indexes(data: &[u8]) {
    assert!(decode_all::<OffsetEntry>(data).len() <= data.len() / 8);
    assert!(decode_all::<TimeEntry>(data).len() <= data.len() / 12);
}

/// Any bytes as a segment file.
fn segment(data: &[u8]) {
    recover(data.to_vec());
}

/// Three good batches, then changed at the places and to the values that the bytes name.
fn damaged_segment(data: &[u8]) {
    let mut file = Vec::new();
    for base in 0..3 {
        let options = batch::BuilderOptions {
            base_offset: Offset(base * 2),
            leader_epoch: pelton_model::LeaderEpoch(0),
            ..batch::BuilderOptions::default()
        };
        let mut builder = batch::BatchBuilder::new(options);
        for _ in 0..2 {
            builder.append(pelton_model::Timestamp(1), Some(b"key"), Some(&[7; 40]), &[]);
        }
        file.extend_from_slice(&builder.build());
    }
    for change in data.chunks_exact(3) {
        let place = usize::from(u16::from_be_bytes([change[0], change[1]])) % file.len();
        file[place] ^= change[2];
    }
    recover(file);
}

/// Opens a partition with this segment after a crash. What is kept can be read, and opening once more keeps the same.
fn recover(file: Vec<u8>) {
    let disk = MemoryDisk::new();
    let folder = Path::new("/t-0");
    block_on(async {
        disk.create_dir_all(folder).await.expect("memory has room");
        let path = folder.join("00000000000000000000.log");
        let segment = disk.open(&path, OpenMode::Create).await.expect("memory has room");
        segment.write_all_at(&[Bytes::from(file)], 0).await.expect("memory has room");
        drop(segment);
        let Some(first) = open(&disk, folder).await else { return };
        assert_eq!(open(&disk, folder).await, Some(first), "recovery is idempotent");
    });
}

/// The log end after an unclean open, with everything below it read; `None` when the directory is refused.
async fn open(disk: &MemoryDisk, folder: &Path) -> Option<i64> {
    let options = OpenOptions {
        config: LogConfig::default(),
        recovery_point: Offset(0),
        clean: false,
        log_start: None,
    };
    let store = LogStore::new(disk.clone());
    let (log, recovery) = Log::open(&store, folder, options).await.ok()?;
    assert_eq!(log.log_end(), recovery.log_end);
    let mut from = log.log_start();
    while from < log.log_end() {
        let want =
            ReadOptions { from, up_to: log.log_end(), bytes_max: 1 << 20, at_least_one: true };
        let read = log.read(want).await.expect("what recovery kept can be read");
        assert!(read.size_bytes > 0, "no bytes at {from:?} of {:?}", log.log_end());
        let mut bytes = Vec::new();
        for slice in &read.slices {
            bytes.extend_from_slice(&read_slice(slice.clone()).expect("memory can be read"));
        }
        for each in batch::Batches::new(&bytes) {
            let (header, bytes) = each.expect("whole batches");
            assert!(batch::verify_crc(bytes));
            from = Offset(header.last_offset().0 + 1);
        }
    }
    Some(log.log_end().0)
}
