//! Documents with very many entries: they make an index slow and large, usually unintentionally, so
//! the operator is notified.

use model::IndexDefinition;

/// The configuration key that sets how many outputs of a document are reported.
const SETTING: &str = "PerformanceHints.Indexing.MaxIndexOutputsPerDocument";
/// Documents with more outputs are reported by default.
const OUTPUTS_DEFAULT: u64 = 1024;

/// Documents with more outputs than they should have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FanOut {
    /// Their number since the index was opened; a document that is mapped again is counted again.
    pub documents: u64,
    /// The id of the last of them.
    pub sample: String,
    /// The maximum number of outputs of one document.
    pub outputs_max: u64,
    /// When the last one was mapped, in ticks.
    pub last_ticks: i64,
}

impl FanOut {
    /// Adds a document.
    pub(crate) fn add(&mut self, document: &str, outputs: u64, now_ticks: i64) {
        self.documents += 1;
        self.outputs_max = self.outputs_max.max(outputs);
        self.last_ticks = now_ticks;
        document.clone_into(&mut self.sample);
    }

    /// Adds the documents of a batch.
    pub(crate) fn merge(&mut self, batch: Self) {
        if 0 < batch.documents {
            let documents = self.documents + batch.documents;
            let outputs_max = self.outputs_max.max(batch.outputs_max);
            *self = Self { documents, outputs_max, ..batch };
        }
    }
}

/// The number of outputs above which a document of this index is reported.
pub(crate) fn outputs_noted(definition: &IndexDefinition) -> u64 {
    let setting =
        definition.configuration.iter().find(|(key, _)| key.eq_ignore_ascii_case(SETTING));
    setting.and_then(|(_, value)| value.as_ref()?.parse().ok()).unwrap_or(OUTPUTS_DEFAULT)
}

/// As [`outputs_noted`], for an index without a definition's setting.
pub(crate) const OUTPUTS_NOTED_DEFAULT: u64 = OUTPUTS_DEFAULT;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_batches_note_adds_up() {
        let (mut all, mut batch) = (FanOut::default(), FanOut::default());
        all.merge(batch.clone());
        assert_eq!(all, FanOut::default());
        batch.add("a", 3000, 10);
        batch.add("b", 2000, 11);
        all.merge(batch.clone());
        all.merge(FanOut::default());
        all.merge(FanOut { sample: "c".to_owned(), last_ticks: 12, ..batch });
        let expected =
            FanOut { documents: 4, sample: "c".to_owned(), outputs_max: 3000, last_ticks: 12 };
        assert_eq!(all, expected);
    }

    #[test]
    fn a_definition_may_say_what_is_too_many() {
        let mut definition = IndexDefinition::default();
        assert_eq!(outputs_noted(&definition), 1024);
        definition.configuration.insert(SETTING.to_lowercase(), Some("2".to_owned()));
        assert_eq!(outputs_noted(&definition), 2);
        definition.configuration.insert(SETTING.to_lowercase(), Some("many".to_owned()));
        assert_eq!(outputs_noted(&definition), 1024);
    }
}
