//! Byte ranges of the source text.

/// A half-open byte range of a [`SourceFile`](crate::SourceFile)'s text. Every
/// node of both trees has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The range `start..end`.
    pub fn new(start: u32, end: u32) -> Span {
        Span { start, end: end.max(start) }
    }

    /// The smallest range that covers both.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// The empty range just behind this one.
    pub fn after(self) -> Span {
        Span { start: self.end, end: self.end }
    }
}
