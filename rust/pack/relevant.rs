//! What the history should be relevant to, and how relevant each message is.

use crate::chat::group::Group;
use crate::relevance::{Terms, fuse_by_score, lean};
use crate::{Error, Result};

use super::conversation::Packing;
use super::history::Histories;

impl Packing<'_> {
    /// The text that the history should be relevant to.
    pub(super) fn query(&self) -> String {
        if let Some(query) = self.it.query {
            return query.to_owned();
        }
        let current = self.found.current_or_last();
        let entries = current.into_iter().flat_map(Group::indices).filter_map(|index| self.it.messages.get(index));
        entries.map(|entry| entry.message.searchable()).collect::<Vec<_>>().join("\n")
    }

    /// The caller's relevance must be one score per message, whether or not it is needed this time.
    pub(super) fn check_relevance(&self) -> Result<()> {
        let Some(given) = self.it.relevance else { return Ok(()) };
        if let Some((at, score)) = given.iter().enumerate().find(|(_, score)| !(score.is_finite() && **score >= 0.0)) {
            return Err(Error::Argument(format!("relevance[{at}] must be finite and at least 0, not {score}")));
        }
        let n = self.it.messages.len();
        if given.len() != n {
            let text = format!("{} relevance scores for {n} messages; give one each", given.len());
            return Err(Error::Argument(text));
        }
        Ok(())
    }

    /// Relevance of each message, 0 to 1; none where the query says nothing of any.
    pub(super) fn score(&self, histories: &mut Histories, query: &Terms) -> Result<Vec<f64>> {
        let tuning = &self.settings.tuning;
        let mut scores = histories.scores(self.it.keys, self.it.messages, query);
        self.leave_out_required(&mut scores);
        let given = self.it.relevance.map(|given| self.optional(given));
        if let Some(given) = &given {
            scores = fuse_by_score(&scores, given, tuning.fusion)?;
        }
        if scores.iter().all(|score| *score <= 0.0) {
            return Ok(Vec::new());
        }
        let mut relevance = tuning.spread.apply(&scores);
        if let Some(given) = &given {
            lean(&mut relevance, given, tuning.nearness);
        }
        Ok(relevance)
    }

    /// The caller's own scores, without those of what must be in.
    fn optional(&self, given: &[f64]) -> Vec<f64> {
        let mut given = given.to_vec();
        self.leave_out_required(&mut given);
        given
    }

    /// What must be in has no score: the query itself would outshine what it asks for.
    fn leave_out_required(&self, scores: &mut [f64]) {
        for (group, _) in self.found.groups.iter().zip(&self.is_required).filter(|(_, is_required)| **is_required) {
            for index in group.indices() {
                if let Some(score) = scores.get_mut(index) {
                    *score = 0.0;
                }
            }
        }
    }
}
