//! What is copied of a packet: no secret, and no more than somebody will read.

use weir_wire::packet::{Auth, ConnAck, Connect, Will};
use weir_wire::{Frame, Packet, PacketKind, Properties, PropertiesBuf, Property, Version};

/// Bytes of a payload that are copied.
pub(super) const PAYLOAD_BYTES_MAX: usize = 256;

/// Bytes of the rest of a packet.
const REST_BYTES_MAX: usize = 4096;

/// What stands for a user name that is a token: whoever reads the trace could use it.
const TOKEN: &str = "(a token)";

/// What is kept of a packet's body. Nothing of one that is longer than it may be, or that may have
/// a secret which cannot be told from the rest.
pub(super) fn copied_body(version: Option<Version>, frame: Frame<'_>) -> Option<Box<[u8]>> {
    // A part of the body may be elsewhere, or gone already.
    let frame = Frame { flags: frame.flags, ..Frame::of(frame.kind, frame.body) };
    match frame.kind {
        PacketKind::Connect => connect(frame),
        PacketKind::ConnAck | PacketKind::Auth => answer(version?, frame),
        PacketKind::Publish => {
            let head_bytes = match version.map(|version| Packet::decode(version, frame)) {
                Some(Ok(Packet::Publish(publish))) => frame.body.len() - publish.payload.len(),
                // Nobody knows where its payload begins.
                _ => frame.body.len().min(REST_BYTES_MAX),
            };
            let kept_bytes = frame.body.len().min(head_bytes + PAYLOAD_BYTES_MAX);
            (head_bytes <= REST_BYTES_MAX).then(|| frame.body[..kept_bytes].into())
        }
        _ => short(frame.body),
    }
}

fn short(body: &[u8]) -> Option<Box<[u8]>> {
    (body.len() <= REST_BYTES_MAX).then(|| body.into())
}

/// As much of a user name as may be shown.
pub(super) fn shown_user(name: &str) -> &str {
    if weir_access::is_token(name.as_bytes()) { TOKEN } else { name }
}

/// A CONNECT without its password, with a part of its will.
fn connect(frame: Frame<'_>) -> Option<Box<[u8]>> {
    // It says its own version.
    let Ok(Packet::Connect(connect)) = Packet::decode(Version::V5, frame) else { return None };
    let properties = without_secret(connect.properties);
    let will = connect.will.map(|will| {
        let kept_bytes = will.payload.len().min(PAYLOAD_BYTES_MAX);
        Will { payload: &will.payload[..kept_bytes], ..will }
    });
    let user_name = connect.user_name.map(shown_user);
    let password = connect.password.map(|_| &b""[..]);
    let properties = properties.as_properties();
    encoded(|bytes| Connect { will, user_name, password, properties, ..connect }.encode(bytes))
}

/// A packet that may have data of an authentication, without these.
fn answer(version: Version, frame: Frame<'_>) -> Option<Box<[u8]>> {
    match Packet::decode(version, frame).ok()? {
        Packet::ConnAck(connack) => {
            let properties = without_secret(connack.properties);
            let properties = properties.as_properties();
            encoded(|bytes| ConnAck { properties, ..connack }.encode(version, bytes))
        }
        Packet::Auth(auth) => {
            let properties = without_secret(auth.properties);
            let properties = properties.as_properties();
            encoded(|bytes| Packet::Auth(Auth { properties, ..auth }).encode(version, bytes))
        }
        _ => None,
    }
}

fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Option<Box<[u8]>> {
    let mut bytes = Vec::new();
    encode(&mut bytes);
    short(Frame::check(&bytes, u32::MAX).ok()??.body)
}

fn without_secret(properties: Properties<'_>) -> PropertiesBuf {
    let mut kept = PropertiesBuf::new();
    let is_secret = |property: &Property<'_>| matches!(property, Property::AuthenticationData(_));
    properties.iter().filter(|it| !is_secret(it)).for_each(|property| kept.push(property));
    kept
}
