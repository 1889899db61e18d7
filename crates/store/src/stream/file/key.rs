//! The key of an encrypted stream: kept, wrapped by the configured one, in a file of its own, twice, and in the base of the checkpoints again.

use std::sync::Arc;

use super::shared::{KEY, KEY_NEW, Shared};
use crate::crypt::{self, ENVELOPE_BYTES, Envelope, FileKey, Keyring};
use crate::stream::{Damage, Error};

fn context(identity: u64) -> String {
    format!("stream {identity}")
}

fn refused(reason: String) -> Error {
    Error::Damaged(Damage { file: KEY.to_owned(), sequences: None, reason })
}

/// Takes the key from its file or from the checkpoints. Without either, a stream that `exists` is a plain one, and a new one is given a key if keys are
/// configured. Returns whether the wrapping is new, so that the copy in the checkpoints is too.
pub(super) fn open(shared: &mut Shared, spare: Option<&[u8]>, exists: bool) -> Result<bool, Error> {
    let stored = match shared.read_all(&shared.path(KEY)) {
        Ok(bytes) => bytes,
        Err(error) if error.is_not_found() => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let spares = spare.into_iter().flat_map(|spare| spare.chunks_exact(ENVELOPE_BYTES));
    let copies: Vec<&[u8]> = stored.chunks(ENVELOPE_BYTES).chain(spares).collect();
    let Some(keyring) = shared.options.keyring.clone() else {
        let plain = copies.is_empty();
        return if plain {
            Ok(false)
        } else {
            Err(refused("the stream is encrypted and no key is configured".to_owned()))
        };
    };
    if copies.is_empty() {
        if !exists {
            let (key, envelope) = keyring.create(&context(shared.options.identity));
            adopt(shared, key, envelope)?;
        }
        return Ok(!exists);
    }
    let key = unwrap(&keyring, &context(shared.options.identity), &copies)?;
    let whole = stored.len() == 2 * ENVELOPE_BYTES && stored[..ENVELOPE_BYTES] == stored[ENVELOPE_BYTES..];
    if key.is_previous() || !whole {
        let envelope = keyring.rewrap(&context(shared.options.identity), &key);
        adopt(shared, key, envelope)?;
        return Ok(true);
    }
    shared.envelope = Envelope::try_from(&stored[..ENVELOPE_BYTES]).ok();
    shared.key = Some(Arc::new(key));
    Ok(false)
}

fn unwrap(keyring: &Keyring, context: &str, copies: &[&[u8]]) -> Result<FileKey, Error> {
    let mut reason = None;
    for copy in copies {
        match keyring.open(context, copy) {
            Ok(key) => return Ok(key),
            // A key that is not configured says more than a damaged copy.
            Err(error @ crypt::Error::UnknownKey { .. }) => reason = Some(error.to_string()),
            Err(error) => reason = reason.or_else(|| Some(error.to_string())),
        }
    }
    Err(refused(reason.unwrap_or_default()))
}

/// Writes the key's file before anything is encrypted with it.
fn adopt(shared: &mut Shared, key: FileKey, envelope: Envelope) -> Result<(), Error> {
    let (path, new) = (shared.path(KEY), shared.path(KEY_NEW));
    let file = shared.create(&new)?;
    file.write_at(&[envelope, envelope].concat(), 0)?;
    file.sync()?;
    shared.disk.rename(&new, &path)?;
    shared.disk.sync_dir(&shared.dir)?;
    shared.envelope = Some(envelope);
    shared.key = Some(Arc::new(key));
    Ok(())
}
