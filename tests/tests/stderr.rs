//! What the broker says must not decide whether it lives.

use std::fs::OpenOptions;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pelton_tests::broker::{binary, serve};
use pelton_tests::raw::{PATIENCE, Raw, Reply};

/// Ends the process whatever happens.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn free_address() -> SocketAddr {
    let probe = TcpListener::bind("127.0.0.1:0").expect("a free port");
    probe.local_addr().expect("bound")
}

/// Goal: a stderr that takes nothing (a log on a full disk) costs lines, not the broker. Method: stderr is `/dev/full`; connections that
/// are closed with a log line, then an ordinary request.
#[test]
fn a_full_disk_behind_the_log() {
    let data_dir = tempfile::tempdir().expect("a temp dir");
    let address = free_address();
    let full = OpenOptions::new().write(true).open("/dev/full").expect("every Linux has it");
    let mut command = Command::new(binary());
    command.args(serve(data_dir.path(), &address.to_string(), 1));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(full);
    let mut broker = Ended(command.spawn().expect("the binary can be started"));
    let deadline = Instant::now() + Duration::from_secs(20);
    while TcpStream::connect(address).is_err() {
        assert!(Instant::now() < deadline, "the broker does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    for _ in 0..3 {
        let mut malformed = Raw::connect(address);
        assert!(malformed.send(&[0xff; 4]));
        assert!(matches!(malformed.receive(PATIENCE), Reply::Closed));
    }
    assert!(Raw::connect(address).is_alive());
    assert!(broker.0.try_wait().expect("it is our child").is_none(), "the broker ended");
}
