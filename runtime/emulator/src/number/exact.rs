//! The sign of an exact sum of products of `f64`s, and from it directed rounding.

use std::cmp::Ordering;

use super::Round;

/// Words of the fixed-point accumulator: products of finite `f64`s need bits
/// 2^-2148 to 2^2048, and there is room for carries.
const WORDS: usize = 68;
/// The weight of bit 0 of the accumulator.
const LOWEST: i32 = -2148;

fn split(value: f64) -> (bool, u64, i32) {
    let bits = value.to_bits();
    let field = (bits >> 52 & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    if field == 0 {
        (bits >> 63 == 1, fraction, -1074)
    } else {
        (bits >> 63 == 1, fraction | 1 << 52, field - 1075)
    }
}

/// The sign of `sum(a * b)` over finite values, computed without rounding.
pub fn sign_of_products(terms: &[(f64, f64)]) -> Ordering {
    let mut words = [0u64; WORDS];
    for &(a, b) in terms {
        let ((na, ma, ea), (nb, mb, eb)) = (split(a), split(b));
        let product = u128::from(ma) * u128::from(mb);
        let at = (ea + eb - LOWEST) as usize;
        let (word, bit) = (at / 64, at % 64);
        let low = product << bit;
        let high = if bit == 0 { 0 } else { (product >> (128 - bit)) as u64 };
        let parts = [low as u64, (low >> 64) as u64, high];
        let mut carry = false;
        for (index, slot) in words.iter_mut().enumerate().skip(word) {
            let part = parts.get(index - word).copied().unwrap_or(0);
            if index - word >= 3 && !carry {
                break;
            }
            let (first, c1, second, c2);
            if na == nb {
                (first, c1) = slot.overflowing_add(part);
                (second, c2) = first.overflowing_add(u64::from(carry));
            } else {
                (first, c1) = slot.overflowing_sub(part);
                (second, c2) = first.overflowing_sub(u64::from(carry));
            }
            *slot = second;
            carry = c1 || c2;
        }
    }
    if words[WORDS - 1] >> 63 == 1 {
        Ordering::Less
    } else if words.iter().all(|word| *word == 0) {
        Ordering::Equal
    } else {
        Ordering::Greater
    }
}

/// Moves the nearest result to the one `round` asks for; `residual` is the sign
/// of (exact - nearest), asked only when it matters.
pub fn direct(nearest: f64, round: Round, residual: impl Fn(f64) -> Ordering) -> f64 {
    if nearest.is_nan() || matches!(round, Round::NearestEven | Round::NearestAway) {
        return nearest;
    }
    let negative = nearest.is_sign_negative();
    let exact = if nearest.is_infinite() {
        // Overflow of a finite result: the exact value lies nearer to zero.
        if negative { Ordering::Greater } else { Ordering::Less }
    } else {
        residual(nearest)
    };
    let (down, up) = match round {
        Round::Down => (true, false),
        Round::Up => (false, true),
        _ => (!negative, negative),
    };
    match exact {
        Ordering::Less if down => next(nearest, false),
        Ordering::Greater if up => next(nearest, true),
        _ => nearest,
    }
}

fn next(value: f64, up: bool) -> f64 {
    if value == 0.0 {
        return f64::from_bits(1 | u64::from(!up) << 63);
    }
    let bits = value.to_bits();
    f64::from_bits(if (value > 0.0) == up { bits + 1 } else { bits - 1 })
}

/// The zero that `a + b` gives where it is exactly zero: negative where both are,
/// and when rounding down unless both are positive.
pub fn exact_zero(a: f64, b: f64, round: Round) -> f64 {
    let (a, b) = (a.is_sign_negative(), b.is_sign_negative());
    let negative = if round == Round::Down { a || b } else { a && b };
    if negative { -0.0 } else { 0.0 }
}

/// `a + b` in a directed mode.
pub fn add(a: f64, b: f64, round: Round) -> f64 {
    let sum = a + b;
    if !a.is_finite() || !b.is_finite() {
        return sum;
    }
    // A sum that is zero is exact.
    if sum == 0.0 {
        return exact_zero(a, b, round);
    }
    direct(sum, round, |r| sign_of_products(&[(a, 1.0), (b, 1.0), (-r, 1.0)]))
}

/// `a * b + c` in a directed mode.
pub fn fma(a: f64, b: f64, c: f64, round: Round) -> f64 {
    let nearest = a.mul_add(b, c);
    if !a.is_finite() || !b.is_finite() || !c.is_finite() {
        return nearest;
    }
    if nearest == 0.0 && sign_of_products(&[(a, b), (c, 1.0)]) == Ordering::Equal {
        let product = if a.is_sign_negative() == b.is_sign_negative() { 0.0 } else { -0.0 };
        // Factors that are not zero leave a product of c's size and the other sign.
        let product = if a != 0.0 && b != 0.0 { -c } else { product };
        return exact_zero(product, c, round);
    }
    direct(nearest, round, |r| sign_of_products(&[(a, b), (c, 1.0), (-r, 1.0)]))
}

/// `a * b` in a directed mode.
pub fn mul(a: f64, b: f64, round: Round) -> f64 {
    let product = a * b;
    if !a.is_finite() || !b.is_finite() {
        return product;
    }
    direct(product, round, |r| sign_of_products(&[(a, b), (-r, 1.0)]))
}

/// `a / b` in a directed mode.
pub fn div(a: f64, b: f64, round: Round) -> f64 {
    let quotient = a / b;
    if !a.is_finite() || !b.is_finite() || b == 0.0 {
        return quotient;
    }
    direct(quotient, round, |q| {
        let sign = sign_of_products(&[(a, 1.0), (-q, b)]);
        if b < 0.0 { sign.reverse() } else { sign }
    })
}

/// The square root in a directed mode.
pub fn sqrt(a: f64, round: Round) -> f64 {
    let root = a.sqrt();
    if !a.is_finite() || root.is_nan() || root == 0.0 {
        return root;
    }
    direct(root, round, |r| sign_of_products(&[(a, 1.0), (-r, r)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_exact_sums() {
        assert_eq!(sign_of_products(&[(1.0, 1.0), (-1.0, 1.0)]), Ordering::Equal);
        assert_eq!(sign_of_products(&[(1e300, 1e300), (-f64::MAX, f64::MAX)]), Ordering::Less);
        let tiny = f64::from_bits(1);
        assert_eq!(sign_of_products(&[(1e300, 1.0), (tiny, tiny), (-1e300, 1.0)]), Ordering::Greater);
    }

    #[test]
    fn directed_results_bracket_the_exact_one() {
        for (a, b) in [(1.0, 3.0), (-1.0, 3.0), (1e-300, 7.0), (2.0, 1e-310), (0.1, 0.7)] {
            let (down, up) = (div(a, b, Round::Down), div(a, b, Round::Up));
            assert_eq!(next(down, true), up);
            assert!(down <= a / b && a / b <= up);
            let zero = div(a, b, Round::Zero);
            assert_eq!(zero, if a > 0.0 { down } else { up });
        }
        assert_eq!(mul(f64::MAX, 2.0, Round::Zero), f64::MAX);
        assert_eq!(add(1.0, 1e-30, Round::Up), 1.0 + f64::EPSILON);
        assert_eq!(add(1.0, 1e-30, Round::Down), 1.0);
        // The nearest double lies above the root of 2.
        assert_eq!(sqrt(2.0, Round::Up), 2f64.sqrt());
        assert_eq!(next(sqrt(2.0, Round::Down), true), 2f64.sqrt());
        assert_eq!(fma(1.0, 1.0, -1e-30, Round::Zero), 1.0 - f64::EPSILON / 2.0);
    }
}
