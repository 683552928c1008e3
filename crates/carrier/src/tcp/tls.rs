//! TLS between nodes: each shows a certificate of an authority that all trust, and takes nobody
//! without one.

use std::sync::Arc;
use weir_transport::tls::{
    Certificates, Client, ClientAuth, ClientError, Identity, PrivateKey, Server, Setup, Version,
};
use weir_transport::{Layers, Recipe, Route, Transport};

/// What connections between nodes are encrypted with. Whoever has a certificate of the authorities
/// can say that they are any node.
#[derive(Clone, Debug)]
pub struct Tls {
    server: Server,
    client: Client,
}

impl Tls {
    /// From texts in PEM: certificates of the authorities that sign those of nodes, this node's
    /// own with those between, and its key.
    ///
    /// # Errors
    /// What of it cannot be used.
    pub fn from_pem(authorities: &str, own: &str, key: &str) -> Result<Self, ClientError> {
        let authorities = Certificates::from_pem(authorities.as_bytes())?;
        let identity = || -> Result<Identity, ClientError> {
            let certificates = Certificates::from_pem(own.as_bytes())?;
            Ok(Identity { certificates, key: PrivateKey::from_pem(key.as_bytes())? })
        };
        let versions = vec![Version::Tls13];
        let client = Client::new(&authorities, Some(identity()?), &versions)?;
        let setup = Setup::new(identity()?.certify()?);
        let auth = ClientAuth::Required(authorities);
        let server = Server::new(Setup { auth, versions, ..setup })?;
        Ok(Self { server, client })
    }

    pub(super) fn to_listener(&self) -> Transport {
        Transport::Layered(Arc::new(Door(self.server.clone())))
    }

    /// To the node with this host; nothing if no certificate can be for that.
    pub(super) fn to_node(&self, host: &str) -> Option<Transport> {
        // Only WebSocket says to a server which port it has.
        let (host, port) = (host.to_owned(), 0);
        Route { host, port, tls: Some(self.client.clone()), path: None, seed: 0 }.transport()
    }
}

#[derive(Debug)]
struct Door(Server);

impl Recipe for Door {
    fn layers(&self) -> Layers {
        Layers::new([self.0.layer()])
    }
}
