//! Images, recordings and files: what their cost depends on, read from their headers. The base64 itself is never text.

use super::node::{Key, Kind, Node};

/// What kind of medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MediaKind {
    /// A picture.
    Image,
    /// Sound.
    Audio,
    /// Moving pictures.
    Video,
    /// A document in a binary format, such as PDF.
    File,
    /// A document that is text, such as CSV.
    TextFile,
}

/// The facts that a cost rule needs. None: not known from what is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Media {
    /// What it is.
    pub kind: MediaKind,
    /// Width and height in pixels, from the header of a PNG, JPEG, GIF or WebP.
    pub pixels: Option<(u32, u32)>,
    /// Whether the request asks for low detail.
    pub is_low_detail: bool,
    /// Size in bytes, decoded.
    pub bytes: Option<u64>,
    /// Bytes of one second, from the header of a WAV.
    pub bytes_per_second: Option<u32>,
}

/// Where a part may hold its data, first found first used.
const HOLDERS: [Key; 14] = [
    Key::ImageUrl,
    Key::Source,
    Key::InputAudio,
    Key::Audio,
    Key::File,
    Key::VideoUrl,
    Key::InputVideo,
    Key::Video,
    Key::Image,
    Key::AudioUrl,
    Key::Data,
    Key::Base64,
    Key::FileData,
    Key::Url,
];
const PAYLOADS: [Key; 4] = [Key::Data, Key::Base64, Key::FileData, Key::Url];
const MIMES: [Key; 4] = [Key::MediaType, Key::MimeType, Key::MimeTypeCamel, Key::Format];

impl Media {
    fn unknown(kind: MediaKind) -> Self {
        Self { kind, pixels: None, is_low_detail: false, bytes: None, bytes_per_second: None }
    }

    /// The medium that a part of a content list is, if it is one.
    pub(crate) fn of_part<N: Node>(kind: &str, part: &N) -> Option<Self> {
        let kind = match kind {
            "image" | "image_url" | "input_image" | "output_image" | "computer_screenshot" => MediaKind::Image,
            "audio" | "input_audio" | "output_audio" | "audio_url" => MediaKind::Audio,
            "video" | "video_url" | "input_video" => MediaKind::Video,
            "file" | "input_file" => MediaKind::File,
            "document" => {
                let source = part.given(Key::Source)?;
                if matches!(source.text_at(Key::Type).as_deref(), Some("text" | "content")) {
                    return None;
                }
                MediaKind::File
            }
            _ => return None,
        };
        let mut media = Self::unknown(kind);
        for holder in HOLDERS {
            let Some(held) = part.given(holder) else { continue };
            match held.kind() {
                Kind::Text => media.read(holder, part, &held),
                Kind::Object => {
                    media.is_low_detail |= is_low(&held);
                    if let Some((key, payload)) =
                        PAYLOADS.iter().find_map(|key| held.given(*key).map(|node| (*key, node)))
                    {
                        media.read(key, &held, &payload);
                    }
                }
                _ => continue,
            }
            break;
        }
        media.is_low_detail |= is_low(part);
        Some(media)
    }

    fn read<N: Node>(&mut self, key: Key, holder: &N, payload: &N) {
        let Some(text) = payload.text() else { return };
        if let Some((mime, data)) = data_uri(&text) {
            self.learn(mime, data);
        } else if matches!(key, Key::Data | Key::Base64 | Key::FileData) && !is_url(&text) {
            let mime = MIMES.iter().find_map(|key| holder.text_at(*key)).unwrap_or_default();
            self.learn(&mime, &text);
        }
    }

    /// The medium behind a data URI, if `text` is one.
    pub(crate) fn of_data_uri(text: &str) -> Option<Self> {
        let (mime, data) = data_uri(text)?;
        let kind = match mime.split('/').next() {
            Some("image") => MediaKind::Image,
            Some("audio") => MediaKind::Audio,
            Some("video") => MediaKind::Video,
            _ => MediaKind::File,
        };
        let mut media = Self::unknown(kind);
        media.learn(mime, data);
        Some(media)
    }

    /// An image given as bare base64.
    pub(crate) fn of_base64_image(data: &str) -> Self {
        let mut media = Self::unknown(MediaKind::Image);
        media.learn("", data);
        media
    }

    fn learn(&mut self, mime: &str, data: &str) {
        let data = Base64::new(data);
        self.bytes = Some(data.len());
        match self.kind {
            MediaKind::Image => self.pixels = pixels(&data),
            MediaKind::Audio => self.bytes_per_second = wav_rate(&data),
            MediaKind::File if is_textual(mime) => self.kind = MediaKind::TextFile,
            _ => {}
        }
    }
}

fn is_low<N: Node>(node: &N) -> bool {
    node.given(Key::Detail).is_some_and(|detail| detail.text().as_deref() == Some("low"))
}

fn is_url(text: &str) -> bool {
    text.get(..16).unwrap_or(text).contains("://")
}

fn is_textual(mime: &str) -> bool {
    mime.starts_with("text/")
        || ["json", "xml", "yaml", "csv", "javascript"]
            .iter()
            .any(|word| mime.split(';').next().unwrap_or(mime).ends_with(word))
}

/// The type and the base64 of `data:TYPE;base64,DATA`, the comma within the first 256 bytes.
fn data_uri(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("data:")?;
    let comma = rest.bytes().take(256).position(|byte| byte == b',')?;
    let head = rest.get(..comma)?.strip_suffix(";base64")?;
    Some((head.split(';').next().unwrap_or(head), rest.get(comma + 1..)?))
}

/// Bytes of a base64 text at any place, without decoding the rest of it.
struct Base64<'a>(&'a [u8]);

impl<'a> Base64<'a> {
    fn new(text: &'a str) -> Self {
        Self(text.trim_end_matches('=').as_bytes())
    }

    fn len(&self) -> u64 {
        self.0.len() as u64 * 3 / 4
    }

    fn byte(&self, at: usize) -> Option<u8> {
        let first = at.checked_mul(4)? / 3;
        let high = sextet(*self.0.get(first)?)?;
        let low = sextet(*self.0.get(first + 1)?)?;
        Some(match at % 3 {
            0 => high << 2 | low >> 4,
            1 => high << 4 | low >> 2,
            _ => high << 6 | low,
        })
    }

    fn big16(&self, at: usize) -> Option<u32> {
        Some(u32::from(self.byte(at)?) << 8 | u32::from(self.byte(at + 1)?))
    }

    fn little(&self, at: usize, n_bytes: usize) -> Option<u32> {
        (0..n_bytes).rev().try_fold(0, |sum, n| Some(sum << 8 | u32::from(self.byte(at + n)?)))
    }

    fn has(&self, at: usize, bytes: &[u8]) -> bool {
        bytes.iter().enumerate().all(|(n, byte)| self.byte(at + n) == Some(*byte))
    }
}

const fn sextet(char: u8) -> Option<u8> {
    Some(match char {
        b'A'..=b'Z' => char - b'A',
        b'a'..=b'z' => char - b'a' + 26,
        b'0'..=b'9' => char - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    })
}

fn pixels(data: &Base64<'_>) -> Option<(u32, u32)> {
    let size = if data.has(0, b"\x89PNG\r\n\x1a\n") {
        (data.big16(16)? << 16 | data.big16(18)?, data.big16(20)? << 16 | data.big16(22)?)
    } else if data.has(0, b"GIF8") {
        (data.little(6, 2)?, data.little(8, 2)?)
    } else if data.has(0, b"RIFF") && data.has(8, b"WEBP") {
        webp(data)?
    } else if data.has(0, b"\xff\xd8") {
        jpeg(data)?
    } else {
        return None;
    };
    (size.0 > 0 && size.1 > 0).then_some(size)
}

fn webp(data: &Base64<'_>) -> Option<(u32, u32)> {
    if data.has(12, b"VP8X") {
        return Some((data.little(24, 3)? + 1, data.little(27, 3)? + 1));
    }
    if data.has(12, b"VP8L") {
        let bits = data.little(21, 4)?;
        return Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1));
    }
    if data.has(12, b"VP8 ") {
        return Some((data.little(26, 2)? & 0x3fff, data.little(28, 2)? & 0x3fff));
    }
    None
}

/// Walk the segments to the frame header: an EXIF block before it can be long, so it is stepped over, not read.
fn jpeg(data: &Base64<'_>) -> Option<(u32, u32)> {
    let mut at = 2;
    for _ in 0..256 {
        if data.byte(at)? != 0xff {
            return None;
        }
        match data.byte(at + 1)? {
            0xff => at += 1,
            0x01 | 0xd0..=0xd7 => at += 2,
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                return Some((data.big16(at + 7)?, data.big16(at + 5)?));
            }
            _ => at += 2 + data.big16(at + 2)? as usize,
        }
    }
    None
}

fn wav_rate(data: &Base64<'_>) -> Option<u32> {
    let is_wav = data.has(0, b"RIFF") && data.has(8, b"WAVE") && data.has(12, b"fmt ");
    if is_wav { data.little(28, 4).filter(|rate| *rate > 0) } else { None }
}
