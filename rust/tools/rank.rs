//! What a tool is about, as terms that a query can meet.

use std::cell::RefCell;

use super::formats::Format;
use crate::chat::first_escape;
use crate::relevance::{Terms, TermsBuilder};

/// How often the tool's name counts: it says in two words what the description says in thirty.
const NAME_WEIGHT: u16 = 3;

/// The terms of a tool: its name, its description, and the names, descriptions and enums of its parameters.
///
/// Over 532 tools and 702 queries this found the expected tool more often than name and description alone (.89 against
/// .83 within 1,000 tokens of whole schemas).
pub(super) fn terms(json: &str, format: Format, name: &str) -> Terms {
    let mut terms = BUILDER.take();
    terms.add(name, NAME_WEIGHT);
    let place = if format == Format::OpenAi { Place::Tool } else { Place::Body };
    Walk { json, at: 0, format, terms: &mut terms }.value(place);
    let found = terms.finish();
    BUILDER.set(terms);
    found
}

thread_local! {
    /// It keeps its room from one tool to the next.
    static BUILDER: RefCell<TermsBuilder> = RefCell::default();
}

/// Where in a tool a value stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The tool itself, its body under "function".
    Tool,
    /// What holds name, description and schema.
    Body,
    /// Words for people, or a value of an enum.
    Words,
    Enum,
    /// Schemas by the name of a property, or of a definition.
    Properties,
    Definitions,
    /// A schema, or a list of them.
    Schema,
    /// Nothing of interest.
    Aside,
}

/// Walks the JSON without making a tree of it. It was written here, so there are no spaces in it and no faults.
struct Walk<'a> {
    json: &'a str,
    at: usize,
    format: Format,
    terms: &'a mut TermsBuilder,
}

impl<'a> Walk<'a> {
    /// Where the value of `key`, as it is written, stands in a value at `place`.
    fn under(&self, place: Place, key: &str) -> Place {
        match (place, key) {
            (Place::Tool, "function") => Place::Body,
            (Place::Body, "type") if self.format == Format::Opaque => Place::Words,
            (Place::Body, key) if key == self.format.schema_key().text() => Place::Schema,
            (Place::Body, "description") | (Place::Schema, "description" | "title") => Place::Words,
            (Place::Schema, "enum") => Place::Enum,
            (Place::Schema, "properties") => Place::Properties,
            (Place::Schema, "$defs" | "definitions") => Place::Definitions,
            (Place::Schema, "items" | "additionalProperties" | "anyOf" | "oneOf" | "allOf" | "prefixItems")
            | (Place::Properties | Place::Definitions, _) => Place::Schema,
            _ => Place::Aside,
        }
    }

    /// The next byte; 0 at the end.
    fn next(&self) -> u8 {
        self.json.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    /// Walk the value that starts here, up to its end.
    fn value(&mut self, place: Place) {
        match self.next() {
            b'"' => {
                let text = self.string();
                if place == Place::Words {
                    self.add(text);
                }
            }
            b'{' | b'[' if place == Place::Aside => self.skip(),
            b'{' => self.object(place),
            b'[' => self.list(match place {
                Place::Enum => Place::Words,
                Place::Schema => Place::Schema,
                _ => Place::Aside,
            }),
            _ => {
                while !matches!(self.next(), b',' | b']' | b'}' | 0) {
                    self.at += 1;
                }
            }
        }
    }

    fn object(&mut self, place: Place) {
        self.at += 1;
        while self.next() == b'"' {
            let key = self.string();
            if place == Place::Properties {
                self.add(key);
            }
            // A colon.
            self.at += 1;
            self.value(self.under(place, key));
            self.at += usize::from(self.next() == b',');
        }
        self.at += 1;
    }

    fn list(&mut self, place: Place) {
        self.at += 1;
        while !matches!(self.next(), b']' | 0) {
            self.value(place);
            self.at += usize::from(self.next() == b',');
        }
        self.at += 1;
    }

    /// Go past an object or a list.
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

    /// Go past a string; what is between its quotes, as it is written.
    fn string(&mut self) -> &'a str {
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

    /// Add the terms of a text as it is written in JSON. What is escaped (quotes, backslashes, controls) is in no word and joins
    /// no two, so what stands between is split as it would be together.
    fn add(&mut self, mut text: &str) {
        while let Some(n) = first_escape(text.as_bytes()) {
            self.terms.add(text.get(..n).unwrap_or_default(), 1);
            let is_code = text.as_bytes().get(n + 1) == Some(&b'u');
            text = text.get(n + if is_code { ESCAPE_BY_CODE } else { ESCAPE }..).unwrap_or_default();
        }
        self.terms.add(text, 1);
    }
}

/// Bytes of `\n` and its kind, and of `\u001f`.
const ESCAPE: usize = 2;
const ESCAPE_BY_CODE: usize = 6;
