//! Methods of attachments.

use std::rc::Rc;

use dotnet::text_encoding::TextEncoding;

use crate::compile::names::Method;
use crate::compile::plan::{Argument, MethodCall};
use crate::run::fault::Fault;
use crate::run::methods::as_text;
use crate::run::{Evaluated, Machine, over_budget, wrong_arguments};
use crate::value::{Record, Value};

const HASH: &str = "Hash";
const SIZE: &str = "Size";

impl<'a> Machine<'a, '_> {
    #[inline(never)]
    pub(super) fn attachment_method(
        &mut self,
        call: &'a MethodCall,
        method: Method,
        record: &Rc<Record<'a>>,
    ) -> Evaluated<'a> {
        if method != Method::GetContentAsString {
            return self.scalar_method(call, method, Value::Record(Rc::clone(record)));
        }
        let encoding = match &*call.arguments {
            [] => TextEncoding::default(),
            [Argument::Option(option)] => option.encoding().ok_or_else(wrong_arguments)?,
            _ => return Err(wrong_arguments()),
        };
        let (Some(hash), Some(Value::Integer(size))) =
            (record.get(HASH).and_then(as_text), record.get(SIZE))
        else {
            return Ok(Value::Missing);
        };
        self.take_content(*size)?;
        let content = self.host.attachment_content(hash).map_err(Fault::host)?;
        let Some(content) = content else { return Ok(Value::Missing) };
        let text = encoding.decode(&content);
        self.check_text(text.len())?;
        Ok(Value::text(text))
    }

    /// Charges the steps of a content of that size.
    fn take_content(&mut self, bytes: i64) -> Result<(), Fault> {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let left = self.budget.content_bytes_max.checked_sub(bytes);
        self.budget.content_bytes_max = left.ok_or_else(|| over_budget("bytes of attachments"))?;
        Ok(())
    }
}
