//! The `[control]` table.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
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
    /// A `[control.otlp]` table: the metrics of `/metrics` are sent to a collector over OTLP/HTTP,
    /// as JSON. Only a program that was built with `--features otlp` has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otlp: Option<OtlpConfig>,
    /// `[[control.token]]` tables, as `weir token` prints them: who may ask.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub token: Vec<TokenConfig>,
}

/// The `[control.otlp]` table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtlpConfig {
    /// The address of a collector, such as `http://127.0.0.1:4318`; `/v1/metrics` is added.
    pub endpoint: String,
    /// The time between two requests, in seconds; by default 60. While the collector fails it
    /// doubles, up to 300 s.
    #[serde(default = "interval_s")]
    pub interval_s: u16,
    /// Headers of each request, such as `{ authorization = "Bearer ..." }`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Attributes of the resource that the metrics are of, beside `service.name` (weir),
    /// `service.version` and `service.instance.id` (the name of the host), or in their place.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
    /// A PEM file of the authorities that may vouch for a collector behind `https://`. Without it,
    /// those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
}

fn interval_s() -> u16 {
    60
}

impl OtlpConfig {
    /// A key that is wrong, its value, and the rule.
    #[cfg(feature = "otlp")]
    fn fault(&self) -> Option<(&'static str, String, &'static str)> {
        if self.interval_s == 0 {
            return Some(("control.otlp.interval_s", "0".into(), "it must be at least 1"));
        }
        self.setup().fault().map(|(key, value, rule)| match key {
            "headers" => ("control.otlp.headers", value, rule),
            _ => ("control.otlp.endpoint", value, rule),
        })
    }

    #[cfg(not(feature = "otlp"))]
    fn fault(&self) -> Option<(&'static str, String, &'static str)> {
        let rule = "this weir was built without it: build one with --features otlp, or scrape \
                    /metrics";
        Some(("control.otlp.endpoint", self.endpoint.clone(), rule))
    }

    #[cfg(feature = "otlp")]
    fn setup(&self) -> weir_control::Otlp {
        let own = [
            ("service.name", "weir".to_owned()),
            ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
            ("service.instance.id", crate::host::name()),
        ];
        let mut attributes: BTreeMap<_, _> =
            own.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        attributes.extend(self.attributes.clone());
        weir_control::Otlp {
            endpoint: self.endpoint.clone(),
            interval: std::time::Duration::from_secs(self.interval_s.into()),
            headers: self.headers.clone(),
            attributes,
            ca_file: self.ca_file.clone(),
        }
    }
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
        if let Some(fault) = self.otlp.as_ref().and_then(OtlpConfig::fault) {
            return Some(fault);
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
            #[cfg(feature = "otlp")]
            otlp: self.otlp.as_ref().map(OtlpConfig::setup),
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

    #[test]
    fn a_collector_has_an_address_and_a_program_that_can_send_to_it() {
        let fault = |text: &str| {
            let config: ControlConfig = toml::from_str(&format!("[otlp]\n{text}")).unwrap();
            config.fault().map(|(key, _, rule)| (key, rule.contains("--features otlp")))
        };
        let good = fault("endpoint = \"http://127.0.0.1:4318\"");
        let bad = fault("endpoint = \"127.0.0.1\"");
        let never = fault("endpoint = \"http://127.0.0.1:4318\"\ninterval_s = 0");
        if cfg!(feature = "otlp") {
            assert_eq!(good, None);
            assert_eq!(bad, Some(("control.otlp.endpoint", false)));
            assert_eq!(never, Some(("control.otlp.interval_s", false)));
        } else {
            assert_eq!(good, Some(("control.otlp.endpoint", true)));
        }
    }
}
