//! A SUBSCRIBE or UNSUBSCRIBE with more filters than one input may handle: the rest waits in its
//! connection, and what the client sent behind it waits unread.

use super::Shard;
use super::connection::{Connection, Refusal};
use super::reasons::check_answer;
use super::rest::{Common, Parked, ParkedPacket};
use super::slices::Work;
use super::unsubscribe::unsuback;
use crate::answers::{Reply, SubscribeReply, Subscriptions};
use crate::keys::{ConnKey, Micros, SessionKey, Ticket};
use crate::session::Attachment;
use crate::sink::Sink;
use smallvec::SmallVec;
use weir_wire::packet::{Subscribe, SubscribeFilters, Unsubscribe, UnsubscribeFilters};
use weir_wire::{Frame, PacketKind, WireError};

/// Bytes of a SUBSCRIBE or UNSUBSCRIBE that are checked at once; more are in slices.
const CHECKED_AT_ONCE_MAX: usize = 128 * 1024;

/// Filters that are checked in a slice.
const CHECKED_MAX: usize = 8_192;

/// What is checked in a step: so many filters, or so many bytes of long ones.
const FILTERS_IN_A_STEP: usize = 8;
const BYTES_IN_A_STEP: usize = 1_024;

/// Whether a packet has too many filters to be checked at once.
#[inline]
pub(super) fn is_checked_in_slices(frame: &Frame<'_>) -> bool {
    frame.body.len() > CHECKED_AT_ONCE_MAX
        && matches!(frame.kind, PacketKind::Subscribe | PacketKind::Unsubscribe)
}

/// Checks the filters of one slice, and says how many there were.
fn check_some(mut check_next: impl FnMut() -> Result<bool, WireError>) -> Result<usize, WireError> {
    let mut count = 0;
    while count < CHECKED_MAX && check_next()? {
        count += 1;
    }
    Ok(count)
}

impl Shard {
    /// Takes a packet in whose filters are checked in slices, and then handled in slices.
    #[cold]
    pub(super) fn park_unchecked(
        &mut self,
        session: SessionKey,
        frame: Frame<'_>,
        now: Micros,
    ) -> Result<(), Refusal> {
        let Some(Attachment { conn, version, .. }) = self.clients[session].attachment else {
            return Ok(());
        };
        let (reply, packet, filters) = if frame.kind == PacketKind::Subscribe {
            let subscribe = Subscribe::decode_unchecked(version, frame)?;
            let round = self.filters.next_round();
            let done = Subscriptions { round, ..Subscriptions::default() };
            let reply = SubscribeReply { session, packet_id: subscribe.packet_id, done };
            let packet = ParkedPacket::Subscribe { common: Common::of(&subscribe) };
            (Reply::Subscribe(Box::new(reply)), packet, subscribe.filters().rest())
        } else {
            let unsubscribe = Unsubscribe::decode_unchecked(version, frame)?;
            let packet_id = unsubscribe.packet_id;
            let packet = ParkedPacket::Unsubscribe { packet_id, codes: Vec::new() };
            (Reply::Packet(SmallVec::new()), packet, unsubscribe.filters().rest())
        };
        self.begin_answer();
        self.park_answer(conn, reply, |ticket| Parked::unchecked(ticket, filters, packet), now);
        Ok(())
    }

    /// The answer waits for the rest of the packet, and that for its turn; and for what the request
    /// that was begun has mailed and recorded.
    pub(super) fn park_answer(
        &mut self,
        conn: ConnKey,
        reply: Reply,
        parked: impl FnOnce(Ticket) -> Box<Parked>,
        now: Micros,
    ) {
        let ticket = self.insert_answer(Some(conn), reply, 1, now);
        self.hold(conn, ticket);
        self.park(conn, parked(ticket), now);
    }

    /// Checks the next filters, as far as the steps of this input allow. Says whether all are.
    fn check_filters(
        &mut self,
        attachment: &Attachment,
        parked: &mut Parked,
    ) -> Result<bool, Refusal> {
        let Parked { rest, packet, .. } = parked;
        if rest.is_checked() {
            return Ok(true);
        }
        let encoded = rest.unchecked_bytes();
        let (count, left) = match packet {
            ParkedPacket::Subscribe { .. } => {
                let mut filters = SubscribeFilters::new(attachment.version, encoded);
                (check_some(|| filters.check_next())?, filters.rest().len())
            }
            ParkedPacket::Unsubscribe { .. } => {
                let mut filters = UnsubscribeFilters::new(encoded);
                (check_some(|| filters.check_next())?, filters.rest().len())
            }
        };
        let bytes = encoded.len() - left;
        self.slices.add((count / FILTERS_IN_A_STEP + bytes / BYTES_IN_A_STEP) as u64);
        rest.note_checked(count, left);
        if left > 0 {
            return Ok(false);
        }
        check_answer(attachment, rest.bytes().len(), || rest.count())?;
        Ok(true)
    }

    /// The rest of the packet waits for its turn.
    pub(super) fn park(&mut self, conn: ConnKey, parked: Box<Parked>, now: Micros) {
        let Self { connections, slices, .. } = self;
        let connection = connections.get_mut(conn);
        if let Some(live) = connection.and_then(Connection::live_mut) {
            slices.put_off(Work::Filters(parked.ticket), now);
            live.cold().parked = Some(parked);
        }
    }

    /// The turn of a packet's filters has come.
    pub(super) fn go_on_with_filters(&mut self, ticket: Ticket, now: Micros, sink: &mut impl Sink) {
        let Some(conn) = self.answers.get(ticket).and_then(|answer| answer.conn) else { return };
        let Some(session) = self.connections.session(conn) else { return };
        let Some(connection) = self.connections.get_mut(conn) else { return };
        // It would be heard of, were it read.
        connection.heard(now);
        let Some(mut parked) = connection.take_parked() else { return };
        let Some(attachment) = self.clients[session].attachment else { return };
        match self.check_filters(&attachment, &mut parked) {
            Ok(true) => {}
            Ok(false) => return self.park(conn, parked, now),
            Err(refusal) => {
                // Its answer goes with the connection.
                self.park(conn, parked, now);
                return self.end(conn, refusal, now, sink);
            }
        }
        let version = attachment.version;
        let Parked { rest, packet, .. } = &mut *parked;
        let has_more = match packet {
            ParkedPacket::Subscribe { common } => {
                let mut filters = SubscribeFilters::new(version, rest.bytes());
                self.subscribe_more(session, ticket, &mut filters, common, sink);
                let rest_bytes = filters.rest().len();
                rest.keep(rest_bytes)
            }
            ParkedPacket::Unsubscribe { codes, .. } => {
                let mut filters = UnsubscribeFilters::new(rest.bytes());
                self.begin_answer();
                self.unsubscribe_some(session, &mut filters, codes, sink);
                self.add_waits(ticket);
                let rest_bytes = filters.rest().len();
                rest.keep(rest_bytes)
            }
        };
        if has_more {
            return self.park(conn, parked, now);
        }
        if let ParkedPacket::Unsubscribe { packet_id, codes } = &parked.packet
            && let Some(Reply::Packet(bytes)) = self.answers.reply_mut(ticket)
        {
            *bytes = unsuback(version, *packet_id, codes).into();
        }
        self.met(ticket, now, sink);
        if self.connections.get_mut(conn).is_some() {
            sink.resume(conn);
        }
    }
}
