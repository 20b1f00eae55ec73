//! An item of the window without Python: what the packer needs to know of a candidate.

use crate::{Error, Result};

/// The known types in order of weight; `Kind` is an index into this table.
pub const TYPES: [&str; 8] = [
    "system_prompt",
    "current_turn",
    "tool_schemas",
    "recent_turns",
    "rag_documents",
    "tool_results",
    "summary",
    "older_history",
];

/// A type of item: one of `TYPES`, or `OTHER`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kind(u8);

impl Kind {
    /// The system prompt.
    pub const SYSTEM_PROMPT: Self = Self(0);
    /// What the model is asked to answer now.
    pub const CURRENT_TURN: Self = Self(1);
    /// Tool schemas.
    pub const TOOL_SCHEMAS: Self = Self(2);
    /// The last rounds.
    pub const RECENT_TURNS: Self = Self(3);
    /// Retrieved documents.
    pub const RAG_DOCUMENTS: Self = Self(4);
    /// Older tool results.
    pub const TOOL_RESULTS: Self = Self(5);
    /// A summary of what came before.
    pub const SUMMARY: Self = Self(6);
    /// Everything else that was said.
    pub const OLDER_HISTORY: Self = Self(7);
    /// A type outside the table.
    pub const OTHER: Self = Self(8);

    /// The kind that `name` stands for, `OTHER` where it is not in the table.
    #[must_use]
    pub fn of(name: &str) -> Self {
        TYPES.iter().position(|known| *known == name).map_or(Self::OTHER, |n| Self(n as u8))
    }

    /// Position in `TYPES`; `TYPES.len()` for `OTHER`.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The name, None for `OTHER`.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        TYPES.get(self.index()).copied()
    }
}

/// Refuse a relevance that cannot be compared.
///
/// # Errors
/// `Error::Argument` when it is not finite or is negative.
pub fn check_relevance(score: f64) -> Result<()> {
    if score.is_finite() && score >= 0.0 {
        return Ok(());
    }
    Err(Error::Argument(format!("relevance_score must be finite and at least 0, not {score}")))
}

#[cfg(test)]
mod tests {
    use super::{Kind, TYPES, check_relevance};

    #[test]
    fn kinds_name_themselves() {
        for name in TYPES {
            assert_eq!(Kind::of(name).name(), Some(name));
        }
        assert_eq!(Kind::of("note"), Kind::OTHER);
        assert_eq!(Kind::OTHER.name(), None);
        assert_eq!(Kind::of("older_history"), Kind::OLDER_HISTORY);
    }

    #[test]
    fn relevance_is_a_finite_number() {
        assert!(check_relevance(0.0).is_ok());
        for bad in [f64::NAN, f64::INFINITY, -0.1] {
            assert!(check_relevance(bad).is_err());
        }
    }
}
