//! Tests of the connection: frames, memory, order; one table per rule.

use bytes::{BufMut, BytesMut};
use pelton_model::Monotonic;
use pelton_model::limits::{
    FRAME_FREE_BYTES_MAX, FRAME_GROW_BYTES_MAX, PRODUCE_IN_FLIGHT_MAX, RECV_BYTES_MAX,
    RECV_BYTES_MIN, REQUEST_BYTES_MAX, RESERVATION_STALL_MS_MAX,
};

use super::*;

const MIB: usize = 1024 * 1024;

fn stream(bytes: &[u8]) -> BytesMut {
    BytesMut::from(bytes)
}

fn frame(body: &[u8]) -> Step {
    Step::Frame(Frame {
        bytes: BytesMut::from(body),
        reserved: Reserved::default(),
    })
}

// Goal: what a stream begins with decides. Method: bytes and the first step; claimed lengths reserve nothing.
#[test]
fn first_step() {
    fn check(bytes: &[u8], expected: Result<Step, FrameRefused>) {
        let mut buffer = stream(bytes);
        assert_eq!(
            FrameReader::new(REQUEST_BYTES_MAX).next(&mut buffer),
            expected
        );
        assert!(buffer.capacity() <= RECV_BYTES_MAX);
    }
    check(b"", Ok(Step::Read));
    check(b"\0\0\0", Ok(Step::Read));
    check(b"\0\0\0\x08", Ok(Step::Read));
    check(b"\0\0\0\x08abcdefg", Ok(Step::Read));
    check(b"\0\0\0\x08abcdefgh", Ok(frame(b"abcdefgh")));
    check(b"\0\0\0\x08abcdefgh\0\0", Ok(frame(b"abcdefgh")));
    check(b"\xff\xff\xff\xff", Err(FrameRefused::Negative(-1)));
    check(b"\x80\0\0\0", Err(FrameRefused::Negative(i32::MIN)));
    check(b"\0\0\0\0", Err(FrameRefused::TooShort(0)));
    check(b"\0\0\0\x03abc", Err(FrameRefused::TooShort(3)));
    check(b"\0\0\0\x07", Err(FrameRefused::TooShort(7)));
    check(b"\x06\x40\0\0", Ok(Step::Read));
    check(b"\x06\x40\0\x01", Err(FrameRefused::TooLarge(104_857_601)));
    check(
        b"GET / HTTP/1.1\r\n",
        Err(FrameRefused::TooLarge(0x4745_5420)),
    );
    check(
        b"\x16\x03\x01\x02\0",
        Err(FrameRefused::TooLarge(0x1603_0102)),
    );
}

// Goal: pipelined frames come out one by one, then the reader wants more. Method: 1000 frames and a half in one buffer.
#[test]
fn many_frames_in_one_buffer() {
    let mut buffer = BytesMut::new();
    for index in 0..1000_u64 {
        buffer.put_i32(8);
        buffer.put_u64(index);
    }
    buffer.put_i32(8);
    buffer.put_u32(7);
    let mut reader = FrameReader::new(REQUEST_BYTES_MAX);
    for index in 0..1000_u64 {
        assert_eq!(reader.next(&mut buffer), Ok(frame(&index.to_be_bytes())));
    }
    assert_eq!(reader.next(&mut buffer), Ok(Step::Read));
    assert_eq!(buffer.len(), 8);
}

/// Receives `bytes` zeros by reads as large as the buffer allows; stops early when a reservation is wanted.
fn receive(reader: &mut FrameReader, buffer: &mut BytesMut, bytes: usize) -> Step {
    let mut left = bytes;
    loop {
        let step = reader.next(buffer).expect("a legal frame");
        if step != Step::Read || left == 0 {
            return step;
        }
        let room = buffer.capacity() - buffer.len();
        assert!(room > 0);
        let read = room.min(left);
        buffer.put_bytes(0, read);
        left -= read;
        // The shard has no room for larger reads.
        reader.on_read(read, Monotonic(0));
    }
}

/// A read of `bytes`, with as much room for the next as it asks for.
fn read_of(reader: &mut FrameReader, bytes: usize, at: u64) {
    if let Room::Grow(more) = reader.on_read(bytes, Monotonic(at)) {
        reader.on_room(more);
    }
}

fn reserved(parts: &[(Pool, usize)]) -> Reserved {
    let mut reserved = Reserved::default();
    for &(pool, bytes) in parts {
        reserved.add(pool, bytes);
    }
    reserved
}

// Goal: a large frame reserves its growth, then its remainder, and gives both to the request. Method: 3 MiB by its life.
#[test]
fn large_frame_reserves() {
    let size = 3 * MIB;
    let mut reader = FrameReader::new(REQUEST_BYTES_MAX);
    let mut buffer = BytesMut::new();
    buffer.put_i32(i32::try_from(size).expect("small"));
    let growth = FRAME_GROW_BYTES_MAX - FRAME_FREE_BYTES_MAX;
    let first = FRAME_FREE_BYTES_MAX - RECV_BYTES_MIN;
    let pool = Pool::First;
    let bytes = first;
    let wanted = receive(&mut reader, &mut buffer, size);
    assert_eq!(wanted, Step::Reserve { pool, bytes });
    assert!(buffer.capacity() <= 8 * RECV_BYTES_MIN);
    reader.on_reserved(pool, bytes, Monotonic(4));
    let stall = reader.stall_deadline().expect("something is reserved");
    assert!(stall.only_if_wanted);
    let left = size + 4 - buffer.len();
    let wanted = receive(&mut reader, &mut buffer, left);
    assert_eq!(
        wanted,
        Step::Reserve {
            pool: Pool::Growth,
            bytes: growth
        }
    );
    assert!(buffer.capacity() <= 2 * FRAME_FREE_BYTES_MAX);
    assert_eq!(
        reader.next(&mut buffer),
        Ok(wanted),
        "asked again until granted"
    );
    reader.on_reserved(Pool::Growth, growth, Monotonic(5));
    let deadline = Monotonic(5).plus_ms(RESERVATION_STALL_MS_MAX);
    let only_if_wanted = false;
    assert_eq!(
        reader.stall_deadline(),
        Some(Stall {
            deadline,
            only_if_wanted
        })
    );

    let rest = size - FRAME_GROW_BYTES_MAX;
    let left = size + 4 - buffer.len();
    let wanted = receive(&mut reader, &mut buffer, left);
    assert_eq!(
        wanted,
        Step::Reserve {
            pool: Pool::Remainder,
            bytes: rest
        }
    );
    assert!(buffer.capacity() <= 2 * (FRAME_GROW_BYTES_MAX + RECV_BYTES_MAX));
    reader.on_reserved(Pool::Remainder, rest, Monotonic(6));
    let left = size + 4 - buffer.len();
    let Step::Frame(frame) = receive(&mut reader, &mut buffer, left) else {
        panic!("whole")
    };
    assert_eq!(frame.bytes.len(), size);
    let parts = [
        (Pool::First, first),
        (Pool::Growth, growth),
        (Pool::Remainder, rest),
    ];
    assert_eq!(frame.reserved, reserved(&parts));
    assert_eq!(reader.stall_deadline(), None);
}

// Goal: an idle connection does not keep the memory of its largest frame. Method: frames of several sizes, dropped before
// the next read or kept beyond it, with and without bytes behind them; then the capacity.
#[test]
fn large_frame_leaves_nothing() {
    fn check(size: usize, behind: usize, is_dropped: bool) {
        let mut reader = FrameReader::new(REQUEST_BYTES_MAX);
        let mut buffer = BytesMut::new();
        buffer.put_i32(i32::try_from(size).expect("small"));
        reader.on_reserved(Pool::Growth, FRAME_GROW_BYTES_MAX, Monotonic(0));
        reader.on_reserved(Pool::Remainder, size, Monotonic(0));
        buffer.put_bytes(0, size + behind);
        let Ok(Step::Frame(frame)) = reader.next(&mut buffer) else {
            panic!("whole")
        };
        let kept = (!is_dropped).then_some(frame);
        assert_eq!(reader.next(&mut buffer), Ok(Step::Read));
        assert_eq!(buffer.len(), behind);
        drop(kept);
        assert_eq!(reader.next(&mut buffer), Ok(Step::Read));
        let capacity = buffer.capacity();
        // `try_reclaim` shows what the buffer's memory is beyond its capacity.
        buffer.clear();
        assert!(
            !buffer.try_reclaim(capacity + RECV_BYTES_MIN),
            "{size} {behind}"
        );
        assert!(capacity <= 2 * RECV_BYTES_MIN);
    }
    check(2 * MIB, 0, true);
    check(2 * MIB, 0, false);
    check(2 * MIB, 3, true);
    check(40 * MIB, 3, false);
}

// Goal: a silent peer's buffer is small, and nothing that has arrived is lost. Method: silence after full reads, with and
// without the beginning of a frame.
#[test]
fn silence_gives_memory_back() {
    fn check(arrived: &[u8], expected: usize) {
        let mut reader = FrameReader::new(REQUEST_BYTES_MAX);
        for _ in 0..10 {
            read_of(&mut reader, RECV_BYTES_MAX, 0);
        }
        let mut buffer = stream(arrived);
        assert_eq!(reader.next(&mut buffer), Ok(Step::Read));
        let back = reader.on_silence(&mut buffer);
        assert_eq!(back + expected, RECV_BYTES_MAX);
        assert_eq!(reader.next(&mut buffer), Ok(Step::Read));
        assert_eq!(buffer, arrived);
        assert!(buffer.capacity() - buffer.len() <= expected);
    }
    check(b"", RECV_BYTES_MIN);
    check(b"\0\0", RECV_BYTES_MAX);
}

// Goal: memory follows the bytes that came, not the claim. Method: 99 MiB claimed, `received` bytes sent, one at a time
// or as fast as the buffer allows.
#[test]
fn claims_cost_nothing() {
    fn check(received: usize, capacity_max: usize) {
        let mut reader = FrameReader::new(REQUEST_BYTES_MAX);
        let mut buffer = BytesMut::new();
        buffer.put_i32(99 * 1024 * 1024);
        for _ in 0..received {
            if let Ok(Step::Reserve { pool, bytes }) = reader.next(&mut buffer) {
                assert_eq!(pool, Pool::First);
                assert!(RECV_BYTES_MIN <= buffer.len(), "a claim reserves nothing");
                reader.on_reserved(pool, bytes, Monotonic(0));
                assert_eq!(reader.next(&mut buffer), Ok(Step::Read));
            }
            buffer.put_u8(0);
            read_of(&mut reader, 1, 0);
        }
        drop(reader.take_reserved());
        assert!(
            buffer.capacity() <= capacity_max,
            "{received}: {}",
            buffer.capacity()
        );
    }
    check(0, RECV_BYTES_MIN);
    check(10, 2 * RECV_BYTES_MIN);
    check(5_000, 16 * 1024);
    check(28 * 1024, 2 * FRAME_FREE_BYTES_MAX);
}

// Goal: the reservation is asked for before the read that may pass the free allowance, and then the room doubles.
// Method: bytes arrived of a 900 KiB frame, with and without its growth reserved.
#[test]
fn growth() {
    fn check(arrived: usize, is_reserved: bool, expected: Step, room: usize) {
        let size: usize = 900 * 1024;
        let mut reader = FrameReader::new(REQUEST_BYTES_MAX);
        reader.on_reserved(Pool::First, 1, Monotonic(0));
        let mut buffer = BytesMut::with_capacity(4 + arrived);
        buffer.put_i32(i32::try_from(size).expect("small"));
        buffer.put_bytes(0, arrived);
        if is_reserved {
            reader.on_reserved(Pool::Growth, 1, Monotonic(0));
        }
        assert_eq!(reader.next(&mut buffer), Ok(expected), "{arrived}");
        assert!(room <= buffer.capacity() - buffer.len());
        drop(reader.take_reserved());
    }
    let free = FRAME_FREE_BYTES_MAX - RECV_BYTES_MIN;
    let reserve = || Step::Reserve {
        pool: Pool::Growth,
        bytes: 900 * 1024 - FRAME_FREE_BYTES_MAX,
    };
    check(0, false, Step::Read, RECV_BYTES_MIN / 2);
    check(free, false, Step::Read, RECV_BYTES_MIN / 2);
    check(free + 1, false, reserve(), 0);
    check(800 * 1024, false, reserve(), 0);
    check(free + 1, true, Step::Read, free + 1);
    check(300 * 1024, true, Step::Read, 300 * 1024);
    check(800 * 1024, true, Step::Read, 100 * 1024);
}

// Goal: what one frame of a connection proved, the next may have at once. Method: a 900 KiB frame, then the first 40 KiB
// of another.
#[test]
fn proved_room() {
    let size: usize = 900 * 1024;
    let prefix = i32::try_from(size).expect("small");
    let mut reader = FrameReader::new(REQUEST_BYTES_MAX);
    let mut buffer = BytesMut::new();
    buffer.put_i32(prefix);
    buffer.put_bytes(0, size);
    assert!(matches!(reader.next(&mut buffer), Ok(Step::Frame(_))));
    buffer = BytesMut::new();
    buffer.put_i32(prefix);
    buffer.put_bytes(0, 40 * 1024);
    reader.on_reserved(Pool::First, 1, Monotonic(0));
    reader.on_reserved(Pool::Growth, 1, Monotonic(0));
    assert_eq!(reader.next(&mut buffer), Ok(Step::Read));
    assert!(860 * 1024 <= buffer.capacity() - buffer.len());
    drop(reader.take_reserved());
}

// Goal: a trickle does not count as progress. Method: reads after a reservation, and where the deadline goes.
#[test]
fn stalls() {
    fn check(reads: &[(usize, u64)], expected_window_start: u64) {
        let mut reader = FrameReader::new(REQUEST_BYTES_MAX);
        reader.on_reserved(Pool::Growth, 1, Monotonic(1));
        for &(bytes, at) in reads {
            read_of(&mut reader, bytes, at);
        }
        let deadline = Monotonic(expected_window_start).plus_ms(RESERVATION_STALL_MS_MAX);
        let only_if_wanted = false;
        assert_eq!(
            reader.stall_deadline(),
            Some(Stall {
                deadline,
                only_if_wanted
            })
        );
        assert!(!reader.take_reserved().is_empty());
        assert_eq!(reader.stall_deadline(), None);
    }
    check(&[], 1);
    check(&[(1, 2), (1, 3)], 1);
    check(&[(65_535, 2)], 1);
    check(&[(65_535, 2), (1, 3)], 3);
    check(&[(70_000, 2), (1, 3)], 2);
}

// Goal: the room offered follows the traffic, as far as the shard has some. Method: full reads, then small ones.
#[test]
fn recv_room_adapts() {
    let mut reader = FrameReader::new(REQUEST_BYTES_MAX);
    let room = |reader: &mut FrameReader| {
        let mut buffer = BytesMut::new();
        assert_eq!(reader.next(&mut buffer), Ok(Step::Read));
        buffer.capacity()
    };
    assert_eq!(room(&mut reader), RECV_BYTES_MIN);
    let asked = reader.on_read(RECV_BYTES_MIN, Monotonic(0));
    assert_eq!(asked, Room::Grow(RECV_BYTES_MIN));
    assert_eq!(room(&mut reader), RECV_BYTES_MIN, "it was not given");
    for _ in 0..10 {
        read_of(&mut reader, RECV_BYTES_MAX, 0);
    }
    assert_eq!(reader.on_read(RECV_BYTES_MAX, Monotonic(0)), Room::Keep);
    assert_eq!(room(&mut reader), RECV_BYTES_MAX);
    for _ in 0..15 {
        assert_eq!(reader.on_read(100, Monotonic(0)), Room::Keep);
    }
    let back = Room::GiveBack(RECV_BYTES_MAX / 2);
    assert_eq!(reader.on_read(100, Monotonic(0)), back);
    assert_eq!(room(&mut reader), RECV_BYTES_MAX / 2);
    for _ in 0..1_000 {
        read_of(&mut reader, 100, 0);
    }
    assert_eq!(room(&mut reader), RECV_BYTES_MIN);
    assert_eq!(reader.take_room(), 0);
}

fn budget(budget_bytes: usize, shards: usize) -> MemoryBudget {
    MemoryBudget::new(BudgetSizes {
        budget_bytes,
        frame_bytes_max: 100 * MIB,
        shards,
        keeps_remainders: true,
        requests_max: 2,
    })
}

// Goal: reservations are granted in order and never beyond the pool. Method: a large one holds a small one back.
#[test]
fn budget_is_fifo() {
    let mut budget = budget(1200 * MIB, 1);
    let held = |bytes| reserved(&[(Pool::Remainder, bytes)]);
    let reserve = |budget: &mut MemoryBudget, id, mib| {
        budget.reserve(HolderId(id), Pool::Remainder, mib * MIB)
    };
    let grant = |id, mib| Grant {
        holder: HolderId(id),
        pool: Pool::Remainder,
        bytes: mib * MIB,
    };
    for id in 0..3 {
        assert_eq!(reserve(&mut budget, id, 90), Admission::Granted);
    }
    assert_eq!(reserve(&mut budget, 3, 99), Admission::Queued);
    assert_eq!(
        reserve(&mut budget, 4, 1),
        Admission::Queued,
        "it fits, but it is not its turn"
    );
    let other = budget.reserve(HolderId(5), Pool::Growth, MIB);
    assert_eq!(other, Admission::Granted, "another pool");
    let mut granted = Vec::new();
    budget.release(held(30 * MIB), &mut granted);
    assert_eq!(granted, []);
    budget.release(held(60 * MIB), &mut granted);
    assert_eq!(granted, [grant(3, 99), grant(4, 1)]);
    assert_eq!(budget.used_bytes(), 281 * MIB);
    assert_eq!(reserve(&mut budget, 6, 99), Admission::Queued);
    assert_eq!(reserve(&mut budget, 7, 10), Admission::Queued);
    granted.clear();
    budget.cancel(HolderId(6), &mut granted);
    assert_eq!(granted, [grant(7, 10)]);
    assert_eq!(budget.waiting_count(), 0);
}

// Goal: a budget of nothing still takes one maximal frame and its request; what was configured is kept to where it
// suffices, however many shards there are. Method: the largest reservations of each pool, and the sizes.
#[test]
fn budget_sizes() {
    let mut smallest = budget(0, 64);
    let parts = [
        (Pool::First, FRAME_FREE_BYTES_MAX),
        (Pool::Growth, MIB),
        (Pool::Remainder, 99 * MIB),
        (Pool::Running, RECV_BYTES_MAX),
        (Pool::Requests, 1),
    ];
    for (pool, bytes) in parts {
        assert_eq!(
            smallest.reserve(HolderId(1), pool, bytes),
            Admission::Granted
        );
    }
    assert_eq!(
        smallest.reserve(HolderId(2), Pool::Remainder, 99 * MIB),
        Admission::Queued
    );
    let size = |budget: &MemoryBudget| -> usize {
        let pools = [
            Pool::First,
            Pool::Growth,
            Pool::Running,
            Pool::Answers,
            Pool::Room,
        ];
        pools.iter().map(|&pool| budget.size(pool)).sum()
    };
    for shards in [1, 2, 64] {
        let budget = budget(1024 * MIB, shards);
        let whole = budget.size(Pool::Remainder) + shards * size(&budget);
        assert!(whole <= 1024 * MIB, "{shards}");
        assert!(900 * MIB <= whole, "{shards}");
    }
}

// Goal: an answer that is there counts even beyond the pool; then others wait. Method: charge, reserve, give back.
#[test]
fn answers() {
    let mut budget = budget(1200 * MIB, 1);
    let size = budget.size(Pool::Answers);
    budget.charge_answer(size / 2);
    budget.charge_answer(size);
    assert_eq!(
        budget.reserve(HolderId(1), Pool::Answers, 1),
        Admission::Queued
    );
    assert!(budget.is_wanted(Pool::Answers));
    let mut granted = Vec::new();
    budget.release_from(Pool::Answers, size / 2, &mut granted);
    assert_eq!(granted, []);
    budget.release_from(Pool::Answers, size, &mut granted);
    assert_eq!(granted.len(), 1);
    assert_eq!(budget.used_bytes(), 1);
}

// Goal: requests are counted, not measured, and a third waits for two. Method: reserve, release.
#[test]
fn requests() {
    let mut budget = budget(1200 * MIB, 1);
    assert!(budget.try_reserve(Pool::Requests, 1));
    assert!(budget.try_reserve(Pool::Requests, 1));
    assert!(!budget.try_reserve(Pool::Requests, 1));
    assert_eq!(budget.used_bytes(), 0);
    assert_eq!(
        budget.reserve(HolderId(1), Pool::Requests, 1),
        Admission::Queued
    );
    let mut granted = Vec::new();
    budget.release(reserved(&[(Pool::Requests, 1)]), &mut granted);
    assert_eq!(granted.len(), 1);
}

// Goal: Produce runs ahead of Produce only. Method: what runs, and what is admitted beside it.
#[test]
fn admission() {
    use RequestClass::{Barrier, Produce};
    fn check(running: &[RequestClass], produce: bool, barrier: bool) {
        let mut pipeline = Pipeline::<()>::default();
        for &class in running {
            pipeline.begin(class);
        }
        assert_eq!(
            (pipeline.admits(Produce), pipeline.admits(Barrier)),
            (produce, barrier)
        );
    }
    check(&[], true, true);
    check(&[Produce], true, false);
    check(&[Barrier], false, false);
    check(&[Produce; PRODUCE_IN_FLIGHT_MAX - 1], true, false);
    check(&[Produce; PRODUCE_IN_FLIGHT_MAX], false, false);
}

// Goal: a barrier that has ended holds nobody back, and neither does an answer that waits for its turn. Method: end one
// request of each class, without sending its answer.
#[test]
fn admission_after_finish() {
    for class in [RequestClass::Produce, RequestClass::Barrier] {
        let mut pipeline = Pipeline::default();
        let ticket = pipeline.begin(class);
        pipeline.finish(ticket, Outcome::Answer(1));
        assert!(pipeline.admits(RequestClass::Produce));
        assert!(pipeline.admits(RequestClass::Barrier));
    }
}

// Goal: answers leave in request order; holes do not delay; a closing request ends it all at its turn.
// Method: four Produce requests, finished in reverse, with one outcome in the middle.
#[test]
fn answers_in_order() {
    fn check(second: Outcome<i32>, expected: &[Outgoing<i32>], admits: bool) {
        let mut pipeline = Pipeline::default();
        let tickets: Vec<Ticket> = (0..4)
            .map(|_| pipeline.begin(RequestClass::Produce))
            .collect();
        pipeline.finish(tickets[3], Outcome::Answer(3));
        pipeline.finish(tickets[2], Outcome::Answer(2));
        pipeline.finish(tickets[1], second);
        assert_eq!(pipeline.pop(), None, "the oldest still runs");
        pipeline.finish(tickets[0], Outcome::Answer(0));
        for outgoing in expected {
            assert_eq!(pipeline.pop().as_ref(), Some(outgoing));
        }
        assert_eq!(pipeline.admits(RequestClass::Barrier), admits);
        let end = if admits { None } else { Some(Outgoing::Close) };
        assert_eq!(pipeline.pop(), end);
        assert_eq!(
            (pipeline.is_closing(), pipeline.running_count()),
            (!admits, 0)
        );
    }
    use Outgoing::{Answer, Close};
    check(
        Outcome::Answer(1),
        &[Answer(0), Answer(1), Answer(2), Answer(3)],
        true,
    );
    check(Outcome::Silent, &[Answer(0), Answer(2), Answer(3)], true);
    check(Outcome::Close, &[Answer(0), Close], false);
}

// Goal: requests that still run when the connection closes may finish. Method: close first, finish later.
#[test]
fn finish_after_close() {
    let mut pipeline = Pipeline::default();
    let first = pipeline.begin(RequestClass::Produce);
    let second = pipeline.begin(RequestClass::Produce);
    pipeline.finish(first, Outcome::Close);
    assert!(!pipeline.admits(RequestClass::Produce));
    assert_eq!(pipeline.pop(), Some(Outgoing::Close));
    assert_eq!(pipeline.running_count(), 1);
    pipeline.finish(second, Outcome::Answer(2));
    assert_eq!(pipeline.pop(), Some(Outgoing::Close));
    assert_eq!(pipeline.running_count(), 0);
}
