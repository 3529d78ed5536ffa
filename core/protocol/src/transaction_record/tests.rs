//! Records as Kafka's schemas say them, byte for byte.

use super::*;

fn bytes(hex: &str) -> Bytes {
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    assert!(rest.is_empty());
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.iter().map(byte).collect()
}

fn log(value: Option<TransactionLogValue>) -> TransactionRecord {
    let key = TransactionLogKey {
        transactional_id: "tx".into(),
    };
    TransactionRecord::TransactionLog(key, value)
}

/// Goal: both versions are written as Kafka does and read back. Method: known bytes, both ways.
fn check(value_hex: Option<&str>, is_flexible: bool, record: &TransactionRecord) {
    let key = bytes("000000027478");
    let value = value_hex.map(bytes);
    assert_eq!(encode(record, is_flexible), (key.clone(), value.clone()));
    assert_eq!(decode(&key, value.as_ref()), Ok(Some(record.clone())));
}

#[test]
fn states_of_an_id() {
    let empty = TransactionLogValue {
        producer_id: 7,
        transaction_timeout_ms: 60_000,
        transaction_last_update_timestamp_ms: 0x01a2_2d5b_9790,
        transaction_start_timestamp_ms: -1,
        ..TransactionLogValue::default()
    };
    let hex = "000000000000000000070000\
               0000ea6000ffffffff000001a22d5b9790ffffffffffffffff";
    check(Some(hex), false, &log(Some(empty.clone())));
    let hex = "000100000000000000070000\
               0000ea600000000001a22d5b9790ffffffffffffffff00";
    check(Some(hex), true, &log(Some(empty.clone())));
    let open = TransactionLogValue {
        producer_epoch: 3,
        previous_producer_id: 5,
        transaction_status: 1,
        transaction_partitions: Some(vec![PartitionsSchema {
            topic: "t".into(),
            partition_ids: vec![0, 2],
        }]),
        transaction_start_timestamp_ms: 0x01a2_2d5b_9790,
        client_transaction_version: 2,
        ..empty
    };
    let hex = "000100000000000000070003\
               0000ea60010202740300000000000000020000\
               0001a22d5b9790000001a22d5b9790\
               02000800000000000000050202\
               0002";
    check(Some(hex), true, &log(Some(open)));
    check(None, true, &log(None));
}

// Goal: what is not ours is left alone, what is damaged is an error. Method: one of each.
#[test]
fn oddities() {
    assert_eq!(decode(&bytes("00"), None), Err(RecordError::Key));
    assert_eq!(decode(&bytes("0001000174"), None), Ok(None));
    let key = bytes("000000027478");
    let unknown = RecordError::UnknownVersion {
        message: "TransactionLogValue",
        version: 2,
    };
    assert_eq!(decode(&key, Some(&bytes("0002"))), Err(unknown));
    assert!(matches!(
        decode(&key, Some(&bytes("0001ff"))),
        Err(RecordError::Body {
            message: "TransactionLogValue",
            ..
        })
    ));
}
