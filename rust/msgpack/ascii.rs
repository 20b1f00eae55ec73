//! Whether a text is ASCII, for texts of all lengths.

/// As `is_ascii` of slices, which looks at up to 63 bytes one by one: here the last words overlap those before them, so that no
/// loop ends where a processor does not expect it but the one over whole blocks.
#[inline]
#[must_use]
pub fn is_ascii(text: &[u8]) -> bool {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let bits = match text.len() {
        33.. => blocks(text),
        17..=32 => words::<16>(text),
        8..=16 => words::<8>(text),
        4..=7 => words::<4>(text),
        _ => text.iter().fold(0, |bits, byte| bits | u64::from(*byte)),
    };
    bits & HIGH == 0
}

/// The bits that are set in the words of the first and the last `N` bytes.
#[inline]
fn words<const N: usize>(text: &[u8]) -> u64 {
    let bits = |end: Option<&[u8; N]>| {
        let Some(end) = end else { return u64::MAX };
        let (words, rest) = end.as_chunks::<8>();
        let bits = words.iter().fold(0, |bits, word| bits | u64::from_ne_bytes(*word));
        rest.as_chunks::<4>().0.iter().fold(bits, |bits, word| bits | u64::from(u32::from_ne_bytes(*word)))
    };
    bits(text.first_chunk()) | bits(text.last_chunk())
}

/// The bits that are set in the words of a text of at least 32 bytes.
#[inline]
fn blocks(text: &[u8]) -> u64 {
    let mut lanes = [0; 4];
    for block in text.as_chunks::<32>().0 {
        for (lane, word) in lanes.iter_mut().zip(block.as_chunks().0) {
            *lane |= u64::from_ne_bytes(*word);
        }
    }
    lanes.iter().fold(0, |bits, lane| bits | lane) | words::<32>(text)
}
