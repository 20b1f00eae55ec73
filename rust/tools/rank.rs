//! What a tool is about, as terms that a query can meet.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;

use serde_core::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::formats::Format;
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
    let walk = Walk { terms: &mut terms, format, place };
    // Our own JSON, so there is no error; if there were, the terms up to it would stand.
    let _ = walk.deserialize(&mut serde_json::Deserializer::from_str(json));
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

/// Walks the JSON without making a tree of it.
struct Walk<'a> {
    terms: &'a mut TermsBuilder,
    format: Format,
    place: Place,
}

impl Walk<'_> {
    fn at(&mut self, place: Place) -> Walk<'_> {
        Walk { terms: self.terms, format: self.format, place }
    }

    /// Where the value of `key` stands.
    fn under(&self, key: &str) -> Place {
        match (self.place, key) {
            (Place::Tool, "function") => Place::Body,
            (Place::Body, "type") if self.format == Format::Opaque => Place::Words,
            (Place::Body, key) if key == self.format.schema_key() => Place::Schema,
            (Place::Body, "description") | (Place::Schema, "description" | "title") => Place::Words,
            (Place::Schema, "enum") => Place::Enum,
            (Place::Schema, "properties") => Place::Properties,
            (Place::Schema, "$defs" | "definitions") => Place::Definitions,
            (Place::Schema, "items" | "additionalProperties" | "anyOf" | "oneOf" | "allOf" | "prefixItems")
            | (Place::Properties | Place::Definitions, _) => Place::Schema,
            _ => Place::Aside,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        if self.place == Place::Aside {
            json.deserialize_ignored_any(IgnoredAny).map(drop)
        } else {
            json.deserialize_any(self)
        }
    }
}

/// The key of the object that stands for a number, so that its digits are kept.
const NUMBER: &str = "$serde_json::private::Number";

/// Everything that is no text, list or object counts as nothing.
impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        if self.place == Place::Words {
            self.terms.add(text, 1);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        let inner = match self.place {
            Place::Enum => Place::Words,
            Place::Schema => Place::Schema,
            _ => Place::Aside,
        };
        while list.next_element_seed(self.at(inner))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        while let Some(key) = entries.next_key::<Key<'de>>()? {
            let inner = self.under(&key.0);
            if self.place == Place::Properties && key.0 != NUMBER {
                self.terms.add(&key.0, 1);
            }
            entries.next_value_seed(self.at(inner))?;
        }
        Ok(())
    }
}

/// A key, borrowed where the JSON has it without escapes.
struct Key<'a>(Cow<'a, str>);

impl<'de> serde_core::Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a key")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }
        json.deserialize_str(Text)
    }
}
