//! Records as text: how a line of stdin becomes a record, how a record becomes text on stdout, and where to begin.

pub(crate) mod input;
pub(crate) mod position;
pub(crate) mod template;

/// Resolves `\t`, `\n`, `\r`, `\0`, `\\` and `\xHH` in what a user typed; `None` for any other escape.
pub(crate) fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match bytes.next()? {
            b't' => b'\t',
            b'n' => b'\n',
            b'r' => b'\r',
            b'0' => 0,
            b'\\' => b'\\',
            b'x' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                u8::try_from(high << 4 | low).ok()?
            }
            _ => return None,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: separators that a shell cannot type can be given. Method: a table.
    #[test]
    fn escapes() {
        fn check(text: &str, expected: Option<&[u8]>) {
            assert_eq!(unescape(text).as_deref(), expected, "{text}");
        }
        check("a:b", Some(b"a:b"));
        check("\\t\\n\\r\\0\\\\", Some(b"\t\n\r\0\\"));
        check("\\x1fé", Some("\u{1f}é".as_bytes()));
        check("\\x1", None);
        check("\\q", None);
        check("\\", None);
    }
}
