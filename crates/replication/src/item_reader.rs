//! One change from bytes. See `item_writer`.

use blittable::{BlittableBuf, Document, Value};
use documents::{
    CounterValue, ImportedAttachment, ReceivedAttachment, ReceivedAttachmentTombstone,
    ReceivedCounter, ReceivedCounterTombstone, ReceivedDeletedRange, ReceivedItem,
    ReceivedRevision, ReceivedSegment, ReceivedVersion,
    time_series::{MOMENT_MAX, MomentRange, decode_segment},
};
use model::{
    AttachmentName, CollectionName, ContentHash, CounterName, DatabaseId, DocumentFlags,
    DocumentId, Etag, TimeSeriesName,
};

use crate::{
    format::{InvalidMessage, Reader, invalid},
    item_writer::{
        ATTACHMENT, COUNTER, DELETED_ATTACHMENT, DELETED_COUNTER, DELETED_RANGE, DOCUMENT,
        REVISION, SEGMENT, TOMBSTONE,
    },
    message::{read_tag, read_vector},
};

pub(crate) fn read_item(reader: &mut Reader<'_>) -> Result<ReceivedItem, InvalidMessage> {
    match reader.byte()? {
        DOCUMENT => {
            let mut version = read_version(reader)?;
            version.body = Some(read_body(reader)?);
            Ok(ReceivedItem::Version(version))
        }
        TOMBSTONE => read_version(reader).map(ReceivedItem::Version),
        REVISION => read_revision(reader),
        ATTACHMENT => Ok(ReceivedItem::Attachment(ReceivedAttachment {
            id: read_id(reader)?,
            name: read_attachment_name(reader)?,
            content_type: reader.text()?.to_owned(),
            change_vector: read_vector(reader)?,
            hash: ContentHash(reader.array()?),
            generation: reader.short()?,
        })),
        DELETED_ATTACHMENT => Ok(ReceivedItem::AttachmentTombstone(ReceivedAttachmentTombstone {
            id: read_id(reader)?,
            name: read_attachment_name(reader)?,
            change_vector: read_vector(reader)?,
            deleted_at_ticks: reader.signed()?,
            generation: reader.short()?,
        })),
        COUNTER => read_counter(reader),
        DELETED_COUNTER => Ok(ReceivedItem::CounterTombstone(ReceivedCounterTombstone {
            id: read_id(reader)?,
            name: read_counter_name(reader)?,
            collection: read_collection(reader)?,
            change_vector: read_vector(reader)?,
        })),
        SEGMENT => read_segment(reader),
        DELETED_RANGE => read_deleted_range(reader),
        _ => Err(invalid("a change is of an unknown kind")),
    }
}

fn read_revision(reader: &mut Reader<'_>) -> Result<ReceivedItem, InvalidMessage> {
    let mut version = read_version(reader)?;
    version.body = Some(read_body(reader)?);
    let count = reader.short()?;
    let mut attachments = Vec::new();
    for _ in 0..count {
        attachments.push(ImportedAttachment {
            name: read_attachment_name(reader)?,
            content_type: reader.text()?.to_owned(),
            hash: ContentHash(reader.array()?),
        });
    }
    Ok(ReceivedItem::Revision(ReceivedRevision { version, attachments }))
}

fn read_counter(reader: &mut Reader<'_>) -> Result<ReceivedItem, InvalidMessage> {
    let (id, name, collection) =
        (read_id(reader)?, read_counter_name(reader)?, read_collection(reader)?);
    let count = reader.short()?;
    let mut values: Vec<CounterValue> = Vec::new();
    for _ in 0..count {
        values.push(CounterValue {
            node_tag: read_tag(reader)?,
            database_id: DatabaseId(reader.array()?),
            value: reader.signed()?,
            etag: Etag(reader.number()?),
        });
    }
    Ok(ReceivedItem::Counter(ReceivedCounter::new(id, name, collection, values)))
}

fn read_segment(reader: &mut Reader<'_>) -> Result<ReceivedItem, InvalidMessage> {
    let (id, name, collection, change_vector) = (
        read_id(reader)?,
        read_series_name(reader)?,
        read_collection(reader)?,
        read_vector(reader)?,
    );
    let entries = decode_segment(reader.sequence()?);
    let entries = entries.ok_or(invalid("a segment of a time series is damaged"))?;
    let segment = ReceivedSegment { id, name, collection, change_vector, entries };
    Ok(ReceivedItem::Segment(Box::new(segment)))
}

fn read_deleted_range(reader: &mut Reader<'_>) -> Result<ReceivedItem, InvalidMessage> {
    let deleted = ReceivedDeletedRange {
        id: read_id(reader)?,
        name: read_series_name(reader)?,
        collection: read_collection(reader)?,
        change_vector: read_vector(reader)?,
        range: MomentRange { from: reader.signed()?, to: reader.signed()? },
        deleted_at_ticks: reader.signed()?,
    };
    let MomentRange { from, to } = deleted.range;
    if from < 0 || to < from || MOMENT_MAX < to {
        return Err(invalid("a deleted range of a time series is impossible"));
    }
    Ok(ReceivedItem::DeletedRange(deleted))
}

fn read_attachment_name(reader: &mut Reader<'_>) -> Result<AttachmentName, InvalidMessage> {
    AttachmentName::new(reader.text()?).map_err(|_| invalid("an attachment has an impossible name"))
}

fn read_counter_name(reader: &mut Reader<'_>) -> Result<CounterName, InvalidMessage> {
    CounterName::new(reader.text()?).map_err(|_| invalid("a counter has an impossible name"))
}

fn read_series_name(reader: &mut Reader<'_>) -> Result<TimeSeriesName, InvalidMessage> {
    TimeSeriesName::new(reader.text()?).map_err(|_| invalid("a time series has an impossible name"))
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
