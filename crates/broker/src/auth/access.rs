//! A shard's way to the thread that checks tokens and asks the service, and what its answers mean
//! here.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use weir_access::{
    Action, Answer, Asker, Busy, By, Counts, Question, Ready, Rights, Rule, Setup, TokenPlace,
    is_token,
};
use weir_core::{AuthRequest, Grant, Micros, OwnRights, OwnRules, Terms, Ticket, Verdict};
use weir_reactor::{Mailbox, outside};
use weir_wire::ReasonCode;

/// Whose question it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tag {
    shard: usize,
    ticket: Ticket,
    peer: Option<SocketAddr>,
}

/// What was found out.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) ticket: Ticket,
    /// Where the client comes from.
    pub(crate) peer: Option<SocketAddr>,
    answer: Answer,
}

impl Answered {
    /// Who may have guessed what was said, and was wrong.
    pub(crate) fn guesser(&self) -> Option<SocketAddr> {
        self.peer.filter(|_| matches!(self.answer, Answer::Deny | Answer::Ignore))
    }
}

/// A shard's way to the thread.
#[derive(Debug)]
pub(crate) struct AccessWay {
    shard: usize,
    asker: Asker<Tag>,
    tokens: Option<TokenPlace>,
    pub(super) has_service: bool,
}

/// Starts the thread. Nobody else knows `secret`.
///
/// # Errors
/// What the system says of a thread and of open files.
pub(crate) fn start<T: From<Answered> + Send + 'static>(
    setup: &Setup,
    ready: Ready,
    secret: [u8; 32],
    mailboxes: &mut [Mailbox<T>],
) -> io::Result<Asker<Tag>> {
    weir_access::start(setup, ready, secret, |waiting_max| {
        let (mut back, _) = outside::<T, ()>(mailboxes, waiting_max)?;
        Ok(move |Tag { shard, ticket, peer }, answer| {
            // There is always room: no more wait than the ring has places. A shard that has ended
            // needs no answer.
            let _ = back.send(shard, Answered { ticket, peer, answer }.into());
        })
    })
}

impl AccessWay {
    pub(crate) fn new(shard: usize, asker: &Asker<Tag>, setup: &Setup) -> Self {
        let tokens = setup.jwt.as_ref().map(|jwt| jwt.r#in);
        Self { shard, asker: asker.clone(), tokens, has_service: setup.http.is_some() }
    }

    /// Whether the client shows a token where tokens are.
    pub(super) fn has_token(&self, request: &AuthRequest<'_>) -> bool {
        match self.tokens {
            None => false,
            Some(TokenPlace::Password) => request.password.is_some_and(is_token),
            Some(TokenPlace::UserName) => {
                request.user_name.is_some_and(|name| is_token(name.as_bytes()))
            }
        }
    }

    /// How many clients may wait for the thread.
    pub(super) fn waiting_max(&self) -> usize {
        self.asker.queue_max()
    }

    pub(super) fn counts(&self) -> Arc<Counts> {
        Arc::clone(self.asker.counts())
    }

    /// Has the thread find out; nothing if it will say.
    pub(super) fn ask(
        &self,
        by: By,
        request: &AuthRequest<'_>,
        peer: Option<SocketAddr>,
    ) -> Option<Verdict> {
        let question = Question {
            client_id: request.client_id.into(),
            user_name: request.user_name.map(Into::into),
            password: request.password.map(Into::into),
            peer: peer.map(|peer| peer.ip().to_canonical()),
        };
        let tag = Tag { shard: self.shard, ticket: request.ticket, peer };
        let asked = self.asker.ask(tag, by, question);
        asked.err().map(|Busy| Verdict::Refuse(ReasonCode::ServerBusy))
    }

    /// The thread has answered.
    pub(super) fn answered(&self, answered: &Answered, now: Micros) -> Verdict {
        self.asker.answered();
        match &answered.answer {
            Answer::Allow(identity) => {
                let rights = match &identity.rights {
                    Rights::Policy => Ok(OwnRights::Policy),
                    Rights::All => Ok(OwnRights::All),
                    Rights::Rules(rules) => own_rules(rules).map(OwnRights::Rules),
                };
                let Ok(rights) = rights else {
                    return Verdict::Refuse(ReasonCode::ServerUnavailable);
                };
                let until = identity.expires_at_s.map(|at_s| now + until(at_s));
                let user = identity.user.as_deref().map(Into::into);
                Verdict::AcceptOn(Box::new(Terms { user, rights, until }))
            }
            Answer::Deny | Answer::Unfit => Verdict::Refuse(ReasonCode::BadUserNameOrPassword),
            Answer::Ignore => Verdict::Refuse(ReasonCode::NotAuthorized),
            Answer::Unavailable => Verdict::Refuse(ReasonCode::ServerUnavailable),
        }
    }
}

/// How long it is until this time of day.
fn until(at_s: u64) -> Micros {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_us = since.as_micros() as u64;
    // Further ahead than any process runs, and nothing runs over.
    let at_us = at_s.saturating_mul(1_000_000).min(u64::MAX / 4);
    Micros(at_us.saturating_sub(now_us))
}

fn own_rules(rules: &[Rule]) -> Result<OwnRules, weir_core::NoFilter> {
    let of = |rule: &Rule| match (rule.allows, rule.action) {
        (true, Action::Publish) => Grant::Write,
        (true, Action::Subscribe) => Grant::Read,
        (true, Action::All) => Grant::ReadWrite,
        (false, Action::Publish) => Grant::DenyWrite,
        (false, Action::Subscribe) => Grant::DenyRead,
        (false, Action::All) => Grant::Deny,
    };
    OwnRules::new(rules.iter().map(|rule| (of(rule), &*rule.filter)))
}
