//! The document of the API, made from the table of routes.

use axum::response::Response;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::routes::{Answers, Operation, ROUTES, Route};
use crate::problem::Problem;

pub(crate) async fn serve() -> Result<Response, Problem> {
    super::json(&document()).map(super::answer)
}

/// What is written has all of its keys; what is read may leave some out.
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
        // What is both read and written is described as it is written.
        all.extend(self.written.take_definitions(true));
        all
    }
}

/// Every route, in the form of `OpenAPI` 3.1.
pub fn document() -> Value {
    let mut schemas = Schemas::new();
    let problem = schemas.written.subschema_for::<Problem>();
    let mut paths = Map::new();
    for route in ROUTES {
        let operations = route.operations.iter();
        let operations = operations.map(|one| (one.method.to_owned(), operation(route, one, &mut schemas)));
        paths.insert(route.path.to_owned(), Value::Object(operations.collect()));
    }
    let problem = json!({"application/problem+json": {"schema": problem}});
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "agentctl",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The coding-agent sessions of one machine. On the unix socket agentctl.sock in AGENTCTL_HOME; \
                on loopback TCP if the daemon was started with --http, with the token of http.token.",
        },
        "servers": [{"url": "http://agentctl"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas.all(),
            "responses": {"Problem": {"description": "Why it was not done", "content": problem}},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

fn operation(route: &Route, operation: &Operation, schemas: &mut Schemas) -> Value {
    let text = || json!({"type": "string"});
    let path = route.path.contains("{id}").then(|| {
        let words = match route.path {
            path if path.starts_with("/v1/fuses") => "id of the fuse",
            path if path.starts_with("/v1/groups") => "name of the group",
            _ => "full id, unique beginning of one, or exact name",
        };
        json!({"name": "id", "in": "path", "required": true, "description": words, "schema": text()})
    });
    let query = operation.query.iter().copied().flatten();
    let query = query
        .map(|(name, words)| json!({"name": name, "in": "query", "description": words, "schema": text()}));
    let content = match &operation.answers {
        Answers::Json(schema) => json!({"application/json": {"schema": schema(&mut schemas.written)}}),
        Answers::Events(schema) => json!({"text/event-stream": {"schema": schema(&mut schemas.written)}}),
        Answers::Text => json!({"text/plain": {"schema": text()}}),
    };
    let mut described = json!({
        "summary": operation.summary,
        "parameters": path.into_iter().chain(query).collect::<Vec<_>>(),
        "responses": {
            "200": {"description": "Done", "content": content},
            "default": {"$ref": "#/components/responses/Problem"},
        },
    });
    if let Some(body) = operation.body {
        let content = json!({"application/json": {"schema": body(&mut schemas.read)}});
        described["requestBody"] = json!({"required": true, "content": content});
    }
    described
}
