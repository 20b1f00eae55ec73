//! Stepping over what would decode without fault and without anything rare, so that it can be decoded later.

use super::decode::{Reader, Token};

/// Deeper values are decoded at once. Far below what the stack of a small thread holds.
const MAX_DEPTH: usize = 32;

/// Maps of more keys are decoded at once: here keys are compared one with another.
const MAX_KEYS: usize = 16;

/// Step over an array: how many elements it has. None where there is none, or where its decoding might fail or would
/// call for more than plain values: extensions, keys that are no strings, large maps. The reader is then anywhere.
///
/// With `pairs`, every element has to be an array of a key, a string or an integer, and a value.
pub fn array(reader: &mut Reader<'_>, pairs: bool) -> Option<usize> {
    let Ok(Token::Array(n)) = reader.token() else { return None };
    for _ in 0..n {
        if pairs {
            let Ok(Token::Array(2)) = reader.token() else { return None };
            match reader.token() {
                Ok(Token::Uint(_) | Token::Int(_)) => {}
                Ok(Token::Str(text)) => utf8(text)?,
                _ => return None,
            }
        }
        value(reader, 0)?;
    }
    Some(n)
}

fn value(reader: &mut Reader<'_>, depth: usize) -> Option<()> {
    if let Some(text) = reader.text_ahead() {
        return utf8(text);
    }
    match reader.token() {
        Ok(Token::Str(text)) => utf8(text),
        Ok(Token::Nil | Token::Bool(_) | Token::Uint(_) | Token::Int(_) | Token::Float(_) | Token::Bin(_)) => Some(()),
        Ok(Token::Array(n)) if depth < MAX_DEPTH => (0..n).try_for_each(|_| value(reader, depth + 1)),
        Ok(Token::Map(n)) if depth < MAX_DEPTH && n <= MAX_KEYS => map(reader, n, depth),
        _ => None,
    }
}

fn map(reader: &mut Reader<'_>, n: usize, depth: usize) -> Option<()> {
    let mut keys: [&[u8]; MAX_KEYS] = [&[]; MAX_KEYS];
    for done in 0..n {
        let key = match reader.text_ahead() {
            Some(key) => key,
            None => match reader.token() {
                Ok(Token::Str(key)) => key,
                _ => return None,
            },
        };
        utf8(key)?;
        if keys.get(..done)?.contains(&key) {
            return None;
        }
        *keys.get_mut(done)? = key;
        value(reader, depth + 1)?;
    }
    Some(())
}

#[inline]
fn utf8(text: &[u8]) -> Option<()> {
    (text.is_ascii() || std::str::from_utf8(text).is_ok()).then_some(())
}
