//! How time series are returned.

use std::sync::atomic::AtomicBool;

use storage::{Transaction, WorkingMemory};

use crate::time_series::{
    NoSettings, PlannedSeries, SeriesCalls, SeriesForm, SeriesSettings, SeriesShown, StoredSeries,
};

/// How time series are returned.
#[derive(Clone, Copy, Default)]
pub struct SeriesOptions<'n> {
    /// The format of the response.
    pub form: SeriesForm,
    /// The database's settings for them.
    pub settings: Option<&'n dyn SeriesSettings>,
    /// Whether the names of values are reported.
    pub reports_value_names: bool,
}

impl<'n> SeriesOptions<'n> {
    pub(super) fn calls<'s>(
        &self,
        functions: &'s [PlannedSeries],
        stop: &'s AtomicBool,
        memory: &'s WorkingMemory,
    ) -> SeriesCalls<'s>
    where
        'n: 's,
    {
        SeriesCalls { functions, settings: self.settings, stop, memory }
    }

    pub(super) fn shown<'s, T: Transaction>(
        &'s self,
        stored: &'s StoredSeries<'_, T>,
        memory: &'s WorkingMemory,
    ) -> SeriesShown<'s>
    where
        'n: 's,
    {
        SeriesShown {
            reader: stored,
            tags: stored,
            settings: self.settings.unwrap_or(&NoSettings),
            reports_value_names: self.reports_value_names,
            form: self.form,
            memory,
        }
    }
}
