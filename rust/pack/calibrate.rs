//! What was billed against what was counted.

use crate::{Error, Result};

/// billed = scale x counted + constant, by least squares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// Tokens billed for each token counted; at least 1, since a budget must never be exceeded.
    pub scale: f64,
    /// Tokens billed for what no request shows, such as a prompt of the provider's; at least 0.
    pub constant: f64,
    /// The largest share by which a bill exceeds the fit.
    pub worst: f64,
}

/// Fit to (counted, billed) pairs.
///
/// # Errors
/// `Error::Argument` where there are none, or one of them counts nothing.
pub fn fit(samples: &[(u64, u64)]) -> Result<Fit> {
    if samples.is_empty() {
        return Err(Error::Argument("usage must hold at least one pair of messages and billed tokens".to_owned()));
    }
    if let Some(at) = samples.iter().position(|(counted, _)| *counted == 0) {
        return Err(Error::Argument(format!("usage[{at}] counts no tokens")));
    }
    let n = samples.len() as f64;
    let mean = |of: fn(&(u64, u64)) -> u64| samples.iter().map(|pair| of(pair) as f64).sum::<f64>() / n;
    let (counted, billed) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let (mut both, mut square) = (0.0, 0.0);
    for (x, y) in samples {
        both += (*x as f64 - counted) * (*y as f64 - billed);
        square += (*x as f64 - counted).powi(2);
    }
    let free = if square > 0.0 { both / square } else { billed / counted };
    let mut scale = free.max(1.0);
    let mut constant = if square > 0.0 { billed - scale * counted } else { 0.0 };
    if constant < 0.0 {
        // A line through zero instead: nothing can cost less than nothing.
        let squares: f64 = samples.iter().map(|(x, _)| (*x as f64).powi(2)).sum();
        let products: f64 = samples.iter().map(|(x, y)| *x as f64 * *y as f64).sum();
        scale = (products / squares).max(1.0);
        constant = 0.0;
    }
    let over = |(x, y): &(u64, u64)| *y as f64 / (scale * *x as f64 + constant) - 1.0;
    let worst = samples.iter().map(over).fold(0.0, f64::max);
    Ok(Fit { scale, constant, worst })
}

#[cfg(test)]
mod tests {
    use super::fit;

    #[test]
    fn a_line_is_found_again() {
        let line = |x: u64| (x, 1_500 + x * 5 / 4);
        let found = fit(&[line(400), line(4_000), line(8_000), line(100_000)]).expect("a fit");
        assert!((found.scale - 1.25).abs() < 1e-9 && (found.constant - 1_500.0).abs() < 1e-6, "{found:?}");
        assert!(found.worst < 1e-9);
    }

    #[test]
    fn a_fit_never_promises_less_than_the_count() {
        let found = fit(&[(1_000, 900), (2_000, 1_800)]).expect("a fit");
        assert!(found.scale >= 1.0 && found.constant >= 0.0);
        let single = fit(&[(1_000, 1_300)]).expect("a fit");
        assert!((single.scale - 1.3).abs() < 1e-9 && single.constant.abs() < 1e-9);
    }

    #[test]
    fn nothing_is_refused() {
        assert!(fit(&[]).is_err() && fit(&[(0, 5)]).is_err());
    }
}
