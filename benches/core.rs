//! Kernels for those who work on them: `cargo bench`. What users gain is in the Python benches beside this file.

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use holdall::knapsack::{Candidate, Limits, choose, greedy, zero_one};
use holdall::pack::shorten::{shortened, summarise};
use holdall::score::{Decay, Quantiser, Recency, value};
use holdall::tokens::encoding;

/// Instances per size: what is timed is their mean, since one instance says little of a search.
const N_INSTANCES: u64 = 24;

/// A fixed sequence of draws (the multiplier and increment are Knuth's for MMIX).
struct Draws(u64);

impl Draws {
    /// In 0..1.
    fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.share() * n as f64) as u64
    }
}

/// Messages as conversations have them: 20 to 2,000 tokens, priorities of four types, fading with age.
fn conversation(n: u64, seed: u64) -> Vec<Vec<Candidate>> {
    let mut draws = Draws(seed);
    draws.share();
    let decay: Decay = Recency::default().over([0, n.cast_signed()]);
    let messages: Vec<(u64, f64)> = (0..n)
        .map(|turn| {
            let tokens = (20.0 * (draws.share() * 4.6).exp()) as u64;
            let weight = [0.3, 0.6, 0.7, 0.8][draws.below(4) as usize];
            let relevance = 0.1 + 0.9 * draws.share();
            (tokens, value(weight * relevance * decay.at(turn.cast_signed()), tokens, 0.5, 1.0))
        })
        .collect();
    let quantiser = Quantiser::new(messages.iter().map(|&(_, value)| value));
    messages
        .iter()
        .map(|&(tokens, value)| {
            [(1, 1.0), (3, 0.6), (10, 0.3)]
                .map(|(part, fidelity)| Candidate {
                    weight: tokens / part + u64::from(part > 1),
                    value: quantiser.units(value * fidelity),
                })
                .to_vec()
        })
        .collect()
}

/// Tokens and value rise together: the family that is hardest to prove.
fn strongly_correlated(n: u64, seed: u64) -> Vec<Vec<Candidate>> {
    let mut draws = Draws(seed);
    draws.share();
    (0..n).map(|_| 1 + draws.below(1_000)).map(|weight| vec![Candidate { weight, value: weight + 100 }]).collect()
}

/// An instance and a budget of 5, 20 or 50 percent of it.
fn budgeted(classes: Vec<Vec<Candidate>>, seed: u64) -> (Vec<Vec<Candidate>>, u64) {
    let all: u64 = classes.iter().filter_map(|class| class.first()).map(|one| one.weight).sum();
    (classes, all * [5, 20, 50][(seed % 3) as usize] / 100)
}

fn firsts(classes: &[Vec<Candidate>]) -> Vec<Candidate> {
    classes.iter().filter_map(|class| class.first().copied()).collect()
}

fn solvers(criterion: &mut Criterion) {
    let limits = Limits::default();
    let mut group = criterion.benchmark_group("knapsack");
    for n in [100, 1_000, 10_000] {
        let instances: Vec<_> = (0..N_INSTANCES).map(|seed| budgeted(conversation(n, seed), seed)).collect();
        let wholes: Vec<_> = instances.iter().map(|(classes, budget)| (firsts(classes), *budget)).collect();
        for (whole, budget) in &wholes {
            // Two ways to the same optimum, neither behind the textbook rule.
            let (one, two) = (zero_one(whole, *budget, limits), choose(whole, *budget, limits));
            let (Ok(one), Ok(two)) = (one, two) else { panic!("the instances are within the limits") };
            assert!(one.is_exact() && one.value == two.value && one.value >= greedy(whole, *budget).value);
        }
        let mut next = wholes.iter().cycle();
        group.bench_function(BenchmarkId::new("0-1", n), |bencher| {
            let one = || next.next().cloned().unwrap_or_default();
            bencher.iter_batched_ref(
                one,
                |(whole, budget)| black_box(zero_one(whole, *budget, limits)),
                BatchSize::SmallInput,
            );
        });
        let mut next = instances.iter().cycle();
        group.bench_function(BenchmarkId::new("choices of 3", n), |bencher| {
            let one = || next.next().cloned().unwrap_or_default();
            bencher.iter_batched_ref(
                one,
                |(all, budget)| black_box(choose(all, *budget, limits)),
                BatchSize::SmallInput,
            );
        });
        let mut next = wholes.iter().cycle();
        group.bench_function(BenchmarkId::new("greedy", n), |bencher| {
            let one = || next.next().cloned().unwrap_or_default();
            bencher.iter_batched_ref(one, |(whole, budget)| black_box(greedy(whole, *budget)), BatchSize::SmallInput);
        });
    }
    let hard: Vec<_> = (0..N_INSTANCES)
        .map(|seed| budgeted(strongly_correlated(1_000, seed), seed))
        .map(|(classes, budget)| (firsts(&classes), budget))
        .collect();
    let mut next = hard.iter().cycle();
    group.sample_size(20).bench_function("0-1 strongly correlated/1000", |bencher| {
        let one = || next.next().cloned().unwrap_or_default();
        bencher.iter_batched_ref(
            one,
            |(whole, budget)| black_box(zero_one(whole, *budget, limits)),
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

/// 20,000 words in sentences of 5 to 20, with the repetitions that topics bring.
fn prose() -> String {
    let mut draws = Draws(7);
    let mut text = String::new();
    let mut n_words = 0;
    while n_words < 20_000 {
        let length = 5 + draws.below(16);
        for n in 0..length {
            let share = draws.share();
            let word = (share * share * 3_000.0) as u64;
            text.push_str(if n == 0 { "The " } else { " " });
            text.push_str(["deploy", "invoice", "table", "lock", "worker"][(word % 5) as usize]);
            text.push_str(&(word / 5).to_string());
        }
        text.push_str(if draws.below(4) == 0 { ".\n" } else { ". " });
        n_words += length;
    }
    text
}

fn forms(criterion: &mut Criterion) {
    let text = prose();
    let Ok(counter) = encoding("o200k_base") else { panic!("o200k_base is embedded") };
    let Ok(tokens) = counter.count(&text) else { panic!("the embedded counters count everything") };
    let mut group = criterion.benchmark_group("shorten 20,000 words");
    group.bench_function("count", |bencher| bencher.iter(|| black_box(counter.count(&text))));
    group.bench_function("head and tail", |bencher| bencher.iter(|| black_box(shortened(&text, tokens, &*counter))));
    group.bench_function("summary", |bencher| bencher.iter(|| black_box(summarise(&[&text], 1_000, &*counter))));
    group.finish();
}

criterion_group! { name = core; config = Criterion::default().sample_size(50); targets = solvers, forms }
criterion_main!(core);
