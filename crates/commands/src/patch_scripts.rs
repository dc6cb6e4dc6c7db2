//! The compiled scripts of patches, by their text.
//!
//! Clients send the same few scripts with different arguments over and over, so the most recently
//! used compiled ones are cached, up to a number and a size.

use std::{rc::Rc, sync::Arc};

use script::{Engine, PatchScript, PatchText, ScriptDocument, ScriptError};

use crate::patch_command::PatchRequest;

/// The number of cached scripts; fewer than the programs that an engine keeps.
const SCRIPTS_MAX: usize = 128;
/// The total size of their texts.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// Compiled scripts, most recently used last.
#[derive(Default)]
pub(crate) struct PatchScripts {
    kept: Vec<(PatchText, Rc<PatchScript>)>,
    text_bytes: usize,
    last: Option<(Arc<PatchRequest>, Rc<Prepared>)>,
}

/// A script with its arguments.
pub(crate) struct Prepared {
    pub(crate) script: Rc<PatchScript>,
    pub(crate) values: Option<ScriptDocument>,
}

impl PatchScripts {
    /// The script of a request; the arguments of one that changes many documents are converted
    /// once.
    pub(crate) fn prepare(
        &mut self,
        engine: &Engine,
        request: &Arc<PatchRequest>,
    ) -> Result<Rc<Prepared>, ScriptError> {
        if let Some((known, prepared)) = &self.last
            && Arc::ptr_eq(known, request)
        {
            return Ok(Rc::clone(prepared));
        }
        let script = self.compiled(engine, &request.text)?;
        let values = request.values.clone().map(ScriptDocument::unstored);
        let prepared = Rc::new(Prepared { script, values });
        self.last = Some((Arc::clone(request), Rc::clone(&prepared)));
        Ok(prepared)
    }

    /// Releases the request that was prepared last.
    pub(crate) fn end_batch(&mut self) {
        self.last = None;
    }

    fn compiled(
        &mut self,
        engine: &Engine,
        text: &PatchText,
    ) -> Result<Rc<PatchScript>, ScriptError> {
        if let Some(place) = self.kept.iter().rposition(|(known, _)| known == text) {
            self.kept[place..].rotate_left(1);
        } else {
            let script = Rc::new(PatchScript::compile(engine, text)?);
            self.text_bytes += text.size_bytes();
            self.kept.push((text.clone(), script));
            self.evict(engine);
        }
        let (_, script) = self.kept.last().expect("a script was found or added");
        Ok(Rc::clone(script))
    }

    /// Evicts the least recently used scripts; the last one always stays.
    fn evict(&mut self, engine: &Engine) {
        while 1 < self.kept.len()
            && (SCRIPTS_MAX < self.kept.len() || TEXT_BYTES_MAX < self.text_bytes)
        {
            let (text, script) = self.kept.remove(0);
            self.text_bytes -= text.size_bytes();
            script.forget(engine);
        }
    }
}
