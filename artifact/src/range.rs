//! What is known of a dim before it has a value.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The values that a dim may have at launch, both ends included. The compiler chooses tiles
/// for them, and a launch with another value is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DimRange {
    least: u64,
    most: Option<u64>,
}

/// Text that is no range, or one without a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no range of values: expected LEAST..MOST, LEAST.. or one VALUE, at least 1")]
pub struct RangeError(String);

impl DimRange {
    /// The values from `least` to `most`; without `most` all from `least` on. `None` where there
    /// are none, and for 0, which no dim is compiled for.
    pub fn new(least: u64, most: Option<u64>) -> Option<DimRange> {
        (least >= 1 && most.is_none_or(|most| most >= least)).then_some(DimRange { least, most })
    }

    /// The least value.
    pub fn least(self) -> u64 {
        self.least
    }

    /// The largest value, if there is one.
    pub fn most(self) -> Option<u64> {
        self.most
    }
}

impl fmt::Display for DimRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.most {
            Some(most) => write!(f, "{}..{most}", self.least),
            None => write!(f, "{}..", self.least),
        }
    }
}

impl FromStr for DimRange {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<DimRange, RangeError> {
        let error = || RangeError(text.to_owned());
        let number = |text: &str| text.parse::<u64>().map_err(|_| error());
        let range = match text.split_once("..") {
            Some((least, "")) => DimRange::new(number(least)?, None),
            Some((least, most)) => DimRange::new(number(least)?, Some(number(most)?)),
            None => DimRange::new(number(text)?, Some(number(text)?)),
        };
        range.ok_or_else(error)
    }
}

impl TryFrom<String> for DimRange {
    type Error = RangeError;
    fn try_from(text: String) -> Result<DimRange, RangeError> {
        text.parse()
    }
}

impl From<DimRange> for String {
    fn from(range: DimRange) -> String {
        range.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for (text, least, most) in [("1..1", 1, Some(1)), ("2..31", 2, Some(31)), ("32..", 32, None)] {
            let range: DimRange = text.parse().unwrap();
            assert_eq!((range.least(), range.most(), range.to_string()), (least, most, text.to_owned()));
        }
        assert_eq!("7".parse(), Ok(DimRange::new(7, Some(7)).unwrap()));
        for bad in ["", "..", "..3", "0..", "0", "3..2", "1..x", "-1..2", "1...3"] {
            assert_eq!(bad.parse::<DimRange>(), Err(RangeError(bad.to_owned())));
        }
    }
}
