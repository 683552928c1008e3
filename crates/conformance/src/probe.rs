//! What a broker says it offers.

use crate::Version;
use crate::pattern;
use crate::table::{Case, Need};
use crate::target::{Received, Target};

/// What the CONNACK of each version said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offers {
    versions: Vec<Version>,
    missing: Vec<Need>,
}

impl Offers {
    /// Everything: for a broker one knows.
    pub fn all() -> Self {
        Self { versions: Version::ALL.to_vec(), missing: Vec::new() }
    }

    /// Why `case` cannot be run in `version`; nothing if it can.
    pub(crate) fn lacks(&self, case: &Case, version: Version) -> Option<String> {
        if !self.versions.contains(&version) {
            return Some(format!("the broker does not speak MQTT {version}"));
        }
        let missing = case.needs.iter().find(|need| self.missing.contains(need))?;
        Some(format!("the broker's CONNACK says it has no {missing:?}"))
    }
}

/// Connects once in each version and looks at the CONNACK.
///
/// # Errors
/// No connection, or a broker that speaks no version at all.
pub fn probe(target: &mut impl Target, unique: &str) -> Result<Offers, String> {
    let mut offers = Offers { versions: Vec::new(), missing: Vec::new() };
    for version in Version::ALL {
        let connection = target.open()?;
        let connect = target.present(connect(version, unique));
        target.send(connection, &connect);
        let received = target.receive(connection, true);
        target.close(connection);
        let Received::Packet(packet) = received else { continue };
        if packet.len() < 4 || packet[0] != 0x20 || packet[3] != 0 {
            continue;
        }
        offers.versions.push(version);
        if version == Version::V5 {
            offers.missing.extend(missing(&packet));
        }
    }
    if offers.versions.is_empty() {
        return Err("no version of MQTT is answered with a CONNACK that accepts".into());
    }
    Ok(offers)
}

fn connect(version: Version, unique: &str) -> Vec<u8> {
    use crate::assemble::{Context, assemble};
    use crate::token::{Fragments, parse};
    let notation = "10 ( $protocol 02 003C v5(00) \"$u\" )";
    let context = Context { version, unique: unique.into(), captured: Default::default() };
    let tokens = parse(notation, &Fragments::new()).expect("the notation above is right");
    assemble(&tokens[0], &context).expect("the notation above is right")
}

/// What the properties of a CONNACK of 5.0 deny.
fn missing(packet: &[u8]) -> Vec<Need> {
    let Some(block) = packet.get(4..).and_then(pattern::block) else { return Vec::new() };
    let properties = pattern::split(block).unwrap_or_default();
    let says = |id: u8, value: &[u8]| properties.iter().any(|p| p[0] == id && &p[1..] == value);
    let mut missing = Vec::new();
    for (id, need) in [
        (0x25, Need::Retain),
        (0x28, Need::Wildcard),
        (0x29, Need::SubscriptionId),
        (0x2A, Need::Shared),
    ] {
        if says(id, &[0]) {
            missing.push(need);
        }
    }
    if says(0x24, &[0]) || says(0x24, &[1]) {
        missing.push(Need::Qos2);
    }
    if properties.iter().any(|p| p[0] == 0x13) {
        missing.push(Need::ClientKeepAlive);
    }
    let has_alias = properties.iter().any(|p| p[0] == 0x22 && p[1..] != [0, 0]);
    if !has_alias {
        missing.push(Need::TopicAlias);
    }
    missing
}
