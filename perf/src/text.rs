//! Figures for people: three digits, grouped thousands, units.

/// A count, with a thin gap between thousands.
pub(crate) fn count(value: f64) -> String {
    let digits = format!("{:.0}", value.max(0.0));
    let mut out = String::with_capacity(digits.len() * 2);
    for (index, digit) in digits.chars().enumerate() {
        if 0 < index && (digits.len() - index).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// Three digits, more where the value is large.
pub(crate) fn three(value: f64) -> String {
    match value.abs() {
        size if 99.95 <= size => format!("{value:.0}"),
        size if 9.995 <= size => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Microseconds, in the unit that suits.
pub(crate) fn time_us(us: f64) -> String {
    match us {
        us if 999_950.0 <= us => format!("{} s", three(us / 1e6)),
        us if 999.95 <= us => format!("{} ms", three(us / 1e3)),
        us => format!("{} µs", three(us)),
    }
}

/// Bytes a second.
pub(crate) fn bytes_rate(bytes: f64) -> String {
    match bytes {
        bytes if 999.5e6 <= bytes => format!("{} GB/s", three(bytes / 1e9)),
        bytes => format!("{} MB/s", three(bytes / 1e6)),
    }
}

/// Bytes, in binary units.
pub(crate) fn bytes(bytes: f64) -> String {
    match bytes {
        size if 10_485_760.0 <= size => format!("{} MiB", three(size / 1_048_576.0)),
        size if 1_024.0 <= size => format!("{} KiB", three(size / 1_024.0)),
        size => format!("{size:.0} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: figures are short and unmistakable. Method: a table of values about the borders.
    #[test]
    fn figures() {
        assert_eq!(count(0.0), "0");
        assert_eq!(count(999.4), "999");
        assert_eq!(count(1_234_567.0), "1 234 567");
        assert_eq!(three(9.994), "9.99");
        assert_eq!(three(9.996), "10.0");
        assert_eq!(three(1_234.5), "1234");
        assert_eq!(time_us(0.5), "0.50 µs");
        assert_eq!(time_us(999.96), "1.00 ms");
        assert_eq!(time_us(2_500_000.0), "2.50 s");
        assert_eq!(bytes_rate(50e6), "50.0 MB/s");
        assert_eq!(bytes_rate(7.4e9), "7.40 GB/s");
        assert_eq!(bytes(100.0), "100 B");
        assert_eq!(bytes(4_096.0), "4.00 KiB");
        assert_eq!(bytes(33.0 * 1_048_576.0), "33.0 MiB");
    }
}
