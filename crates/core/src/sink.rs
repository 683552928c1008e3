//! Where a shard's output goes.

use crate::{
    AuthRequest, ConnKey, Lsn, Mail, Message, Origin, PageId, PageOut, PageTicket, Parcel,
    Partition, Record, ShardId,
};
use std::sync::Arc;
use weir_wire::ReasonCode;

/// The shell's side of a shard: connection outputs and mailboxes, or a simulator's record.
/// Static dispatch: the data plane calls it once a delivery.
pub trait Sink {
    /// Appends to the connection's output, to be sent at the end of the turn.
    fn write(&mut self, conn: ConnKey, bytes: &[u8]);

    /// Appends a message to the connection's output, which may wait a little for others to leave
    /// with it. What the client waits for before it goes on is written by [`Sink::write`].
    fn deliver(&mut self, conn: ConnKey, bytes: &[u8]) {
        self.write(conn, bytes);
    }

    /// Appends a PUBLISH to the connection's output, by [`Sink::deliver`] if it may wait, else by
    /// [`Sink::write`]. `topic` is that of its message, which a packet with an alias does not name.
    fn publish(&mut self, conn: ConnKey, bytes: &[u8], _topic: &str, may_wait: bool) {
        if may_wait { self.deliver(conn, bytes) } else { self.write(conn, bytes) }
    }

    /// Appends `head` and then the payload of `message`, which many connections get.
    fn deliver_long(&mut self, conn: ConnKey, head: &[u8], message: &Arc<Message>) {
        self.write(conn, &[head, &message.payload].concat());
    }

    /// Bytes that wait in the connection's output.
    fn pending(&self, conn: ConnKey) -> usize;

    /// Whether the connection's client reads, as far as is known: what waits has only been written
    /// since it was last sent what there was.
    fn is_read(&self, _conn: ConnKey) -> bool {
        false
    }

    /// So many bytes are about to be kept. Says whether memory is short for that, where it is the
    /// shell that knows: nothing changes what [`crate::Shard::set_pressed`] and
    /// [`crate::Shard::set_lean`] said last.
    fn keeps(&mut self, _bytes: usize) -> Option<Shortage> {
        None
    }

    /// Where the connection comes from, if that tells its client from others.
    fn origin(&self, _conn: ConnKey) -> Option<Origin> {
        None
    }

    /// Whether something of the connection's may have come that the shard was not given yet. Asked
    /// before a silent client is given up: the thread may be the one that was held up.
    fn has_unread(&self, _conn: ConnKey) -> bool {
        false
    }

    /// Ends the connection after its output. The shard knows it no more: no `closed` follows.
    fn close(&mut self, conn: ConnKey);

    /// Moves the connection to the shard that owns its client, with the bytes not consumed.
    /// The shard knows it no more.
    fn hand_over(&mut self, conn: ConnKey, to: ShardId);

    /// Sends a session, or a client that was let in, to another shard, with its connection if it
    /// has one: [`crate::Shard::arrived`]. It keeps its place among the letters. The shard knows
    /// the connection no more; bytes that were not consumed go along. Nothing of it without
    /// [`crate::Shard::move_partition`].
    fn send_parcel(&mut self, _to: ShardId, _parcel: Parcel, _conn: Option<ConnKey>) {}

    /// Sends a letter to another shard.
    fn mail(&mut self, to: ShardId, mail: Mail);

    /// Reads no more from the connection until [`Sink::resume`]: what came is not consumed yet,
    /// because an answer has to come first, or because the input has taken enough steps.
    fn pause(&mut self, _conn: ConnKey) {}

    /// Gives the shard the connection's unconsumed bytes again, after this call, and reads on. May
    /// come twice, or for a connection that is another by then.
    fn resume(&mut self, _conn: ConnKey) {}

    /// Whether the shell knows whose connection this is without the client's word. Then
    /// [`Sink::authenticate`] is asked although nothing is asked of others.
    fn is_named(&self, _conn: ConnKey) -> bool {
        false
    }

    /// Whether it is the process itself that connects, which may use client identifiers that begin
    /// with [`crate::OWN_CLIENT_IDS`].
    fn is_own(&self, _conn: ConnKey) -> bool {
        false
    }

    /// Asks who a client is; [`crate::Shard::authenticated`] is the answer, and until it comes the
    /// connection's bytes are left unconsumed. Only with [`crate::Features::authentication`], or
    /// for connections of which [`Sink::is_named`] says so.
    fn authenticate(&mut self, _request: AuthRequest<'_>) {}

    /// Appends to the shard's log and says where; only with [`crate::Shard::keep_log`]. All records
    /// of one input are committed together, and [`crate::Shard::committed`] says when they are.
    fn log(&mut self, _record: &Record<'_>) -> Lsn {
        Lsn::NONE
    }

    /// Has a page written, away from this thread; [`crate::Shard::paged_out`] says when it is safe.
    /// Only with [`crate::Shard::keep_pages`].
    fn page_out(&mut self, _ticket: PageTicket, _page: PageOut<'_>) {}

    /// Has a page read, whose messages have about so many bytes; [`crate::Shard::paged_in`] brings
    /// what is on it.
    fn page_in(&mut self, _ticket: PageTicket, _page: PageId, _bytes: u64) {}

    /// Nothing names a page any more.
    fn free_page(&mut self, _page: PageId) {}

    /// Something a person may want to read in a log. Rare: never once a message in good order.
    fn notice(&mut self, notice: Notice<'_>);
}

/// How short memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// As [`crate::Shard::set_lean`] says it.
    pub is_lean: bool,
    /// As [`crate::Shard::set_pressed`] says it.
    pub is_pressed: bool,
}

/// What a person may want to read in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice<'a> {
    /// A client is connected.
    Connected {
        /// Its connection.
        conn: ConnKey,
        /// Its client identifier.
        client_id: &'a str,
        /// Whose it is: by what it has shown, else by the user name of its CONNECT.
        user_name: Option<&'a str>,
        /// Whether its session was there already.
        session_present: bool,
    },
    /// The broker ended a connection.
    Ended {
        /// The connection.
        conn: ConnKey,
        /// Its client identifier; empty before CONNECT.
        client_id: &'a str,
        /// The user name of the CONNECT that is refused.
        user_name: Option<&'a str>,
        /// Whether its client was connected; else its CONNECT is refused, or was none.
        was_live: bool,
        /// As DISCONNECT or CONNACK names it.
        reason: ReasonCode,
        /// In words, where there is more to say than the reason.
        detail: &'a str,
    },
    /// A client ended its connection, or lost it.
    Left {
        /// The connection.
        conn: ConnKey,
        /// Its client identifier; empty before CONNECT.
        client_id: &'a str,
        /// As its DISCONNECT names it; nothing if none came.
        reason: Option<ReasonCode>,
    },
    /// The broker ended an absent session before its time.
    SessionEnded {
        /// Its client identifier.
        client_id: &'a str,
        /// Which bound or rule it was.
        cause: &'static str,
    },
    /// A PUBLISH was not taken, or its message not retained.
    Refused {
        /// Its publisher's connection; nothing if that is gone, or if a rule made the message.
        conn: Option<ConnKey>,
        /// Its publisher.
        client_id: &'a str,
        /// The message's topic.
        topic: &'a str,
        /// As PUBACK, PUBREC or DISCONNECT names it.
        reason: ReasonCode,
        /// In words.
        detail: &'static str,
    },
    /// A partition has moved, and input is taken again. Said by the shard that was asked.
    Moved {
        /// Which.
        partition: Partition,
        /// The shard that holds it now.
        to: ShardId,
    },
    /// A message was not held against a condition: all conditions that it brings up cost more than
    /// it may take, and those of this client more than an equal part of that.
    ConditionLeftOut {
        /// Whose condition it is; empty if that client is on another shard.
        client_id: &'a str,
        /// The message's topic.
        topic: &'a str,
        /// The condition.
        condition: &'a str,
    },
    /// A message was dropped for one receiver.
    Dropped {
        /// The receiver's connection; nothing while it is absent.
        conn: Option<ConnKey>,
        /// The receiver.
        client_id: &'a str,
        /// The message's topic; empty if the message was on the disk.
        topic: &'a str,
        /// Which bound or rule it was.
        cause: &'static str,
    },
    /// A message was not for a receiver that has subscribed to it, and no bound is to blame.
    Withheld {
        /// The receiver; empty if it was a group without members.
        client_id: &'a str,
        /// The message's topic.
        topic: &'a str,
        /// Why not.
        cause: &'static str,
    },
    /// A filter of a SUBSCRIBE was not granted.
    FilterRefused {
        /// Who wanted it.
        client_id: &'a str,
        /// The filter, with `$share` and its group.
        filter: &'a str,
        /// As SUBACK names it.
        reason: ReasonCode,
        /// In words, where there is more to say than the reason.
        detail: &'a str,
    },
}
