//! Terms, BM25 against a plain reading of its formula, and the growing index against scoring from scratch.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::index::term_of;
use super::runs::split;
use super::split::{Scratch, Sink, split_slowly};
use super::stem::stem;
use super::*;

struct Written(Vec<String>);

impl Sink for Written {
    fn term(&mut self, term: &[u8]) {
        self.0.push(String::from_utf8(term.to_vec()).expect("terms are UTF-8"));
    }
}

fn terms(text: &str) -> Vec<String> {
    let mut out = Written(Vec::new());
    split(text, &mut Scratch::default(), &mut out);
    out.0
}

#[test]
fn porter_strips_as_published() {
    let rows = [
        ("caresses", "caress"),
        ("ponies", "poni"),
        ("ties", "ti"),
        ("cats", "cat"),
        ("feed", "feed"),
        ("agreed", "agre"),
        ("plastered", "plaster"),
        ("bled", "bled"),
        ("motoring", "motor"),
        ("sing", "sing"),
        ("conflated", "conflat"),
        ("troubled", "troubl"),
        ("sized", "size"),
        ("hopping", "hop"),
        ("tanned", "tan"),
        ("falling", "fall"),
        ("hissing", "hiss"),
        ("fizzed", "fizz"),
        ("failing", "fail"),
        ("filing", "file"),
        ("happy", "happi"),
        ("sky", "sky"),
        ("relational", "relat"),
        ("conditional", "condit"),
        ("rational", "ration"),
        ("valenci", "valenc"),
        ("digitizer", "digit"),
        ("conformabli", "conform"),
        ("radicalli", "radic"),
        ("vietnamization", "vietnam"),
        ("predication", "predic"),
        ("operator", "oper"),
        ("feudalism", "feudal"),
        ("decisiveness", "decis"),
        ("hopefulness", "hope"),
        ("formaliti", "formal"),
        ("sensibiliti", "sensibl"),
        ("triplicate", "triplic"),
        ("formative", "form"),
        ("electrical", "electr"),
        ("goodness", "good"),
        ("revival", "reviv"),
        ("allowance", "allow"),
        ("inference", "infer"),
        ("airliner", "airlin"),
        ("adjustable", "adjust"),
        ("replacement", "replac"),
        ("adoption", "adopt"),
        ("activate", "activ"),
        ("effective", "effect"),
        ("probate", "probat"),
        ("rate", "rate"),
        ("cease", "ceas"),
        ("controll", "control"),
        ("roll", "roll"),
        ("syzygy", "syzygi"),
        ("by", "by"),
    ];
    for (word, expected) in rows {
        let mut stemmed = word.as_bytes().to_vec();
        stem(&mut stemmed);
        assert_eq!(String::from_utf8_lossy(&stemmed), expected, "{word}");
    }
}

/// The same, character by character.
fn terms_slowly(text: &str) -> Vec<String> {
    let mut out = Written(Vec::new());
    split_slowly(text, &mut Scratch::default(), &mut out);
    out.0
}

#[test]
fn words_are_split_wherever_a_window_ends() {
    let seams = [
        "word", "Word", "wordWord", "a-b", "a_", "-a", "a--b", "3,5", "a,b", "don't", "d'", "é", "a’b", "搜索",
        "\u{301}",
    ];
    for seam in seams {
        for before in 50..70 {
            for filling in ["x", " ", "_"] {
                for rest in ["", " ", "x", ".x", "'", "é", &"y".repeat(70), &"z ".repeat(40)] {
                    let text = format!("{}{seam}{rest}", filling.repeat(before));
                    assert_eq!(terms(&text), terms_slowly(&text), "{text:?}");
                }
            }
        }
    }
    assert_eq!(
        terms("word-word wordWord word.w 3.5"),
        ["word", "word", "wordword", "word", "word", "wordword", "word", "w", "wordw", "3", "5", "35"]
    );
}

#[test]
fn words_are_folded_and_stop_words_left_out() {
    assert_eq!(terms("The Users' CAFÉ, cafe\u{301} and ＡＢＣ!"), ["user", "cafe", "cafe", "abc"]);
    assert_eq!(terms("Caroline's dog don't we'll"), ["carolin", "dog", "don"]);
    assert!(terms("of the \t\n --- '' ...").is_empty());
    assert!(terms("").is_empty());
}

#[test]
fn identifiers_give_parts_and_whole() {
    assert_eq!(terms("getUserName"), ["get", "user", "name", "getusernam"]);
    assert_eq!(terms("get_user_name"), terms("getUserName"));
    assert_eq!(terms("HTTPServer"), ["http", "server", "httpserver"]);
    assert_eq!(terms("os.path"), ["os", "path", "ospath"]);
    assert_eq!(terms("2024-03-15"), ["2024", "03", "15", "20240315"]);
    assert_eq!(terms("1,000"), ["1", "000", "1000"]);
    assert_eq!(terms("end. Next"), ["end", "next"]);
    assert_eq!(terms("end.Next_"), ["end", "next", "endnext"]);
}

#[test]
fn scripts_without_spaces_give_pairs() {
    assert_eq!(terms("搜索网"), ["搜", "搜索", "索", "索网", "网"]);
    assert_eq!(terms("猫がいる"), ["猫", "猫が", "がい", "いる"]);
    assert_eq!(terms("ね A"), ["ね"]);
    assert_eq!(terms("한국어"), ["한국", "국어"]);
    assert_eq!(terms("用Python写"), ["用", "python", "写"]);
    assert_eq!(terms("हिन्दी में।"), ["हिन्दी", "में"]);
    assert_eq!(terms("Привет, МИР"), ["привет", "мир"]);
}

/// BM25 as its formula reads, over term strings.
fn plain_bm25(texts: &[String], query: &str) -> Vec<f64> {
    let counts: Vec<BTreeMap<String, f64>> = texts
        .iter()
        .map(|text| {
            terms(text).into_iter().fold(BTreeMap::new(), |mut counts, term| {
                *counts.entry(term).or_insert(0.0) += 1.0;
                counts
            })
        })
        .collect();
    let length = |counts: &BTreeMap<String, f64>| counts.values().sum::<f64>();
    let n = texts.len() as f64;
    let mean = (counts.iter().map(length).sum::<f64>() / n.max(1.0)).max(1.0);
    counts
        .iter()
        .map(|own| {
            terms(query)
                .iter()
                .map(|term| {
                    let df = counts.iter().filter(|counts| counts.contains_key(term)).count() as f64;
                    let tf = own.get(term).copied().unwrap_or(0.0);
                    (1.0 + (n - df + 0.5) / (df + 0.5)).ln() * tf / (tf + 1.2 * (0.5 + 0.5 * length(own) / mean))
                })
                .sum()
        })
        .collect()
}

fn close(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9)
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec("([a-eA-C_.' ]|猫|索|é|[0-2]){0,40}", 0..12)
}

proptest! {
    #[test]
    fn both_ways_of_scoring_follow_the_formula(texts in texts(), query in "([a-eA-C_. ]|猫|é){0,20}") {
        let split: Vec<Terms> = texts.iter().map(|text| Terms::of(text)).collect();
        let mut index = Index::default();
        for terms in &split {
            index.push(terms);
        }
        let query_terms = Terms::of(&query);
        let plain = plain_bm25(&texts, &query);
        prop_assert!(close(&index.scores(&query_terms), &plain));
        prop_assert!(close(&score_all(Bm25::default(), &split, &query_terms), &plain));
    }

    #[test]
    fn a_cut_index_equals_one_that_never_grew(texts in texts(), n in 0usize..12, query in "[a-e ]{0,9}") {
        let mut cut = Index::default();
        let mut small = Index::default();
        for (at, text) in texts.iter().enumerate() {
            cut.push(&Terms::of(text));
            if at < n { small.push(&Terms::of(text)); }
        }
        cut.truncate(n);
        prop_assert_eq!(cut.len(), small.len());
        prop_assert_eq!(cut.scores(&Terms::of(&query)), small.scores(&Terms::of(&query)));
    }

    #[test]
    fn windows_split_as_characters_do(
        atoms in proptest::collection::vec("[a-c]{1,9}|[A-Ba-b0-1]{1,4}|[-_.,' ]|[-_.,'\"/ \n]{1,3}|’|é|\u{301}|[猫索]{1,3}|한|\\PC|[\\x00-\\x7f]", 0..60)
    ) {
        let text = atoms.concat();
        prop_assert_eq!(terms(&text), terms_slowly(&text));
        // As hashes, through the memo: the same terms with the same counts.
        let mut hashes: Vec<u64> = terms_slowly(&text).iter().map(|term| term_of(term.as_bytes()) >> 16).collect();
        hashes.sort_unstable();
        let pairs: Vec<(u64, u64)> = hashes.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u64)).collect();
        prop_assert_eq!(Terms::of(&text).pairs().collect::<Vec<_>>(), pairs);
    }

    #[test]
    fn splitting_never_panics(text in "\\PC{0,60}|[\\x00-\\x7f]{0,60}") {
        let _ = Terms::of(&text);
    }

    #[test]
    fn spread_is_the_plain_sum(scores in proptest::collection::vec(0.0f64..9.0, 0..40), reach in 0usize..25) {
        let spread = Spread { reach, ..Spread::default() };
        let got = spread.apply(&scores);
        let top = scores.iter().copied().fold(0.0, f64::max);
        prop_assume!(top > 0.0);
        let plain: Vec<f64> = (0..scores.len()).map(|i| (0..scores.len()).map(|j| {
            let share = match i.abs_diff(j) {
                0 => 1.0,
                d if d <= 4 => spread.kernel[d - 1],
                d if d <= reach => spread.tail,
                _ => 0.0,
            };
            share * (scores[j] / top).powf(spread.power)
        }).sum()).collect();
        let most = plain.iter().copied().fold(0.0, f64::max);
        let plain: Vec<f64> = plain.iter().map(|own| own / most).collect();
        prop_assert!(close(&got, &plain));
    }
}

#[test]
fn a_query_without_effect_leaves_all_alike() {
    assert_eq!(Spread::default().apply(&[0.0, 0.0, f64::NAN]), [1.0, 1.0, 1.0]);
    assert!(Spread::default().apply(&[]).is_empty());
    assert_eq!(score_all(Bm25::default(), &[Terms::of("a dog")], &Terms::of("")), [0.0]);
}

#[test]
fn fusion_takes_ranks_not_sizes() {
    let fused = fuse_by_rank(&[9.0, 0.0, 1.0], &[-0.1, 0.9, 0.8], 60.0).expect("equal lengths");
    let raw = [1.0 / 61.0 + 1.0 / 63.0, 1.0 / 61.0, 1.0 / 62.0 + 1.0 / 62.0];
    let top = raw.iter().copied().fold(0.0, f64::max);
    assert!(close(&fused, &raw.map(|own| own / top)));
    assert!(fuse_by_rank(&[1.0], &[], 60.0).is_err());
    assert!(fuse_by_rank(&[f64::NAN], &[1.0], 60.0).is_err());
    assert!(fuse_by_rank(&[1.0], &[1.0], -1.0).is_err());
}

#[test]
fn fusion_by_score_forgets_scale_and_origin() {
    let lexical = [4.0, 0.0, 2.0];
    let fused = fuse_by_score(&lexical, &[0.1, 0.9, 0.2], 0.5).expect("equal lengths");
    assert!(close(&fused, &[1.0, 0.5, 0.5]), "{fused:?}");
    let elsewhere = fuse_by_score(&lexical, &[101.0, 109.0, 102.0], 0.5).expect("equal lengths");
    assert!(close(&fused, &elsewhere));
    assert!(close(&fuse_by_score(&lexical, &[0.3; 3], 0.5).expect("equal lengths"), &[1.0, 0.0, 0.5]));
    assert_eq!(fuse_by_score(&[0.0; 2], &[0.0, 3.0], 0.25), Ok(vec![0.0, 0.25]));
    assert_eq!(fuse_by_score(&[], &[], 0.25), Ok(vec![]));
    assert!(fuse_by_score(&[1.0], &[], 0.25).is_err());
    assert!(fuse_by_score(&[1.0], &[f64::INFINITY], 0.25).is_err());
}

#[test]
fn leaning_on_meaning_forgets_scale_and_origin_and_hears_no_single_voice() {
    let leaned = |semantic: &[f64], strength| {
        let mut relevance = vec![1.0, 0.5, 0.5];
        lean(&mut relevance, semantic, strength);
        relevance
    };
    // Deviations of -1.22, 1.22 and 0.
    let step = (0.2 * 1.5_f64.sqrt()).exp();
    assert!(close(&leaned(&[1.0, 3.0, 2.0], 0.2), &[1.0, 0.5 * step * step, 0.5 * step]));
    assert!(close(&leaned(&[1.0, 3.0, 2.0], 0.2), &leaned(&[101.0, 121.0, 111.0], 0.2)));
    for same in [&[2.0; 3][..], &[1.0, 2.0], &[1e308, 0.0, 1e308]] {
        assert_eq!(leaned(same, 0.2), [1.0, 0.5, 0.5], "{same:?}");
    }
    assert_eq!(leaned(&[1.0, 3.0, 2.0], 0.0), [1.0, 0.5, 0.5]);
    let mut many = vec![1.0; 1000];
    let mut outlier = vec![0.0; 1000];
    outlier[7] = 1.0;
    lean(&mut many, &outlier, 1.0);
    assert!(many[7] > many[0] && many[0] > (-3.1_f64).exp());
}

#[test]
fn rare_terms_inform_more_than_common_ones() {
    let mut index = Index::new(Bm25::default());
    for text in ["the red lamp", "the red lamp", "the copper harbour", "and of the"] {
        index.push(&Terms::of(text));
    }
    let said = index.information();
    assert!(said[2] > said[0]);
    assert!(close(&said[..1], &said[1..2]));
    assert!(close(&said[3..], &[0.0]));
    assert!(Index::new(Bm25::default()).information().is_empty());
}

#[test]
fn equal_scores_share_their_rank() {
    assert_eq!(ranks(&[1.0, 3.0, 3.0, 0.0]), [3, 1, 1, 4]);
}
