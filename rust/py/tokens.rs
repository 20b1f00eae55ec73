//! The binding of `tokens`.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PySlice, PyString, PyTuple, PyType};

use super::callers;
use super::seen::Seen;
use crate::tokens::{self, Counter, Figures, Remembering};
use crate::{Error, Result};

/// From this many bytes on, counting takes long enough to let other threads run: letting go costs 50 ns.
const DETACH_BYTES: usize = 2048;

/// What a string that was seen costs beside its characters: a slot of the table and the head of the object.
const SEEN_BYTES: usize = 80;

/// Counts tokens: the embedded encodings, any tiktoken encoding, or any callable.
#[pyclass(frozen, module = "holdall")]
pub(crate) struct Tokenizer {
    counter: Arc<Remembering>,
    /// Before the counter's own memory, which goes by the text.
    seen: Seen,
    source: Source,
}

/// What a tokenizer was made of, and is made of again in another process.
enum Source {
    Encoding(String),
    Tiktoken(Py<PyAny>),
    Callable(Py<PyAny>),
}

/// How a tokenizer's memory of counts has served.
#[pyclass(frozen, get_all, eq, module = "holdall")]
#[derive(Clone, PartialEq)]
pub(crate) struct CacheInfo {
    /// Counts that were remembered.
    hits: u64,
    /// Counts that had to be made.
    misses: u64,
    /// Texts remembered now.
    entries: u64,
    /// Memory that they hold.
    bytes: u64,
}

#[pymethods]
impl CacheInfo {
    fn __repr__(&self) -> String {
        let Self { hits, misses, entries, bytes } = self;
        format!("CacheInfo(hits={hits}, misses={misses}, entries={entries}, bytes={bytes})")
    }
}

#[pymethods]
impl Tokenizer {
    #[new]
    fn new(name: &str) -> Result<Self> {
        Ok(Self::made(tokens::encoding(name)?, Source::Encoding(name.to_owned())))
    }

    /// Take the encoding of a model, for example "gpt-4o", "openai/gpt-5-mini" or "ft:gpt-4.1:org".
    #[classmethod]
    fn for_model(_class: &Bound<'_, PyType>, name: &str) -> Result<Self> {
        Self::new(tokens::encoding_of_model(name)?)
    }

    /// Count as a `tiktoken.Encoding` does by `encode_ordinary`.
    #[classmethod]
    fn from_tiktoken(_class: &Bound<'_, PyType>, encoding: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self::made(callers::of_tiktoken(encoding)?, Source::Tiktoken(encoding.clone().unbind())))
    }

    /// Count with a function of the caller's, which must give the same number for the same text.
    #[classmethod]
    #[pyo3(signature = (count, margin = 0.0))]
    fn from_callable(_class: &Bound<'_, PyType>, count: &Bound<'_, PyAny>, margin: f64) -> PyResult<Self> {
        Ok(Self::made(callers::of_callable(count, margin)?, Source::Callable(count.clone().unbind())))
    }

    /// Tokens of `text`. From 2 KiB on the GIL is released; long text that is hard to merge is shared by all cores.
    fn count(&self, py: Python<'_>, text: &Bound<'_, PyString>) -> PyResult<u64> {
        self.count_text(py, text)
    }

    /// Tokens of each text, in order; long work is shared by all cores, with the GIL released.
    fn count_many(&self, py: Python<'_>, texts: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
        if texts.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err("texts must be an iterable of str, not one str; use count"));
        }
        let mut strings = Vec::with_capacity(texts.len().unwrap_or(0));
        for (at, text) in texts.try_iter()?.enumerate() {
            strings.push(text?.cast_into::<PyString>().map_err(|error| {
                PyTypeError::new_err(format!("texts[{at}] must be str, not {}", kind_of(&error.into_inner())))
            })?);
        }
        let mut counts = self.seen.get_all(&strings);
        let unseen: Vec<usize> = (0..counts.len()).filter(|&at| counts[at].is_none()).collect();
        let held = unseen.iter().map(|&at| text_of(&strings[at])).collect::<PyResult<Vec<_>>>()?;
        let texts: Vec<&str> = held.iter().map(AsRef::as_ref).collect();
        let counter = &*self.counter;
        let afresh = if counter.calls_back() || texts.iter().map(|text| text.len()).sum::<usize>() < DETACH_BYTES {
            tokens::count_many(counter, &texts)?
        } else {
            py.detach(|| tokens::count_many(counter, &texts))?
        };
        for (&at, &count) in unseen.iter().zip(&afresh) {
            counts[at] = Some(count);
        }
        self.seen.put_all(unseen.iter().map(|&at| &strings[at]).zip(afresh));
        Ok(counts.into_iter().flatten().collect())
    }

    /// Whether `text` has at most `limit` tokens; stops counting as soon as that is sure.
    fn fits(&self, py: Python<'_>, text: &Bound<'_, PyString>, limit: &Bound<'_, PyAny>) -> PyResult<bool> {
        let limit = limit_of(limit)?;
        self.run(py, &text_of(text)?, |counter, text| counter.fits(text, limit))
    }

    /// The longest prefix of `text` with at most `limit` tokens.
    fn cut<'py>(
        &self,
        py: Python<'py>,
        text: &Bound<'py, PyString>,
        limit: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyString>> {
        let limit = limit_of(limit)?;
        let read = text_of(text)?;
        let bytes = self.run(py, &read, |counter, text| counter.cut(text, limit))?;
        if bytes == read.len() {
            return Ok(text.clone());
        }
        let mut n_chars = read.get(..bytes).unwrap_or_default().chars().count();
        if matches!(read, Cow::Owned(_)) {
            n_chars = code_units(text)?.iter().take(n_chars).map(|(_, n)| n).sum();
        }
        Ok(text.get_item(PySlice::new(py, 0, n_chars.cast_signed(), 1))?.cast_into::<PyString>()?)
    }

    /// Name of the encoding, or of the function.
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        match &self.source {
            Source::Encoding(name) => Ok(name.clone()),
            Source::Tiktoken(encoding) => encoding.bind(py).getattr("name")?.extract(),
            Source::Callable(count) => {
                let count = count.bind(py);
                let name = count.getattr("__qualname__").and_then(|name| name.extract::<String>());
                Ok(name.unwrap_or_else(|_| kind_of(count)))
            }
        }
    }

    /// Safety share, 0 for exact counters.
    #[getter]
    fn margin(&self) -> f64 {
        self.counter.margin()
    }

    /// How the memory of counts has served since it was made or cleared.
    fn cache_info(&self) -> CacheInfo {
        let Figures { hits, misses, entries, bytes } = self.counter.figures();
        let (seen_hits, strings, characters) = self.seen.figures();
        let held = (strings * SEEN_BYTES + characters) as u64;
        CacheInfo { hits: hits + seen_hits, misses, entries, bytes: bytes + held }
    }

    /// Forget all counts.
    fn cache_clear(&self) {
        self.seen.clear();
        self.counter.clear();
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(match &self.source {
            Source::Encoding(name) => format!("Tokenizer({})", PyString::new(py, name).repr()?),
            Source::Tiktoken(encoding) => format!("Tokenizer.from_tiktoken({})", encoding.bind(py).repr()?),
            Source::Callable(_) => format!("Tokenizer.from_callable({}, margin={})", self.name(py)?, self.margin()),
        })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, class, this) = (slf.py(), slf.get_type(), slf.get());
        Ok(match &this.source {
            Source::Encoding(name) => (class.into_any(), (name,).into_pyobject(py)?),
            Source::Tiktoken(encoding) => (class.getattr("from_tiktoken")?, (encoding,).into_pyobject(py)?),
            Source::Callable(count) => (class.getattr("from_callable")?, (count, this.margin()).into_pyobject(py)?),
        })
    }
}

impl Tokenizer {
    fn made(counter: Arc<dyn Counter>, source: Source) -> Self {
        Self { counter: Arc::new(Remembering::new(counter)), seen: Seen::default(), source }
    }

    #[allow(dead_code, reason = "the packer takes it")]
    /// The tokenizer of whoever names none: o200k, one for the whole process.
    pub(crate) fn default_one(py: Python<'_>) -> PyResult<Py<Self>> {
        static DEFAULT: OnceLock<Py<Tokenizer>> = OnceLock::new();
        if DEFAULT.get().is_none() {
            let made = Py::new(py, Self::new("o200k_base")?)?;
            // Lost to another thread: that one is as good.
            let _ = DEFAULT.set(made);
        }
        DEFAULT.get().map(|made| made.clone_ref(py)).ok_or_else(|| PyTypeError::new_err("no default tokenizer"))
    }

    #[allow(dead_code, reason = "the packer takes it")]
    /// The counter behind this tokenizer, its memory of counts included.
    pub(crate) fn counter(&self) -> Arc<dyn Counter> {
        Arc::clone(&self.counter) as Arc<dyn Counter>
    }

    /// Tokens of a Python string; the quickest way there is for one that was counted before.
    pub(crate) fn count_text(&self, py: Python<'_>, text: &Bound<'_, PyString>) -> PyResult<u64> {
        if let Some(count) = self.seen.get(text) {
            return Ok(count);
        }
        let count = self.run(py, &text_of(text)?, |counter, text| counter.count(text))?;
        self.seen.put(text, count);
        Ok(count)
    }

    /// Use the counter, letting other threads run if the text is long and the counter native.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        text: &str,
        work: impl Fn(&dyn Counter, &str) -> Result<T> + Sync,
    ) -> PyResult<T> {
        let counter = &*self.counter;
        if text.len() < DETACH_BYTES || counter.calls_back() {
            Ok(work(counter, text)?)
        } else {
            Ok(py.detach(|| work(counter, text))?)
        }
    }
}

/// A Python string as UTF-8, lone surrogates as U+FFFD and paired ones as their character, as tiktoken reads it.
pub(crate) fn text_of<'a>(text: &'a Bound<'_, PyString>) -> PyResult<Cow<'a, str>> {
    if let Ok(valid) = text.to_str() {
        return Ok(Cow::Borrowed(valid));
    }
    Ok(Cow::Owned(code_units(text)?.into_iter().map(|(character, _)| character).collect()))
}

/// The characters of a string with surrogates, each with the number of Python characters it stands for.
fn code_units(text: &Bound<'_, PyString>) -> PyResult<Vec<(char, usize)>> {
    let encoded = text.call_method1(intern!(text.py(), "encode"), ("utf-32-le", "surrogatepass"))?;
    let encoded: &[u8] = encoded.extract()?;
    let (codes, _) = encoded.as_chunks::<4>();
    let mut codes = codes.iter().map(|code| u32::from_le_bytes(*code)).peekable();
    let mut found = Vec::with_capacity(codes.len());
    while let Some(code) = codes.next() {
        let low =
            if (0xd800..0xdc00).contains(&code) { codes.next_if(|code| (0xdc00..0xe000).contains(code)) } else { None };
        found.push(match low {
            Some(low) => (0x1_0000 + ((code - 0xd800) << 10 | (low - 0xdc00)), 2),
            None => (code, 1),
        });
    }
    Ok(found.into_iter().map(|(code, n)| (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), n)).collect())
}

/// A limit of tokens; one beyond every text is as good as none.
fn limit_of(limit: &Bound<'_, PyAny>) -> PyResult<u64> {
    if limit.is_instance_of::<PyBool>() || !limit.is_instance_of::<PyInt>() {
        return Err(PyTypeError::new_err(format!("limit must be an int, not {}", kind_of(limit))));
    }
    if limit.lt(0)? {
        return Err(Error::Argument(format!("limit must be at least 0, not {limit}")).into());
    }
    Ok(limit.extract().unwrap_or(u64::MAX))
}

/// The name of a value's class.
pub(super) fn kind_of(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string())
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Tokenizer>()?;
    module.add_class::<CacheInfo>()
}
