//! What the LINQ provider of the .NET client writes into queries, as RavenDB 5.4 answers it.

use script::{Argument, Budget, Projection, ScriptError};

use crate::world::{Notes, document, engine};

const DOCUMENT: &str =
    r#"{"D":"2020-03-05T06:07:08.1234567Z","F":1234.5,"S":"abc","B":true,"N":null}"#;

fn evaluate(expression: &str) -> Result<String, ScriptError> {
    let engine = engine();
    let projection = Projection::new(&["e"], &[], &format!("{{ N: {expression} }}"));
    let bound = projection.bind(&engine, |_| None)?;
    let arguments = [Argument::Document(document("e/1", DOCUMENT))];
    let value = bound.evaluate(&arguments, Budget::default(), &mut Notes::default())?;
    let json = value.to_json().unwrap();
    Ok(json.strip_prefix(r#"{"N":"#).unwrap().strip_suffix('}').unwrap().to_owned())
}

#[test]
fn numbers_and_moments_have_the_texts_of_dotnet() {
    let table = [
        ("toStringWithFormat(95,'0.00')", r#""95.00""#),
        ("toStringWithFormat(1234.5,'C','en-US')", r#""$1,234.50""#),
        ("toStringWithFormat(-1234.5,'C','en-US')", r#""-$1,234.50""#),
        ("toStringWithFormat(1234.5,'C')", r#""¤1,234.50""#),
        ("toStringWithFormat(0.256,'P')", r#""25.60 %""#),
        ("toStringWithFormat(0.256,'P1','en-US')", r#""25.6%""#),
        ("toStringWithFormat(5,'N','en-US')", r#""5.000""#),
        ("toStringWithFormat(5,'en-US','N')", r#""5.000""#),
        ("toStringWithFormat(5,'F')", r#""5.00""#),
        ("toStringWithFormat(12.25,'F1')", r#""12.2""#),
        ("toStringWithFormat(12.5,'E3')", r#""1.250E+001""#),
        ("toStringWithFormat(-5,'0;(0);zero')", r#""(5)""#),
        ("toStringWithFormat(5,'N','')", r#""5.00""#),
        ("toStringWithFormat(1e20)", r#""1E+20""#),
        ("toStringWithFormat(e.F)", r#""1234.5""#),
        ("toStringWithFormat(e.B,'N')", r#""True""#),
        ("toStringWithFormat(e.D)", r#""03/05/2020 06:07:08""#),
        ("toStringWithFormat(e.D,'yyyy-MM-dd')", r#""2020-03-05""#),
        ("toStringWithFormat(e.D,'yy-MM')", r#""20-03""#),
        ("toStringWithFormat(new Date(e.D),'yyyy-MM-dd')", r#""2020-03-05""#),
        ("toStringWithFormat(e.D,'o')", r#""2020-03-05T06:07:08.1234567Z""#),
        ("toStringWithFormat(e.D,'D','en-US')", r#""Thursday, March 5, 2020""#),
        ("toStringWithFormat(e.D,'en-US')", "\"3/5/2020 6:07:08\u{202f}AM\""),
        ("toStringWithFormat(e.D,'QQ')", r#""QQ""#),
        ("compareDates(e.D,'2020-01-01T00:00:00.0000000Z','GreaterThanOrEqual')", "true"),
        ("compareDates(e.D,'2020-01-01T00:00:00.0000000Z','LessThan')", "false"),
        ("compareDates(e.D,'2020-01-01T00:00:00.0000000Z','NotEqual')", "true"),
        ("compareDates(new Date(0),'1970-01-01T00:00:00.0000000','Equal')", "true"),
        ("compareDates(e.D,'2020-01-01T00:00:00.0000000Z')", r#""64.06:07:08.1234567""#),
        ("compareDates(e.D,new Date(0))", r#""18326.06:07:08.1234567""#),
        ("compareDates(e.D,new Date(0),'GreaterThan')", "true"),
        ("convertToTimeSpanString(1, 26, 3)", r#""01:26:03""#),
        ("convertToTimeSpanString(5)", r#""00:00:00.0000005""#),
        ("convertToTimeSpanString(36000000000)", r#""01:00:00""#),
        ("convertToTimeSpanString(1,2,3,4)", r#""1.02:03:04""#),
        ("convertToTimeSpanString(1,2,3,4,5)", r#""1.02:03:04.0050000""#),
        ("convertToTimeSpanString(-1,0,0)", r#""-01:00:00""#),
        ("convertToTimeSpanString(1.5,0,0)", r#""02:00:00""#),
        ("convertToTimeSpanString(25,61,61)", r#""1.02:02:01""#),
    ];
    for (expression, expected) in table {
        assert_eq!(evaluate(expression).unwrap(), expected, "{expression}");
    }
}

#[test]
fn what_cannot_be_a_text_or_a_moment_is_refused_by_name() {
    let table = [
        ("toStringWithFormat(255,'X')", "Format specifier was invalid."),
        ("toStringWithFormat(e.D,'Q')", "Input string was not in a correct format."),
        ("toStringWithFormat(e.S)", "'dateString' is not a valid DateTime string"),
        ("toStringWithFormat('2020-01-01','yyyy')", "'dateString' is not a valid DateTime string"),
        ("toStringWithFormat(e.N,'N')", "not supported for objects of type Null"),
        ("toStringWithFormat(e)", "not supported for objects of type Object"),
        ("toStringWithFormat()", "No overload for method 'toStringWithFormat' takes 0 arguments"),
        ("toStringWithFormat(5,7)", "'format' and 'culture' must be string arguments"),
        ("toStringWithFormat(5,'N','de-DE')", "The culture 'de-DE' is not supported yet"),
        ("compareDates('2020-01-01',e.D)", "date1 must be of type"),
        ("compareDates(e.D,null,'GreaterThan')", "date2 must be of type"),
        ("compareDates(e.D,e.D,'Add')", "unsupported binary operation 'Add'"),
        ("convertToTimeSpanString(1,2)", "supported overloads are: convertToTimeSpanString(ticks)"),
        ("convertToTimeSpanString('a')", "convertToTimeSpanString(ticks) must be called with"),
    ];
    for (expression, expected) in table {
        let error = evaluate(expression).unwrap_err().to_string();
        assert!(error.contains(expected), "{expression}: {error}");
    }
}
