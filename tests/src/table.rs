//! Tables of hostile requests: what goes in, what must come out, and that nobody else notices.
//!
//! Invariants:
//! 1. Each row has a connection of its own. Behind the request a probe is sent on it, so that "no answer", "closed" and
//!    "open" are told apart without waiting.
//! 2. After each row a bystander connection, opened before the first row, must still answer.
//! 3. All rows run; [`Table::finish`] fails with every row that went wrong.

use std::time::Duration;

use kafka_protocol::messages::ApiKey;

use crate::answer;
use crate::broker::Broker;
use crate::raw::{PATIENCE, PROBE_CORRELATION, Raw, Reply, probe};
use crate::wire::CORRELATION;

/// A run of rows against one broker.
pub struct Table<'a> {
    broker: &'a Broker,
    bystander: Raw,
    rows: usize,
    failures: Vec<String>,
}

impl<'a> Table<'a> {
    /// An empty table; opens the bystander's connection.
    #[must_use]
    pub fn new(broker: &'a Broker) -> Self {
        let mut bystander = broker.connect();
        assert!(bystander.is_alive(), "the broker does not answer at all");
        Self { broker, bystander, rows: 0, failures: Vec::new() }
    }

    /// Sends one frame (or several, or none whole) and a probe; `expected` is a line as [`answer::summary`] writes it, or
    /// `closed`, `no answer` (and the connection open) or `silent` (the probe is not answered either). Without a
    /// semicolon in it, details are not compared. `, then closed` may follow.
    pub fn row(&mut self, name: &str, frame: &[u8], expected: &str) {
        let mut connection = self.broker.connect();
        let mut bytes = frame.to_vec();
        bytes.extend(probe());
        connection.send(&bytes);
        let got = outcome(&mut connection, frame);
        self.judge(name, &got, expected);
    }

    /// A row whose items may be answered in any order: `expected` names its error codes in alphabetical order.
    pub fn row_sorted(&mut self, name: &str, frame: &[u8], expected: &str) {
        let mut connection = self.broker.connect();
        connection.send(&[frame, &probe()].concat());
        let got = outcome(&mut connection, frame);
        self.judge(name, &sorted(&got), &sorted(expected));
    }

    /// A row where Pelton is better than Apache Kafka on purpose.
    pub fn row_better(&mut self, name: &str, frame: &[u8], pelton: &str, kafka: &str) {
        self.row(name, frame, if self.broker.is_kafka() { kafka } else { pelton });
    }

    /// A row that only Pelton is asked.
    pub fn row_ours(&mut self, name: &str, frame: &[u8], expected: &str) {
        if !self.broker.is_kafka() {
            self.row(name, frame, expected);
        }
    }

    /// Sends bytes that are not a whole frame, and nothing behind them; `expected` is `closed` or `silent`.
    pub fn row_alone(&mut self, name: &str, bytes: &[u8], expected: &str) {
        let mut connection = self.broker.connect();
        connection.send(bytes);
        let patience = if expected == "silent" { Duration::from_millis(300) } else { PATIENCE };
        let got = match connection.receive(patience) {
            Reply::Frame(_) => "an answer",
            Reply::Closed => "closed",
            Reply::Silence => "silent",
        };
        self.judge(name, got, expected);
    }

    /// Compares an outcome that the caller has made, then asks the bystander.
    pub fn judge(&mut self, name: &str, got: &str, expected: &str) {
        self.rows += 1;
        let same = if expected.contains(';') { got == expected } else { short(got) == expected };
        if !same {
            self.failures.push(format!("{name}: expected `{expected}`, got `{got}`"));
        }
        if !self.bystander.is_alive() {
            self.failures.push(format!("{name}: another connection stopped working"));
            self.bystander = self.broker.connect();
        }
    }

    /// Ends the table.
    ///
    /// # Panics
    /// When a row went wrong.
    pub fn finish(self) {
        let failed = self.failures.len();
        assert!(
            self.failures.is_empty(),
            "{failed} of {} rows:\n{}",
            self.rows,
            self.failures.join("\n")
        );
    }
}

/// A line with its error codes in alphabetical order.
fn sorted(line: &str) -> String {
    let (codes, details) = line.split_once(';').unwrap_or((line, ""));
    let mut codes: Vec<&str> = codes.split(' ').collect();
    codes.sort_unstable();
    format!("{};{details}", codes.join(" "))
}

/// An outcome without its details.
fn short(line: &str) -> String {
    let end = line.find(", then ").unwrap_or(line.len());
    let head = line[..end].split(';').next().unwrap_or_default();
    format!("{head}{}", &line[end..])
}

fn outcome(connection: &mut Raw, frame: &[u8]) -> String {
    let first = connection.receive(Duration::from_millis(2500));
    match first.correlation() {
        Some(PROBE_CORRELATION) => return "no answer".to_owned(),
        Some(CORRELATION) => {}
        Some(other) => return format!("an answer to request {other}"),
        None if first == Reply::Closed => return "closed".to_owned(),
        None => return "silent".to_owned(),
    }
    let Reply::Frame(answer) = first else { unreachable!("a correlation id came from a frame") };
    let line = match frame.get(4..8) {
        Some(&[a, b, c, d]) => match ApiKey::try_from(i16::from_be_bytes([a, b])) {
            Ok(api) => answer::summary(api, i16::from_be_bytes([c, d]), &answer),
            Err(()) => "an answer to an API that does not exist".to_owned(),
        },
        _ => "an answer to less than a header".to_owned(),
    };
    match connection.receive(PATIENCE).correlation() {
        Some(PROBE_CORRELATION) => line,
        Some(_) => format!("{line}, then another answer"),
        None => format!("{line}, then closed"),
    }
}
