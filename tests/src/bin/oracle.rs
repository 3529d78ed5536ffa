//! The differential oracle: random requests to Pelton and to a real Apache Kafka, and where their answers differ.
//!
//! Usage: `oracle --pelton HOST:PORT --kafka HOST:PORT [--seed N] [--sequences N]`. Both brokers are one-node clusters that stand by;
//! what is made on them stays. Ends with 1 when a difference is not on the list of those that are meant
//! (`tests/oracle/FINDINGS.md`), with 2 when a broker cannot be reached or dies. See `pelton_tests::oracle`.

use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;

use pelton_tests::batch::now_ms;
use pelton_tests::oracle::run::{Plan, Run};
use pelton_tests::oracle::side::Down;

const USAGE: &str = "usage: oracle --pelton HOST:PORT --kafka HOST:PORT [--seed N] [--sequences N]";

fn main() -> ExitCode {
    let plan = match plan(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(plan) => plan,
        Err(error) => {
            eprintln!("oracle: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let mut run = Run::new(plan, now_ms().unsigned_abs());
    let ended = run.go();
    println!("{}", run.summary());
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Down(address)) => {
            eprintln!("oracle: the broker at {address} cannot be reached");
            ExitCode::from(2)
        }
    }
}

fn plan(arguments: &[String]) -> Result<Plan, String> {
    let (mut pelton, mut kafka, mut seed, mut sequences) = (None, None, 1, 100);
    for pair in arguments.chunks(2) {
        let [name, value] = pair else { return Err(format!("{} wants a value", pair[0])) };
        match name.as_str() {
            "--pelton" => pelton = Some(address(value)?),
            "--kafka" => kafka = Some(address(value)?),
            "--seed" => seed = number(value)?,
            "--sequences" => sequences = number(value)?,
            other => return Err(format!("no such argument: {other}")),
        }
    }
    let missing = |name: &str| format!("{name} is missing");
    Ok(Plan {
        pelton: pelton.ok_or_else(|| missing("--pelton"))?,
        kafka: kafka.ok_or_else(|| missing("--kafka"))?,
        seed,
        sequences,
    })
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("not a number: {text}"))
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().ok().and_then(|mut all| all.next());
    found.ok_or_else(|| format!("not an address: {text}"))
}
