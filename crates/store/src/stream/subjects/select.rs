//! Which subjects a filter lets through, in order of their bytes, without looking at all others.
//!
//! A pattern confines its subjects to those that start with its tokens before the first wildcard. Inside of that, when many in a row do not match,
//! the least subject that could match again is worked out and looked up.

use std::ops::ControlFlow;

use super::order::Position;
use super::{SubjectId, SubjectIndex};
use crate::stream::{Filter, SubjectState};

/// So many subjects are read together.
const AHEAD: usize = 16;
/// So many subjects in a row that do not match are walked over before the next that could is looked up.
const WALK: usize = 16;

/// Subjects that are next to each other in order.
struct Range<'a> {
    start: &'a [u8],
    /// Just the subject `start`, or all that start so?
    exact: bool,
    /// Is every one of them let through?
    all: bool,
}

impl<'a> Range<'a> {
    fn of(pattern: &'a [u8]) -> Self {
        let mut at = 0;
        for token in subject::tokens(pattern) {
            if token == b"*" || token == b">" {
                return Self { start: &pattern[..at], exact: false, all: &pattern[at..] == b">" };
            }
            at += token.len() + 1;
        }
        Self { start: pattern, exact: true, all: true }
    }

    fn covers(&self, other: &Self) -> bool {
        if self.exact {
            other.exact && self.start == other.start
        } else {
            other.start.starts_with(self.start)
        }
    }
}

/// The ranges of some patterns, in order, none covered by another.
fn ranges(patterns: &[Box<[u8]>]) -> Vec<Range<'_>> {
    let mut ranges: Vec<Range<'_>> = patterns.iter().map(|pattern| Range::of(pattern)).collect();
    // Of ranges with the same start the widest comes first, and covers the others.
    ranges.sort_by(|left, right| {
        left.start.cmp(right.start).then(left.exact.cmp(&right.exact)).then(right.all.cmp(&left.all))
    });
    let mut kept: Vec<Range<'_>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        // What one range covers follows it without a gap.
        if !kept.last().is_some_and(|wider| wider.covers(&range)) {
            kept.push(range);
        }
    }
    kept
}

/// One walk through the index: whom to tell, and how many more subjects may be looked at.
struct Walk<'a> {
    visit: &'a mut dyn FnMut(SubjectId, SubjectState) -> bool,
    budget: usize,
}

/// Why a walk ended early.
enum Stop {
    /// It was told to.
    Told,
    /// It had looked at as many subjects as it may.
    Budget,
}

impl Walk<'_> {
    #[inline]
    fn look(&mut self) -> ControlFlow<Stop> {
        match self.budget.checked_sub(1) {
            Some(budget) => {
                self.budget = budget;
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(Stop::Budget),
        }
    }

    #[inline]
    fn visit(&mut self, id: SubjectId, state: SubjectState) -> ControlFlow<Stop> {
        if (self.visit)(id, state) { ControlFlow::Continue(()) } else { ControlFlow::Break(Stop::Told) }
    }
}

impl SubjectIndex {
    /// Calls `visit` with number, bytes and counters of each subject that the filter lets through, in order of the bytes, until it returns false.
    pub fn for_each(&self, filter: &Filter, visit: &mut dyn FnMut(SubjectId, &[u8], SubjectState) -> bool) {
        let mut bytes = Vec::new();
        self.for_each_id(filter, &mut |id, state| {
            bytes.clear();
            self.append_bytes(id, &mut bytes);
            visit(id, &bytes, state)
        });
    }

    /// The same without the bytes, which is faster.
    pub fn for_each_id(&self, filter: &Filter, visit: &mut dyn FnMut(SubjectId, SubjectState) -> bool) {
        self.for_each_id_within(filter, usize::MAX, visit);
    }

    /// The same, but looks at `budget` subjects at most, whether they match or not; false if that ended it.
    pub fn for_each_id_within(
        &self,
        filter: &Filter,
        budget: usize,
        visit: &mut dyn FnMut(SubjectId, SubjectState) -> bool,
    ) -> bool {
        let mut walk = Walk { visit, budget };
        let done = match filter {
            Filter::All => self.walk_all(b"", &mut walk),
            Filter::Any(patterns) => ranges(patterns).iter().try_for_each(|range| {
                if range.exact {
                    walk.look()?;
                    self.id(range.start)
                        .map_or(ControlFlow::Continue(()), |id| walk.visit(id, self.state(id)))
                } else if range.all {
                    self.walk_all(range.start, &mut walk)
                } else {
                    self.walk_matching(range.start, patterns, &mut walk)
                }
            }),
        };
        !matches!(done, ControlFlow::Break(Stop::Budget))
    }

    /// Does the filter let every subject through? May say no where that would take long to find out.
    pub fn lets_all_through(&self, filter: &Filter) -> bool {
        let Filter::Any(patterns) = filter else { return true };
        let (Some(first), Some(last)) = (self.order.at(Position::default()), self.order.last()) else {
            return true;
        };
        let (first, last) = (self.name(first), self.name(last));
        // What is between two subjects that start so starts so too.
        let mut ranges =
            patterns.iter().map(|pattern| Range::of(pattern)).filter(|range| !range.exact && range.all);
        ranges.any(|range| first.starts_with(range.start) && last.starts_with(range.start))
    }

    /// Every subject that starts with these whole tokens.
    fn walk_all(&self, start: &[u8], walk: &mut Walk<'_>) -> ControlFlow<Stop> {
        let end = after(start).and_then(|end| self.order.at(self.seek(&end)));
        let mut position = self.seek(start);
        while let Some((ids, next)) = self.order.run(position) {
            position = next;
            for ids in ids.chunks(AHEAD) {
                self.read_ahead(ids, false);
                for id in ids {
                    if Some(*id) == end {
                        return ControlFlow::Continue(());
                    }
                    walk.look()?;
                    walk.visit(*id, self.state(*id))?;
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Every subject that starts with `start` and matches one of the patterns.
    fn walk_matching(&self, start: &[u8], patterns: &[Box<[u8]>], walk: &mut Walk<'_>) -> ControlFlow<Stop> {
        let mut position = self.seek(start);
        let (mut bytes, mut missed) = (Vec::new(), 0);
        'runs: while let Some((ids, next)) = self.order.run(position) {
            position = next;
            for ids in ids.chunks(AHEAD) {
                self.read_ahead(ids, true);
                for id in ids {
                    bytes.clear();
                    self.name(*id).append_to(&mut bytes);
                    if !bytes.starts_with(start) {
                        return ControlFlow::Continue(());
                    }
                    walk.look()?;
                    if patterns.iter().any(|pattern| subject::matches(&bytes, pattern)) {
                        missed = 0;
                        walk.visit(*id, self.state(*id))?;
                        continue;
                    }
                    missed += 1;
                }
                if missed >= WALK {
                    missed = 0;
                    let nearest = patterns.iter().filter_map(|pattern| next_possible(&bytes, pattern)).min();
                    let Some(nearest) = nearest else { return ControlFlow::Continue(()) };
                    if nearest > bytes {
                        position = self.seek(&nearest);
                        continue 'runs;
                    }
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Reads what is about to be read one by one: waiting for memory once for all is much faster than once for each.
    #[inline]
    fn read_ahead(&self, ids: &[SubjectId], bytes: bool) {
        let states = ids.iter().fold(0, |sum, id| sum ^ self.table.state(*id).messages);
        std::hint::black_box(states);
        if bytes {
            let tails = ids.iter().fold(0, |sum, id| sum ^ self.tails.touch(self.table.spelling(*id).tail));
            std::hint::black_box(tails);
        }
    }
}

/// For a subject that does not match a pattern: greater bytes, at or before the next subject that does. `None` if there cannot be one.
fn next_possible(literal: &[u8], pattern: &[u8]) -> Option<Vec<u8>> {
    // Length of the tokens with their separators that have matched, and whether the last of them would match if it were longer.
    let (mut matched, mut open) = (0, false);
    let mut wanted = subject::tokens(pattern).peekable();
    let mut found = subject::tokens(literal);
    while let Some(want) = wanted.next() {
        let Some(token) = found.next() else {
            // Too short: what continues it comes next, after longer last tokens whose bytes are below the separator.
            return Some([literal, if open { b"\0" } else { b"." }].concat());
        };
        if want == b"*" || want == b">" || want == token {
            matched += token.len() + 1;
            open = want == b"*";
            continue;
        }
        let target = [&literal[..matched], want].concat();
        if target.as_slice() > literal {
            return Some(target);
        }
        // Bytes below the separator may stand between a token and what continues it.
        let longer = [&target[..], b"."].concat();
        if wanted.peek().is_some() && longer.as_slice() > literal {
            return Some(longer);
        }
        return after(&literal[..matched]);
    }
    after(&literal[..matched.min(literal.len())])
}

/// The least bytes above all that start with these whole tokens and their last separator.
fn after(tokens: &[u8]) -> Option<Vec<u8>> {
    let (_, tokens) = tokens.split_last()?;
    Some([tokens, &[b'.' + 1]].concat())
}

#[cfg(test)]
mod tests {
    use super::next_possible;

    fn next(literal: &str, pattern: &str) -> Option<String> {
        next_possible(literal.as_bytes(), pattern.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn what_could_match_next() {
        let cases = [
            ("a", "a.*", Some("a.")),
            ("a.b", "a.b.>", Some("a.b.")),
            ("a.b.c", "a.*.d", Some("a.b.d")),
            ("a.b.d.e", "a.*.d", Some("a.b.d/")),
            ("a.b.d-e", "a.*.d", Some("a.b/")),
            ("a.b.d-e", "a.*.d.e", Some("a.b.d.")),
            ("a.b.d/e", "a.*.d.e", Some("a.b/")),
            ("b", "a", None),
            ("a", "b", Some("b")),
            ("a.b", "*", Some("a/")),
        ];
        for (literal, pattern, expected) in cases {
            assert_eq!(next(literal, pattern).as_deref(), expected, "{literal} {pattern}");
        }
    }
}
