//! The constants of a message's worth: what the evidence that survives on recorded conversations decides.

use crate::relevance::Spread;
use crate::score::{check_non_negative, power};
use crate::{Error, Result};

/// What [`Tuning::set`] knows; "near" is a factor of the shares that the nearest messages get.
const NAMES: [&str; 12] = [
    "recency_floor",
    "related_recency_floor",
    "relevance_floor",
    "information",
    "fidelity",
    "fidelity_power",
    "fusion",
    "nearness",
    "power",
    "near",
    "tail",
    "reach",
];

/// What a message is worth besides its type: how much age and an unrelated query leave of it, and a smaller form.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tuning {
    /// The share of its weight that the oldest message keeps where the query says nothing of it: age alone erases nothing.
    pub recency_floor: f64,
    /// The share that the oldest message keeps if it is what the query asks for most.
    pub related_recency_floor: f64,
    /// The share that a message without relevance keeps: a query about something else erases nothing.
    pub relevance_floor: f64,
    /// The share that the message which says most for its tokens keeps without relevance, others in proportion; counts
    /// where a window is cut that began before.
    pub information: f64,
    /// What a smaller form that is as large as the full one would be worth of it.
    pub fidelity: f64,
    /// Exponent of the share of the tokens that a smaller form has.
    pub fidelity_power: f64,
    /// What the caller's own scores of relevance weigh beside the lexical ones.
    pub fusion: f64,
    /// How much each standard deviation of those scores counts once relevance is spread: a factor of e^this.
    pub nearness: f64,
    /// How lexical scores become relevance.
    pub spread: Spread,
}

impl Default for Tuning {
    /// What a query asks for is hardly worse for its age: a floor of 0.6 for it too lost old evidence (BEAM at 8,000 tokens
    /// .84 instead of .86). It is below 1 so that of two that say the same the newer is kept. A higher floor of relevance
    /// floods the window (`LoCoMo` .82 at 0.05, .83 at 0.01). Smaller forms worth more crowd out evidence in full: 0.9 and
    /// 0.25 cost a fifth of the evidence kept of long messages (BEAM at 4,000 tokens .58 instead of .79).
    fn default() -> Self {
        Self {
            recency_floor: 0.6,
            related_recency_floor: 0.98,
            relevance_floor: 0.005,
            information: 0.0,
            fidelity: 0.7,
            fidelity_power: 0.75,
            fusion: 0.25,
            nearness: 0.15,
            spread: Spread::default(),
        }
    }
}

impl Tuning {
    /// The constants of a window that is cut for what nobody has asked yet: what says more for its tokens stays, and age
    /// counts little. After a whole talk of cuts at 4,000 tokens, this kept .20 of the evidence of `LoCoMo` where the
    /// defaults kept .13 and a sliding window .19.
    #[must_use]
    pub fn stable() -> Self {
        Self { information: 1.0, recency_floor: 0.9, related_recency_floor: 0.9, ..Self::default() }
    }

    /// Change one constant by its name.
    ///
    /// # Errors
    /// `Error::UnknownName`, with the names there are; `Error::Argument` for a value out of range.
    pub fn set(&mut self, name: &str, value: f64) -> Result<()> {
        let value = check_non_negative(name, value)?;
        let slot = match name {
            "recency_floor" => &mut self.recency_floor,
            "related_recency_floor" => &mut self.related_recency_floor,
            "relevance_floor" => &mut self.relevance_floor,
            "information" => &mut self.information,
            "fidelity" => &mut self.fidelity,
            "fidelity_power" => &mut self.fidelity_power,
            "fusion" => &mut self.fusion,
            "nearness" => &mut self.nearness,
            "power" => &mut self.spread.power,
            "near" => {
                self.spread.kernel = Spread::default().kernel.map(|share| share * value);
                return Ok(());
            }
            "tail" => &mut self.spread.tail,
            "reach" => {
                self.spread.reach = value as usize;
                return Ok(());
            }
            _ => {
                let known = NAMES.map(str::to_owned).to_vec();
                return Err(Error::UnknownName { what: "constant", name: name.to_owned(), known });
            }
        };
        *slot = value;
        Ok(())
    }

    /// What a form of `tokens` tokens is worth of what has `full`.
    #[must_use]
    pub fn fidelity(&self, tokens: u64, full: u64) -> f64 {
        let share = (tokens.max(1) as f64 / full.max(1) as f64).min(1.0);
        self.fidelity * power(share, self.fidelity_power)
    }

    /// What age and the query leave of a message: `recency` and `relevance` in 0 to 1, `floor` the share that it keeps
    /// without relevance. What the query asks for and what it does not fade apart.
    #[must_use]
    pub fn standing(&self, recency: f64, relevance: f64, floor: f64) -> f64 {
        let related = relevance * Self::floored(self.related_recency_floor, recency);
        related + (1.0 - relevance) * floor * Self::floored(self.recency_floor, recency)
    }

    /// A share of 0 to 1 that is never below the floor.
    #[must_use]
    pub fn floored(floor: f64, share: f64) -> f64 {
        floor + (1.0 - floor) * share
    }
}

#[cfg(test)]
mod tests {
    use super::{NAMES, Tuning};

    #[test]
    fn every_name_changes_its_constant_and_no_other_name_any() {
        for name in NAMES {
            let mut tuning = Tuning::default();
            tuning.set(name, 0.123).expect(name);
            assert_ne!(tuning, Tuning::default(), "{name}");
            assert!(tuning.set(name, f64::NAN).is_err() && tuning.set(name, -1.0).is_err(), "{name}");
        }
        assert!(Tuning::default().set("powers", 1.0).is_err());
    }

    #[test]
    fn age_takes_next_to_nothing_from_what_the_query_asks_for() {
        let tuning = Tuning::default();
        let old_and_new = |relevance| [0.0, 1.0].map(|recency| tuning.standing(recency, relevance, 0.5));
        let [old, new] = old_and_new(1.0);
        assert!((new - 1.0).abs() < 1e-12 && old < new && old > 0.97);
        let [old, new] = old_and_new(0.0);
        assert!((new - 0.5).abs() < 1e-12 && (old - 0.5 * tuning.recency_floor).abs() < 1e-12);
    }

    #[test]
    fn with_equal_floors_age_and_relevance_are_factors() {
        let tuning = Tuning::stable();
        for (recency, relevance) in [(0.1, 0.0), (0.5, 0.3), (0.9, 1.0)] {
            let product = Tuning::floored(0.9, recency) * Tuning::floored(0.2, relevance);
            assert!((tuning.standing(recency, relevance, 0.2) - product).abs() < 1e-12);
        }
    }

    #[test]
    fn a_smaller_form_is_worth_less() {
        let tuning = Tuning::default();
        assert!(tuning.fidelity(10, 100) < tuning.fidelity(50, 100));
        assert!(tuning.fidelity(200, 100) < 1.0);
    }
}
