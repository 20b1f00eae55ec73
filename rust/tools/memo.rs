//! Tools that were read before, by their JSON.

use std::sync::{Arc, Mutex};

use xxhash_rust::xxh3::xxh3_128;

use super::{Step, Tool, read};
use crate::Result;
use crate::chat::{Known, Node, locked};

/// A worker sees the same few hundred again and again.
static KNOWN: Mutex<Known<Arc<Tool>>> = Mutex::new(Known::new(2048));

impl Tool {
    /// As `read`, but a tool of the same JSON as one that was read before is that one, with all that is kept with it. Also
    /// whether there was one.
    ///
    /// # Errors
    /// As of `read`.
    pub fn read_once<N: Node>(node: &N, index: usize) -> Result<(Arc<Self>, bool)> {
        read::with_json(node, index, |json, may_repeat_keys| {
            let hash = xxh3_128(json.as_bytes());
            let known = locked(&KNOWN).get(hash);
            // The hash is no defence against an adversary.
            if let Some(tool) = known.filter(|tool| tool.text(Step::Full) == Some(json)) {
                return Ok((tool, true));
            }
            let tool = Arc::new(Self::of(json, may_repeat_keys, node, index)?);
            locked(&KNOWN).put(hash, Arc::clone(&tool));
            Ok((tool, false))
        })
    }
}
