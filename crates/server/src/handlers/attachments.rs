//! `/attachments`: reading, writing and deleting one attachment; reading many; metadata.

use commands::{Batch, Command, CommandResult};
use documents::{
    AttachmentRow, Content, DeleteAttachment, ExpectedVersion, PutAttachment, StoredAttachment,
};
use http::{StatusCode, header};
use model::{AttachmentName, ContentHash, DocumentId};
use storage::ReadTransaction;
use wire::{AttachmentOwner, AttachmentRequest, ErrorKind, QueryString};

use crate::{
    answers::{
        answer::{ATTACHMENT_HASH, Answer},
        content_download::{ContentPart, answer_with},
        json_text::{JsonArray, JsonObject},
    },
    api_error::ApiError,
    call::Call,
    http::{body_reader::BodyReader, byte_range::Wanted, router::Answering},
    writes::{
        attachment_commands::attachment_name, content_upload::ContentUpload, submitting::submit,
    },
};

/// `PUT /attachments`.
pub(crate) fn put(mut call: Call) -> Answering {
    Box::pin(async move {
        let (id, name) = named(&call.query())?;
        let content_type = call.query().get("contentType").unwrap_or_default().to_owned();
        let expected = ExpectedVersion::parse(call.if_match());
        let database = call.database()?.clone();
        let mut body = BodyReader::of(&mut call)?;
        let mut upload = ContentUpload::new(&call.state, &database, usize::MAX);
        while let Some(piece) = body.next(upload.share()).await? {
            upload.push(&piece).await?;
        }
        let (content, mut staged) = upload.finish().await?;
        let put = PutAttachment { id, name, content_type, expected, content };
        let outcome =
            submit(&call.state, &database, Batch::one(Command::PutAttachment(put))).await?;
        staged.are_put();
        let Some(CommandResult::AttachmentPut(stored)) = outcome.results.into_iter().next() else {
            return Err(ApiError::invalid_operation(
                "the outcome of the attachment's command is missing",
            ));
        };
        Ok(Answer::json_with(StatusCode::CREATED, stored_json(&stored)))
    })
}

fn stored_json(stored: &StoredAttachment) -> Vec<u8> {
    let mut body = Vec::new();
    let mut object = JsonObject::begin(&mut body);
    object.text("ChangeVector", &stored.change_vector.to_string());
    object.text("Name", stored.name.as_str());
    object.text("DocumentId", stored.id.as_str());
    object.text("ContentType", &stored.content_type);
    object.text("Hash", &stored.hash.to_string());
    object.number("Size", stored.content_bytes);
    object.end();
    body
}

/// `DELETE /attachments`.
pub(crate) fn delete(call: Call) -> Answering {
    Box::pin(async move {
        let (id, name) = named(&call.query())?;
        let expected = ExpectedVersion::parse(call.if_match());
        let delete = DeleteAttachment { id, name, expected };
        let batch = Batch::one(Command::DeleteAttachment(delete));
        submit(&call.state, call.database()?, batch).await?;
        Ok(Answer::empty(StatusCode::NO_CONTENT))
    })
}

/// `GET /attachments`.
pub(crate) fn get(call: &Call) -> Result<Answer, ApiError> {
    answer_one(call, AttachmentOwner::Document, None)
}

/// `POST /attachments`: like `GET`, or that of a revision.
pub(crate) fn post(call: &Call) -> Result<Answer, ApiError> {
    let (owner, request) = wire::read_attachment_request(&call.body)?;
    answer_one(call, owner, request.change_vector)
}

fn answer_one(
    call: &Call,
    owner: AttachmentOwner,
    change_vector: Option<String>,
) -> Result<Answer, ApiError> {
    let (id, name) = named(&call.query())?;
    let database = call.database()?;
    let tx = database.read();
    let Some(row) = find(&tx, owner, &id, &name, change_vector.as_deref())? else {
        return Ok(Answer::empty(StatusCode::NOT_FOUND));
    };
    if call.if_none_match() == Some(row.change_vector()) {
        return Ok(Answer::empty(StatusCode::NOT_MODIFIED));
    }
    let described = Described::of(&row);
    let length = row.content_bytes();
    let is_range_valid = call
        .header(header::IF_RANGE)
        .is_none_or(|tag| tag.trim_matches('"') == row.change_vector());
    let range = call.header(header::RANGE).filter(|_| is_range_valid);
    let (status, range) = match Wanted::of(range, length) {
        Wanted::Whole => (StatusCode::OK, 0..length),
        Wanted::Part(range) => (StatusCode::PARTIAL_CONTENT, range),
        Wanted::Nothing => {
            return Ok(Answer::empty(StatusCode::RANGE_NOT_SATISFIABLE)
                .with_header("content-range", &format!("bytes */{length}")));
        }
    };
    let content = content_of(&tx, &row)?;
    let part = ContentPart { content, range: range.clone() };
    let mut answer = described.describe(answer_with(database, tx, Vec::new(), vec![part])?);
    answer.status = status;
    if status == StatusCode::PARTIAL_CONTENT {
        let (first, last) = (range.start, range.end - 1);
        answer = answer.with_header("content-range", &format!("bytes {first}-{last}/{length}"));
    }
    // A client chose the content and its type: opened in a browser, it must not be a page of this server.
    Ok(answer
        .with_header("accept-ranges", "bytes")
        .with_header("content-security-policy", "default-src 'none'; sandbox")
        .with_header("x-content-type-options", "nosniff"))
}

/// `HEAD /attachments`.
pub(crate) fn head(call: &Call) -> Result<Answer, ApiError> {
    let (id, name) = named(&call.query())?;
    let tx = call.database()?.read();
    let Some(row) = find(&tx, AttachmentOwner::Document, &id, &name, None)? else {
        return Ok(Answer::empty(StatusCode::NOT_FOUND));
    };
    if call.if_none_match() == Some(row.change_vector()) {
        return Ok(Answer::empty(StatusCode::NOT_MODIFIED));
    }
    Ok(Answer::json(Vec::new()).with_quoted_etag(row.change_vector()))
}

/// `POST /attachments/bulk`: metadata of each as JSON, followed directly by the contents.
pub(crate) fn many(call: &Call) -> Result<Answer, ApiError> {
    let (owner, requests) = wire::read_attachments_request(&call.body)?;
    let database = call.database()?;
    let tx = database.read();
    let mut body = Vec::new();
    let mut page = JsonObject::begin(&mut body);
    let mut listed = JsonArray::begin(page.name("AttachmentsMetadata"));
    let mut parts = Vec::new();
    for AttachmentRequest { document_id: of, name, change_vector } in &requests {
        let (id, name) = (DocumentId::new(of.clone())?, attachment_name(name.clone())?);
        let Some(row) = find(&tx, owner, &id, &name, change_vector.as_deref())? else { continue };
        let mut object = JsonObject::begin(listed.element());
        write_row(&row, &mut object);
        object.text("ChangeVector", row.change_vector());
        object.text("DocumentId", of);
        object.end();
        let content = content_of(&tx, &row)?;
        parts.push(ContentPart { content, range: 0..content.bytes() });
    }
    listed.end();
    page.end();
    answer_with(database, tx, body, parts)
}

/// `GET /debug/attachments/hash`.
pub(crate) fn hash(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let text = query.get("hash").filter(|text| !text.is_empty()).ok_or_else(|| {
        ApiError::argument("Query string hash is mandatory, but wasn't specified.")
    })?;
    let count = match ContentHash::parse(text) {
        Some(hash) => documents::references_of(&call.database()?.read(), &hash)?,
        None => 0,
    };
    let mut body = Vec::new();
    let mut object = JsonObject::begin(&mut body);
    object.text("Hash", text);
    object.number("Count", count);
    object.end();
    Ok(Answer::json(body))
}

/// `GET /debug/attachments/metadata`.
pub(crate) fn metadata(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let text = query.single_non_empty("id")?;
    let id = DocumentId::new(text.to_owned())?;
    let tx = call.database()?.read();
    let mut body = Vec::new();
    let mut page = JsonObject::begin(&mut body);
    page.text("Id", text);
    let mut listed = JsonArray::begin(page.name("Attachments"));
    for row in documents::attachments_of(&tx, &id)? {
        let row = row?;
        let count = documents::references_of(&tx, &row.hash())?;
        let mut object = JsonObject::begin(listed.element());
        write_row(&row, &mut object);
        object.number("Count", count);
        object.end();
    }
    listed.end();
    page.end();
    Ok(Answer::json(body))
}

fn write_row(row: &AttachmentRow<'_>, object: &mut JsonObject<'_>) {
    object.text("Name", row.name());
    object.text("Hash", &row.hash().to_string());
    object.text("ContentType", row.content_type());
    object.number("Size", row.content_bytes());
}

fn named(query: &QueryString<'_>) -> Result<(DocumentId, AttachmentName), ApiError> {
    let id = query.single_non_empty("id")?;
    let name = query.single_non_empty("name")?;
    if name.trim().is_empty() {
        let message = "Query string value 'name' must have a non empty value";
        return Err(ApiError::argument(message));
    }
    Ok((DocumentId::new(id.to_owned())?, attachment_name(name.to_owned())?))
}

fn find<'t>(
    tx: &'t ReadTransaction,
    owner: AttachmentOwner,
    id: &DocumentId,
    name: &AttachmentName,
    change_vector: Option<&str>,
) -> Result<Option<AttachmentRow<'t>>, ApiError> {
    let (AttachmentOwner::Revision, Some(change_vector)) = (owner, change_vector) else {
        return Ok(documents::attachment(tx, id, name)?);
    };
    let revision = documents::revision_by_change_vector(tx, change_vector)?;
    let Some(revision) = revision.filter(|found| found.lower_id() == id.lower_cased()) else {
        return Ok(None);
    };
    for row in documents::attachments_of_revision(tx, revision.etag())? {
        let row = row?;
        if row.lower_name() == name.lower_cased() {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

fn content_of(tx: &ReadTransaction, row: &AttachmentRow<'_>) -> Result<Content, ApiError> {
    let content = documents::content(tx, &row.hash())?;
    content.ok_or_else(|| {
        ApiError::new(ErrorKind::Internal, "the content of the attachment is missing")
    })
}

/// The headers that describe an attachment.
struct Described {
    content_type: String,
    change_vector: String,
    disposition: String,
    hash: ContentHash,
    content_bytes: u64,
}

impl Described {
    fn of(row: &AttachmentRow<'_>) -> Described {
        // A name may look like a path; clients save the file under its last part.
        let file = row.name().rsplit('/').next().unwrap_or_default();
        let file = wire::percent_encode(file);
        Described {
            content_type: row.content_type().to_owned(),
            change_vector: row.change_vector().to_owned(),
            disposition: format!("attachment; filename=\"{file}\"; filename*=UTF-8''{file}"),
            hash: row.hash(),
            content_bytes: row.content_bytes(),
        }
    }

    fn describe(&self, mut answer: Answer) -> Answer {
        answer.headers.retain(|(name, _)| *name != header::CONTENT_TYPE);
        // A type with characters that are not valid in a header is sent as an empty one.
        let is_header = self.content_type.bytes().all(|byte| (0x20..0x7f).contains(&byte));
        let content_type = if is_header { self.content_type.as_str() } else { "" };
        answer
            .with_header("content-type", content_type)
            .with_quoted_etag(&self.change_vector)
            .with_header("content-disposition", &self.disposition)
            .with_header(ATTACHMENT_HASH, &self.hash.to_string())
            .with_header("attachment-size", &self.content_bytes.to_string())
    }
}
