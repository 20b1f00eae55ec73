use proptest::prelude::*;

use super::ascii::is_ascii;
use super::decode::{Fault, Reader, Token};
use super::encode;
use super::skip;
use crate::Error;

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

/// The first bytes of each width in the specification.
#[test]
fn integers_take_their_shortest_form() {
    let rows: &[(i64, &[u8])] = &[
        (0, &[0x00]),
        (127, &[0x7f]),
        (128, &[0xcc, 0x80]),
        (255, &[0xcc, 0xff]),
        (256, &[0xcd, 0x01, 0x00]),
        (65_535, &[0xcd, 0xff, 0xff]),
        (65_536, &[0xce, 0x00, 0x01, 0x00, 0x00]),
        (4_294_967_295, &[0xce, 0xff, 0xff, 0xff, 0xff]),
        (4_294_967_296, &[0xcf, 0, 0, 0, 1, 0, 0, 0, 0]),
        (-1, &[0xff]),
        (-32, &[0xe0]),
        (-33, &[0xd0, 0xdf]),
        (-128, &[0xd0, 0x80]),
        (-129, &[0xd1, 0xff, 0x7f]),
        (-32_768, &[0xd1, 0x80, 0x00]),
        (-32_769, &[0xd2, 0xff, 0xff, 0x7f, 0xff]),
        (-2_147_483_648, &[0xd2, 0x80, 0, 0, 0]),
        (-2_147_483_649, &[0xd3, 0xff, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]),
    ];
    for (value, expected) in rows {
        assert_eq!(written(|out| encode::int(out, *value)), *expected, "{value}");
    }
}

#[test]
fn an_extension_of_1_2_4_8_or_16_bytes_has_a_fixed_header() {
    for (n, expected) in
        [(1, 0xd4), (2, 0xd5), (4, 0xd6), (8, 0xd7), (16, 0xd8), (3, 0xc7), (256, 0xc8), (65_536, 0xc9)]
    {
        let bytes = written(|out| assert_eq!(encode::ext(out, -5, n), Ok(())));
        assert_eq!(bytes.first(), Some(&expected), "{n}");
    }
}

/// Whether the error lies within the document.
fn within(reader: &Reader<'_>, fault: Fault, len: usize) -> bool {
    matches!(reader.error(fault), Error::Decode { offset, .. } if offset <= len)
}

fn is_error(data: &[u8]) -> bool {
    let mut reader = Reader::new(data, 0);
    while reader.left() > 0 {
        match reader.token() {
            Ok(_) => {}
            Err(fault) => return within(&reader, fault, data.len()),
        }
    }
    false
}

#[test]
fn a_length_beyond_what_is_left_is_refused_before_anything_is_made_of_it() {
    let rows: &[&[u8]] = &[
        &[0xdd, 0xff, 0xff, 0xff, 0xff],
        &[0xdf, 0xff, 0xff, 0xff, 0xff, 0x00],
        &[0xdb, 0xff, 0xff, 0xff, 0xff, b'a'],
        &[0xc6, 0x7f, 0xff, 0xff, 0xff],
        &[0xc9, 0x00, 0x00, 0x00, 0x02, 0x01, 0x00],
        &[0x92, 0x01],
        &[0x81, 0x01],
        &[0xa1],
        &[0xcf, 0, 0, 0],
        &[0xd4],
        &[0xc1],
    ];
    for data in rows {
        assert!(is_error(data), "{data:x?}");
    }
}

/// Each array below declares all that is left; together they declare more than there is.
#[test]
fn nested_containers_share_what_is_left() {
    let mut data = Vec::new();
    for _ in 0..100 {
        data.extend([0xdc, 0x03, 0x00]);
    }
    data.resize(data.len() + 0x300, 0x00);
    assert!(is_error(&data));
}

/// After a value that is stepped over there must be as much as the containers around it still wait for.
#[test]
fn a_value_is_stepped_over_where_what_is_owed_may_follow() {
    let mut reader = Reader::new(&[0x93, 0x91, 0x01, 0x02, 0x03], 0);
    assert_eq!(reader.token(), Ok(Token::Array(3)));
    let cut = |n: usize| reader.clone().try_step_over(n);
    assert_eq!([0, 1, 2, 3, 4, 5, usize::MAX].map(cut), [true, true, true, false, false, false, false]);
    assert!(reader.try_step_over(2));
    assert_eq!((reader.token(), reader.token()), (Ok(Token::Uint(2)), Ok(Token::Uint(3))));
    assert_eq!(reader.left(), 0);
}

proptest! {
    #[test]
    fn what_is_written_is_read(value: u64, negative in i64::MIN..0, float: f64, text: String, data: Vec<u8>) {
        let bytes = written(|out| {
            encode::array(out, 7).expect("short");
            encode::uint(out, value);
            encode::int(out, negative);
            encode::float(out, float);
            encode::str(out, text.as_bytes()).expect("short");
            encode::bin(out, &data).expect("short");
            encode::boolean(out, true);
            encode::ext(out, 7, data.len()).expect("short");
            out.extend(&data);
        });
        let mut reader = Reader::new(&bytes, 0);
        prop_assert_eq!(reader.token(), Ok(Token::Array(7)));
        prop_assert_eq!(reader.token(), Ok(Token::Uint(value)));
        prop_assert_eq!(reader.token(), Ok(Token::Int(negative)));
        let Ok(Token::Float(read)) = reader.token() else { return Err(TestCaseError::fail("no float")) };
        prop_assert_eq!(read.to_bits(), float.to_bits());
        prop_assert_eq!(reader.token(), Ok(Token::Str(text.as_bytes())));
        prop_assert_eq!(reader.token(), Ok(Token::Bin(&data)));
        prop_assert_eq!(reader.token(), Ok(Token::Bool(true)));
        prop_assert_eq!(reader.token(), Ok(Token::Ext(7, &data)));
        prop_assert_eq!(reader.left(), 0);
    }

    #[test]
    fn any_bytes_end_in_tokens_or_in_an_error(data: Vec<u8>) {
        let mut reader = Reader::new(&data, 0);
        let mut last = 0;
        while reader.left() > 0 {
            match reader.token() {
                Ok(_) => prop_assert!(reader.offset() > last),
                Err(fault) => {
                    prop_assert!(within(&reader, fault, data.len()));
                    break;
                }
            }
            last = reader.offset();
        }
    }

    #[test]
    fn a_text_ahead_is_the_token_that_is_next(data: Vec<u8>, text in "\\PC{0,300}", cut in 0_usize..400) {
        let mut whole = written(|out| encode::str(out, text.as_bytes()).expect("short"));
        whole.truncate(cut);
        for bytes in [&data, &whole] {
            let (mut one, mut two) = (Reader::new(bytes, 0), Reader::new(bytes, 0));
            let token = two.token();
            if let Some(text) = one.text_ahead() {
                prop_assert_eq!(token, Ok(Token::Str(text)));
                prop_assert_eq!(one.offset(), two.offset());
            } else {
                prop_assert_eq!(one.offset(), 0);
                prop_assert!(!matches!(token, Ok(Token::Str(text)) if text.len() < 1 << 16));
            }
        }
    }
}

/// What `skip::array` says of a document, and how much of it is then left.
fn skipped(data: &[u8], pairs: bool) -> Option<(usize, usize)> {
    skip::array(data, pairs).map(|array| (array.len, data.len() - array.size))
}

#[test]
fn arrays_of_plain_values_are_stepped_over() {
    let message = b"\x92\x82\xa4role\xa4user\xa7content\xa2\xc3\xa9\x93\x01\xc0\xcb\0\0\0\0\0\0\0\0\x07";
    assert_eq!(skipped(message, false), Some((2, 1)));
    assert_eq!(skipped(b"\x90", true), Some((0, 0)));
    assert_eq!(skipped(b"\x92\x92\x01\xc3\x92\xa1a\x80", true), Some((2, 0)));
}

#[test]
fn what_might_not_decode_is_not_stepped_over() {
    let rows: &[(&[u8], bool)] = &[
        (b"", false),
        (b"\x80", false),                           // no array
        (b"\x91", false),                           // truncated
        (b"\x91\xa2a", false),                      // truncated within a string
        (b"\x91\xc1", false),                       // never used
        (b"\x91\xa1\xff", false),                   // not UTF-8
        (b"\x91\x81\xa1\xff\x01", false),           // a key that is not
        (b"\x91\x82\xa1a\x01\xa1a\x02", false),     // a key that stands twice
        (b"\x91\x82\xa1a\x01\xd9\x01a\x02", false), // the same in another form
        (b"\x91\x81\x01\x02", false),               // a key that is no string
        (b"\x91\xd4\x01\x02", false),               // an extension
        (b"\x91\x91\x01", true),                    // no pair
        (b"\x91\x92\xc0\x01", true),                // a pair whose key is neither string nor integer
        (b"\x91\x92\xa1\xff\x01", true),            // or no text
    ];
    for (data, pairs) in rows {
        assert_eq!(skipped(data, *pairs), None, "{data:x?}");
    }
    let mut deep = vec![0x91; 40];
    deep.push(0xc0);
    assert_eq!(skipped(&deep, false), None);
    let mut wide = vec![0x91, 0xde, 0, 17];
    for key in 0..17 {
        wide.extend([0xa1, b'a' + key, 0xc0]);
    }
    assert_eq!(skipped(&wide, false), None);
}

/// As `skip::array`, by tokens.
fn stepped_over(data: &[u8], pairs: bool) -> Option<(usize, usize)> {
    fn text(text: &[u8]) -> Option<()> {
        std::str::from_utf8(text).is_ok().then_some(())
    }

    fn value(reader: &mut Reader<'_>, depth: usize) -> Option<()> {
        match reader.token().ok()? {
            Token::Str(found) => text(found),
            Token::Array(n) if depth < 32 => (0..n).try_for_each(|_| value(reader, depth + 1)),
            Token::Map(n) if depth < 32 && n <= 16 => {
                let mut keys = Vec::new();
                for _ in 0..n {
                    let Token::Str(key) = reader.token().ok()? else { return None };
                    text(key)?;
                    if keys.contains(&key) {
                        return None;
                    }
                    keys.push(key);
                    value(reader, depth + 1)?;
                }
                Some(())
            }
            Token::Ext(..) | Token::Array(_) | Token::Map(_) => None,
            _ => Some(()),
        }
    }

    let mut reader = Reader::new(data, 0);
    let Token::Array(n) = reader.token().ok()? else { return None };
    for _ in 0..n {
        if pairs {
            if reader.token() != Ok(Token::Array(2)) {
                return None;
            }
            match reader.token().ok()? {
                Token::Uint(_) | Token::Int(_) => {}
                Token::Str(found) => text(found)?,
                _ => return None,
            }
        }
        value(&mut reader, 0)?;
    }
    Some((n, reader.left()))
}

/// A value as bytes: of all kinds, in all forms, not always sound.
fn a_value() -> impl Strategy<Value = Vec<u8>> {
    let plain = prop_oneof![
        any::<u8>().prop_map(|byte| vec![byte]),
        any::<i64>().prop_map(|value| written(|out| encode::int(out, value))),
        any::<f64>().prop_map(|value| written(|out| encode::float(out, value))),
        any::<Vec<u8>>().prop_map(|data| written(|out| encode::bin(out, &data).expect("short"))),
        "\\PC{0,300}".prop_map(|text| written(|out| encode::str(out, text.as_bytes()).expect("short"))),
        "[ab]{0,2}".prop_map(|text| [&[0xda, 0, text.len() as u8], text.as_bytes()].concat()),
        Just(vec![0xca, 1, 2, 3, 4]),
        Just(vec![0xd4, 1, 0]),
    ];
    plain.prop_recursive(4, 32, 20, |inner| {
        (proptest::collection::vec(inner, 0..20), 0..3).prop_map(|(values, kind)| {
            let mut out = Vec::new();
            match kind {
                0 => encode::array(&mut out, values.len()).expect("short"),
                1 => out.extend([0xdd, 0, 0, 0, values.len() as u8]),
                _ => encode::map(&mut out, values.len()).expect("short"),
            }
            for (at, value) in values.iter().enumerate() {
                if kind == 2 {
                    encode::str(&mut out, format!("{}", at % 18).as_bytes()).expect("short");
                }
                out.extend(value);
            }
            out
        })
    })
}

proptest! {
    #[test]
    fn what_is_stepped_over_is_what_tokens_tell(values in proptest::collection::vec(a_value(), 0..4), pairs: bool, cut in 0_usize..2000) {
        let mut data = Vec::new();
        encode::array(&mut data, values.len()).expect("short");
        for value in &values {
            if pairs {
                data.extend([0x92, 0xcc, 0xff]);
            }
            data.extend(value);
        }
        prop_assert_eq!(skipped(&data, pairs), stepped_over(&data, pairs));
        data.truncate(cut);
        prop_assert_eq!(skipped(&data, pairs), stepped_over(&data, pairs));
    }

    #[test]
    fn any_bytes_are_stepped_over_as_tokens_tell(data: Vec<u8>, pairs: bool) {
        prop_assert_eq!(skipped(&data, pairs), stepped_over(&data, pairs));
    }

    #[test]
    fn a_text_is_ascii_where_no_byte_is_high(mut text in proptest::collection::vec(0_u8..0x80, 0..200), at: usize, bit: bool) {
        if let Some(byte) = text.len().checked_sub(1).and_then(|last| text.get_mut(at % (last + 1))) && bit {
            *byte |= 0x80;
        }
        prop_assert_eq!(is_ascii(&text), text.is_ascii());
    }
}
