//! Text for people: colours where a terminal wants them, sizes with units, aligned columns.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use crate::error::CliError;

/// A colour of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    /// All is well.
    Green,
    /// Worth a look.
    Yellow,
    /// Broken.
    Red,
    /// Beside the point.
    Dim,
}

impl Colour {
    fn code(self) -> &'static str {
        match self {
            Self::Green => "\x1b[32m",
            Self::Yellow => "\x1b[33m",
            Self::Red => "\x1b[31m",
            Self::Dim => "\x1b[2m",
        }
    }
}

/// A text that shows in a colour if `on`.
pub(crate) struct Painted<'a> {
    text: &'a str,
    colour: Colour,
    on: bool,
}

impl fmt::Display for Painted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.on {
            write!(f, "{}{}\x1b[0m", self.colour.code(), self.text)
        } else {
            f.write_str(self.text)
        }
    }
}

/// Paints `text` if `on`.
pub(crate) fn paint(text: &str, colour: Colour, on: bool) -> Painted<'_> {
    Painted { text, colour, on }
}

/// Whether colours are wanted on a stream that is (or is not) a terminal.
pub(crate) fn wants_colour(is_terminal: bool) -> bool {
    is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Whether colours are wanted on stdout.
pub(crate) fn stdout_colour() -> bool {
    wants_colour(std::io::stdout().is_terminal())
}

/// Whether colours are wanted on stderr.
pub(crate) fn stderr_colour() -> bool {
    wants_colour(std::io::stderr().is_terminal())
}

/// Writes a line to stderr; a closed stderr is nobody's problem.
pub(crate) fn say(line: &str) {
    drop(writeln!(io::stderr().lock(), "{line}"));
}

/// Replaces the line that the cursor is on.
pub(crate) fn draw(line: &str) {
    drop(write!(io::stderr().lock(), "\r\x1b[K{line}"));
}

/// The outcome of writing to stdout: a reader that went away (`| head`) is no failure worth a word.
pub(crate) fn written(outcome: io::Result<()>) -> Result<(), CliError> {
    match outcome {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(CliError::Reported),
        Err(error) => Err(CliError::failed(format!("cannot write to stdout: {error}"))),
    }
}

/// Writes to stdout.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    written(io::stdout().lock().write_all(text.as_bytes()))
}

/// Writes the line of a failed command to stderr.
pub(crate) fn error_line(message: &str) {
    if !message.is_empty() {
        let flat = message.replace(['\n', '\r'], " ");
        say(&format!(
            "{} {flat}",
            paint("error:", Colour::Red, stderr_colour())
        ));
    }
}

/// Writes a warning line to stderr.
pub(crate) fn warning_line(message: &str) {
    say(&format!(
        "{} {message}",
        paint("warning:", Colour::Yellow, stderr_colour())
    ));
}

/// Shows bytes with a binary unit: `64 KiB`.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut scaled = count;
    let mut rest = 0;
    while scaled >= 1024 && unit + 1 < UNITS.len() {
        rest = scaled % 1024;
        scaled /= 1024;
        unit += 1;
    }
    let tenths = rest * 10 / 1024;
    if scaled < 10 && tenths > 0 {
        format!("{scaled}.{tenths} {}", UNITS[unit])
    } else {
        format!("{scaled} {}", UNITS[unit])
    }
}

/// A text as a JSON string.
pub(crate) fn json_text(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            control if control < ' ' => quoted.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// Lays out rows in columns: each as wide as its widest cell, two spaces between, none after the last.
pub(crate) fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:<width$}  ", width = *width));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Rows of JSON as one array, a line.
pub(crate) fn array(rows: impl Iterator<Item = String>) -> String {
    let rows: Vec<String> = rows.collect();
    format!("[{}]\n", rows.join(","))
}

/// A span of time: milliseconds below ten seconds, then whole units.
pub(crate) fn seconds(ms: i64) -> String {
    const SECOND: i64 = 1_000;
    const MINUTE: i64 = 60 * SECOND;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    if ms == 0 {
        "0 s".to_owned()
    } else if ms < 10 * SECOND {
        format!("{}.{:03} s", ms / SECOND, ms % SECOND)
    } else if ms < 10 * MINUTE {
        format!("{} s", ms / SECOND)
    } else if ms < 10 * HOUR {
        format!("{} min", ms / MINUTE)
    } else if ms < 10 * DAY {
        format!("{} h", ms / HOUR)
    } else {
        format!("{} d", ms / DAY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: sizes read well. Method: the edges of units.
    #[test]
    fn sizes() {
        fn check(count: u64, expected: &str) {
            assert_eq!(bytes(count), expected);
        }
        check(0, "0 bytes");
        check(1023, "1023 bytes");
        check(65_536, "64 KiB");
        check(1_572_864, "1.5 MiB");
        check(1 << 40, "1 TiB");
        check(u64::MAX, "16777215 TiB");
    }

    // Goal: tables align and no line ends in spaces. Method: cells of several widths.
    #[test]
    fn aligned() {
        let rows = [
            vec!["a".to_owned(), "b".to_owned()],
            vec!["ccc".to_owned(), String::new()],
        ];
        assert_eq!(columns(&rows), "a    b\nccc\n");
        assert_eq!(columns(&[]), "");
    }

    // Goal: colours only when asked. Method: both ways.
    #[test]
    fn painting() {
        assert_eq!(paint("x", Colour::Red, false).to_string(), "x");
        assert_eq!(
            paint("x", Colour::Red, true).to_string(),
            "\x1b[31mx\x1b[0m"
        );
        assert!(!wants_colour(false));
    }
}
