//! The JSON of a database's record as a typed value. It is parsed here and nowhere else, at most once.

use std::sync::Arc;

use model::{RecordConfiguration, RecordSections, UnreadableSection};
use serde_json::{Map, Value};

use crate::{
    client_configuration::id_separator_of_record,
    documents_compression::compression_of_record,
    record_body::{is_restoring, settings_of_record},
    recorded_indexes::indexes_of_record,
    retention_configuration::retention_of_record,
    revisions_configuration::revisions_of_record,
    time_series_configuration::time_series_of_record,
};

/// What a record configures. It is parsed at the first use of the configuration; a section that cannot be interpreted
/// does not affect the others.
pub fn sections_of(configuration: &RecordConfiguration) -> &RecordSections {
    configuration.sections(parse)
}

/// JSON that is not an object, which is never stored, configures nothing.
fn parse(json: &[u8]) -> RecordSections {
    let record: Map<String, Value> = serde_json::from_slice(json).unwrap_or_default();
    RecordSections {
        is_restoring: is_restoring(&record),
        settings: settings_of_record(&record),
        revisions: revisions_of_record(&record)
            .map(Arc::new)
            .map_err(|error| unreadable(error.message)),
        compression: compression_of_record(&record).map_err(|error| unreadable(error.message)),
        id_separator: id_separator_of_record(&record),
        retention: retention_of_record(&record),
        time_series: time_series_of_record(&record).map(Arc::new),
        indexes: indexes_of_record(json).map_err(|error| unreadable(error.to_string())),
    }
}

fn unreadable(message: String) -> UnreadableSection {
    UnreadableSection { message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_section_does_not_affect_the_others() {
        let sections = parse(
            br#"{"Unknown":[1],"Revisions":7,"Settings":{"A":1},"Client":{"IdentityPartsSeparator":":"},
                "DocumentsCompression":{"CompressRevisions":true},"Indexes":{"I":{"Maps":7}},
                "TimeSeries":{"NamedValues":{"Users":{"Pulse":["Bpm"]}}}}"#,
        );
        // Line and column lead an operator to the mistake.
        let expected = "invalid type: integer `7`, expected a sequence at line 2 column 90";
        assert_eq!(sections.indexes.unwrap_err().message, expected);
        let names = sections.time_series.unwrap();
        assert_eq!(names.value_names("users", "pulse"), Some(&["Bpm".to_owned()][..]));
        assert!(sections.revisions.unwrap_err().message.contains("RevisionsConfiguration"));
        assert!(sections.compression.unwrap().revisions);
        assert_eq!(sections.settings["A"], "1");
        assert_eq!(sections.id_separator.character(), ':');
    }

    #[test]
    fn what_is_no_object_configures_nothing() {
        for json in [&b"[1]"[..], b"", b"{"] {
            let sections = parse(json);
            assert!(sections.settings.is_empty() && sections.revisions.is_ok());
            assert!(!sections.compression.unwrap().compresses_anything());
        }
    }
}
