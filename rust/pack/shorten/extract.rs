//! The weightiest sentences of one text or of many, in their order: a summary that needs no model.
//!
//! A term weighs most when it occurs in several sentences but not in most (sentences with it x log of the inverse
//! share), which needs no list of stop words and so no language. A sentence weighs the sum of its terms over the root of
//! their number, and more where it opens a text.

use std::collections::{HashMap, HashSet};

use xxhash_rust::xxh3::{Xxh3Builder, xxh3_64};

use super::seam::{ends_sentence, floor};
use super::{Rendition, fence};
use crate::Result;
use crate::tokens::Counter;

/// Sentences in a row that do not fit before the rest is given up: the budget is nearly full then.
const MAX_MISFITS: usize = 16;

/// The first sentence of a text often says what it is about, and often is a greeting.
const OPENING: f64 = 1.15;

/// A sentence of fewer terms is a greeting or a heading.
const LEAST_TERMS: usize = 3;

/// No token of a known vocabulary is longer, so that a sentence longer than this many bytes per token is not counted.
const LONGEST_TOKEN: usize = 128;

/// The weightiest sentences of `texts` in at most `target` tokens, in order, those of different lines on lines of their
/// own; None where not one fits. Code blocks are left out, and a sentence that occurs twice is taken once.
///
/// Time: linear in the texts, and n log n in their sentences.
///
/// # Errors
/// `Error::Counter` when the counter failed.
pub fn summarise<S: AsRef<str>>(texts: &[S], target: u64, counter: &dyn Counter) -> Result<Option<Rendition>> {
    let mut sentences = Vec::new();
    for text in texts {
        split(text.as_ref(), &mut sentences);
    }
    let mut order = ranked(&sentences);
    let mut picked: Vec<usize> = Vec::new();
    let (mut left, mut misfits) = (target, 0);
    for index in order.drain(..) {
        let Some(sentence) = sentences.get(index) else { continue };
        let may_fit = sentence.text.len() as u64 <= left.saturating_mul(LONGEST_TOKEN as u64);
        // One more for what joins it to the next.
        let cost = if may_fit { counter.count(sentence.text)?.saturating_add(1) } else { u64::MAX };
        if cost <= left {
            left -= cost;
            picked.push(index);
            misfits = 0;
        } else {
            misfits += 1;
            if misfits == MAX_MISFITS || left < LEAST_TERMS as u64 {
                break;
            }
        }
    }
    // Rarely over, where joining costs more than a token; then the lightest go.
    while !picked.is_empty() {
        let text = joined(&sentences, &picked);
        let tokens = counter.count(&text)?;
        if tokens <= target {
            return Ok(Some(Rendition { text, tokens }));
        }
        picked.pop();
    }
    Ok(None)
}

struct Sentence<'a> {
    text: &'a str,
    /// Whether a line starts with it.
    starts_line: bool,
    /// Whether a text does.
    opens: bool,
}

/// Append the sentences of one text, without its code blocks.
fn split<'a>(text: &'a str, sentences: &mut Vec<Sentence<'a>>) {
    let first = sentences.len();
    fence::lines(text, |line, is_fenced| {
        if is_fenced {
            return;
        }
        let mut start = 0;
        let mut starts_line = true;
        let mut rest = line.char_indices().peekable();
        while let Some((index, c)) = rest.next() {
            let end = index + c.len_utf8();
            let next = rest.peek().map(|&(_, next)| next);
            if next.is_none()
                || (may_end(c) && ends_sentence(&line[start..end], next) && !is_abbreviation(&line[start..end]))
            {
                let sentence = line[start..end].trim();
                if !sentence.is_empty() {
                    sentences.push(Sentence { text: sentence, starts_line, opens: sentences.len() == first });
                    starts_line = false;
                }
                start = end;
            }
        }
    });
}

/// Whether `c` can be the last character of a sentence: a quick look before the careful one.
fn may_end(c: char) -> bool {
    !c.is_alphanumeric() && !c.is_whitespace()
}

/// "e.g." and the number of a list end no sentence: the last word is a letter, or digits alone.
fn is_abbreviation(text: &str) -> bool {
    let Some(text) = text.strip_suffix('.') else { return false };
    let tail = &text[floor(text, text.len().saturating_sub(12))..];
    let word = tail.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let is_digits = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    word.chars().count() == 1 && word.is_ascii() || (is_digits && text.trim_start() == word)
}

/// Indices of the sentences, the weightiest first; of repeats only the first.
fn ranked(sentences: &[Sentence<'_>]) -> Vec<usize> {
    let mut numbers: HashMap<u64, u32, Xxh3Builder> = HashMap::default();
    let mut n_with: Vec<u32> = Vec::new();
    let mut terms: Vec<u32> = Vec::new();
    let mut ends: Vec<usize> = Vec::with_capacity(sentences.len());
    // A repeated sentence would lift its own terms.
    let mut seen: HashSet<u64, Xxh3Builder> = HashSet::default();
    let distinct: Vec<usize> = (0..sentences.len())
        .filter(|&index| sentences.get(index).is_some_and(|one| seen.insert(xxh3_64(one.text.as_bytes()))))
        .collect();
    for sentence in distinct.iter().filter_map(|&index| sentences.get(index)) {
        let start = terms.len();
        each_term(sentence.text, |hash| {
            let number = *numbers.entry(hash).or_insert_with(|| {
                n_with.push(0);
                n_with.len() as u32 - 1
            });
            terms.push(number);
        });
        // Distinct within the sentence.
        terms[start..].sort_unstable();
        let mut kept = start;
        for index in start..terms.len() {
            if kept == start || terms[kept - 1] != terms[index] {
                terms[kept] = terms[index];
                kept += 1;
            }
        }
        terms.truncate(kept);
        for &term in &terms[start..] {
            n_with[term as usize] += 1;
        }
        ends.push(kept);
    }
    let n = distinct.len() as f64;
    let weights: Vec<f64> = n_with.iter().map(|&with| f64::from(with) * ((n + 1.0) / f64::from(with)).ln()).collect();
    let mut ranked: Vec<(f64, usize)> = Vec::with_capacity(distinct.len());
    let mut start = 0;
    for (&index, &end) in distinct.iter().zip(&ends) {
        let terms = &terms[start..end];
        start = end;
        let weight: f64 = terms.iter().map(|&term| weights[term as usize]).sum();
        let mut score = weight / (terms.len().max(1) as f64).sqrt();
        if sentences.get(index).is_some_and(|one| one.opens) {
            score *= OPENING;
        }
        if terms.len() < LEAST_TERMS {
            score = 0.0;
        }
        ranked.push((score, index));
    }
    ranked.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    ranked.into_iter().map(|(_, index)| index).collect()
}

/// Feed a hash of every term: runs of letters and digits without case, and single characters of unspaced scripts.
fn each_term(text: &str, mut emit: impl FnMut(u64)) {
    let mut word = Vec::with_capacity(32);
    let mut end = |word: &mut Vec<u8>| {
        // Words of one and two letters are grammar.
        if word.len() > 2 {
            emit(xxh3_64(word));
        }
        word.clear();
    };
    for c in text.chars() {
        if c.is_ascii() {
            if c.is_ascii_alphanumeric() {
                word.push(c.to_ascii_lowercase() as u8);
            } else {
                end(&mut word);
            }
        } else if c >= '\u{0e00}' && c.is_alphanumeric() {
            end(&mut word);
            word.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            end(&mut word);
        } else if c.is_alphanumeric() {
            for low in c.to_lowercase() {
                word.extend_from_slice(low.encode_utf8(&mut [0; 4]).as_bytes());
            }
        } else {
            end(&mut word);
        }
    }
    end(&mut word);
}

/// The picked sentences in order.
fn joined(sentences: &[Sentence<'_>], picked: &[usize]) -> String {
    let mut indices = picked.to_vec();
    indices.sort_unstable();
    let mut text = String::new();
    let mut last = None;
    for index in indices {
        let Some(sentence) = sentences.get(index) else { continue };
        if let Some(last) = last {
            // A line or a text has ended since the last one.
            let is_same_line =
                sentences.get(last + 1..=index).is_some_and(|since| since.iter().all(|one| !one.starts_line));
            text.push(if is_same_line { ' ' } else { '\n' });
        }
        text.push_str(sentence.text);
        last = Some(index);
    }
    text
}
