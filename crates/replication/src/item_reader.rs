//! One change from bytes. See `item_writer`.

use blittable::{BlittableBuf, Document, Value};
use documents::{ReceivedItem, ReceivedVersion};
use model::{CollectionName, DocumentFlags, DocumentId};

use crate::{
    format::{InvalidMessage, Reader, invalid},
    item_writer::{DOCUMENT, TOMBSTONE},
    message::read_vector,
};

pub(crate) fn read_item(reader: &mut Reader<'_>) -> Result<ReceivedItem, InvalidMessage> {
    match reader.byte()? {
        DOCUMENT => {
            let mut version = read_version(reader)?;
            version.body = Some(read_body(reader)?);
            Ok(ReceivedItem::Version(version))
        }
        TOMBSTONE => read_version(reader).map(ReceivedItem::Version),
        _ => Err(invalid("a change is of an unknown kind")),
    }
}

fn read_version(reader: &mut Reader<'_>) -> Result<ReceivedVersion, InvalidMessage> {
    Ok(ReceivedVersion {
        id: read_id(reader)?,
        change_vector: read_vector(reader)?,
        collection: read_collection(reader)?,
        last_modified_ticks: reader.signed()?,
        flags: DocumentFlags::from_bits(reader.short()?),
        body: None,
    })
}

fn read_id(reader: &mut Reader<'_>) -> Result<DocumentId, InvalidMessage> {
    DocumentId::new(reader.text()?).map_err(|_| invalid("the id of a document is too long"))
}

fn read_collection(reader: &mut Reader<'_>) -> Result<CollectionName, InvalidMessage> {
    CollectionName::new(reader.text()?).map_err(|_| invalid("the name of a collection is too long"))
}

/// Whatever the sender has stored: a damaged document must not be stored here, too.
fn read_body(reader: &mut Reader<'_>) -> Result<BlittableBuf, InvalidMessage> {
    let bytes = reader.sequence()?;
    let damaged = || invalid("a document is damaged");
    let document = Document::new(bytes).map_err(|_| damaged())?;
    // This reads all of it.
    let is_read = blittable::prints_within(&Value::Object(document.root()), u64::MAX);
    if !is_read.map_err(|_| damaged())? {
        return Err(damaged());
    }
    Ok(document.to_buf())
}
