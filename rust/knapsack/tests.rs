//! Greedy and the solvers against brute force and a plain dynamic program.

use proptest::prelude::*;

use super::*;

/// The largest value of any choice, by trying them all.
fn brute_force(classes: &[Vec<Candidate>], budget: u64) -> u64 {
    let Some((class, rest)) = classes.split_first() else { return 0 };
    let without = brute_force(rest, budget);
    let with = class.iter().filter_map(|one| Some(one.value + brute_force(rest, budget.checked_sub(one.weight)?)));
    with.fold(without, u64::max)
}

/// The largest value of any choice, by a table over all budgets.
fn plain_table(classes: &[Vec<Candidate>], budget: u64) -> u64 {
    let mut best = vec![0_u64; budget as usize + 1];
    for class in classes {
        let before = best.clone();
        for one in class {
            for room in one.weight..=budget {
                let value = before[(room - one.weight) as usize] + one.value;
                best[room as usize] = best[room as usize].max(value);
            }
        }
    }
    best[budget as usize]
}

/// The choice holds what it says, within the budget and the bound, and is settled.
fn assert_sound(classes: &[Vec<Candidate>], budget: u64, solution: &Solution) {
    assert_eq!(solution.picks.len(), classes.len());
    let (mut weight, mut value) = (0, 0);
    for (class, pick) in classes.iter().zip(&solution.picks) {
        if let Some(option) = *pick {
            weight += class[option as usize].weight;
            value += class[option as usize].value;
        }
    }
    assert_eq!((weight, value), (solution.weight, solution.value));
    assert!(weight <= budget, "{weight} > {budget}");
    assert!(solution.bound >= value, "{} < {value}", solution.bound);
}

/// No class can be shown fuller for free, and no two classes can trade forms so that the earlier has the fuller one.
fn assert_settled(classes: &[Vec<Candidate>], budget: u64, solution: &Solution) {
    let held = |index: usize| solution.picks[index].map_or(usize::MAX, |option| option as usize);
    let form = |index: usize, option: usize| classes[index].get(option).copied().unwrap_or_default();
    let slack = budget - solution.weight;
    for index in 0..classes.len() {
        let now = form(index, held(index));
        for option in 0..classes[index].len().min(held(index)) {
            let fuller = form(index, option);
            let is_free = fuller.value >= now.value && fuller.weight <= now.weight + slack;
            assert!(!is_free, "class {index} could be shown as {option}: {classes:?} {budget} {solution:?}");
        }
        for later in index + 1..classes.len() {
            let (a, b) = (held(index), held(later));
            let exists = |class: &[Candidate], option: usize| option == usize::MAX || option < class.len();
            if a <= b || !exists(&classes[index], b) || !exists(&classes[later], a) {
                continue;
            }
            let difference = |index: usize| {
                let (full, short) = (form(index, b), form(index, a));
                (i128::from(full.weight) - i128::from(short.weight), i128::from(full.value) - i128::from(short.value))
            };
            assert!(
                difference(index) != difference(later),
                "classes {index} and {later} should trade: {classes:?} {budget} {solution:?}"
            );
        }
    }
}

/// Sound, settled, and proven to be worth `best`.
fn assert_best(classes: &[Vec<Candidate>], budget: u64, solution: &Solution, best: u64) {
    assert_sound(classes, budget, solution);
    assert_settled(classes, budget, solution);
    assert_eq!(solution.value, best);
    assert!(solution.is_exact());
}

fn one(weight: u64, value: u64) -> Candidate {
    Candidate { weight, value }
}

fn wholes(candidates: &[Candidate]) -> Vec<Vec<Candidate>> {
    candidates.iter().map(|&candidate| vec![candidate]).collect()
}

fn solve_zero_one(candidates: &[Candidate], budget: u64, limits: Limits) -> Solution {
    zero_one(candidates, budget, limits).unwrap_or_else(|error| panic!("{error}"))
}

fn solve_choices(classes: &[Vec<Candidate>], budget: u64, limits: Limits) -> Solution {
    choose(classes, budget, limits).unwrap_or_else(|error| panic!("{error}"))
}

/// Small figures, so that ties, zeros and duplicates are common.
fn any_candidate() -> impl Strategy<Value = Candidate> {
    prop_oneof![
        3 => (0..12_u64, 0..12_u64).prop_map(|(weight, value)| one(weight, value)),
        2 => (1..200_u64, 0..200_u64).prop_map(|(weight, value)| one(weight, value)),
        1 => (1..200_u64).prop_map(|weight| one(weight, weight)),
        1 => (1..100_u64).prop_map(|weight| one(weight, weight + 20)),
        1 => Just(one(7, 5)),
    ]
}

/// A share of all that is there, and now and then nothing, everything or more.
fn any_share() -> impl Strategy<Value = f64> {
    prop_oneof![1 => Just(0.0), 8 => 0.0..1.0, 1 => 0.95..1.05]
}

fn budget_of(classes: &[Vec<Candidate>], share: f64) -> u64 {
    let all: u64 = classes.iter().map(|class| class.iter().map(|one| one.weight).max().unwrap_or(0)).sum();
    (all as f64 * share) as u64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn zero_one_is_brute_force(candidates in prop::collection::vec(any_candidate(), 0..15), share in any_share()) {
        let classes = wholes(&candidates);
        let budget = budget_of(&classes, share);
        let solution = solve_zero_one(&candidates, budget, Limits::default());
        assert_best(&classes, budget, &solution, brute_force(&classes, budget));
    }

    #[test]
    fn choices_are_brute_force(
        classes in prop::collection::vec(prop::collection::vec(any_candidate(), 0..4), 0..9), share in any_share(),
    ) {
        let budget = budget_of(&classes, share);
        let solution = solve_choices(&classes, budget, Limits::default());
        assert_best(&classes, budget, &solution, brute_force(&classes, budget));
    }

    #[test]
    fn a_larger_budget_is_never_worth_less(
        classes in prop::collection::vec(prop::collection::vec(any_candidate(), 0..4), 0..12), share in any_share(),
    ) {
        let budget = budget_of(&classes, share);
        let mut before = 0;
        for budget in budget..budget + 12 {
            let value = solve_choices(&classes, budget, Limits::default()).value;
            prop_assert!(value >= before);
            before = value;
        }
    }

    #[test]
    fn a_limit_still_gives_a_choice_and_a_bound(
        classes in prop::collection::vec(prop::collection::vec(any_candidate(), 0..4), 0..9),
        share in any_share(), max_states in 0..40_u64,
    ) {
        let budget = budget_of(&classes, share);
        let limits = Limits { max_states, deadline: None };
        let solution = solve_choices(&classes, budget, limits);
        let best = brute_force(&classes, budget);
        assert_sound(&classes, budget, &solution);
        assert_settled(&classes, budget, &solution);
        prop_assert!(solution.bound >= best, "the bound is proven: {} < {}", solution.bound, best);
        prop_assert!(solution.value >= greedy(&classes, budget).value, "never behind the textbook rule");
        let firsts: Vec<Candidate> = classes.iter().filter_map(|class| class.first().copied()).collect();
        let solution = solve_zero_one(&firsts, budget, limits);
        assert_sound(&wholes(&firsts), budget, &solution);
        prop_assert!(solution.bound >= brute_force(&wholes(&firsts), budget));
    }

    #[test]
    fn greedy_is_the_textbook_rule(
        classes in prop::collection::vec(prop::collection::vec(any_candidate(), 0..4), 0..30), share in any_share(),
    ) {
        let budget = budget_of(&classes, share);
        let mut order: Vec<usize> = (0..classes.len()).filter(|&index| !classes[index].is_empty()).collect();
        // Stable, and by exact fractions.
        order.sort_by(|&a, &b| {
            let (a, b) = (classes[a][0], classes[b][0]);
            (b.value * a.weight.max(1)).cmp(&(a.value * b.weight.max(1)))
        });
        let mut left = budget;
        let mut picks = vec![None; classes.len()];
        for index in order {
            if let Some(option) = classes[index].iter().position(|one| one.weight <= left) {
                left -= classes[index][option].weight;
                picks[index] = Some(option as u32);
            }
        }
        let solution = greedy(&classes, budget);
        assert_sound(&classes, budget, &solution);
        prop_assert_eq!(solution.picks, picks);
    }
}

/// So many that partial choices are joined with what comes next, with duplicates among them.
fn many() -> impl Strategy<Value = Vec<Candidate>> {
    let candidate = prop_oneof![
        6 => (1..200_u64, 1..2_000_u64).prop_map(|(weight, value)| one(weight, value + 10 * weight)),
        2 => (1..60_u64).prop_map(|weight| one(2 * weight, 29 * weight)),
        1 => Just(one(37, 540)),
        1 => (0..3_u64, 0..3_u64).prop_map(|(weight, value)| one(weight, value)),
    ];
    prop::collection::vec(candidate, 60..160)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn many_agree_with_a_table(candidates in many(), share in 0.02..0.9) {
        let classes = wholes(&candidates);
        let budget = budget_of(&classes, share);
        let solution = solve_zero_one(&candidates, budget, Limits::default());
        assert_best(&classes, budget, &solution, plain_table(&classes, budget));
    }

    #[test]
    fn many_renditions_agree_with_a_table(candidates in many(), share in 0.02..0.9, parts in 2..6_u64) {
        let forms = |one: &Candidate| {
            let short = Candidate { weight: one.weight / parts + 1, value: one.value / 2 };
            vec![*one, short, Candidate { weight: one.weight / (2 * parts), value: one.value / 4 }]
        };
        let classes: Vec<Vec<Candidate>> = candidates.iter().map(forms).collect();
        let budget = budget_of(&classes, share);
        let solution = solve_choices(&classes, budget, Limits::default());
        assert_best(&classes, budget, &solution, plain_table(&classes, budget));
    }
}

/// The families of the literature: (name, weight and value from two draws in 0..range).
type Family = (&'static str, fn(u64, u64, u64) -> Candidate);
const FAMILIES: [Family; 8] = [
    ("uncorrelated", |range, a, b| one(a + 1, b % range + 1)),
    ("weakly correlated", |range, a, b| one(a + 1, (a + 1 + b % (range / 5 + 1)).saturating_sub(range / 10).max(1))),
    ("strongly correlated", |range, a, _| one(a + 1, a + 1 + range / 10)),
    ("inverse strongly correlated", |range, a, _| one(a + 1 + range / 10, a + 1)),
    ("almost strongly correlated", |range, a, b| one(a + 1, a + 1 + range / 10 + b % (range / 250 + 1))),
    ("subset sum", |_, a, _| one(a + 1, a + 1)),
    ("even odd", |_, a, _| one(2 * (a / 2) + 2, 2 * (a / 2) + 3)),
    ("all equal", |range, _, _| one(range / 3 + 1, 5)),
];

/// A fixed sequence of draws (the multiplier and increment are Knuth's for MMIX).
struct Draws(u64);

impl Draws {
    fn below(&mut self, range: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % range
    }
}

#[test]
fn the_families_agree_with_a_table() {
    for (name, family) in FAMILIES {
        for (n, range) in [(1, 10), (3, 100), (20, 50), (60, 200), (200, 60)] {
            for seed in 0..2 {
                let mut draws = Draws(seed * 1000 + n);
                let candidates: Vec<Candidate> =
                    (0..n).map(|_| family(range, draws.below(range), draws.below(range))).collect();
                let classes = wholes(&candidates);
                for share in [0.05, 0.2, 0.5, 0.9] {
                    let budget = budget_of(&classes, share);
                    let solution = solve_zero_one(&candidates, budget, Limits::default());
                    assert_sound(&classes, budget, &solution);
                    assert_eq!(solution.value, plain_table(&classes, budget), "{name} n={n} seed={seed} {share}");
                    assert!(solution.is_exact(), "{name} n={n} seed={seed} {share}");
                    assert_eq!(solve_choices(&classes, budget, Limits::default()).value, solution.value);
                }
            }
        }
    }
}

#[test]
fn renditions_of_the_families_agree_with_a_table() {
    for (name, family) in FAMILIES {
        for (n, range) in [(2, 10), (20, 50), (60, 200), (200, 60)] {
            let mut draws = Draws(n);
            let classes: Vec<Vec<Candidate>> = (0..n)
                .map(|_| {
                    let full = family(range, draws.below(range), draws.below(range));
                    let fidelity = 5 + draws.below(5);
                    let short = one(full.weight / 3 + 1, full.value * fidelity / 10);
                    let summary = one(full.weight / 10 + 1, full.value * fidelity / 20);
                    vec![full, short, summary]
                })
                .collect();
            for share in [0.05, 0.2, 0.5, 0.9] {
                let budget = budget_of(&classes, share);
                let solution = solve_choices(&classes, budget, Limits::default());
                assert_sound(&classes, budget, &solution);
                assert_eq!(solution.value, plain_table(&classes, budget), "{name} n={n} {share}");
                assert!(solution.is_exact(), "{name} n={n} {share}");
            }
        }
    }
}

#[test]
fn of_duplicates_the_earliest_are_kept() {
    let classes = vec![vec![one(10, 7), one(4, 4)]; 6];
    let solution = solve_choices(&classes, 38, Limits::default());
    assert_eq!(solution.picks, [Some(0), Some(0), Some(1), Some(1), Some(1), Some(1)]);
    assert_eq!(solve_zero_one(&[one(10, 7); 6], 35, Limits::default()).picks[..4], [Some(0), Some(0), Some(0), None]);
    assert_eq!(greedy(&[one(10, 7); 6], 35).picks[..4], [Some(0), Some(0), Some(0), None]);
}

#[test]
fn of_duplicates_the_last_goes_where_a_swap_is_the_best() {
    let figures = [(100, 70), (1, 4), (7, 1), (7, 5), (7, 5), (7, 10), (7, 5), (7, 5), (74, 107), (2, 164), (140, 39)];
    let candidates = figures.map(|(weight, value)| one(weight, value));
    let solution = solve_zero_one(&candidates, 348, Limits::default());
    assert_settled(&wholes(&candidates), 348, &solution);
    assert_eq!(solution.value, 409);
}

#[test]
fn a_form_below_the_hull_goes_to_the_earlier_class_too() {
    let classes = [vec![one(16, 36), one(7, 5)], vec![one(3, 9), one(119, 113)], vec![one(9, 7), one(7, 5)]];
    let solution = solve_choices(&classes, 10, Limits::default());
    assert_eq!(solution.picks, [Some(1), Some(0), None]);
}

#[test]
fn what_is_worth_nothing_is_taken_where_there_is_room() {
    let candidates = [one(5, 0), one(0, 0), one(10, 9), one(0, 4), one(3, 0), one(9, 0)];
    let solution = solve_zero_one(&candidates, 16, Limits::default());
    assert_eq!(solution.picks, [Some(0), Some(0), Some(0), Some(0), None, None]);
    assert_eq!((solution.weight, solution.value), (15, 13));
}

#[test]
fn figures_at_the_ends_of_the_range_are_answered() {
    let huge = [one(u64::MAX, 3), one(u64::MAX, 4), one(5, 1), one(u64::MAX - 1, 1)];
    for budget in [0, 5, 1 << 53] {
        let solution = solve_zero_one(&huge, budget, Limits::default());
        assert_eq!(solution.value, u64::from(budget >= 5));
        assert_eq!(solve_choices(&wholes(&huge), budget, Limits::default()).picks, solution.picks);
        assert_eq!(greedy(&huge, budget).value, solution.value);
    }
    assert!(zero_one(&huge, u64::MAX, Limits::default()).is_err(), "a budget beyond 2^53 that does not hold all");
    assert!(choose(&huge, u64::MAX, Limits::default()).is_err());
    assert_eq!(solve_zero_one(&huge[..1], u64::MAX, Limits::default()).value, 3);
    assert_eq!(solve_choices(&[huge[..1].to_vec()], u64::MAX, Limits::default()).value, 3);
    let near = 1 << 52;
    let large: Vec<Candidate> = (0..40).map(|n| one(near - n, (1 << 47) + n)).collect();
    let solution = solve_zero_one(&large, 2 * near, Limits::default());
    assert_eq!(solution.value, (1 << 48) + 39 + 38);
    let too_much = [one(1, 1 << 53), one(1, 1)];
    for error in [zero_one(&too_much, 1, Limits::default()), choose(&too_much, 1, Limits::default())] {
        assert!(error.is_err_and(|error| error.to_string().contains("9007199254740993")));
    }
}

#[test]
fn a_deadline_that_has_passed_gives_the_best_so_far() {
    let mut draws = Draws(1);
    let candidates: Vec<Candidate> = (0..1000).map(|_| FAMILIES[2].1(1000, draws.below(1000), 0)).collect();
    let limits = Limits { max_states: u64::MAX, deadline: Some(Instant::now()) };
    let solution = solve_zero_one(&candidates, 100_000, limits);
    assert!(solution.value > 0 && solution.bound > solution.value && !solution.is_exact());
    let best = solve_zero_one(&candidates, 100_000, Limits::default());
    assert!(best.value <= solution.bound && best.value >= solution.value);
}
