//! What messages cost, worked out by hand with a token for each word.

use serde_json::{Value, json};

use super::{Words, read};
use crate::chat::framing::{ImageRule, Overhead, cost};
use crate::chat::{Edit, Format, parse_system};

fn tokens(format: Format, message: &Value) -> u64 {
    cost(&read(format, &json!([message]))[0], &Words, &Overhead::default()).expect("words are counted").total
}

/// `bytes` as base64, for headers of images.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for n in 0..=chunk.len() {
            out.push(char::from(ALPHABET[(group >> (18 - 6 * n) & 63) as usize]));
        }
    }
    while !out.len().is_multiple_of(4) {
        out.push('=');
    }
    out
}

fn png(width: u32, height: u32, padding: usize) -> String {
    let mut bytes = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR".to_vec();
    bytes.extend(width.to_be_bytes());
    bytes.extend(height.to_be_bytes());
    bytes.extend(std::iter::repeat_n(7, padding));
    base64(&bytes)
}

#[test]
fn a_plain_message_costs_its_strings_and_three() {
    assert_eq!(tokens(Format::OpenAi, &json!({"role": "user", "content": "two words"})), 3 + 1 + 2);
    assert_eq!(
        tokens(Format::OpenAi, &json!({"role": "user", "content": "two words", "name": "bob"})),
        3 + 1 + 2 + 1 + 1
    );
    assert_eq!(tokens(Format::OpenAi, &json!({"role": "user", "content": null, "name": null})), 3 + 1);
    assert_eq!(
        tokens(Format::OpenAi, &json!({"role": "tool", "tool_call_id": "a", "content": "r", "is_error": true})),
        3 + 1 + 1 + 1
    );
    assert_eq!(
        tokens(
            Format::OpenAi,
            &json!({"role": "user", "content": "x", "meta": {"note": "one two", "n": 3, "l": ["a", null]}})
        ),
        3 + 1 + 1 + 2 + 1
    );
}

#[test]
fn a_part_costs_its_type_and_text() {
    let message = json!({"role": "user", "content": [{"type": "text", "text": "two words"}, "bare"]});
    assert_eq!(tokens(Format::OpenAi, &message), 3 + 1 + (1 + 2) + 1);
    let overhead = Overhead { per_part: 5, ..Overhead::default() };
    let read = &read(Format::OpenAi, &json!([message]))[0];
    assert_eq!(cost(read, &Words, &overhead).expect("counted").total, 3 + 1 + (1 + 2) + 1 + 10);
}

#[test]
fn a22_arguments_are_counted_in_every_format() {
    let arguments = "word ".repeat(5000);
    let call = json!({"id": "a", "type": "function", "function": {"name": "f", "arguments": arguments}});
    assert_eq!(
        tokens(Format::OpenAi, &json!({"role": "assistant", "content": null, "tool_calls": [call]})),
        3 + 1 + 3 + 3 + 5000
    );
    let block = json!({"type": "tool_use", "id": "a", "name": "f", "input": {"x": arguments}});
    assert_eq!(tokens(Format::Anthropic, &json!({"role": "assistant", "content": [block]})), 3 + 1 + 3 + 3 + 5001);
    let item = json!({"type": "function_call", "call_id": "a", "name": "f", "arguments": arguments});
    assert_eq!(tokens(Format::Responses, &item), 3 + 1 + 3 + 3 + 5000);
    let thinking =
        json!({"role": "assistant", "content": [{"type": "thinking", "thinking": arguments, "signature": ""}]});
    assert_eq!(tokens(Format::Anthropic, &thinking), 3 + 1 + 1 + 5000);
}

#[test]
fn a23_arguments_are_counted_unescaped_and_compact() {
    struct Chars;
    impl crate::tokens::Counter for Chars {
        fn count(&self, text: &str) -> crate::Result<u64> {
            Ok(text.chars().count() as u64)
        }
        fn cut(&self, _text: &str, _limit: u64) -> crate::Result<usize> {
            Ok(0)
        }
        fn id(&self) -> u64 {
            1
        }
    }
    let block = json!({"type": "tool_use", "id": "", "name": "", "input": {"a": "配配", "b": [1, 2]}});
    let message = &read(Format::Anthropic, &json!([{"role": "assistant", "content": [block]}]))[0];
    let cost = cost(message, &Chars, &Overhead::default()).expect("counted");
    assert_eq!(cost.parts[0].text, r#"{"a":"配配","b":[1,2]}"#.chars().count() as u64);
}

#[test]
fn a19_base64_is_never_text() {
    let image = png(64, 64, 300_000);
    let uri = format!("data:image/png;base64,{image}");
    let cases = [
        (Format::Responses, json!({"type": "input_image", "image_url": uri}), 255),
        (Format::Responses, json!({"type": "input_image", "image_url": uri, "detail": "low"}), 85),
        (Format::OpenAi, json!({"type": "image_url", "image_url": {"url": uri}}), 255),
        (Format::OpenAi, json!({"type": "image_url", "image_url": {"url": "https://x/y.png"}}), 765),
        (
            Format::Anthropic,
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": image}}),
            6,
        ),
        (Format::OpenAi, json!({"type": "input_audio", "input_audio": {"data": image, "format": "mp3"}}), 190),
        (
            Format::OpenAi,
            json!({"type": "file", "file": {"filename": "a.pdf", "file_data": format!("data:application/pdf;base64,{image}")}}),
            37503,
        ),
        (
            Format::Anthropic,
            json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": image}, "title": "two words"}),
            37503 + 2,
        ),
        (Format::OpenAi, json!({"type": "unheard", "blob": uri}), 255 + 1),
        (Format::OpenAi, json!({"type": "unheard", "b64_json": image}), 255 + 1),
    ];
    for (format, part, expected) in cases {
        let message = json!({"role": "user", "content": [{"type": "text", "text": "x"}, part]});
        assert_eq!(tokens(format, &message), 3 + 1 + 2 + expected, "{:.80}", part.to_string());
    }
    let generated = json!({"type": "image_generation_call", "id": "i", "result": image});
    assert_eq!(tokens(Format::Responses, &generated), 3 + 1 + 1 + 3 + 255);
    let screenshot = json!({"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot", "image_url": uri}});
    assert_eq!(tokens(Format::Responses, &screenshot), 3 + 1 + 1 + 255);
}

#[test]
fn a20_an_image_costs_what_its_size_says() {
    let image = png(1920, 1080, 0);
    let block = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": image}});
    let message = json!({"role": "user", "content": [block]});
    assert_eq!(tokens(Format::Anthropic, &message), 3 + 1 + 2765);
    let overhead = Overhead { image: Some(ImageRule::Flat(9)), ..Overhead::default() };
    let read = &read(Format::Anthropic, &json!([message]))[0];
    assert_eq!(cost(read, &Words, &overhead).expect("counted").total, 3 + 1 + 9);
    let url = json!({"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "https://x/y"}}]});
    assert_eq!(tokens(Format::Anthropic, &url), 3 + 1 + 1600);
}

#[test]
fn image_sizes_are_read_from_every_header() {
    let mut jpeg = b"\xff\xd8\xff\xe1\x00\x12Exif............\xff\xff\xc2\x00\x11\x08".to_vec();
    jpeg.extend([0x04, 0x38, 0x07, 0x80]);
    let mut gif = b"GIF89a".to_vec();
    gif.extend([0x80, 0x07, 0x38, 0x04]);
    let riff = |kind: &[u8], rest: &[u8]| [b"RIFF\0\0\0\0WEBP", kind, b"\0\0\0\0", rest].concat();
    let extended = riff(b"VP8X", &[0, 0, 0, 0, 0x7f, 0x07, 0, 0x37, 0x04, 0]);
    let lossy = riff(b"VP8 ", &[0, 0, 0, 0x9d, 0x01, 0x2a, 0x80, 0x07, 0x38, 0x04]);
    let bits: u32 = (1920 - 1) + ((1080 - 1) << 14);
    let lossless = riff(b"VP8L", &[&[0x2f], &bits.to_le_bytes()[..]].concat());
    for (name, bytes) in [("jpeg", jpeg), ("gif", gif), ("webp x", extended), ("webp", lossy), ("webp l", lossless)] {
        let block = json!({"type": "image", "source": {"type": "base64", "data": base64(&bytes)}});
        assert_eq!(tokens(Format::Anthropic, &json!({"role": "user", "content": [block]})), 3 + 1 + 2765, "{name}");
    }
    for broken in ["", "!!!!", "iVBORw0KGgo", "/9j/", "/9j/4AAQ", "R0lGODlh", "UklGRgAAAABXRUJQVlA4WA"] {
        let block = json!({"type": "image", "source": {"type": "base64", "data": broken}});
        assert_eq!(tokens(Format::Anthropic, &json!({"role": "user", "content": [block]})), 3 + 1 + 1600, "{broken}");
    }
}

#[test]
fn tiles_follow_the_published_examples() {
    let rule = |width, height| {
        let part = json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{}", png(width, height, 0))}});
        tokens(Format::OpenAi, &json!({"role": "user", "content": [part]})) - 4
    };
    assert_eq!(rule(1024, 1024), 765);
    assert_eq!(rule(2048, 4096), 1105);
    assert_eq!(rule(512, 512), 255);
    assert_eq!(rule(u32::MAX, 1), 85 + 170 * 4);
}

#[test]
fn audio_is_billed_by_the_second() {
    let mut wav = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
    wav.extend(24_000_u32.to_le_bytes());
    wav.extend(48_000_u32.to_le_bytes());
    wav.resize(48_000 * 3, 0);
    let part = json!({"type": "input_audio", "input_audio": {"data": base64(&wav), "format": "wav"}});
    assert_eq!(tokens(Format::OpenAi, &json!({"role": "user", "content": [part]})), 3 + 1 + 30);
}

#[test]
fn encrypted_reasoning_is_not_text() {
    let item = json!({"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "A".repeat(1600)});
    assert_eq!(tokens(Format::Responses, &item), 3 + 1 + 1 + 300);
}

#[test]
fn a_system_prompt_costs_as_a_message() {
    let beside = parse_system(&crate::chat::Json::Value(&json!("two words"))).expect("text");
    let beside = cost(&beside, &Words, &Overhead::default()).expect("counted").total;
    assert_eq!(beside, tokens(Format::OpenAi, &json!({"role": "system", "content": "two words"})));
}

#[test]
fn the_cost_of_an_edit_is_the_cost_of_the_edited_message() {
    let message = json!({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "a b c d"}, {"type": "text", "text": "e"}]},
        {"type": "text", "text": "f g h"}, {"type": "text", "text": "i"}]});
    let read = super::read(Format::Anthropic, &json!([message.clone()])).remove(0);
    let full = cost(&read, &Words, &Overhead::default()).expect("counted");
    let text = |n: usize, text: &str| Edit::Text { at: read.parts[n].text_path(), text: text.into() };
    let remove = |n: usize| Edit::Remove { at: read.parts[n].at.clone() };
    for edits in [
        vec![],
        vec![text(1, "a")],
        vec![remove(1)],
        vec![remove(0)],
        vec![text(3, "f"), remove(4), text(2, "")],
        vec![remove(0), text(1, "gone with it")],
    ] {
        let edited = crate::chat::apply(&message, &edits);
        assert_eq!(
            full.edited(&read, &edits, &Words).expect("counted"),
            tokens(Format::Anthropic, &edited),
            "{edited}"
        );
    }
}
