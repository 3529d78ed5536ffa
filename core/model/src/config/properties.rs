//! The syntax of `.properties` files, as `java.util.Properties` reads it.
//!
//! Invariants:
//! 1. any input gives a map or an error, never a panic, and no more memory than its own size allows;
//! 2. of equal keys the last wins.
//!
//! One deliberate difference: a file that is valid UTF-8 is read as UTF-8, where Java takes every file for Latin-1; files
//! that are not valid UTF-8 are Latin-1 here too.
//! Source: the documentation of `java.util.Properties.load`, and its behaviour on the cases in the tests.

use std::collections::BTreeMap;
use std::fmt;

/// One setting of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The value, escapes resolved.
    pub value: String,
    /// The line it begins on, from 1.
    pub line: usize,
}

/// The text is not a properties file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedEscape {
    /// The line of the broken escape of a character by its number, from 1.
    pub line: usize,
}

impl fmt::Display for MalformedEscape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}: \\u must be followed by four hexadecimal digits",
            self.line
        )
    }
}

impl std::error::Error for MalformedEscape {}

/// Parses a whole file.
///
/// # Errors
/// [`MalformedEscape`] at the first `\u` without four hexadecimal digits; everything else means something.
pub fn parse(file: &[u8]) -> Result<BTreeMap<String, Entry>, MalformedEscape> {
    let text = std::str::from_utf8(file).map_or_else(
        |_| file.iter().copied().map(char::from).collect(),
        |text| text.strip_prefix('\u{feff}').unwrap_or(text).to_owned(),
    );
    let mut entries = BTreeMap::new();
    let mut lines = LogicalLines {
        chars: text.chars().peekable(),
        line: 1,
    };
    while let Some((line, text)) = lines.next_line() {
        let (key, value) = split(&text);
        let malformed = |NotHex| MalformedEscape { line };
        let key = unescape(key).map_err(malformed)?;
        let value = unescape(value).map_err(malformed)?;
        entries.insert(key, Entry { value, line });
    }
    Ok(entries)
}

/// Joins continued lines and drops comments and blank lines.
struct LogicalLines<'a> {
    chars: std::iter::Peekable<std::str::Chars<'a>>,
    line: usize,
}

impl LogicalLines<'_> {
    /// The next line with content and its number; escapes are still in it, a trailing `\` is gone.
    fn next_line(&mut self) -> Option<(usize, String)> {
        loop {
            self.skip_blanks();
            match self.chars.peek()? {
                '\n' | '\r' => self.take_line_end(),
                '#' | '!' => self.skip_comment(),
                _ => {
                    let line = self.line;
                    let text = self.take_content();
                    if !text.is_empty() {
                        return Some((line, text));
                    }
                }
            }
        }
    }

    fn skip_blanks(&mut self) {
        while self.chars.next_if(|&letter| is_blank(letter)).is_some() {}
    }

    fn skip_comment(&mut self) {
        while self.chars.next_if(|&letter| !is_line_end(letter)).is_some() {}
    }

    /// Consumes `\n`, `\r` or `\r\n`.
    fn take_line_end(&mut self) {
        if self.chars.next() == Some('\r') {
            self.chars.next_if_eq(&'\n');
        }
        self.line += 1;
    }

    fn take_content(&mut self) -> String {
        let mut text = String::new();
        while let Some(letter) = self.chars.next_if(|&letter| !is_line_end(letter)) {
            if letter != '\\' {
                text.push(letter);
                continue;
            }
            match self.chars.peek().copied() {
                Some(next) if is_line_end(next) => {
                    self.take_line_end();
                    self.skip_blanks();
                }
                Some(next) => {
                    self.chars.next();
                    text.push('\\');
                    text.push(next);
                }
                None => {}
            }
        }
        text
    }
}

fn is_line_end(letter: char) -> bool {
    matches!(letter, '\n' | '\r')
}

fn is_blank(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\u{c}')
}

/// Splits a logical line at the first unescaped `=`, `:` or blank; blanks around it belong to neither side.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line
        .find(|letter: char| {
            let separates = !escaped && (is_blank(letter) || matches!(letter, '=' | ':'));
            escaped = !escaped && letter == '\\';
            separates
        })
        .unwrap_or(line.len());
    let (key, rest) = line.split_at(end);
    let rest = rest.trim_start_matches(is_blank);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, value.trim_start_matches(is_blank))
}

/// A `\u` without four hexadecimal digits.
struct NotHex;

fn unescape(text: &str) -> Result<String, NotHex> {
    let mut units: Vec<u16> = Vec::new();
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        let letter = if letter == '\\' {
            match letters.next() {
                Some('u') => {
                    units.push(hex_unit(&mut letters)?);
                    continue;
                }
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\u{c}',
                Some(other) => other,
                None => break,
            }
        } else {
            letter
        };
        drain_units(&mut units, &mut out);
        out.push(letter);
    }
    drain_units(&mut units, &mut out);
    Ok(out)
}

/// Reads the four digits after `\u`.
fn hex_unit(letters: &mut std::str::Chars<'_>) -> Result<u16, NotHex> {
    let mut unit: u16 = 0;
    for _ in 0..4 {
        let digit = letters
            .next()
            .and_then(|letter| letter.to_digit(16))
            .ok_or(NotHex)?;
        unit = unit << 4 | u16::try_from(digit).map_err(|_| NotHex)?;
    }
    Ok(unit)
}

/// Appends the UTF-16 units gathered so far: two of them may form one character.
fn drain_units(units: &mut Vec<u16>, out: &mut String) {
    if !units.is_empty() {
        out.push_str(&String::from_utf16_lossy(units));
        units.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Goal: a file means here what it means to Java. Method: the answers of java.util.Properties to odd lines.
    #[test]
    fn as_java_reads_it() {
        fn check(text: &str, expected: &[(&str, &str)]) {
            let parsed = parse(text.as_bytes()).expect("well-formed");
            let pairs: Vec<_> = parsed
                .iter()
                .map(|(k, e)| (k.as_str(), e.value.as_str()))
                .collect();
            assert_eq!(pairs, expected, "{text:?}");
        }
        check("", &[]);
        check("a=b", &[("a", "b")]);
        check("a:b", &[("a", "b")]);
        check("a b", &[("a", "b")]);
        check("a = b", &[("a", "b")]);
        check(" a\t:\tb ", &[("a", "b ")]);
        check("a==b", &[("a", "=b")]);
        check("a=:b", &[("a", ":b")]);
        check("a : = b", &[("a", "= b")]);
        check("a\\=b=c", &[("a=b", "c")]);
        check("a\\ b=c", &[("a b", "c")]);
        check("a\\:b:c", &[("a:b", "c")]);
        check("# c\n! d\na=1", &[("a", "1")]);
        check("#x\\\na=1", &[("a", "1")]);
        check("\\#a=1", &[("#a", "1")]);
        check("a=b # c", &[("a", "b # c")]);
        check("a=x\\\n   y", &[("a", "xy")]);
        check("a=x\\\\\nb=1", &[("a", "x\\"), ("b", "1")]);
        check("a=x\\\n# not a comment", &[("a", "x# not a comment")]);
        check("a=\\\n\n b=1", &[("a", ""), ("b", "1")]);
        check("a\\\n b=1", &[("ab", "1")]);
        check("\\\na=1", &[("a", "1")]);
        check("a=\\u0041\\t\\n\\q", &[("a", "A\t\nq")]);
        check("a=\\ud83d\\ude00", &[("a", "😀")]);
        check("a", &[("a", "")]);
        check("a=", &[("a", "")]);
        check("=b", &[("", "b")]);
        check("a=x\\", &[("a", "x")]);
        check("a=b\\ ", &[("a", "b ")]);
        check("a=1\na=2", &[("a", "2")]);
        check("a\r\nb=1\r\n", &[("a", ""), ("b", "1")]);
        check("a=1\rb=2", &[("a", "1"), ("b", "2")]);
        check("\u{c} a=1", &[("a", "1")]);
        check("log.dirs=/d\u{e9}", &[("log.dirs", "/d\u{e9}")]);
    }

    // Goal: messages can name the place. Method: lines of entries after continuations and comments, and of an error.
    #[test]
    fn line_numbers() {
        let parsed = parse(b"# one\n\na=1\\\n  2\r\nb=3").expect("well-formed");
        assert_eq!(
            parsed["a"],
            Entry {
                value: "12".to_owned(),
                line: 3
            }
        );
        assert_eq!(parsed["b"].line, 5);
        assert_eq!(parse(b"a=1\nb=\\u12g4"), Err(MalformedEscape { line: 2 }));
        assert_eq!(parse(b"a=\\u12"), Err(MalformedEscape { line: 1 }));
    }

    // Goal: bytes that are not UTF-8 are Latin-1. Method: one such byte.
    #[test]
    fn latin1() {
        assert_eq!(parse(b"a=\xe9").expect("well-formed")["a"].value, "é");
    }

    proptest! {
        // Goal: no input panics. Method: random bytes out of the alphabet that matters.
        #[test]
        fn never_panics(file in proptest::collection::vec(
            prop_oneof![Just(b'\\'), Just(b'\n'), Just(b'\r'), Just(b'='), Just(b' '), Just(b'u'), Just(b'#'), any::<u8>()],
            0..200,
        )) {
            drop(parse(&file));
        }

        // Goal: what is written escaped is read back. Method: escape every letter of random keys and values.
        #[test]
        fn escaped_text_survives(key in "\\PC{1,20}", value in "\\PC{0,20}") {
            let escape = |text: &str| {
                let mut buffer = [0; 2];
                text.chars()
                    .flat_map(|letter| letter.encode_utf16(&mut buffer).to_vec())
                    .map(|unit| format!("\\u{unit:04x}"))
                    .collect::<String>()
            };
            let parsed = parse(format!("{}={}", escape(&key), escape(&value)).as_bytes()).expect("well-formed");
            prop_assert_eq!(&parsed[&key].value, &value);
        }
    }
}
