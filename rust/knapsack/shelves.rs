//! Shelves: things by density, roughly, in one pass and without sorting.

/// The tokens of things between one density and another, the densest first.
///
/// A key is the bits of a density, flipped: the bits of a number that is not negative are ordered as the numbers are, so
/// the key of the densest is least.
pub(crate) struct Shelves {
    /// The key of the densest.
    first: u64,
    tokens: [u64; Self::N],
}

impl Shelves {
    pub const N: usize = 1 << 10;
    /// 64 shelves for each halving of the density; what is thinner than 2^-16 of the densest is on the last.
    const SHIFT: u32 = f64::MANTISSA_DIGITS - 1 - 6;

    /// Empty shelves for keys from `first` on.
    pub fn new(first: u64) -> Self {
        Self { first, tokens: [0; Self::N] }
    }

    pub fn add(&mut self, key: u64, tokens: u64) {
        let at = self.of(key);
        self.tokens[at] = self.tokens[at].saturating_add(tokens);
    }

    /// The shelf of a key.
    #[inline]
    pub fn of(&self, key: u64) -> usize {
        ((key.saturating_sub(self.first) >> Self::SHIFT) as usize).min(Self::N - 1)
    }

    /// The least key on a shelf.
    pub fn start(&self, at: usize) -> u64 {
        self.first.saturating_add((at as u64) << Self::SHIFT)
    }

    /// The first shelf that does not fit with all before it, and the tokens of those.
    pub fn fitting(&self, left: u64) -> (usize, u64) {
        let mut taken = 0_u64;
        for (shelf, tokens) in self.tokens.iter().enumerate() {
            match taken.checked_add(*tokens).filter(|sum| *sum <= left) {
                Some(sum) => taken = sum,
                None => return (shelf, taken),
            }
        }
        (Self::N, taken)
    }

    /// The first shelf and the one after the last of those around shelf `at` that hold `enough` tokens on either side of it.
    pub fn around(&self, at: usize, enough: u64) -> (usize, usize) {
        let (mut first, mut end) = (at, at + 1);
        let mut held = 0_u64;
        while first > 0 && held < enough {
            first -= 1;
            held = held.saturating_add(self.tokens[first]);
        }
        held = 0;
        while end < Self::N && held < enough {
            held = held.saturating_add(self.tokens[end]);
            end += 1;
        }
        (first, end)
    }
}
