//! Whoever comes over TCP: what their token lets them do, and how often.

use super::{Problem, openapi};
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

/// The same of the page's files, which need no token: apart, so that a stranger who asks much keeps
/// nobody from the page, and more, as a page is a dozen of them.
const FILES_PER_SECOND_MAX: u32 = 500;

/// What viewers are not shown: who could be guessed at and what for, and what clients send.
const FOR_ADMINS: &[&str] = &["/api/v1/users", "/api/v1/acl", "/api/v1/traces"];

pub(crate) struct Guests {
    tokens: TokenBook,
    /// Whether `/metrics` is for everybody.
    metrics_are_open: bool,
    /// Of those without a token, of the page's files, then by token.
    paces: Mutex<Vec<Pace>>,
}

/// Who shares a number of requests a second.
#[derive(Clone, Copy, Debug)]
enum Lane {
    /// The owner of the token at this place.
    Token(usize),
    Strangers,
    Files,
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

    /// Whether there is room for another request of these.
    fn takes(&self, lane: Lane, now: Instant) -> bool {
        let (at, most) = match lane {
            Lane::Token(at) => (at + 2, PER_SECOND_MAX),
            Lane::Strangers => (0, PER_SECOND_MAX),
            Lane::Files => (1, FILES_PER_SECOND_MAX),
        };
        let mut paces = self.paces.lock().unwrap_or_else(PoisonError::into_inner);
        let length = paces.len().max(at + 1);
        paces.resize(length, Pace { began: now, requests: 0 });
        let pace = &mut paces[at];
        if now.duration_since(pace.began).as_secs() > 0 {
            *pace = Pace { began: now, requests: 0 };
        }
        pace.requests += 1;
        pace.requests <= most
    }
}

pub(super) async fn admit(
    State(guests): State<Arc<Guests>>,
    mut request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    let is_file = dashboard::has(path);
    let is_open = match path {
        path if openapi::is_open(path) => true,
        "/metrics" => guests.metrics_are_open,
        _ => is_file,
    };
    let owner = guests.owner(&request);
    let lane = match &owner {
        _ if is_file => Lane::Files,
        Some((at, _)) => Lane::Token(*at),
        None => Lane::Strangers,
    };
    if !guests.takes(lane, Instant::now()) {
        let text = "too many requests in this second";
        let mut response = Problem::new(StatusCode::TOO_MANY_REQUESTS, text).into_response();
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        return response;
    }
    if is_open {
        return next.run(request).await;
    }
    let Some((_, owner)) = owner else { return who_are_you() };
    let is_look = matches!(*request.method(), Method::GET | Method::HEAD);
    let is_of_admins = FOR_ADMINS.iter().any(|path| request.uri().path().starts_with(path));
    if (!is_look || is_of_admins) && owner.role < Role::Admin {
        let text = match is_look {
            true => "this token is a viewer's: users, rights and traces are shown to admins",
            false => "this token is a viewer's: it may look, and change nothing",
        };
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
        let taken = |lane| (0..1_000).filter(|_| guests.takes(lane, start)).count();
        for lane in [Lane::Token(0), Lane::Token(1), Lane::Strangers] {
            assert_eq!(taken(lane), PER_SECOND_MAX as usize, "{lane:?}");
        }
        // Who asks for the page still gets it.
        assert_eq!(taken(Lane::Files), FILES_PER_SECOND_MAX as usize);
        assert!(!guests.takes(Lane::Strangers, start + Duration::from_millis(999)));
        assert!(guests.takes(Lane::Strangers, start + Duration::from_secs(1)));
    }
}
