//! What the functions of a destination write.

use super::parse::Function;
use crate::subject::{SEPARATOR, tokens};

/// Appends what `function` makes of the tokens of `literal` at `indexes`.
pub(super) fn write(
    function: &Function,
    indexes: &[usize],
    literal: &[u8],
    random: impl FnOnce() -> u32,
    out: &mut Vec<u8>,
) {
    // A matched subject has every token that the source named.
    let token = indexes.first().and_then(|index| tokens(literal).nth(*index)).unwrap_or_default();
    match function {
        Function::Wildcard => out.extend_from_slice(token),
        Function::Partition(count) => write_number(partition(*count, indexes, literal), out),
        Function::Random(0) => write_number(0, out),
        Function::Random(count) => write_number(random() % count.unsigned_abs(), out),
        Function::SplitFromLeft(size) => match inside(*size, token) {
            Some(size) => write_two(token.split_at(size), out),
            None => out.extend_from_slice(token),
        },
        Function::SplitFromRight(size) => match inside(*size, token) {
            Some(size) => write_two(token.split_at(token.len() - size), out),
            None => out.extend_from_slice(token),
        },
        Function::SliceFromLeft(size) => write_slices(token, inside(*size, token), 0, out),
        Function::SliceFromRight(size) => {
            let size = inside(*size, token);
            write_slices(token, size, size.map_or(0, |size| token.len() % size), out);
        }
        Function::Left(size) => out.extend_from_slice(&token[..inside(*size, token).unwrap_or(token.len())]),
        Function::Right(size) => {
            let skipped = inside(*size, token).map_or(0, |size| token.len() - size);
            out.extend_from_slice(&token[skipped..]);
        }
        Function::Split(separator) => write_split(token, separator, out),
    }
}

/// FNV-1a of 32 bits over the pieces, one after the other.
pub(super) fn fnv(pieces: &[&[u8]]) -> u32 {
    pieces.iter().fold(FNV_OFFSET, |hash, piece| fnv_add(hash, piece))
}

const FNV_OFFSET: u32 = 0x811c_9dc5;
const FNV_PRIME: u32 = 0x0100_0193;

fn fnv_add(hash: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(FNV_PRIME))
}

fn partition(count: i32, indexes: &[usize], literal: &[u8]) -> u32 {
    if count == 0 {
        return 0;
    }
    let hash = if indexes.is_empty() {
        fnv(&[literal])
    } else {
        let chosen = indexes.iter().filter_map(|index| tokens(literal).nth(*index));
        chosen.fold(FNV_OFFSET, fnv_add)
    };
    #[expect(clippy::cast_sign_loss, reason = "a negative count wraps, which is what clients see")]
    let count = count as u32;
    hash % count
}

/// `size` if it lies within the token, so that there is something to cut.
fn inside(size: i32, token: &[u8]) -> Option<usize> {
    usize::try_from(size).ok().filter(|size| *size > 0 && *size < token.len())
}

fn write_number(number: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(number.to_string().as_bytes());
}

fn write_two((first, second): (&[u8], &[u8]), out: &mut Vec<u8>) {
    out.extend_from_slice(first);
    out.push(SEPARATOR);
    out.extend_from_slice(second);
}

/// Writes the first `remainder` bytes, if any, and then pieces of `size`, the last of which may be short.
fn write_slices(token: &[u8], size: Option<usize>, remainder: usize, out: &mut Vec<u8>) {
    let Some(size) = size else {
        out.extend_from_slice(token);
        return;
    };
    let (first, rest) = token.split_at(remainder);
    out.extend_from_slice(first);
    for (at, piece) in rest.chunks(size).enumerate() {
        if at > 0 || !first.is_empty() {
            out.push(SEPARATOR);
        }
        out.extend_from_slice(piece);
    }
}

/// Writes the parts of `token` between separators, without the empty ones. No separator cuts after every
/// character.
fn write_split(token: &[u8], separator: &[u8], out: &mut Vec<u8>) {
    let mut written = false;
    let mut rest = token;
    while !rest.is_empty() {
        let (piece, next) = if separator.is_empty() {
            rest.split_at(character_len(rest))
        } else if let Some(at) = memchr::memmem::find(rest, separator) {
            (&rest[..at], &rest[at + separator.len()..])
        } else {
            (rest, &rest[rest.len()..])
        };
        rest = next;
        if piece.is_empty() {
            continue;
        }
        if written {
            out.push(SEPARATOR);
        }
        written = true;
        out.extend_from_slice(piece);
    }
}

/// Bytes of the first character; a byte that starts none is one by itself.
fn character_len(bytes: &[u8]) -> usize {
    (1..=4.min(bytes.len())).find(|len| std::str::from_utf8(&bytes[..*len]).is_ok()).unwrap_or(1)
}
