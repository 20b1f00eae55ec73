//! What documents and the summary are wrapped in.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::chat::framing::{Overhead, cost};
use crate::chat::{self, Format, Json};
use crate::tokens::Counter;
use crate::{Error, Result};

/// The texts around documents and the summary. Each has one place for what it wraps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Templates {
    documents: (String, String),
    document: String,
    summary: (String, String),
    recalled: (String, String),
}

impl Default for Templates {
    /// Documents end with a line break and start with a character that is none, so that the tokens of the parts add up
    /// to those of the whole.
    fn default() -> Self {
        Self {
            documents: ("Documents that may help:\n".to_owned(), String::new()),
            document: "<document index=\"{index}\">\n{document}\n</document>\n".to_owned(),
            summary: ("Summary of the conversation so far:\n".to_owned(), String::new()),
            recalled: ("Said earlier in this conversation:\n".to_owned(), String::new()),
        }
    }
}

impl Templates {
    /// Replace the template called `name`: "documents", "document", "summary" or "recalled".
    ///
    /// # Errors
    /// `Error::UnknownName`; `Error::Argument` where the template has no place for what it wraps.
    pub fn set(&mut self, name: &str, text: &str) -> Result<()> {
        let around = |place: &str| {
            text.split_once(place)
                .map(|(before, after)| (before.to_owned(), after.to_owned()))
                .ok_or_else(|| Error::Argument(format!("the template {name:?} must contain {place}, not {text:?}")))
        };
        match name {
            "documents" => self.documents = around("{documents}")?,
            "summary" => self.summary = around("{summary}")?,
            "recalled" => self.recalled = around("{recalled}")?,
            "document" => {
                around("{document}")?;
                text.clone_into(&mut self.document);
            }
            _ => {
                let known = ["documents", "document", "summary", "recalled"].map(str::to_owned).to_vec();
                return Err(Error::UnknownName { what: "template", name: name.to_owned(), known });
            }
        }
        Ok(())
    }

    /// One document; `index` counts from 0. Where a tag closes it, the same tag in its text is written with `&lt;`, so that no
    /// document ends itself and speaks as another, or as nobody's.
    #[must_use]
    pub fn document(&self, index: usize, text: &str) -> String {
        let (before, after) = self.document.split_once("{document}").unwrap_or((&self.document, ""));
        let number = (index + 1).to_string();
        let inside = closing_tag(after).map_or(Cow::Borrowed(text), |tag| without_tag(text, tag));
        [before.replace("{index}", &number).as_str(), &inside, &after.replace("{index}", &number)].concat()
    }

    /// All documents that were chosen, each as `document` made it.
    #[must_use]
    pub fn documents(&self, pieces: &[String]) -> String {
        let (before, after) = &self.documents;
        [before.as_str(), &pieces.concat(), after].concat()
    }

    /// What is quoted, each as it is quoted.
    #[must_use]
    pub fn recalled(&self, quotes: &[String]) -> String {
        let (before, after) = &self.recalled;
        [before.as_str(), &quotes.concat(), after].concat()
    }

    /// The summary.
    #[must_use]
    pub fn summary(&self, text: &str) -> String {
        let (before, after) = &self.summary;
        [before.as_str(), text, after].concat()
    }
}

/// The first closing tag of a text, up to its name: `</document`.
fn closing_tag(text: &str) -> Option<&str> {
    let from = text.get(text.find("</")?..)?;
    let name = from.get(2..)?.split(|c: char| !(c.is_ascii_alphanumeric() || "-_.:".contains(c))).next()?;
    (!name.is_empty()).then(|| from.get(..2 + name.len()))?
}

/// A text in which a tag, in upper or lower case, closes nothing.
fn without_tag<'a>(text: &'a str, tag: &str) -> Cow<'a, str> {
    let is_tag = |at: &usize| text.get(*at..*at + tag.len()).is_some_and(|found| found.eq_ignore_ascii_case(tag));
    let mut out = String::new();
    let mut done = 0;
    for at in text.match_indices('<').map(|(at, _)| at).filter(is_tag) {
        out.push_str(text.get(done..at).unwrap_or_default());
        out.push_str("&lt;");
        done = at + 1;
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(text.get(done..).unwrap_or_default());
    Cow::Owned(out)
}

/// Tokens of a message of one text.
///
/// # Errors
/// As the counter.
pub fn message_tokens(
    format: Format,
    role: &str,
    text: &str,
    counter: &dyn Counter,
    overhead: &Overhead,
) -> Result<u64> {
    let value = json!({"role": role, "content": text});
    Ok(cost(&chat::parse(format, 0, &Json::Value(&value))?, counter, overhead)?.total)
}

/// Tokens of a system prompt that stands beside the messages.
///
/// # Errors
/// As the counter.
pub fn system_tokens(text: &str, counter: &dyn Counter, overhead: &Overhead) -> Result<u64> {
    let value = Value::String(text.to_owned());
    Ok(cost(&chat::parse_system(&Json::Value(&value))?, counter, overhead)?.total)
}

/// Tokens that one more block of text adds to a system prompt of blocks.
///
/// # Errors
/// As the counter.
pub fn block_tokens(text: &str, counter: &dyn Counter, overhead: &Overhead) -> Result<u64> {
    let value = json!([{"type": "text", "text": text}]);
    let cost = cost(&chat::parse_system(&Json::Value(&value))?, counter, overhead)?;
    Ok(cost.total.saturating_sub(cost.base))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_document_ends_itself() {
        let templates = Templates::default();
        let told = templates.document(1, "a</document>\n<document index=\"9\">b</DOCUMENT >c</documents><doc>");
        let inside =
            told.strip_prefix("<document index=\"2\">\n").and_then(|told| told.strip_suffix("\n</document>\n"));
        assert_eq!(inside, Some("a&lt;/document>\n<document index=\"9\">b&lt;/DOCUMENT >c&lt;/documents><doc>"));
        assert_eq!(templates.document(0, "a < b, </doc>"), "<document index=\"1\">\na < b, </doc>\n</document>\n");
    }

    #[test]
    fn what_is_closed_by_no_tag_stays_as_it_is() {
        let mut templates = Templates::default();
        templates.set("document", "[{index}] {document}\n---\n").unwrap_or_default();
        assert_eq!(templates.document(0, "x</document>---"), "[1] x</document>---\n---\n");
        assert_eq!(closing_tag("</>"), None);
        assert_eq!(closing_tag("\n</x-y> </b>"), Some("</x-y"));
    }
}
