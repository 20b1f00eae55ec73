//! Which encoding a model has.

use super::encodings::NAMES;
use crate::{Error, Result};

/// Starts of model names, the first that matches counts; a fine-tuned model is named "ft:" and its base.
const PREFIXES: [(&str, &str); 22] = [
    ("gpt-oss", "o200k_base"),
    ("gpt-5", "o200k_base"),
    ("gpt-4.5", "o200k_base"),
    ("gpt-4.1", "o200k_base"),
    ("gpt-4o", "o200k_base"),
    ("chatgpt-4o", "o200k_base"),
    ("chatgpt", "o200k_base"),
    ("codex-mini", "o200k_base"),
    ("computer-use-preview", "o200k_base"),
    ("o1", "o200k_base"),
    ("o3", "o200k_base"),
    ("o4", "o200k_base"),
    ("gpt-4", "cl100k_base"),
    ("gpt-3.5", "cl100k_base"),
    ("gpt-35", "cl100k_base"),
    ("davinci-002", "cl100k_base"),
    ("babbage-002", "cl100k_base"),
    ("text-embedding-3-", "cl100k_base"),
    ("text-embedding-ada-002", "cl100k_base"),
    ("gpt-audio", "o200k_base"),
    ("gpt-realtime", "o200k_base"),
    ("gpt-image", "o200k_base"),
];

/// The encoding of a model by `OpenAI`, named as in the API, with or without a provider ("openai/", "azure/") before it.
///
/// # Errors
/// `Error::UnknownName` for a model whose tokenizer is not public or not known here.
pub fn encoding_of_model(name: &str) -> Result<&'static str> {
    let bare = name.rsplit('/').next().unwrap_or(name);
    let bare = bare.strip_prefix("ft:").unwrap_or(bare).to_ascii_lowercase();
    // After its family's name a model's goes on with a separator, or it is of another family.
    let named = |prefix: &str| {
        let rest = bare.strip_prefix(prefix);
        rest.is_some_and(|rest| prefix.ends_with('-') || !rest.starts_with(|next: char| next.is_ascii_alphanumeric()))
    };
    if let Some((_, encoding)) = PREFIXES.iter().find(|(prefix, _)| named(prefix)) {
        return Ok(encoding);
    }
    if let Some(encoding) = NAMES.into_iter().find(|encoding| *encoding == bare) {
        return Ok(encoding);
    }
    let known = PREFIXES.iter().map(|(prefix, _)| format!("{prefix}*")).collect();
    Err(Error::UnknownName { what: "model", name: name.to_owned(), known })
}
