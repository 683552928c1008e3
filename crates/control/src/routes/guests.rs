//! Whoever comes over TCP: what their token lets them do, and how often.

use super::{ANSWER_MAX, Problem, openapi};
use crate::dashboard;
use crate::places::{Guest, Places, count};
use crate::read::until_read;
use crate::tokens::{Role, Token, TokenBook};
use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

/// Requests a second of each token's owner, and of all of a network who have none.
const PER_SECOND_MAX: u32 = 100;

/// The same of the page's files, which need no token: apart, so that whoever asks much still gets
/// the page, and more, as a page is a dozen of them.
const FILES_PER_SECOND_MAX: u32 = 500;

/// Tokens and networks that are counted in a second; what comes from others counts together.
const LANES_MAX: usize = 1_024;

/// Lines of the log about wrong tokens in a second.
const LINES_PER_SECOND_MAX: u32 = 1;

/// Bytes of a path that the log shows.
const PATH_BYTES_SHOWN: usize = 512;

/// Requests of a token at a time, until their answers are read; more wait.
const PER_TOKEN_MAX: usize = 8;

pub(crate) struct Guests {
    tokens: TokenBook,
    /// Whether `/metrics` is for everybody.
    metrics_are_open: bool,
    places: Places,
    pace: Mutex<Pace>,
    /// By token: requests that are answered, and whose answers are read.
    turns: Mutex<Vec<Arc<Semaphore>>>,
}

/// Who shares a number of requests a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Lane {
    /// The owner of the token at this place.
    Token(usize),
    /// Whoever has none, by network.
    Stranger(IpAddr),
    /// The page's files, by network.
    Files(IpAddr),
    /// Lines of the log about wrong tokens.
    Line,
    /// Strangers of networks that found no room in the table.
    Others,
}

/// Requests of this second.
struct Pace {
    began: Instant,
    requests: HashMap<Lane, u32>,
}

impl Pace {
    /// Whether there is room for another request of these.
    fn takes(&mut self, lane: Lane, now: Instant) -> bool {
        if now.duration_since(self.began).as_secs() > 0 {
            *self = Self { began: now, requests: HashMap::new() };
        }
        let has_room = self.requests.len() < LANES_MAX || self.requests.contains_key(&lane);
        let lane = match lane {
            Lane::Stranger(_) | Lane::Files(_) if !has_room => Lane::Others,
            lane => lane,
        };
        let most = match lane {
            Lane::Files(_) => FILES_PER_SECOND_MAX,
            Lane::Line => LINES_PER_SECOND_MAX,
            Lane::Token(_) | Lane::Stranger(_) | Lane::Others => PER_SECOND_MAX,
        };
        let requests = self.requests.entry(lane).or_default();
        *requests += 1;
        *requests <= most
    }
}

impl Guests {
    pub(crate) fn new(tokens: TokenBook, metrics_are_open: bool, places: Places) -> Self {
        let pace = Pace { began: Instant::now(), requests: HashMap::new() };
        let (pace, turns) = (Mutex::new(pace), Mutex::default());
        Self { tokens, metrics_are_open, places, pace, turns }
    }

    /// Whose token a request shows, and its place.
    fn owner(&self, request: &Request) -> Option<(usize, Token)> {
        let shown = request.headers().get(header::AUTHORIZATION)?;
        self.tokens.bearer(shown.to_str().ok()?)
    }

    fn takes(&self, lane: Lane) -> bool {
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        pace.takes(lane, Instant::now())
    }

    /// A turn of this token, as soon as there is one; nothing if that takes too long.
    async fn turn(&self, token_at: usize) -> Option<OwnedSemaphorePermit> {
        let turns = {
            let mut all = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            let length = all.len().max(token_at + 1);
            all.resize_with(length, || Arc::new(Semaphore::new(PER_TOKEN_MAX)));
            Arc::clone(&all[token_at])
        };
        timeout(ANSWER_MAX, turns.acquire_owned()).await.ok()?.ok()
    }

    fn too_many(&self, what: &str) -> Response {
        count(&self.places.refusals().too_many);
        let mut response = Problem::new(StatusCode::TOO_MANY_REQUESTS, what).into_response();
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        closing(response)
    }

    fn who_are_you(&self, guest: Guest, has_guessed: bool) -> Response {
        count(&self.places.refusals().unauthorized);
        // A line for each would be theirs to fill the log with.
        if has_guessed && self.takes(Lane::Line) {
            let network = guest.network;
            tracing::warn!(%network, "asked with a token that the broker does not know");
        }
        let text = "this needs a token: Authorization: Bearer TOKEN (weir token makes one)";
        let mut response = Problem::new(StatusCode::UNAUTHORIZED, text).into_response();
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        closing(response)
    }
}

pub(super) async fn admit(
    State(guests): State<Arc<Guests>>,
    Extension(guest): Extension<Guest>,
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
        _ if is_file => Lane::Files(guest.network),
        Some((at, _)) => Lane::Token(*at),
        None => Lane::Stranger(guest.network),
    };
    if owner.is_some() {
        guests.places.has_token(guest);
    }
    if !guests.takes(lane) {
        return guests.too_many("too many requests in this second");
    }
    if is_open {
        return next.run(request).await;
    }
    let Some((at, owner)) = owner else {
        return guests.who_are_you(guest, request.headers().contains_key(header::AUTHORIZATION));
    };
    let is_look = matches!(*request.method(), Method::GET | Method::HEAD);
    let is_of_admins = openapi::is_for_admins(request.uri().path());
    if (!is_look || is_of_admins) && owner.role < Role::Admin {
        count(&guests.places.refusals().forbidden);
        let text = match is_look {
            true => "this token is a viewer's: users, rights and traces are shown to admins",
            false => "this token is a viewer's: it may look, and change nothing",
        };
        return Problem::new(StatusCode::FORBIDDEN, text).into_response();
    }
    let Some(turn) = guests.turn(at).await else {
        return guests.too_many("other requests of this token take long, or are not read");
    };
    let (method, path) = (request.method().clone(), cut(request.uri().path()).to_owned());
    let name = owner.name.clone();
    request.extensions_mut().insert(owner);
    let response = next.run(request).await;
    if !is_look {
        let status = response.status().as_u16();
        tracing::info!(token = name, %method, path, status, "changed by the API");
    }
    until_read(response, turn)
}

/// As much of a path as a line of the log shows: a line that is too long would be left out.
fn cut(path: &str) -> &str {
    &path[..path.floor_char_boundary(PATH_BYTES_SHOWN)]
}

/// Whoever goes on has to connect again.
fn closing(mut response: Response) -> Response {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn each_token_and_each_network_has_its_own_requests_of_a_second() {
        let start = Instant::now();
        let mut pace = Pace { began: start, requests: HashMap::new() };
        let mut taken = |lane| (0..1_000).filter(|_| pace.takes(lane, start)).count();
        let network = |last: u8| IpAddr::from([192, 0, 2, last]);
        for lane in [Lane::Token(0), Lane::Token(1)] {
            assert_eq!(taken(lane), PER_SECOND_MAX as usize, "{lane:?}");
        }
        for last in [1, 2] {
            assert_eq!(taken(Lane::Stranger(network(last))), PER_SECOND_MAX as usize);
            // Who asks for the page still gets it.
            assert_eq!(taken(Lane::Files(network(last))), FILES_PER_SECOND_MAX as usize);
        }
        let stranger = Lane::Stranger(network(1));
        assert!(!pace.takes(stranger, start + Duration::from_millis(999)));
        assert!(pace.takes(stranger, start + Duration::from_secs(1)));
    }

    #[test]
    fn strangers_of_many_networks_fill_no_table_and_keep_no_token_out() {
        let start = Instant::now();
        let mut pace = Pace { began: start, requests: HashMap::new() };
        let lane = |host: u32| Lane::Stranger(IpAddr::from(host.to_be_bytes()));
        let taken = (0..9_999).filter(|&host| pace.takes(lane(host), start)).count();
        assert_eq!(taken, LANES_MAX + PER_SECOND_MAX as usize);
        assert_eq!(pace.requests.len(), LANES_MAX + 1);
        assert!(pace.takes(Lane::Token(0), start));
    }
}
