//! Records what real clients and a real broker say to each other, for `tests/golden/`.
//!
//! Usage: `record_frames LISTEN BROKER DIRECTORY [tour]`. Clients connect to LISTEN, which the broker must advertise; each
//! connection is passed on, and the first short request and response of each client, API and version is appended to
//! `DIRECTORY/CLIENT.txt` as one line: `key version request-in-hex response-in-hex`, frames without their length.
//! With `tour` it asks every version of the APIs of groups, transactions and settings itself (`oracle::tour`), and ends.
//! A tool for a person at a terminal; otherwise it ends when it is interrupted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{Read, Result, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use pelton_tests::oracle::side::Side;
use pelton_tests::oracle::tour;

/// Longer frames tell nothing more about the codec.
const FRAME_BYTES_MAX: usize = 6000;

/// Client, API key, version: each is recorded once.
type Seen = Arc<Mutex<BTreeSet<(String, i16, i16)>>>;
/// Requests of one connection that are not answered, by correlation id.
type Waiting = Arc<Mutex<BTreeMap<i32, Vec<u8>>>>;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: record_frames LISTEN BROKER DIRECTORY [tour]";
    let listen = arguments.next().expect(usage);
    let broker = arguments.next().expect(usage);
    let directory = PathBuf::from(arguments.next().expect(usage));
    let listener = TcpListener::bind(listen)?;
    if arguments.next().is_some_and(|word| word == "tour") {
        let address = listener.local_addr()?;
        std::thread::spawn(move || serve(listener, &broker, &directory));
        tour(address);
        return Ok(());
    }
    serve(listener, &broker, &directory)
}

/// Plays the rounds of the tour.
fn tour(address: SocketAddr) {
    for (place, steps) in tour::sequences().iter().enumerate() {
        let outcomes = Side::new(address, &format!("tour{place}-")).play(steps);
        for (step, outcome) in steps.iter().zip(outcomes.expect("the broker is there")) {
            println!("{step}\n  {outcome}");
        }
    }
}

fn serve(listener: TcpListener, broker: &str, directory: &Path) -> Result<()> {
    let seen = Seen::default();
    for client in listener.incoming() {
        let (client, server) = (client?, TcpStream::connect(broker)?);
        let waiting = Waiting::default();
        let (from, to, kept) = (client.try_clone()?, server.try_clone()?, Arc::clone(&waiting));
        std::thread::spawn(move || {
            pass(from, to, |frame| {
                if let Some(id) = correlation(frame, 4) {
                    kept.lock().expect("no holder panics").insert(id, frame.to_vec());
                }
            })
        });
        let (seen, directory) = (Arc::clone(&seen), directory.to_owned());
        std::thread::spawn(move || {
            pass(server, client, |response| {
                let id = correlation(response, 0).unwrap_or(-1);
                let request = waiting.lock().expect("no holder panics").remove(&id);
                if let Some(request) = request {
                    record(&seen, &directory, &request, response);
                }
            })
        });
    }
    Ok(())
}

fn correlation(frame: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(frame.get(at..at + 4)?.try_into().ok()?))
}

/// Passes frames on until either side ends, and then ends the other.
fn pass(from: TcpStream, to: TcpStream, look: impl FnMut(&[u8])) -> Result<()> {
    let ended = pass_frames(&from, &to, look);
    from.shutdown(std::net::Shutdown::Both).and(to.shutdown(std::net::Shutdown::Both)).and(ended)
}

fn pass_frames(
    mut from: &TcpStream,
    mut to: &TcpStream,
    mut look: impl FnMut(&[u8]),
) -> Result<()> {
    loop {
        let mut size = [0; 4];
        from.read_exact(&mut size)?;
        let mut frame = vec![0; u32::from_be_bytes(size) as usize];
        from.read_exact(&mut frame)?;
        look(&frame);
        to.write_all(&size)?;
        to.write_all(&frame)?;
    }
}

fn record(seen: &Seen, directory: &Path, request: &[u8], response: &[u8]) {
    if request.len().max(response.len()) > FRAME_BYTES_MAX || request.len() < 10 {
        return;
    }
    let key = i16::from_be_bytes([request[0], request[1]]);
    let version = i16::from_be_bytes([request[2], request[3]]);
    let id_length = usize::from(u16::from_be_bytes([request[8], request[9]]));
    let id = request.get(10..10 + id_length).unwrap_or(b"none");
    // Names end before the parts that count instances.
    let client: String = id.iter().map(|byte| char::from(*byte)).collect();
    let client =
        client.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-' || c == '.').to_owned();
    let mut seen = seen.lock().expect("no holder panics");
    if seen.insert((client.clone(), key, version)) {
        let path = directory.join(format!("{client}.txt"));
        let mut file =
            OpenOptions::new().create(true).append(true).open(path).expect("a writable directory");
        writeln!(file, "{key} {version} {} {}", hex(request), hex(response))
            .expect("a writable file");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
