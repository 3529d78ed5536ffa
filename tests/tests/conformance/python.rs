//! kafka-python: topics, codecs, headers and nulls, assignment, offsets by time, groups.

use std::time::Duration;

use pelton_tests::broker::{Broker, unique};
use pelton_tests::peer::{Peer, own_file, run_ok};

/// All steps of `clients/python.py` pass.
#[test]
fn steps() {
    let broker = Broker::start();
    let Some(mut command) = Peer::Python.command() else { return };
    command.arg(own_file("clients/python.py")).args([broker.bootstrap(), unique("python")]);
    let output = run_ok(command, b"", Duration::from_secs(120));
    assert!(output.ends_with("done\n"), "{output}");
}
