//! Scores against their formulas.

use proptest::prelude::*;

use super::*;

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * b.abs().max(1.0)
}

#[test]
fn the_newest_turn_is_worth_one_whatever_the_rule() {
    for rule in [Recency::Relative { rate: 2.0 }, Recency::HalfLife { turns: 5.0 }, Recency::None] {
        for turns in [vec![0], vec![0, 9], vec![-7, -3], vec![i64::MIN, i64::MAX]] {
            let newest = turns.iter().copied().max().unwrap_or(0);
            assert_eq!(rule.over(turns.clone()).at(newest).to_bits(), 1.0_f64.to_bits(), "{rule:?} {turns:?}");
        }
    }
}

#[test]
fn relative_recency_follows_the_largest_turn_and_not_the_number_of_items() {
    let decay = Recency::Relative { rate: 2.0 }.over((0..500).map(|n| n % 11));
    assert!(close(decay.at(0), (-2.0_f64).exp()));
    assert!(close(decay.at(5), (-1.0_f64).exp()));
    let late = Recency::Relative { rate: 2.0 }.over([5, 10]);
    assert!(close(late.at(5), (-1.0_f64).exp()), "turns that are not in the list count for the length");
    let long = Recency::Relative { rate: 2.0 }.over([0, 1000]);
    assert!((long.at(653) - 0.5).abs() < 1e-3, "half is left at 0.347 of the conversation");
}

#[test]
fn half_life_does_not_depend_on_the_length() {
    for newest in [5, 100, 1_000_000] {
        let decay = Recency::HalfLife { turns: 5.0 }.over([0, newest]);
        assert!(close(decay.at(newest - 5), 0.5));
        assert!(close(decay.at(newest - 10).max(0.25), 0.25));
    }
}

#[test]
fn turns_at_the_ends_of_the_range_do_not_overflow() {
    for rule in [Recency::Relative { rate: 2.0 }, Recency::HalfLife { turns: 1e-300 }, Recency::None] {
        let decay = rule.over([i64::MIN, 0, i64::MAX]);
        for turn in [i64::MIN, -1, 0, i64::MAX] {
            assert!((0.0..=1.0).contains(&decay.at(turn)), "{rule:?} {turn}");
        }
    }
    assert!(close(Recency::None.over([]).at(3), 1.0));
}

#[test]
fn bad_figures_are_refused_with_the_figure() {
    for bad in [f64::NAN, f64::INFINITY, -1.0] {
        let message = |result: Result<f64>| result.map_or_else(|error| error.to_string(), |ok| panic!("{ok}"));
        assert!(message(priority(0.5, 1.0, bad)).contains(&bad.to_string()));
        assert!(message(priority(bad, 1.0, 1.0)).contains("weight"));
        assert!(Recency::relative(bad).is_err());
        assert!(Recency::half_life(bad).is_err());
        assert!(Weights::new([("a", bad)]).is_err());
    }
    assert!(Recency::half_life(0.0).is_err());
    assert!(priority(f64::MAX, 1.0, 2.0).is_err(), "an infinite priority would win everything");
}

#[test]
fn unknown_types_weigh_little_and_near_misses_are_named() {
    let weights = Weights::default();
    for (name, meant) in [
        ("sytem_prompt", "system_prompt"),
        ("System-Prompt", "system_prompt"),
        ("recent turns", "recent_turns"),
        ("RECENT_TURN", "recent_turns"),
        ("toolresults", "tool_results"),
        ("sumary", "summary"),
    ] {
        let found = weights.of(name);
        assert_eq!((found.near_miss, found.is_known), (Some(meant), false), "{name}");
        assert!(close(found.weight, UNKNOWN_WEIGHT));
    }
    for name in ["note", "", "scratchpad", "tool", &"x".repeat(10_000)] {
        assert_eq!(weights.of(name).near_miss, None, "{name}");
    }
    for (name, weight) in PRIORITY_WEIGHTS {
        assert_eq!(weights.of(name), Weighed { weight, is_known: true, near_miss: None });
    }
    let short = Weights::new([("a", 1.0), ("abc", 0.5)]).unwrap_or_default();
    assert_eq!(short.of("b").near_miss, None, "one letter of one is another name");
}

#[test]
fn roots_agree_with_the_power() {
    for alpha in [0.0, 0.25, 0.5, 0.75, 1.0] {
        for tokens in [0, 1, 2, 17, 4096, 1_000_000] {
            let root = value(0.8, tokens, alpha, 0.5);
            assert!(close(root, 0.4 * (tokens.max(1) as f64).powf(alpha)), "{tokens}^{alpha}");
        }
    }
}

proptest! {
    #[test]
    fn the_sum_of_all_units_is_exact_as_a_float(values in prop::collection::vec(0.0..1e9_f64, 1..300), scale in -300..300_i32) {
        let values: Vec<f64> = values.iter().map(|v| v * 2.0_f64.powi(scale)).collect();
        let quantiser = Quantiser::new(values.iter().copied());
        let total: u64 = values.iter().map(|&v| quantiser.units(v)).sum();
        prop_assert!(total <= 1 << 53);
        prop_assert_eq!(quantiser.units(quantiser.value(total)), total);
        let largest = values.iter().copied().fold(0.0, f64::max);
        for &v in &values {
            let error = (quantiser.value(quantiser.units(v)) - v).abs();
            // 52 bits less the bits of n are left for each value; half a unit is lost by rounding.
            prop_assert!(error <= largest * values.len() as f64 * 2.0_f64.powi(-50), "{} off by {}", v, error);
        }
    }

    #[test]
    fn order_survives_quantisation(mut values in prop::collection::vec(0.0..1e6_f64, 2..100)) {
        values.sort_by(f64::total_cmp);
        let quantiser = Quantiser::new(values.iter().copied());
        let units: Vec<u64> = values.iter().map(|&v| quantiser.units(v)).collect();
        prop_assert!(units.is_sorted());
    }

    #[test]
    fn edit_distance_is_a_metric(a in "[ab]{0,6}", b in "[ab]{0,6}", c in "[ab]{0,6}") {
        let letters = |s: &str| s.chars().collect::<Vec<_>>();
        let distance = |x: &str, y: &str| edit_distance(&letters(x), &letters(y));
        prop_assert_eq!(distance(&a, &b), distance(&b, &a));
        prop_assert_eq!(distance(&a, &b) == 0, a == b);
        prop_assert!(distance(&a, &c) <= distance(&a, &b) + distance(&b, &c));
        prop_assert!(distance(&a, &b) <= a.len().max(b.len()));
    }
}
