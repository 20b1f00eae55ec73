//! Whether a text is ASCII, for texts of all lengths.

const HIGH: u64 = 0x8080_8080_8080_8080;

/// As `is_ascii` of slices, which looks at up to 63 bytes one by one: here none, the last words overlap.
#[inline]
#[must_use]
pub fn is_ascii(text: &[u8]) -> bool {
    let (Some(head), Some(tail)) = (text.first_chunk(), text.last_chunk()) else {
        return text.iter().fold(0, |all, byte| all | byte) < 0x80;
    };
    let ends = u64::from_ne_bytes(*head) | u64::from_ne_bytes(*tail);
    if text.len() <= 16 { ends & HIGH == 0 } else { (ends | any_bits(text)) & HIGH == 0 }
}

/// The bits that are set in any word of a text, but for the last bytes.
#[inline]
fn any_bits(text: &[u8]) -> u64 {
    let (blocks, rest) = text.as_chunks::<32>();
    let mut lanes = [0; 4];
    for block in blocks {
        for (lane, word) in lanes.iter_mut().zip(block.as_chunks().0) {
            *lane |= u64::from_ne_bytes(*word);
        }
    }
    let bits = rest.as_chunks().0.iter().fold(0, |bits, word| bits | u64::from_ne_bytes(*word));
    lanes.iter().fold(bits, |bits, lane| bits | lane)
}
