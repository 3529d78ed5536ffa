//! Where a consumer begins: `beginning`, `end`, an offset, a number of records before the end, or a time.

use std::str::FromStr;

/// The start of a consumer in each partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// The first record that is kept.
    Beginning,
    /// The next record that is appended.
    End,
    /// This offset.
    Offset(i64),
    /// So many records before the end.
    BeforeEnd(i64),
    /// The first record of this time or later, milliseconds since 1970.
    Timestamp(i64),
}

const FORM: &str = "must be beginning, end, an offset (42), a number of last records (-10), or a time \
    (@1700000000000 in milliseconds, or @2026-01-31T12:00:00Z)";

impl FromStr for Position {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "beginning" => return Ok(Self::Beginning),
            "end" => return Ok(Self::End),
            _ => {}
        }
        if let Some(time) = text.strip_prefix('@') {
            let ms = time
                .parse()
                .ok()
                .filter(|&ms: &i64| ms >= 0)
                .or_else(|| parse_time(time));
            return ms.map(Self::Timestamp).ok_or(FORM);
        }
        if let Some(count) = text.strip_prefix('-') {
            return count
                .parse()
                .ok()
                .filter(|&count: &i64| count >= 0)
                .map(Self::BeforeEnd)
                .ok_or(FORM);
        }
        text.parse().map(Self::Offset).map_err(|_| FORM)
    }
}

/// Reads `YYYY-MM-DD[THH:MM[:SS[.mmm]]][Z]` as UTC.
fn parse_time(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let mut date = date.splitn(3, '-').map(digits);
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let mut time = time.splitn(3, ':');
    let (hour, minute) = (digits(time.next()?)?, digits(time.next()?)?);
    let (second, ms) = match time.next() {
        None => (0, 0),
        Some(seconds) => {
            let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
            let fraction = format!("{fraction:0<3}");
            (digits(whole)?, digits(fraction.get(..3)?)?)
        }
    };
    let is_valid = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_of_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    is_valid.then(|| {
        let days = days_since_1970(year, month, day);
        (((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + ms
    })
}

/// A number of at most four digits and nothing else.
fn digits(text: &str) -> Option<i64> {
    let is_number = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Counts the days before a date that is valid and not before 1970.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let leap_days = |year: i64| year / 4 - year / 100 + year / 400;
    let years = (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969);
    let months: i64 = (1..month).map(|month| days_of_month(year, month)).sum();
    years + months + day - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: every way to begin is understood. Method: a table; times checked against `date -u +%s`.
    #[test]
    fn positions() {
        fn check(text: &str, expected: Option<Position>) {
            assert_eq!(text.parse().ok(), expected, "{text}");
        }
        check("beginning", Some(Position::Beginning));
        check("end", Some(Position::End));
        check("0", Some(Position::Offset(0)));
        check("42", Some(Position::Offset(42)));
        check("-10", Some(Position::BeforeEnd(10)));
        check("@0", Some(Position::Timestamp(0)));
        check(
            "@1700000000000",
            Some(Position::Timestamp(1_700_000_000_000)),
        );
        check("@1970-01-01", Some(Position::Timestamp(0)));
        check(
            "@2000-03-01T00:00:00Z",
            Some(Position::Timestamp(951_868_800_000)),
        );
        check(
            "@2024-02-29T12:34:56.7Z",
            Some(Position::Timestamp(1_709_210_096_700)),
        );
        check(
            "@2026-11-30 10:09",
            Some(Position::Timestamp(1_796_033_340_000)),
        );
        check("@2023-02-29", None);
        check("@2023-13-01", None);
        check("@2023-01-01T24:00", None);
        check("@-5", None);
        check("--5", None);
        check("now", None);
        check("", None);
    }
}
