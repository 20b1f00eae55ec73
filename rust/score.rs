//! Type weight x recency x relevance, and the value that the solver maximises.
//!
//! ```
//! use holdall::score::{Quantiser, Recency, Weights, priority, value};
//!
//! let weight = Weights::default().of("recent_turns").weight;
//! let decay = Recency::relative(2.0)?.over([0, 5, 10]);
//! let newest = priority(weight, decay.at(10), 1.0)?;
//! assert_eq!(newest, 0.8);
//!
//! let values = [value(newest, 400, 0.5, 1.0), value(newest, 100, 0.5, 0.7)];
//! let quantiser = Quantiser::new(values);
//! assert_eq!(quantiser.value(quantiser.units(values[0])), values[0]);
//! # Ok::<(), holdall::Error>(())
//! ```

use crate::{Error, Result};

#[cfg(test)]
mod tests;

/// What an item of each known type is worth before recency and relevance (design section 3.1).
pub const PRIORITY_WEIGHTS: [(&str, f64); 8] = [
    ("system_prompt", 1.0),
    ("current_turn", 0.95),
    ("tool_schemas", 0.9),
    ("recent_turns", 0.8),
    ("rag_documents", 0.7),
    ("tool_results", 0.6),
    ("summary", 0.5),
    ("older_history", 0.3),
];

/// Types of at least this weight are required unless the item says otherwise.
pub const REQUIRED_FROM: f64 = 0.9;

/// The weight of a type that the table does not name.
pub const UNKNOWN_WEIGHT: f64 = 0.1;

/// The longest name that is compared with the known ones; a longer one cannot be a slip of the pen.
const NEAR_MISS_LONGEST: usize = 64;

/// `value`, if it is finite and not negative.
///
/// # Errors
/// `Error::Argument` naming `what` and the figure.
pub fn check_non_negative(what: &str, value: f64) -> Result<f64> {
    if value.is_finite() && value >= 0.0 {
        // -0.0 becomes 0.0, so that equal scores have equal bits.
        Ok(value + 0.0)
    } else {
        Err(Error::Argument(format!("{what} must be a finite number of at least 0, not {value}")))
    }
}

/// A table of type weights: the known ones, or the caller's own.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    rows: Vec<(String, f64)>,
}

/// What a table says of one type name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weighed<'a> {
    /// The weight, `UNKNOWN_WEIGHT` for a name that is not in the table.
    pub weight: f64,
    /// Whether the table names the type.
    pub is_known: bool,
    /// The known name that an unknown one was probably meant to be: worth a warning.
    pub near_miss: Option<&'a str>,
}

impl Default for Weights {
    fn default() -> Self {
        Self { rows: PRIORITY_WEIGHTS.iter().map(|&(name, weight)| (name.to_owned(), weight)).collect() }
    }
}

impl Weights {
    /// A table of the caller's own; a name given twice has the later weight.
    ///
    /// # Errors
    /// `Error::Argument` if a weight is negative or not finite.
    pub fn new<S: Into<String>>(rows: impl IntoIterator<Item = (S, f64)>) -> Result<Self> {
        let mut table = Self { rows: Vec::new() };
        for (name, weight) in rows {
            let name = name.into();
            let weight = check_non_negative(&format!("the weight of {name:?}"), weight)?;
            match table.rows.iter_mut().find(|(known, _)| *known == name) {
                Some(row) => row.1 = weight,
                None => table.rows.push((name, weight)),
            }
        }
        Ok(table)
    }

    /// The names and weights, in the order given.
    pub fn rows(&self) -> impl Iterator<Item = (&str, f64)> {
        self.rows.iter().map(|(name, weight)| (name.as_str(), *weight))
    }

    /// The weight of a type, and for an unknown type the known name it nearly is.
    #[must_use]
    pub fn of(&self, name: &str) -> Weighed<'_> {
        match self.rows.iter().find(|(known, _)| known == name) {
            Some(&(_, weight)) => Weighed { weight, is_known: true, near_miss: None },
            None => Weighed { weight: UNKNOWN_WEIGHT, is_known: false, near_miss: self.near_miss(name) },
        }
    }

    /// The known name closest to `name`: equal but for case, spaces, hyphens and underscores, or at most two letters away.
    fn near_miss(&self, name: &str) -> Option<&str> {
        if name.len() > NEAR_MISS_LONGEST {
            return None;
        }
        let folded = fold(name);
        let distance = |known: &str| {
            let known = fold(known);
            let distance = edit_distance(&folded, &known);
            // Two letters of a three-letter name are another name.
            (distance <= 2 && 3 * distance <= known.len()).then_some(distance)
        };
        self.rows
            .iter()
            .filter_map(|(known, _)| distance(known).map(|d| (d, known.as_str())))
            .min_by_key(|&(d, _)| d)
            .map(|(_, known)| known)
    }
}

/// The letters of a name that carry meaning: case and separators folded away.
fn fold(name: &str) -> Vec<char> {
    name.chars().filter(|c| !matches!(c, '_' | '-' | ' ' | '.')).flat_map(char::to_lowercase).collect()
}

/// Levenshtein distance, one row at a time.
fn edit_distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, y) in row.iter_mut().skip(1).zip(b) {
            let here = (diagonal + usize::from(x != y)).min(left + 1).min(*cell + 1);
            diagonal = std::mem::replace(cell, here);
            left = here;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

/// How worth fades with age; the newest turn is always worth 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Recency {
    /// exp(-rate x age / length of the conversation): a long conversation fades as a whole.
    Relative {
        /// How fast; 2.0 halves at 0.347 of the conversation.
        rate: f64,
    },
    /// 0.5^(age / turns): independent of the length of the conversation.
    HalfLife {
        /// Turns after which half is left.
        turns: f64,
    },
    /// Age does not matter.
    None,
}

impl Default for Recency {
    fn default() -> Self {
        Self::Relative { rate: 2.0 }
    }
}

impl Recency {
    /// Fading relative to the length of the conversation.
    ///
    /// # Errors
    /// `Error::Argument` if the rate is negative or not finite.
    pub fn relative(rate: f64) -> Result<Self> {
        Ok(Self::Relative { rate: check_non_negative("rate", rate)? })
    }

    /// Fading by half every so many turns.
    ///
    /// # Errors
    /// `Error::Argument` if `turns` is not a finite number above 0.
    pub fn half_life(turns: f64) -> Result<Self> {
        if turns.is_finite() && turns > 0.0 {
            Ok(Self::HalfLife { turns })
        } else {
            Err(Error::Argument(format!("turns must be a finite number above 0, not {turns}")))
        }
    }

    /// This rule over one conversation, whose turn indices are given in any order.
    #[must_use]
    pub fn over(self, turns: impl IntoIterator<Item = i64>) -> Decay {
        let (oldest, newest) =
            turns.into_iter().fold((i64::MAX, i64::MIN), |(low, high), turn| (low.min(turn), high.max(turn)));
        if oldest > newest {
            return Decay { newest: 0, rule: Recency::None, per_turn: 0.0 };
        }
        let per_turn = match self {
            // Turn indices count from 0, so the largest is the length; for negative ones the span is.
            Self::Relative { rate } => rate / (newest.max(1).unsigned_abs().max(newest.abs_diff(oldest)) as f64),
            Self::HalfLife { turns } => turns.recip(),
            Self::None => 0.0,
        };
        Decay { newest, rule: self, per_turn }
    }
}

/// A recency rule over one conversation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decay {
    newest: i64,
    rule: Recency,
    per_turn: f64,
}

impl Decay {
    /// What is left at `turn` of the worth of the newest one: in 0..=1, and 1 for turns newer than the newest.
    #[must_use]
    pub fn at(&self, turn: i64) -> f64 {
        if turn >= self.newest {
            return 1.0;
        }
        let age = self.newest.abs_diff(turn) as f64;
        match self.rule {
            Recency::Relative { .. } => (-self.per_turn * age).exp(),
            // A half life below one over the largest number gives an infinite rate, which fades to 0 as it should.
            Recency::HalfLife { .. } => (-self.per_turn * age).exp2(),
            Recency::None => 1.0,
        }
    }
}

/// weight x recency x relevance.
///
/// # Errors
/// `Error::Argument` if the relevance or the weight is negative or not finite, or their product overflows.
pub fn priority(weight: f64, recency: f64, relevance: f64) -> Result<f64> {
    let relevance = check_non_negative("relevance_score", relevance)?;
    check_non_negative("priority", check_non_negative("weight", weight)? * recency * relevance)
}

/// priority x tokens^alpha x fidelity: what showing a group of `tokens` tokens is worth.
///
/// Unusual powers may differ in the last bit between machines; see [`power`].
#[must_use]
pub fn value(priority: f64, tokens: u64, alpha: f64, fidelity: f64) -> f64 {
    priority * power(float(tokens.max(1)), alpha) * fidelity
}

/// `value` in full of many, of priority and tokens each.
#[allow(clippy::float_cmp, reason = "as in `power`")]
pub(crate) fn values(of: impl Iterator<Item = (f64, u64)>, alpha: f64) -> Vec<f64> {
    if alpha == 0.25 {
        // The usual power without asking which it is: two at a time.
        return of.map(|(priority, tokens)| priority * power(float(tokens.max(1)), 0.25)).collect();
    }
    of.map(|(priority, tokens)| value(priority, tokens, alpha, 1.0)).collect()
}

/// `n as f64`, in one instruction where it fits a signed number.
#[must_use]
#[inline]
pub(crate) fn float(n: u64) -> f64 {
    let signed = n.cast_signed();
    if signed >= 0 { signed as f64 } else { n as f64 }
}

/// base^exponent for a base of at least 0; the usual exponents by roots, which every processor rounds alike.
#[must_use]
#[inline]
#[allow(clippy::float_cmp, reason = "the powers with an exact form are meant exactly")]
pub fn power(base: f64, exponent: f64) -> f64 {
    match exponent {
        0.0 => 1.0,
        0.25 => base.sqrt().sqrt(),
        0.5 => base.sqrt(),
        0.75 => base.sqrt() * base.sqrt().sqrt(),
        1.0 => base,
        other => base.powf(other),
    }
}

/// Turns values into integers, on a scale of a power of two that depends on the candidate set alone.
///
/// The sum of all candidates stays below 2^53, so that totals are exact, as integers and as `f64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantiser {
    /// One unit is 2^-shift.
    shift: i32,
}

/// Below this every number is one of `i64` too.
const SIGNED: f64 = (1_u64 << 62) as f64;

/// Bits that a total may take: an `f64` holds integers of 53 bits exactly; one bit is left for rounding up.
const TOTAL_BITS: i32 = 52;

impl Quantiser {
    /// The finest scale on which the sum of `values` is exact. Values that are not finite or not positive count as 0.
    #[must_use]
    pub fn new(values: impl IntoIterator<Item = f64>) -> Self {
        let (n, largest) = values.into_iter().fold((0_u64, 0.0), step);
        // largest < 2^exponent and n <= 2^bits, so n * largest < 2^(exponent + bits).
        let exponent = if largest > 0.0 { exponent_above(largest) } else { 0 };
        let bits = (u64::BITS - n.saturating_sub(1).leading_zeros()).cast_signed();
        // 2^shift must itself be a normal number; values below 2^-1000 lose their bits, which nobody can see.
        Self { shift: (TOTAL_BITS - bits - exponent).clamp(-1000, 1000) }
    }

    /// The value in units, rounded to nearest; 0 for what is not a positive number.
    #[must_use]
    #[inline]
    pub fn units(self, value: f64) -> u64 {
        // A float to integer cast saturates, and sends NaN to 0. Rounding by hand, since `round` is a call.
        let scaled = value * power_of_two(self.shift);
        if (0.0..SIGNED).contains(&scaled) {
            // One instruction, as the cast to an unsigned number is not.
            let whole = scaled as i64;
            return whole.unsigned_abs() + u64::from(scaled - whole as f64 >= 0.5);
        }
        let whole = scaled as u64;
        whole.saturating_add(u64::from(scaled - whole as f64 >= 0.5))
    }

    /// The value that a sum of units stands for.
    #[must_use]
    pub fn value(self, units: u64) -> f64 {
        units as f64 * power_of_two(-self.shift)
    }
}

/// 2^exponent, for exponents of normal numbers.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(u64::from((1023 + exponent).cast_unsigned()) << 52)
}

fn step((n, largest): (u64, f64), value: f64) -> (u64, f64) {
    // Without a branch.
    let is_larger = value > largest && value < f64::INFINITY;
    (n + u64::from(value.is_finite()), if is_larger { value } else { largest })
}

/// The smallest e with x < 2^e, for a finite positive x.
fn exponent_above(x: f64) -> i32 {
    let biased = ((x.to_bits() >> 52) & 0x7ff) as i32;
    // Subnormal numbers are below 2^-1022.
    biased - 1022
}
