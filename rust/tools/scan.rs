//! Reading JSON that was written here, so that there are no spaces in it and no faults, without making a tree of it.

use crate::chat::first_escape;

/// Bytes of `\n` and its kind.
const ESCAPE: usize = 2;

/// A place in JSON.
pub(super) struct Scan<'a> {
    json: &'a str,
    at: usize,
}

impl<'a> Scan<'a> {
    /// At the start of `json`.
    pub(super) const fn new(json: &'a str) -> Self {
        Self { json, at: 0 }
    }

    /// The next byte; 0 at the end.
    #[inline]
    pub(super) fn next(&self) -> u8 {
        self.json.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    /// Go into the object or the list that starts here.
    pub(super) fn enter(&mut self) {
        self.at += 1;
    }

    /// The key of the next entry of the object that this is in, as it is written, and go to its value; `None`, and out of the
    /// object, at its end.
    #[inline]
    pub(super) fn key(&mut self) -> Option<&'a str> {
        self.at += usize::from(self.next() == b',');
        if self.next() != b'"' {
            self.at += 1;
            return None;
        }
        let key = self.string();
        // A colon.
        self.at += 1;
        Some(key)
    }

    /// Whether an element of the list that this is in starts here; out of the list at its end.
    #[inline]
    pub(super) fn element(&mut self) -> bool {
        self.at += usize::from(self.next() == b',');
        if matches!(self.next(), b']' | 0) {
            self.at += 1;
            return false;
        }
        true
    }

    /// Go past a string; what is between its quotes, as it is written.
    #[inline]
    pub(super) fn string(&mut self) -> &'a str {
        let json = self.json;
        let rest = json.get(self.at + 1..).unwrap_or_default();
        let mut n = 0;
        while let Some(plain) = first_escape(rest.as_bytes().get(n..).unwrap_or_default()) {
            n += plain;
            if rest.as_bytes().get(n) == Some(&b'"') {
                break;
            }
            n += ESCAPE;
        }
        self.at += n + 2;
        rest.get(..n).unwrap_or_default()
    }

    /// Go past a value; how it is written.
    pub(super) fn value(&mut self) -> &'a str {
        let start = self.at;
        match self.next() {
            b'"' => _ = self.string(),
            b'{' | b'[' => self.skip(),
            _ => {
                while !matches!(self.next(), b',' | b']' | b'}' | 0) {
                    self.at += 1;
                }
            }
        }
        self.json.get(start..self.at).unwrap_or_default()
    }

    fn skip(&mut self) {
        let mut depth = 0_usize;
        loop {
            match self.next() {
                0 => return,
                b'"' => {
                    self.string();
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }
}
