//! What a shard writes in one call, in order.

use super::Port;
use super::journal::Journal;
use super::line::Line;
use super::pages::Pages;
use crate::model::Said;
use crate::names::ConnNo;
use weir_core::{
    AuthRequest, ConnKey, Lsn, Mail, Notice, PageId, PageOut, PageTicket, Parcel, Record, ShardId,
    Sink, Ticket,
};

/// What goes from one shard to another.
#[derive(Debug)]
pub(super) enum Letter {
    /// A letter of the core's.
    Mail(Mail),
    /// A connection whose client the receiver owns.
    Conn(ConnNo),
    /// A session or a client that was let in, with its connection.
    Parcel(Parcel, Option<ConnNo>),
}

/// One thing that a shard did in a call.
#[derive(Debug)]
pub(super) enum Event {
    Write(ConnKey, Vec<u8>),
    Close(ConnKey),
    Pause(ConnKey),
    Resume(ConnKey),
    HandOver(ConnKey, usize),
    Parcel(usize, Parcel, Option<ConnKey>),
    Mail(usize, Mail),
    Ask(ConnKey, Ticket),
    Said(Said, String),
}

/// The sink of one call.
#[derive(Debug)]
pub(super) struct Output<'a> {
    pub(super) port: &'a Port,
    pub(super) lines: &'a [Line],
    pub(super) shard: usize,
    pub(super) journal: &'a mut Journal,
    pub(super) pages: &'a mut Pages,
    pub(super) events: Vec<Event>,
}

impl Sink for Output<'_> {
    fn write(&mut self, conn: ConnKey, bytes: &[u8]) {
        self.events.push(Event::Write(conn, bytes.to_vec()));
    }

    fn pending(&self, conn: ConnKey) -> usize {
        let before = self.port.conns.get(&conn).map_or(0, |number| self.lines[number.0].down.len());
        let is_its = |event: &Event| match event {
            Event::Write(key, bytes) if *key == conn => bytes.len(),
            _ => 0,
        };
        before + self.events.iter().map(is_its).sum::<usize>()
    }

    fn close(&mut self, conn: ConnKey) {
        self.events.push(Event::Close(conn));
    }

    fn pause(&mut self, conn: ConnKey) {
        self.events.push(Event::Pause(conn));
    }

    fn resume(&mut self, conn: ConnKey) {
        self.events.push(Event::Resume(conn));
    }

    fn hand_over(&mut self, conn: ConnKey, to: ShardId) {
        self.events.push(Event::HandOver(conn, to.0.into()));
    }

    fn send_parcel(&mut self, to: ShardId, parcel: Parcel, conn: Option<ConnKey>) {
        self.events.push(Event::Parcel(to.0.into(), parcel, conn));
    }

    fn mail(&mut self, to: ShardId, mail: Mail) {
        self.events.push(Event::Mail(to.0.into(), mail));
    }

    fn authenticate(&mut self, request: AuthRequest<'_>) {
        self.events.push(Event::Ask(request.conn, request.ticket));
    }

    fn log(&mut self, record: &Record<'_>) -> Lsn {
        self.journal.append(record)
    }

    fn page_out(&mut self, ticket: PageTicket, page: PageOut<'_>) {
        self.pages.write(self.shard, ticket, &page);
    }

    fn page_in(&mut self, ticket: PageTicket, page: PageId, _bytes: u64) {
        self.pages.ask(self.shard, ticket, page);
    }

    fn free_page(&mut self, page: PageId) {
        self.pages.free(page);
    }

    fn notice(&mut self, notice: Notice<'_>) {
        self.events.push(Event::Said(Said::of(notice), format!("{notice:?}")));
    }
}
