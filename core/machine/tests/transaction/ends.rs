//! How transactions end: every state against every request, both flows.

use pelton_machine::transaction::AddMode;
use pelton_model::ErrorCode;

use crate::harness::{Bench, Owner};

/// An id in each state of interest: whoever has it.
fn in_state(version: i16, state: &str) -> (Bench, Owner) {
    let mut bench = Bench::new(version);
    let owner = bench.init("x").unwrap();
    if state == "Empty" {
        return (bench, owner);
    }
    assert_eq!(bench.add("x", owner, 1), ErrorCode::None);
    if state == "Ongoing" {
        return (bench, owner);
    }
    bench.send_end("x", owner, state.ends_with("Commit"));
    if state.starts_with("Complete") {
        bench.write_markers();
    }
    assert_eq!(bench.state("x"), state);
    (bench, owner)
}

// Goal: the classic flow's answers to EndTxn are Kafka's. Method: each state, commit and abort, with the producer's one epoch.
#[test]
fn classic_ends() {
    fn check(state: &str, commit: bool, expected: Result<(), ErrorCode>) {
        let (mut bench, owner) = in_state(0, state);
        let token = bench.send_end("x", owner, commit);
        bench.write_markers();
        let ended = bench.ended(token).unwrap();
        assert_eq!(ended, expected.map(|()| owner), "{state} {commit}");
        bench.check_replay();
    }
    let invalid = Err(ErrorCode::InvalidTxnState);
    let later = Err(ErrorCode::ConcurrentTransactions);
    check("Empty", true, invalid);
    check("Empty", false, invalid);
    check("Ongoing", true, Ok(()));
    check("Ongoing", false, Ok(()));
    check("PrepareCommit", true, later);
    check("PrepareCommit", false, invalid);
    check("PrepareAbort", true, invalid);
    check("PrepareAbort", false, later);
    check("CompleteCommit", true, Ok(()));
    check("CompleteCommit", false, invalid);
    check("CompleteAbort", true, invalid);
    check("CompleteAbort", false, Ok(()));
}

// Goal: the answers of the flow with growing epochs are Kafka's. Method: each state, commit and abort, with the epoch that the transaction
// had (a retry, where it has ended) and with the one after it.
#[test]
fn bumping_ends() {
    fn check(state: &str, commit: bool, ahead: i16, expected: Result<i16, ErrorCode>) {
        let (mut bench, owner) = in_state(2, state);
        let token = bench.send_end("x", (owner.0, owner.1 + ahead), commit);
        bench.write_markers();
        let ended = bench.ended(token).unwrap();
        let expected = expected.map(|epoch| (owner.0, epoch));
        assert_eq!(ended, expected, "{state} {commit} {ahead}");
        bench.check_replay();
    }
    let invalid = Err(ErrorCode::InvalidTxnState);
    let later = Err(ErrorCode::ConcurrentTransactions);
    let fenced = Err(ErrorCode::ProducerFenced);
    check("Empty", true, 0, invalid);
    check("Empty", false, 0, Ok(1));
    check("Empty", false, 1, fenced);
    check("Ongoing", true, 0, Ok(1));
    check("Ongoing", false, 0, Ok(1));
    check("Ongoing", true, 1, fenced);
    check("PrepareCommit", true, 0, later);
    check("PrepareCommit", false, 0, invalid);
    check("PrepareCommit", true, 1, fenced);
    check("PrepareAbort", true, 0, invalid);
    check("PrepareAbort", false, 0, later);
    check("CompleteCommit", true, 0, Ok(1));
    check("CompleteCommit", false, 0, invalid);
    check("CompleteCommit", true, 1, invalid);
    // The next transaction ends before it began.
    check("CompleteCommit", false, 1, Ok(2));
    check("CompleteAbort", true, 0, invalid);
    check("CompleteAbort", false, 0, Ok(1));
    check("CompleteAbort", false, 1, Ok(2));
    check("CompleteAbort", true, 1, invalid);
    check("CompleteAbort", true, 2, fenced);
}

// Goal: partitions are added only to what is open or may open, and verified only where they are. Method: each state.
#[test]
fn partitions_join_what_is_open() {
    fn check(version: i16, state: &str, ahead: i16, add: ErrorCode, verify: [ErrorCode; 2]) {
        let (mut bench, owner) = in_state(version, state);
        let owner = (owner.0, owner.1 + ahead);
        let verified = bench.add_as("x", owner, AddMode::Verify, &[1, 2]);
        assert_eq!(verified, verify, "{state}");
        assert_eq!(bench.add("x", owner, 2), add, "{state}");
        bench.check_replay();
    }
    let none = ErrorCode::None;
    let later = ErrorCode::ConcurrentTransactions;
    let abortable = ErrorCode::TransactionAbortable;
    for (version, ahead) in [(0, 0), (2, 1)] {
        check(version, "Empty", 0, none, [abortable; 2]);
        check(version, "Ongoing", 0, none, [none, abortable]);
        check(version, "PrepareCommit", ahead, later, [later; 2]);
        check(version, "PrepareAbort", ahead, later, [later; 2]);
        check(version, "CompleteCommit", ahead, none, [abortable; 2]);
        check(version, "CompleteAbort", ahead, none, [abortable; 2]);
    }
}

// Goal: what is there is not written again, and a transaction of one partition too many is refused and unharmed. Method: the same
// partition twice; then more than a record holds.
#[test]
fn partitions_are_bounded() {
    let (mut bench, owner) = in_state(2, "Ongoing");
    let before = bench.log.len();
    assert_eq!(bench.add("x", owner, 1), ErrorCode::None);
    assert_eq!(bench.log.len(), before);
    let many: Vec<i32> = (0..200_000).collect();
    let codes = bench.add_as("x", owner, AddMode::Add(2), &many);
    assert!(
        codes
            .iter()
            .all(|code| *code == ErrorCode::UnknownServerError)
    );
    assert_eq!(bench.log.len(), before);
    assert_eq!(bench.end("x", owner, true), Ok((owner.0, owner.1 + 1)));
}

// Goal: an end is answered when the markers are written, or after a second; it is the same answer. Method: one of each, in both flows.
#[test]
fn answers_wait_for_markers() {
    for version in [0, 2] {
        let (mut bench, owner) = in_state(version, "Ongoing");
        let token = bench.send_end("x", owner, true);
        assert_eq!(bench.ended(token), None);
        bench.write_markers();
        let expected = (owner.0, if version == 2 { 1 } else { 0 });
        assert_eq!(bench.ended(token), Some(Ok(expected)));
        let (mut bench, owner) = in_state(version, "Ongoing");
        let token = bench.send_end("x", owner, true);
        bench.pass(999);
        assert_eq!(bench.ended(token), None);
        bench.pass(1);
        assert_eq!(bench.ended(token), Some(Ok(expected)));
        assert_eq!(bench.state("x"), "PrepareCommit");
        bench.write_markers();
        assert_eq!(bench.state("x"), "CompleteCommit");
        assert_eq!(bench.add("x", expected, 5), ErrorCode::None);
    }
}

// Goal: markers count once, and only those of the transaction under way. Method: markers of one partition after the other, an old set
// again, a set of another epoch.
#[test]
fn markers_are_counted_by_partition() {
    let (mut bench, owner) = in_state(2, "Ongoing");
    assert_eq!(bench.add("x", owner, 2), ErrorCode::None);
    let token = bench.send_end("x", owner, true);
    let whole = bench.markers.pop().unwrap();
    let part = |partition| {
        let mut part = whole.clone();
        part.partitions = vec![("t".into(), vec![partition])];
        part
    };
    bench.report(&part(1));
    bench.report(&part(1));
    let described = bench.describe("x").unwrap();
    assert_eq!(described.partitions, [("t".into(), vec![2])]);
    let mut foreign = part(2);
    foreign.producer_epoch.0 += 1;
    bench.report(&foreign);
    assert_eq!(bench.state("x"), "PrepareCommit");
    bench.report(&part(2));
    assert_eq!(bench.state("x"), "CompleteCommit");
    bench.report(&whole);
    assert_eq!(bench.ended(token), Some(Ok((owner.0, 1))));
    bench.check_replay();
}
