//! Encryption at rest: one random key per file, wrapped by the master key, and sealed frames.
//!
//! A file begins with an [`Envelope`] (its owner decides where):
//!
//! ```text
//! version u8 = 1 | cipher u8 | 0 u16 | id of the master key 8 bytes | nonce 12 bytes | file key 32 bytes, encrypted | tag 16 bytes
//! ```
//!
//! The key that wraps is HKDF-SHA256 of the configured key, expanded with the cipher and a context that names the file, so an envelope is of no
//! use in another file; the first twelve bytes of the envelope are authenticated. The id is derived from the configured key as well: it says which key
//! is missing and tells nothing about it.
//!
//! A sealed frame is
//!
//! ```text
//! nonce 12 bytes | bytes, encrypted | tag 16 bytes
//! ```
//!
//! **A nonce is never used twice with a key.** It is not made of the position, since what lies at a position is written again after a crash cut a
//! file, and when a message is erased. It is made of 8 random bytes drawn whenever a file is created or opened, and a counter of the frames sealed since
//! then. The caller passes identity and position as authenticated data instead, so a frame that was moved does not open.
//!
//! **Rotation**: a [`Keyring`] may hold the previous key. Files wrapped by it open and say so ([`FileKey::is_previous`]); [`Keyring::rewrap`] wraps the
//! same file key with the current one, so rotation rewrites envelopes and not data.
//!
//! Randomness is handed in as [`Entropy`]: from the system in the server, from a seed in tests.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use aes_gcm::Aes256Gcm;
use aes_gcm::aead::{AeadInOut, KeyInit};
use chacha20poly1305::ChaCha20Poly1305;
use hkdf::Hkdf;
use sha2::Sha256;

/// Length of an [`Envelope`].
pub const ENVELOPE_BYTES: usize = 72;
/// Bytes that sealing adds.
pub const SEAL_BYTES: usize = NONCE_BYTES + TAG_BYTES;

const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;
const KEY_BYTES: usize = 32;
/// Version of the envelope.
const VERSION: u8 = 1;
/// Bytes of the envelope before the nonce.
const ENVELOPE_HEAD: usize = 12;
/// Frames that are sealed with one random start; then the counter is used up.
const SEALS_MAX: u32 = u32::MAX;

/// Start of a sealed file: which master key and cipher, and the wrapped key of the file.
pub type Envelope = [u8; ENVELOPE_BYTES];

/// A source of random bytes. In a server they must be unpredictable.
pub trait Entropy: fmt::Debug + Send + Sync {
    /// Fills `bytes`.
    fn fill(&self, bytes: &mut [u8]);
}

/// Bytes that follow from a seed (SplitMix64): for tests and simulation only.
#[derive(Debug)]
pub struct SeededEntropy {
    state: AtomicU64,
}

impl SeededEntropy {
    /// The same seed gives the same bytes.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed) }
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        for chunk in bytes.chunks_mut(8) {
            let mut value = self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
            value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            value ^= value >> 31;
            chunk.copy_from_slice(&value.to_le_bytes()[..chunk.len()]);
        }
    }
}

/// How bytes are encrypted and authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cipher {
    /// ChaCha20-Poly1305.
    ChaCha20Poly1305,
    /// AES-256 in Galois/Counter mode.
    Aes256Gcm,
}

impl Cipher {
    fn code(self) -> u8 {
        match self {
            Self::ChaCha20Poly1305 => 1,
            Self::Aes256Gcm => 2,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::ChaCha20Poly1305),
            2 => Some(Self::Aes256Gcm),
            _ => None,
        }
    }
}

/// Name of a master key that tells nothing about it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyId([u8; 8]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

/// Why something could not be sealed or opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The envelope names a key that is not configured.
    #[error("encrypted with key {found}, the configured key is {current}{}", with_previous(.previous.as_ref()))]
    UnknownKey {
        /// Named by the envelope.
        found: KeyId,
        /// The configured one.
        current: KeyId,
        /// The configured previous one.
        previous: Option<KeyId>,
    },
    /// The envelope is not what was written.
    #[error("the envelope of the key is damaged: {reason}")]
    Envelope {
        /// What was found.
        reason: String,
    },
    /// A frame does not authenticate.
    #[error("{length} sealed bytes do not open with the key of the file")]
    Sealed {
        /// Length of the frame.
        length: usize,
    },
    /// The counter is used up: the file must be opened anew.
    #[error("{SEALS_MAX} frames were sealed since the file was opened")]
    Exhausted,
}

fn with_previous(previous: Option<&KeyId>) -> String {
    previous.map(|id| format!(", the previous one {id}")).unwrap_or_default()
}

/// A key of the configuration.
pub struct MasterKey {
    derive: Hkdf<Sha256>,
    id: KeyId,
}

impl MasterKey {
    /// From the configured bytes, of any length.
    #[must_use]
    pub fn new(configured: &[u8]) -> Self {
        let derive = Hkdf::<Sha256>::new(Some(b"myelin encryption at rest"), configured);
        let mut id = [0; 8];
        expand(&derive, &[b"key id"], &mut id);
        Self { derive, id: KeyId(id) }
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// What wraps the key of the file that the context names.
    fn wrapper(&self, cipher: Cipher, context: &str) -> Aead {
        let mut key = [0; KEY_BYTES];
        expand(&self.derive, &[b"wrap", &[cipher.code()], context.as_bytes()], &mut key);
        Aead::new(cipher, &key)
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MasterKey({})", self.id)
    }
}

fn expand(derive: &Hkdf<Sha256>, info: &[&[u8]], out: &mut [u8]) {
    let done = derive.expand_multi_info(info, out);
    assert!(done.is_ok(), "HKDF-SHA256 gives up to 8160 bytes, not {}", out.len());
}

/// The configured keys, and how new files are encrypted.
#[derive(Debug)]
pub struct Keyring {
    cipher: Cipher,
    current: MasterKey,
    previous: Option<MasterKey>,
    entropy: Arc<dyn Entropy>,
}

impl Keyring {
    /// New files are wrapped by `current`; files wrapped by `previous` still open.
    #[must_use]
    pub fn new(
        cipher: Cipher,
        current: MasterKey,
        previous: Option<MasterKey>,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        Self { cipher, current, previous, entropy }
    }

    /// A new key for the file that `context` names, and its envelope.
    #[must_use]
    pub fn create(&self, context: &str) -> (FileKey, Envelope) {
        let mut key = [0; KEY_BYTES];
        self.entropy.fill(&mut key);
        let file = FileKey::new(self.cipher, key, false, &*self.entropy);
        let envelope = self.rewrap(context, &file);
        (file, envelope)
    }

    /// The key of the file that `context` names, from its envelope.
    pub fn open(&self, context: &str, envelope: &[u8]) -> Result<FileKey, Error> {
        let damaged = |reason: String| Error::Envelope { reason };
        let Ok(envelope) = Envelope::try_from(envelope) else {
            return Err(damaged(format!("{} of {ENVELOPE_BYTES} bytes", envelope.len())));
        };
        if envelope[0] != VERSION {
            return Err(damaged(format!("version {} instead of {VERSION}", envelope[0])));
        }
        let cipher =
            Cipher::from_code(envelope[1]).ok_or_else(|| damaged(format!("cipher {}", envelope[1])))?;
        let mut found = [0; 8];
        found.copy_from_slice(&envelope[4..ENVELOPE_HEAD]);
        let found = KeyId(found);
        let is_previous = found != self.current.id;
        let master = if is_previous { self.previous.as_ref() } else { Some(&self.current) };
        let Some(master) = master.filter(|master| master.id == found) else {
            let previous = self.previous.as_ref().map(MasterKey::id);
            return Err(Error::UnknownKey { found, current: self.current.id, previous });
        };
        let (head, rest) = envelope.split_at(ENVELOPE_HEAD);
        let mut sealed = rest.to_vec();
        let opened = open_in_place(&master.wrapper(cipher, context), head, &mut sealed);
        let key = opened.ok().and_then(|key| <[u8; KEY_BYTES]>::try_from(&*key).ok());
        let Some(key) = key else { return Err(damaged("it does not authenticate".to_owned())) };
        Ok(FileKey::new(cipher, key, is_previous, &*self.entropy))
    }

    /// An envelope for the same file key by the current master key.
    #[must_use]
    pub fn rewrap(&self, context: &str, file: &FileKey) -> Envelope {
        let mut envelope = [0; ENVELOPE_BYTES];
        envelope[0] = VERSION;
        envelope[1] = file.cipher.code();
        envelope[4..ENVELOPE_HEAD].copy_from_slice(&self.current.id.0);
        let (head, rest) = envelope.split_at_mut(ENVELOPE_HEAD);
        let (nonce, rest) = rest.split_at_mut(NONCE_BYTES);
        self.entropy.fill(nonce);
        let (key, tag) = rest.split_at_mut(KEY_BYTES);
        key.copy_from_slice(&file.key);
        tag.copy_from_slice(&self.current.wrapper(file.cipher, context).encrypt(nonce, head, key));
        envelope
    }
}

/// Seals and opens the frames of one file.
pub struct FileKey {
    cipher: Cipher,
    aead: Aead,
    key: [u8; KEY_BYTES],
    is_previous: bool,
    /// First eight bytes of every nonce.
    session: [u8; 8],
    sealed: AtomicU32,
}

impl FileKey {
    fn new(cipher: Cipher, key: [u8; KEY_BYTES], is_previous: bool, entropy: &dyn Entropy) -> Self {
        let mut session = [0; 8];
        entropy.fill(&mut session);
        Self { cipher, aead: Aead::new(cipher, &key), key, is_previous, session, sealed: AtomicU32::new(0) }
    }

    /// Was it wrapped by the previous master key, so that the file should get a new envelope?
    #[must_use]
    pub fn is_previous(&self) -> bool {
        self.is_previous
    }

    /// How its frames are encrypted.
    #[must_use]
    pub fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// Appends `plain`, sealed, to `out`: [`SEAL_BYTES`] more. It opens only with the same `place`.
    pub fn seal(&self, place: &[u8], plain: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let start = out.len();
        out.extend_from_slice(&[0; NONCE_BYTES]);
        out.extend_from_slice(plain);
        self.seal_tail(place, out, start)
    }

    /// Seals in place what was appended to `out` behind `start` and 12 bytes of space for the nonce, and appends the tag.
    pub fn seal_tail(&self, place: &[u8], out: &mut Vec<u8>, start: usize) -> Result<(), Error> {
        let nonce = self.next_nonce()?;
        out[start..start + NONCE_BYTES].copy_from_slice(&nonce);
        let tag = self.aead.encrypt(&nonce, place, &mut out[start + NONCE_BYTES..]);
        out.extend_from_slice(&tag);
        Ok(())
    }

    /// Opens a sealed frame.
    pub fn open(&self, place: &[u8], sealed: &[u8]) -> Result<Vec<u8>, Error> {
        let mut bytes = sealed.to_vec();
        let length = self.open_in_place(place, &mut bytes)?.len();
        bytes.drain(..NONCE_BYTES);
        bytes.truncate(length);
        Ok(bytes)
    }

    /// Opens a sealed frame where it stands. After an error its bytes are worth nothing.
    pub fn open_in_place<'a>(&self, place: &[u8], sealed: &'a mut [u8]) -> Result<&'a mut [u8], Error> {
        open_in_place(&self.aead, place, sealed)
    }

    fn next_nonce(&self) -> Result<[u8; NONCE_BYTES], Error> {
        let next = |count: u32| (count < SEALS_MAX).then(|| count + 1);
        let count = self.sealed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let count = count.map_err(|_| Error::Exhausted)?;
        let mut nonce = [0; NONCE_BYTES];
        nonce[..8].copy_from_slice(&self.session);
        nonce[8..].copy_from_slice(&count.to_le_bytes());
        Ok(nonce)
    }
}

impl fmt::Debug for FileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileKey")
            .field("cipher", &self.cipher)
            .field("is_previous", &self.is_previous)
            .finish()
    }
}

fn open_in_place<'a>(aead: &Aead, place: &[u8], sealed: &'a mut [u8]) -> Result<&'a mut [u8], Error> {
    let length = sealed.len();
    if length < SEAL_BYTES {
        return Err(Error::Sealed { length });
    }
    let (nonce, rest) = sealed.split_at_mut(NONCE_BYTES);
    let (text, tag) = rest.split_at_mut(length - SEAL_BYTES);
    if aead.decrypt(nonce, place, text, tag) { Ok(text) } else { Err(Error::Sealed { length }) }
}

/// One of the ciphers with a key. The tables of AES take a kilobyte, so they live elsewhere.
enum Aead {
    ChaCha(Box<ChaCha20Poly1305>),
    Aes(Box<Aes256Gcm>),
}

impl Aead {
    fn new(cipher: Cipher, key: &[u8; KEY_BYTES]) -> Self {
        match cipher {
            Cipher::ChaCha20Poly1305 => Self::ChaCha(Box::new(ChaCha20Poly1305::new(key.into()))),
            Cipher::Aes256Gcm => Self::Aes(Box::new(Aes256Gcm::new(key.into()))),
        }
    }

    /// Encrypts where the text stands and returns the tag.
    fn encrypt(&self, nonce: &[u8], place: &[u8], text: &mut [u8]) -> [u8; TAG_BYTES] {
        let nonce = nonce_of(nonce);
        let tag = match self {
            Self::ChaCha(aead) => aead.encrypt_inout_detached(&nonce.into(), place, text.into()),
            Self::Aes(aead) => aead.encrypt_inout_detached(&nonce.into(), place, text.into()),
        };
        let Ok(tag) = tag else {
            // Both ciphers take 64 GiB with a nonce; frames end far below.
            unreachable!("more bytes than a cipher takes at once")
        };
        tag.into()
    }

    /// Decrypts where the text stands. False if it does not authenticate.
    fn decrypt(&self, nonce: &[u8], place: &[u8], text: &mut [u8], tag: &[u8]) -> bool {
        let nonce = nonce_of(nonce);
        let Ok(tag) = <[u8; TAG_BYTES]>::try_from(tag) else { return false };
        match self {
            Self::ChaCha(aead) => {
                aead.decrypt_inout_detached(&nonce.into(), place, text.into(), &tag.into()).is_ok()
            }
            Self::Aes(aead) => {
                aead.decrypt_inout_detached(&nonce.into(), place, text.into(), &tag.into()).is_ok()
            }
        }
    }
}

fn nonce_of(bytes: &[u8]) -> [u8; NONCE_BYTES] {
    let mut nonce = [0; NONCE_BYTES];
    nonce.copy_from_slice(bytes);
    nonce
}

#[cfg(test)]
mod tests {
    use super::*;

    const CIPHERS: [Cipher; 2] = [Cipher::ChaCha20Poly1305, Cipher::Aes256Gcm];

    fn ring(cipher: Cipher, current: &str, previous: Option<&str>) -> Keyring {
        let previous = previous.map(|key| MasterKey::new(key.as_bytes()));
        Keyring::new(cipher, MasterKey::new(current.as_bytes()), previous, Arc::new(SeededEntropy::new(5)))
    }

    #[test]
    fn what_was_sealed_opens_with_the_same_key_and_place_only() {
        for cipher in CIPHERS {
            let ring = ring(cipher, "one", None);
            let (key, envelope) = ring.create("file 1");
            let mut sealed = Vec::new();
            key.seal(b"place", b"plain text", &mut sealed).unwrap();
            assert_eq!(sealed.len(), 10 + SEAL_BYTES);
            assert!(!sealed.windows(5).any(|part| part == b"plain"));
            let again = ring.open("file 1", &envelope).unwrap();
            assert_eq!(again.cipher(), cipher);
            assert!(!again.is_previous());
            assert_eq!(again.open(b"place", &sealed).unwrap(), b"plain text");
            assert_eq!(again.open(b"other", &sealed), Err(Error::Sealed { length: 38 }));
            assert_eq!(again.open(b"place", &sealed[..20]), Err(Error::Sealed { length: 20 }));
            let (other, _) = ring.create("file 1");
            assert!(other.open(b"place", &sealed).is_err());
        }
    }

    #[test]
    fn every_flipped_bit_of_frame_and_envelope_is_seen() {
        for cipher in CIPHERS {
            let ring = ring(cipher, "one", Some("zero"));
            let (key, envelope) = ring.create("file");
            let mut sealed = Vec::new();
            key.seal(b"", b"text", &mut sealed).unwrap();
            for bit in 0..sealed.len() * 8 {
                let mut bad = sealed.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert!(key.open(b"", &bad).is_err(), "bit {bit} of the frame");
            }
            for bit in 0..ENVELOPE_BYTES * 8 {
                let mut bad = envelope;
                bad[bit / 8] ^= 1 << (bit % 8);
                assert!(ring.open("file", &bad).is_err(), "bit {bit} of the envelope");
            }
        }
    }

    #[test]
    fn no_two_frames_share_a_nonce_even_after_the_file_was_opened_again() {
        let ring = ring(Cipher::Aes256Gcm, "one", None);
        let (key, envelope) = ring.create("file");
        let mut nonces = std::collections::BTreeSet::new();
        let mut seal = |key: &FileKey| {
            let mut sealed = Vec::new();
            key.seal(b"", b"the same text", &mut sealed).unwrap();
            assert!(nonces.insert(sealed[..NONCE_BYTES].to_vec()));
        };
        for _ in 0..100 {
            seal(&key);
        }
        for _ in 0..100 {
            seal(&ring.open("file", &envelope).unwrap());
        }
    }

    #[test]
    fn the_counter_ends_with_an_error_instead_of_a_second_use() {
        let (key, _) = ring(Cipher::Aes256Gcm, "one", None).create("file");
        key.sealed.store(SEALS_MAX - 1, Ordering::Relaxed);
        let mut out = Vec::new();
        assert_eq!(key.seal(b"", b"last", &mut out), Ok(()));
        assert_eq!(key.seal(b"", b"too many", &mut out), Err(Error::Exhausted));
        assert_eq!(key.seal(b"", b"too many", &mut out), Err(Error::Exhausted));
    }

    #[test]
    fn a_file_of_the_previous_key_opens_and_is_wrapped_anew() {
        let (key, envelope) = ring(Cipher::ChaCha20Poly1305, "old", None).create("file");
        let mut sealed = Vec::new();
        key.seal(b"", b"text", &mut sealed).unwrap();
        let both = ring(Cipher::Aes256Gcm, "new", Some("old"));
        let opened = both.open("file", &envelope).unwrap();
        assert!(opened.is_previous());
        let fresh = both.rewrap("file", &opened);
        let rotated = ring(Cipher::Aes256Gcm, "new", None);
        let reopened = rotated.open("file", &fresh).unwrap();
        assert!(!reopened.is_previous());
        assert_eq!(reopened.open(b"", &sealed).unwrap(), b"text");
        let error = rotated.open("file", &envelope).unwrap_err();
        assert_eq!(
            error,
            Error::UnknownKey {
                found: MasterKey::new(b"old").id(),
                current: MasterKey::new(b"new").id(),
                previous: None
            }
        );
        assert!(error.to_string().starts_with("encrypted with key "), "{error}");
    }

    #[test]
    fn an_envelope_is_of_no_use_in_another_file() {
        let ring = ring(Cipher::Aes256Gcm, "one", None);
        let (_, envelope) = ring.create("file 1");
        assert!(matches!(ring.open("file 2", &envelope), Err(Error::Envelope { .. })));
        let cut = ring.open("file 1", &envelope[..40]).unwrap_err();
        assert_eq!(cut.to_string(), "the envelope of the key is damaged: 40 of 72 bytes");
    }

    #[test]
    fn keys_print_nothing() {
        let ring = ring(Cipher::Aes256Gcm, "a secret word", None);
        let (key, _) = ring.create("file");
        let printed = format!("{ring:?} {key:?}");
        assert!(!printed.contains("secret"), "{printed}");
    }
}
