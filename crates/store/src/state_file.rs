//! Small files that are replaced as a whole: after a crash there is the old content or the new one, never a mix.
//!
//! ```text
//! magic 8 bytes | version u16 | flags u16: 1 = sealed | 0 u32 | length of the body u64 | envelope of the key, 72 bytes, if sealed | body
//! | checksum u64 of all before
//! ```
//!
//! Numbers are little-endian. Magic and version belong to the kind of file; the version is that of its content. The checksum is XXH3-64 and starts from
//! the name that the content has for its owner, so that a file does not pass for another of the same kind. A sealed body is one frame of [`crate::crypt`]
//! with everything before the envelope as authenticated place.
//!
//! Writing goes to `<name>.new`, which is synced, renamed over the file, and the directory is synced. What a crash leaves under that name is overwritten by the
//! next write.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::crypt::{self, ENVELOPE_BYTES, Keyring};
use crate::disk::{self, Disk, Open};
use crate::record::{self, Identity, u64_at};

/// Longest content of a file.
pub const CONTENT_BYTES_MAX: usize = 1 << 30;

const FIXED: usize = 24;
const CHECKSUM: usize = 8;
const SEALED: u16 = 1;

/// What kind of file it is, and which one.
#[derive(Debug, Clone, Copy)]
pub struct Kind<'a> {
    /// First bytes of all files of the kind.
    pub magic: [u8; 8],
    /// Version of the content that is written, and the highest that is understood.
    pub version: u16,
    /// What the content belongs to, such as the name of a stream. The file is of no use as that of another.
    pub name: &'a str,
}

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Version of the content.
    pub version: u16,
    /// The content.
    pub bytes: Vec<u8>,
    /// Was it sealed with the previous key, or in clear although there is a key? Writing it again makes it right.
    pub is_stale: bool,
}

/// Why a file could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The disk failed. After a write that failed, old or new content is there.
    #[error(transparent)]
    Disk(#[from] disk::Error),
    /// What is there is not what was written.
    #[error("damaged {}: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found, with values.
        reason: String,
    },
    /// It was written by a later version.
    #[error("{} has version {found}, this server knows {known}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u16,
        /// Ours.
        known: u16,
    },
    /// It is sealed and no key fits.
    #[error("{}: {source}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// Which key is missing, or what is wrong.
        source: crypt::Error,
    },
    /// It is sealed and no key is configured.
    #[error("{} is encrypted and no key is configured", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },
}

/// Replaces the content of the file, sealed if there is a keyring. It is on stable storage when this returns.
pub fn write(
    disk: &dyn Disk,
    path: &Path,
    kind: &Kind<'_>,
    content: &[u8],
    keyring: Option<&Keyring>,
) -> Result<(), Error> {
    assert!(content.len() <= CONTENT_BYTES_MAX, "{} bytes for {}", content.len(), path.display());
    let bytes = encode(path, kind, content, keyring)?;
    let temporary = temporary(path);
    match disk.remove_file(&temporary) {
        Err(error) if !error.is_not_found() => return Err(error.into()),
        _ => {}
    }
    let file = disk.open(&temporary, Open::Create)?;
    file.write_at(&bytes, 0)?;
    file.sync()?;
    disk.rename(&temporary, path)?;
    disk.sync_dir(directory(path))?;
    Ok(())
}

/// The content of the file; `None` if there is no such file.
pub fn read(
    disk: &dyn Disk,
    path: &Path,
    kind: &Kind<'_>,
    keyring: Option<&Keyring>,
) -> Result<Option<Content>, Error> {
    let file = match disk.open(path, Open::Read) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let len = file.len()?;
    let damaged = |reason: String| Error::Damaged { path: path.to_owned(), reason };
    let len_max = (FIXED + ENVELOPE_BYTES + crypt::SEAL_BYTES + CONTENT_BYTES_MAX + CHECKSUM) as u64;
    if len > len_max {
        return Err(damaged(format!("{len} bytes, more than the {len_max} such a file may have")));
    }
    let mut bytes = vec![0; len as usize];
    let read = file.read_at(&mut bytes, 0)?;
    if read < bytes.len() {
        return Err(damaged(format!("{read} of {len} bytes can be read")));
    }
    decode(path, kind, &bytes, keyring).map(Some)
}

/// Removes the file for good; no error if there is none.
pub fn remove(disk: &dyn Disk, path: &Path) -> Result<(), Error> {
    for path in [&temporary(path), path] {
        match disk.remove_file(path) {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
    }
    disk.sync_dir(directory(path))?;
    Ok(())
}

fn encode(path: &Path, kind: &Kind<'_>, content: &[u8], keyring: Option<&Keyring>) -> Result<Vec<u8>, Error> {
    let sealed = keyring.map(|ring| ring.create(&context(kind)));
    let body = content.len() + if sealed.is_some() { crypt::SEAL_BYTES } else { 0 };
    let mut bytes = Vec::with_capacity(FIXED + ENVELOPE_BYTES + body + CHECKSUM);
    bytes.extend_from_slice(&kind.magic);
    bytes.extend_from_slice(&kind.version.to_le_bytes());
    bytes.extend_from_slice(&if sealed.is_some() { SEALED } else { 0 }.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&(body as u64).to_le_bytes());
    if let Some((key, envelope)) = sealed {
        let fixed = bytes.clone();
        bytes.extend_from_slice(&envelope);
        let sealed = key.seal(&fixed, content, &mut bytes);
        sealed.map_err(|source| Error::Key { path: path.to_owned(), source })?;
    } else {
        bytes.extend_from_slice(content);
    }
    let sum = record::checksum(identity(kind), 0, &bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    Ok(bytes)
}

fn decode(path: &Path, kind: &Kind<'_>, bytes: &[u8], keyring: Option<&Keyring>) -> Result<Content, Error> {
    let damaged = |reason: String| Error::Damaged { path: path.to_owned(), reason };
    let Some((covered, sum)) = bytes.split_last_chunk::<CHECKSUM>().filter(|(rest, _)| rest.len() >= FIXED)
    else {
        return Err(damaged(format!("{} bytes are too few", bytes.len())));
    };
    if !covered.starts_with(&kind.magic) {
        return Err(damaged(format!("it begins with {:02x?} instead of {:02x?}", &covered[..8], kind.magic)));
    }
    let (stored, computed) = (u64::from_le_bytes(*sum), record::checksum(identity(kind), 0, covered));
    if stored != computed {
        return Err(damaged(format!("its checksum is {computed:016x} instead of {stored:016x}")));
    }
    let version = u16::from_le_bytes([covered[8], covered[9]]);
    if version > kind.version {
        return Err(Error::Version { path: path.to_owned(), found: version, known: kind.version });
    }
    let is_sealed = u16::from_le_bytes([covered[10], covered[11]]) & SEALED != 0;
    let (fixed, rest) = covered.split_at(FIXED);
    let (envelope, body) =
        rest.split_at_checked(if is_sealed { ENVELOPE_BYTES } else { 0 }).unwrap_or((rest, &[]));
    let length = u64_at(fixed, 16);
    if body.len() as u64 != length {
        return Err(damaged(format!("a body of {} bytes instead of {length}", body.len())));
    }
    if !is_sealed {
        return Ok(Content { version, bytes: body.to_vec(), is_stale: keyring.is_some() });
    }
    let Some(ring) = keyring else { return Err(Error::NoKey { path: path.to_owned() }) };
    let wrong = |source: crypt::Error| Error::Key { path: path.to_owned(), source };
    let key = ring.open(&context(kind), envelope).map_err(wrong)?;
    let bytes = key.open(fixed, body).map_err(wrong)?;
    Ok(Content { version, bytes, is_stale: key.is_previous() })
}

fn identity(kind: &Kind<'_>) -> Identity {
    Identity::new(&[
        u64::from_le_bytes(kind.magic),
        record::checksum(Identity::new(&[]), 0, kind.name.as_bytes()),
    ])
}

fn context(kind: &Kind<'_>) -> String {
    format!("state {:016x} {}", u64::from_be_bytes(kind.magic), kind.name)
}

fn temporary(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".new");
    PathBuf::from(name)
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::crypt::{Cipher, MasterKey, SeededEntropy};
    use crate::disk::fault::{EIO, ENOSPC, Effect, FaultDisk, Loss, Operation, Rule};

    const KIND: Kind<'_> = Kind { magic: *b"MYELTEST", version: 3, name: "ORDERS" };
    const PATH: &str = "/state";

    fn ring(current: &str, previous: Option<&str>) -> Keyring {
        let previous = previous.map(|key| MasterKey::new(key.as_bytes()));
        let entropy = Arc::new(SeededEntropy::new(1));
        Keyring::new(Cipher::ChaCha20Poly1305, MasterKey::new(current.as_bytes()), previous, entropy)
    }

    fn put(disk: &FaultDisk, content: &[u8], keyring: Option<&Keyring>) -> Result<(), Error> {
        write(disk, Path::new(PATH), &KIND, content, keyring)
    }

    fn get(disk: &FaultDisk, keyring: Option<&Keyring>) -> Result<Option<Content>, Error> {
        read(disk, Path::new(PATH), &KIND, keyring)
    }

    fn content(bytes: &[u8], is_stale: bool) -> Content {
        Content { version: 3, bytes: bytes.to_vec(), is_stale }
    }

    #[test]
    fn a_crash_at_any_point_leaves_the_old_content_or_the_new() {
        let (mut old, mut new) = (0, 0);
        for seed in 0..40 {
            for n in 1..=7 {
                let disk = FaultDisk::new(seed);
                put(&disk, b"old", None).unwrap();
                disk.crash_at(n);
                let result = put(&disk, &[b'n'; 2000], None);
                disk.crash(Loss::Random);
                let found = get(&disk, None).unwrap().unwrap();
                if found.bytes == b"old" {
                    assert!(result.is_err(), "seed {seed} change {n}");
                    old += 1;
                } else {
                    assert_eq!(found.bytes, [b'n'; 2000]);
                    new += 1;
                }
                put(&disk, b"again", None).unwrap();
                assert_eq!(get(&disk, None).unwrap().unwrap().bytes, b"again");
            }
        }
        assert!(old > 50 && new > 50, "{old} {new}");
    }

    #[test]
    fn a_failed_write_leaves_the_old_content() {
        for operation in [Operation::Create, Operation::Write, Operation::Sync, Operation::Rename] {
            let disk = FaultDisk::new(1);
            put(&disk, b"old", None).unwrap();
            disk.inject(Rule::new(operation, Effect::Fail(ENOSPC)).once());
            let error = put(&disk, b"new", None).unwrap_err();
            assert!(matches!(&error, Error::Disk(error) if error.is_full()), "{error}");
            disk.crash(Loss::Random);
            assert_eq!(get(&disk, None).unwrap(), Some(content(b"old", false)), "{operation:?}");
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_seen() {
        let ring = ring("one", None);
        for keyring in [None, Some(&ring)] {
            let disk = FaultDisk::new(1);
            put(&disk, b"content", keyring).unwrap();
            let len = disk.read(Path::new(PATH)).unwrap().len() as u64;
            for bit in 0..len * 8 {
                let disk = disk.fork(bit);
                assert!(disk.flip_bit(Path::new(PATH), bit));
                let error = get(&disk, keyring).unwrap_err();
                assert!(matches!(error, Error::Damaged { .. }), "bit {bit}: {error}");
            }
            for len in 0..len {
                let disk = disk.fork(len);
                assert!(disk.truncate(Path::new(PATH), len));
                assert!(matches!(get(&disk, keyring), Err(Error::Damaged { .. })), "{len} bytes");
            }
        }
    }

    #[test]
    fn keys_rotate_and_missing_ones_are_named() {
        let disk = FaultDisk::new(1);
        put(&disk, b"content", None).unwrap();
        assert_eq!(get(&disk, Some(&ring("old", None))).unwrap(), Some(content(b"content", true)));
        put(&disk, b"content", Some(&ring("old", None))).unwrap();
        assert!(!disk.read(Path::new(PATH)).unwrap().windows(7).any(|part| part == b"content"));
        assert_eq!(get(&disk, Some(&ring("old", None))).unwrap(), Some(content(b"content", false)));
        assert_eq!(get(&disk, Some(&ring("new", Some("old")))).unwrap(), Some(content(b"content", true)));
        let error = get(&disk, Some(&ring("new", None))).unwrap_err();
        assert!(error.to_string().starts_with("/state: encrypted with key "), "{error}");
        assert!(matches!(get(&disk, None), Err(Error::NoKey { .. })));
    }

    #[test]
    fn a_later_version_another_file_and_an_unreadable_one_are_refused() {
        let disk = FaultDisk::new(1);
        assert_eq!(get(&disk, None).unwrap(), None);
        let later = Kind { version: 4, ..KIND };
        write(&disk, Path::new(PATH), &later, b"content", None).unwrap();
        assert!(matches!(get(&disk, None), Err(Error::Version { found: 4, known: 3, .. })));
        let other = Kind { name: "OTHER", ..KIND };
        write(&disk, Path::new(PATH), &other, b"content", None).unwrap();
        assert!(matches!(get(&disk, None), Err(Error::Damaged { .. })));
        disk.inject(Rule::new(Operation::Read, Effect::Partial).once());
        let error = read(&disk, Path::new(PATH), &other, None).unwrap_err();
        assert_eq!(error.to_string(), "damaged /state: 19 of 39 bytes can be read");
        disk.inject(Rule::new(Operation::Read, Effect::Fail(EIO)).once());
        assert!(matches!(read(&disk, Path::new(PATH), &other, None), Err(Error::Disk(_))));
        remove(&disk, Path::new(PATH)).unwrap();
        remove(&disk, Path::new(PATH)).unwrap();
        assert_eq!(disk.files(), Vec::<PathBuf>::new());
    }
}
