//! Who a client is, what it may do, and how certificates are made and read.
//!
//! Decisions are pure: a certificate, what is registered, and the time in; allowed or the reason out. There is
//! no network here, no store and no clock.
//!
//! | file | what |
//! |---|---|
//! | `certificate` | [`Certificate`]: what is known of a certificate of a client or a server |
//! | `clearance` | [`Clearance`], [`Permissions`]: what a client may do |
//! | `registered` | [`RegisteredCertificate`]: a certificate with its name and clearance |
//! | `trust` | [`TrustedCertificates`]: from a client's certificate to what it may do |
//! | `api_key` | [`RegisteredApiKey`], [`TrustedKeys`]: keys instead of certificates |
//! | `access` | [`Requirement`], [`Caller`]: whether a request is allowed |
//! | `key_pair` | [`KeyPair`]: a certificate chain with its private key; reading files |
//! | `wrapped_key` | [`SecretKey`]: keys of databases, encrypted with a master key |
//! | `issuing` | making authorities, and certificates of servers and clients |

#![forbid(unsafe_code)]

mod access;
mod api_key;
mod certificate;
mod clearance;
mod issuing;
mod key_pair;
mod registered;
mod trust;
mod wrapped_key;

pub use crate::{
    access::{Caller, Client, Denial, Grant, Identification, Requirement},
    api_key::{KeyStanding, NewApiKey, PresentedKey, RegisteredApiKey, TrustedKeys},
    certificate::{Certificate, InvalidCertificate},
    clearance::{Clearance, DatabaseAccess, Permissions},
    issuing::{Authority, ClientRequest, IssueError, KeyAlgorithm, ServerRequest},
    key_pair::{KeyFileError, KeyPair},
    registered::RegisteredCertificate,
    trust::{Standing, TrustedCertificates},
    wrapped_key::{SECRET_KEY_BYTES, SecretKey, WRAPPING_NONCE_BYTES},
};
