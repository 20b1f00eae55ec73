//! Counting what is in many lists of items on all processors, before they are read one after the other.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::item::ContextItem;
use super::tokens::text_of;
use crate::tokens::{Counter, count_many};

/// Less is counted as quickly where it is read.
const LEAST_BYTES: usize = 1 << 17;
/// Items at the front of a list that say whether it is new.
const LOOKED_AT: usize = 8;

/// What an iterable holds.
pub(super) fn objects_of<'py>(items: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
    match (items.cast_exact::<PyTuple>(), items.cast::<PyList>()) {
        (Ok(tuple), _) => Ok(tuple.clone()),
        (_, Ok(list)) => Ok(list.to_tuple()),
        _ => PyTuple::new(items.py(), items.try_iter()?.collect::<PyResult<Vec<_>>>()?),
    }
}

/// Count the texts of all items whose tokens are not known, other threads running, if there are many.
pub(super) fn count_ahead(py: Python<'_>, counter: &dyn Counter, lists: &[Bound<'_, PyTuple>]) -> PyResult<()> {
    if counter.calls_back() {
        return Ok(());
    }
    let is_uncounted = |object: &Borrowed<'_, '_, PyAny>| {
        object.cast::<ContextItem>().is_ok_and(|item| item.get().uncounted(py, counter).is_some())
    };
    let (mut items, mut texts) = (Vec::new(), Vec::new());
    // A list that was counted is not gone through for nothing.
    let new = lists.iter().filter(|list| list.iter_borrowed().take(LOOKED_AT).any(|object| is_uncounted(&object)));
    for object in new.flat_map(|list| list.iter_borrowed()) {
        if let Ok(item) = object.cast::<ContextItem>()
            && let Some(text) = item.get().uncounted(py, counter)
        {
            texts.push(text_of(text)?);
            items.push(item.get());
        }
    }
    let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
    if texts.iter().map(|text| text.len()).sum::<usize>() < LEAST_BYTES {
        return Ok(());
    }
    let counts = py.detach(|| count_many(counter, &texts))?;
    for (item, tokens) in items.iter().zip(counts) {
        item.keep_count(counter, tokens);
    }
    Ok(())
}
