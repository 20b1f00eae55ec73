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

type Endings = &'static [(&'static [u8], &'static [u8])];

/// Longer endings stand before the endings they end in.
const STEP_2: Endings = &[
    (b"ational", b"ate"),
    (b"ization", b"ize"),
    (b"iveness", b"ive"),
    (b"fulness", b"ful"),
    (b"ousness", b"ous"),
    (b"tional", b"tion"),
    (b"biliti", b"ble"),
    (b"entli", b"ent"),
    (b"ousli", b"ous"),
    (b"ation", b"ate"),
    (b"alism", b"al"),
    (b"aliti", b"al"),
    (b"iviti", b"ive"),
    (b"enci", b"ence"),
    (b"anci", b"ance"),
    (b"izer", b"ize"),
    (b"alli", b"al"),
    (b"ator", b"ate"),
    (b"logi", b"log"),
    (b"bli", b"ble"),
    (b"eli", b"e"),
];

const STEP_3: Endings = &[
    (b"icate", b"ic"),
    (b"ative", b""),
    (b"alize", b"al"),
    (b"iciti", b"ic"),
    (b"ical", b"ic"),
    (b"ness", b""),
    (b"ful", b""),
];

fn replace_first(word: &mut Vec<u8>, endings: Endings) {
    if let Some((ending, new)) = endings.iter().find(|(ending, _)| word.ends_with(ending))
        && measure(before(word, ending.len())) > 0
    {
        swap(word, ending.len(), new);
    }
}

const STEP_4: &[&[u8]] = &[
    b"ement", b"ance", b"ence", b"able", b"ible", b"ment", b"ant", b"ent", b"ism", b"ate", b"iti", b"ous", b"ive",
    b"ize", b"ion", b"al", b"er", b"ic", b"ou",
];

fn strip_residue(word: &mut Vec<u8>) {
    let Some(ending) = STEP_4.iter().find(|ending| word.ends_with(ending)) else { return };
    let stem = before(word, ending.len());
    if measure(stem) > 1 && (*ending != b"ion" || matches!(stem.last(), Some(b's' | b't'))) {
        swap(word, ending.len(), b"");
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
