//! Prints the definition of an index as a C# class, for applications that keep their indexes in code.

use std::fmt::{Display, Write as _};

use model::{IndexDefinition, SpatialOptions};
use serde_json::Value;

use crate::json_form::{Json, value_of};

/// The source of a class that defines the same index.
pub fn csharp_class_of(definition: &IndexDefinition) -> String {
    let mut text = String::new();
    write_class(&mut text, definition).expect("writing to a String cannot fail");
    text
}

fn write_class(out: &mut String, definition: &IndexDefinition) -> std::fmt::Result {
    let name: String = definition
        .name
        .chars()
        .map(|character| if character.is_alphanumeric() { character } else { '_' })
        .collect();
    out.push_str("using System.Collections.Generic;\nusing Raven.Client.Documents.Indexes;\n");
    out.push_str("using Raven.Client.Documents.Indexes.Spatial;\n\n");
    writeln!(out, "public class Index_{name} : AbstractIndexCreationTask\n{{")?;
    writeln!(out, "    public override string IndexName => {};\n", verbatim(&definition.name))?;
    out.push_str("    public override IndexDefinition CreateIndexDefinition()\n    {\n");
    out.push_str("        return new IndexDefinition\n        {\n");
    write_members(out, definition)?;
    out.push_str("        };\n    }\n}\n");
    Ok(())
}

fn write_members(out: &mut String, definition: &IndexDefinition) -> std::fmt::Result {
    out.push_str("            Maps =\n            {\n");
    for map in &definition.maps {
        writeln!(out, "                {},", verbatim(map))?;
    }
    out.push_str("            },\n");
    let mut member = |name: &str, value: Option<String>| match value {
        Some(value) => writeln!(out, "            {name} = {value},"),
        None => Ok(()),
    };
    let text = |text: &Option<String>| text.as_deref().map(verbatim);
    member("Reduce", text(&definition.reduce))?;
    member("LockMode", definition.lock_mode.map(|mode| of_enum("IndexLockMode", mode)))?;
    member("Priority", definition.priority.map(|priority| of_enum("IndexPriority", priority)))?;
    member("State", definition.state.map(|state| of_enum("IndexState", state)))?;
    let mode = definition.deployment_mode.as_ref().map(value_of);
    let mode = mode.as_ref().and_then(Value::as_str);
    member("DeploymentMode", mode.map(|mode| of_enum("IndexDeploymentMode", mode)))?;
    let output = &definition.output_reduce_to_collection;
    member("OutputReduceToCollection", text(output))?;
    let pattern = &definition.pattern_for_output_reduce_to_collection_references;
    member("PatternForOutputReduceToCollectionReferences", text(pattern))?;
    let references = &definition.pattern_references_collection_name;
    member("PatternReferencesCollectionName", text(references))?;
    write_fields(out, definition)?;
    let configuration = definition.configuration.iter();
    let configuration = configuration
        .map(|(key, value)| (key, value.as_deref().map_or_else(|| "null".to_owned(), verbatim)));
    write_pairs(out, "Configuration", "IndexConfiguration", configuration.collect())?;
    let sources = definition.additional_sources.iter();
    let sources = sources.map(|(name, source)| (name, verbatim(source))).collect();
    write_pairs(out, "AdditionalSources", "Dictionary<string, string>", sources)
}

fn write_pairs(
    out: &mut String,
    member: &str,
    class: &str,
    pairs: Vec<(&String, String)>,
) -> std::fmt::Result {
    if pairs.is_empty() {
        return Ok(());
    }
    writeln!(out, "            {member} = new {class}\n            {{")?;
    for (key, value) in pairs {
        writeln!(out, "                [{}] = {value},", verbatim(key))?;
    }
    out.push_str("            },\n");
    Ok(())
}

fn write_fields(out: &mut String, definition: &IndexDefinition) -> std::fmt::Result {
    if definition.fields.is_empty() {
        return Ok(());
    }
    out.push_str("            Fields =\n            {\n");
    for (name, options) in &definition.fields {
        let mut parts = Vec::new();
        let mut option = |name: &str, value: Option<String>| {
            parts.extend(value.map(|value| format!("{name} = {value}")));
        };
        option("Indexing", options.indexing.map(|value| of_enum("FieldIndexing", value)));
        option("Storage", options.storage.map(|value| of_enum("FieldStorage", value)));
        option("TermVector", options.term_vector.map(|value| of_enum("FieldTermVector", value)));
        option("Analyzer", options.analyzer.as_deref().map(verbatim));
        option("Suggestions", options.suggestions.map(|value| value.to_string()));
        option("Spatial", options.spatial.as_ref().map(spatial));
        let parts = parts.join(", ");
        writeln!(
            out,
            "                [{}] = new IndexFieldOptions {{ {parts} }},",
            verbatim(name)
        )?;
    }
    out.push_str("            },\n");
    Ok(())
}

fn spatial(options: &SpatialOptions) -> String {
    let Ok(Value::Object(members)) = serde_json::to_value(Json(options)) else {
        return "null".into();
    };
    let shown = members.iter().map(|(name, value)| {
        let value = match (name.as_str(), value) {
            ("Type", Value::String(word)) => of_enum("SpatialFieldType", word),
            ("Strategy", Value::String(word)) => of_enum("SpatialSearchStrategy", word),
            ("Units", Value::String(word)) => of_enum("SpatialUnits", word),
            (_, value) => value.to_string(),
        };
        format!("{name} = {value}")
    });
    format!("new SpatialOptions {{ {} }}", shown.collect::<Vec<_>>().join(", "))
}

fn of_enum(name: &str, value: impl Display) -> String {
    format!("{name}.{value}")
}

/// A C# verbatim string.
fn verbatim(text: &str) -> String {
    format!("@\"{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::read_index_definition;

    #[test]
    fn a_class_says_everything_that_its_definition_does() {
        let definition = json!({
            "Name": "Users/By-Name.x", "Maps": ["from u in docs.Users select new { Q = \"a\" }", "m"],
            "Reduce": "r", "Priority": "High", "LockMode": "LockedError", "State": "Disabled",
            "OutputReduceToCollection": "Out", "DeploymentMode": "Rolling",
            "Fields": {
                "Q": {"Indexing": "Search", "Storage": "Yes", "Analyzer": "StandardAnalyzer",
                      "Suggestions": true, "TermVector": "Yes"},
                "P": {"Spatial": {"Type": "Cartesian", "MaxTreeLevel": 7}}
            },
            "Configuration": {"Indexing.MapTimeoutInSec": "3"}, "AdditionalSources": {"a": "code"}
        });
        let text = csharp_class_of(&read_index_definition(definition).unwrap());
        for line in [
            "public class Index_Users_By_Name_x : AbstractIndexCreationTask",
            "    public override string IndexName => @\"Users/By-Name.x\";",
            "                @\"from u in docs.Users select new { Q = \"\"a\"\" }\",",
            "            Reduce = @\"r\",",
            "            Priority = IndexPriority.High,",
            "            LockMode = IndexLockMode.LockedError,",
            "            State = IndexState.Disabled,",
            "            DeploymentMode = IndexDeploymentMode.Rolling,",
            "            OutputReduceToCollection = @\"Out\",",
            "                [@\"Q\"] = new IndexFieldOptions { Indexing = FieldIndexing.Search, Storage = \
             FieldStorage.Yes, TermVector = FieldTermVector.Yes, Analyzer = @\"StandardAnalyzer\", \
             Suggestions = true },",
            "                [@\"Indexing.MapTimeoutInSec\"] = @\"3\",",
            "                [@\"a\"] = @\"code\",",
        ] {
            assert!(text.lines().any(|own| own == line), "{line}\n{text}");
        }
        assert!(
            text.contains("Spatial = new SpatialOptions { ")
                && text.contains("SpatialFieldType.Cartesian")
        );
    }
}
