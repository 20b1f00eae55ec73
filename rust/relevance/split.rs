//! Text into terms, whatever language or identifier style it is written in.
//!
//! - Words are runs of letters and digits, lower-cased, Latin accents and full-width forms folded, English endings
//!   stripped, English stop words left out.
//! - Identifiers and joined words (`camelCase`, `snake_case`, `dotted.path`, `well-known`, `2024-03-15`, `1,000`) give
//!   their parts and the whole without its joints, so `getUserName` meets both `get_user_name` and "user name".
//! - Scripts written without spaces (Han, kana, Hangul, Thai and their neighbours) give overlapping pairs of characters,
//!   and Han also single characters, since one of them is often a word.
//!
//! One pass, linear in the text; nothing is kept but the current word. What this does character by character, `runs` does
//! by windows.

use super::stem::{LONGEST, stem};

/// A joined word longer than this is data, not a name: only its parts are kept.
pub(super) const LONGEST_WHOLE: usize = 64;

/// What takes the terms of a text.
pub(super) trait Sink {
    /// A term in its final form: bytes that are equal when the terms are.
    fn term(&mut self, term: &[u8]);

    /// A word in lower case, which may be a stop word and still has its endings.
    fn word(&mut self, word: &[u8]) {
        let mut word = word.to_vec();
        if finish(&mut word) {
            self.term(&word);
        }
    }

    /// The word `text[from..to]`, ASCII letters and digits, of which the first may be a capital.
    fn plain(&mut self, text: &[u8], from: usize, to: usize) {
        self.word(&text.get(from..to).unwrap_or_default().to_ascii_lowercase());
    }
}

/// Strip a word of its endings; false if it is a stop word.
pub(super) fn finish(word: &mut Vec<u8>) -> bool {
    if is_stop_word(word) {
        return false;
    }
    if word.len() <= LONGEST && word.iter().all(u8::is_ascii_lowercase) {
        stem(word);
    }
    true
}

/// Room for the word that is being read, kept from text to text. Empty between texts.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    part: Vec<u8>,
    pub(super) whole: Vec<u8>,
}

/// Feed every term of `text` to `sink`, character by character: what `runs` leaves over, and its oracle.
pub(super) fn split_slowly(text: &str, scratch: &mut Scratch, sink: &mut impl Sink) {
    let Scratch { part, whole } = scratch;
    let mut words = Words {
        sink,
        part,
        whole,
        n_parts: 0,
        upper_run: 0,
        last_letter: 0,
        is_low: false,
        after_apostrophe: false,
        run: None,
        run_length: 0,
    };
    let mut rest = text.chars();
    let mut previous = ' ';
    while let Some(c) = rest.next() {
        if is_unspaced(c) {
            words.end_word();
            words.unspaced(c);
        } else {
            words.end_run();
            if c.is_alphanumeric() || is_indic_sign(c) {
                words.letter(c);
            } else if is_mark(c) {
                // A decomposed accent: the letter before it is already folded.
            } else {
                words.joint(c, previous, rest.clone().next());
            }
        }
        previous = c;
    }
    words.end_word();
    words.end_run();
}

struct Words<'a, S> {
    sink: &'a mut S,
    /// The current part, folded.
    part: &'a mut Vec<u8>,
    /// All parts of the current word.
    whole: &'a mut Vec<u8>,
    n_parts: usize,
    /// Upper-case letters at the end of the current part.
    upper_run: usize,
    /// Where the last letter of the current part begins.
    last_letter: usize,
    /// The last letter was lower-case or a digit, so that an upper-case one begins a part.
    is_low: bool,
    after_apostrophe: bool,
    /// The last character of a run without spaces, and how many it has.
    run: Option<char>,
    run_length: usize,
}

impl<S: Sink> Words<'_, S> {
    fn letter(&mut self, c: char) {
        let is_upper = c.is_uppercase();
        if is_upper && self.is_low {
            self.end_part();
        } else if !is_upper && self.upper_run > 1 && c.is_alphabetic() {
            // `HTTPServer`: the last capital belongs to the word that follows.
            let tail = self.part.split_off(self.last_letter.min(self.part.len()));
            self.end_part();
            *self.part = tail;
        }
        self.last_letter = self.part.len();
        fold(c, self.part);
        self.upper_run = if is_upper { self.upper_run + 1 } else { 0 };
        self.is_low = !is_upper;
    }

    /// A character that is no letter: it ends the word, unless it joins two parts of one.
    fn joint(&mut self, c: char, previous: char, next: Option<char>) {
        let between = |test: fn(char) -> bool| test(previous) && next.is_some_and(test);
        let joins = match c {
            '_' | '-' | '.' => between(|c| c.is_alphanumeric() && !is_unspaced(c)),
            ',' => between(|c| c.is_ascii_digit()),
            '\'' | '\u{2019}' => between(char::is_alphabetic),
            _ => false,
        };
        if joins {
            self.end_part();
            self.after_apostrophe = matches!(c, '\'' | '\u{2019}');
        } else {
            self.end_word();
        }
    }

    fn end_part(&mut self) {
        if !self.part.is_empty() {
            // "Caroline's", "don't", "we'll": what follows the apostrophe says nothing.
            if self.after_apostrophe && self.part.len() <= 2 {
                self.part.clear();
            } else {
                if self.whole.len() <= LONGEST_WHOLE {
                    self.whole.extend_from_slice(self.part);
                }
                self.n_parts += 1;
                // The whole of a word of one part is that part: both are stemmed the same way.
                self.sink.word(self.part);
                self.part.clear();
            }
        }
        self.after_apostrophe = false;
        self.upper_run = 0;
        self.is_low = false;
        self.last_letter = 0;
    }

    fn end_word(&mut self) {
        self.end_part();
        if self.n_parts > 1 && self.whole.len() <= LONGEST_WHOLE {
            self.sink.word(self.whole);
        }
        self.whole.clear();
        self.n_parts = 0;
    }

    fn unspaced(&mut self, c: char) {
        let mut bytes = [0; 8];
        if let Some(previous) = self.run {
            let first = previous.encode_utf8(&mut bytes).len();
            let second = c.encode_utf8(bytes.get_mut(first..).unwrap_or_default()).len();
            self.sink.term(bytes.get(..first + second).unwrap_or_default());
        }
        if is_han(c) {
            self.sink.term(c.encode_utf8(&mut bytes).as_bytes());
        }
        self.run = Some(c);
        self.run_length += 1;
    }

    fn end_run(&mut self) {
        if self.run_length == 0 {
            return;
        }
        if let Some(c) = self.run.take()
            && self.run_length == 1
            && !is_han(c)
        {
            self.sink.term(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
        self.run_length = 0;
    }
}

/// Scripts whose words are not separated by spaces, or whose endings are glued on (Hangul).
fn is_unspaced(c: char) -> bool {
    c >= '\u{0e00}'
        && (matches!(c,
            '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1100}'..='\u{11ff}' | '\u{1780}'..='\u{17ff}'
            | '\u{3041}'..='\u{309f}' | '\u{30a1}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{ac00}'..='\u{d7a3}')
            || is_han(c))
}

fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3134f}' | '\u{3005}')
}

fn is_mark(c: char) -> bool {
    matches!(c, '\u{0300}'..='\u{036f}' | '\u{00ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{fe00}'..='\u{fe0f}')
}

/// Signs of Indic scripts that stand inside a word without being letters (virama, nukta); dandas end one.
fn is_indic_sign(c: char) -> bool {
    matches!(c, '\u{0900}'..='\u{0dff}') && !matches!(c, '\u{0964}' | '\u{0965}')
}

/// Append `c` in lower case, without its Latin accent or its full width.
fn fold(c: char, out: &mut Vec<u8>) {
    if c.is_ascii() {
        out.push(c.to_ascii_lowercase() as u8);
        return;
    }
    let plain: &str = match c {
        'À'..='Å' | 'à'..='å' | 'Ā'..='ą' => "a",
        'Ç' | 'ç' | 'Ć'..='č' => "c",
        'Ď'..='đ' => "d",
        'È'..='Ë' | 'è'..='ë' | 'Ē'..='ě' => "e",
        'Ĝ'..='ģ' => "g",
        'Ĥ'..='ħ' => "h",
        'Ì'..='Ï' | 'ì'..='ï' | 'Ĩ'..='ı' => "i",
        'Ĵ' | 'ĵ' => "j",
        'Ķ' | 'ķ' => "k",
        'Ĺ'..='ł' => "l",
        'Ñ' | 'ñ' | 'Ń'..='ň' => "n",
        'Ò'..='Ö' | 'Ø' | 'ò'..='ö' | 'ø' | 'Ō'..='ő' => "o",
        'Ŕ'..='ř' => "r",
        'Ś'..='š' => "s",
        'Ţ'..='ŧ' => "t",
        'Ù'..='Ü' | 'ù'..='ü' | 'Ũ'..='ų' => "u",
        'Ŵ' | 'ŵ' => "w",
        'Ý' | 'ý' | 'ÿ' | 'Ŷ'..='Ÿ' => "y",
        'Ź'..='ž' => "z",
        'ß' => "ss",
        'Æ' | 'æ' => "ae",
        'Œ' | 'œ' => "oe",
        _ => {
            // Full-width forms stand at a fixed distance from ASCII.
            if let '\u{ff01}'..='\u{ff5e}' = c {
                out.push(((c as u32 - 0xfee0) as u8).to_ascii_lowercase());
            } else {
                for low in c.to_lowercase() {
                    out.extend_from_slice(low.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
            return;
        }
    };
    out.extend_from_slice(plain.as_bytes());
}

/// English words that say what kind of sentence this is, not what it is about.
///
/// The list is Lucene's, with pronouns, auxiliaries and question words added.
fn is_stop_word(word: &[u8]) -> bool {
    // As numbers they are compared in one instruction each.
    word.len() < size_of::<u64>() && STOP_NUMBERS.binary_search(&number(word)).is_ok()
}

/// A word of at most seven letters as a number, in the order of the letters.
const fn number(word: &[u8]) -> u64 {
    let mut number = 0;
    let mut at = 0;
    while at < size_of::<u64>() {
        number = number << 8 | if at < word.len() { word[at] as u64 } else { 0 };
        at += 1;
    }
    number
}

const STOP_NUMBERS: [u64; STOP_WORDS.len()] = {
    let mut numbers = [0; STOP_WORDS.len()];
    let mut at = 0;
    while at < numbers.len() {
        numbers[at] = number(STOP_WORDS[at]);
        at += 1;
    }
    numbers
};

/// Sorted, at most seven letters each.
const STOP_WORDS: &[&[u8]] = &[
    b"a", b"about", b"am", b"an", b"and", b"any", b"are", b"as", b"at", b"be", b"been", b"but", b"by", b"can",
    b"could", b"did", b"do", b"does", b"for", b"from", b"had", b"has", b"have", b"he", b"her", b"his", b"how", b"i",
    b"if", b"in", b"into", b"is", b"it", b"its", b"me", b"my", b"no", b"not", b"of", b"on", b"or", b"our", b"she",
    b"should", b"so", b"such", b"than", b"that", b"the", b"their", b"them", b"then", b"there", b"these", b"they",
    b"this", b"those", b"to", b"us", b"was", b"we", b"were", b"what", b"when", b"where", b"which", b"who", b"whom",
    b"why", b"will", b"with", b"would", b"you", b"your",
];
