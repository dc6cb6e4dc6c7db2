//! Values that the nodes of a cluster share by name, such as the client configuration.
//!
//! ```text
//! fields    name, bytes
//! a value   index of the change 8, then its bytes
//! ```

use storage::Transaction;

use crate::{
    applying::Applying,
    encoding::{Decoder, Encoder, Malformed},
    error::ClusterError,
    schema,
};

/// Sets a value that belongs to the servers and not to a database.
#[derive(Clone, Debug)]
pub struct ServerValueCommand {
    /// The name of the value.
    pub name: String,
    /// The new content; it replaces the old one.
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
        let mut encoder = Encoder::default();
        encoder.u64(applying.index);
        encoder.raw(&self.bytes);
        let mut values = applying.tx.tree_mut(&schema::server_values())?;
        values.put(self.name.as_bytes(), &encoder.finish())?;
        Ok(())
    }
}

pub(crate) fn read(tx: &impl Transaction, name: &str) -> Result<Option<ServerValue>, ClusterError> {
    let tree = tx.tree(&schema::server_values())?;
    let Some(stored) = tree.get(name.as_bytes())? else { return Ok(None) };
    let mut decoder = Decoder::new(stored);
    Ok(Some(ServerValue { index: decoder.u64()?, bytes: decoder.rest().to_vec() }))
}
