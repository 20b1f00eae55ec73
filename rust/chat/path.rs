//! Where in a message something stands.

use std::fmt;

use super::node::Key;

/// One step into a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// Into an object.
    Key(Key),
    /// Into a list.
    Index(u32),
}

/// A way from the message to a value inside it, for example `content[2].text`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path(Vec<Step>);

impl Path {
    /// The message itself.
    #[must_use]
    pub const fn root() -> Self {
        Self(Vec::new())
    }

    /// The value at `key` of this object.
    #[must_use]
    pub fn key(&self, key: Key) -> Self {
        self.step(Step::Key(key))
    }

    /// The element `index` of this list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.step(Step::Index(u32::try_from(index).unwrap_or(u32::MAX)))
    }

    fn step(&self, step: Step) -> Self {
        let mut steps = Vec::with_capacity(self.0.len() + 1);
        steps.extend_from_slice(&self.0);
        steps.push(step);
        Self(steps)
    }

    /// The steps, outermost first.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// Whether this place is `outer` or inside it.
    #[must_use]
    pub fn is_within(&self, outer: &Self) -> bool {
        self.0.starts_with(&outer.0)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if n == 0 => f.write_str(key.text())?,
                Step::Key(key) => write!(f, ".{}", key.text())?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}
