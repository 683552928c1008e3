//! Whoever comes over TCP: what their token lets them do, and how often.

use super::Problem;
use crate::dashboard;
use crate::tokens::{Role, Token, TokenBook};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::Instant;

/// Requests a second of each token's owner, and of all who have none together.
const PER_SECOND_MAX: u32 = 100;

pub(crate) struct Guests {
    tokens: TokenBook,
    /// Whether `/metrics` is for everybody.
    metrics_are_open: bool,
    /// Of those without a token; then by token.
    paces: Mutex<Vec<Pace>>,
}

/// Requests of this second.
#[derive(Clone, Copy)]
struct Pace {
    began: Instant,
    requests: u32,
}

impl Guests {
    pub(crate) fn new(tokens: TokenBook, metrics_are_open: bool) -> Self {
        Self { tokens, metrics_are_open, paces: Mutex::default() }
    }

    /// Whose token a request shows, and its place.
    fn owner(&self, request: &Request) -> Option<(usize, Token)> {
        let shown = request.headers().get(header::AUTHORIZATION)?;
        self.tokens.bearer(shown.to_str().ok()?)
    }

    /// Whether there is room for another request of this token's owner.
    fn takes(&self, owner: Option<usize>, now: Instant) -> bool {
        let mut paces = self.paces.lock().unwrap_or_else(PoisonError::into_inner);
        let at = owner.map_or(0, |owner| owner + 1);
        let length = paces.len().max(at + 1);
        paces.resize(length, Pace { began: now, requests: 0 });
        let pace = &mut paces[at];
        if now.duration_since(pace.began).as_secs() > 0 {
            *pace = Pace { began: now, requests: 0 };
        }
        pace.requests += 1;
        pace.requests <= PER_SECOND_MAX
    }
}

pub(super) async fn admit(
    State(guests): State<Arc<Guests>>,
    mut request: Request,
    next: Next,
) -> Response {
    let is_open = match request.uri().path() {
        "/healthz" | "/readyz" => true,
        "/metrics" => guests.metrics_are_open,
        path => dashboard::has(path),
    };
    let owner = guests.owner(&request);
    if !guests.takes(owner.as_ref().map(|(at, _)| *at), Instant::now()) {
        let text = format!("more than {PER_SECOND_MAX} requests a second");
        let mut response = Problem::new(StatusCode::TOO_MANY_REQUESTS, text).into_response();
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        return response;
    }
    if is_open {
        return next.run(request).await;
    }
    let Some((_, owner)) = owner else { return who_are_you() };
    let is_look = matches!(*request.method(), Method::GET | Method::HEAD);
    if !is_look && owner.role < Role::Admin {
        let text = "this token is a viewer's: it may look, and change nothing";
        return Problem::new(StatusCode::FORBIDDEN, text).into_response();
    }
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let name = owner.name.clone();
    request.extensions_mut().insert(owner);
    let response = next.run(request).await;
    if !is_look {
        let status = response.status().as_u16();
        tracing::info!(token = name, %method, path, status, "changed by the API");
    }
    response
}

fn who_are_you() -> Response {
    let text = "this needs a token: Authorization: Bearer TOKEN (weir token makes one)";
    let mut response = Problem::new(StatusCode::UNAUTHORIZED, text).into_response();
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::TokenHash;
    use std::time::Duration;

    #[test]
    fn each_token_has_its_own_requests_of_a_second() {
        let token =
            |name: &str| Token { name: name.into(), role: Role::Viewer, hash: TokenHash::of(name) };
        let guests = Guests::new(TokenBook::new(vec![token("one"), token("two")]), false);
        let start = Instant::now() + Duration::from_secs(1);
        let taken = |owner| (0..200).filter(|_| guests.takes(owner, start)).count();
        for owner in [Some(0), Some(1), None] {
            assert_eq!(taken(owner), PER_SECOND_MAX as usize);
        }
        assert!(!guests.takes(None, start + Duration::from_millis(999)));
        assert!(guests.takes(None, start + Duration::from_secs(1)));
    }
}
