//! Lexical relevance of many texts to a query: BM25 over stemmed terms, sharpened and spread to the neighbours.
//!
//! The path of a packer: `Terms::of` once per text (kept beside its token count), `score_all` (or an `Index` that grows
//! with the conversation) per query, then `sharpen_and_spread`:
//!
//! ```
//! use holdall::relevance::{Bm25, Spread, Terms, score_all};
//! let texts = ["I moved to Lisbon in May.", "Nice!", "The rent is 900 euros.", "Bye."].map(Terms::of);
//! let scores = score_all(Bm25::default(), &texts, &Terms::of("when did she move to lisbon?"));
//! let relevance = Spread::default().apply(&scores);
//! assert_eq!(relevance[0], 1.0);
//! assert!(relevance[1] > relevance[2] && relevance[2] > relevance[3]);
//! ```
//!
//! A text without spaces costs about as much as prose; everything is linear in the text.

mod index;
mod memo;
mod runs;
mod split;
mod stem;

#[cfg(test)]
mod tests;

pub use index::{Bm25, Index, Terms, TermsBuilder, score_all};

use crate::{Error, Result};

/// How scores become relevance: raised to a power, then shared with the neighbours.
///
/// Evidence is rarely one message: what was asked before it and answered after it carries the same topic, and a topic
/// fills a stretch of the conversation. A power above 1 keeps the spread of weak matches from drowning strong ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Above 1 sharpens.
    pub power: f64,
    /// Share of its sharpened score that a text gives to those at distance 1, 2, 3, 4.
    pub kernel: [f64; 4],
    /// Share that it gives to those further away, up to `reach`: what lifts the rest of a stretch on the same topic.
    pub tail: f64,
    /// The distance at which the tail ends.
    pub reach: usize,
}

impl Default for Spread {
    /// The setting of most evidence kept over three kinds of recorded conversations, chosen on half of each.
    fn default() -> Self {
        Self { power: 2.0, kernel: [0.5, 0.3, 0.2, 0.1], tail: 0.04, reach: 20 }
    }
}

impl Spread {
    /// Relevance in 0 to 1, the largest exactly 1; all 1 where nothing matched, so that a query without
    /// effect leaves the other factors of a priority as they are.
    ///
    /// Scores that are not finite or below 0 count as 0. Time O(n), whatever the reach.
    #[must_use]
    pub fn apply(&self, scores: &[f64]) -> Vec<f64> {
        let top = scores.iter().copied().filter(|score| score.is_finite()).fold(0.0, f64::max);
        if top <= 0.0 {
            return vec![1.0; scores.len()];
        }
        let sharp: Vec<f64> = scores
            .iter()
            .map(|&score| if score.is_finite() && score > 0.0 { (score / top).powf(self.power) } else { 0.0 })
            .collect();
        let mut spread = sharp.clone();
        for (distance, share) in self.kernel.iter().enumerate().map(|(n, share)| (n + 1, *share)) {
            if share > 0.0 && distance < sharp.len() {
                add_shifted(&mut spread, &sharp, distance, share);
            }
        }
        if self.tail > 0.0 && self.reach > self.kernel.len() {
            self.add_tail(&mut spread, &sharp);
        }
        let top = spread.iter().copied().fold(0.0, f64::max);
        for own in &mut spread {
            *own /= top;
        }
        spread
    }

    /// The tail is flat, so sums up to each text give it in one pass.
    fn add_tail(&self, spread: &mut [f64], sharp: &[f64]) {
        let mut sums = Vec::with_capacity(sharp.len() + 1);
        let mut sum = 0.0;
        sums.push(sum);
        for own in sharp {
            sum += own;
            sums.push(sum);
        }
        let up_to = |end: usize| sums.get(end.min(sharp.len())).copied().unwrap_or(sum);
        let near = self.kernel.len();
        for (at, own) in spread.iter_mut().enumerate() {
            let before = up_to(at.saturating_sub(near)) - up_to(at.saturating_sub(self.reach));
            let after = up_to(at.saturating_add(self.reach).saturating_add(1)) - up_to(at + near + 1);
            // Differences of sums may fall a rounding below zero.
            *own += self.tail * (before + after).max(0.0);
        }
    }
}

/// Add to each text a share of what stands `distance` before and after it.
fn add_shifted(spread: &mut [f64], scores: &[f64], distance: usize, share: f64) {
    for (own, after) in spread.iter_mut().zip(scores.get(distance..).unwrap_or_default()) {
        *own += share * after;
    }
    for (own, before) in spread.iter_mut().skip(distance).zip(scores) {
        *own += share * before;
    }
}

/// Combine a lexical and a semantic scoring of the same texts by reciprocal rank: sum of 1 / (k + rank), largest 1.
///
/// Ranks count from 1; equal scores share the best of their ranks; a lexical score of 0 found nothing and adds nothing.
/// `k` (60 in the paper) says how little the first ranks stand out. Source: Cormack, Clarke, Büttcher, "Reciprocal rank
/// fusion outperforms Condorcet and individual rank learning methods", SIGIR 2009.
///
/// # Errors
/// `Error::Argument` when the lengths differ, or a score or `k` is not finite, or `k` is below 0.
pub fn fuse_by_rank(lexical: &[f64], semantic: &[f64], k: f64) -> Result<Vec<f64>> {
    check_pairs(lexical, semantic)?;
    if !k.is_finite() || k < 0.0 {
        return Err(Error::Argument(format!("k is {k}; give a finite number of at least 0")));
    }
    let mut fused = vec![0.0; lexical.len()];
    for (scores, floor) in [(lexical, Some(0.0)), (semantic, None)] {
        for (own, rank) in fused
            .iter_mut()
            .zip(ranks(scores))
            .zip(scores)
            .filter_map(|((own, rank), score)| floor.is_none_or(|floor| *score > floor).then_some((own, rank)))
        {
            *own += 1.0 / (k + rank as f64);
        }
    }
    let top = fused.iter().copied().fold(0.0, f64::max);
    if top > 0.0 {
        for own in &mut fused {
            *own /= top;
        }
    }
    Ok(fused)
}

fn check_pairs(lexical: &[f64], semantic: &[f64]) -> Result<()> {
    if lexical.len() != semantic.len() {
        return Err(Error::Argument(format!(
            "{} lexical scores but {} semantic ones; give one of each per text",
            lexical.len(),
            semantic.len()
        )));
    }
    if let Some(at) = lexical.iter().zip(semantic).position(|(a, b)| !(a.is_finite() && b.is_finite())) {
        return Err(Error::Argument(format!("score {at} is not finite")));
    }
    Ok(())
}

/// Combine a lexical and a semantic scoring by what they say: the lexical score as a share of the best, and `weight` x how
/// far the semantic one lies above the mean of all, as a share of the furthest.
///
/// A power sharpens what comes of it, which flattened ranks do not survive. The scale and the origin of the semantic
/// scores do not matter; what lies below their mean adds nothing, and neither do scores that are all the same.
///
/// # Errors
/// `Error::Argument` when the lengths differ or a score is not finite.
pub fn fuse_by_score(lexical: &[f64], semantic: &[f64], weight: f64) -> Result<Vec<f64>> {
    check_pairs(lexical, semantic)?;
    let mean = semantic.iter().sum::<f64>() / semantic.len().max(1) as f64;
    let above: Vec<f64> = semantic.iter().map(|score| (score - mean).max(0.0)).collect();
    let share = |scores: &[f64]| {
        let most = scores.iter().copied().fold(0.0, f64::max);
        if most > 0.0 && most.is_finite() { most.recip() } else { 0.0 }
    };
    let (lexical_share, semantic_share) = (share(lexical), weight * share(&above));
    Ok(lexical.iter().zip(&above).map(|(a, b)| a.max(0.0) * lexical_share + b * semantic_share).collect())
}

/// Deviations beyond this count as this: one outlier must not decide alone.
const MOST_DEVIATIONS: f64 = 3.0;

/// Multiply relevance by e^(`strength` x how many standard deviations the semantic score lies above the mean), at most 3 either
/// way, and let the largest be 1 again.
///
/// What is added to the lexical score before it is spread lifts whole neighbourhoods; this says which messages of one are
/// meant, and what is far from the query in meaning although it shares its words. Scores that are all the same change nothing,
/// and neither do lists of different lengths.
pub fn lean(relevance: &mut [f64], semantic: &[f64], strength: f64) {
    let n = semantic.len().max(1) as f64;
    let mean = semantic.iter().sum::<f64>() / n;
    let deviation = (semantic.iter().map(|score| (score - mean) * (score - mean)).sum::<f64>() / n).sqrt();
    if !(deviation.is_finite() && deviation > 0.0) || relevance.len() != semantic.len() {
        return;
    }
    let mut top = 0.0_f64;
    for (own, score) in relevance.iter_mut().zip(semantic) {
        let deviations = ((score - mean) / deviation).clamp(-MOST_DEVIATIONS, MOST_DEVIATIONS);
        *own *= (strength * deviations).exp();
        top = top.max(*own);
    }
    if top > 0.0 && top.is_finite() {
        for own in relevance {
            *own /= top;
        }
    }
}

/// The rank of each score, from 1 for the largest; equal scores share the best rank.
fn ranks(scores: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    let score = |at: usize| scores.get(at).copied().unwrap_or_default();
    order.sort_by(|&a, &b| score(b).total_cmp(&score(a)));
    let mut ranks = vec![0; scores.len()];
    let mut shared = 0;
    let mut last = None;
    for (place, &at) in order.iter().enumerate() {
        if last != Some(score(at)) {
            shared = place + 1;
            last = Some(score(at));
        }
        if let Some(rank) = ranks.get_mut(at) {
            *rank = shared;
        }
    }
    ranks
}
