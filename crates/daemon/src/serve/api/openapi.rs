//! The `OpenAPI` document, generated from the table of routes.

use axum::response::Response;
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::routes::{Answers, Operation, ROUTES, Route, SchemaOf, Takes};
use super::{answer, examples};
use crate::serve::elsewhere;
use crate::serve::problem::{KINDS, ProblemObject};
use crate::serve::query::{HOST, Parameter, Parameters};
use crate::wire::WRITE;

const ABOUT: &str = "The coding-agent sessions of one machine, as they are at the moment of the question.\n\n\
    The API is on the unix socket `agentctl.sock` in `AGENTCTL_HOME` (`~/.agentctl`), for its owner alone and without a \
    token. With `daemon start --http` it is on loopback TCP too: every request then needs the token that `http.token` in \
    that folder holds, and every write the header `X-Agentctl: 1`.\n\n\
    Every write needs `Content-Type: application/json`, with or without a body. A parameter or a key that is not \
    described here is refused. What went wrong is a problem object (RFC 9457) with a stable `code` and, where there is \
    one, a `hint`. Keys of an answer are always there; what is not known is `null`. New keys, types of events and \
    parameters may be added; none is renamed or taken away.";

/// The parts of the API. The beginning of its path decides to which part an operation belongs.
const TAGS: [(&str, &str); 8] = [
    ("sessions", "What the agents on this machine do, and steering them"),
    ("inbox", "What waits for a person"),
    ("groups", "Several agents at one task, side by side"),
    ("locks", "Who holds which directory"),
    ("worktrees", "Git working trees for agents"),
    ("events", "Changes as they happen"),
    ("fuses", "Timers on directories and limits on sessions"),
    ("daemon", "The daemon itself, and what it knows of agents"),
];

pub(crate) async fn serve() -> Response {
    answer(text().into())
}

/// The document as it is served, which is also the content of `docs/openapi.json`.
pub fn text() -> String {
    format!("{:#}\n", document())
}

/// Objects that the daemon writes have all of their keys; those that it reads may omit some.
struct Schemas {
    written: SchemaGenerator,
    read: SchemaGenerator,
}

impl Schemas {
    fn new() -> Self {
        let generator = |settings: SchemaSettings| {
            settings
                .with(|settings| settings.definitions_path = "/components/schemas".into())
                .into_generator()
        };
        let settings = SchemaSettings::draft2020_12;
        Self { written: generator(settings().for_serialize()), read: generator(settings().for_deserialize()) }
    }

    fn all(mut self) -> Map<String, Value> {
        let mut all = self.read.take_definitions(true);
        // An object that is both read and written is described as it is written.
        all.extend(self.written.take_definitions(true));
        for (name, schema) in &mut all {
            if let Some(example) = examples::of(name) {
                schema["examples"] = json!([example]);
            }
        }
        all
    }
}

/// Every route, in the form of `OpenAPI` 3.1.
pub fn document() -> Value {
    let mut schemas = Schemas::new();
    let problem = schemas.written.subschema_for::<ProblemObject>();
    let mut paths = Map::new();
    for route in ROUTES {
        let operations = route.operations.iter();
        let operations = operations.map(|one| (one.method.to_owned(), operation(route, one, &mut schemas)));
        paths.insert(route.path.to_owned(), Value::Object(operations.collect()));
    }
    let problem = json!({"application/problem+json": {"schema": problem}});
    let responses = KINDS
        .iter()
        .map(|kind| (kind.name.to_owned(), json!({"description": kind.words, "content": problem.clone()})));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "agentctl",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [
            {
                "url": "http://agentctl",
                "description": "On the unix socket, where any host will do: curl --unix-socket ~/.agentctl/agentctl.sock",
            },
            {
                "url": "http://127.0.0.1:{port}",
                "description": "On loopback TCP, with the token; the port is what --http was given",
                "variables": {"port": {"default": "7777"}},
            },
        ],
        // The unix socket needs no token; TCP does.
        "security": [{}, {"token": []}],
        "tags": TAGS.map(|(name, words)| json!({"name": name, "description": words})),
        "paths": paths,
        "components": {
            "schemas": schemas.all(),
            "responses": responses.collect::<Map<_, _>>(),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "What `http.token` in AGENTCTL_HOME holds. Only over TCP.",
                },
            },
        },
    })
}

fn operation(route: &Route, operation: &Operation, schemas: &mut Schemas) -> Value {
    let mut described = json!({
        "operationId": operation.id,
        "tags": [tag(route.path)],
        "summary": operation.summary,
    });
    if !operation.notes.is_empty() {
        described["description"] = operation.notes.into();
    }
    described["parameters"] = parameters(route, operation).into();
    let body = |schema: SchemaOf, required: bool, schemas: &mut Schemas| {
        let content = json!({"application/json": {"schema": schema(&mut schemas.read)}});
        json!({"required": required, "content": content})
    };
    match operation.body {
        Takes::Nothing => {}
        Takes::Optional(schema) => described["requestBody"] = body(schema, false, schemas),
        Takes::Required(schema) => described["requestBody"] = body(schema, true, schemas),
    }
    let (words, content) = match &operation.answers {
        Answers::Json(schema) => {
            ("Done", json!({"application/json": {"schema": schema(&mut schemas.written)}}))
        }
        Answers::Events(schema) => (
            "Server-sent events; the data of each is one such object",
            json!({"text/event-stream": {"schema": event_of(&schema(&mut schemas.written))}}),
        ),
        Answers::Text => ("Done", json!({"text/plain": {"schema": {"type": "string"}}})),
    };
    let mut responses = Map::new();
    responses.insert("200".to_owned(), json!({"description": words, "content": content}));
    for kind in KINDS.iter().filter(|kind| fails_with(operation, kind.status)) {
        let place = format!("#/components/responses/{}", kind.name);
        responses.insert(kind.status.to_string(), json!({"$ref": place}));
    }
    described["responses"] = responses.into();
    described
}

/// One server-sent event whose data is of this shape, or the last one, which is not.
fn event_of(data: &Schema) -> Value {
    let text = json!({"type": "string", "contentMediaType": "application/json", "contentSchema": data});
    json!({"type": "object", "required": ["data"], "properties": {"event": {"type": "string"}, "data": text}})
}

/// Whether an operation can fail with this status: by its own problems, or by the checks before every route.
/// Those concern the caller (401, 403, 429), the query (400), that a write is JSON (415), and that a body
/// arrives (408) and is not too large (413, 503). An operation that can fail here (500) can also meet
/// overload (503).
fn fails_with(operation: &Operation, status: u16) -> bool {
    let takes = !matches!(operation.body, Takes::Nothing);
    let before = match status {
        400 | 401 | 403 | 429 => true,
        415 => operation.method != "get",
        408 | 413 => takes,
        503 => takes || operation.fails.contains(&500),
        _ => false,
    };
    before || operation.fails.contains(&status)
}

fn tag(path: &str) -> &'static str {
    let part = path.strip_prefix("/v1/").unwrap_or_default().split('/').next().unwrap_or_default();
    TAGS.iter().map(|(name, _)| *name).find(|name| *name == part).unwrap_or("daemon")
}

fn parameters(route: &Route, operation: &Operation) -> Vec<Value> {
    let id = route.path.contains("{id}").then(|| {
        let words = match tag(route.path) {
            "fuses" => "id of the fuse",
            "groups" => "name of the group",
            _ => "full id, unique beginning of one, or exact name",
        };
        let schema = json!({"type": "string", "minLength": 1});
        json!({"name": "id", "in": "path", "required": true, "description": words, "schema": schema})
    });
    let host: &[Parameters] = if elsewhere::reaches(route.path) { &[HOST] } else { &[] };
    let query = operation.query.iter().chain(host).copied().flatten().map(Parameter::described);
    let header = operation.header.map(|(name, words)| {
        json!({"name": name, "in": "header", "required": false, "description": words, "schema": {"type": "string"}})
    });
    let write = (operation.method != "get").then(|| {
        let words = "says that no web page sends this; needed over TCP";
        json!({"name": WRITE, "in": "header", "required": false, "description": words, "schema": {"const": "1"}})
    });
    id.into_iter().chain(query).chain(header).chain(write).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_operation_has_a_name_of_its_own_and_only_known_problems() {
        let operations = || ROUTES.iter().flat_map(|route| route.operations);
        let names: HashSet<&str> = operations().map(|operation| operation.id).collect();
        assert_eq!(names.len(), operations().count());
        for operation in operations() {
            let known = |status: &u16| KINDS.iter().any(|kind| kind.status == *status);
            assert!(operation.fails.iter().all(known), "{}", operation.id);
        }
    }

    #[test]
    fn every_example_is_of_an_object_that_there_is() {
        let document = document();
        for name in examples::NAMES {
            assert!(document["components"]["schemas"][name]["examples"][0].is_object(), "{name}");
        }
    }
}
