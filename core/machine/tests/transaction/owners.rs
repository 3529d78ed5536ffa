//! Who has a transactional id: InitProducerId, fencing, exhausted epochs.

use pelton_machine::transaction::AddMode;
use pelton_model::ErrorCode;
use pelton_model::record_type::transaction::{
    TransactionLogKey, TransactionLogValue, TransactionRecord,
};

use crate::harness::Bench;

/// An id that stands where a record puts it.
fn bench_with(version: i16, epoch: i16, status: i8) -> Bench {
    let mut bench = Bench::new(version);
    let key = TransactionLogKey {
        transactional_id: "x".into(),
    };
    let value = TransactionLogValue {
        producer_id: 7,
        producer_epoch: epoch,
        transaction_timeout_ms: 60_000,
        transaction_status: status,
        transaction_last_update_timestamp_ms: bench.time(),
        transaction_start_timestamp_ms: bench.time(),
        client_transaction_version: version,
        ..TransactionLogValue::default()
    };
    bench
        .log
        .push(TransactionRecord::TransactionLog(key, Some(value)));
    bench.restart();
    bench
}

// Goal: what a request says about itself is checked first. Method: a table of bad requests.
#[test]
fn bad_requests_are_refused() {
    fn check(id: &str, timeout_ms: i32, error: ErrorCode) {
        let mut bench = Bench::new(2);
        assert_eq!(bench.init_with(id, timeout_ms, None), Err(error));
        assert_eq!(bench.log, []);
    }
    check("", 60_000, ErrorCode::InvalidRequest);
    check("x", 0, ErrorCode::InvalidTransactionTimeout);
    check("x", -1, ErrorCode::InvalidTransactionTimeout);
    check("x", 900_001, ErrorCode::InvalidTransactionTimeout);
    check("x", i32::MAX, ErrorCode::InvalidTransactionTimeout);
    let mut dry = Bench::new(2);
    dry.is_dry = true;
    assert_eq!(dry.init("x"), Err(ErrorCode::CoordinatorLoadInProgress));
    dry.is_dry = false;
    assert_eq!(dry.init_with("x", 900_000, None), Ok((102, 0)));
}

// Goal: each producer that comes fences the one before. Method: two take turns; the first is refused everything from then on.
#[test]
fn the_last_to_come_owns_the_id() {
    for version in [0, 2] {
        let mut bench = Bench::new(version);
        let first = bench.init("x").unwrap();
        let second = bench.init("x").unwrap();
        assert_eq!((first, second), ((101, 0), (101, 1)));
        let fenced = ErrorCode::ProducerFenced;
        assert_eq!(bench.add("x", first, 0), fenced);
        let verify = bench.add_as("x", first, AddMode::Verify, &[0]);
        assert_eq!(verify, [fenced]);
        assert_eq!(bench.end("x", first, true), Err(fenced));
        assert_eq!(bench.init_with("x", 60_000, Some(first)), Err(fenced));
        assert_eq!(bench.add("x", second, 0), ErrorCode::None);
        let other = (first.0 + 50, 1);
        let mapping = ErrorCode::InvalidProducerIdMapping;
        assert_eq!(bench.add("x", other, 0), mapping);
        assert_eq!(bench.end("x", other, true), Err(mapping));
        assert_eq!(bench.add("unknown", second, 0), mapping);
        assert_eq!(bench.end("unknown", second, true), Err(mapping));
        bench.check_replay();
    }
}

// Goal: an open transaction is aborted before its id changes hands, by one epoch that nobody is given. Method: the producer's successor
// asks three times: while it is open, while markers are written, and after.
#[test]
fn what_is_open_is_aborted_first() {
    for version in [0, 2] {
        let mut bench = Bench::new(version);
        let first = bench.init("x").unwrap();
        assert_eq!(bench.add("x", first, 3), ErrorCode::None);
        let again = Err(ErrorCode::ConcurrentTransactions);
        assert_eq!(bench.init("x"), again);
        assert_eq!(bench.state("x"), "PrepareAbort");
        assert_eq!(bench.init("x"), again);
        let [markers] = &bench.markers[..] else {
            panic!("{:?}", bench.markers);
        };
        assert_eq!((markers.producer_epoch.0, markers.commit), (1, false));
        assert_eq!(markers.is_bumped, version == 2);
        bench.write_markers();
        assert_eq!(bench.state("x"), "CompleteAbort");
        assert_eq!(bench.init("x"), Ok((first.0, 2)));
        assert_eq!(bench.add("x", first, 3), ErrorCode::ProducerFenced);
        bench.check_replay();
    }
}

// Goal: a producer that goes on after an error (KIP-360) gets the next epoch once, and is fenced when another came. Method: it asks with
// what it had, twice, then with older things.
#[test]
fn a_producer_goes_on_with_what_it_had() {
    let mut bench = Bench::new(2);
    let had = bench.init("x").unwrap();
    let went_on = bench.init_with("x", 60_000, Some(had)).unwrap();
    assert_eq!(went_on, (had.0, 1));
    assert_eq!(bench.init_with("x", 60_000, Some(had)), Ok(went_on));
    let next = bench.init_with("x", 60_000, Some(went_on)).unwrap();
    assert_eq!(next, (had.0, 2));
    let fenced = Err(ErrorCode::ProducerFenced);
    assert_eq!(bench.init_with("x", 60_000, Some(had)), fenced);
    let stranger = (had.0 + 1, 2);
    assert_eq!(bench.init_with("x", 60_000, Some(stranger)), fenced);
    // An id that was forgotten takes whoever comes, whatever it had.
    assert_eq!(bench.init_with("y", 60_000, Some(stranger)), Ok((102, 0)));
}

// Goal: an exhausted epoch makes room for another producer id, and whoever lost the answer learns of it. Method: ids that stand one
// before the last epoch.
#[test]
fn exhausted_epochs_rotate_the_id() {
    let last = i16::MAX - 1;
    let mut bench = bench_with(2, last, 4);
    let rotated = bench.init("x").unwrap();
    assert_eq!(rotated, (101, 0));
    let mut bench = bench_with(2, last, 4);
    let rotated = bench.init_with("x", 60_000, Some((7, last))).unwrap();
    assert_eq!(rotated, (101, 0));
    assert_eq!(bench.init_with("x", 60_000, Some((7, last))), Ok(rotated));
    bench.check_replay();
    // The end of a transaction exhausts it (version 2).
    let mut bench = bench_with(2, last, 4);
    assert_eq!(bench.add("x", (7, last), 0), ErrorCode::None);
    assert_eq!(bench.end("x", (7, last), true), Ok((101, 0)));
    assert_eq!(bench.end("x", (7, last), true), Ok((101, 0)), "a retry");
    bench.check_replay();
    // So does a successor that fences it.
    let mut bench = bench_with(2, last, 4);
    assert_eq!(bench.add("x", (7, last), 0), ErrorCode::None);
    let later = Err(ErrorCode::ConcurrentTransactions);
    assert_eq!(bench.init("x"), later);
    assert_eq!(bench.markers[0].producer_epoch.0, i16::MAX);
    bench.restart();
    bench.write_markers();
    assert_eq!(bench.init("x"), Ok((101, 1)));
    // In the classic flow the last epoch fences, and the id rotates when the successor comes again.
    let mut bench = bench_with(0, last, 4);
    assert_eq!(bench.add("x", (7, last), 0), ErrorCode::None);
    assert_eq!(bench.init("x"), later);
    bench.write_markers();
    assert_eq!(bench.init("x"), Ok((101, 0)));
}
