//! The least that a program can do for the bytes that [`crate::worker`] sends: the yardstick for what a broker costs on top.
//! NOT a broker: one thread, no validation beyond the CRC, no recovery, no limits, one topic whatever its name.
//!
//! 1. Produce: receive, CRC-32C, patch the base offset, write, answer; one write for what a turn of a connection answers.
//! 2. Fetch: header by `send(MSG_MORE)`, records by `sendfile` with a send buffer of 256 KiB; waits when there is nothing.
//! 3. The prepared tail reserves blocks ahead and writes zeros in 64 KiB steps just before the log's end, so that an append
//!    overwrites pages that are there. `plain` appends to a growing file, `nostore` writes nothing.
//! 4. `synced` is the prepared tail with one fdatasync for each turn of the loop, before its answers.
//!
//! Source: the technique is that of a null broker, as measured; ListOffsets always tells the end.

use std::collections::VecDeque;
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use crc32c::crc32c;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::fs::{FallocateFlags, fallocate, fdatasync, sendfile};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{SendFlags, send};
use serde::{Deserialize, Serialize};

use crate::connection::{Connection, Filled};
use crate::error::{PerfError, io_error};

/// Blocks are reserved in steps that grow with the file, between these two.
const RESERVE_BYTES_MIN: u64 = 256 << 10;
const RESERVE_BYTES_MAX: u64 = 64 << 20;
const STEP_BYTES: usize = 64 << 10;
const SEND_BUFFER_BYTES: usize = 256 << 10;
const RECEIVE_BYTES: usize = 256 << 10;
const EVENTS_MAX: usize = 256;
const LISTENER: u64 = u64::MAX;

/// What happens to the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Storing {
    /// Written over pages that are there already.
    Prepared,
    /// Written to a growing file.
    Plain,
    /// Written over prepared pages and synced before the answer.
    Synced,
    /// Forgotten.
    Nostore,
    /// Sent back, as many as came: a TCP echo.
    Echo,
}

impl Storing {
    fn is_prepared(self) -> bool {
        matches!(self, Self::Prepared | Self::Synced)
    }

    fn writes(self) -> bool {
        matches!(self, Self::Prepared | Self::Plain | Self::Synced)
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    base_offset: i64,
    at: u64,
}

/// A partition: a file, and where each batch begins.
#[derive(Debug)]
struct Log {
    file: File,
    end_offset: i64,
    size: u64,
    reserved: u64,
    prepared: u64,
    entries: Vec<Entry>,
    waiting: Vec<usize>,
    is_dirty: bool,
}

impl Log {
    fn open(directory: &Path, partition: usize) -> Result<Self, PerfError> {
        let path = directory.join(format!("limit-{partition}"));
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(true).open(&path);
        Ok(Self {
            file: file.map_err(io_error("opening", path.display().to_string()))?,
            end_offset: 0,
            size: 0,
            reserved: 0,
            prepared: 0,
            entries: Vec::new(),
            waiting: Vec::new(),
            is_dirty: false,
        })
    }

    fn prepare(&mut self, length: u64) -> std::io::Result<()> {
        static ZEROS: [u8; STEP_BYTES] = [0; STEP_BYTES];
        while self.reserved < self.size + length {
            let flags = FallocateFlags::KEEP_SIZE;
            // A filesystem that cannot reserve is written to without.
            let step = self.reserved.clamp(RESERVE_BYTES_MIN, RESERVE_BYTES_MAX);
            fallocate(&self.file, flags, self.reserved, step).unwrap_or_default();
            self.reserved += step;
        }
        while self.prepared < self.size + length {
            self.file.write_all_at(&ZEROS, self.prepared)?;
            self.prepared += STEP_BYTES as u64;
        }
        Ok(())
    }

    /// Appends a batch; its base offset, or what is wrong.
    fn append(&mut self, batch: &mut [u8], storing: Storing) -> Result<i64, i16> {
        const CORRUPT_MESSAGE: i16 = 2;
        const KAFKA_STORAGE_ERROR: i16 = 56;
        let crc = batch.get(17..21).and_then(|crc| crc.try_into().ok()).map(u32::from_be_bytes);
        let delta = batch.get(23..27).and_then(|at| at.try_into().ok()).map(i32::from_be_bytes);
        let (Some(crc), Some(delta)) = (crc, delta) else { return Err(CORRUPT_MESSAGE) };
        if crc != crc32c(&batch[21..]) {
            return Err(CORRUPT_MESSAGE);
        }
        let base_offset = self.end_offset;
        batch[..8].copy_from_slice(&base_offset.to_be_bytes());
        let length = batch.len() as u64;
        if storing.is_prepared() {
            self.prepare(length).map_err(|_| KAFKA_STORAGE_ERROR)?;
        }
        if storing.writes() {
            self.file.write_all_at(batch, self.size).map_err(|_| KAFKA_STORAGE_ERROR)?;
        }
        self.entries.push(Entry { base_offset, at: self.size });
        self.end_offset = base_offset + i64::from(delta) + 1;
        self.size += length;
        self.is_dirty = true;
        Ok(base_offset)
    }

    /// The bytes of the file from the batch that holds the offset on.
    fn range(&self, offset: i64, bytes_max: u64) -> Option<(u64, u64)> {
        if self.end_offset <= offset {
            return None;
        }
        let next = self.entries.partition_point(|entry| entry.base_offset <= offset);
        let from = next.checked_sub(1).map_or(0, |index| self.entries[index].at);
        Some((from, (self.size - from).min(bytes_max)))
    }
}

#[derive(Debug)]
enum Piece {
    Bytes { bytes: Vec<u8>, sent: usize },
    File { log: usize, at: u64, left: u64 },
}

#[derive(Debug)]
struct Client {
    connection: Connection,
    out: VecDeque<Piece>,
    /// A fetch that waits.
    waiting: Option<Vec<u8>>,
}

/// A signed integer at a position, which moves behind it; none beyond the end.
fn int(frame: &[u8], at: &mut usize, length: usize) -> Option<i64> {
    let bytes = frame.get(*at..at.checked_add(length)?)?;
    *at += length;
    let negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
    let start = if negative { -1_i64 } else { 0 };
    Some(bytes.iter().fold(start, |value, &byte| (value << 8) | i64::from(byte)))
}

/// A length (null is 0) of so many bytes, and what it counts, as a range.
fn counted(frame: &[u8], at: &mut usize, size: usize) -> Option<Range<usize>> {
    let length = usize::try_from(int(frame, at, size)?).unwrap_or(0);
    let range = *at..at.checked_add(length)?;
    frame.get(range.clone())?;
    *at = range.end;
    Some(range)
}

fn put_int(out: &mut Vec<u8>, value: i64, length: usize) {
    out.extend_from_slice(&value.to_be_bytes()[8 - length..]);
}

/// The bytes at the end of what is to be sent.
fn tail(out: &mut VecDeque<Piece>) -> &mut Vec<u8> {
    if !matches!(out.back(), Some(Piece::Bytes { .. })) {
        out.push_back(Piece::Bytes { bytes: Vec::new(), sent: 0 });
    }
    match out.back_mut() {
        Some(Piece::Bytes { bytes, .. }) => bytes,
        Some(Piece::File { .. }) | None => unreachable!("bytes were put there"),
    }
}

/// Runs the program until it is killed.
///
/// # Errors
/// The port is taken, or the kernel refuses something.
pub(crate) fn serve(
    address: SocketAddr,
    directory: PathBuf,
    storing: Storing,
) -> Result<(), PerfError> {
    let mut server = Server::new(address, directory, storing)?;
    let mut events = Vec::with_capacity(EVENTS_MAX);
    loop {
        events.clear();
        match epoll::wait(&server.epoll, spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(io_error("waiting on", "epoll")(error)),
        }
        for event in &events {
            match event.data.u64() {
                LISTENER => server.accept()?,
                index => server.serve(index as usize)?,
            }
        }
        server.end_turn()?;
    }
}

struct Server {
    listener: TcpListener,
    epoll: OwnedFd,
    directory: PathBuf,
    storing: Storing,
    /// By partition.
    logs: Vec<Option<Log>>,
    clients: Vec<Option<Client>>,
    touched: Vec<usize>,
    woken: Vec<usize>,
}

/// The most partitions served: what the index in a request is taken modulo.
const PARTITIONS_MAX: i64 = 4_096;

impl Server {
    fn new(address: SocketAddr, directory: PathBuf, storing: Storing) -> Result<Self, PerfError> {
        let listening = || io_error("listening on", address.to_string());
        let listener = TcpListener::bind(address).map_err(listening())?;
        listener.set_nonblocking(true).map_err(listening())?;
        let epoll =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io_error("creating", "epoll"))?;
        let data = epoll::EventData::new_u64(LISTENER);
        epoll::add(&epoll, &listener, data, epoll::EventFlags::IN)
            .map_err(io_error("watching", "the listener"))?;
        Ok(Self {
            listener,
            epoll,
            directory,
            storing,
            logs: Vec::new(),
            clients: Vec::new(),
            touched: Vec::new(),
            woken: Vec::new(),
        })
    }

    fn accept(&mut self) -> Result<(), PerfError> {
        while let Ok((stream, _)) = self.listener.accept() {
            let failed = || io_error("preparing", "a connection");
            set_socket_send_buffer_size(&stream, SEND_BUFFER_BYTES)
                .map_err(io_error("preparing", "a connection"))?;
            let connection = Connection::adopt(stream, RECEIVE_BYTES).map_err(failed())?;
            let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
            let data = epoll::EventData::new_u64(self.clients.len() as u64);
            epoll::add(&self.epoll, connection.stream(), data, flags)
                .map_err(io_error("watching", "a connection"))?;
            let client = Client { connection, out: VecDeque::new(), waiting: None };
            self.clients.push(Some(client));
        }
        Ok(())
    }

    fn serve(&mut self, index: usize) -> Result<(), PerfError> {
        let Some(mut client) = self.clients.get_mut(index).and_then(Option::take) else {
            return Ok(());
        };
        if self.turn(index, &mut client)? {
            self.clients[index] = Some(client);
            self.touched.push(index);
        }
        if self.storing != Storing::Synced {
            self.wake();
        }
        Ok(())
    }

    /// Reads and answers what is there; false when the client is gone.
    fn turn(&mut self, index: usize, client: &mut Client) -> Result<bool, PerfError> {
        if !flush(client, &self.logs) {
            return Ok(false);
        }
        loop {
            let filled = client.connection.fill();
            if filled == Filled::Closed {
                return Ok(false);
            }
            while let Some(range) = client.connection.frame()? {
                if self.answer(index, client, range).is_none() {
                    return Ok(false);
                }
            }
            if self.storing != Storing::Synced && !flush(client, &self.logs) {
                return Ok(false);
            }
            if filled == Filled::Drained {
                return Ok(true);
            }
        }
    }

    /// None for a request that is not understood.
    fn answer(&mut self, index: usize, client: &mut Client, range: Range<usize>) -> Option<()> {
        let key = int(&client.connection.input()[range.clone()], &mut 0, 2)?;
        if self.storing == Storing::Echo && key == 0 {
            let frame = &client.connection.input()[range.start - 4..range.end];
            let out = tail(&mut client.out);
            // As many bytes, but they pass for an answer: the request's correlation id, and no topics.
            out.extend_from_slice(&frame[..4]);
            out.extend_from_slice(frame.get(8..12)?);
            out.extend_from_slice(&[0; 4]);
            out.extend_from_slice(&frame[12..]);
            return Some(());
        }
        match key {
            0 => self.produce(client, range),
            1 => {
                let frame = client.connection.input()[range].to_vec();
                self.fetch(index, client, frame)
            }
            2 => self.list_offsets(client, range),
            _ => None,
        }
    }

    fn log(&mut self, partition: i64) -> Option<&mut Log> {
        let index = usize::try_from(partition.rem_euclid(PARTITIONS_MAX)).ok()?;
        if self.logs.len() <= index {
            self.logs.resize_with(index + 1, || None);
        }
        if self.logs[index].is_none() {
            self.logs[index] = Log::open(&self.directory, index).ok();
        }
        self.logs[index].as_mut()
    }

    fn produce(&mut self, client: &mut Client, range: Range<usize>) -> Option<()> {
        let frame = client.connection.input_mut().get_mut(range)?;
        let at = &mut 4;
        let correlation = int(frame, at, 4)?;
        counted(frame, at, 2)?;
        counted(frame, at, 2)?;
        let acks = int(frame, at, 2)?;
        *at += 8;
        let name = counted(frame, at, 2)?;
        let partitions = int(frame, at, 4)?;
        let out = tail(&mut client.out);
        let start = out.len();
        put_int(out, 0, 4);
        put_int(out, correlation, 4);
        put_int(out, 1, 4);
        put_int(out, name.len() as i64, 2);
        out.extend_from_slice(&frame[name]);
        put_int(out, partitions, 4);
        for _ in 0..partitions {
            let partition = int(frame, at, 4)?;
            let batch = counted(frame, at, 4)?;
            let storing = self.storing;
            let log = self.log(partition)?;
            let (code, base) = match log.append(&mut frame[batch], storing) {
                Ok(base) => (0, base),
                Err(code) => (code, -1),
            };
            let waiting = std::mem::take(&mut log.waiting);
            self.woken.extend(waiting);
            put_int(out, partition, 4);
            put_int(out, code.into(), 2);
            put_int(out, base, 8);
            put_int(out, -1, 8);
            put_int(out, 0, 8);
        }
        put_int(out, 0, 4);
        if acks == 0 {
            out.truncate(start);
        } else {
            let length = u32::try_from(out.len() - start - 4).ok()?;
            out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        }
        Some(())
    }

    fn fetch(&mut self, index: usize, client: &mut Client, frame: Vec<u8>) -> Option<()> {
        let at = &mut 4;
        let correlation = int(&frame, at, 4)?;
        counted(&frame, at, 2)?;
        // Replica, wait, bytes, isolation, session, number of topics.
        *at += 4 + 4 + 4 + 4 + 1 + 8 + 4;
        let name = counted(&frame, at, 2)?;
        let count = int(&frame, at, 4)?;
        let mut parts = Vec::new();
        for _ in 0..count {
            let partition = int(&frame, at, 4)?;
            *at += 4;
            let offset = int(&frame, at, 8)?;
            *at += 8;
            let bytes_max = u64::try_from(int(&frame, at, 4)?).ok()?;
            let log = self.log(partition)?;
            parts.push((partition, log.end_offset, log.range(offset, bytes_max)));
        }
        if parts.iter().all(|(_, _, range)| range.is_none()) {
            for (partition, ..) in parts {
                self.log(partition)?.waiting.push(index);
            }
            client.waiting = Some(frame);
            return Some(());
        }
        let records: u64 = parts.iter().filter_map(|part| part.2).map(|(_, length)| length).sum();
        // Behind the length: correlation, throttle time, code, session, topics, name, partitions.
        let fixed = 4 + 4 + 2 + 4 + 4 + 2 + name.len() + 4 + parts.len() * 42;
        let out = tail(&mut client.out);
        put_int(out, fixed as i64 + i64::try_from(records).ok()?, 4);
        put_int(out, correlation, 4);
        out.extend_from_slice(&[0; 10]);
        put_int(out, 1, 4);
        put_int(out, name.len() as i64, 2);
        out.extend_from_slice(&frame[name]);
        put_int(out, count, 4);
        for (partition, end, range) in parts {
            let out = tail(&mut client.out);
            put_int(out, partition, 4);
            put_int(out, 0, 2);
            put_int(out, end, 8);
            put_int(out, end, 8);
            put_int(out, 0, 8);
            put_int(out, 0, 4);
            put_int(out, -1, 4);
            let (at, left) = range.unwrap_or((0, 0));
            put_int(out, i64::try_from(left).ok()?, 4);
            if 0 < left {
                let log = usize::try_from(partition.rem_euclid(PARTITIONS_MAX)).ok()?;
                client.out.push_back(Piece::File { log, at, left });
            }
        }
        Some(())
    }

    fn list_offsets(&mut self, client: &mut Client, range: Range<usize>) -> Option<()> {
        let frame = &client.connection.input()[range];
        let at = &mut 4;
        let correlation = int(frame, at, 4)?;
        counted(frame, at, 2)?;
        *at += 8;
        let name = counted(frame, at, 2)?;
        *at += 4;
        let partition = int(frame, at, 4)?;
        let end = self.log(partition)?.end_offset;
        let out = tail(&mut client.out);
        put_int(out, (4 + 4 + 2 + name.len() + 4 + 22) as i64, 4);
        put_int(out, correlation, 4);
        put_int(out, 1, 4);
        put_int(out, name.len() as i64, 2);
        out.extend_from_slice(&frame[name]);
        put_int(out, 1, 4);
        put_int(out, partition, 4);
        put_int(out, 0, 2);
        put_int(out, -1, 8);
        put_int(out, end, 8);
        Some(())
    }

    /// Answers fetches that waited for what was appended.
    fn wake(&mut self) {
        for index in std::mem::take(&mut self.woken) {
            let Some(mut client) = self.clients.get_mut(index).and_then(Option::take) else {
                continue;
            };
            let waiting = client.waiting.take();
            let answered =
                waiting.is_none_or(|frame| self.fetch(index, &mut client, frame).is_some());
            if answered && flush(&mut client, &self.logs) {
                self.clients[index] = Some(client);
            }
        }
    }

    /// Syncs what was written in this turn, and only then answers, where that is asked for.
    fn end_turn(&mut self) -> Result<(), PerfError> {
        let touched = std::mem::take(&mut self.touched);
        if self.storing != Storing::Synced {
            return Ok(());
        }
        for log in self.logs.iter_mut().flatten().filter(|log| log.is_dirty) {
            fdatasync(&log.file).map_err(io_error("syncing", "a log"))?;
            log.is_dirty = false;
        }
        for index in touched {
            let Some(slot) = self.clients.get_mut(index) else { continue };
            if slot.as_mut().is_some_and(|client| !flush(client, &self.logs)) {
                *slot = None;
            }
        }
        self.wake();
        Ok(())
    }
}

/// Sends what waits, as far as the socket takes it; false when the client is gone.
fn flush(client: &mut Client, logs: &[Option<Log>]) -> bool {
    let Client { connection, out, .. } = client;
    loop {
        let more = 1 < out.len();
        let Some(piece) = out.front_mut() else { return true };
        let (sent, is_done) = match piece {
            Piece::Bytes { bytes, sent } => {
                if bytes.is_empty() && !more {
                    return true;
                }
                let flags = if more { SendFlags::MORE } else { SendFlags::empty() };
                let result =
                    send(connection.stream(), &bytes[*sent..], flags | SendFlags::NOSIGNAL);
                *sent += result.unwrap_or(0);
                (result, *sent == bytes.len())
            }
            Piece::File { log, at, left } => {
                let Some(log) = logs.get(*log).and_then(Option::as_ref) else { return false };
                let count = usize::try_from(*left).unwrap_or(usize::MAX);
                let result = sendfile(connection.stream(), &log.file, Some(at), count);
                *left -= result.unwrap_or(0) as u64;
                (result, *left == 0)
            }
        };
        match sent {
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return true,
            Err(_) => return false,
        }
        if !is_done {
            continue;
        }
        match out.front_mut() {
            // The memory of the last piece is kept for what comes next.
            Some(Piece::Bytes { bytes, sent }) if !more => {
                bytes.clear();
                *sent = 0;
                return true;
            }
            Some(_) | None => drop(out.pop_front()),
        }
    }
}
