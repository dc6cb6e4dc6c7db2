//! `/smuggler`: exporting a database into a dump, and importing one.
//!
//! | file | what |
//! |---|---|
//! | `export` | a dump on its way to the client |
//! | `import` | a dump that arrives |
//! | `rows` | files of CSV and of JSON lines that arrive |
//! | `dump_file` | the file of a part: its compression, and its format |

mod dump_file;
mod export;
mod import;
mod rows;

use std::sync::Arc;

use ::security::Requirement;
use database::{DatabaseLease, Operation};
use engine::Importer;
use http::{StatusCode, header};
use wire::{ErrorKind, SmugglerOptions, SmugglerType};

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    call::Call,
    handlers::operations::{failed, too_many_operations},
    request_json::read_object,
};

pub(crate) use export::export;
pub(crate) use import::import;
pub(crate) use rows::{import_csv, import_lines};

/// The field of a form that has the options of an export.
const FORM_FIELD: &str = "DownloadOptions";

/// `POST /smuggler/validate-options`.
pub(crate) fn validate_options(call: &Call) -> Result<Answer, ApiError> {
    let options = options_of(call)?;
    call.state.engine.check_transform_script(&options)?;
    call.state.engine.smuggler_key(&options)?;
    Ok(Answer::empty(StatusCode::NO_CONTENT))
}

/// The options in the body of a request: JSON, or a form of a browser.
fn options_of(call: &Call) -> Result<SmugglerOptions, ApiError> {
    let is_form = call
        .header(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded"));
    if !is_form {
        return read_options(&call.body);
    }
    let text = String::from_utf8_lossy(&call.body);
    let form = wire::QueryString::parse(&text);
    let sent = form.get(FORM_FIELD).unwrap_or_default();
    read_options(sent.replace('+', " ").as_bytes())
}

fn read_options(body: &[u8]) -> Result<SmugglerOptions, ApiError> {
    if body.trim_ascii().is_empty() {
        return Ok(SmugglerOptions::default());
    }
    Ok(SmugglerOptions::read(&read_object(body)?)?)
}

/// Whether the client administers the database: only then the record is exported and imported.
fn is_administrator(call: &Call) -> Result<bool, ApiError> {
    let name = call.database()?.record().name.as_str().to_owned();
    Ok(call.caller.check(Requirement::DatabaseAdmin, Some(&name)).is_ok())
}

fn importer(call: &Call) -> Result<Importer, ApiError> {
    let is_operator = call.caller.check(Requirement::Operator, None).is_ok();
    Ok(Importer { is_administrator: is_administrator(call)?, is_operator })
}

/// Leaves the record out for a client that does not administer the database.
fn leave_out_record_unless(options: &mut SmugglerOptions, is_administrator: bool) {
    if !is_administrator {
        options.types.retain(|kind| *kind != SmugglerType::DatabaseRecord);
    }
}

/// An operation that ends even if the work on it is dropped.
struct Running {
    operation: Arc<Operation>,
    database: DatabaseLease,
    clock: Arc<dyn platform::Clock>,
    is_over: bool,
}

impl Running {
    /// Begins the operation that the client asks for, or a new one.
    fn begin(call: &Call, what: &str, kind: &'static str) -> Result<Running, ApiError> {
        let what = format!("{what} database: {}", call.database()?.record().name);
        Running::described(call, what, kind)
    }

    /// The same, with a whole description.
    fn described(call: &Call, what: String, kind: &'static str) -> Result<Running, ApiError> {
        let database = call.database()?.clone();
        let id = call.query().long("operationId")?;
        let id = id.unwrap_or_else(|| database.operations().next_id());
        let clock = Arc::clone(call.state.engine.clock());
        let begun = database.operations().begin(id, what, kind, clock.now());
        let operation = begun.map_err(|_| too_many_operations())?;
        Ok(Running { operation, database, clock, is_over: false })
    }

    fn check_wanted(&self) -> Result<(), ApiError> {
        if self.operation.should_stop() {
            return Err(crate::api_error::canceled());
        }
        if self.database.is_closing() {
            let message = "The database is being closed.";
            return Err(ApiError::new(ErrorKind::DatabaseDisabled, message));
        }
        Ok(())
    }

    fn end(mut self, status: wire::operation_state::OperationStatus) {
        self.is_over = true;
        self.operation.finish(status, self.clock.now());
    }

    fn end_with(self, error: &ApiError) {
        let status = match error.kind {
            ErrorKind::OperationCanceled => wire::operation_state::OperationStatus::Canceled,
            _ => failed(error),
        };
        self.end(status);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_over {
            let message = "The client disconnected before the operation was complete.";
            let error = ApiError::new(ErrorKind::EndOfStream, message);
            self.operation.finish(failed(&error), self.clock.now());
        }
    }
}
