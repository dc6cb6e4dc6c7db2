//! The words of .NET and RavenDB that a definition may use.

use dotnet::text_encoding::TextEncoding;

/// Declares an enum whose members are spelt as their words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($word:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name { $($word),* }

        impl $name {
            /// The member that is spelt `word`.
            pub(crate) fn from_word(word: &str) -> Option<$name> {
                match word {
                    $(stringify!($word) => Some($name::$word),)*
                    _ => None,
                }
            }
        }
    };
}

words! {
    /// Methods of values.
    Method {
        ToString, Equals, CompareTo, GetHashCode, Boost, Value,
        // Texts
        ToUpper, ToLower, ToUpperInvariant, ToLowerInvariant, Substring, Split, Replace, Trim,
        TrimStart, TrimEnd, StartsWith, EndsWith, Contains, IndexOf, LastIndexOf, PadLeft, PadRight,
        Remove, Insert, ToCharArray, Normalize,
        // Moments and durations
        AddYears, AddMonths, AddDays, AddHours, AddMinutes, AddSeconds, AddMilliseconds, AddTicks,
        Add, Subtract, ToUniversalTime, ToLocalTime, ToShortDateString, ToLongDateString,
        ToShortTimeString, ToLongTimeString, Negate, Duration,
        // Sequences
        Select, SelectMany, Where, OrderBy, OrderByDescending, ThenBy, ThenByDescending, GroupBy,
        Distinct, Concat, Union, Intersect, Except, Reverse, Skip, Take, SkipWhile, TakeWhile,
        First, FirstOrDefault, Last, LastOrDefault, Single, SingleOrDefault, ElementAt,
        ElementAtOrDefault, Any, All, Count, LongCount, Sum, Average, Min, Max, Aggregate, ToArray,
        ToList, ToDictionary, ToLookup, ToHashSet, Cast, OfType, DefaultIfEmpty, Zip, SequenceEqual,
        AsEnumerable, Append, Prepend,
        // Dictionaries
        ContainsKey, ContainsValue,
        // Attachments
        GetContentAsString,
    }
}

words! {
    /// Properties of .NET types.
    Property {
        Length, Count, Key, Keys, Values, Year, Month, Day, Hour, Minute, Second, Millisecond,
        Ticks, Date, TimeOfDay, DayOfWeek, DayOfYear, Kind, UtcDateTime, DateTime, Offset,
        LocalDateTime, Days, Hours, Minutes, Seconds, Milliseconds, TotalDays, TotalHours,
        TotalMinutes, TotalSeconds, TotalMilliseconds,
    }
}

words! {
    /// Arguments that are members of an enum of .NET, cultures and encodings.
    #[expect(clippy::upper_case_acronyms, reason = "the words are .NET's")]
    StaticOption {
        Ordinal, OrdinalIgnoreCase, InvariantCulture, InvariantCultureIgnoreCase, CurrentCulture,
        CurrentCultureIgnoreCase, None, RemoveEmptyEntries, TrimEntries, AwayFromZero, ToEven,
        IgnoreCase, Multiline, Singleline, Compiled, CultureInvariant, ExplicitCapture,
        IgnorePatternWhitespace, Unspecified, Utc, Local, AssumeUniversal, AdjustToUniversal,
        AssumeLocal, RoundtripKind, Any, Number, Float, Integer, UTF8, ASCII, Unicode,
        BigEndianUnicode, UTF32, Default,
    }
}

impl StaticOption {
    /// The encoding of that name, if it is one.
    pub(crate) fn encoding(self) -> Option<TextEncoding> {
        Some(match self {
            StaticOption::UTF8 | StaticOption::Default => TextEncoding::Utf8,
            StaticOption::ASCII => TextEncoding::Ascii,
            StaticOption::Unicode => TextEncoding::Utf16,
            StaticOption::BigEndianUnicode => TextEncoding::Utf16BigEndian,
            StaticOption::UTF32 => TextEncoding::Utf32,
            _ => return None,
        })
    }

    /// Whether texts are compared without regard to case.
    pub(crate) fn ignores_case(self) -> bool {
        matches!(
            self,
            StaticOption::OrdinalIgnoreCase
                | StaticOption::InvariantCultureIgnoreCase
                | StaticOption::CurrentCultureIgnoreCase
                | StaticOption::IgnoreCase
        )
    }
}

/// The types whose members are [`StaticOption`]s.
pub(crate) fn is_option_type(name: &str) -> bool {
    const TYPES: [&str; 9] = [
        "StringComparison",
        "StringSplitOptions",
        "MidpointRounding",
        "RegexOptions",
        "DateTimeKind",
        "CultureInfo",
        "DateTimeStyles",
        "NumberStyles",
        "Encoding",
    ];
    TYPES.contains(&name) || name == "StringComparer"
}

/// The types that values can be converted to or tested for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NetType {
    Dynamic,
    Object,
    Bool,
    Char,
    /// An integer of this many bits; unsigned ones are limited to the signed range.
    Integer {
        bits: u8,
        signed: bool,
    },
    Float,
    Double,
    Decimal,
    String,
    DateTime,
    DateTimeOffset,
    TimeSpan,
    Guid,
    DayOfWeek,
    /// Arrays, lists and other sequences of anything.
    Sequence,
    Dictionary,
    /// A document or an object in it.
    DocumentObject,
}

impl NetType {
    /// The type of that short name; arrays are sequences.
    pub(crate) fn from_name(name: &str) -> Option<NetType> {
        let integer = |bits, signed| NetType::Integer { bits, signed };
        Some(match name {
            "dynamic" => NetType::Dynamic,
            "object" | "Object" => NetType::Object,
            "bool" | "Boolean" => NetType::Bool,
            "char" | "Char" => NetType::Char,
            "sbyte" | "SByte" => integer(8, true),
            "byte" | "Byte" => integer(8, false),
            "short" | "Int16" => integer(16, true),
            "ushort" | "UInt16" => integer(16, false),
            "int" | "Int32" => integer(32, true),
            "uint" | "UInt32" => integer(32, false),
            "long" | "Int64" => integer(64, true),
            "ulong" | "UInt64" => integer(64, false),
            "float" | "Single" => NetType::Float,
            "double" | "Double" => NetType::Double,
            "decimal" | "Decimal" => NetType::Decimal,
            "string" | "String" => NetType::String,
            "DateTime" => NetType::DateTime,
            "DateTimeOffset" => NetType::DateTimeOffset,
            "TimeSpan" => NetType::TimeSpan,
            "Guid" => NetType::Guid,
            "DayOfWeek" => NetType::DayOfWeek,
            "IEnumerable"
            | "IList"
            | "List"
            | "ICollection"
            | "HashSet"
            | "ISet"
            | "Array"
            | "DynamicArray"
            | "IReadOnlyList"
            | "IReadOnlyCollection" => NetType::Sequence,
            "Dictionary" | "IDictionary" => NetType::Dictionary,
            "DynamicBlittableJson" | "BlittableJsonReaderObject" => NetType::DocumentObject,
            _ => return None,
        })
    }
}

words! {
    /// Functions that belong to no value; those of a class are spelt with it.
    Function {
        Id, MetadataFor, AsJson, LoadDocument, Recurse, CreateField, CreateSpatialField,
        CounterNamesFor, TimeSeriesNamesFor, AttachmentsFor, LoadAttachment, LoadAttachments,
        LoadCompareExchangeValue, NoTrackingLoadDocument, TryConvert,
        StringFormat, StringConcat, StringJoin, StringIsNullOrEmpty, StringIsNullOrWhiteSpace,
        StringEquals, StringCompare, StringCompareOrdinal, ObjectEquals, ObjectReferenceEquals,
        MathAbs, MathMax, MathMin, MathRound, MathFloor, MathCeiling, MathTruncate, MathPow,
        MathSqrt, MathCbrt, MathSign, MathLog, MathLog10, MathExp, MathSin, MathCos, MathTan,
        MathAsin, MathAcos, MathAtan, MathAtan2,
        ConvertToInt16, ConvertToInt32, ConvertToInt64, ConvertToDouble, ConvertToDecimal,
        ConvertToSingle, ConvertToBoolean, ConvertToString, ConvertToDateTime,
        IntegerParse, DoubleParse, FloatParse, DecimalParse, BoolParse, GuidParse, GuidNew,
        DateTimeParse, DateTimeParseExact, DateTimeNew, DateTimeDaysInMonth, DateTimeIsLeapYear,
        DateTimeOffsetParse, DateTimeOffsetNew, DateTimeSpecifyKind,
        TimeSpanParse, TimeSpanNew, TimeSpanFromDays, TimeSpanFromHours, TimeSpanFromMinutes,
        TimeSpanFromSeconds, TimeSpanFromMilliseconds, TimeSpanFromTicks,
        CharIsDigit, CharIsLetter, CharIsLetterOrDigit, CharIsWhiteSpace, CharIsUpper, CharIsLower,
        CharToUpper, CharToLower,
        RegexIsMatch, RegexReplace, RegexMatch, RegexMatches, RegexSplit, RegexEscape,
        EnumerableRange, EnumerableRepeat, EnumerableEmpty, StringNew,
    }
}

impl Function {
    /// The static method `method` of the class with that short name.
    pub(crate) fn of_class(class: &str, method: &str) -> Option<Function> {
        let class = match class {
            "string" | "String" => "String",
            "object" | "Object" => "Object",
            "int" | "Int32" | "long" | "Int64" | "short" | "Int16" | "byte" | "Byte" => "Integer",
            "double" | "Double" => "Double",
            "float" | "Single" => "Float",
            "decimal" | "Decimal" if method == "Parse" => "Decimal",
            // The arithmetic of `decimal` has the names of `Math`'s.
            "decimal" | "Decimal" => "Math",
            "bool" | "Boolean" => "Bool",
            "char" | "Char" => "Char",
            "DynamicEnumerable" => "Enumerable",
            other => other,
        };
        Function::from_word(&format!("{class}{method}"))
    }

    /// A function that is called by its bare name.
    pub(crate) fn of_index(name: &str) -> Option<Function> {
        match name {
            "Id"
            | "MetadataFor"
            | "AsJson"
            | "LoadDocument"
            | "Recurse"
            | "CreateField"
            | "CreateSpatialField"
            | "CounterNamesFor"
            | "TimeSeriesNamesFor"
            | "AttachmentsFor"
            | "LoadAttachment"
            | "LoadAttachments"
            | "LoadCompareExchangeValue"
            | "TryConvert" => Function::from_word(name),
            _ => None,
        }
    }
}

/// Whether a class has static members here.
pub(crate) fn is_class(name: &str) -> bool {
    NetType::from_name(name).is_some()
        || is_option_type(name)
        || matches!(
            name,
            "Math"
                | "Convert"
                | "Enumerable"
                | "DynamicEnumerable"
                | "Regex"
                | "FieldStorage"
                | "FieldIndexing"
                | "FieldTermVector"
                | "CreateFieldOptions"
                | "Environment"
        )
}

/// Whether the path before a class names a namespace.
pub(crate) fn is_namespace(path: &str) -> bool {
    matches!(
        path,
        "System"
            | "System.Linq"
            | "System.Collections"
            | "System.Collections.Generic"
            | "System.Text"
            | "System.Text.RegularExpressions"
            | "System.Globalization"
    ) || path.starts_with("Raven.")
}

/// Every name that a call may have, for suggestions.
pub(crate) const SUGGESTED: [&str; 14] = [
    "Id",
    "MetadataFor",
    "AsJson",
    "LoadDocument",
    "Recurse",
    "CreateField",
    "CreateSpatialField",
    "CounterNamesFor",
    "TimeSeriesNamesFor",
    "AttachmentsFor",
    "LoadAttachment",
    "LoadAttachments",
    "LoadCompareExchangeValue",
    "TryConvert",
];
