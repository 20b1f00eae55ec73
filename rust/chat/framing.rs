//! What a message costs, in tokens, as it is sent.
//!
//! # The rule
//!
//! It extends the published formula for chat messages (3 for each message, the tokens of every string in it, 1 for a name, 3
//! once for the request) to calls, content lists and media, in the same way for all three formats. `tok(s)` is the token
//! count of one string, each string alone, special-token text as plain text. In Python:
//!
//! ```text
//! request(messages, system) = per_request + sum(message(m) for m in messages)
//!                             + (message({"role": "system", "content": system}) if system is not None)
//!
//! message(m) = per_message + (per_name if m.get("name") is a str) + (per_call if is_call_item(m)) + fields(m)
//! is_call_item(m): Responses items only: m["type"] ends with "_call", or is "mcp_approval_request"
//!
//! fields(o)  = sum(value(key, o.get("type"), v) for key, v in o.items())
//!
//! value(key, type, v):                     # type: that of the object that holds key
//!   str:  string(key, type, v)
//!   dict or list, key in ("arguments", "input"):
//!         tok(json.dumps(v, ensure_ascii=False, separators=(",", ":")))
//!   list: key in ("content", "output", "summary"): sum(part(e) for e in v)
//!         key == "tool_calls":               sum(per_call + value("", "", e) for e in v)
//!         else:                              sum(value("", "", e) for e in v)
//!   dict: key in ("content", "output"):      part(v)
//!         else:                              (per_call if key == "function_call") + fields(v)
//!   int, float, bool, None: 0                # `is_error: true` costs nothing
//!
//! part(e):                                 # an element of a content list
//!   str:  per_part + tok(e)
//!   dict: per_part + (media(e) + tok(title) + tok(context), where these two are str)   if is_media(e)
//!         per_part + (per_call if e["type"] ends with "tool_use") + fields(e)           otherwise
//!   list: per_part + value("", "", e)
//!
//! string(key, type, s):
//!   key in ("name", "text", "content", "thinking", "reasoning", "reasoning_content", "refusal", "output", "arguments",
//!     "input"):                                                                     tok(s)
//!   key in ("encrypted_content", "encrypted_index", "signature", "thought_signature", "thoughtSignature"),
//!     or key == "data" and type in ("redacted_thinking", "reasoning.encrypted"):   ceil(3 * len(utf8(s)) / 16)
//!   key == "b64_json", or key == "result" and type == "image_generation_call":     an image given as base64
//!   s is a data URI ("data:TYPE;base64,DATA"):                                     a medium of that type
//!   else: tok(s)
//! ```
//!
//! So a text message of role, content costs `3 + tok(role) + tok(content)`, and an assistant message with one call `3 +
//! tok(role) [+ tok(content)] + 3 + tok(id) + tok("function") + tok(name) + tok(arguments)`. The defaults are `per_message` 3,
//! `per_name` 1, `per_request` 3, `per_call` 3 and `per_part` 0 (the part's own type is counted like any string: 1 token).
//! An inner list of a content list's element, and what stands under keys that no format knows, is counted alike.
//!
//! # Media
//!
//! `is_media(e)`: the type of e is image, `image_url`, `input_image`, `output_image`, `computer_screenshot` (an image); audio,
//! `input_audio`, `output_audio`, `audio_url`; video, `video_url`, `input_video`; file, `input_file`; or document with a
//! `source` whose type is neither text nor content. Its base64 is never text. With `bytes` = 3/4 of the base64's length
//! in UTF-8, trailing `=` not counted, rounded down:
//!
//! | medium | tokens | unknown |
//! |---|---|---|
//! | image, `OpenAI` ([`ImageRule::Tiles`]) | low detail: 85; else w, h scaled down to fit 2048 x 2048, then to a shorter side of 768, integers rounded down at each step: 85 + 170 x ceil(w/512) x ceil(h/512) | 765 (four tiles) |
//! | image, Anthropic ([`ImageRule::Area`]) | min(ceil(w x h / 750), 4784) | 1600 |
//! | audio | 10 x ceil(bytes / bytes a second, from the WAV header, else 16000) | 300 |
//! | text file (text/..., or JSON, XML, YAML, CSV, JavaScript) | ceil(bytes / 3) | - |
//! | other file | ceil(bytes / 8) | 2000 |
//! | video | ceil(bytes / 1000) | 5000 |
//!
//! Width and height are read from the header of a PNG, GIF, JPEG or WebP. What is given by URL or by id is unknown.

use super::edit::Edit;
use super::media::{Media, MediaKind};
use super::model::{Format, Message, PartKind, Rest};
use super::path::Step;
use crate::Result;
use crate::tokens::Counter;

/// How an image is billed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ImageRule {
    /// `OpenAI`'s: a base and so much for each tile of 512 x 512, after scaling down.
    Tiles {
        /// For any image; all there is at low detail.
        base: u64,
        /// For each tile.
        tile: u64,
        /// For an image of unknown size.
        unknown: u64,
    },
    /// `OpenAI`'s newer small models: patches of 32 x 32 pixels.
    Patches {
        /// At the most.
        most: u64,
        /// For an image of unknown size.
        unknown: u64,
    },
    /// Anthropic's: so many pixels a token.
    Area {
        /// Pixels of one token, at least 1.
        pixels: u64,
        /// At the most: larger images are scaled down.
        most: u64,
        /// For an image of unknown size.
        unknown: u64,
    },
    /// The same for every image.
    Flat(u64),
}

impl ImageRule {
    /// The rule that the provider of `format` publishes.
    #[must_use]
    pub const fn of(format: Format) -> Self {
        match format {
            Format::OpenAi | Format::Responses => Self::Tiles { base: 85, tile: 170, unknown: 765 },
            Format::Anthropic => Self::Area { pixels: 750, most: 4784, unknown: 1600 },
        }
    }

    fn tokens(self, pixels: Option<(u32, u32)>, is_low_detail: bool) -> u64 {
        let size = pixels.map(|(width, height)| (u64::from(width), u64::from(height)));
        match (self, size) {
            (Self::Flat(tokens), _) => tokens,
            (Self::Tiles { base, .. }, _) if is_low_detail => base,
            (Self::Tiles { base, tile, .. }, Some((width, height))) => {
                let (width, height) = shrink(width, height, width.max(height), 2048);
                let (width, height) = shrink(width, height, width.min(height), 768);
                base.saturating_add(tile.saturating_mul(width.div_ceil(512) * height.div_ceil(512)))
            }
            (Self::Patches { most, .. }, Some((width, height))) => (width.div_ceil(32) * height.div_ceil(32)).min(most),
            (Self::Area { pixels, most, .. }, Some((width, height))) => {
                width.saturating_mul(height).div_ceil(pixels.max(1)).min(most)
            }
            (Self::Tiles { unknown, .. } | Self::Patches { unknown, .. } | Self::Area { unknown, .. }, None) => unknown,
        }
    }
}

/// Scale down so that `side` becomes `limit`.
fn shrink(width: u64, height: u64, side: u64, limit: u64) -> (u64, u64) {
    if side <= limit {
        return (width, height);
    }
    ((width * limit / side).max(1), (height * limit / side).max(1))
}

/// What is counted besides the texts. Every figure can be calibrated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Overhead {
    /// For each message.
    pub per_message: u64,
    /// For a message with a name.
    pub per_name: u64,
    /// Once.
    pub per_request: u64,
    /// For each call, besides its strings. No formula is published; projects use 3 to 10.
    pub per_call: u64,
    /// For each element of a content list, besides its strings.
    pub per_part: u64,
    /// For images; none: the rule of the message's format.
    pub image: Option<ImageRule>,
    /// For a second of audio.
    pub per_audio_second: u64,
    /// Of audio whose header does not say.
    pub audio_bytes_per_second: u64,
    /// For audio of unknown size.
    pub audio_unknown: u64,
    /// Of a text file.
    pub text_file_bytes_per_token: u64,
    /// Of any other file.
    pub file_bytes_per_token: u64,
    /// For a file of unknown size.
    pub file_unknown: u64,
    /// Of a video.
    pub video_bytes_per_token: u64,
    /// For a video of unknown size.
    pub video_unknown: u64,
}

/// The names of the figures of an [`Overhead`] but `image`.
const FIGURES: [&str; 13] = [
    "per_message",
    "per_name",
    "per_request",
    "per_call",
    "per_part",
    "per_audio_second",
    "audio_bytes_per_second",
    "audio_unknown",
    "text_file_bytes_per_token",
    "file_bytes_per_token",
    "file_unknown",
    "video_bytes_per_token",
    "video_unknown",
];

impl Default for Overhead {
    fn default() -> Self {
        Self {
            per_message: 3,
            per_name: 1,
            per_request: 3,
            per_call: 3,
            per_part: 0,
            image: None,
            per_audio_second: 10,
            audio_bytes_per_second: 16_000,
            audio_unknown: 300,
            text_file_bytes_per_token: 3,
            file_bytes_per_token: 8,
            file_unknown: 2000,
            video_bytes_per_token: 1000,
            video_unknown: 5000,
        }
    }
}

impl Overhead {
    /// The figure called `name`.
    ///
    /// # Errors
    /// `Error::UnknownName` with the known ones.
    pub fn field(&mut self, name: &str) -> Result<&mut u64> {
        Ok(match name {
            "per_message" => &mut self.per_message,
            "per_name" => &mut self.per_name,
            "per_request" => &mut self.per_request,
            "per_call" => &mut self.per_call,
            "per_part" => &mut self.per_part,
            "per_audio_second" => &mut self.per_audio_second,
            "audio_bytes_per_second" => &mut self.audio_bytes_per_second,
            "audio_unknown" => &mut self.audio_unknown,
            "text_file_bytes_per_token" => &mut self.text_file_bytes_per_token,
            "file_bytes_per_token" => &mut self.file_bytes_per_token,
            "file_unknown" => &mut self.file_unknown,
            "video_bytes_per_token" => &mut self.video_bytes_per_token,
            "video_unknown" => &mut self.video_unknown,
            _ => {
                return Err(crate::Error::UnknownName {
                    what: "overhead figure",
                    name: name.to_owned(),
                    known: FIGURES.iter().map(|name| (*name).to_owned()).collect(),
                });
            }
        })
    }

    /// Tokens of a medium in a message of `format`.
    #[must_use]
    pub fn media(&self, media: &Media, format: Format) -> u64 {
        let by_size =
            |per_token: u64, unknown: u64| media.bytes.map_or(unknown, |bytes| bytes.div_ceil(per_token.max(1)));
        match media.kind {
            MediaKind::Image => {
                self.image.unwrap_or_else(|| ImageRule::of(format)).tokens(media.pixels, media.is_low_detail)
            }
            MediaKind::Audio => media.bytes.map_or(self.audio_unknown, |bytes| {
                let rate = media.bytes_per_second.map_or(self.audio_bytes_per_second, u64::from);
                self.per_audio_second.saturating_mul(bytes.div_ceil(rate.max(1)))
            }),
            MediaKind::TextFile => by_size(self.text_file_bytes_per_token, self.file_unknown),
            MediaKind::File => by_size(self.file_bytes_per_token, self.file_unknown),
            MediaKind::Video => by_size(self.video_bytes_per_token, self.video_unknown),
        }
    }

    fn rest(&self, rest: &Rest, format: Format, counter: &dyn Counter) -> Result<u64> {
        let mut tokens = rest
            .encrypted
            .saturating_add(self.per_part.saturating_mul(rest.parts.into()))
            .saturating_add(self.per_call.saturating_mul(rest.calls.into()));
        for media in &rest.media {
            tokens = tokens.saturating_add(self.media(media, format));
        }
        for string in &rest.strings {
            tokens = tokens.saturating_add(counter.count(string)?);
        }
        Ok(tokens)
    }
}

/// Tokens of a part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PartCost {
    /// Of its text: what a shorter text takes the place of.
    pub text: u64,
    /// Of the rest: what goes only if the part goes.
    pub rest: u64,
}

impl PartCost {
    /// Both.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.text.saturating_add(self.rest)
    }
}

/// Tokens of a message, piece by piece: it costs `base` and the sum of its parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cost {
    /// What goes only if the whole message goes.
    pub base: u64,
    /// One for each part of the message.
    pub parts: Vec<PartCost>,
    /// All of it.
    pub total: u64,
}

impl Cost {
    /// Tokens of the message with `edits` made: what is removed is taken off, a new text is counted in the place of the old.
    ///
    /// Edits are those of the message that this is the cost of; they name parts or texts of parts. Linear in both.
    ///
    /// # Errors
    /// As the counter.
    pub fn edited(&self, message: &Message, edits: &[Edit], counter: &dyn Counter) -> Result<u64> {
        if edits.is_empty() {
            return Ok(self.total);
        }
        let tree = super::edit::EditTree::new(edits);
        let mut total = self.base;
        for (part, cost) in message.parts.iter().zip(&self.parts) {
            let mut here = Some(&tree);
            let mut is_gone = false;
            for step in part.at.steps() {
                here = here.and_then(|tree| tree.inside.get(step));
                is_gone |= here.is_some_and(|tree| tree.is_removed);
            }
            if is_gone {
                continue;
            }
            for key in part.inner.iter().flatten() {
                here = here.and_then(|tree| tree.inside.get(&Step::Key(*key)));
            }
            let text = match here {
                Some(tree) if tree.is_removed => 0,
                Some(super::edit::EditTree { text: Some(text), .. }) => counter.count(text)?,
                _ => cost.text,
            };
            total = total.saturating_add(text).saturating_add(cost.rest);
        }
        Ok(total)
    }
}

/// Tokens of `message`.
///
/// # Errors
/// As the counter.
pub fn cost(message: &Message, counter: &dyn Counter, overhead: &Overhead) -> Result<Cost> {
    let name = if message.is_named { overhead.per_name } else { 0 };
    let rest = overhead.rest(&message.rest, message.format, counter)?;
    let base = overhead.per_message.saturating_add(name).saturating_add(rest);
    let mut total = base;
    let mut parts = Vec::with_capacity(message.parts.len());
    for part in &message.parts {
        let text = match &part.kind {
            PartKind::Media(media) => overhead.media(media, message.format),
            _ if part.text.is_empty() => 0,
            _ => counter.count(&part.text)?,
        };
        let part = PartCost { text, rest: overhead.rest(&part.rest, message.format, counter)? };
        total = total.saturating_add(part.total());
        parts.push(part);
    }
    Ok(Cost { base, parts, total })
}
