//! Compression of the bodies of documents and revisions.
//!
//! A small document repeats little within itself; it compresses well only with knowledge of what
//! the documents of its collection have in common. So each collection that is compressed gets
//! *dictionaries*, trained from a sample of its documents. A row names the dictionary that it
//! needs. Dictionaries are never changed and never removed, and there are at most
//! [`DICTIONARIES_MAX`] of a collection.
//!
//! | file | what |
//! |---|---|
//! | `body` | a body as stored in a row, and as it is read |
//! | `coder` | the codec, with what each thread keeps for it |
//! | `dictionary` | the table of dictionaries |
//! | `packer` | choosing how a body is written |
//! | `need` | when a collection needs a new dictionary |
//! | `training` | making one |
//!
//! What is never compressed: bodies that are too small to win anything, and those that do not get smaller.

pub(crate) mod body;
mod coder;
pub(crate) mod dictionary;
mod need;
mod packer;
mod training;

pub use dictionary::{DICTIONARIES_MAX, dictionaries_count};
pub use need::Compression;
pub(crate) use packer::Packer;
pub use training::{TrainedDictionary, train_dictionary};
