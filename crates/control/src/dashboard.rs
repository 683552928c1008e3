//! The dashboard: a page that shows in a browser what the API says.
//!
//! Its files are compiled in and the same for everybody, and hold nothing secret: they need no
//! token. All that it shows comes by the API, with the token that the page asks for. Paths in it
//! are relative, so that it also works below a path of a proxy.

use axum::Router;
use axum::http::header::{self, HeaderName};
use axum::response::IntoResponse;
use axum::routing::get;
use weir_http::assets::{BASE_CSS, BASE_JS, UPLOT_CSS, UPLOT_JS};

/// It loads its own files and asks its own broker, and is shown in no frame. As a client over
/// WebSocket it connects to whatever address whoever uses it has entered.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      connect-src 'self' ws: wss:; img-src data:; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// A file of the page.
struct File {
    path: &'static str,
    kind: &'static str,
    text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";

const FILES: &[File] = &[
    File { path: "/", kind: HTML, text: include_str!("dashboard/page.html") },
    File { path: "/dashboard/uplot.css", kind: CSS, text: UPLOT_CSS },
    File { path: "/dashboard/base.css", kind: CSS, text: BASE_CSS },
    File { path: "/dashboard/page.css", kind: CSS, text: include_str!("dashboard/page.css") },
    File { path: "/dashboard/uplot.js", kind: JS, text: UPLOT_JS },
    File { path: "/dashboard/base.js", kind: JS, text: BASE_JS },
    File { path: "/dashboard/page.js", kind: JS, text: include_str!("dashboard/page.js") },
    File { path: "/dashboard/api.js", kind: JS, text: include_str!("dashboard/api.js") },
    File { path: "/dashboard/shown.js", kind: JS, text: include_str!("dashboard/shown.js") },
    File { path: "/dashboard/overview.js", kind: JS, text: include_str!("dashboard/overview.js") },
    File { path: "/dashboard/clients.js", kind: JS, text: include_str!("dashboard/clients.js") },
    File { path: "/dashboard/messages.js", kind: JS, text: include_str!("dashboard/messages.js") },
    File { path: "/dashboard/losses.js", kind: JS, text: include_str!("dashboard/losses.js") },
    File { path: "/dashboard/bans.js", kind: JS, text: include_str!("dashboard/bans.js") },
    File { path: "/dashboard/mqtt.js", kind: JS, text: include_str!("dashboard/mqtt.js") },
    File {
        path: "/dashboard/websocket.js",
        kind: JS,
        text: include_str!("dashboard/websocket.js"),
    },
    File { path: "/dashboard/config.js", kind: JS, text: include_str!("dashboard/config.js") },
    File { path: "/dashboard/cluster.js", kind: JS, text: include_str!("dashboard/cluster.js") },
    File { path: "/dashboard/drain.js", kind: JS, text: include_str!("dashboard/drain.js") },
    File { path: "/dashboard/top.js", kind: JS, text: include_str!("dashboard/top.js") },
    File { path: "/dashboard/users.js", kind: JS, text: include_str!("dashboard/users.js") },
    File { path: "/dashboard/trace.js", kind: JS, text: include_str!("dashboard/trace.js") },
    File {
        path: "/dashboard/listeners.js",
        kind: JS,
        text: include_str!("dashboard/listeners.js"),
    },
];

/// Whether a file of the page is there.
pub(crate) fn has(path: &str) -> bool {
    FILES.iter().any(|file| file.path == path)
}

pub(crate) fn routes() -> Router {
    let add = |router: Router, file: &'static File| {
        router.route(file.path, get(async move || file.into_response()))
    };
    FILES.iter().fold(Router::new(), add)
}

impl IntoResponse for &File {
    fn into_response(self) -> axum::response::Response {
        let headers: [(HeaderName, &str); 5] = [
            (header::CONTENT_TYPE, self.kind),
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
            (header::CACHE_CONTROL, "no-cache"),
        ];
        (headers, self.text).into_response()
    }
}
