//! Letters of other threads, and what the shard makes of them.

use super::{Output, Shell};
use crate::control::Answer;
use crate::letter::{Letter, NodeNews};
use weir_core::{Mail, Micros, Shard, ShardId};
use weir_reactor::{Io, ToOutside};

/// Letters of each sender that are handled in one turn.
const LETTERS_MAX: usize = 1024;

/// The same while memory is short.
const SHORT_LETTERS_MAX: usize = 8;

impl Shell {
    pub(super) fn read_letters(&mut self, io: &mut Io) {
        // What they say is to leave soon, so that it does not have to be kept.
        let is_short = self.guard.memory.is_short(Micros(io.now_us())) || self.guard.is_full();
        if !self.mailbox.look(if is_short { SHORT_LETTERS_MAX } else { LETTERS_MAX }) {
            self.has_letters = false;
            return;
        }
        io.read_clock();
        if self.guard.lease.is_some() {
            // What is read may follow of the lease's end, and is to find nobody who waits for it.
            self.look_at_lease(io);
        }
        let Self { shard, guard, mailbox, control, resumed, .. } = self;
        let mut bytes = 0;
        self.has_letters = mailbox.receive(|mailbox, from, letter| {
            bytes += letter.bytes();
            let mut output = Output::new(io, guard, mailbox, resumed);
            let from = output.guard.node.shard(from);
            output.read(from, letter, shard, control.as_mut());
        });
        guard.memory.came(bytes);
    }
}

impl Shell {
    /// Ends all connections if the node may not act any more, but for those that it is to serve by
    /// itself.
    pub(super) fn look_at_lease(&mut self, io: &mut Io) {
        let is_over = self.guard.lease.as_ref().is_some_and(|lease| lease.is_over(io.now_us()));
        let was_over = std::mem::replace(&mut self.guard.is_fenced, is_over);
        if is_over == was_over {
            return;
        }
        let serves_minority = self.guard.serves_minority;
        let (shard, mut output) = self.parts(io);
        let now = output.now();
        match (is_over, serves_minority) {
            (true, false) => shard.stop(now, &mut output),
            (true, true) => shard.enter_minority(now, &mut output),
            (false, true) => shard.end_minority(now, &mut output),
            (false, false) => {}
        }
    }
}

impl Output<'_> {
    fn read(
        &mut self,
        from: ShardId,
        letter: Letter,
        shard: &mut Shard,
        control: Option<&mut ToOutside<Answer>>,
    ) {
        let now = self.now();
        match letter {
            Letter::Mail(mail) => shard.mail(from, mail, now, self),
            Letter::Near(from, Mail::Log(mail)) => self.read_log_mail(from, mail, shard),
            Letter::Near(from, mail) => {
                let is_list = matches!(mail, Mail::Listed { .. });
                shard.mail(from, mail, now, self);
                if is_list {
                    self.say_lists(shard);
                }
            }
            Letter::Node(news) => self.hear_of_node(news, shard),
            // They are for the post.
            Letter::Far(..) | Letter::Lists(_) | Letter::Sessions(_) | Letter::Copy(..) => {}
            Letter::Kept(to, mail) => {
                self.mailbox.send(self.guard.node.post(), Letter::Far(to, Mail::Log(mail)));
            }
            Letter::Connection(carried) => {
                let reloads = carried.reloads;
                if let Some(conn) = self.adopt(carried) {
                    shard.opened(conn, now);
                    self.look_again(conn, reloads, shard);
                }
            }
            Letter::Parcel(parcel) => {
                let (parcel, carried) = *parcel;
                let reloads = carried.as_ref().map_or(0, |carried| carried.reloads);
                let conn = carried.and_then(|carried| self.adopt(carried));
                shard.arrived(parcel, conn, now, self);
                if let Some(conn) = conn {
                    self.look_again(conn, reloads, shard);
                }
            }
            Letter::Ask(request) => {
                let Some(control) = control else { return };
                if let Some(answer) = self.answer(request, shard, control.dropped()) {
                    control.send(answer);
                }
            }
            Letter::Flushed(flushed) => {
                self.flushed(*flushed, shard, now);
            }
            Letter::Paged(paged) => self.paged(*paged, shard, now),
            Letter::Checked(checked) => {
                let verdict = self.guard.auth.checked(&checked);
                let verdict = self.guard.judge(checked.peer, verdict, now);
                shard.authenticated(checked.ticket, verdict, now, self);
            }
            Letter::Answered(answered) => {
                let verdict = self.guard.auth.answered(&answered, now);
                let verdict = self.guard.judge(answered.guesser(), verdict, now);
                shard.authenticated(answered.ticket, verdict, now, self);
            }
        }
    }

    fn hear_of_node(&mut self, news: NodeNews, shard: &mut Shard) {
        let now = self.now();
        match news {
            NodeNews::Joined(node) => shard.node_joined(node, now, self),
            NodeNews::StandInJoined(node) => shard.stand_in_joined(node, now, self),
            NodeNews::Lost(node) => {
                shard.node_lost(node, now, self);
                self.say_lists(shard);
            }
            NodeNews::Replaced(node) => {
                shard.node_replaced(node, now, self);
                self.say_lists(shard);
            }
            NodeNews::Joining(is_joining) => shard.set_joining(is_joining, now, self),
            NodeNews::Absent(is_any) => shard.set_absent(is_any),
            NodeNews::Again(number) => shard.go_on_from(number),
            NodeNews::CutOff => shard.enter_minority(now, self),
            NodeNews::Returning => shard.leave_minority(now, self),
            NodeNews::Void => shard.void_sessions(now, self),
            NodeNews::Adopt(node) => shard.adopt_from(node),
            NodeNews::AdoptNoMore(node) => shard.adopt_no_more(&node),
            NodeNews::Offer(node) => shard.offer_sessions(node, now, self),
            NodeNews::CopyTo(begun) => self.copy_log(begun),
            NodeNews::CopyEnds(copy) => self.end_copy(copy, shard),
        }
    }

    /// Tells the post how many shards of other nodes have told this one all.
    fn say_lists(&mut self, shard: &Shard) {
        let post = self.guard.node.post();
        self.mailbox.send(post, Letter::Lists(shard.lists()));
    }
}
