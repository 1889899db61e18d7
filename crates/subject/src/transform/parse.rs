//! Tokens of a destination: `$n`, `{{name(arguments)}}`, and everything else.

use super::{TransformError, text};

/// What a token is computed with. Numbers keep the width they have for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Function {
    /// The token itself.
    Wildcard,
    /// Hash of the tokens modulo this many.
    Partition(i32),
    /// A number below this.
    Random(i32),
    /// Cut in two, counted from the left.
    SplitFromLeft(i32),
    /// Cut in two, counted from the right.
    SplitFromRight(i32),
    /// Cut in pieces of this size, the first ones whole.
    SliceFromLeft(i32),
    /// Cut in pieces of this size, the last ones whole.
    SliceFromRight(i32),
    /// The first bytes.
    Left(i32),
    /// The last bytes.
    Right(i32),
    /// Cut at this text.
    Split(Box<[u8]>),
}

/// The function of `token` and the ordinals of the wildcards that it names; `None` for an ordinary token.
pub(super) fn function(token: &[u8]) -> Result<Option<(Function, Vec<i64>)>, TransformError> {
    if let Some(digits) = token.strip_prefix(b"$") {
        // Many subjects have tokens that start with `$` and mean nothing by it.
        return Ok(number(digits).map(|ordinal| (Function::Wildcard, vec![ordinal])));
    }
    let Some(inner) = token.strip_prefix(b"{{").and_then(|rest| rest.strip_suffix(b"}}")) else {
        return Ok(None);
    };
    if inner.is_empty() {
        return Ok(None);
    }
    let unknown = || TransformError::UnknownFunction(text(token));
    let call = inner.trim_ascii().strip_suffix(b")").ok_or_else(unknown)?;
    let open = memchr::memchr(b'(', call).ok_or_else(unknown)?;
    let name = call[..open].trim_ascii_end();
    let call = Call { token, arguments: split_arguments(&call[open + 1..]) };
    if is(name, "wildcard", &[0]) {
        return call.wildcard().map(Some);
    }
    if is(name, "partition", &[0]) {
        return call.partition().map(Some);
    }
    if is(name, "random", &[0]) {
        return call.random().map(Some);
    }
    if is(name, "split", &[0]) {
        return call.split().map(Some);
    }
    for (known, capitals, make) in WITH_SIZE {
        if is(name, known, capitals) {
            return call.with_size(*make).map(Some);
        }
    }
    Err(unknown())
}

/// A function of one token and a size.
type Make = fn(i32) -> Function;

/// Functions of one token and a size: name, which letters may be capital, and the function.
const WITH_SIZE: &[(&str, &[usize], Make)] = &[
    ("splitfromleft", &[0, 5, 9], Function::SplitFromLeft),
    ("splitfromright", &[0, 5, 9], Function::SplitFromRight),
    ("slicefromleft", &[0, 5, 9], Function::SliceFromLeft),
    ("slicefromright", &[0, 5, 9], Function::SliceFromRight),
    ("left", &[0], Function::Left),
    ("right", &[0], Function::Right),
];

/// Whether `name` is `known`, where only the letters at `capitals` may be large.
fn is(name: &[u8], known: &str, capitals: &[usize]) -> bool {
    name.eq_ignore_ascii_case(known.as_bytes())
        && name.iter().enumerate().all(|(at, byte)| !byte.is_ascii_uppercase() || capitals.contains(&at))
}

/// The text between the brackets, cut at commas; white space after a comma belongs to it.
fn split_arguments(text: &[u8]) -> Vec<&[u8]> {
    let pieces = text.split(|byte| *byte == b',').enumerate();
    pieces.map(|(at, piece)| if at == 0 { piece } else { piece.trim_ascii_start() }).collect()
}

/// A whole number in decimal with an optional sign.
fn number(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// A call: its token, for the error, and its arguments.
struct Call<'a> {
    token: &'a [u8],
    arguments: Vec<&'a [u8]>,
}

impl Call<'_> {
    fn wildcard(&self) -> Result<(Function, Vec<i64>), TransformError> {
        if self.arguments == [b""] {
            return Err(self.not_enough());
        }
        if self.arguments.len() > 1 {
            return Err(self.too_many());
        }
        Ok((Function::Wildcard, vec![self.ordinal(0)?]))
    }

    fn partition(&self) -> Result<(Function, Vec<i64>), TransformError> {
        let count = self.narrowed(0)?;
        let ordinals = (1..self.arguments.len()).map(|at| self.ordinal(at)).collect::<Result<_, _>>()?;
        Ok((Function::Partition(count), ordinals))
    }

    fn random(&self) -> Result<(Function, Vec<i64>), TransformError> {
        if self.arguments.len() != 1 {
            return Err(self.not_enough());
        }
        Ok((Function::Random(self.narrowed(0)?), Vec::new()))
    }

    fn split(&self) -> Result<(Function, Vec<i64>), TransformError> {
        self.two_arguments()?;
        let ordinal = self.ordinal(0)?;
        let separator = self.arguments[1];
        if super::has_space(separator) || separator.contains(&b'.') {
            return Err(self.invalid());
        }
        Ok((Function::Split(separator.into()), vec![ordinal]))
    }

    fn with_size(&self, make: Make) -> Result<(Function, Vec<i64>), TransformError> {
        self.two_arguments()?;
        let ordinal = self.ordinal(0)?;
        let size = i32::try_from(self.ordinal(1)?).map_err(|_| self.invalid())?;
        Ok((make(size), vec![ordinal]))
    }

    fn two_arguments(&self) -> Result<(), TransformError> {
        match self.arguments.len() {
            0 | 1 => Err(self.not_enough()),
            2 => Ok(()),
            _ => Err(self.too_many()),
        }
    }

    fn ordinal(&self, at: usize) -> Result<i64, TransformError> {
        number(self.arguments[at].trim_ascii()).ok_or_else(|| self.invalid())
    }

    /// A count: too large is an error, too small wraps as it always did.
    fn narrowed(&self, at: usize) -> Result<i32, TransformError> {
        let count = self.ordinal(at)?;
        if count > i64::from(i32::MAX) {
            return Err(self.invalid());
        }
        #[expect(clippy::cast_possible_truncation, reason = "wrapping is what clients see")]
        Ok(count as i32)
    }

    fn not_enough(&self) -> TransformError {
        TransformError::NotEnoughArguments(text(self.token))
    }

    fn too_many(&self) -> TransformError {
        TransformError::TooManyArguments(text(self.token))
    }

    fn invalid(&self) -> TransformError {
        TransformError::InvalidArgument(text(self.token))
    }
}
