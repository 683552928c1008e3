//! A subscriber, or a member of a group: a session that lasts. Those that wander have a rival now
//! and then, which comes to another node under their name at the same time.

use crate::client::{Arrived, Begun, Phase, Run, Traveller, place, say_goodbye};
use crate::ledger::{At, Finding, ROWS};
use crate::plan::NODES;
use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};
use weir_crash::inbox::{Arrival, Inbox};
use weir_crash::link::Link;
use weir_crash::names::{Stream, filter, number};
use weir_wire::packet::Publish;
use weir_wire::{Packet, PacketId, QoS};

/// The streams of a publisher.
const BOTH: [QoS; 2] = [QoS::AtLeastOnce, QoS::ExactlyOnce];

const WAIT: Duration = Duration::from_millis(50);

/// From one PINGREQ to the next.
const PING_EVERY: Duration = Duration::from_millis(500);

/// How long a PINGRESP may take.
const PONG_MAX: Duration = Duration::from_secs(5);

/// How long SUBACK may take: a lost node is waited for.
const GRANT_MAX: Duration = Duration::from_secs(12);

/// One in so many connections has a rival.
const RIVAL_ONE_IN: usize = 3;

/// How long a rival stays.
const RIVAL_STAYS: Duration = Duration::from_millis(1_500);

const RIVAL_ANSWER_MAX: Duration = Duration::from_secs(5);

/// A subscriber, with what it knows.
#[derive(Debug)]
pub(crate) struct Subscriber<'a> {
    run: &'a Run,
    traveller: Traveller,
    /// Whom it hears for, in the ledger.
    receiver: usize,
    filters: [String; 2],
    inbox: Inbox,
    /// What is to be told once it has subscribed.
    begun: Begun,
}

/// What a packet asks for.
enum Step {
    Publish { qos: QoS, packet_id: Option<PacketId>, message: Option<(usize, u32)> },
    Release(PacketId),
    Granted,
    Pong,
    Other,
}

/// A PINGREQ that is not answered.
struct Ping {
    /// When the last one left.
    sent: At,
    is_answered: bool,
}

/// Whether a rival was told of a session: it was let in and was, or was not; or nobody knows.
type Told = Option<bool>;

impl<'a> Subscriber<'a> {
    /// A member of `group`, if there is one.
    pub(crate) fn new(
        run: &'a Run,
        traveller: Traveller,
        receiver: usize,
        group: Option<&str>,
    ) -> Self {
        let filters = BOTH.map(filter).map(|filter| match group {
            Some(group) => format!("$share/{group}/{filter}"),
            None => filter,
        });
        let (inbox, begun) = (Inbox::default(), Begun::First);
        Self { run, traveller, receiver, filters, inbox, begun }
    }

    /// Takes messages until the run ends.
    pub(crate) fn listen<'scope>(mut self, scope: &'scope Scope<'scope, '_>)
    where
        'a: 'scope,
    {
        while !self.run.is_in(Phase::End) {
            let rival = self.rival(scope);
            if self.connection(rival.as_ref().map(|(told, _)| told)).is_err() {
                std::thread::sleep(WAIT);
            }
            if let Some((told, thread)) = rival {
                // It ends by itself.
                let _ = thread.join();
                while let Ok(told) = told.try_recv() {
                    self.hear(told);
                }
            }
            self.traveller.go_on();
        }
    }

    /// Somebody who comes to another node under this name.
    fn rival<'scope>(
        &mut self,
        scope: &'scope Scope<'scope, '_>,
    ) -> Option<(Receiver<Told>, ScopedJoinHandle<'scope, ()>)>
    where
        'a: 'scope,
    {
        let Traveller { pinned, is_known, chance, node, session, client_id, .. } =
            &mut self.traveller;
        let is_time = self.run.is_in(Phase::Load) && chance.below(RIVAL_ONE_IN) == 0;
        if pinned.is_some() || !*is_known || !is_time {
            return None;
        }
        let node = (*node + 1 + chance.below(NODES - 1)) % NODES;
        let (tell, told) = channel();
        let (run, session, client_id) = (self.run, *session, client_id.clone());
        let thread = scope.spawn(move || {
            let told = compete(run, session, node, &client_id, |told| {
                // Whoever is to hear it has ended with the run otherwise.
                let _ = tell.send(Some(told));
            });
            if told.is_err() {
                let _ = tell.send(None);
            }
        });
        Some((told, thread))
    }

    /// What a rival was told of the session. Says whether that was that there is none.
    fn hear(&mut self, told: Told) -> bool {
        match told {
            Some(is_present) => {
                if !is_present {
                    self.begun = Begun::Anew;
                }
                !is_present
            }
            None => {
                self.traveller.may_be_anew = true;
                false
            }
        }
    }

    fn connection(&mut self, rival: Option<&Receiver<Told>>) -> io::Result<()> {
        let Arrived { mut link, connection, begun } = self.traveller.come(self.run)?;
        if begun != Begun::Before && (self.begun == Begun::Before || begun == Begun::Anew) {
            self.begun = begun;
        }
        if self.begun != Begun::Before {
            self.subscribe(&mut link)?;
        }
        let (came, stay) = (Instant::now(), self.traveller.stay());
        let mut ping = Ping { sent: self.run.now(), is_answered: true };
        while !self.run.is_in(Phase::End) {
            if let Some(Ok(told)) = rival.map(Receiver::try_recv)
                && self.hear(told)
            {
                self.subscribe(&mut link)?;
            }
            if self.run.is_in(Phase::Load) && came.elapsed() > stay {
                if self.traveller.chance.below(2) == 0 {
                    say_goodbye(&mut link)?;
                }
                return Ok(());
            }
            let silence = self.run.now() - ping.sent;
            if !ping.is_answered && silence > PONG_MAX {
                return Err(ErrorKind::TimedOut.into());
            }
            if ping.is_answered && silence > PING_EVERY {
                ping = Ping { sent: self.run.now(), is_answered: false };
                link.push(&Packet::PingReq);
            }
            link.flush()?;
            let Some(step) = next(&mut link, WAIT)? else { continue };
            if matches!(step, Step::Pong) {
                ping.is_answered = true;
                self.run.ledger().answered(self.traveller.session, connection, ping.sent);
            }
            self.take(&step, &mut link);
        }
        Ok(())
    }

    /// Subscribes, and has the ledger know of a session that was begun anew once that is in force.
    fn subscribe(&mut self, link: &mut Link) -> io::Result<()> {
        if matches!(self.begun, Begun::First | Begun::Anew) {
            self.inbox.forget();
        }
        link.subscribe(self.filters.iter().map(String::as_str).zip(BOTH));
        link.flush()?;
        let begin = Instant::now();
        loop {
            match next(link, WAIT)? {
                Some(Step::Granted) => break,
                Some(step) => self.take(&step, link),
                None if begin.elapsed() > GRANT_MAX => return Err(ErrorKind::TimedOut.into()),
                None => {}
            }
        }
        match std::mem::replace(&mut self.begun, Begun::Before) {
            Begun::First => {
                self.run.subscribed.fetch_add(1, Ordering::Relaxed);
            }
            begun => {
                let (session, now) = (self.traveller.session, self.run.now());
                self.run.ledger().anew(session, now, begun == Begun::Anew);
            }
        }
        link.flush()
    }

    fn take(&mut self, step: &Step, link: &mut Link) {
        match *step {
            Step::Publish { qos, packet_id, message } => {
                self.deliver(qos, packet_id, message);
                link.acknowledge(qos, packet_id);
            }
            Step::Release(packet_id) => {
                self.inbox.release(packet_id);
                link.answer(Packet::PubComp, packet_id);
            }
            Step::Granted | Step::Pong | Step::Other => {}
        }
    }

    fn deliver(&mut self, qos: QoS, packet_id: Option<PacketId>, message: Option<(usize, u32)>) {
        let (mut ledger, now) = (self.run.ledger(), self.run.now());
        let Some(message) = message else {
            return ledger.find(
                Finding::Altered,
                now,
                &format!("{} got an altered message", self.traveller.client_id),
            );
        };
        if let (QoS::ExactlyOnce, Some(packet_id)) = (qos, packet_id) {
            match self.inbox.arrive(packet_id, message) {
                Arrival::New => {}
                Arrival::Again => return,
                Arrival::Reused => {
                    let client_id = &self.traveller.client_id;
                    let what = format!("{client_id} got a packet identifier that is not free");
                    return ledger.find(Finding::Altered, now, &what);
                }
            }
        }
        ledger.deliver(self.receiver, message, self.traveller.node, now);
    }
}

/// Comes under a name that somebody else has, and stays until it is sent away, or for a while;
/// acknowledges nothing.
fn compete(
    run: &Run,
    session: usize,
    node: usize,
    client_id: &str,
    tell: impl FnOnce(bool),
) -> io::Result<()> {
    run.ledger().visit(session, node);
    let (mut link, welcome) =
        Link::connect(&place(node, RIVAL_ANSWER_MAX), client_id, false, true)?;
    let connection = run.ledger().connected(session, node, run.now());
    tell(welcome.is_session_present);
    let (came, mut sent) = (Instant::now(), run.now());
    link.push(&Packet::PingReq);
    while came.elapsed() < RIVAL_STAYS && !run.is_in(Phase::End) {
        let flushed = link.flush();
        match flushed.and_then(|()| next(&mut link, WAIT)) {
            Ok(Some(Step::Pong)) => {
                run.ledger().answered(session, connection, sent);
                sent = run.now();
                link.push(&Packet::PingReq);
            }
            Ok(_) => {}
            // Whoever came later has the session.
            Err(_) => return Ok(()),
        }
    }
    Ok(())
}

fn next(link: &mut Link, wait: Duration) -> io::Result<Option<Step>> {
    link.packet(wait, |packet| match packet {
        Packet::Publish(publish) => Step::Publish {
            qos: publish.qos,
            packet_id: publish.packet_id,
            message: known(publish),
        },
        Packet::PubRel(ack) => Step::Release(ack.packet_id),
        Packet::SubAck(_) => Step::Granted,
        Packet::PingResp => Step::Pong,
        _ => Step::Other,
    })
}

/// The row and number of a message; nothing if it was altered.
fn known(publish: &Publish<'_>) -> Option<(usize, u32)> {
    let stream = Stream::of(publish.topic).filter(|of| of.qos == publish.qos)?;
    let row = usize::from(stream.qos == QoS::ExactlyOnce);
    Some((stream.publisher * ROWS + row, number(publish.topic, publish.payload)?))
}
