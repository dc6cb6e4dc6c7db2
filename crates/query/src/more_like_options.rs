//! The options of `moreLikeThis()`.

use std::collections::HashSet;

use model::lower_case;

use crate::error::QueryError;
use crate::method_options::MethodOptions;
use crate::term_statistics::TermStatistics;

/// Maximum number of words that a comparison may search for.
const QUERY_WORDS_MAX: usize = 1024;
/// Number of words read of a text, by default.
const TEXT_WORDS_DEFAULT: usize = 5000;
/// Maximum number of words read of a text.
const TEXT_WORDS_MAX: usize = 100_000;

/// Which words count, and with what weight.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MoreLikeOptions {
    /// Minimum number of occurrences of a word in the base.
    pub(crate) frequency_min: u64,
    /// Minimum number of entries that contain it.
    pub(crate) entries_min: u64,
    /// Maximum number of entries that contain it.
    pub(crate) entries_max: Option<u64>,
    /// The same, as a percentage of all entries.
    pub(crate) entries_max_percent: Option<f64>,
    /// Minimum length, in characters.
    pub(crate) length_min: usize,
    /// Maximum length, in characters.
    pub(crate) length_max: usize,
    /// How many words are searched for.
    pub(crate) words_max: usize,
    /// How many words of a text are read.
    pub(crate) text_words_max: usize,
    /// The weight of the best word; without it all words have equal weight.
    pub(crate) boost: Option<f32>,
    /// Words that are ignored.
    pub(crate) stop_words: HashSet<String>,
    /// The fields that are compared; without them the index decides.
    pub(crate) fields: Option<Vec<String>>,
}

impl Default for MoreLikeOptions {
    fn default() -> Self {
        Self {
            frequency_min: 1,
            entries_min: 1,
            entries_max: None,
            entries_max_percent: None,
            length_min: 0,
            length_max: usize::MAX,
            words_max: 25,
            text_words_max: TEXT_WORDS_DEFAULT,
            boost: None,
            stop_words: HashSet::new(),
            fields: None,
        }
    }
}

impl MoreLikeOptions {
    pub(crate) fn read(
        options: &MethodOptions<'_>,
        statistics: &dyn TermStatistics,
    ) -> Result<Self, QueryError> {
        let default = Self::default();
        // A number below one means no limit.
        let above_zero = |name| -> Result<Option<usize>, QueryError> {
            let number = options.whole(name)?.and_then(|number| usize::try_from(number).ok());
            Ok(number.filter(|number| 0 < *number))
        };
        let entries_max = options.whole("MaximumDocumentFrequency")?;
        let boost = match options.flag("Boost")? {
            Some(true) => Some(boost_factor(options)?),
            Some(false) | None => None,
        };
        let words_max = above_zero("MaximumQueryTerms")?.unwrap_or(default.words_max);
        let text_words_max =
            above_zero("MaximumNumberOfTokensParsed")?.unwrap_or(default.text_words_max);
        Ok(Self {
            frequency_min: above_zero("MinimumTermFrequency")?.unwrap_or(1) as u64,
            entries_min: above_zero("MinimumDocumentFrequency")?.unwrap_or(1) as u64,
            entries_max: entries_max.map(|number| u64::try_from(number).unwrap_or(0)),
            entries_max_percent: options.number("MaximumDocumentFrequencyPercentage")?,
            length_min: above_zero("MinimumWordLength")?.unwrap_or(default.length_min),
            length_max: above_zero("MaximumWordLength")?.unwrap_or(default.length_max),
            words_max: words_max.min(QUERY_WORDS_MAX),
            text_words_max: text_words_max.min(TEXT_WORDS_MAX),
            boost,
            stop_words: stop_words(options, statistics)?,
            fields: options.texts("Fields")?.filter(|fields| !fields.is_empty()),
        })
    }

    /// Whether a word counts that occurs `frequency` times in the base and in `matching` entries.
    pub(crate) fn accepts(&self, word: &str, frequency: u64, matching: u64, entries: u64) -> bool {
        let length = word.chars().count();
        let percent_max =
            self.entries_max_percent.map(|percent| (percent / 100.0 * entries as f64) as u64);
        self.frequency_min <= frequency
            && self.entries_min <= matching
            && self.entries_max.is_none_or(|max| matching <= max)
            && percent_max.is_none_or(|max| matching <= max)
            && (self.length_min..=self.length_max).contains(&length)
            && !self.stop_words.contains(word)
    }
}

fn boost_factor(options: &MethodOptions<'_>) -> Result<f32, QueryError> {
    let factor = options.number("BoostFactor")?.unwrap_or(1.0) as f32;
    match 0.0 < factor && factor.is_finite() {
        true => Ok(factor),
        false => {
            let message = "The option 'BoostFactor' of moreLikeThis() must be above 0".to_owned();
            Err(QueryError::InvalidOperation { message })
        }
    }
}

fn stop_words(
    options: &MethodOptions<'_>,
    statistics: &dyn TermStatistics,
) -> Result<HashSet<String>, QueryError> {
    let id = options.text("StopWordsDocumentId")?.filter(|id| !id.is_empty());
    let Some(id) = id else { return Ok(HashSet::new()) };
    match statistics.document_texts(&id, "StopWords")? {
        Some(words) => Ok(words.iter().map(|word| lower_case(word).into_owned()).collect()),
        None => {
            let message = format!("Stop words document {id} could not be found");
            Err(QueryError::InvalidOperation { message })
        }
    }
}
