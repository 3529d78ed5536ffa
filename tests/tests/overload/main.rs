//! Overload is bad input: limits on connections, and attacks that must change nothing for others.
//!
//! The short forms run always. `PELTON_OVERLOAD=1` runs them as asked of a release: 10 000 idle connections, thousands of attackers,
//! half a minute of flood.

mod attacks;
mod limits;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pelton_tests::broker::{Broker, Options};
use pelton_tests::raw::{PATIENCE, Raw, Reply};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// The long form is asked for.
fn is_long() -> bool {
    std::env::var_os("PELTON_OVERLOAD").is_some()
}

/// The first number, or the second in the long form.
fn scaled(short: usize, long: usize) -> usize {
    if is_long() { long } else { short }
}

/// As many descriptors as the system gives this process.
fn raise_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).expect("the soft limit may reach the hard one");
}

fn options(shards: usize, settings: &[&str]) -> Options {
    let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
    Options { shards, settings, ..Options::default() }
}

/// Waits until `holds`; the message says what did not come.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What a bystander saw while others attacked.
#[derive(Debug, Default)]
struct Seen {
    answers: u32,
    longest: Duration,
    resident_bytes: u64,
}

/// Runs `attack` beside a bystander that asks `question` again and again on one old connection and, in turn, on new ones.
fn beside(broker: &Broker, question: &[u8], attack: impl FnOnce() + Send) -> Seen {
    let mut old = broker.connect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let attacking = scope.spawn(|| {
            attack();
            is_over.store(true, Ordering::Release);
        });
        let mut seen = Seen::default();
        while !is_over.load(Ordering::Acquire) && !attacking.is_finished() {
            for is_new in [false, true] {
                let start = Instant::now();
                let answer =
                    if is_new { broker.connect().ask(question) } else { old.ask(question) };
                assert!(matches!(answer, Reply::Frame(_)), "the bystander: {answer:?}");
                seen.longest = seen.longest.max(start.elapsed());
                seen.answers += 1;
            }
            seen.resident_bytes = seen.resident_bytes.max(broker.resident_bytes());
            std::thread::sleep(Duration::from_millis(5));
        }
        attacking.join().expect("the attack itself works");
        seen
    })
}

/// Hands over what the peer takes, without waiting for it; one that is gone takes nothing.
fn stuff(connection: &Raw, bytes: &[u8]) -> usize {
    connection.push_bytes(bytes).unwrap_or(0)
}

/// Whether an answer comes at all.
fn is_answered(connection: &mut Raw) -> bool {
    matches!(connection.receive(PATIENCE), Reply::Frame(_))
}
