//! Attacks on memory and on the time of others.

use std::time::{Duration, Instant};

use pelton_tests::batch::{Batch, Record};
use pelton_tests::broker::Broker;
use pelton_tests::raw::{Raw, probe};
use pelton_tests::request::{Fetch, Produce, metadata, metadata_of};
use pelton_tests::topic::{self, TestTopic};

use super::{
    KIB, MIB, Seen, beside, eventually, is_long, options, raise_descriptors, scaled, stuff,
};

/// The memory of requests in these tests: small, so that an attack meets it.
const BUDGET: u64 = 48 * MIB;
const BUDGET_SETTINGS: [&str; 2] =
    ["queued.max.request.bytes=50331648", "socket.request.max.bytes=16777216"];

/// A batch of one record with a value of so many bytes.
fn batch_of(bytes: usize) -> Vec<u8> {
    let record = Record { value: Some(vec![b'x'; bytes]), ..Record::at(0) };
    Batch::with(vec![record]).build()
}

/// A topic with `megabytes` in it.
fn filled(broker: &Broker, megabytes: usize) -> TestTopic {
    let topic = topic::create(broker, "filled");
    let frame = Produce::to(topic.name.as_str(), batch_of(500 << 10)).frame();
    let mut connection = broker.connect();
    for _ in 0..2 * megabytes {
        assert!(matches!(connection.ask(&frame), pelton_tests::raw::Reply::Frame(_)));
    }
    topic
}

/// Checks what an attack did to the broker and to the bystander.
fn check(what: &str, idle: u64, seen: &Seen) {
    let limit = idle + BUDGET + 64 * MIB;
    println!(
        "{what}: resident MiB {} of {}, bystander {} answers, longest {:?}",
        seen.resident_bytes / MIB,
        limit / MIB,
        seen.answers,
        seen.longest
    );
    assert!(seen.resident_bytes <= limit, "{what}: {} MiB", seen.resident_bytes / MIB);
    assert!(seen.answers > 0);
}

/// Goal: an idle connection costs at most 16 KiB, and many cost others nothing. Method: open them, let each ask once, wait until
/// they count as silent; resident memory.
#[test]
fn idle_connections() {
    raise_descriptors();
    let Some(broker) = Broker::start_own(options(2, &[])) else { return };
    let mut bystander = broker.connect();
    assert!(bystander.is_alive());
    let idle = broker.resident_bytes();
    let count = scaled(1000, 10_000);
    let mut connections: Vec<Raw> = (0..count).map(|_| broker.connect()).collect();
    assert!(connections.iter_mut().all(Raw::is_alive));
    let limit = idle + count as u64 * 16 * KIB;
    let mut resident = 0;
    eventually("idle connections keep more than 16 KiB each", || {
        assert!(bystander.is_alive());
        resident = broker.resident_bytes();
        resident <= limit
    });
    println!("bytes an idle connection: {}", resident.saturating_sub(idle) / count as u64);
}

/// Goal: clients that ask and do not read hold no more than the budget. Method: each asks for a megabyte and for all metadata, many
/// times, and reads nothing.
#[test]
fn clients_that_stop_reading() {
    raise_descriptors();
    let Some(broker) = Broker::start_own(options(2, &BUDGET_SETTINGS)) else { return };
    let topic = filled(&broker, 4);
    for _ in 0..scaled(2, 20) {
        let _wide = topic::create_with(&broker, "wide-topic-with-a-long-name", 500, &[]);
    }
    let idle = broker.resident_bytes();
    let fetch = Fetch { max_bytes: 8 << 20, ..Fetch::of(topic.name.as_str()) }.frame();
    let small = Fetch { partition_max_bytes: 60 << 10, ..Fetch::of(topic.name.as_str()) }.frame();
    let all = metadata(4, None, false);
    let questions = [fetch.repeat(20), small.repeat(500), all.repeat(200)];
    let question = metadata_of(4, &topic.name);
    let mut held = Vec::new();
    let seen = beside(&broker, &question, || {
        for index in 0..scaled(150, 1500) {
            let connection = broker.connect();
            stuff(&connection, &questions[index % questions.len()]);
            held.push(connection);
        }
        std::thread::sleep(Duration::from_secs(if is_long() { 20 } else { 3 }));
    });
    check("clients that stop reading", idle, &seen);
    drop(held);
    eventually("nothing works after they left", || broker.connect().is_alive());
}

/// Goal: frames that never end hold no more than the budget, and others' large frames are served all the same. Method: announcements of
/// the largest frame, some with nothing behind them, some with a byte at a time, some with as much as is taken.
#[test]
fn frames_that_never_end() {
    raise_descriptors();
    let Some(broker) = Broker::start_own(options(2, &BUDGET_SETTINGS)) else { return };
    let topic = topic::create(&broker, "beside");
    let idle = broker.resident_bytes();
    let question = Produce::to(topic.name.as_str(), batch_of(2 << 10)).frame();
    let seen = beside(&broker, &question, || {
        let mut held: Vec<Raw> = (0..scaled(300, 3000)).map(|_| broker.connect()).collect();
        for (index, connection) in held.iter_mut().enumerate() {
            connection.send(&(16_i32 << 20).to_be_bytes());
            if index % 3 == 2 {
                connection.push(1 << 16, 64);
            }
        }
        let rounds = if is_long() { 40 } else { 10 };
        for _ in 0..rounds {
            for connection in held.iter().skip(1).step_by(3) {
                stuff(connection, &[0]);
            }
            std::thread::sleep(Duration::from_millis(if is_long() { 1000 } else { 100 }));
        }
    });
    check("frames that never end", idle, &seen);
}

/// Goal: at more than it can do, the broker goes on answering everybody, in bounded memory. Method: producers that never wait for an
/// answer before they send more, reading what comes; each answer counts.
#[test]
fn more_than_it_can_do() {
    raise_descriptors();
    let Some(broker) = Broker::start_own(options(2, &BUDGET_SETTINGS)) else { return };
    let topic = topic::create_with(&broker, "flood", 8, &[("retention.bytes", "100000000")]);
    let idle = broker.resident_bytes();
    let question = metadata_of(4, &topic.name);
    let duration = Duration::from_secs(if is_long() { 30 } else { 2 });
    let (threads, connections) = (4, scaled(16, 250));
    let seen = beside(&broker, &question, || {
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (broker, topic) = (&broker, &topic);
                scope.spawn(move || flood(broker, topic, thread, connections, duration));
            }
        });
    });
    check("more than it can do", idle, &seen);
}

/// Sends as much as is taken on each connection in turn, then reads all answers.
fn flood(broker: &Broker, topic: &TestTopic, thread: i32, connections: usize, duration: Duration) {
    let frame = |partition: i32| {
        let partitions = vec![(partition, Some(batch_of(8 << 10)))];
        Produce { partitions, ..Produce::to(topic.name.as_str(), Vec::new()) }.frame()
    };
    let frames = [frame(2 * thread), frame(2 * thread + 1)];
    let mut open: Vec<(Raw, Outbox)> =
        (0..connections).map(|_| (broker.connect(), Outbox::default())).collect();
    let end = Instant::now() + duration;
    let mut answered = 0;
    while Instant::now() < end {
        for (index, (connection, outbox)) in open.iter_mut().enumerate() {
            outbox.fill(connection, &frames[index % 2]);
            answered += outbox.answers(connection);
        }
    }
    for (connection, outbox) in &mut open {
        assert!(outbox.finish(connection), "an answer is missing");
    }
    assert!(answered > 0);
    assert!(open.iter_mut().all(|(connection, _)| connection.is_alive()));
}

/// What one flooding connection has sent and not been answered.
#[derive(Default)]
struct Outbox {
    rest: Vec<u8>,
    asked: u32,
    answered: u32,
}

impl Outbox {
    fn fill(&mut self, connection: &Raw, frame: &[u8]) {
        for _ in 0..8 {
            if self.rest.is_empty() {
                self.rest = frame.to_vec();
                self.asked += 1;
            }
            let sent = connection.push_bytes(&self.rest).expect("the flood is welcome");
            self.rest.drain(..sent);
            if !self.rest.is_empty() {
                return;
            }
        }
    }

    fn answers(&mut self, connection: &mut Raw) -> u32 {
        let before = self.answered;
        while self.answered < self.asked
            && connection.has_arrived()
            && super::is_answered(connection)
        {
            self.answered += 1;
        }
        self.answered - before
    }

    fn finish(&mut self, connection: &mut Raw) -> bool {
        if !connection.send(&self.rest) {
            return false;
        }
        while self.answered < self.asked {
            if !super::is_answered(connection) {
                return false;
            }
            self.answered += 1;
        }
        true
    }
}

/// Goal: a peer that always has another request does not hold the others up. Method: one connection that fills its socket
/// with small requests; others are answered, and it says how long they waited.
#[test]
fn endless_requests() {
    let Some(broker) = Broker::start_own(options(1, &[])) else { return };
    let requests = probe().repeat(scaled(20_000, 200_000));
    let seen = beside(&broker, &probe(), || {
        let mut greedy = broker.connect();
        let mut sent = 0;
        let mut answered = 0;
        while sent < requests.len() {
            sent += greedy.push_bytes(&requests[sent..]).expect("it stays open");
            while greedy.has_arrived() && super::is_answered(&mut greedy) {
                answered += 1;
            }
        }
        assert!(answered > 0 || super::is_answered(&mut greedy));
    });
    assert!(seen.answers > 0);
    println!("beside endless requests: longest {:?}", seen.longest);
}
