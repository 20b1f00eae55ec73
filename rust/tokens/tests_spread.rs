//! One text on several threads gives what it gives on one.

use proptest::prelude::*;

use super::backtrack::Backtrack;
use super::bpe::Bpe;
use super::encodings::tests::vocabularies;
use super::encodings::{cl100k, o200k};
use super::split::{Cl100k, O200k, Split};
use super::tests::{ATOMS, count, ends, noise};
use super::{count_many, encoding, merge, spread};

/// Text as it is hard on joins: runs whose tokens have a phase, letters at random, and what begins and ends pieces.
fn hard_text() -> impl Strategy<Value = String> {
    let run = (
        prop::sample::select(&["a", "_", " ", "ab", "abc", "the", "中", "é", "e\u{301}", "xyzzy12", "\n", "'s"][..]),
        1..60_usize,
    )
        .prop_map(|(of, n)| of.repeat(n));
    let part = prop_oneof![
        2 => run,
        3 => "[a-z]{1,90}",
        2 => "[a-zA-Z0-9]{1,40}",
        1 => "[中文字あア]{1,30}",
        1 => "\\PC{1,8}",
        2 => prop::sample::select(&ATOMS[..]).prop_map(str::to_owned),
    ];
    prop::collection::vec(part, 1..24).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Tokens and not their number, with seams everywhere.
    #[test]
    fn a_piece_in_stretches_has_the_same_tokens(text in hard_text(), bytes in 1..200_usize) {
        for vocabulary in vocabularies() {
            let expected = Backtrack::new(vocabulary, text.as_bytes()).run();
            prop_assert_eq!(spread::in_stretches(vocabulary, text.as_bytes(), bytes, 2), expected);
        }
    }

    #[test]
    fn the_rest_of_a_text_on_threads_counts_as_its_pieces(
        text in hard_text(), share in 0.0..1.0, limit in prop_oneof![Just(u64::MAX), 0..200_u64]
    ) {
        prop_assert!(rest_is_its_pieces(&*o200k().expect("embedded"), &text, share, limit));
        prop_assert!(rest_is_its_pieces(&*cl100k().expect("embedded"), &text, share, limit));
    }
}

fn rest_is_its_pieces<S: Split>(bpe: &Bpe<S>, text: &str, share: f64, limit: u64) -> bool {
    let mut counts = Vec::new();
    bpe.each_piece(text.as_bytes(), |from, _, tokens| {
        counts.push((from, tokens));
        true
    });
    let rest = &counts[(counts.len() as f64 * share) as usize..];
    let (at, expected) = (rest[0].0, rest.iter().map(|(_, tokens)| tokens).sum::<u64>());
    let found = spread::count_rest::<S>(bpe.pieces(), text.as_bytes(), at, limit, 2);
    if expected <= limit { found == expected } else { found > limit && found <= expected }
}

#[test]
fn long_texts_count_as_their_pieces_do_alone() {
    let spaced = |bytes: Vec<u8>, every| {
        bytes.chunks(every).map(|word| String::from_utf8_lossy(word).into_owned() + " ").collect::<String>()
    };
    let letters = || String::from_utf8_lossy(&noise(7, 200_000, 26)).into_owned();
    let texts = [
        letters(),
        spaced(noise(3, 200_000, 26), 11),
        spaced(noise(4, 200_000, 20), 900) + &letters() + "\n\n" + &"a".repeat(150_000),
        "one two three ".repeat(8_000) + &spaced(noise(5, 200_000, 26), 13) + "   ",
        "中文字あ".repeat(20_000),
        letters().replace("qu", "Qu'll").replace('z', "\u{301}"),
    ];
    for text in &texts {
        for (vocabulary, (name, ends)) in
            vocabularies().iter().zip([("o200k_base", ends::<O200k>(text)), ("cl100k_base", ends::<Cl100k>(text))])
        {
            let starts = [0].into_iter().chain(ends.iter().copied());
            let pieces = starts.zip(&ends).map(|(from, &to)| &text.as_bytes()[from..to]);
            let expected: u64 = pieces.map(|piece| merge::encode_long(vocabulary, piece).len() as u64).sum();
            let counter = encoding(name).expect("it is embedded");
            assert_eq!(count(name, text), expected);
            assert_eq!(counter.count_all(&["a", text, text]).as_deref(), Ok(&[1, expected, expected][..]));
            assert_eq!(count_many(&*counter, &[text.as_str(); 3]).as_deref(), Ok(&[expected; 3][..]));
            assert_eq!(counter.fits(text, expected), Ok(true));
            assert_eq!(counter.fits(text, expected - 1), Ok(false));
        }
    }
}
