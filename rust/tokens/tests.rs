//! What needs no tiktoken to be known.

use std::collections::HashMap;
use std::sync::OnceLock;

use proptest::prelude::*;

use super::backtrack::Backtrack;
use super::ends::Ends;
use super::split::{Cl100k, O200k, Split};
use super::vocab::{MAX_TOKENS, NONE, Vocabulary};
use super::{encoding, merge};

pub(super) fn count(name: &str, text: &str) -> u64 {
    encoding(name).and_then(|counter| counter.count(text)).expect("embedded encodings count")
}

#[test]
fn published_counts() {
    for name in super::NAMES {
        assert_eq!(count(name, ""), 0);
        assert_eq!(count(name, "hello world"), 2);
        assert_eq!(count(name, "<|endoftext|>"), 7);
    }
    assert_eq!(count("o200k_base", &" ".repeat(1_000_000)), 7_813);
    assert_eq!(count("o200k_base", &(" ".repeat(1_000_000) + "x")), 7_814);
    assert_eq!(count("cl100k_base", &"a".repeat(100_000)), 12_500);
}

/// The class of every code point, by the tables of the regex engine that tiktoken uses.
fn classes_of_regex_syntax() -> Vec<u8> {
    use super::classes::{LETTER, LOWER, MARK, NEWLINE, NUMBER, SPACE, UPPER};
    use regex_syntax::hir::{Class, HirKind};

    let mut table = vec![0; 0x11_0000];
    let rows = [
        (r"\s", SPACE),
        (r"[\r\n]", NEWLINE),
        (r"\p{N}", NUMBER),
        (r"[\p{Lu}\p{Lt}]", UPPER),
        (r"\p{Ll}", LOWER),
        (r"[\p{Lm}\p{Lo}]", LETTER),
        (r"\p{M}", MARK),
    ];
    for (pattern, class) in rows {
        let parsed = regex_syntax::parse(pattern).expect("a class");
        let HirKind::Class(Class::Unicode(set)) = parsed.kind() else { panic!("{pattern} is a class") };
        for range in set.ranges() {
            table[range.start() as usize..=range.end() as usize].fill(class);
        }
    }
    table
}

#[test]
fn class_table_is_that_of_the_regex_engine() {
    let flat = classes_of_regex_syntax();
    let mut blocks: Vec<&[u8]> = Vec::new();
    let mut packed: Vec<u8> = Vec::new();
    for block in flat.chunks(128) {
        let at = blocks.iter().position(|known| *known == block).unwrap_or_else(|| {
            blocks.push(block);
            blocks.len() - 1
        });
        packed.push(u8::try_from(at).expect("at most 256 blocks"));
    }
    packed.extend(blocks.concat());
    if std::env::var_os("HOLDALL_WRITE_CLASSES").is_some() {
        std::fs::write("rust/tokens/data/classes.bin", &packed).expect("the table can be written");
    }
    assert!(packed == super::classes::TABLE, "run HOLDALL_WRITE_CLASSES=1 cargo test to write the table anew");
    for (code, class) in flat.iter().enumerate() {
        assert_eq!(super::classes::of(u32::try_from(code).expect("a code point")), *class, "U+{code:04X}");
    }
}

/// Bytes over an alphabet of `letters`, from a fixed seed.
pub(super) fn noise(seed: u64, n: usize, letters: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        b'a' + ((state >> 33) % letters) as u8
    };
    (0..n).map(next).collect()
}

#[test]
fn every_way_to_merge_gives_the_same_tokens() {
    for vocabulary in super::encodings::tests::vocabularies() {
        for round in 0..1500 {
            let piece = noise(round, 2 + round as usize % 300, 1 + round % 26);
            let expected = merge::encode_long(vocabulary, &piece);
            assert_eq!(Backtrack::new(vocabulary, &piece).run(), expected, "{piece:?}");
            if piece.len() <= merge::SMALL {
                let mut window = merge::Window::new();
                let parts = window.encode(vocabulary, &piece);
                assert_eq!(parts.tokens().map(|(_, id)| id).collect::<Vec<_>>(), expected, "{piece:?}");
                assert_eq!(parts.len(), expected.len() as u64);
            }
        }
    }
}

/// Oracle: the longest prefix within the limit, trying all.
fn cut_by_trying(counter: &dyn super::Counter, text: &str, limit: u64) -> usize {
    let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    let within = ends.filter(|&end| counter.count(&text[..end]).expect("embedded encodings count") <= limit);
    within.max().unwrap_or(0)
}

#[test]
fn a_long_piece_is_cut_at_a_character() {
    for name in super::NAMES {
        let counter = encoding(name).expect("embedded");
        for start in ["", " ", "   ", "\u{3000}", "\u{3000} \u{3000}", "'lL", "ʰ", "a\n \n", "é"] {
            for repeated in ["👨\u{200d}👩\u{200d}👧", "中文", "e\u{301}", "é", "\u{3000}", "¿", "xé"] {
                let text = start.to_owned() + &repeated.repeat(1 + 300 / repeated.len());
                for limit in [0, 1, 2, 3, 4, 5, 7, 20] {
                    let cut = counter.cut(&text, limit).expect("embedded encodings cut");
                    assert_eq!(cut, cut_by_trying(&*counter, &text, limit), "{name} {text:?} at {limit}");
                }
            }
        }
    }
}

#[test]
fn pairs_are_those_that_were_put_in() {
    for vocabulary in super::encodings::tests::vocabularies() {
        let n = u32::try_from(vocabulary.len()).expect("ids are 32 bits");
        let halves: HashMap<[u32; 2], u32> =
            (0..n).map(|id| (vocabulary.halves(id), id)).filter(|(half, _)| half[0] != NONE).collect();
        for (half, id) in &halves {
            assert_eq!(vocabulary.merged(half[0], half[1]), *id);
        }
        let lefts: Vec<u32> = halves.keys().map(|half| half[0]).collect();
        for (at, left) in (1..).zip(lefts) {
            let right = (left ^ 0x2_5a5a).wrapping_mul(at) % n;
            let expected = halves.get(&[left, right]).copied().unwrap_or(NONE);
            assert_eq!(vocabulary.merged(left, right), expected, "{left} {right}");
        }
        assert_eq!(vocabulary.merged(NONE, 0), NONE);
        assert_eq!(vocabulary.merged(0, u32::try_from(MAX_TOKENS).expect("21 bits") - 1), NONE);
    }
}

/// Oracle: merging by its definition.
fn merged_by_definition(vocabulary: &Vocabulary, piece: &[u8]) -> usize {
    let mut parts: Vec<(usize, usize)> = (0..piece.len()).map(|at| (at, at + 1)).collect();
    loop {
        let ranks = parts
            .windows(2)
            .enumerate()
            .filter_map(|(at, pair)| vocabulary.find(piece, pair[0].0, pair[1].1).map(|rank| (rank, at)));
        let Some((_, at)) = ranks.min() else { return parts.len() };
        parts[at].1 = parts[at + 1].1;
        parts.remove(at + 1);
    }
}

proptest! {
    #[test]
    fn merging_pairs_is_merging_by_bytes(
        piece in "[a-c]{2,80}|[a-z ]{2,60}|\\PC{1,30}|[_a=-]{2,90}|[а-я]{1,40}|[的一是不了人我在有他]{1,22}|[a-zA-Z]{2,15}"
    ) {
        for vocabulary in super::encodings::tests::vocabularies() {
            let piece = piece.as_bytes();
            let expected = merge::encode_long(vocabulary, piece);
            prop_assert_eq!(expected.len(), merged_by_definition(vocabulary, piece));
            prop_assert_eq!(merge::count(vocabulary, piece), expected.len() as u64);
            if piece.len() <= merge::SMALL {
                let mut window = merge::Window::new();
                let tokens: Vec<u32> = window.encode(vocabulary, piece).tokens().map(|(_, id)| id).collect();
                prop_assert_eq!(tokens, expected);
            }
        }
    }
}

/// Where the pieces of `text` end, one after the other.
pub(super) fn ends<S: Split>(text: &str) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut at = 0;
    while at < text.len() {
        at = S::end(text.as_bytes(), at);
        ends.push(at);
    }
    ends
}

/// The same by windows, at most `most` or so at a time.
fn ends_by_windows<S: Split>(text: &str, most: u64) -> Vec<usize> {
    let (mut all, mut ends) = (Vec::new(), Ends::new());
    while let at = all.last().copied().unwrap_or(0)
        && at < text.len()
    {
        all.extend_from_slice(ends.find::<S>(text.as_bytes(), at, most));
    }
    all
}

/// Both of them, which are the same.
fn both<S: Split>(text: &str) -> Vec<usize> {
    let found = ends::<S>(text);
    assert_eq!(ends_by_windows::<S>(text, u64::MAX), found, "{text:?}");
    found
}

/// The expressions themselves, compiled once.
fn patterns() -> &'static [fancy_regex::Regex; 2] {
    static COMPILED: OnceLock<[fancy_regex::Regex; 2]> = OnceLock::new();
    COMPILED.get_or_init(|| {
        [super::encodings::O200K_PATTERN, super::encodings::CL100K_PATTERN]
            .map(|pattern| fancy_regex::Regex::new(pattern).expect("tiktoken's patterns compile"))
    })
}

/// One or two characters of each class, and what the alternatives begin, continue and end with.
pub(super) const ATOMS: [&str; 44] = [
    "a", "Z", "é", "É", "ß", "ǅ", "ʰ", "ª", "カ", "中", "א", "\u{301}", "\u{903}", "1", "²", "Ⅷ", "٣", ".", "'", "\"",
    "/", "_", "😀", "\u{200b}", "\u{0}", " ", "  ", "\t", "\n", "\r\n", "\u{a0}", "\u{85}", "\u{2028}", "\u{3000}",
    "'s", "'S", "'ſ", "'K", "'ll", "'Ll", "'re", "'VE", "'d", "//",
];

/// What the windows know, in the order of how often it is drawn; then what they leave to `Split::end`.
const ASCII_ATOMS: [&str; 34] = [
    " ",
    "a",
    "B",
    "1",
    ".",
    "\n",
    "'",
    " the",
    "is",
    "'s",
    "'S",
    "'t",
    "'ll",
    "'Re",
    "'v",
    "/",
    "//",
    ";\n",
    "\n/",
    "\r\n",
    "\t",
    "    ",
    "\n    ",
    "\n  \n",
    "12",
    "345",
    "HTTPServer",
    "(",
    "\"",
    "\u{b}",
    "\u{0}",
    "\u{7f}",
    "@[`{",
    "/:",
];
const OTHER_ATOMS: [&str; 8] = ["é", "É", "'ſ", "中", "\u{301}", "\u{a0}", "😀", "²"];

#[test]
fn windows_find_what_one_at_a_time_does() {
    let mut draws = 0x1234_5678_9abc_def1_u64;
    let mut below = move |n: usize| {
        draws ^= draws << 13;
        draws ^= draws >> 7;
        draws ^= draws << 17;
        (draws >> 20) as usize % n
    };
    for _ in 0..100_000 {
        let (first, kinds, n) = (below(ASCII_ATOMS.len()), 1 + below(ASCII_ATOMS.len()), 1 + below(70));
        let mut text = String::new();
        for _ in 0..n {
            if below(60) == 0 {
                text.push_str(OTHER_ATOMS[below(OTHER_ATOMS.len())]);
            } else {
                text.push_str(ASCII_ATOMS[(first + below(kinds)) % ASCII_ATOMS.len()]);
            }
        }
        let most = if below(4) == 0 { below(8) as u64 } else { u64::MAX };
        assert_eq!(ends_by_windows::<O200k>(&text, most), ends::<O200k>(&text), "o200k {text:?}");
        assert_eq!(ends_by_windows::<Cl100k>(&text, most), ends::<Cl100k>(&text), "cl100k {text:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Pieces, not counts: two ways of cutting often give the same number of tokens.
    #[test]
    fn pieces_are_those_of_the_regular_expressions(
        atoms in prop::collection::vec(prop_oneof![9 => prop::sample::select(&ATOMS[..]).prop_map(str::to_owned), 1 => "\\PC"], 1..12)
    ) {
        let text = atoms.concat();
        for (pattern, found) in patterns().iter().zip([both::<O200k>(&text), both::<Cl100k>(&text)]) {
            let expected: Vec<usize> = pattern.find_iter(&text).map(|piece| piece.expect("short").end()).collect();
            prop_assert_eq!(&found, &expected, "{:?}", &text);
        }
    }
}

/// Bytes, but for texts that cannot be counted; each says which it is.
struct Bytes;

impl super::Counter for Bytes {
    fn count(&self, text: &str) -> crate::Result<u64> {
        if text.starts_with('!') { Err(crate::Error::Counter(text.to_owned())) } else { Ok(text.len() as u64) }
    }

    fn cut(&self, _text: &str, _limit: u64) -> crate::Result<usize> {
        Ok(0)
    }

    fn id(&self) -> u64 {
        7
    }
}

#[test]
fn many_texts_count_as_each_alone() {
    let counter = encoding("o200k_base").expect("it is embedded");
    let remembering = super::Remembering::new(std::sync::Arc::clone(&counter));
    let texts: Vec<String> = (0..3_000)
        .map(|n| match n % 6 {
            0 => String::new(),
            1 => "a text that comes again and again, longer than what is counted each time".to_owned(),
            2 => format!("{n} ").repeat(n % 900),
            3 if n == 3 => "one long text, ".repeat(9_000),
            _ => format!("text {n}"),
        })
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let expected: Vec<u64> = texts.iter().map(|text| counter.count(text).expect("it counts")).collect();
    for part in [&texts[..], &texts[..10], &texts[3..4], &[]] {
        let from = if part.len() == 1 { 3 } else { 0 };
        let expected = &expected[from..from + part.len()];
        for counter in [&*counter, &remembering as &dyn super::Counter] {
            assert_eq!(super::count_many(counter, part).as_deref(), Ok(expected));
            assert_eq!(counter.count_all(part).as_deref(), Ok(expected));
        }
    }
    let figures = remembering.figures();
    assert!(figures.hits > figures.misses && figures.entries <= figures.misses, "{figures:?}");
}

#[test]
fn the_first_text_that_fails_is_named() {
    let mut texts = vec!["a text of some length".repeat(40); 2_000];
    for at in [1_999, 700, 1_200] {
        texts[at] = format!("!{at}");
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let first = Err(crate::Error::Counter("!700".to_owned()));
    assert_eq!(super::count_many(&Bytes, &texts), first);
    assert_eq!(super::count_many(&super::Remembering::new(std::sync::Arc::new(Bytes)), &texts), first);
}
