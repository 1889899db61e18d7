//! Offset and limit of a list, and errors in options that were read but make no sense.

use std::ops::Range;

/// Entries on a page when the request names no limit.
pub const LIMIT_DEFAULT: i64 = 1024;

/// Options have the right form, but cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// The sort key has no such name.
    #[error("invalid sorting option: {0}")]
    Sort(String),
    /// The sort key is a fact of closed connections, and others were asked for.
    #[error("sort by {0} only valid on closed connections")]
    SortNeedsClosed(&'static str),
    /// The subject to test has a wildcard or is malformed.
    #[error("invalid test subject, must be valid publish subject: {0}")]
    TestSubject(String),
}

/// A window into a list. Negative offsets count as zero, limits below one as the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Entries to skip.
    pub offset: i64,
    /// Most entries to show.
    pub limit: i64,
}

impl Page {
    /// The window for the numbers a request carried.
    pub fn new(offset: i64, limit: i64) -> Self {
        Self { offset: offset.max(0), limit: if limit > 0 { limit } else { LIMIT_DEFAULT } }
    }

    /// Indexes of the entries to show out of `total`; within bounds for any numbers.
    pub fn range(self, total: usize) -> Range<usize> {
        let start = usize::try_from(self.offset).unwrap_or(usize::MAX).min(total);
        let length = usize::try_from(self.limit).unwrap_or(usize::MAX);
        start..start.saturating_add(length).min(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_fall_back() {
        assert_eq!(Page::new(-5, -3), Page { offset: 0, limit: LIMIT_DEFAULT });
        assert_eq!(Page::new(i64::MIN, 0), Page { offset: 0, limit: LIMIT_DEFAULT });
        assert_eq!(Page::new(2, 1), Page { offset: 2, limit: 1 });
    }

    #[test]
    fn range_never_leaves_the_list() {
        assert_eq!(Page::new(1, 2).range(7), 1..3);
        assert_eq!(Page::new(6, 2).range(7), 6..7);
        assert_eq!(Page::new(7, 2).range(7), 7..7);
        assert_eq!(Page::new(8, 2).range(7), 7..7);
        assert_eq!(Page::new(i64::MAX, i64::MAX).range(7), 7..7);
        assert_eq!(Page::new(1, i64::MAX).range(7), 1..7);
        assert_eq!(Page::new(0, 0).range(0), 0..0);
    }
}
