//! Porter's stemmer for English words, in place.
//!
//! Source: M. F. Porter, "An algorithm for suffix stripping", Program 14(3), 1980, with the three departures of the
//! author's own implementation (words of two letters stay, `bli` for `abli`, `logi`). Words of other languages pass
//! through the same rules on both sides of a comparison, which costs them little; words with anything but `a` to `z`
//! are the caller's to keep away.

/// Longer words are not English; they are compared whole.
pub(super) const LONGEST: usize = 40;

/// Strip the endings of `word`, which is lower-case ASCII letters.
pub(super) fn stem(word: &mut Vec<u8>) {
    if word.len() <= 2 || word.len() > LONGEST {
        return;
    }
    plural(word);
    past_and_ing(word);
    if word.last() == Some(&b'y') && has_vowel(before(word, 1)) {
        swap(word, 1, b"i");
    }
    replace_first(word, STEP_2);
    replace_first(word, STEP_3);
    strip_residue(word);
    final_e(word);
    if word.ends_with(b"ll") && measure(word) > 1 {
        word.pop();
    }
}

/// The part of `word` before its last `n` letters.
fn before(word: &[u8], n: usize) -> &[u8] {
    word.get(..word.len().saturating_sub(n)).unwrap_or_default()
}

fn swap(word: &mut Vec<u8>, n: usize, ending: &[u8]) {
    word.truncate(word.len().saturating_sub(n));
    word.extend_from_slice(ending);
}

/// A `y` is a consonant at the start and after a vowel.
fn is_consonant(letter: u8, previous: Option<bool>) -> bool {
    match letter {
        b'a' | b'e' | b'i' | b'o' | b'u' => false,
        b'y' => previous != Some(true),
        _ => true,
    }
}

fn consonants(stem: &[u8]) -> impl Iterator<Item = bool> + '_ {
    stem.iter().scan(None, |previous, &letter| {
        let consonant = is_consonant(letter, *previous);
        *previous = Some(consonant);
        Some(consonant)
    })
}

/// How many times a vowel run is followed by a consonant run.
fn measure(stem: &[u8]) -> usize {
    let mut after_vowel = false;
    let mut m = 0;
    for consonant in consonants(stem) {
        m += usize::from(consonant && after_vowel);
        after_vowel = !consonant;
    }
    m
}

fn has_vowel(stem: &[u8]) -> bool {
    consonants(stem).any(|consonant| !consonant)
}

fn ends_double_consonant(word: &[u8]) -> bool {
    matches!(word, [.., a, b] if a == b) && consonants(word).last() == Some(true)
}

/// Consonant, vowel, consonant, the last not `w`, `x` or `y`: a short syllable that wants its `e` back.
fn ends_short(word: &[u8]) -> bool {
    let mut last = [None; 3];
    for consonant in consonants(word) {
        last = [last[1], last[2], Some(consonant)];
    }
    last == [Some(true), Some(false), Some(true)] && !matches!(word.last(), Some(b'w' | b'x' | b'y'))
}

fn plural(word: &mut Vec<u8>) {
    if word.ends_with(b"sses") || word.ends_with(b"ies") {
        swap(word, 2, b"");
    } else if word.ends_with(b"s") && !word.ends_with(b"ss") {
        word.pop();
    }
}

fn past_and_ing(word: &mut Vec<u8>) {
    if word.ends_with(b"eed") {
        if measure(before(word, 3)) > 0 {
            word.pop();
        }
        return;
    }
    let ending = if word.ends_with(b"ed") {
        2
    } else if word.ends_with(b"ing") {
        3
    } else {
        return;
    };
    if !has_vowel(before(word, ending)) {
        return;
    }
    swap(word, ending, b"");
    if word.ends_with(b"at") || word.ends_with(b"bl") || word.ends_with(b"iz") {
        word.push(b'e');
    } else if ends_double_consonant(word) {
        if !matches!(word.last(), Some(b'l' | b's' | b'z')) {
            word.pop();
        }
    } else if measure(word) == 1 && ends_short(word) {
        word.push(b'e');
    }
}

/// An ending as the low bytes of a number, its last letter lowest: compared in one instruction, where most words have none of
/// many.
#[derive(Clone, Copy)]
struct Ending {
    letters: u64,
    mask: u64,
    n: usize,
}

/// Of at most seven letters.
const fn ending(text: &[u8]) -> Ending {
    let (mut letters, mut n) = (0, 0);
    while n < text.len() {
        letters = letters << 8 | text[n] as u64;
        n += 1;
    }
    Ending { letters, mask: (1 << (8 * n)) - 1, n }
}

/// The last letters of a word, as those of an ending.
fn tail(word: &[u8]) -> u64 {
    word.last_chunk().map_or_else(
        || word.iter().fold(0, |tail, byte| tail << 8 | u64::from(*byte)),
        |last| u64::from_be_bytes(*last),
    )
}

impl Ending {
    const fn ends(self, tail: u64) -> bool {
        tail & self.mask == self.letters
    }
}

type Endings = &'static [(Ending, &'static [u8])];

/// Longer endings stand before the endings they end in.
const STEP_2: Endings = &[
    (ending(b"ational"), b"ate"),
    (ending(b"ization"), b"ize"),
    (ending(b"iveness"), b"ive"),
    (ending(b"fulness"), b"ful"),
    (ending(b"ousness"), b"ous"),
    (ending(b"tional"), b"tion"),
    (ending(b"biliti"), b"ble"),
    (ending(b"entli"), b"ent"),
    (ending(b"ousli"), b"ous"),
    (ending(b"ation"), b"ate"),
    (ending(b"alism"), b"al"),
    (ending(b"aliti"), b"al"),
    (ending(b"iviti"), b"ive"),
    (ending(b"enci"), b"ence"),
    (ending(b"anci"), b"ance"),
    (ending(b"izer"), b"ize"),
    (ending(b"alli"), b"al"),
    (ending(b"ator"), b"ate"),
    (ending(b"logi"), b"log"),
    (ending(b"bli"), b"ble"),
    (ending(b"eli"), b"e"),
];

const STEP_3: Endings = &[
    (ending(b"icate"), b"ic"),
    (ending(b"ative"), b""),
    (ending(b"alize"), b"al"),
    (ending(b"iciti"), b"ic"),
    (ending(b"ical"), b"ic"),
    (ending(b"ness"), b""),
    (ending(b"ful"), b""),
];

fn replace_first(word: &mut Vec<u8>, endings: Endings) {
    let tail = tail(word);
    if let Some((ending, new)) = endings.iter().find(|(ending, _)| ending.ends(tail))
        && measure(before(word, ending.n)) > 0
    {
        swap(word, ending.n, new);
    }
}

const STEP_4: &[Ending] = &[
    ending(b"ement"),
    ending(b"ance"),
    ending(b"ence"),
    ending(b"able"),
    ending(b"ible"),
    ending(b"ment"),
    ending(b"ant"),
    ending(b"ent"),
    ending(b"ism"),
    ending(b"ate"),
    ending(b"iti"),
    ending(b"ous"),
    ending(b"ive"),
    ending(b"ize"),
    ION,
    ending(b"al"),
    ending(b"er"),
    ending(b"ic"),
    ending(b"ou"),
];

const ION: Ending = ending(b"ion");

fn strip_residue(word: &mut Vec<u8>) {
    let tail = tail(word);
    let Some(found) = STEP_4.iter().find(|ending| ending.ends(tail)) else { return };
    let stem = before(word, found.n);
    if measure(stem) > 1 && (found.letters != ION.letters || matches!(stem.last(), Some(b's' | b't'))) {
        swap(word, found.n, b"");
    }
}

fn final_e(word: &mut Vec<u8>) {
    if word.last() == Some(&b'e') {
        let stem = before(word, 1);
        let m = measure(stem);
        if m > 1 || (m == 1 && !ends_short(stem)) {
            word.pop();
        }
    }
}
