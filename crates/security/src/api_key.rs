//! Keys for places where client certificates cannot go, such as a proxy that ends TLS.
//!
//! ```text
//! id [16 hexadecimal digits] . secret [64 hexadecimal digits]
//! ```
//!
//! The secret is 256 random bits, so the server stores only its SHA-256: no salt and no slow hash are needed where
//! nothing can be guessed. Invariant: nothing here prints a secret, except [`NewApiKey::text`].

use std::{collections::HashMap, fmt, sync::Arc};

use ring::digest;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::{
    access::Grant,
    clearance::{Clearance, Permissions},
};

const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;
const HASH_BYTES: usize = digest::SHA256_OUTPUT_LEN;
/// Separates the id from the secret.
const SEPARATOR: char = '.';
/// The scheme of the header `Authorization` (RFC 6750) with which a key is presented.
const SCHEME: &str = "Bearer";
/// How the list names the administrators in the configuration.
const CONFIGURED_NAME: &str = "Administrator in Security.ApiKeys.Admin";

type Hash = [u8; HASH_BYTES];

/// A key that was just made. It is shown to its owner once.
pub struct NewApiKey {
    id: String,
    secret: Zeroizing<[u8; SECRET_BYTES]>,
}

impl NewApiKey {
    /// A key of the bytes with which `fill` overwrites what it is given: they must be random and secret.
    pub fn generate(fill: impl Fn(&mut [u8])) -> NewApiKey {
        let (mut id, mut secret) = ([0; ID_BYTES], Zeroizing::new([0; SECRET_BYTES]));
        fill(&mut id);
        fill(&mut *secret);
        NewApiKey { id: hex(&id), secret }
    }

    /// What names it, and is no secret.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What its owner presents.
    pub fn text(&self) -> Zeroizing<String> {
        let secret = Zeroizing::new(hex(&*self.secret));
        Zeroizing::new(format!("{}{SEPARATOR}{}", self.id, *secret))
    }

    /// The SHA-256 of its secret in hexadecimal digits: what a server remembers.
    pub fn hash(&self) -> String {
        hex(&hash_of(&*self.secret))
    }
}

/// A key as a client presents it, of which only the id and the hash are left.
#[derive(Clone)]
pub struct PresentedKey(Option<(String, Hash)>);

impl PresentedKey {
    /// Reads a key. One that cannot be read is a key that nobody has.
    pub fn read(text: &str) -> PresentedKey {
        let parsed = text.split_once(SEPARATOR).and_then(|(id, secret)| {
            let id = bytes_of::<ID_BYTES>(id)?;
            let secret = Zeroizing::new(bytes_of::<SECRET_BYTES>(secret)?);
            Some((hex(&id), hash_of(&*secret)))
        });
        PresentedKey(parsed)
    }

    /// Reads the values of all headers `Authorization` of a request. `None` when they are of another scheme, or there is none.
    pub fn of_headers<'v>(values: impl IntoIterator<Item = &'v [u8]>) -> Option<PresentedKey> {
        let mut values = values.into_iter();
        let value = values.next()?;
        if values.next().is_some() {
            return Some(PresentedKey(None));
        }
        let value = std::str::from_utf8(value).ok()?;
        let (scheme, key) = value.trim().split_once(' ')?;
        scheme.eq_ignore_ascii_case(SCHEME).then(|| PresentedKey::read(key.trim()))
    }
}

/// What the server remembers of a key: what is stored.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct RegisteredApiKey {
    /// What names it: 16 hexadecimal digits.
    pub id: String,
    /// A name for people.
    pub name: String,
    /// What its holder may do.
    pub security_clearance: Clearance,
    /// In which databases a [`Clearance::ValidUser`] may do what.
    pub permissions: Permissions,
    /// The last moment of its validity, as the protocol prints dates; `None` for no end.
    pub not_after: Option<String>,
    /// When it was made.
    pub created_at: String,
    /// The SHA-256 of the secret in hexadecimal digits.
    pub secret_hash: String,
}

impl RegisteredApiKey {
    /// An administrator that the configuration names by id and hash, as in `id.hash`.
    fn configured(entry: &str) -> Option<RegisteredApiKey> {
        let (id, secret_hash) = entry.split_once(SEPARATOR)?;
        Some(RegisteredApiKey {
            id: id.to_ascii_lowercase(),
            name: CONFIGURED_NAME.to_owned(),
            security_clearance: Clearance::ClusterAdmin,
            permissions: Permissions::default(),
            not_after: None,
            created_at: String::new(),
            secret_hash: secret_hash.to_owned(),
        })
    }

    /// What its holder may do.
    pub fn grant(&self) -> Grant<'_> {
        Grant {
            name: &self.name,
            clearance: self.security_clearance,
            permissions: &self.permissions,
        }
    }

    /// How messages name it.
    pub(crate) fn in_words(&self) -> String {
        format!("{} ({})", self.name, self.id)
    }
}

/// As what a key is known, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyStanding {
    /// It is registered, and valid now.
    Registered(Arc<RegisteredApiKey>),
    /// It is registered, but its validity has ended.
    Expired(Arc<RegisteredApiKey>),
    /// No such key is registered, or its secret is another one: which of both is not shown.
    Unknown {
        /// The id that the client claims, if it is one.
        id: Option<String>,
    },
}

/// All keys that are trusted, as a value: it is replaced when one is registered or removed.
#[derive(Debug, Default)]
pub struct TrustedKeys {
    by_id: HashMap<String, Trusted>,
}

struct Trusted {
    hash: Hash,
    /// In ticks.
    not_after: i64,
    registered: Arc<RegisteredApiKey>,
}

impl TrustedKeys {
    /// The registered ones, and the administrators that the configuration names, as `id.hash`. Entries that cannot be
    /// read are left out.
    pub fn new(
        registered: impl IntoIterator<Item = RegisteredApiKey>,
        administrators: &[String],
    ) -> TrustedKeys {
        let configured =
            administrators.iter().filter_map(|entry| RegisteredApiKey::configured(entry));
        let trusted = registered.into_iter().chain(configured).filter_map(|key| {
            let hash = bytes_of(&key.secret_hash)?;
            let not_after = match &key.not_after {
                None => i64::MAX,
                Some(text) => model::date::parse(text)?.utc_ticks(),
            };
            Some((key.id.clone(), Trusted { hash, not_after, registered: Arc::new(key) }))
        });
        TrustedKeys { by_id: trusted.collect() }
    }

    /// As what a key is known at this moment, in ticks.
    pub fn standing(&self, presented: &PresentedKey, now: i64) -> KeyStanding {
        let Some((id, hash)) = &presented.0 else { return KeyStanding::Unknown { id: None } };
        let known = self.by_id.get(id).filter(|trusted| bool::from(trusted.hash.ct_eq(hash)));
        match known {
            None => KeyStanding::Unknown { id: Some(id.clone()) },
            Some(trusted) if trusted.not_after < now => {
                KeyStanding::Expired(Arc::clone(&trusted.registered))
            }
            Some(trusted) => KeyStanding::Registered(Arc::clone(&trusted.registered)),
        }
    }
}

fn hash_of(secret: &[u8]) -> Hash {
    let mut hash = [0; HASH_BYTES];
    hash.copy_from_slice(digest::digest(&digest::SHA256, secret).as_ref());
    hash
}

fn hex(bytes: &[u8]) -> String {
    // At its full length from the beginning: what it grew out of would not be zeroed.
    let mut text = String::with_capacity(2 * bytes.len());
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or_default();
    for byte in bytes {
        text.push(digit(byte >> 4));
        text.push(digit(byte & 15));
    }
    text
}

/// As many bytes as there are, of twice as many hexadecimal digits.
fn bytes_of<const BYTES: usize>(digits: &str) -> Option<[u8; BYTES]> {
    if digits.len() != 2 * BYTES || !digits.is_ascii() {
        return None;
    }
    let mut bytes = [0; BYTES];
    for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        let value = |digit: u8| char::from(digit).to_digit(16);
        *byte = (value(pair[0])? << 4 | value(pair[1])?) as u8;
    }
    Some(bytes)
}

impl fmt::Debug for RegisteredApiKey {
    /// Without the hash.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RegisteredApiKey({})", self.in_words())
    }
}

impl fmt::Debug for Trusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.registered.fmt(f)
    }
}

impl fmt::Debug for NewApiKey {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NewApiKey({})", self.id)
    }
}

impl fmt::Debug for PresentedKey {
    /// Without the hash.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PresentedKey({:?})", self.0.as_ref().map(|(id, _)| id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_key(first: u8) -> NewApiKey {
        NewApiKey::generate(|bytes| {
            bytes.fill(7);
            if bytes.len() == ID_BYTES {
                bytes[0] = first;
            }
        })
    }

    fn registered(key: &NewApiKey, not_after: Option<&str>) -> RegisteredApiKey {
        RegisteredApiKey {
            id: key.id().to_owned(),
            name: "app".to_owned(),
            security_clearance: Clearance::Operator,
            permissions: Permissions::default(),
            not_after: not_after.map(str::to_owned),
            created_at: String::new(),
            secret_hash: key.hash(),
        }
    }

    /// The hash was computed with `sha256sum`.
    #[test]
    fn a_key_is_known_by_the_hash_of_its_secret() {
        let key = new_key(0xAB);
        assert_eq!(*key.text(), format!("ab07070707070707.{}", "07".repeat(32)));
        let hash = "4bb06f8e4e3a7715d201d573d0aa423762e55dabd61a2c02278fa56cc6d294e0";
        assert_eq!(key.hash(), hash);
        let trusted = TrustedKeys::new([registered(&key, None)], &[]);
        let standing = |text: &str| trusted.standing(&PresentedKey::read(text), 0);
        assert!(matches!(standing(&key.text()), KeyStanding::Registered(_)));
        assert!(matches!(standing(&key.text().to_uppercase()), KeyStanding::Registered(_)));
        let id = Some(key.id().to_owned());
        let wrong = key.text().replace(".07", ".08");
        assert_eq!(standing(&wrong), KeyStanding::Unknown { id });
        for text in ["", ".", "ab07070707070707", "ab07070707070707.", "é.é", &key.text()[1..]] {
            assert_eq!(standing(text), KeyStanding::Unknown { id: None }, "{text}");
        }
        let other = new_key(1);
        assert!(matches!(standing(&other.text()), KeyStanding::Unknown { id: Some(_) }));
    }

    #[test]
    fn a_key_ends_after_the_last_moment_of_its_validity() {
        let key = new_key(1);
        let end = model::date::parse("2026-11-27T03:00:00.0000000Z").unwrap().utc_ticks();
        let trusted =
            TrustedKeys::new([registered(&key, Some("2026-11-27T03:00:00.0000000Z"))], &[]);
        let presented = PresentedKey::read(&key.text());
        assert!(matches!(trusted.standing(&presented, end), KeyStanding::Registered(_)));
        assert!(matches!(trusted.standing(&presented, end + 1), KeyStanding::Expired(_)));
        let unclear = TrustedKeys::new([registered(&key, Some("never"))], &[]);
        assert!(matches!(unclear.standing(&presented, 0), KeyStanding::Unknown { .. }));
    }

    #[test]
    fn an_administrator_in_the_configuration_is_above_what_is_stored() {
        let key = new_key(1);
        let entry = format!("{}.{}", key.id().to_uppercase(), key.hash());
        let stored =
            RegisteredApiKey { security_clearance: Clearance::ValidUser, ..registered(&key, None) };
        let trusted = TrustedKeys::new([stored], &[entry]);
        match trusted.standing(&PresentedKey::read(&key.text()), 0) {
            KeyStanding::Registered(known) => {
                assert_eq!(known.security_clearance, Clearance::ClusterAdmin);
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_header_is_read_as_one_credential_of_its_scheme() {
        let text = new_key(1).text();
        let read = |values: &[&str]| {
            PresentedKey::of_headers(values.iter().map(|value| value.as_bytes()))
                .map(|key| key.0.is_some())
        };
        let bearer = format!("Bearer {}", *text);
        assert_eq!(read(&[&bearer]), Some(true));
        assert_eq!(read(&[&format!(" bearer   {} ", *text)]), Some(true));
        assert_eq!(read(&[&bearer, &bearer]), Some(false));
        assert_eq!(read(&["Bearer x"]), Some(false));
        assert_eq!(read(&["Basic YTpi"]), None);
        assert_eq!(read(&["Bearer"]), None);
        assert_eq!(read(&[]), None);
    }

    #[test]
    fn secrets_and_hashes_are_in_no_debug_output() {
        let key = new_key(1);
        let trusted = TrustedKeys::new([registered(&key, None)], &[]);
        let presented = PresentedKey::read(&key.text());
        let shown = format!("{key:?} {:?} {trusted:?} {presented:?}", registered(&key, None));
        assert!(!shown.contains("0707070707070707070707"), "{shown}");
        assert!(!shown.contains(&key.hash()), "{shown}");
    }
}
