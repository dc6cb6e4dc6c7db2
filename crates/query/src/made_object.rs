//! One object that a script made of a row: what it shows, and what it says of itself.
//!
//! A document that the script gave back as it is, the row's or one that it loaded, is shown as that
//! document. Anything else is a projection; of the metadata that the script gave it, what the row itself
//! has counts more.

use blittable::write_json_string;
use documents::DocumentRow;
use model::DocumentId;
use script::ScriptValue;
use storage::Transaction;

use crate::error::QueryError;
use crate::result::Row;
use crate::row_document::Marked;

const METADATA: &str = "@metadata";
/// What the metadata of a row have anyway.
const OF_THE_ROW: [&str; 7] = [
    "@projection",
    "@change-vector",
    "@flags",
    "@id",
    "@index-score",
    "@spatial",
    "@last-modified",
];

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct MadeObject {
    /// JSON, without its metadata.
    json: Vec<u8>,
    /// The properties that its metadata have of their own, JSON with a comma behind each.
    metadata: Vec<u8>,
    /// The document that it is.
    whole: Option<DocumentId>,
}

impl MadeObject {
    /// What a script gave for a row. It saw something else of the document `replaced`.
    pub(crate) fn of(
        value: &ScriptValue,
        replaced: Option<&str>,
    ) -> Result<MadeObject, QueryError> {
        let whole = match value {
            ScriptValue::Stored(stored) if stored.is_root() => {
                let id = stored.document_id().filter(|id| Some(*id) != replaced);
                id.and_then(|id| DocumentId::new(id).ok())
            }
            _ => None,
        };
        let (mut json, mut metadata) = (Vec::new(), Vec::new());
        let Some(mut properties) = value.clone().into_properties()? else {
            value.write_json(&mut json)?;
            return Ok(MadeObject { json, metadata, whole });
        };
        if let Some(at) = properties.iter().position(|(name, _)| &**name == METADATA) {
            let (_, given) = properties.remove(at);
            for (name, value) in given.into_properties()?.unwrap_or_default() {
                if whole.is_some() || !OF_THE_ROW.contains(&&*name) {
                    write_json_string(&name, &mut metadata);
                    metadata.push(b':');
                    value.write_json(&mut metadata)?;
                    metadata.push(b',');
                }
            }
        }
        ScriptValue::Object(properties).write_json(&mut json)?;
        Ok(MadeObject { json, metadata, whole })
    }

    /// What tells it apart from others.
    pub(crate) fn identity(&self) -> Vec<u8> {
        [self.json.as_slice(), &self.metadata].concat()
    }

    /// Appends it as the row, or one of the rows, that `row` is shown as.
    pub(crate) fn write(
        &self,
        row: &Row<'_>,
        documents: &impl Transaction,
        out: &mut Vec<u8>,
    ) -> Result<(), QueryError> {
        if let Some(id) = &self.whole {
            let found: Option<DocumentRow<'_>> = documents::get(documents, id)?;
            if let Some(document) = found {
                let mut beside_id = Vec::new();
                row.told().with_score().write(&mut beside_id);
                return Ok(documents::write_found_document_json(&document, &beside_id, out)?);
            }
        }
        // The metadata goes in front of the closing brace.
        out.extend_from_slice(&self.json[..self.json.len() - 1]);
        if 2 < self.json.len() {
            out.push(b',');
        }
        row.document.write_metadata_with(row.told(), Marked::FromDocument, &self.metadata, out);
        out.push(b'}');
        Ok(())
    }
}
