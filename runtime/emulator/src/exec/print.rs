//! `vprintf`: what kernels print.

use std::fmt::Write as _;

use super::{At, Executor, lanes_of};
use crate::{decode::inst::Print, machine::Cta, ptx::ast::Space};

/// What a run keeps of what its kernels print.
const MOST: usize = 1 << 20;
/// Characters of a format or string that are read.
const LONGEST: u64 = 4096;

impl Executor<'_> {
    pub(super) fn print(&mut self, cta: &mut Cta, w: usize, active: u32, pc: u32, print: &Print) {
        for lane in lanes_of(active) {
            let at = At { warp: w, lane, pc };
            let place = |cta: &Cta, slot: crate::decode::inst::Address| {
                cta.warps[w].get(slot.base, lane).wrapping_add_signed(slot.offset)
            };
            let (format, arguments) = (place(cta, print.format), place(cta, print.arguments));
            let format = self.peek(cta, at, Space::Local, format, 8);
            let arguments = self.peek(cta, at, Space::Local, arguments, 8);
            let (text, count) = self.formatted(cta, at, format, arguments);
            if self.printed.len() + text.len() <= MOST {
                self.printed.push_str(&text);
            }
            if let Some(result) = print.result {
                let start = (w * 32 + lane) * cta.local_bytes as usize + place(cta, result) as usize;
                if let Some(target) = cta.local.get_mut(start..start + 4) {
                    target.copy_from_slice(&(count as u32).to_le_bytes());
                }
                if let Some(flags) = cta.local_defined.get_mut(start..start + 4) {
                    flags.fill(1);
                }
            }
        }
    }

    fn string(&mut self, cta: &Cta, at: At, address: u64) -> String {
        let mut bytes = Vec::new();
        for offset in 0..LONGEST {
            match self.peek(cta, at, Space::Generic, address.wrapping_add(offset), 1) as u8 {
                0 => break,
                byte => bytes.push(byte),
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The text, and how many arguments it took.
    fn formatted(&mut self, cta: &Cta, at: At, format: u64, arguments: u64) -> (String, u64) {
        let format = self.string(cta, at, format);
        let (mut text, mut next, mut count) = (String::new(), arguments, 0);
        let mut rest = format.as_str();
        while let Some((before, after)) = rest.split_once('%') {
            text.push_str(before);
            let Some(end) =
                after.find(|c: char| c.is_ascii_alphabetic() && !"hlLqjzt".contains(c) || c == '%')
            else {
                return (text + "%" + after, count);
            };
            let (spec, tail) = after.split_at(end);
            let conversion = tail.chars().next().unwrap_or('%');
            rest = tail.get(1..).unwrap_or_default();
            if conversion == '%' {
                text.push('%');
                continue;
            }
            let long = spec.contains(['l', 'L', 'q', 'j', 'z', 't']);
            let mut take = |this: &mut Self, wide: bool| {
                let size = if wide { 8 } else { 4 };
                next = next.checked_next_multiple_of(size).unwrap_or(0);
                let bits = this.peek(cta, at, Space::Generic, next, size as u8);
                next = next.wrapping_add(size);
                count += 1;
                bits
            };
            let flags: String = spec.chars().take_while(|c| "-+ #0".contains(*c)).collect();
            let numbers = spec
                .trim_start_matches(['-', '+', ' ', '#', '0'])
                .trim_end_matches(|c: char| c.is_ascii_alphabetic());
            let (width, precision) = match numbers.split_once('.') {
                Some((width, precision)) => (width, Some(precision)),
                None => (numbers, None),
            };
            let mut number = |this: &mut Self, text: &str| match text {
                "*" => Some(take(this, false) as u32 as i32),
                text => text.parse::<i32>().ok(),
            };
            let width = number(self, width).unwrap_or(0);
            let precision = precision.map(|text| number(self, text).unwrap_or(0).clamp(0, 512) as usize);
            let left = flags.contains('-') || width < 0;
            let width = width.unsigned_abs().min(512) as usize;
            let body = match conversion {
                's' => {
                    let address = take(self, true);
                    let text = self.string(cta, at, address);
                    text.chars().take(precision.unwrap_or(usize::MAX)).collect()
                }
                'c' => char::from(take(self, false) as u8).to_string(),
                'p' => format!("{:#x}", take(self, true)),
                'd' | 'i' => {
                    let bits = take(self, long);
                    let value = if long { bits as i64 } else { i64::from(bits as u32 as i32) };
                    let digits = padded(value.unsigned_abs().to_string(), precision);
                    signed(value < 0, &flags, &digits)
                }
                'u' | 'x' | 'X' | 'o' => {
                    let bits = take(self, long);
                    let bits = if long { bits } else { bits & 0xffff_ffff };
                    let digits = match conversion {
                        'x' => format!("{bits:x}"),
                        'X' => format!("{bits:X}"),
                        'o' => format!("{bits:o}"),
                        _ => bits.to_string(),
                    };
                    let prefix = if flags.contains('#') && bits != 0 {
                        match conversion {
                            'x' => "0x",
                            'X' => "0X",
                            'o' => "0",
                            _ => "",
                        }
                    } else {
                        ""
                    };
                    format!("{prefix}{}", padded(digits, precision))
                }
                _ => {
                    let value = f64::from_bits(take(self, true));
                    signed(value.is_sign_negative(), &flags, &float(value.abs(), conversion, precision))
                }
            };
            let missing = width.saturating_sub(body.chars().count());
            if left {
                let _ = write!(text, "{body}{}", " ".repeat(missing));
            } else if flags.contains('0')
                && !matches!(conversion, 's' | 'c')
                && precision.is_none_or(|_| "fFeEgG".contains(conversion))
            {
                let (sign, digits) =
                    body.split_at(body.len() - body.trim_start_matches(['-', '+', ' ']).len());
                let _ = write!(text, "{sign}{}{digits}", "0".repeat(missing));
            } else {
                let _ = write!(text, "{}{body}", " ".repeat(missing));
            }
        }
        text.push_str(rest);
        (text, count)
    }
}

/// Digits with zeros before them, as many as a precision asks for.
fn padded(digits: String, precision: Option<usize>) -> String {
    let missing = precision.unwrap_or(0).saturating_sub(digits.len());
    "0".repeat(missing) + &digits
}

fn signed(negative: bool, flags: &str, digits: &str) -> String {
    let sign = if negative {
        "-"
    } else if flags.contains('+') {
        "+"
    } else if flags.contains(' ') {
        " "
    } else {
        ""
    };
    format!("{sign}{digits}")
}

/// A magnitude as `%f`, `%e`, `%g` or `%a` have it.
fn float(value: f64, conversion: char, precision: Option<usize>) -> String {
    let digits = precision.unwrap_or(6);
    if !value.is_finite() {
        let text = if value.is_nan() { "nan" } else { "inf" };
        return if conversion.is_ascii_uppercase() { text.to_uppercase() } else { text.to_owned() };
    }
    let exponential = |digits: usize| {
        let text = format!("{value:.digits$e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{mantissa}e{sign}{:02}", exponent.abs())
    };
    let text = match conversion {
        'e' | 'E' => exponential(digits),
        'g' | 'G' => {
            let digits = digits.max(1);
            let probe = format!("{value:.*e}", digits - 1);
            let exponent: i32 = probe.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
            let text = if exponent < -4 || exponent >= digits as i32 {
                exponential(digits - 1)
            } else {
                format!("{value:.*}", (digits as i32 - 1 - exponent).max(0) as usize)
            };
            let (mantissa, tail) = text.split_once('e').map_or((text.as_str(), None), |(m, e)| (m, Some(e)));
            let mantissa = if mantissa.contains('.') {
                mantissa.trim_end_matches('0').trim_end_matches('.')
            } else {
                mantissa
            };
            tail.map_or(mantissa.to_owned(), |tail| format!("{mantissa}e{tail}"))
        }
        'a' | 'A' => {
            let bits = value.to_bits();
            let (field, fraction) = (bits >> 52 & 0x7ff, bits & ((1 << 52) - 1));
            let fraction = format!("{fraction:013x}");
            let fraction = fraction.trim_end_matches('0');
            let point = if fraction.is_empty() { "" } else { "." };
            let exponent = if bits == 0 { 0 } else { field.max(1) as i64 - 1023 };
            format!("0x{}{point}{fraction}p{exponent:+}", u8::from(field != 0))
        }
        _ => format!("{value:.digits$}"),
    };
    if conversion.is_ascii_uppercase() { text.to_uppercase() } else { text }
}
