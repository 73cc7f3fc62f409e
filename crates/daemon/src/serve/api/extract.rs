//! Extractors for the address of a request: the id in the path, and the query parameters of its route.

use axum::extract::{FromRequestParts, Path, Request};
use axum::http::Method;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::routes::Route;
use crate::serve::problem::Problem;
use crate::serve::query;

/// The id in the path, decoded.
pub(crate) struct Id(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(id)) if !id.contains('\0') => Ok(Self(id)),
            _ => Err(Problem::usage(format!("the id in {} is not well encoded", parts.uri.path()))),
        }
    }
}

/// Checks the query against the table before a handler sees it. The parsed pairs become an extension of the
/// request.
pub(super) async fn check_query(route: &'static Route, mut request: Request, next: Next) -> Response {
    let method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
    let operation = route.operations.iter().find(|one| one.method.eq_ignore_ascii_case(method.as_str()));
    let known = operation.map_or(&[][..], |one| one.query);
    match query::parse(request.uri().query(), known) {
        Ok(pairs) => {
            request.extensions_mut().insert(pairs);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}
