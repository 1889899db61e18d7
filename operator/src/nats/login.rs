//! Who a connection is: the part of CONNECT that proves it.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use serde_json::{Map, Value};

use super::client::Error;

/// Largest credentials that are read.
pub const CREDENTIALS_LENGTH_MAX: usize = 64 * 1024;

/// A login. Secrets are never printed.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Login {
    /// Nobody.
    Anonymous,
    /// A user name and password.
    Password {
        /// User name.
        user: String,
        /// Password.
        password: String,
    },
    /// A token.
    Token(String),
    /// An nkey, by its seed.
    Nkey(String),
    /// A user JWT with the seed of its nkey.
    Jwt {
        /// The JWT.
        jwt: String,
        /// The seed.
        seed: String,
    },
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anonymous => "Anonymous",
            Self::Password { .. } => "Password",
            Self::Token(_) => "Token",
            Self::Nkey(_) => "Nkey",
            Self::Jwt { .. } => "Jwt",
        })
    }
}

impl Login {
    /// Reads a credentials file: a JWT and a seed between lines of dashes.
    ///
    /// # Errors
    /// When one of the two is missing or the seed is none.
    pub fn from_credentials(text: &str) -> Result<Self, Error> {
        let mut sections = Vec::new();
        let mut inside = false;
        for line in text.lines().map(str::trim) {
            if line.starts_with("---") && line.ends_with("---") {
                inside = line.contains("BEGIN");
            } else if inside && !line.is_empty() {
                sections.push(line);
                inside = false;
            }
        }
        let [jwt, seed] = sections[..] else {
            return Err(Error::Login("the credentials hold no user JWT with its seed"));
        };
        check_seed(seed)?;
        Ok(Self::Jwt { jwt: jwt.to_owned(), seed: seed.to_owned() })
    }

    /// Reads the seed of a user's nkey: the first line that is neither empty nor dashes.
    ///
    /// # Errors
    /// When there is none.
    pub fn from_seed(text: &str) -> Result<Self, Error> {
        let seed = text.lines().map(str::trim).find(|line| line.starts_with("SU"));
        let seed = seed.ok_or(Error::Login("the nkey holds no seed of a user"))?;
        check_seed(seed)?;
        Ok(Self::Nkey(seed.to_owned()))
    }

    /// The members of CONNECT that prove who this is. `nonce` is what the server wants signed.
    ///
    /// # Errors
    /// When the server gave nothing to sign.
    pub fn members(&self, nonce: &str) -> Result<Map<String, Value>, Error> {
        let mut members = Map::new();
        let mut set = |name: &str, value: &str| {
            members.insert(name.to_owned(), Value::from(value));
        };
        match self {
            Self::Anonymous => {}
            Self::Password { user, password } => {
                set("user", user);
                set("pass", password);
            }
            Self::Token(token) => set("auth_token", token),
            Self::Nkey(seed) => {
                let (key, signature) = sign(seed, nonce)?;
                set("nkey", &key);
                set("sig", &signature);
            }
            Self::Jwt { jwt, seed } => {
                let (_, signature) = sign(seed, nonce)?;
                set("jwt", jwt);
                set("sig", &signature);
            }
        }
        Ok(members)
    }
}

fn check_seed(seed: &str) -> Result<(), Error> {
    KeyPair::from_seed(seed).map(|_| ()).map_err(|_| Error::Login("the seed is damaged"))
}

/// Public key and signature.
fn sign(seed: &str, nonce: &str) -> Result<(String, String), Error> {
    if nonce.is_empty() {
        return Err(Error::Login("the server gave nothing to sign: it does not use nkeys"));
    }
    let pair = KeyPair::from_seed(seed).map_err(|_| Error::Login("the seed is damaged"))?;
    let signature = pair.sign(nonce.as_bytes()).map_err(|_| Error::Login("the seed cannot sign"))?;
    Ok((pair.public_key(), URL_SAFE_NO_PAD.encode(signature)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seed() -> String {
        KeyPair::new_from_raw(nkeys::KeyPairType::User, [7; 32]).unwrap().seed().unwrap()
    }

    #[test]
    fn credentials_hold_a_jwt_and_a_seed() {
        let text = format!(
            "-----BEGIN NATS USER JWT-----\nabc.def.ghi\n------END NATS USER JWT------\n\n*** IMPORTANT ***\n\
             -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
            seed()
        );
        let login = Login::from_credentials(&text).unwrap();
        assert_eq!(login, Login::Jwt { jwt: "abc.def.ghi".to_owned(), seed: seed() });
        let members = login.members("nonce").unwrap();
        assert_eq!(members["jwt"], "abc.def.ghi");
        let signature = URL_SAFE_NO_PAD.decode(members["sig"].as_str().unwrap()).unwrap();
        KeyPair::from_seed(&seed()).unwrap().verify(b"nonce", &signature).unwrap();
        for broken in ["", "abc", "-----BEGIN NATS USER JWT-----\nabc\n------END NATS USER JWT------\n"] {
            assert!(Login::from_credentials(broken).is_err());
        }
    }

    #[test]
    fn a_seed_signs_what_the_server_gives() {
        let login = Login::from_seed(&format!("\n{}\n", seed())).unwrap();
        let members = login.members("nonce").unwrap();
        assert!(members["nkey"].as_str().unwrap().starts_with('U'));
        assert!(login.members("").is_err());
        assert!(Login::from_seed("SUNONSENSE").is_err());
        assert!(Login::from_seed("").is_err());
    }

    #[test]
    fn secrets_are_not_printed() {
        let login = Login::Password { user: "u".to_owned(), password: "secret".to_owned() };
        assert_eq!(format!("{login:?}"), "Password");
        assert_eq!(format!("{:?}", Login::Nkey(seed())), "Nkey");
    }
}
