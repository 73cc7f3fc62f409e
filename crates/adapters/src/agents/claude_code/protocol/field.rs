//! The one field of a form that an MCP server puts to a person.

use serde_json::{Value, json};

pub(super) struct Field {
    name: String,
    kind: Kind,
    choices: Vec<String>,
}

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Integer,
    Number,
    YesNo,
}

impl Field {
    /// The field of a form that has exactly one, or why the form cannot be answered in words.
    pub(super) fn only_one(schema: &Value) -> Result<Self, String> {
        let fields = schema["properties"].as_object().ok_or("the agent asks for more than words")?;
        let mut fields = fields.iter();
        let (Some((name, field)), None) = (fields.next(), fields.next()) else {
            return Err("the form does not have exactly one field".to_owned());
        };
        let kind = match field["type"].as_str() {
            Some("string") => Kind::Text,
            Some("integer") => Kind::Integer,
            Some("number") => Kind::Number,
            Some("boolean") => Kind::YesNo,
            other => {
                return Err(format!("the field {name:?} wants {}, not words", other.unwrap_or("something")));
            }
        };
        let listed = field["enum"].as_array().into_iter().flatten();
        let choices = listed.filter_map(|one| one.as_str().map(str::to_owned)).collect();
        Ok(Self { name: name.clone(), kind, choices })
    }

    pub(super) fn choices(&self) -> &[String] {
        &self.choices
    }

    pub(super) fn in_words(&self) -> String {
        let kind = match self.kind {
            Kind::Text if self.choices.is_empty() => "text",
            Kind::Text => return format!("{}: one of {}", self.name, self.choices.join(", ")),
            Kind::Integer => "a whole number",
            Kind::Number => "a number",
            Kind::YesNo => "yes or no",
        };
        format!("{}: {kind}", self.name)
    }

    /// The filled form, or why these words do not fit.
    pub(super) fn content(&self, text: &str) -> Result<Value, String> {
        let misfit = || format!("the agent wants {}", self.in_words());
        let word = text.trim();
        let value = match self.kind {
            Kind::Text if self.choices.is_empty() => json!(text),
            Kind::Text => json!(self.choices.iter().find(|one| *one == word).ok_or_else(misfit)?),
            Kind::Integer => json!(word.parse::<i64>().map_err(|_| misfit())?),
            Kind::Number => {
                let number = word.parse::<f64>().ok().filter(|number| number.is_finite());
                json!(number.ok_or_else(misfit)?)
            }
            Kind::YesNo => json!(match word.to_ascii_lowercase().as_str() {
                "yes" | "true" | "y" => true,
                "no" | "false" | "n" => false,
                _ => return Err(misfit()),
            }),
        };
        Ok(json!({self.name.as_str(): value}))
    }
}
