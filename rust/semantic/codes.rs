//! Vectors in a byte for each float, and how far that can be off: a scan of a quarter of the memory that misses nothing.

/// The largest magnitude of a code: -128 is left out, so that codes are symmetric.
const MOST_CODE: f64 = i8::MAX as f64;
const MOST_QUERY_CODE: f64 = i16::MAX as f64;

/// What the float kernel may be off from the true dot product, for each addition it does in a row, relative to the norms.
const ROUNDING: f64 = f32::EPSILON as f64;

/// What belongs to the codes of one row.
#[derive(Debug, Clone, Copy)]
pub struct Coded {
    /// Codes times this is the row at norm 1.
    scale: f64,
    /// Norm of what is missing from that, for a row of norm 1.
    error: f64,
    /// Norm of the row itself.
    pub norm: f64,
}

/// Append the codes of a row whose norm is known.
pub fn encode(row: &[f32], norm: f64, codes: &mut Vec<i8>) -> Coded {
    let most = row.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    let step = f64::from(most) / MOST_CODE;
    let mut missing = 0.0;
    codes.extend(row.iter().map(|x| {
        let x = f64::from(*x);
        let code = (x / step).round();
        missing += (x - code * step).powi(2);
        code as i8
    }));
    Coded { scale: step / norm, error: missing.sqrt() / norm, norm }
}

/// A query in codes of two bytes.
#[derive(Debug)]
pub struct Query {
    /// The sum of their magnitudes is at most `i32::MAX / 127`: no dot product with a row's codes can overflow.
    pub codes: Vec<i16>,
    scale: f64,
    error: f64,
    rounding: f64,
}

impl Query {
    /// Encode a query whose norm is known.
    #[must_use]
    pub fn new(query: &[f32], norm: f64) -> Self {
        let most = query.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        let sum: f64 = query.iter().map(|x| f64::from(x.abs())).sum();
        // Rounding adds half a code to each.
        let room = f64::from(i32::MAX) / MOST_CODE - query.len() as f64;
        let step = (f64::from(most) / MOST_QUERY_CODE).max(sum / room);
        let mut missing = 0.0;
        let codes = query.iter().map(|x| {
            let x = f64::from(*x);
            let code = (x / step).round();
            missing += (x - code * step).powi(2);
            code as i16
        });
        let codes = codes.collect();
        // In a row of the kernel's additions stand those of one lane, then the lanes and the rest.
        let additions = (query.len() / 32 + 64) as f64;
        Self { codes, scale: step / norm, error: missing.sqrt() / norm, rounding: additions * ROUNDING }
    }

    /// The least and the most that the cosine can be, as the float kernel works it out.
    #[must_use]
    pub fn bounds(&self, row: &Coded, dot: i32) -> (f64, f64) {
        let cosine = f64::from(dot) * row.scale * self.scale;
        // |a.b - a'.b'| <= |a - a'| |b| + |a'| |b - b'|
        let off = row.error + (1.0 + row.error) * self.error + self.rounding;
        (cosine - off, cosine + off)
    }
}
