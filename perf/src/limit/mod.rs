//! `pelton-perf limits`: the least a program can do for the same bytes on this machine, as figures that a broker's stand beside.

pub(crate) mod disk;
mod server;

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::compare::broker::{Broker, Ground, Running};
use crate::engine::{RunOptions, run};
use crate::error::PerfError;
use crate::load::{Kind, Load};
use crate::outcome::{Latency, Outcome};
use crate::report::shed;
use crate::setup::Target;
use crate::text::{bytes, bytes_rate, count, three, time_us};

pub(crate) use disk::Synced;
pub(crate) use server::{Storing, serve};

/// The bytes of a measurement are bounded: in a virtual machine fresh memory costs more than what is measured.
const BYTES_MAX: u64 = 1 << 30;

/// One limit over a socket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Served {
    /// What the program does with the bytes.
    pub(crate) storing: Storing,
    /// What came out.
    pub(crate) outcome: Outcome,
}

/// All limits of this machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Limits {
    /// Over a socket.
    pub(crate) served: Vec<Served>,
    /// On the disk.
    pub(crate) synced: Vec<Synced>,
}

fn loads(seconds: f64) -> Vec<(Storing, Load)> {
    let produce = |connections, depth, records, record_bytes| Load {
        connections,
        depth,
        records,
        record_bytes,
        seconds,
        bytes_max: BYTES_MAX,
        ..Load::default()
    };
    let mut loads = vec![(Storing::Echo, produce(1, 1, 1, 100))];
    for storing in [Storing::Nostore, Storing::Plain, Storing::Prepared] {
        loads.push((storing, produce(64, 5, 1, 100)));
        loads.push((storing, produce(4, 5, 16, 1_024)));
        loads.push((storing, produce(1, 1, 1, 100)));
        loads.push((storing, produce(1, 1, 16, 1_024)));
    }
    loads.push((Storing::Synced, produce(1, 1, 1, 100)));
    loads.push((Storing::Synced, produce(64, 5, 1, 100)));
    let fetch = |connections, fetch_bytes, prefill| Load {
        kind: Kind::Fetch,
        connections,
        fetch_bytes,
        records: 16,
        record_bytes: prefill,
        prefill_bytes: 256 << 20,
        seconds,
        ..Load::default()
    };
    loads.push((Storing::Prepared, fetch(4, 1 << 20, 1_024)));
    loads.push((Storing::Prepared, fetch(64, 4_200, 256)));
    loads
}

/// Measures all limits and prints them as they come.
pub(crate) fn measure(
    ground: &Ground,
    client_cores: &[usize],
    seconds: f64,
) -> Result<Limits, PerfError> {
    let mut limits = Limits::default();
    println!("The least a program can do on this machine (page cache unless it says synced)");
    for (storing, load) in loads(seconds) {
        let name = storing_name(storing);
        let running = Running::start(&Broker::limit(&name)?, ground, &Default::default())?;
        let target = Target {
            address: running.address,
            topic: "limit".to_owned(),
            is_bare: true,
            keeps_topic: true,
        };
        let options = RunOptions {
            pid: Some(running.process.pid()),
            cores: client_cores.to_vec(),
            ..RunOptions::default()
        };
        let outcome = run(&load, &target, &options)?;
        running.stop()?;
        println!("{}", served_line(&name, &outcome));
        limits.served.push(Served { storing, outcome });
    }
    for (write_bytes, prepared) in [(200, false), (200, true), (16_384, false), (16_384, true)] {
        let synced = disk::measure(Path::new(&ground.directory), write_bytes, prepared)?;
        println!("{}", synced_line(&synced));
        limits.synced.push(synced);
    }
    Ok(limits)
}

fn storing_name(storing: Storing) -> String {
    format!("{storing:?}").to_lowercase()
}

fn served_line(name: &str, outcome: &Outcome) -> String {
    let flow = outcome.main_flow();
    let cpu = outcome.broker.map_or(0.0, |usage| usage.cpu_seconds);
    let latency = outcome.main_latency();
    format!(
        "{name:<9} {}\n          {}/s, {}, {} µs CPU a request, {}; {}; {}",
        outcome.load,
        count(flow.requests_per_second),
        bytes_rate(flow.bytes_per_second),
        three(cpu * 1e6 / flow.requests.max(1) as f64),
        per_cpu_second(flow.bytes as f64, cpu),
        percentiles(latency),
        shed(outcome),
    )
}

fn per_cpu_second(bytes: f64, cpu: f64) -> String {
    if cpu < 0.01 {
        "no CPU to speak of".to_owned()
    } else {
        format!("{} of CPU", bytes_rate(bytes / cpu))
    }
}

fn percentiles(latency: &Latency) -> String {
    format!(
        "p50 {}, p99 {}, p99.9 {}",
        time_us(latency.p50_us),
        time_us(latency.p99_us),
        time_us(latency.p999_us)
    )
}

fn synced_line(synced: &Synced) -> String {
    let file = if synced.prepared { "a prepared tail" } else { "a growing file" };
    let size = bytes(synced.write_bytes as f64);
    format!("fdatasync write of {size} to {file}: {}", percentiles(&synced.latency))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the yardstick does what it is asked, so that it can be compared with. Method: the loads of our scenarios in small
    /// against the program, as it runs in a thread here; nothing may be shed.
    #[test]
    fn serves_every_load() {
        let small = Load { warm_up: 0.05, seconds: 0.2, ..Load::default() };
        let fetch = Load {
            kind: Kind::Fetch,
            connections: 3,
            records: 16,
            prefill_bytes: 300_000,
            fetch_bytes: 100_000,
            ..small.clone()
        };
        let keyed =
            Load { partitions: 9, partitions_per_request: 4, key_bytes: 5, ..small.clone() };
        let tail = Load { kind: Kind::Tail, rate: 300.0, depth: 8, ..small.clone() };
        let many = Load { connections: 5, depth: 4, ..small };
        let all = [&many, &keyed, &fetch, &tail];
        let check = |storing: Storing, loads: &[&Load]| {
            let scratch = tempfile::tempdir().expect("a directory");
            let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            let address = socket.local_addr().expect("an address");
            drop(socket);
            let directory = scratch.path().to_owned();
            std::thread::spawn(move || serve(address, directory, storing));
            for load in loads {
                let topic = "limit".to_owned();
                let target = Target { address, topic, is_bare: true, keeps_topic: true };
                let is_up = (0..5_000).any(|_| {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                    crate::connection::dial(address).is_ok()
                });
                assert!(is_up, "{storing:?}");
                let options = RunOptions { sleeps: true, ..RunOptions::default() };
                let outcome = run(load, &target, &options).expect("it runs");
                assert_eq!(outcome.shed(), 0, "{storing:?}: {load}: {:?}", outcome.failures);
                assert!(0 < outcome.main_flow().requests, "{storing:?}: {load}");
                assert!(0.0 < outcome.main_latency().p50_us, "{storing:?}: {load}");
            }
        };
        check(Storing::Prepared, &all);
        check(Storing::Plain, &all);
        check(Storing::Synced, &all);
        check(Storing::Nostore, &[&many, &keyed]);
        check(Storing::Echo, &[&many]);
    }

    /// Goal: every limit is a load that makes sense. Method: the load's own check.
    #[test]
    fn loads_make_sense() {
        for (_, load) in loads(1.0) {
            load.check().expect("it makes sense");
        }
    }
}
