//! A source file, and the same text with everything blanked that is not code.
//!
//! Not a parser: a scanner for comments, strings, raw strings, characters and lifetimes, enough for rules about tokens.

/// One file of the tree.
#[derive(Clone, Debug)]
pub(crate) struct File {
    /// Path from the root, with slashes.
    pub(crate) path: String,
    /// The text as it is.
    pub(crate) text: String,
    /// The text with comments and literals turned into spaces; lines stay where they are.
    pub(crate) code: String,
}

impl File {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned(), code: blank(text) }
    }

    pub(crate) fn is_below(&self, folder: &str) -> bool {
        self.path.starts_with(folder)
    }

    /// Lines (from 1) on which `word` stands alone as a token.
    pub(crate) fn lines_with(&self, word: &str) -> Vec<usize> {
        let lines = self.code.lines().enumerate();
        lines.filter(|(_, line)| has_word(line, word)).map(|(number, _)| number + 1).collect()
    }
}

/// Whether `word` occurs in `line` and is not part of a longer identifier.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let inner_start = word.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let inner_end = word.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !(inner_start && part(before) || inner_end && part(after))
    })
}

fn blank(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_end(&chars, at);
        if end == at {
            out.push(chars[at]);
            at += 1;
        } else {
            out.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    out
}

/// The end of the comment or literal that starts at `at`, or `at` if none does.
fn literal_end(chars: &[char], at: usize) -> usize {
    let starts = |text: &str| text.chars().enumerate().all(|(i, c)| chars.get(at + i) == Some(&c));
    let after_name = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    if starts("//") {
        return (at..chars.len()).find(|i| chars[*i] == '\n').unwrap_or(chars.len());
    }
    if starts("/*") {
        return block_end(chars, at);
    }
    if !after_name && (starts("r\"") || starts("r#") || starts("br\"") || starts("br#")) {
        return raw_end(chars, at).unwrap_or(at);
    }
    if chars[at] == '"' {
        return quoted_end(chars, at, '"');
    }
    // 'x' and '\n' are characters; 'a is a lifetime.
    let is_char = chars.get(at + 1) == Some(&'\\') || chars.get(at + 2) == Some(&'\'');
    if chars[at] == '\'' && is_char { quoted_end(chars, at, '\'') } else { at }
}

fn block_end(chars: &[char], at: usize) -> usize {
    let mut depth = 0;
    let mut i = at;
    while i < chars.len() {
        match (chars[i], chars.get(i + 1)) {
            ('/', Some('*')) => {
                depth += 1;
                i += 2;
            }
            ('*', Some('/')) => {
                depth -= 1;
                i += 2;
                if depth == 0 {
                    return i;
                }
            }
            _ => i += 1,
        }
    }
    i
}

/// The end of a raw string, or `None` for a raw identifier.
fn raw_end(chars: &[char], at: usize) -> Option<usize> {
    let r = (at..at + 2).find(|i| chars[*i] == 'r')?;
    let hashes = chars[r + 1..].iter().take_while(|c| **c == '#').count();
    let open = r + 1 + hashes;
    if chars.get(open) != Some(&'"') {
        return None;
    }
    let closes = |i: usize| {
        chars[i] == '"' && (1..=hashes).all(|offset| chars.get(i + offset) == Some(&'#'))
    };
    Some((open + 1..chars.len()).find(|i| closes(*i)).map_or(chars.len(), |i| i + 1 + hashes))
}

fn quoted_end(chars: &[char], at: usize, quote: char) -> usize {
    let mut i = at + 1;
    while i < chars.len() {
        match chars[i] {
            '\\' => i += 2,
            c if c == quote => return i + 1,
            _ => i += 1,
        }
    }
    chars.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_is_left() {
        let check = |text: &str, expected: &str| {
            let words: Vec<String> = blank(text).split_whitespace().map(str::to_owned).collect();
            assert_eq!(words.join(" "), expected, "{text}");
        };
        check("a // b\nc", "a c");
        check("a /* b /* c */ d */ e", "a e");
        check(r#"a "b \" c" d"#, "a d");
        check(r###"a r#"b " c"# d"###, "a d");
        check("a br\"b\\\" c", "a c");
        check("a 'b' '\\'' c<'d>", "a c<'d>");
        check("r#type x", "r#type x");
        check("for_r\"x\" y", "for_r y");
    }

    #[test]
    fn words_stand_alone() {
        assert!(has_word("use std::fs;", "std::fs"));
        assert!(!has_word("use std::fs_like;", "std::fs"));
        assert!(!has_word("my_unsafe_thing", "unsafe"));
        assert!(has_word("x.await;", ".await"));
    }
}
