//! Memory stays bounded whatever clients announce.

use std::time::{Duration, Instant};

use pelton_tests::broker::{Broker, Options};
use pelton_tests::raw::Raw;

const CONNECTIONS: usize = 1000;
const ANNOUNCED: i32 = 99 << 20;
/// Sent by each connection behind the announcement: below the size that needs a reservation.
const SENT: usize = 4096;
const MIB: u64 = 1 << 20;

/// Goal: a claimed length reserves nothing. Method: a thousand connections each announce 99 MiB and send 4 KiB of it, one
/// hundred of them go on to send as much as is taken; resident memory may grow by the request budget and 64 MiB.
#[test]
fn a_thousand_announcements_of_99_mib() {
    let Some(broker) = Broker::start_own(Options::default()) else {
        return;
    };
    let mut bystander = broker.connect();
    assert!(bystander.is_alive());
    let idle = broker.resident_bytes();
    let mut connections: Vec<Raw> = (0..CONNECTIONS).map(|_| broker.connect()).collect();
    for connection in &mut connections {
        assert!(connection.send(&ANNOUNCED.to_be_bytes()));
    }
    let announced = settled(&broker);
    assert!(announced <= idle + 64 * MIB, "{} MiB for nothing but lengths", announced / MIB);
    for connection in &mut connections {
        connection.send(&[0; SENT]);
    }
    let sent = settled(&broker);
    assert!(sent <= idle + 64 * MIB, "{} MiB for 4 MiB", sent / MIB);

    for connection in connections.iter().take(100) {
        connection.push(1 << 20, 3);
    }
    let limit = idle + budget() + 64 * MIB;
    let pushed = settled(&broker);
    println!(
        "resident MiB: idle {}, announced {}, 4 KiB each {}, pushed {}, limit {}",
        idle / MIB,
        announced / MIB,
        sent / MIB,
        pushed / MIB,
        limit / MIB
    );
    assert!(pushed <= limit, "{} MiB, limit {}", pushed / MIB, limit / MIB);
    assert!(bystander.is_alive(), "another connection stopped working");
    drop(connections);
    assert!(broker.connect().is_alive(), "no new connection after they left");
}

/// Goal: what is resident stays near what is in use, also where the kernel gives huge pages to who asks. Method: what the kernel says of
/// the process (the soak sees the growth itself, within an hour).
#[test]
fn huge_pages_are_off() {
    let Some(broker) = Broker::start_own(Options::default()) else {
        return;
    };
    let status = std::fs::read_to_string(format!("/proc/{}/status", broker.pid())).expect("Linux");
    let is_off = |line: &str| line.split_whitespace().eq(["THP_enabled:", "0"]);
    assert!(status.lines().any(is_off), "{status}");
}

/// The largest resident size seen over a third of a second.
fn settled(broker: &Broker) -> u64 {
    let deadline = Instant::now() + Duration::from_millis(300);
    let mut most = 0;
    while Instant::now() < deadline {
        most = most.max(broker.resident_bytes());
        std::thread::sleep(Duration::from_millis(10));
    }
    most
}

/// The request-memory budget: a tenth of the machine, at most 1 GiB, at least one largest frame.
fn budget() -> u64 {
    let meminfo = std::fs::read_to_string("/proc/meminfo").expect("Linux");
    let total = meminfo.lines().find(|line| line.starts_with("MemTotal:")).expect("MemTotal");
    let kib: u64 = total.split_whitespace().nth(1).expect("a number").parse().expect("a number");
    (kib * 1024 / 10).clamp(100 * MIB, 1024 * MIB)
}
