//! The terms of a text, and BM25 over many of them.

use std::borrow::Borrow;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use xxhash_rust::xxh3::xxh3_64;

use super::memo::{self, Memo};
use super::runs::split;
use super::split::Sink;

/// BM25 in Lucene's form: idf = ln(1 + (n - df + .5) / (df + .5)), and tf / (tf + k1 (1 - b + b length / mean)).
///
/// The defaults kept the most evidence on recorded conversations: messages vary in length for reasons of style, so
/// length counts less than in Lucene (b .75).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bm25 {
    /// How soon repeating a term stops helping.
    pub k1: f64,
    /// How much a long text is held against it, 0 to 1.
    pub b: f64,
}

impl Default for Bm25 {
    fn default() -> Self {
        Self { k1: 1.2, b: 0.5 }
    }
}

impl Bm25 {
    fn idf(n: usize, df: usize) -> f64 {
        ((n as f64 - df as f64 + 0.5) / (df as f64 + 0.5)).ln_1p()
    }

    fn saturate(self, tf: f64, length: f64, mean: f64) -> f64 {
        tf / (tf + self.k1 * (1.0 - self.b + self.b * length / mean))
    }
}

/// The low bits of a packed term hold how often it occurs, the high ones which term it is.
const COUNT_BITS: u64 = 0xffff;

/// The terms of one text with their counts: what a caller keeps beside the text's token count.
///
/// A term is 48 bits of its hash, so no dictionary is needed and texts may be compared that were split at different
/// times. 50,000 distinct terms share a hash with a chance of 4 in a million; then two words count as one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    /// Ascending: hash in the high 48 bits, count in the low 16.
    packed: Box<[u64]>,
    length: u32,
    signature: Signature,
}

/// Which terms a text may have: four bits in five rule a term out at once where a message is short.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Signature([u64; 4]);

impl Signature {
    const fn place(term: u64) -> (usize, u64) {
        ((term >> 62) as usize, 1 << (term >> 56 & 63))
    }

    fn add(&mut self, term: u64) {
        let (word, bit) = Self::place(term);
        if let Some(bits) = self.0.get_mut(word) {
            *bits |= bit;
        }
    }

    fn may_have(&self, term: u64) -> bool {
        let (word, bit) = Self::place(term);
        self.0.get(word).is_some_and(|bits| bits & bit != 0)
    }
}

impl Terms {
    /// Split `text` into terms.
    ///
    /// ```
    /// use holdall::relevance::Terms;
    /// assert_eq!(Terms::of("the users paying"), Terms::of("User pays"));
    /// assert!(Terms::of("of the").is_empty());
    /// ```
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self::of_parts([(text, 1)])
    }

    /// Split several texts into one set of terms, each text counted the given number of times.
    #[must_use]
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = (&'a str, u16)>) -> Self {
        let mut terms = TermsBuilder::default();
        for (text, times) in parts {
            terms.add(text, times);
        }
        terms.finish()
    }

    /// Terms in the text, repeats included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length as usize
    }

    /// Whether the text has no term at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packed.is_empty()
    }

    /// Bytes held on the heap, for bounded caches.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.packed.len() * size_of::<u64>()
    }

    /// How often the term occurs.
    fn count(&self, term: u64) -> u64 {
        if !self.signature.may_have(term) {
            return 0;
        }
        let at = self.packed.partition_point(|packed| *packed < term);
        self.packed.get(at).filter(|packed| *packed & !COUNT_BITS == term).map_or(0, |packed| packed & COUNT_BITS)
    }

    /// Each distinct term as 48 bits of its hash, ascending, and how often it occurs (65,535 at most).
    pub fn pairs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.iter().map(|(term, count)| (term >> 16, count))
    }

    fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.packed.iter().map(|packed| (packed & !COUNT_BITS, packed & COUNT_BITS))
    }
}

/// The hash of a term, 0 kept for stop words.
pub(super) fn term_of(term: &[u8]) -> u64 {
    (xxh3_64(term) & !COUNT_BITS).max(COUNT_BITS + 1)
}

/// Collects the terms of several texts.
#[derive(Debug, Default)]
pub struct TermsBuilder {
    hashes: Vec<u64>,
}

struct Hashing<'a> {
    memo: &'a mut Memo,
    hashes: &'a mut Vec<u64>,
    times: usize,
}

impl Sink for Hashing<'_> {
    fn term(&mut self, term: &[u8]) {
        self.push(term_of(term));
    }

    fn word(&mut self, word: &[u8]) {
        if let Some(term) = self.memo.term(word) {
            self.push(term);
        }
    }

    #[inline]
    fn plain(&mut self, text: &[u8], from: usize, to: usize) {
        if let Some(term) = self.memo.plain_term(text, from, to) {
            self.push(term);
        }
    }
}

impl Hashing<'_> {
    fn push(&mut self, term: u64) {
        for _ in 0..self.times {
            self.hashes.push(term);
        }
    }
}

impl TermsBuilder {
    /// Add the terms of `text`, each counted `times` times.
    pub fn add(&mut self, text: &str, times: u16) {
        let hashes = &mut self.hashes;
        memo::with(|memo, scratch| split(text, scratch, &mut Hashing { memo, hashes, times: times.into() }));
    }

    /// The terms so far; the builder is empty after it and keeps its room.
    pub fn finish(&mut self) -> Terms {
        self.hashes.sort_unstable();
        let length = u32::try_from(self.hashes.len()).unwrap_or(u32::MAX);
        let mut signature = Signature::default();
        let pack = |equal: &[u64]| {
            let term = *equal.first()?;
            signature.add(term);
            Some(term | (equal.len() as u64).min(COUNT_BITS))
        };
        let packed = self.hashes.chunk_by(|a, b| a == b).filter_map(pack).collect();
        self.hashes.clear();
        Terms { packed, length, signature }
    }
}

/// Score every text against the query, without an index: for texts whose terms the caller keeps.
///
/// One score per text, 0 where no term of the query occurs. Time O(texts x query terms x log terms).
#[must_use]
pub fn score_all<T: Borrow<Terms>>(bm25: Bm25, texts: &[T], query: &Terms) -> Vec<f64> {
    let mut scores = vec![0.0; texts.len()];
    let total: u64 = texts.iter().map(|terms| u64::from(terms.borrow().length)).sum();
    let mean = (total as f64 / texts.len().max(1) as f64).max(1.0);
    for (term, weight) in query.iter() {
        let mut found = Vec::new();
        found.extend(texts.iter().zip(&mut scores).filter_map(|(terms, score)| {
            let tf = terms.borrow().count(term);
            (tf > 0).then(|| (score, bm25.saturate(tf as f64, f64::from(terms.borrow().length), mean)))
        }));
        let idf = weight as f64 * Bm25::idf(texts.len(), found.len());
        for (score, saturated) in found {
            *score += idf * saturated;
        }
    }
    scores
}

/// Terms are hashes already.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64(bytes);
    }
    fn write_u64(&mut self, term: u64) {
        // The table takes its bucket from the low bits, which are free in a term.
        self.0 = term | (term >> 48);
    }
}

#[derive(Debug, Clone, Copy)]
struct Posting {
    text: u32,
    tf: u32,
}

/// An inverted index that grows with the conversation: a new text costs its own terms, not those before it.
///
/// Holds 8 bytes per distinct term of each text; `truncate` gives the newest texts back.
#[derive(Debug, Default)]
pub struct Index {
    bm25: Bm25,
    postings: HashMap<u64, Vec<Posting>, BuildHasherDefault<AsIs>>,
    lengths: Vec<u32>,
    total: u64,
    removed: BTreeSet<usize>,
}

impl Index {
    /// An empty index with these parameters.
    #[must_use]
    pub fn new(bm25: Bm25) -> Self {
        Self { bm25, ..Self::default() }
    }

    /// Texts that were added, those removed since among them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether no text was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Texts that are there, for the formula.
    fn n_held(&self) -> usize {
        self.lengths.len().saturating_sub(self.removed.len())
    }

    /// Forget the `n`th text, whose terms these are. The others keep their places, and it scores 0 from now on.
    /// Time O(terms x log texts), and what moves up in each term's list.
    pub fn remove(&mut self, n: usize, terms: &Terms) {
        let Some(length) = self.lengths.get_mut(n) else { return };
        if !self.removed.insert(n) {
            return;
        }
        self.total = self.total.saturating_sub(u64::from(std::mem::take(length)));
        for (term, _) in terms.iter() {
            let Some(texts) = self.postings.get_mut(&term) else { continue };
            if let Ok(at) = texts.binary_search_by(|posting| (posting.text as usize).cmp(&n)) {
                texts.remove(at);
            }
            if texts.is_empty() {
                self.postings.remove(&term);
            }
        }
    }

    /// Add a text at the end. Time O(terms).
    pub fn push(&mut self, terms: &Terms) {
        let text = u32::try_from(self.lengths.len()).unwrap_or(u32::MAX);
        for (term, tf) in terms.iter() {
            self.postings.entry(term).or_default().push(Posting { text, tf: tf as u32 });
        }
        self.lengths.push(terms.length);
        self.total += u64::from(terms.length);
    }

    /// Forget all texts from the `n`th on. Time O(distinct terms).
    pub fn truncate(&mut self, n: usize) {
        if n < self.lengths.len() {
            self.total -= self.lengths.drain(n..).map(u64::from).sum::<u64>();
            self.removed.split_off(&n);
            self.postings.retain(|_, texts| {
                texts.truncate(texts.partition_point(|posting| (posting.text as usize) < n));
                !texts.is_empty()
            });
        }
    }

    /// How much each text says, whatever will be asked: the sum of idf over its distinct terms.
    ///
    /// Time O(postings).
    #[must_use]
    pub fn information(&self) -> Vec<f64> {
        // Summed by text in the order of the terms, not of the table: sums of floats depend on their order.
        let mut said: Vec<Vec<(u64, f64)>> = vec![Vec::new(); self.lengths.len()];
        for (term, texts) in &self.postings {
            let idf = Bm25::idf(self.lengths.len(), texts.len());
            for posting in texts {
                if let Some(own) = said.get_mut(posting.text as usize) {
                    own.push((*term, idf));
                }
            }
        }
        let sum = |mut own: Vec<(u64, f64)>| {
            own.sort_unstable_by_key(|(term, _)| *term);
            own.iter().map(|(_, idf)| idf).sum()
        };
        said.into_iter().map(sum).collect()
    }

    /// One score per text, in the order they were added; 0 where no term of the query occurs.
    #[must_use]
    pub fn scores(&self, query: &Terms) -> Vec<f64> {
        let mut scores = vec![0.0; self.lengths.len()];
        let mean = (self.total as f64 / self.n_held().max(1) as f64).max(1.0);
        for (term, weight) in query.iter() {
            let Some(texts) = self.postings.get(&term) else { continue };
            let idf = weight as f64 * Bm25::idf(self.n_held(), texts.len());
            for posting in texts {
                let at = posting.text as usize;
                if let (Some(score), Some(length)) = (scores.get_mut(at), self.lengths.get(at)) {
                    *score += idf * self.bm25.saturate(f64::from(posting.tf), f64::from(*length), mean);
                }
            }
        }
        scores
    }
}
