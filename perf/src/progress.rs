//! A line on a terminal that says how a run goes, once a second.

use std::io::{IsTerminal, Write, stderr};

use crate::load::Load;
use crate::outcome::Moment;
use crate::text::{bytes_rate, count, time_us};

/// The line.
#[derive(Debug)]
pub(crate) struct Progress {
    is_shown: bool,
    name: &'static str,
    seconds: f64,
}

impl Progress {
    /// A line about a load, if it is wanted and stderr is a terminal.
    pub(crate) fn new(is_wanted: bool, load: &Load) -> Self {
        Self {
            is_shown: is_wanted && stderr().is_terminal(),
            name: load.kind.name(),
            seconds: load.warm_up + load.measured_seconds(),
        }
    }

    /// Shows the last second.
    pub(crate) fn show(&self, moment: &Moment) {
        if !self.is_shown {
            return;
        }
        let line = line(self.name, self.seconds, moment);
        // A terminal that is gone is no reason to end a measurement.
        drop(write!(stderr(), "\r\x1b[K{line}"));
    }

    /// Clears the line.
    pub(crate) fn end(&self) {
        if self.is_shown {
            drop(write!(stderr(), "\r\x1b[K"));
        }
    }
}

fn line(name: &str, seconds: f64, moment: &Moment) -> String {
    let mut line = format!(
        "{name} {:.0}/{seconds:.0} s  {}/s  {}  p50 {}  p99 {}  broker {:.2} cores, {} MiB",
        moment.at_seconds,
        count(moment.requests_per_second),
        bytes_rate(moment.bytes_per_second),
        time_us(moment.p50_us),
        time_us(moment.p99_us),
        moment.broker_cores,
        moment.resident_bytes >> 20,
    );
    if 0 < moment.failed {
        line.push_str(&format!("  FAILED {}", moment.failed));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the line says what matters in little room. Method: one moment.
    #[test]
    fn one_line() {
        let moment = Moment {
            at_seconds: 3.0,
            requests_per_second: 123_456.0,
            bytes_per_second: 12.3e6,
            p50_us: 80.0,
            p99_us: 1_234.0,
            broker_cores: 0.93,
            resident_bytes: 40 << 20,
            failed: 2,
            ..Moment::default()
        };
        let expected = "produce 3/6 s  123 456/s  12.3 MB/s  p50 80.0 µs  p99 1.23 ms  broker 0.93 cores, 40 MiB  FAILED 2";
        assert_eq!(line("produce", 6.0, &moment), expected);
    }
}
