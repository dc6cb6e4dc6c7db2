//! Constants of .NET's classes: `Math.PI`, `string.Empty`, `DayOfWeek.Friday`.

use dotnet::date_format::day_number;
use rust_decimal::Decimal;

use crate::compile::names::NetType;
use crate::compile::plan::{Constant, Known};
use crate::value::Date;

const EMPTY_GUID: &str = "00000000-0000-0000-0000-000000000000";

impl Constant {
    /// The type of the constant.
    pub(crate) fn known(&self) -> Known {
        match self {
            Constant::Bool(_) => Known::Bool,
            Constant::Integer(_) => Known::Integer,
            Constant::Double(_) => Known::Double,
            Constant::Decimal(_) => Known::Decimal,
            Constant::Char(_) => Known::Char,
            Constant::Text(_) => Known::Text,
            Constant::Null => Known::Nullable,
            Constant::Date(_) | Constant::Span(_) | Constant::DayOfWeek(_) => Known::Other,
        }
    }
}

/// The constant `class.name`.
pub(crate) fn constant_member(class: &str, name: &str) -> Option<Constant> {
    if class == "Math" {
        return Some(Constant::Double(match name {
            "PI" => std::f64::consts::PI,
            "E" => std::f64::consts::E,
            "Tau" => std::f64::consts::TAU,
            _ => return None,
        }));
    }
    Some(match (NetType::from_name(class)?, name) {
        (NetType::String, "Empty") => Constant::Text("".into()),
        (NetType::Guid, "Empty") => Constant::Text(EMPTY_GUID.into()),
        (NetType::Bool, "TrueString") => Constant::Text("True".into()),
        (NetType::Bool, "FalseString") => Constant::Text("False".into()),
        (NetType::Integer { bits, signed }, "MaxValue") => Constant::Integer(range(bits, signed).1),
        (NetType::Integer { bits, signed }, "MinValue") => Constant::Integer(range(bits, signed).0),
        (NetType::Double, name) => Constant::Double(double(name)?),
        (NetType::Float, "NaN") => Constant::Double(f64::NAN),
        (NetType::Float, "MaxValue") => Constant::Double(f64::from(f32::MAX)),
        (NetType::Float, "MinValue") => Constant::Double(f64::from(f32::MIN)),
        (NetType::Decimal, "MaxValue") => Constant::Decimal(Decimal::MAX),
        (NetType::Decimal, "MinValue") => Constant::Decimal(Decimal::MIN),
        (NetType::Decimal, "Zero") => Constant::Decimal(Decimal::ZERO),
        (NetType::Decimal, "One") => Constant::Decimal(Decimal::ONE),
        (NetType::Decimal, "MinusOne") => Constant::Decimal(Decimal::NEGATIVE_ONE),
        (NetType::DateTime | NetType::DateTimeOffset, "MinValue") => Constant::Date(Date::MIN),
        (NetType::DateTime | NetType::DateTimeOffset, "MaxValue") => Constant::Date(Date::MAX),
        (NetType::TimeSpan, "Zero") => Constant::Span(0),
        (NetType::TimeSpan, "MaxValue") => Constant::Span(i64::MAX),
        (NetType::TimeSpan, "MinValue") => Constant::Span(-i64::MAX),
        (NetType::DayOfWeek, name) => {
            Constant::DayOfWeek(day_number(name).and_then(|day| u8::try_from(day).ok())?)
        }
        _ => return None,
    })
}

fn double(name: &str) -> Option<f64> {
    Some(match name {
        "NaN" => f64::NAN,
        "PositiveInfinity" => f64::INFINITY,
        "NegativeInfinity" => f64::NEG_INFINITY,
        "MaxValue" => f64::MAX,
        "MinValue" => f64::MIN,
        "Epsilon" => 5e-324,
        _ => return None,
    })
}

/// The least and greatest integer of that many bits, within 64 signed ones.
pub(crate) fn range(bits: u8, signed: bool) -> (i64, i64) {
    match (bits, signed) {
        (64.., _) => (if signed { i64::MIN } else { 0 }, i64::MAX),
        (bits, true) => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        (bits, false) => (0, (1 << bits) - 1),
    }
}

/// The value of `default(T)` in C#.
pub(crate) fn default_of(net_type: NetType) -> Constant {
    match net_type {
        NetType::Bool => Constant::Bool(false),
        NetType::Char => Constant::Char('\0'),
        NetType::Integer { .. } => Constant::Integer(0),
        NetType::Float | NetType::Double => Constant::Double(0.0),
        NetType::Decimal => Constant::Decimal(Decimal::ZERO),
        NetType::DateTime | NetType::DateTimeOffset => Constant::Date(Date::MIN),
        NetType::TimeSpan => Constant::Span(0),
        NetType::Guid => Constant::Text(EMPTY_GUID.into()),
        NetType::DayOfWeek => Constant::DayOfWeek(0),
        NetType::Dynamic
        | NetType::Object
        | NetType::String
        | NetType::Sequence
        | NetType::Dictionary
        | NetType::DocumentObject => Constant::Null,
    }
}

/// What .NET calls the type: `typeof(int).Name`.
pub(crate) fn net_name(short: &str) -> &str {
    match short {
        "bool" => "Boolean",
        "byte" => "Byte",
        "sbyte" => "SByte",
        "char" => "Char",
        "decimal" => "Decimal",
        "double" => "Double",
        "float" => "Single",
        "int" => "Int32",
        "uint" => "UInt32",
        "long" => "Int64",
        "ulong" => "UInt64",
        "short" => "Int16",
        "ushort" => "UInt16",
        "object" => "Object",
        "string" => "String",
        other => other,
    }
}
