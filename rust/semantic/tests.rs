//! Search against a plain reading of it: every row scored in double precision, then sorted.

use proptest::prelude::*;

use super::*;
use crate::relevance::score_all;

/// Floats of a few bits, so that sums are exact and ties are true ties.
fn vectors(n: usize, dims: usize) -> impl Strategy<Value = Vec<Vec<f32>>> {
    let float = (-8_i8..=8).prop_map(|x| f32::from(x) / 4.0);
    let vector = prop::collection::vec(float, dims).prop_map(|mut vector| {
        if vector.iter().all(|x| *x == 0.0) {
            vector[0] = 1.0;
        }
        vector
    });
    prop::collection::vec(vector, n)
}

fn sorted(mut hits: Vec<Hit>, k: usize) -> Vec<Hit> {
    hits.sort_by(|a, b| b.cmp(a));
    hits.truncate(k);
    hits
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

proptest! {
    #[test]
    fn dot_search_is_the_sorted_scores(
        (rows, query) in (1_usize..80).prop_flat_map(|dims| {
            (vectors(30, dims), vectors(1, dims).prop_map(|mut one| one.remove(0)))
        }),
        k in 0_usize..40,
        removed in prop::collection::btree_set(0_i64..30, 0..12),
        allowed in prop::option::of(prop::collection::btree_set(0_i64..40, 0..20)),
    ) {
        let mut memory = Memory::new(Metric::Dot);
        for (label, row) in (0_i64..).zip(&rows) {
            memory.add(label, Some(row), "").expect("valid");
        }
        for label in &removed {
            prop_assert!(memory.remove(*label));
            prop_assert!(!memory.remove(*label));
        }
        let is_in = |label: &i64| !removed.contains(label) && allowed.as_ref().is_none_or(|all| all.contains(label));
        let hits = (0_i64..).zip(&rows).filter(|(label, _)| is_in(label));
        let hits = hits.map(|(label, row)| Hit { label, score: dot(row, &query) }).collect();
        let allowed: Option<Vec<i64>> = allowed.as_ref().map(|all| all.iter().copied().collect());
        prop_assert_eq!(memory.nearest(&query, k, allowed.as_deref()).expect("valid"), sorted(hits, k));
    }

    #[test]
    fn cosine_is_within_rounding_of_the_double(
        (rows, query) in (1_usize..80).prop_flat_map(|dims| (vectors(8, dims), vectors(1, dims))),
    ) {
        let query = &query[0];
        let mut memory = Memory::new(Metric::Cosine);
        for (label, row) in (0_i64..).zip(&rows) {
            memory.add(label, Some(row), "").expect("valid");
        }
        let hits = memory.nearest(query, 8, None).expect("valid");
        prop_assert_eq!(hits.len(), 8);
        for hit in hits {
            let row = &rows[usize::try_from(hit.label).expect("valid")];
            let cosine = dot(row, query) / (dot(row, row) * dot(query, query)).sqrt();
            prop_assert!((hit.score - cosine).abs() < 1e-6, "{} {cosine}", hit.score);
        }
    }

    #[test]
    fn texts_that_remain_score_as_if_the_others_had_never_been(
        texts in prop::collection::vec("[a-d]{1,2}( [a-d]{1,2}){0,6}", 1..20),
        removed in prop::collection::btree_set(0_usize..20, 0..15),
        query in "[a-d]{1,2}( [a-d]{1,2}){0,3}",
    ) {
        let mut memory = Memory::new(Metric::Cosine);
        for (label, text) in (0_i64..).zip(&texts) {
            memory.add(label, None, text).expect("valid");
        }
        for slot in &removed {
            memory.remove(i64::try_from(*slot).expect("valid"));
        }
        let left: Vec<usize> = (0..texts.len()).filter(|slot| !removed.contains(slot)).collect();
        let terms: Vec<Terms> = left.iter().map(|slot| Terms::of(&texts[*slot])).collect();
        let scores = score_all(Bm25::default(), &terms, &Terms::of(&query));
        let hits = left.iter().zip(scores).filter(|(_, score)| *score > 0.0);
        let hits = hits.map(|(slot, score)| Hit { label: i64::try_from(*slot).expect("valid"), score }).collect();
        prop_assert_eq!(memory.matching(&query, 30, None), sorted(hits, 30));
        prop_assert_eq!(memory.len(), left.len());
    }
}

/// Numbers that look drawn, the same each time.
fn drawn(seed: u64) -> impl FnMut() -> f32 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / 8_388_608.0 - 1.0
    }
}

/// Every row scored by the float kernel alone.
fn all_scored(metric: Metric, rows: &[Vec<f32>], query: &[f32], k: usize) -> Vec<Hit> {
    let mut hits = Vec::new();
    dot::each_dot((0_i64..).zip(rows).map(|(label, row)| (row.as_slice(), label)), query, |label, dot: f32| {
        hits.push(Hit { label, score: f64::from(dot) });
    });
    if metric == Metric::Cosine {
        let norm = |v: &[f32]| v.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
        for (hit, row) in hits.iter_mut().zip(rows) {
            hit.score = (hit.score / (norm(query) * norm(row))).clamp(-1.0, 1.0);
        }
    }
    sorted(hits, k)
}

#[test]
fn rows_left_out_by_their_bytes_are_never_among_the_best() {
    for (seed, dims) in [(1, 384), (2, 1536), (3, 7), (4, 64), (5, 33)] {
        let mut draw = drawn(seed);
        let centre: Vec<f32> = (0..dims).map(|_| draw()).collect();
        let mut row = |n: usize| -> Vec<f32> {
            match n % 4 {
                // Near each other, of different lengths, with one float that dwarfs the others, and the same twice.
                0 => centre.iter().map(|x| x + 0.01 * draw()).collect(),
                1 => centre.iter().map(|x| (x + draw()) * 1e3).collect(),
                2 => (0..dims).map(|at| if at == n % dims { 50.0 } else { draw() }).collect(),
                _ => (0..dims).map(|at| ((at * 7 + n % 12) % 5) as f32 - 1.9).collect(),
            }
        };
        let rows: Vec<Vec<f32>> = (0..400).map(&mut row).collect();
        let queries = [row(0), row(1), row(2), row(3), rows[40].clone()];
        for metric in [Metric::Cosine, Metric::Dot] {
            let mut memory = Memory::new(metric);
            for (label, row) in (0_i64..).zip(&rows) {
                memory.add(label, Some(row), "").expect("valid");
            }
            for query in &queries {
                for k in [1, 10, 300, 500] {
                    let found = memory.nearest(query, k, None).expect("valid");
                    assert_eq!(found, all_scored(metric, &rows, query, k), "{seed} {metric:?} {k}");
                }
            }
        }
    }
}

#[test]
fn bytes_leave_few_rows_to_look_at() {
    let mut draw = drawn(9);
    let mut flat = Flat::new(Metric::Cosine);
    for label in 0..5000 {
        let row: Vec<f32> = (0..384).map(|_| draw()).collect();
        flat.add(label, &row).expect("valid");
    }
    let query: Vec<f32> = (0..384).map(|_| draw()).collect();
    assert!(flat.n_candidates(&query, 10) < 100);
}

#[test]
fn removing_most_makes_the_index_anew() {
    let mut memory = Memory::new(Metric::Cosine);
    for label in 0..3000 {
        memory.add(label, None, &format!("word{label} common")).expect("valid");
    }
    for label in 0..2900 {
        assert!(memory.remove(label));
    }
    assert!(memory.texts.held.len() < 2 * LEAST_REMADE);
    assert_eq!(memory.matching("common", 500, None).len(), 100);
    assert_eq!(memory.matching("word2950", 5, None)[0].label, 2950);
    assert!(memory.matching("word100", 5, None).is_empty());
}

#[test]
fn a_label_added_again_takes_the_place_of_the_first() {
    let mut memory = Memory::new(Metric::Cosine);
    memory.add(1, Some(&[1.0, 0.0]), "apples").expect("valid");
    memory.add(2, Some(&[0.0, 1.0]), "pears").expect("valid");
    memory.add(1, None, "plums").expect("valid");
    assert_eq!(memory.len(), 2);
    assert!(memory.matching("apples", 5, None).is_empty());
    assert_eq!(memory.nearest(&[1.0, 0.0], 5, None).expect("valid").len(), 1);
    assert_eq!(memory.matching("plums", 5, None)[0].label, 1);
}

#[test]
fn a_vector_without_a_direction_is_refused_and_changes_nothing() {
    let mut memory = Memory::new(Metric::Cosine);
    memory.add(1, Some(&[1.0, 2.0]), "kept").expect("valid");
    for vector in [&[0.0, 0.0][..], &[f32::NAN, 1.0], &[f32::INFINITY, 1.0], &[f32::MAX, 1.0], &[1.0], &[]] {
        assert!(matches!(memory.add(1, Some(vector), "lost"), Err(crate::Error::Argument(_))), "{vector:?}");
        assert!(memory.nearest(vector, 1, None).is_err(), "{vector:?}");
    }
    assert_eq!(memory.matching("kept", 1, None).len(), 1);
    assert_eq!(memory.nearest(&[1.0, 2.0], 1, None).expect("valid").len(), 1);
}

#[test]
fn a_label_that_is_allowed_twice_is_found_once() {
    let mut memory = Memory::new(Metric::Dot);
    for label in 0..4 {
        memory.add(label, Some(&[1.0, label as f32]), "word").expect("valid");
    }
    let allowed = [3, 1, 3, 3, 9, 1];
    let labels = |hits: Vec<Hit>| hits.iter().map(|hit| hit.label).collect::<Vec<_>>();
    assert_eq!(labels(memory.nearest(&[0.0, 1.0], 2, Some(&allowed)).expect("valid")), [3, 1]);
    assert_eq!(labels(memory.matching("words", 9, Some(&allowed))), [1, 3]);
}

#[test]
fn an_emptied_memory_takes_vectors_of_another_length() {
    let mut memory = Memory::new(Metric::Cosine);
    memory.add(1, Some(&[1.0, 0.0]), "").expect("valid");
    memory.remove(1);
    memory.add(2, Some(&[1.0, 0.0, 0.0]), "").expect("valid");
    assert_eq!(memory.vectors().dims(), 3);
}
