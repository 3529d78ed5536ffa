//! Tests of fetch sessions: one table or story per rule. That a session answers as Kafka's does is shown in `tests/session_model.rs`.

use pelton_model::limits::FETCH_SESSION_ID_DRAWS_MAX;
use pelton_model::{ErrorCode, LeaderEpoch, Monotonic, Offset, ShardId, TopicId};

use super::*;

const MINUTE_MS: u64 = 60_000;

fn sessions(slots_max: usize, cost_max: usize) -> Sessions {
    Sessions::new(Limits {
        slots_max,
        cost_max,
        shard: ShardId(1),
        shard_count: 4,
    })
}

fn at(ms: u64) -> Monotonic {
    Monotonic(0).plus_ms(ms)
}

fn wish(partition: i32) -> Wish {
    Wish {
        topic: TopicKey::Id(TopicId([1; 16])),
        partition,
        position: Position {
            offset: Offset(0),
            bytes_max: 100,
            current_leader_epoch: LeaderEpoch::NONE,
            last_fetched_epoch: LeaderEpoch::NONE,
        },
    }
}

const NOTHING: Told = Told {
    size_bytes: 0,
    high_watermark: Offset(0),
    log_start: Offset(0),
    is_error: false,
    has_diverged: false,
    is_armed: true,
};

fn origin(privileged: bool) -> Origin {
    Origin {
        privileged,
        uses_topic_ids: true,
        read_committed: false,
    }
}

/// Opens a session of so many partitions; ids are drawn in sequence.
fn open(sessions: &mut Sessions, now_ms: u64, privileged: bool, count: i32) -> Option<i32> {
    let opened: Vec<(Wish, Told)> = (0..count).map(|p| (wish(p), NOTHING)).collect();
    let mut bits = 0_u32;
    sessions.create(at(now_ms), origin(privileged), &opened, || {
        bits += 8;
        bits
    })
}

fn request(id: i32, epoch: i32) -> Request<'static> {
    Request {
        id,
        epoch,
        uses_topic_ids: true,
        read_committed: false,
        wishes: &[],
        forgotten: &[],
    }
}

// Goal: which session serves which request. Method: one request for each row, to a fresh cache with one session, id 5.
#[test]
fn beginning() {
    fn check(request: &Request<'_>, expected: Result<&str, ErrorCode>, left: usize) {
        let mut sessions = sessions(4, 100);
        assert_eq!(open(&mut sessions, 0, false, 2), Some(5));
        let begun = match sessions.begin(at(1), request) {
            Begun::Sessionless => Ok("sessionless"),
            Begun::Full => Ok("full"),
            Begun::Incremental(turn) => {
                assert_eq!(turn.id, request.id);
                Ok("incremental")
            }
            Begun::Refused(error) => Err(error),
        };
        assert_eq!(begun, expected, "{request:?}");
        assert_eq!(sessions.len(), left, "{request:?}");
        assert_eq!(sessions.take_closed().len(), 1 - left, "{request:?}");
    }
    let not_found = Err(ErrorCode::FetchSessionIdNotFound);
    let wrong_epoch = Err(ErrorCode::InvalidFetchSessionEpoch);
    check(&request(0, FINAL_EPOCH), Ok("sessionless"), 1);
    check(&request(0, INITIAL_EPOCH), Ok("full"), 1);
    check(&request(0, 1), not_found, 1);
    check(&request(5, 1), Ok("incremental"), 1);
    check(&request(5, 2), wrong_epoch, 1);
    check(&request(5, -2), wrong_epoch, 1);
    check(&request(5, i32::MAX), wrong_epoch, 1);
    check(&request(5, INITIAL_EPOCH), Ok("full"), 0);
    check(&request(5, FINAL_EPOCH), Ok("sessionless"), 0);
    check(&request(6, FINAL_EPOCH), Ok("sessionless"), 1);
    check(&request(6, 1), not_found, 1);
    check(&request(-5, 1), not_found, 1);
    let by_name = Request {
        uses_topic_ids: false,
        ..request(5, 1)
    };
    check(&by_name, Err(ErrorCode::FetchSessionTopicIdError), 1);
    let topic = TopicKey::Id(TopicId([1; 16]));
    let both = [(topic.clone(), 0), (topic.clone(), 1)];
    let forget = |forgotten| Request {
        forgotten,
        ..request(5, 1)
    };
    check(&forget(&both[..1]), Ok("incremental"), 1);
    check(&forget(&both), Ok("sessionless"), 0);
    // What is wanted and forgotten at once is forgotten.
    let again = [wish(0)];
    let wanted = Request {
        wishes: &again,
        ..forget(&both)
    };
    check(&wanted, Ok("sessionless"), 0);
}

// Goal: epochs count up from 1, past the largest to 1 again, and a request that is overtaken learns so.
// Method: the same session through both.
#[test]
fn epochs() {
    let mut sessions = sessions(4, 100);
    let id = open(&mut sessions, 0, false, 1).expect("there is room");
    let Begun::Incremental(first) = sessions.begin(at(0), &request(id, 1)) else {
        panic!("refused");
    };
    assert!(matches!(sessions.reply(first), Reply::Session(_)));
    let Begun::Incremental(second) = sessions.begin(at(0), &request(id, 2)) else {
        panic!("refused");
    };
    assert!(matches!(sessions.reply(first), Reply::Overtaken));
    assert!(sessions.session(first).is_none());
    assert!(matches!(sessions.reply(second), Reply::Session(_)));
    sessions.close(id);
    assert!(matches!(sessions.reply(second), Reply::Gone));
    assert_eq!(next_epoch(i32::MAX), 1);
    assert_eq!(next_epoch(1), 2);
}

// Goal: who makes room for whom. Method: each row opens one session in a cache of one slot that holds another, some time later.
#[test]
fn eviction() {
    /// Privileged, partitions, and when it was opened and last used, in minutes.
    type Kept = (bool, i32, u64, u64);
    fn check(kept: Kept, new: (bool, i32), expected: bool) {
        let (privileged, count, opened, used) = kept;
        let mut sessions = sessions(1, 100);
        let id = open(&mut sessions, opened * MINUTE_MS, privileged, count).expect("room");
        let used_ms = used * MINUTE_MS;
        let begun = sessions.begin(at(used_ms), &request(id, 1));
        assert!(matches!(begun, Begun::Incremental(_)));
        let now_ms = 10 * MINUTE_MS;
        let created = open(&mut sessions, now_ms, new.0, new.1);
        assert_eq!(created.is_some(), expected, "{kept:?} {new:?}");
        assert_eq!(sessions.len(), 1);
        let closed: Vec<i32> = sessions.take_closed().iter().map(|c| c.id).collect();
        assert_eq!(closed, if expected { vec![id] } else { vec![] });
    }
    // Unused for more than two minutes: for anybody.
    check((false, 9, 0, 7), (false, 1), true);
    check((true, 9, 0, 7), (false, 1), true);
    check((false, 9, 0, 8), (false, 1), false);
    // Old, but in use: for who is worth more.
    check((false, 2, 0, 9), (false, 2), false);
    check((false, 2, 0, 9), (false, 3), true);
    check((false, 2, 0, 9), (false, 1), false);
    check((true, 1, 0, 9), (false, 9), false);
    check((true, 2, 0, 9), (true, 2), false);
    check((true, 2, 0, 9), (true, 3), true);
    check((true, 2, 0, 9), (true, 1), false);
    // Young: a consumer's only for a follower's.
    check((false, 1, 9, 9), (false, 9), false);
    check((false, 9, 9, 9), (true, 1), true);
    check((true, 1, 9, 9), (true, 9), false);
}

// Goal: the bounds hold, and what does not fit is not opened, or closed. Method: a row for each way to meet one.
#[test]
fn bounds() {
    let mut none = sessions(0, 100);
    assert_eq!(open(&mut none, 0, true, 1), None);
    let mut small = sessions(10, 10);
    assert_eq!(open(&mut small, 0, false, 11), None, "too much for any");
    let first = open(&mut small, 0, false, 6).expect("there is room");
    assert_eq!(open(&mut small, 1, false, 6), None, "the first is young");
    assert_eq!(small.cost(), 6);
    let second = open(&mut small, 5 * MINUTE_MS, false, 6).expect("the first is not used");
    assert_eq!((small.len(), small.cost()), (1, 6));
    assert_eq!(small.take_closed().first().map(|c| c.id), Some(first));
    let wishes: Vec<Wish> = (0..11).map(wish).collect();
    let grown = Request {
        wishes: &wishes,
        ..request(second, 1)
    };
    let refused = Begun::Refused(ErrorCode::FetchSessionIdNotFound);
    assert_eq!(small.begin(at(5 * MINUTE_MS), &grown), refused);
    assert_eq!((small.len(), small.cost()), (0, 0));
    assert_eq!(small.take_closed().len(), 1);

    let long = |bytes: usize| Wish {
        topic: TopicKey::Name("n".repeat(bytes).into()),
        ..wish(0)
    };
    let mut named = |bytes| small.create(at(0), origin(false), &[(long(bytes), NOTHING)], || 8);
    assert_eq!(named(640), None, "a name counts too");
    assert_eq!(named(576), Some(5));
    assert_eq!(small.cost(), 10);
}

// Goal: ids are above 0, unique, tell their shard, and drawing them ends. Method: odd draws.
#[test]
fn ids() {
    fn check(draws: &[u32], expected: Option<i32>) {
        let mut sessions = sessions(4, 100);
        assert_eq!(open(&mut sessions, 0, false, 1), Some(5));
        let mut drawn = 0;
        let draw = || {
            drawn += 1;
            draws[(drawn - 1) % draws.len()]
        };
        let created = sessions.create(at(0), origin(false), &[(wish(0), NOTHING)], draw);
        assert_eq!(created, expected, "{draws:?}");
        assert!(drawn <= FETCH_SESSION_ID_DRAWS_MAX);
        if let Some(id) = created {
            assert_eq!(owner_of(id, 4), Some(ShardId(1)));
        }
    }
    check(&[0], Some(1));
    check(&[u32::MAX], Some(i32::MAX - 2));
    check(&[8, 9, 200], Some(101));
    check(&[8], None);
    assert_eq!(owner_of(0, 4), None);
    assert_eq!(owner_of(-7, 4), None);
    assert_eq!(owner_of(i32::MAX, 4), Some(ShardId(3)));
}

// Goal: no lost wake-up: what fires before a request waits keeps it from waiting, what fires later wakes it, once.
// Method: a session of two partitions, step by step.
#[test]
fn waiting() {
    let mut sessions = sessions(4, 100);
    let id = open(&mut sessions, 0, false, 2).expect("there is room");
    let Begun::Incremental(turn) = sessions.begin(at(0), &request(id, 1)) else {
        panic!("refused");
    };
    let read = |sessions: &mut Sessions| {
        let mut seen = Vec::new();
        let session = sessions.session(turn).expect("it is there");
        session.take_ready(|ready| seen.push((ready.cell, ready.has_fired)));
        seen
    };
    assert_eq!(read(&mut sessions), [(0, true), (1, true)]);
    assert_eq!(sessions.fired(id, 1), None, "nobody waits");
    assert!(!sessions.session(turn).expect("it is there").wait(3));
    assert_eq!(read(&mut sessions), [(0, false), (1, true)]);
    assert!(sessions.session(turn).expect("it is there").wait(3));
    assert_eq!(sessions.fired(id, 0), Some(3));
    assert_eq!(sessions.fired(id, 0), None, "it is awake");
    assert_eq!(sessions.fired(id, 77), None, "no such partition");
    assert_eq!(sessions.fired(id + 1, 0), None, "no such session");
    let Reply::Session(session) = sessions.reply(turn) else {
        panic!("gone");
    };
    assert!(!session.tell(0, &NOTHING));
    assert!(!session.tell(1, &NOTHING));
    assert_eq!(session.ready_count(), 1, "the first fired after its read");
}

// Goal: a fetch costs what has changed. Method: a session of 10 000 partitions, read to their ends; then ten change.
#[test]
fn cost_follows_what_changed() {
    let mut sessions = sessions(4, 20_000);
    let id = open(&mut sessions, 0, false, 10_000).expect("there is room");
    for (epoch, expected) in [(1, 10_000), (2, 0), (3, 10), (4, 10), (5, 0)] {
        if epoch == 3 {
            for cell in (0..10_000).step_by(1000) {
                sessions.fired(id, cell);
            }
        }
        let Begun::Incremental(turn) = sessions.begin(at(0), &request(id, epoch)) else {
            panic!("refused");
        };
        let session = sessions.session(turn).expect("it is there");
        let mut read = Vec::new();
        session.take_ready(|ready| read.push(ready.cell));
        assert_eq!(read.len(), expected, "request {epoch}");
        let Reply::Session(session) = sessions.reply(turn) else {
            panic!("gone");
        };
        for cell in read {
            // What has records is read until they are all returned: in the third request there are some.
            let told = Told {
                size_bytes: usize::from(epoch == 3),
                high_watermark: Offset(i64::from(epoch >= 3)),
                is_armed: epoch != 3,
                ..NOTHING
            };
            assert_eq!(session.tell(cell, &told), epoch == 3);
        }
    }
}
