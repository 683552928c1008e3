//! All that is answered, as a value: a request goes in, and an answer comes out. How they travel is
//! the server's.

use crate::asks::Asks;
use crate::places::Places;
use crate::port::Port;
use crate::routes::{Guests, routes, routes_for_guests};
use crate::tokens::TokenBook;
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::response::Response;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// What is answered to whom.
pub struct Site {
    pub(crate) asks: Arc<Asks>,
    /// Of those who come over TCP.
    pub(crate) places: Places,
    /// For whoever may do everything.
    pub(crate) own: Router,
    /// For whoever has to show a token.
    pub(crate) for_guests: Router,
}

impl Site {
    /// Answers with what the port says. It answers nothing that takes a shard before
    /// [`Site::deliver`] runs.
    pub fn new(
        port: impl Port,
        tokens: TokenBook,
        metrics_are_open: bool,
        has_mosquitto_names: bool,
    ) -> Self {
        let mut asks = Asks::new(Box::new(port));
        asks.has_mosquitto_names = has_mosquitto_names;
        let asks = Arc::new(asks);
        let places = Places::new(Arc::clone(&asks.refusals));
        let guests = Guests::new(tokens, metrics_are_open, places.clone());
        let (own, for_guests) = (routes(&asks), routes_for_guests(&asks, guests));
        Self { asks, places, own, for_guests }
    }

    /// Hands the answers of shards to who waits for them, for ever.
    ///
    /// # Errors
    /// The port has no more.
    pub fn deliver(&self) -> impl Future<Output = io::Result<()>> + use<> {
        let asks = Arc::clone(&self.asks);
        async move { asks.deliver().await }
    }

    /// The answer to somebody who may do everything.
    pub async fn answer(&self, request: Request<Body>) -> Response {
        ask(&self.own, request).await
    }

    /// The answer to somebody who comes over TCP, if there is a place for a connection from there.
    pub async fn answer_guest(
        &self,
        mut request: Request<Body>,
        address: IpAddr,
    ) -> Option<Response> {
        let kept = self.places.take(address)?;
        request.extensions_mut().insert(kept.guest);
        Some(ask(&self.for_guests, request).await)
    }
}

async fn ask(site: &Router, request: Request<Body>) -> Response {
    match TowerToHyperService::new(site.clone()).call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}
