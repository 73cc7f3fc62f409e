//! A form that the agent wants to have filled in (`elicitation/create`).

use serde_json::{Map, Value};

use super::asked::split;

#[derive(Debug)]
pub(super) struct Form(Vec<Field>);

#[derive(Debug)]
struct Field {
    name: String,
    /// What it is called, for a person.
    title: String,
    kind: Kind,
    is_required: bool,
}

#[derive(Debug)]
enum Kind {
    Text,
    Whole,
    Number,
    YesNo,
    One(Vec<Choice>),
    Several(Vec<Choice>),
}

#[derive(Debug)]
struct Choice {
    value: Value,
    label: String,
}

impl Form {
    pub(super) fn new(schema: Option<&Value>) -> Self {
        let field = |key: &str| schema.and_then(|schema| schema.get(key));
        let required = field("required").and_then(Value::as_array);
        let properties = field("properties").and_then(Value::as_object);
        let fields = properties.into_iter().flatten().map(|(name, property)| {
            let text = |key: &str| property.get(key).and_then(Value::as_str);
            let title = text("description").or_else(|| text("title")).unwrap_or(name);
            Field {
                name: name.clone(),
                title: title.to_owned(),
                kind: kind(property),
                is_required: required.is_some_and(|names| names.iter().any(|one| one == name.as_str())),
            }
        });
        Self(fields.collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is asked for, one line for each field and each choice.
    pub(super) fn words(&self) -> Vec<String> {
        let lines = self.0.iter().flat_map(|field| {
            let choices = field.choices().iter().map(|choice| format!("- {}", choice.label));
            std::iter::once(field.title.clone()).chain(choices)
        });
        lines.collect()
    }

    /// The choices of a form that asks one thing.
    pub(super) fn only_choices(&self) -> Vec<&str> {
        match &self.0[..] {
            [only] => only.choices().iter().map(|choice| choice.label.as_str()).collect(),
            _ => Vec::new(),
        }
    }

    /// The form, filled in with one line for each field, or why the text does not fit.
    pub(super) fn fill(&self, text: &str) -> Result<Map<String, Value>, String> {
        let mut content = Map::new();
        for (field, text) in self.0.iter().zip(split(text, self.0.len())?) {
            if text.trim().is_empty() && !field.is_required {
                continue;
            }
            content.insert(field.name.clone(), field.value(text)?);
        }
        Ok(content)
    }
}

impl Field {
    fn choices(&self) -> &[Choice] {
        match &self.kind {
            Kind::One(choices) | Kind::Several(choices) => choices,
            Kind::Text | Kind::Whole | Kind::Number | Kind::YesNo => &[],
        }
    }

    fn value(&self, text: &str) -> Result<Value, String> {
        let word = text.trim();
        let wanted = |what: &str| format!("\"{}\" must be answered with {what}", self.title);
        match &self.kind {
            Kind::Text => Ok(Value::from(text)),
            Kind::Whole => word.parse::<i64>().map(Value::from).map_err(|_| wanted("a whole number")),
            Kind::Number => {
                let number = word.parse::<f64>().ok().and_then(serde_json::Number::from_f64);
                number.map(Value::Number).ok_or_else(|| wanted("a number"))
            }
            Kind::YesNo => match word.to_lowercase().as_str() {
                "yes" | "true" => Ok(Value::Bool(true)),
                "no" | "false" => Ok(Value::Bool(false)),
                _ => Err(wanted("yes or no")),
            },
            Kind::One(choices) => chosen(choices, word).ok_or_else(|| wanted(&one_of(choices))),
            Kind::Several(choices) => {
                let words = word.split(',').map(str::trim).filter(|word| !word.is_empty());
                let values = words.map(|word| chosen(choices, word)).collect::<Option<Vec<_>>>();
                values.map(Value::Array).ok_or_else(|| wanted(&format!("{}, with commas", one_of(choices))))
            }
        }
    }
}

fn chosen(choices: &[Choice], word: &str) -> Option<Value> {
    let found = choices.iter().find(|choice| choice.label == word || choice.value == word)?;
    Some(found.value.clone())
}

fn one_of(choices: &[Choice]) -> String {
    choices.iter().map(|choice| choice.label.as_str()).collect::<Vec<_>>().join(" | ")
}

fn kind(property: &Value) -> Kind {
    if let Some(choices) = choices(property) {
        return Kind::One(choices);
    }
    match property.get("type").and_then(Value::as_str) {
        Some("integer") => Kind::Whole,
        Some("number") => Kind::Number,
        Some("boolean") => Kind::YesNo,
        Some("array") => property.get("items").and_then(choices).map_or(Kind::Text, Kind::Several),
        _ => Kind::Text,
    }
}

/// The values of `enum`, or of `oneOf` or `anyOf` with a title for each.
fn choices(property: &Value) -> Option<Vec<Choice>> {
    let label = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if let Some(values) = property.get("enum").and_then(Value::as_array) {
        return Some(
            values.iter().map(|value| Choice { label: label(value), value: value.clone() }).collect(),
        );
    }
    let titled = property.get("oneOf").or_else(|| property.get("anyOf")).and_then(Value::as_array)?;
    let choice = |one: &Value| {
        let value = one.get("const")?.clone();
        let title = one.get("title").and_then(Value::as_str);
        Some(Choice { label: title.map_or_else(|| label(&value), str::to_owned), value })
    };
    titled.iter().map(choice).collect()
}
