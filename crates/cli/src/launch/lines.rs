//! Cuts a stream of bytes into lines.

/// Bytes that have come, and are no line yet.
pub(super) struct Lines {
    rest: Vec<u8>,
    /// A longer line is cut into parts.
    limit: usize,
    /// Whether the last part was cut, so that an end of line right after it ends no line of its own.
    cut: bool,
}

impl Lines {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            rest: Vec::new(),
            limit,
            cut: false,
        }
    }

    /// Takes what came; calls `emit` for each line, without its end.
    pub(super) fn feed(&mut self, bytes: &[u8], emit: &mut impl FnMut(&[u8])) {
        let mut pieces = bytes.split(|&byte| byte == b'\n');
        // What follows the last end of line is none yet; there is always a last piece.
        let open = pieces.next_back().unwrap_or_default();
        for piece in pieces {
            self.add(piece, emit);
            if !(self.rest.is_empty() && self.cut) {
                emit(&self.rest);
            }
            self.rest.clear();
            self.cut = false;
        }
        self.add(open, emit);
    }

    /// The stream is over: what is left is a line, too.
    pub(super) fn finish(&mut self, emit: &mut impl FnMut(&[u8])) {
        if !self.rest.is_empty() {
            emit(&self.rest);
            self.rest.clear();
        }
    }

    fn add(&mut self, mut piece: &[u8], emit: &mut impl FnMut(&[u8])) {
        loop {
            let (part, more) = piece.split_at(piece.len().min(self.limit - self.rest.len()));
            self.rest.extend_from_slice(part);
            if self.rest.len() < self.limit {
                return;
            }
            emit(&self.rest);
            self.rest.clear();
            self.cut = true;
            piece = more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(parts: &[&str]) -> Vec<String> {
        let (mut lines, mut got) = (Lines::new(4), Vec::new());
        let mut emit = |line: &[u8]| got.push(String::from_utf8(line.to_vec()).unwrap());
        for part in parts {
            lines.feed(part.as_bytes(), &mut emit);
        }
        lines.finish(&mut emit);
        got
    }

    #[test]
    fn lines_are_whole_however_they_come() {
        let (text, expected) = ("a\n\nbc\nd", ["a", "", "bc", "d"]);
        assert_eq!(lines(&[text]), expected);
        let bytes: Vec<_> = text.split_inclusive(|_| true).collect();
        assert_eq!(lines(&bytes), expected);
        assert!(lines(&[""]).is_empty());
    }

    #[test]
    fn long_lines_are_cut() {
        assert_eq!(lines(&["abcdefghij\nk"]), ["abcd", "efgh", "ij", "k"]);
        assert_eq!(lines(&["abcd", "\n", "\nx"]), ["abcd", "", "x"]);
        assert_eq!(lines(&["abcdefgh\n"]), ["abcd", "efgh"]);
    }
}
