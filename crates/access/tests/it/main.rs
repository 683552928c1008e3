//! Tokens and services as the broker has them: through the thread, over sockets.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

mod desk;
mod fake;
mod services;
mod tokens;
