//! A broker over any transport.

use super::Broker;
use super::certificates::{Authority, Pair};
use std::path::Path;

/// A broker that speaks this, its URL, and who has signed its certificate.
pub(crate) fn serve(scheme: &str, folder: &Path) -> (Broker, String, Authority) {
    let authority = Authority::new("us", folder);
    let Pair { certificate, key, .. } = authority.valid("server");
    let mut listener = "[[listener]]\naddress = \"127.0.0.1:0\"\n".to_owned();
    let is_websocket = scheme.starts_with("ws");
    if is_websocket {
        listener += "websocket = true\n";
    }
    if ["mqtts", "wss"].contains(&scheme) {
        listener += &format!("[listener.tls]\ncertificate = {certificate:?}\nkey = {key:?}\n");
    }
    let file = folder.join("weir.toml");
    std::fs::write(&file, listener).unwrap();
    let broker = Broker::try_start(&[file.to_str().unwrap()]).unwrap();
    let address = broker.address.split(' ').next().unwrap();
    let path = if is_websocket { "/mqtt" } else { "" };
    let url = format!("{scheme}://{address}{path}");
    (broker, url, authority)
}
