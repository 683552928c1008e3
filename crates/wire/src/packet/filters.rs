//! What SUBSCRIBE and UNSUBSCRIBE have in common: a list of topic filters, which may be long.

use crate::primitive::Reader;
use crate::property::Place;
use crate::{Frame, PacketId, Properties, Version, WireError};

/// What is before the filters, and the filters as they are encoded: at least one, or `none` is the
/// error.
pub(super) fn head<'a>(
    version: Version,
    frame: Frame<'a>,
    none: &'static str,
) -> Result<(PacketId, Properties<'a>, &'a [u8]), WireError> {
    let mut reader = Reader::new(frame.body);
    let packet_id = reader.packet_id()?;
    let properties = Properties::decode(version, Place::Packet(frame.kind), &mut reader)?;
    let filters = reader.rest();
    if filters.is_empty() {
        return Err(WireError::ProtocolError(none));
    }
    Ok((packet_id, properties, filters))
}
