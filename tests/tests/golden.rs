//! Bytes captured from real clients and a real broker decode, and encode again to the same bytes.
//!
//! Goal: the codec agrees with Kafka's in both directions, defaults, nulls and tags included. Method: each frame of
//! `tests/golden/` whose API is served is split into header and body, decoded, and encoded again.

use std::collections::BTreeSet;

use bytes::Bytes;
use pelton_protocol::api::{self, ApiRow};
use pelton_protocol::codec::{Reader, Writer};
use pelton_protocol::fuzz::{Target, targets};
use pelton_protocol::header::{RequestHeader, ResponseHeader};
use pelton_tests::peer::own_file;

struct Exchange {
    client: String,
    key: i16,
    version: i16,
    request: Bytes,
    response: Bytes,
}

fn exchanges() -> Vec<Exchange> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(own_file("golden")).expect("the folder is there") {
        let path = entry.expect("readable").path();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        let client = path.file_stem().expect("a name").to_string_lossy().into_owned();
        for line in std::fs::read_to_string(&path).expect("text").lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [key, version, request, response] = words[..] else { panic!("{client}: {line}") };
            all.push(Exchange {
                client: client.clone(),
                key: key.parse().expect("a number"),
                version: version.parse().expect("a number"),
                request: unhex(request),
                response: unhex(response),
            });
        }
    }
    all
}

fn unhex(text: &str) -> Bytes {
    let digits = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(digits).collect()
}

fn target(key: i16, kind: &str) -> &'static Target {
    let mut found = targets().iter().filter(|it| it.key == key && it.name.ends_with(kind));
    found.next().unwrap_or_else(|| panic!("no {kind} of API {key}"))
}

fn check(
    label: &str,
    header: &Bytes,
    body: &Bytes,
    written_header: &Bytes,
    target: &Target,
    version: i16,
) {
    assert_eq!(written_header, header, "{label}: header");
    let (written, left) =
        (target.recode)(body, version).unwrap_or_else(|error| panic!("{label}: {error}"));
    assert_eq!(left, 0, "{label}: bytes left over");
    assert_eq!(written, *body, "{label}: body");
}

fn check_request(exchange: &Exchange, row: &ApiRow, label: &str) {
    let mut reader = Reader::new(&exchange.request);
    let header = RequestHeader::decode(&mut reader).expect("a header");
    let (head, body) = split(&exchange.request, reader.position());
    let mut writer = Writer::new();
    header.encode(&mut writer, row);
    let target = target(exchange.key, "Request");
    check(
        &format!("{label} request"),
        &head,
        &body,
        &writer.into_bytes(),
        target,
        exchange.version,
    );
}

fn check_response(exchange: &Exchange, row: &ApiRow, label: &str) {
    let mut reader = Reader::new(&exchange.response);
    let header = ResponseHeader::decode(&mut reader, row, exchange.version).expect("a header");
    let (head, body) = split(&exchange.response, reader.position());
    let mut writer = Writer::new();
    header.encode(&mut writer, row, exchange.version);
    let target = target(exchange.key, "Response");
    check(
        &format!("{label} response"),
        &head,
        &body,
        &writer.into_bytes(),
        target,
        exchange.version,
    );
}

fn split(frame: &Bytes, at: usize) -> (Bytes, Bytes) {
    (frame.slice(..at), frame.slice(at..))
}

/// Every captured frame of an API that is served; every version of each has one.
#[test]
fn captured_frames_round_trip() {
    let mut seen = BTreeSet::new();
    for exchange in exchanges() {
        let Some(row) = api::row(exchange.key) else { continue };
        let label = format!("{}: API {} v{}", exchange.client, exchange.key, exchange.version);
        check_request(&exchange, row, &label);
        check_response(&exchange, row, &label);
        seen.insert((exchange.key, exchange.version));
    }
    // Versions that no broker answers (Produce 0–2 are only advertised) have no capture.
    let missing: Vec<(i16, i16)> = api::table()
        .iter()
        .flat_map(|row| (row.min..=row.max).map(|version| (row.key as i16, version)))
        .filter(|pair| !seen.contains(pair))
        .collect();
    assert!(missing.is_empty(), "never captured: {missing:?}");
}
