//! Dot products of many rows with one query, compiled for wider registers too and the same to the last bit with them.
#![allow(clippy::inline_always, reason = "what is not inlined is not compiled again for wider registers")]

/// Partial sums kept side by side: enough to hide the latency of an addition in 128-bit and in 256-bit registers.
const LANES: usize = 32;

/// An entry of a row and of a query that can be multiplied.
pub trait Product: Copy {
    /// What it is multiplied with.
    type Query: Copy;
    /// What the products are summed as.
    type Sum;
    /// The dot product of a row with a query of its length.
    fn dot(row: &[Self], query: &[Self::Query]) -> Self::Sum;
}

impl Product for f32 {
    type Query = f32;
    type Sum = f32;

    /// No fused multiply-add, and one order of additions: a score does not depend on the machine.
    #[inline(always)]
    fn dot(row: &[f32], query: &[f32]) -> f32 {
        let (row_chunks, row_rest) = row.as_chunks::<LANES>();
        let (query_chunks, query_rest) = query.as_chunks::<LANES>();
        let mut sums = [0.0_f32; LANES];
        for (row, query) in row_chunks.iter().zip(query_chunks) {
            for ((sum, a), b) in sums.iter_mut().zip(row).zip(query) {
                *sum += a * b;
            }
        }
        let mut total = 0.0;
        for (a, b) in row_rest.iter().zip(query_rest) {
            total += a * b;
        }
        let mut width = LANES / 2;
        while width > 0 {
            let (low, high) = sums.split_at_mut(width);
            for (low, high) in low.iter_mut().zip(high) {
                *low += *high;
            }
            width /= 2;
        }
        total + sums[0]
    }
}

impl Product for i8 {
    type Query = i16;
    type Sum = i32;

    /// Wraps where the sum of the magnitudes is above `i32::MAX`, which `Query` sees to.
    #[inline(always)]
    fn dot(row: &[i8], query: &[i16]) -> i32 {
        let products = row.iter().zip(query).map(|(a, b)| i32::from(*a) * i32::from(*b));
        products.fold(0, i32::wrapping_add)
    }
}

#[inline(always)]
fn each<'a, T: Product + 'a, C>(
    rows: impl Iterator<Item = (&'a [T], C)>,
    query: &[T::Query],
    mut act: impl FnMut(C, T::Sum),
) {
    for (row, of) in rows {
        act(of, T::dot(row, query));
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn each_avx2<'a, T: Product + 'a, C>(
    rows: impl Iterator<Item = (&'a [T], C)>,
    query: &[T::Query],
    act: impl FnMut(C, T::Sum),
) {
    each(rows, query, act);
}

/// Give `act` the dot product of `query` with each of `rows` in turn, and what came with the row.
pub fn each_dot<'a, T: Product + 'a, C>(
    rows: impl Iterator<Item = (&'a [T], C)>,
    query: &[T::Query],
    act: impl FnMut(C, T::Sum),
) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        #[allow(unsafe_code, reason = "compiled for a processor that has AVX2: a fifth of the time per row")]
        // SAFETY: the processor was just asked for the one feature that the function needs.
        unsafe {
            each_avx2(rows, query, act);
        }
        return;
    }
    each(rows, query, act);
}
