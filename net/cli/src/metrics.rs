//! Reading a broker's metrics port: one GET, one answer, no trust in its size.

use std::net::ToSocketAddrs;

use bytes::{Bytes, BytesMut};
use pelton_model::config::listener::HostPort as Shown;
use pelton_model::slice::Slice;
use pelton_transport::net::{Connection, Net};
use serde_json::Value;

use crate::args::HostPort;
use crate::error::CliError;

/// More than any broker tells.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Room made for a read.
const READ_BYTES: usize = 64 * 1024;
/// How long an answer may take.
const WAIT_MS: u64 = 15_000;

/// Gets a document; its text and what it says.
pub(crate) async fn get<N: Net>(
    net: &N,
    at: &HostPort,
    path: &str,
) -> Result<(String, Value), CliError> {
    let shown = Shown(&at.host, at.port).to_string();
    let unreachable = |problem: String| {
        CliError::with_remedy(
            format!("no metrics of a broker at {shown}: {problem}"),
            "start it with --metrics, or name its address with --metrics here",
        )
    };
    let late = async {
        net.sleep_until(net.now().plus_ms(WAIT_MS)).await;
        Err("it does not answer".to_owned())
    };
    let text = futures_lite::future::or(exchange(net, at, path), late).await;
    let text = text.map_err(&unreachable)?;
    let document = serde_json::from_str(&text)
        .map_err(|error| unreachable(format!("it answers something else: {error}")))?;
    Ok((text, document))
}

async fn exchange<N: Net>(net: &N, at: &HostPort, path: &str) -> Result<String, String> {
    let words = |error: std::io::Error| error.to_string();
    let mut found = (at.host.as_str(), at.port)
        .to_socket_addrs()
        .map_err(words)?;
    let address = found.next().ok_or("the name has no address")?;
    let socket = net.connect(address).await.map_err(words)?;
    let host = Shown(&at.host, at.port);
    let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let mut slices = vec![Slice::Bytes(Bytes::from(head))];
    socket.send(&mut slices).await.map_err(words)?;
    let mut answer = BytesMut::new();
    loop {
        answer.reserve(READ_BYTES);
        if socket.recv(&mut answer).await.map_err(words)? == 0 {
            break;
        }
        if ANSWER_BYTES_MAX < answer.len() {
            return Err("its answer is too long".to_owned());
        }
    }
    body(&answer)
}

/// The body of a whole answer of HTTP.
fn body(answer: &[u8]) -> Result<String, String> {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text
        .split_once("\r\n\r\n")
        .filter(|(head, _)| head.starts_with("HTTP/1."))
        .ok_or("it does not speak HTTP")?;
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    if status != "200" {
        return Err(format!("it answers {status}: {}", body.trim()));
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>().ok())?
    });
    if length.is_some_and(|length| length != body.len()) {
        return Err("its answer is cut short".to_owned());
    }
    Ok(body.to_owned())
}

/// A duration with the unit that suits it: `69 µs`, `1.4 ms`, `2.5 s`.
pub(crate) fn duration(nanoseconds: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs")];
    if nanoseconds == 0 {
        return "-".to_owned();
    }
    for (unit, name) in UNITS {
        if unit <= nanoseconds {
            let (whole, tenths) = (nanoseconds / unit, nanoseconds % unit * 10 / unit);
            return if whole < 10 {
                format!("{whole}.{tenths} {name}")
            } else {
                format!("{whole} {name}")
            };
        }
    }
    "<1 µs".to_owned()
}

/// A text of a row, or what stands for none. Clients choose their names: nothing in them may command the terminal.
pub(crate) fn text(row: &Value, key: &str) -> String {
    let text = row[key]
        .as_str()
        .filter(|text| !text.is_empty())
        .unwrap_or("-");
    text.replace(char::is_control, "?")
}

/// A number of a row, or 0.
pub(crate) fn number(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or(0)
}

/// The rows of a document.
pub(crate) fn rows<'a>(document: &'a Value, key: &str) -> &'a [Value] {
    document[key].as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: only a whole answer of HTTP counts. Method: a table.
    #[test]
    fn answers() {
        fn check(answer: &str, expected: Result<&str, &str>) {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(body(answer.as_bytes()), expected);
        }
        check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", Ok("{}"));
        check("HTTP/1.0 200 OK\r\n\r\n{}", Ok("{}"));
        let cut = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{}";
        check(cut, Err("its answer is cut short"));
        check(
            "HTTP/1.1 404 Not Found\r\n\r\nno\n",
            Err("it answers 404: no"),
        );
        check("", Err("it does not speak HTTP"));
        check("SSH-2.0\r\n\r\n", Err("it does not speak HTTP"));
    }

    // Goal: a name cannot command the terminal. Method: an escape sequence, nothing, and a number.
    #[test]
    fn texts() {
        let row = serde_json::json!({"a": "x\u{1b}[2J\n\u{9b}", "b": "", "c": 1});
        assert_eq!(text(&row, "a"), "x?[2J??");
        assert_eq!(
            [text(&row, "b"), text(&row, "c"), text(&row, "d")],
            ["-", "-", "-"]
        );
    }

    // Goal: durations read well. Method: the edges of units.
    #[test]
    fn durations() {
        fn check(nanoseconds: u64, expected: &str) {
            assert_eq!(duration(nanoseconds), expected);
        }
        check(0, "-");
        check(999, "<1 µs");
        check(1_900, "1.9 µs");
        check(69_999, "69 µs");
        check(1_450_000, "1.4 ms");
        check(12_000_000_000, "12 s");
    }
}
