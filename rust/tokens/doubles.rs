//! What is known of two neighbouring bytes, by a table.

use super::vocab::{Id, NONE};

/// Two neighbouring bytes.
#[derive(Clone, Copy)]
pub(super) struct Double {
    /// What they merge into, `NONE` where nothing.
    pub(super) merged: Id,
    /// The earliest merge of the second alone with anything that ends in the first.
    pub(super) taken_left: Id,
    /// The earliest merge of the first alone with anything that begins with the second.
    pub(super) taken_right: Id,
}

/// All of them. Until the earliest merges are found they are 0, before which nothing comes.
#[derive(Default)]
pub(super) struct Doubles(Vec<Double>);

#[inline]
fn place(first: u8, second: u8) -> usize {
    usize::from(first) << 8 | usize::from(second)
}

impl Doubles {
    pub(super) fn new() -> Self {
        Self(vec![Double { merged: NONE, taken_left: 0, taken_right: 0 }; 1 << 16])
    }

    #[inline]
    pub(super) fn at(&self, first: u8, second: u8) -> Double {
        self.0[place(first, second)]
    }

    pub(super) fn put(&mut self, first: u8, second: u8, merged: Id) {
        self.0[place(first, second)].merged = merged;
    }

    /// Find the earliest merges that can take a byte from its neighbour: of tokens with their bytes and how many are the left half's,
    /// none of which comes before its halves.
    pub(super) fn find_firsts<'a>(&mut self, merges: impl Iterator<Item = (Id, &'a [u8], usize)>) {
        for double in &mut self.0 {
            (double.taken_left, double.taken_right) = (NONE, NONE);
        }
        for (id, token, width) in merges {
            let (takes_left, takes_right) = (token.len() - width == 1, width == 1);
            // Most take neither: their look-up would be for nothing.
            if takes_left || takes_right {
                let double = &mut self.0[place(token[width - 1], token[width])];
                if takes_left {
                    double.taken_left = double.taken_left.min(id);
                }
                if takes_right {
                    double.taken_right = double.taken_right.min(id);
                }
            }
        }
    }
}
