//! A few packets of a client that blocks.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use weir_wire::packet::{Connect, Publish, SubscribeBuf, SubscriptionOptions, Will};
use weir_wire::{PacketId, Properties, PropertiesBuf, Property, QoS, Version};

/// A connection whose CONNECT is sent and not answered yet.
pub(crate) fn connect(
    address: SocketAddr,
    id: &str,
    expiry_s: u32,
    will: &[u8],
) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.set_write_timeout(Some(Duration::from_secs(1)))?;
    let mut properties = PropertiesBuf::new();
    if expiry_s > 0 {
        properties.push(Property::SessionExpiryInterval(expiry_s));
    }
    let will = (!will.is_empty()).then_some(Will {
        topic: "will",
        payload: will,
        qos: QoS::AtMostOnce,
        retain: false,
        properties: Properties::EMPTY,
    });
    let connect = Connect {
        version: Version::V5,
        clean_start: false,
        keep_alive_s: 0,
        client_id: id,
        will,
        user_name: None,
        password: None,
        properties: properties.as_properties(),
    };
    let mut bytes = Vec::new();
    connect.encode(&mut bytes);
    stream.write_all(&bytes)?;
    Ok(stream)
}

/// Reads what has come, and waits if it is nothing.
pub(crate) fn read_some(stream: &mut TcpStream, buffer: &mut [u8]) -> std::io::Result<()> {
    match stream.read(buffer)? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

pub(crate) fn subscribe(filters: &[String]) -> Vec<u8> {
    let mut buf = SubscribeBuf::new();
    let options = SubscriptionOptions { qos: QoS::AtLeastOnce, ..SubscriptionOptions::default() };
    filters.iter().for_each(|filter| buf.push(filter, options));
    let mut bytes = Vec::new();
    let subscribe = buf.subscribe(Version::V5, PacketId::FIRST, Properties::EMPTY);
    subscribe.encode(Version::V5, &mut bytes);
    bytes
}

pub(crate) fn publish(
    topic: &str,
    qos: QoS,
    packet_id: u16,
    alias: u16,
    payload: &[u8],
) -> Vec<u8> {
    let mut properties = PropertiesBuf::new();
    if alias > 0 {
        properties.push(Property::TopicAlias(alias));
    }
    let mut bytes = Vec::new();
    let publish = Publish {
        dup: false,
        qos,
        retain: false,
        topic,
        packet_id: PacketId::new(packet_id),
        properties: properties.as_properties(),
        payload,
    };
    publish.encode(Version::V5, &mut bytes);
    bytes
}
