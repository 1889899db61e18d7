//! JetStream documents: configurations, states, requests, responses and advisories.
//!
//! Names, order and omission of fields are those of the reference. Counts that may be negative in a request are signed
//! here too, so that validation can refuse them with the text that clients know.

pub mod account;
pub mod advisory;
pub mod cluster;
pub mod consumer;
pub mod decode;
pub mod feature;
pub mod limits;
pub mod metadata;
pub mod name;
mod quote;
pub mod request;
pub mod response;
pub mod stream;
mod subjects;

/// Level of the API that this server speaks. Clients choose features by it.
pub const API_LEVEL: i64 = 5;

/// A policy with a fixed set of texts.
///
/// Reading is left to the derive, which a decoder may take over to answer unknown texts with its own words.
macro_rules! policy {
    ($(#[$doc:meta])* $name:ident { $(#[$first_doc:meta])* $first:ident = $first_text:literal,
        $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }) => {
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        $(#[$doc])*
        pub enum $name {
            $(#[$first_doc])*
            #[default]
            #[serde(rename = $first_text)]
            $first,
            $($(#[$variant_doc])* #[serde(rename = $text)] $variant,)*
        }

        impl $name {
            /// The text of the policy on the wire.
            pub fn as_str(self) -> &'static str {
                match self {
                    Self::$first => $first_text,
                    $(Self::$variant => $text,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use policy;
