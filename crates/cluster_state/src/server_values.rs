//! Values that the nodes of a cluster share by name, such as the client configuration and certificates.
//!
//! ```text
//! fields    name, bytes
//! a value   index of the change 8, then its bytes
//! ```

use std::ops::Bound;

use storage::Transaction;

use crate::{
    applying::Applying,
    encoding::{Decoder, Encoder, Malformed},
    error::ClusterError,
    schema,
};

/// Sets or removes a value that belongs to the servers and not to a database.
#[derive(Clone, Debug)]
pub struct ServerValueCommand {
    /// The name of the value.
    pub name: String,
    /// The new content; it replaces the old one. An empty one removes the value.
    pub bytes: Vec<u8>,
}

/// A value shared by all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerValue {
    /// The index of the change that wrote it.
    pub index: u64,
    /// The content as it was written.
    pub bytes: Vec<u8>,
}

impl ServerValueCommand {
    pub(crate) fn encode(&self, encoder: &mut Encoder) {
        encoder.text(&self.name);
        encoder.bytes(&self.bytes);
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Self { name: decoder.text()?.to_owned(), bytes: decoder.bytes()?.to_vec() })
    }

    pub(crate) fn apply(self, applying: &mut Applying<'_>) -> Result<(), ClusterError> {
        let mut values = applying.tx.tree_mut(&schema::server_values())?;
        if self.bytes.is_empty() {
            values.delete(self.name.as_bytes())?;
            return Ok(());
        }
        let mut encoder = Encoder::default();
        encoder.u64(applying.index);
        encoder.raw(&self.bytes);
        values.put(self.name.as_bytes(), &encoder.finish())?;
        Ok(())
    }
}

/// The value of this name.
///
/// # Errors
/// Storage errors; a damaged value.
pub fn read(tx: &impl Transaction, name: &str) -> Result<Option<ServerValue>, ClusterError> {
    let tree = tx.tree(&schema::server_values())?;
    tree.get(name.as_bytes())?.map(decoded).transpose()
}

/// The values whose names start with a prefix, in byte order of their names, which are returned without it.
pub(crate) fn with_prefix(
    tx: &impl Transaction,
    prefix: &str,
) -> Result<Vec<(String, ServerValue)>, ClusterError> {
    let mut values = Vec::new();
    for row in tx.tree(&schema::server_values())?.range(Bound::Included(prefix.as_bytes()))? {
        let (name, stored) = row?;
        let Some(rest) = name.strip_prefix(prefix.as_bytes()) else { break };
        values.push((String::from_utf8_lossy(rest).into_owned(), decoded(stored)?));
    }
    Ok(values)
}

fn decoded(stored: &[u8]) -> Result<ServerValue, ClusterError> {
    let mut decoder = Decoder::new(stored);
    Ok(ServerValue { index: decoder.u64()?, bytes: decoder.rest().to_vec() })
}
