//! Names of analyzers, as definitions write them.

use super::{Analyzer, N_GRAM_DEFAULT};
use crate::error::SearchError;

/// Where the analyzers' .NET types live.
const NAMESPACES: [&str; 5] = [
    "Lucene.Net.Analysis.Standard.",
    "Lucene.Net.Analysis.",
    "Raven.Server.Documents.Indexes.Persistence.Lucene.Analyzers.",
    "Raven.Client.Documents.Indexes.Analyzers.",
    "Raven.Server.Documents.Indexes.Persistence.Corax.Analyzers.",
];

pub(super) fn resolve(name: &str) -> Result<Analyzer, SearchError> {
    let type_name = name.split(',').next().unwrap_or_default().trim();
    let short = NAMESPACES
        .iter()
        .find_map(|namespace| type_name.strip_prefix(namespace))
        .unwrap_or(type_name);
    let (min, max) = N_GRAM_DEFAULT;
    Ok(match short {
        "LowerCaseKeywordAnalyzer" => Analyzer::LowerCaseKeyword,
        "KeywordAnalyzer" => Analyzer::Keyword,
        "RavenStandardAnalyzer" => Analyzer::RavenStandard,
        "StandardAnalyzer" => Analyzer::Standard,
        "WhitespaceAnalyzer" => Analyzer::Whitespace,
        "LowerCaseWhitespaceAnalyzer" => Analyzer::LowerCaseWhitespace,
        "SimpleAnalyzer" => Analyzer::Simple,
        "StopAnalyzer" => Analyzer::Stop,
        "NGramAnalyzer" => Analyzer::NGram { min, max },
        _ if short.ends_with("CollationAnalyzer") => {
            return Err(SearchError::UnsupportedAnalyzer { name: name.to_owned() });
        }
        _ => return Err(SearchError::UnknownAnalyzer { name: name.to_owned() }),
    })
}
