//! Frames, memory and order of a connection under random cuts and completions.

use std::collections::VecDeque;

use bytes::{BufMut, BytesMut};
use pelton_machine::connection::{
    Admission, BudgetSizes, FrameReader, Grant, HolderId, MemoryBudget, Outcome, Outgoing,
    Pipeline, Pool, RequestClass, Reserved, Room, Step, Ticket,
};
use pelton_model::Monotonic;
use pelton_model::limits::{FRAME_GROW_BYTES_MAX, RECV_BYTES_MAX};
use proptest::prelude::*;

fn frame_sizes() -> impl Strategy<Value = usize> {
    prop_oneof![
        8 => 8_usize..200,
        3 => 200_usize..40_000,
        1 => 60_000_usize..70_000,
        1 => 1_000_000_usize..1_200_000,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // Goal: the frames do not depend on how the stream is cut, and room is bounded by what arrived or is reserved.
    // Method: random frames, delivered in random chunks, some frames held while others are read.
    #[test]
    fn frames_survive_any_cut(
        sizes in prop::collection::vec(frame_sizes(), 1..12),
        cuts in prop::collection::vec(prop_oneof![1_usize..20, 1_usize..300_000], 1..20),
        holds in prop::collection::vec(any::<bool>(), 12),
    ) {
        let mut stream = BytesMut::new();
        for (index, &size) in sizes.iter().enumerate() {
            stream.put_i32(i32::try_from(size).expect("small"));
            stream.put_bytes(u8::try_from(index).expect("few"), size);
        }
        let mut reader = FrameReader::new(2_000_000);
        let (mut buffer, mut held, mut seen) = (BytesMut::new(), Vec::new(), Vec::new());
        let mut cuts = cuts.iter().cycle();
        loop {
            match reader.next(&mut buffer).expect("legal frames") {
                Step::Frame(frame) => {
                    let index = seen.len();
                    prop_assert_eq!(frame.bytes.len(), sizes[index]);
                    prop_assert!(frame.bytes.iter().all(|&b| usize::from(b) == index));
                    prop_assert!(frame.reserved.of(Pool::Remainder) + FRAME_GROW_BYTES_MAX <= sizes[index].max(FRAME_GROW_BYTES_MAX));
                    seen.push(frame.bytes.len());
                    if holds[index] {
                        held.push(frame.bytes);
                    }
                }
                Step::Reserve { pool, bytes } => {
                    prop_assert!(bytes <= 2_000_000);
                    reader.on_reserved(pool, bytes, Monotonic(0));
                }
                Step::Read => {
                    if stream.is_empty() {
                        break;
                    }
                    let room = buffer.capacity() - buffer.len();
                    prop_assert!(room > 0);
                    prop_assert!(room <= 2 * (FRAME_GROW_BYTES_MAX + RECV_BYTES_MAX));
                    let read = room.min(stream.len()).min(*cuts.next().expect("a cycle"));
                    buffer.extend_from_slice(&stream.split_to(read));
                    if let Room::Grow(more) = reader.on_read(read, Monotonic(0)) {
                        reader.on_room(more);
                    }
                }
            }
        }
        prop_assert_eq!(seen, sizes);
        prop_assert!(buffer.is_empty());
    }

    // Goal: the budget grants in order, never too much, and nobody who fits waits at the head.
    // Method: random reservations, releases and withdrawals against one counter and one queue.
    #[test]
    fn budget_agrees_with_naive_model(
        commands in prop::collection::vec((0_u8..4, 1_usize..60), 1..200),
    ) {
        const MIB: usize = 1024 * 1024;
        let size = 100 * MIB;
        let mut budget = MemoryBudget::new(BudgetSizes {
            budget_bytes: 0,
            frame_bytes_max: size + FRAME_GROW_BYTES_MAX,
            shards: 1,
            keeps_remainders: true,
            requests_max: 1,
        });
        let (mut used, mut next) = (0, 0);
        let mut waiting: VecDeque<(HolderId, usize)> = VecDeque::new();
        let mut holding: VecDeque<usize> = VecDeque::new();
        for (kind, amount) in commands {
            let mut granted = Vec::new();
            if kind < 2 {
                let (id, bytes) = (HolderId(next), amount * MIB);
                next += 1;
                let fits = waiting.is_empty() && used + bytes <= size;
                let answer = budget.reserve(id, Pool::Remainder, bytes);
                prop_assert_eq!(answer == Admission::Granted, fits);
                if fits {
                    used += bytes;
                    holding.push_back(bytes);
                } else {
                    waiting.push_back((id, bytes));
                }
            } else if kind == 2 {
                let Some(bytes) = holding.pop_front() else { continue };
                used -= bytes;
                let mut reserved = Reserved::default();
                reserved.add(Pool::Remainder, bytes);
                budget.release(reserved, &mut granted);
            } else {
                let Some((id, _)) = waiting.remove(amount % waiting.len().max(1)) else { continue };
                budget.cancel(id, &mut granted);
            }
            let mut expected = Vec::new();
            while let Some(&(id, bytes)) = waiting.front() {
                if size < used + bytes {
                    break;
                }
                waiting.pop_front();
                used += bytes;
                holding.push_back(bytes);
                expected.push(Grant { holder: id, pool: Pool::Remainder, bytes });
            }
            prop_assert_eq!(granted, expected);
            prop_assert_eq!(budget.used_bytes(), used);
            prop_assert!(used <= size);
        }
    }

    // Goal: whatever finishes first, answers leave in the order of the requests and barriers run alone.
    // Method: random begins and finishes; the answers that left must be the begun tickets without the silent ones.
    #[test]
    fn answers_keep_their_order(
        commands in prop::collection::vec((0_u8..3, 0_usize..16, any::<bool>()), 1..200),
    ) {
        let mut pipeline = Pipeline::default();
        let mut running: Vec<(Ticket, RequestClass, i32)> = Vec::new();
        let (mut begun, mut silent, mut left) = (0, Vec::new(), Vec::new());
        for (kind, pick, flag) in commands {
            if kind < 2 {
                let class = if kind == 0 { RequestClass::Produce } else { RequestClass::Barrier };
                if pipeline.admits(class) {
                    running.push((pipeline.begin(class), class, begun));
                    begun += 1;
                }
                let barriers = running.iter().filter(|r| r.1 == RequestClass::Barrier).count();
                prop_assert!(barriers == 0 || running.len() == 1);
            } else if !running.is_empty() {
                let (ticket, _, number) = running.swap_remove(pick % running.len());
                if flag {
                    silent.push(number);
                    pipeline.finish(ticket, Outcome::Silent);
                } else {
                    pipeline.finish(ticket, Outcome::Answer(number));
                }
            }
            while let Some(Outgoing::Answer(number)) = pipeline.pop() {
                left.push(number);
            }
        }
        for (ticket, _, number) in running {
            pipeline.finish(ticket, Outcome::Answer(number));
        }
        while let Some(Outgoing::Answer(number)) = pipeline.pop() {
            left.push(number);
        }
        let expected: Vec<i32> = (0..begun).filter(|number| !silent.contains(number)).collect();
        prop_assert_eq!(left, expected);
        prop_assert!(pipeline.is_idle());
    }
}
