//! Changes to a message that leave everything else of it alone.

use std::collections::BTreeMap;

use serde_json::Value;

use super::node::Key;
use super::path::{Path, Step};

/// One change. Paths are those of the message as it came in, also when several edits meet in one list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Put `text` in the place of what stands at `at`.
    Text {
        /// Where.
        at: Path,
        /// The new text.
        text: String,
    },
    /// Take the list element or the entry at `at` away.
    Remove {
        /// What.
        at: Path,
    },
}

impl Edit {
    /// Where the change is.
    #[must_use]
    pub const fn at(&self) -> &Path {
        match self {
            Self::Text { at, .. } | Self::Remove { at } => at,
        }
    }
}

/// Edits of one message, sorted by where they go, for code that copies along the path.
#[derive(Debug, Default)]
pub struct EditTree<'a> {
    /// The new text of this very value.
    pub text: Option<&'a str>,
    /// Whether this very value goes.
    pub is_removed: bool,
    /// The edits further inside.
    pub inside: BTreeMap<Step, EditTree<'a>>,
}

impl<'a> EditTree<'a> {
    /// Sort `edits`. Of several edits of one place the last counts; removal of an outer value covers what is inside.
    #[must_use]
    pub fn new(edits: impl IntoIterator<Item = &'a Edit>) -> Self {
        let mut root = Self::default();
        for edit in edits {
            let mut tree = &mut root;
            for step in edit.at().steps() {
                tree = tree.inside.entry(*step).or_default();
            }
            match edit {
                Edit::Text { text, .. } => tree.text = Some(text),
                Edit::Remove { .. } => tree.is_removed = true,
            }
        }
        root
    }

    /// The edits at element `index` of this list.
    #[must_use]
    pub fn index(&self, index: usize) -> Option<&Self> {
        self.inside.get(&Step::Index(u32::try_from(index).ok()?))
    }

    /// The entries that have edits.
    pub fn keys(&self) -> impl Iterator<Item = (Key, &Self)> {
        self.inside.iter().filter_map(|(step, tree)| match step {
            Step::Key(key) => Some((*key, tree)),
            Step::Index(_) => None,
        })
    }
}

/// The message with the edits made. A path that leads nowhere changes nothing.
#[must_use]
pub fn apply(message: &Value, edits: &[Edit]) -> Value {
    edited(message, &EditTree::new(edits))
}

fn edited(value: &Value, tree: &EditTree<'_>) -> Value {
    if let Some(text) = tree.text {
        return Value::String(text.to_owned());
    }
    match value {
        Value::Array(list) => list
            .iter()
            .enumerate()
            .filter_map(|(index, item)| match tree.index(index) {
                None => Some(item.clone()),
                Some(tree) if tree.is_removed => None,
                Some(tree) => Some(edited(item, tree)),
            })
            .collect(),
        Value::Object(object) => {
            let mut copy = object.clone();
            for (key, tree) in tree.keys() {
                if tree.is_removed {
                    copy.shift_remove(key.text());
                } else if let Some(inner) = copy.get_mut(key.text()) {
                    *inner = edited(inner, tree);
                }
            }
            Value::Object(copy)
        }
        _ => value.clone(),
    }
}
