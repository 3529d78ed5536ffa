//! What the load programs (`src/bin/*_load.rs`) share: a connection that speaks Pelton's own codec, CPU time of the broker, a report.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pelton_protocol::api;
use pelton_protocol::codec::{Message, Reader, Str};
use pelton_protocol::header::{ResponseHeader, request_frame};
use pelton_protocol::message::create_topics::{
    CreatableTopic, CreateTopicsRequest, CreateTopicsResponse,
};
use pelton_protocol::message::find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};

/// How often a coordinator that is not ready is asked again.
const RETRY: Duration = Duration::from_millis(50);
const TOPIC_ALREADY_EXISTS: i16 = 36;

/// One blocking connection. Every method panics when the broker breaks off: a load has no other use for it.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    next: i32,
}

impl Connection {
    /// Connects to `HOST:PORT`.
    #[must_use]
    pub fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("the broker listens");
        stream.set_nodelay(true).expect("a TCP socket");
        Self { stream, next: 0 }
    }

    /// Sends a request.
    pub fn send<Q: Message>(&mut self, version: i16, request: &Q) {
        self.next += 1;
        let client = Str::new_static("load");
        let frame = request_frame(self.next, Some(&client), version, request).into_bytes();
        self.stream.write_all(&frame).expect("the broker takes it");
    }

    /// Reads the next answer.
    pub fn receive<S: Message>(&mut self, version: i16) -> S {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).expect("an answer");
        let mut body = vec![0; usize::try_from(u32::from_be_bytes(length)).expect("64 bits")];
        self.stream.read_exact(&mut body).expect("a whole answer");
        let body = Bytes::from(body);
        let mut reader = Reader::shared(&body);
        let row = api::row(S::KEY).expect("an API that is served");
        ResponseHeader::decode(&mut reader, row, version).expect("a header");
        S::decode(&mut reader, version).expect("an answer that decodes")
    }

    /// Sends a request and reads its answer.
    pub fn ask<Q: Message, S: Message>(&mut self, version: i16, request: &Q) -> S {
        self.send(version, request);
        self.receive(version)
    }

    /// Waits until a group (`key_type` 0) or a transactional id (1) has a coordinator.
    pub fn find(&mut self, key: &Str, key_type: i8) {
        let request = FindCoordinatorRequest { key: key.clone(), key_type, ..Default::default() };
        while self.ask::<_, FindCoordinatorResponse>(2, &request).error_code != 0 {
            thread::sleep(RETRY);
        }
    }
}

/// Creates a topic unless it is there.
pub fn create_topic(address: &str, name: &Str, num_partitions: i32) {
    let topic = CreatableTopic {
        name: name.clone(),
        num_partitions,
        replication_factor: 1,
        ..Default::default()
    };
    let request =
        CreateTopicsRequest { topics: vec![topic], timeout_ms: 60_000, ..Default::default() };
    let created: CreateTopicsResponse = Connection::open(address).ask(4, &request);
    let code = created.topics[0].error_code;
    assert!(code == 0 || code == TOPIC_ALREADY_EXISTS, "creating the topic: error {code}");
}

/// CPU time that a process has had, in microseconds.
#[must_use]
pub fn cpu_us(pid: &str) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split(' ').collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
    (ticks(12).unwrap_or(0) + ticks(13).unwrap_or(0)) * 10_000
}

/// Prints how many there were in a second, the CPU time of each, and quantiles of what each took, in microseconds.
pub fn report(what: &str, mut us: Vec<u64>, elapsed: Duration, cpu_us: u64) {
    us.sort_unstable();
    let at = |share: usize| us.get(us.len() * share / 1000).copied().unwrap_or(0);
    let count = us.len().max(1);
    println!(
        "{what}: {} in {elapsed:.1?}, {:.0} a second, {:.1} CPU us each, p50 {} p99 {} max {} us",
        us.len(),
        count as f64 / elapsed.as_secs_f64(),
        cpu_us as f64 / count as f64,
        at(500),
        at(990),
        us.last().copied().unwrap_or(0),
    );
}

/// Microseconds since `begin`.
#[must_use]
pub fn us_since(begin: Instant) -> u64 {
    u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// An argument of the command line.
///
/// # Panics
/// When it is no `T`.
#[must_use]
pub fn argument<T: FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("{text} is no fitting number"))
}
