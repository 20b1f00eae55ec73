//! A structural hash, so that what was worked out for a message can be kept by its content.

use std::sync::Mutex;

use xxhash_rust::xxh3::xxh3_128;

use super::fault::Fault;
use super::json::Fuel;
use super::known::{Known, locked};
use super::node::{Kind, Node};
use crate::Result;

/// Fingerprints by passing hash: 6 MB at the most.
static KNOWN: Mutex<Known<u128>> = Mutex::new(Known::new(1 << 16));

/// Longer texts enter as their own hash, so that they are read once and not copied.
const COPIED_BYTES: usize = 240;

/// Hashes one message after another through one buffer.
///
/// Two values have the same fingerprint if and only if they have the same shape, order, keys, texts and scalars (but for
/// xxh3's chance of a collision: it is no defence against an adversary). True and 1 differ, 1 and 1.0 differ, and the key
/// order counts, because it reaches the wire.
#[derive(Debug, Default)]
pub struct Fingerprinter(Vec<u8>);

impl Fingerprinter {
    /// The fingerprint of message `index`, the same in every process. Where the node has a passing hash, the fingerprint of a
    /// message that was seen before costs that hash and a look-up, however long its texts are.
    ///
    /// # Errors
    /// `Error::Message` when the value is nested too deep. What JSON does not know counts by its type's name alone.
    pub fn hash<N: Node>(&mut self, index: usize, node: &N) -> Result<u128> {
        let passing = node.passing_hash();
        if let Some(known) = passing.and_then(|hash| locked(&KNOWN).get(hash)) {
            return Ok(known);
        }
        self.0.clear();
        self.feed(node, &mut Fuel::default(), 0).map_err(|fault| fault.of(index))?;
        let fingerprint = xxh3_128(&self.0);
        if let Some(hash) = passing {
            locked(&KNOWN).put(hash, fingerprint);
        }
        Ok(fingerprint)
    }

    fn feed<N: Node>(&mut self, node: &N, fuel: &mut Fuel, depth: usize) -> Result<(), Fault> {
        fuel.spend(depth)?;
        match node.kind() {
            Kind::Null => self.0.push(b'n'),
            Kind::Bool | Kind::Number => self.text(b'#', &node.scalar().unwrap_or_default()),
            Kind::Text => self.text(b's', &node.text().unwrap_or_default()),
            Kind::List => {
                self.0.push(b'[');
                for item in node.items() {
                    self.feed(&item, fuel, depth + 1)?;
                }
                self.0.push(b']');
            }
            Kind::Object => {
                self.0.push(b'{');
                for (key, value) in node.entries() {
                    self.text(b'k', &key.text().unwrap_or_default());
                    self.feed(&value, fuel, depth + 1)?;
                }
                self.0.push(b'}');
            }
            Kind::Other => self.text(b'?', &node.type_name()),
        }
        Ok(())
    }

    fn text(&mut self, tag: u8, text: &str) {
        if text.len() > COPIED_BYTES {
            self.0.push(tag | 0x80);
            self.0.extend_from_slice(&xxh3_128(text.as_bytes()).to_le_bytes());
        } else {
            self.0.push(tag);
            self.0.push(text.len() as u8);
            self.0.extend_from_slice(text.as_bytes());
        }
    }
}
