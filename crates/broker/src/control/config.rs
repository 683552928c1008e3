//! The `[control]` table.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use weir_control::{ControlTls, Role, Setup, Token, TokenHash};

/// The `[control]` table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ControlConfig {
    /// The file of a unix socket for `weir ctl` and other programs, which needs no token. Without
    /// it and `http` nothing is served.
    pub socket: Option<PathBuf>,
    /// Addresses such as `127.0.0.1:18083` where the same is served over TCP, for whoever has a
    /// token.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub http: Vec<SocketAddr>,
    /// Whether other hosts may come to `http` without TLS: where something in front has it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_plain: bool,
    /// Whether `/metrics` needs no token.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub metrics_without_token: bool,
    /// Whether `/metrics` has the same numbers also under the names of sapcc/mosquitto-exporter,
    /// such as `broker_clients_connected`, for dashboards made for it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub mosquitto_names: bool,
    /// Whether whoever may change things by the API may replace the configuration file as well.
    /// Who writes it can do whatever the broker's user can: name programs' files as its own, for
    /// one. [security.md](security.md#who-may-write-the-configuration) says more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub may_write_config: bool,
    /// A `[control.tls]` table: `http` is over TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ControlTls>,
    /// `[[control.token]]` tables, as `weir token` prints them: who may ask.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub token: Vec<TokenConfig>,
}

/// One `[[control.token]]` table: somebody who may ask over TCP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenConfig {
    /// Whose it is: the log says who changed what.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// SHA-256 of the token, as 64 hexadecimal digits.
    pub sha256: String,
}

/// Bytes of a path that the address of a unix socket has room for.
const SOCKET_BYTES_MAX: usize = 107;

impl ControlConfig {
    /// Whether nothing is asked for.
    pub(crate) fn is_off(&self) -> bool {
        self.socket.is_none() && self.http.is_empty()
    }

    /// What is wrong with it, if something is: a key, its value, and the rule.
    pub(crate) fn fault(&self) -> Option<(&'static str, String, &'static str)> {
        if let Some(socket) = &self.socket {
            let bytes = socket.as_os_str().len();
            if bytes == 0 || bytes > SOCKET_BYTES_MAX {
                let value = socket.display().to_string();
                return Some(("control.socket", value, "it must be a path of 1 to 107 bytes"));
            }
        }
        let is_open = |address: &&SocketAddr| !address.ip().is_loopback();
        if let Some(address) = self.http.iter().find(is_open)
            && self.tls.is_none()
            && !self.allow_plain
        {
            let rule = "other hosts reach it, and tokens would go over the network in the clear: \
                        give it [control.tls], or allow_plain = true where something in front \
                        has TLS";
            return Some(("control.http", address.to_string(), rule));
        }
        let bad = |token: &&TokenConfig| TokenHash::parse(&token.sha256).is_none();
        self.token.iter().find(bad).map(|token| {
            let rule = "it must be 64 hexadecimal digits, as `weir token` prints them";
            ("control.token.sha256", token.sha256.clone(), rule)
        })
    }

    /// Who may ask over TCP.
    pub(crate) fn tokens(&self) -> Vec<Token> {
        let token = |token: &TokenConfig| {
            let hash = TokenHash::parse(&token.sha256)?;
            Some(Token { name: token.name.clone(), role: token.role, hash })
        };
        self.token.iter().filter_map(token).collect()
    }

    /// What serves it.
    pub(crate) fn setup(&self) -> Setup {
        Setup {
            socket: self.socket.clone(),
            http: self.http.clone(),
            tls: self.tls.clone(),
            tokens: self.tokens(),
            metrics_are_open: self.metrics_without_token,
            has_mosquitto_names: self.mosquitto_names,
            sys: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_hosts_reach_takes_tls_or_a_word() {
        let http = vec!["192.0.2.1:18083".parse().unwrap()];
        let mut config = ControlConfig { http, ..ControlConfig::default() };
        assert_eq!(config.fault().unwrap().0, "control.http");
        config.allow_plain = true;
        assert_eq!(config.fault(), None);
        config.allow_plain = false;
        config.http = vec!["127.0.0.1:1".parse().unwrap(), "[::1]:1".parse().unwrap()];
        assert_eq!(config.fault(), None);
        config.token = vec![TokenConfig {
            name: "n".into(),
            role: Role::Viewer,
            sha256: "the token itself".into(),
        }];
        assert_eq!(config.fault().unwrap().0, "control.token.sha256");
    }
}
