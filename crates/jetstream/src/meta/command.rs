//! Commands of the catalogue, and the catalogue itself, as bytes: JSON, because both are rare and a person may have to read them.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::jetstream::stream::StreamConfig;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use store::Timestamp;

use super::{Asset, Catalogue};

/// Version of the format; another one is refused.
const VERSION: u32 = 1;

/// A change of the catalogue.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Adds a stream.
    Create {
        /// Account it is in.
        account: Box<str>,
        /// The stream.
        asset: Box<Asset>,
    },
    /// Changes a stream's configuration.
    Update {
        /// Account it is in.
        account: Box<str>,
        /// The new configuration, which names the stream.
        config: Box<StreamConfig>,
    },
    /// Removes a stream.
    Delete {
        /// Account it is in.
        account: Box<str>,
        /// Its name.
        name: Box<str>,
    },
}

/// The bytes are no command, or no catalogue, of this version.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Not even the form is right.
    #[error("damaged catalogue record: {0}")]
    Form(#[from] serde_json::Error),
    /// Written by another version.
    #[error("catalogue record of version {found}, this server reads version {VERSION}")]
    Version {
        /// The version found.
        found: u32,
    },
}

#[derive(Serialize, Deserialize)]
struct Envelope<T> {
    version: u32,
    #[serde(flatten)]
    content: T,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CommandForm {
    Create { account: Box<str>, group: u64, created: i64, config: Box<StreamConfig> },
    Update { account: Box<str>, config: Box<StreamConfig> },
    Delete { account: Box<str>, name: Box<str> },
}

#[derive(Serialize, Deserialize)]
struct CatalogueForm {
    applied: u64,
    next_group: u64,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    lost: BTreeSet<u64>,
    streams: Vec<StreamForm>,
}

#[derive(Serialize, Deserialize)]
struct StreamForm {
    account: Box<str>,
    group: u64,
    created: i64,
    config: StreamConfig,
}

fn encode<T: Serialize>(content: T) -> Bytes {
    let bytes = serde_json::to_vec(&Envelope { version: VERSION, content });
    let Ok(bytes) = bytes else { unreachable!("plain data has a JSON form") };
    bytes.into()
}

fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, DecodeError> {
    let envelope: Envelope<T> = serde_json::from_slice(bytes)?;
    if envelope.version != VERSION {
        return Err(DecodeError::Version { found: envelope.version });
    }
    Ok(envelope.content)
}

impl Command {
    /// As bytes.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        encode(match self.clone() {
            Self::Create { account, asset } => CommandForm::Create {
                account,
                group: asset.group,
                created: asset.created.0,
                config: Box::new(Arc::unwrap_or_clone(asset.config)),
            },
            Self::Update { account, config } => CommandForm::Update { account, config },
            Self::Delete { account, name } => CommandForm::Delete { account, name },
        })
    }

    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Ok(match decode(bytes)? {
            CommandForm::Create { account, group, created, config } => Self::Create {
                account,
                asset: Box::new(Asset { group, created: Timestamp(created), config: config.into() }),
            },
            CommandForm::Update { account, config } => Self::Update { account, config },
            CommandForm::Delete { account, name } => Self::Delete { account, name },
        })
    }
}

pub(super) fn encode_catalogue(catalogue: &Catalogue) -> Bytes {
    let streams = catalogue.all().map(|(account, asset)| StreamForm {
        account: account.into(),
        group: asset.group,
        created: asset.created.0,
        config: StreamConfig::clone(&asset.config),
    });
    encode(CatalogueForm {
        applied: catalogue.applied,
        next_group: catalogue.next_group,
        lost: catalogue.lost.clone(),
        streams: streams.collect(),
    })
}

pub(super) fn decode_catalogue(bytes: &[u8]) -> Result<Catalogue, DecodeError> {
    let form: CatalogueForm = decode(bytes)?;
    let mut catalogue = Catalogue {
        next_group: form.next_group,
        unnamed: form.next_group,
        lost: form.lost,
        applied: form.applied,
        ..Catalogue::default()
    };
    for stream in form.streams {
        let config = stream.config.into();
        let asset = Asset { group: stream.group, created: Timestamp(stream.created), config };
        catalogue.accounts.entry(stream.account).or_default().put(asset, &mut catalogue.sums);
    }
    Ok(catalogue)
}
