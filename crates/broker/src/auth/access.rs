//! A shard's way to the thread that checks tokens and asks the service, and what its answers mean
//! here.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use weir_access::{
    Action, Answer, Asker, Busy, By, Counts, Lasting, Question, Ready, Rights, Rule, Setup,
    TokenPlace, is_token,
};
use weir_core::{AuthRequest, Grant, Micros, OwnRights, OwnRules, Terms, Ticket, Verdict, Voucher};
use weir_reactor::{Address, Joint, outside_later};
use weir_wire::ReasonCode;

/// Whose question it is, and who is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tag {
    shard: usize,
    by: By,
    ticket: Ticket,
    peer: Option<SocketAddr>,
}

/// What was found out.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) ticket: Ticket,
    /// Where the client comes from.
    pub(crate) peer: Option<SocketAddr>,
    by: By,
    /// Nothing if its address was banned after it asked.
    answer: Option<Answer>,
}

impl Answered {
    /// Who may have guessed what was said, and was wrong.
    pub(crate) fn guesser(&self) -> Option<SocketAddr> {
        self.peer.filter(|_| matches!(self.answer, Some(Answer::Deny | Answer::Ignore)))
    }
}

/// A shard's way to the thread.
#[derive(Debug)]
pub(crate) struct AccessWay {
    shard: usize,
    /// This shard's part of how many clients may wait for the thread.
    pub(super) waiting_max: usize,
    asker: Asker<Tag>,
    tokens: Option<TokenPlace>,
    pub(super) has_service: bool,
}

/// The thread, each shard's way to it, and what each joins to get its answers.
type Started<T> = (Asker<Tag>, Vec<(AccessWay, Joint<T>)>);

/// Starts the thread. `is_out` says whether an address is banned by now: what is answered to it
/// does not count.
///
/// # Errors
/// What the system says of a thread and of open files.
pub(crate) fn start<T: From<Answered> + Send + 'static>(
    setup: &Setup,
    ready: Ready,
    lasting: &Lasting,
    addresses: &[Address],
    is_out: impl Fn(IpAddr) -> bool + Send + 'static,
) -> io::Result<Started<T>> {
    let mut joints = Vec::new();
    let asker = weir_access::start(setup, ready, lasting, |waiting_max| {
        let (mut back, ends) = outside_later::<T, ()>(addresses, waiting_max)?;
        joints.extend(ends.into_iter().map(|(_, joint)| joint));
        Ok(move |Tag { shard, by, ticket, peer }, answer| {
            let is_banned = peer.is_some_and(|peer| is_out(peer.ip()));
            let answer = (!is_banned).then_some(answer);
            // There is always room: no more wait than the ring has places. A shard that has ended
            // needs no answer.
            let _ = back.send(shard, Answered { ticket, peer, by, answer }.into());
        })
    })?;
    let shards = joints.len();
    let way = |(shard, joint)| (AccessWay::new((shard, shards), &asker, setup), joint);
    let ways = joints.into_iter().enumerate().map(way).collect();
    Ok((asker, ways))
}

impl AccessWay {
    pub(super) fn counts(&self) -> Arc<Counts> {
        Arc::clone(self.asker.counts())
    }

    pub(crate) fn new((shard, shards): (usize, usize), asker: &Asker<Tag>, setup: &Setup) -> Self {
        let tokens = setup.jwt.as_ref().map(|jwt| jwt.r#in);
        let waiting_max = asker.queue_max().div_ceil(shards);
        let has_service = setup.http.is_some();
        Self { shard, waiting_max, asker: asker.clone(), tokens, has_service }
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
        let tag = Tag { shard: self.shard, by, ticket: request.ticket, peer };
        let asked = self.asker.ask(tag, by, question);
        asked.err().map(|Busy| Verdict::Refuse(ReasonCode::ServerBusy))
    }
}

impl Answered {
    /// What follows from it.
    pub(super) fn verdict(&self, now: Micros) -> Verdict {
        let Some(answer) = &self.answer else {
            return Verdict::Refuse(ReasonCode::Banned);
        };
        match answer {
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
                let voucher = Some(match self.by {
                    By::Token => Voucher::Tokens,
                    By::Service => Voucher::Service,
                });
                Verdict::AcceptOn(Box::new(Terms { user, rights, until, voucher }))
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

#[cfg(test)]
mod tests {
    use super::super::waits::Waits;
    use super::*;
    use weir_core::{AuthStep, ConnKey};

    fn request() -> AuthRequest<'static> {
        let (conn, ticket, step) = (ConnKey(1), Ticket::default(), AuthStep::Begin);
        let (client_id, user_name, password) = ("c", Some("ann"), Some(&b"x"[..]));
        let (method, data) = (None, &b""[..]);
        AuthRequest { conn, ticket, step, client_id, user_name, password, method, data }
    }

    #[test]
    fn what_an_address_asked_before_it_was_banned_does_not_count() {
        let http = toml::from_str("url = \"http://127.0.0.1:1/\"\nform = \"mosquitto-go-auth\"");
        let setup = Setup { jwt: None, http: Some(http.unwrap()) };
        let mut mailboxes = weir_reactor::mailboxes(&[weir_reactor::Waker::new().unwrap()]);
        let ready = setup.check().unwrap();
        let (lasting, addresses) = (Lasting::new([7; 32]), [mailboxes[0].address()]);
        let started = start::<Answered>(&setup, ready, &lasting, &addresses, |_| true);
        let (way, joint) = started.unwrap().1.remove(0);
        mailboxes[0].join(joint);
        // No text has such a password, so it is wrong.
        let request = AuthRequest { password: Some(&[0xFF]), ..request() };
        let peer = Some(SocketAddr::from(([192, 0, 2, 1], 1)));
        assert_eq!(way.ask(By::Service, &request, peer), None);
        let mut answers = Vec::new();
        while answers.is_empty() {
            std::thread::yield_now();
            mailboxes[0].look(1);
            mailboxes[0].receive(|_, _, answered| answers.push(answered));
        }
        assert_eq!(answers[0].guesser(), None);
        let verdict = answers[0].verdict(Micros(0));
        assert_eq!(verdict, Verdict::Refuse(ReasonCode::Banned));
    }

    #[test]
    fn one_address_leaves_others_a_part_of_the_queue_on_however_many_threads_it_comes() {
        // It accepts, and says nothing.
        let service = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", service.local_addr().unwrap());
        let http = toml::from_str(&format!("url = \"{url}\"\nqueue = 8\ntimeout_ms = 600000"));
        let setup = Setup { jwt: None, http: Some(http.unwrap()) };
        let ready = setup.check().unwrap();
        let asker =
            weir_access::start(&setup, ready, &Lasting::new([7; 32]), |_| Ok(|_, _| {})).unwrap();
        let shards = 2;
        let way = |shard| (AccessWay::new((shard, shards), &asker, &setup), Waits::new(75));
        let mut ways: Vec<(AccessWay, Waits)> = (0..shards).map(way).collect();
        let mut asks = |peer: &str, times: usize| {
            let peer = Some(peer.parse().unwrap());
            let request = request();
            let waits = |way: &AccessWay, waits: &mut Waits| {
                let ask = || way.ask(By::Service, &request, peer);
                waits.ask(peer, way.waiting_max, ask).is_none()
            };
            let of_way = |(way, of): &mut (_, _)| (0..times).filter(|_| waits(way, of)).count();
            ways.iter_mut().map(of_way).collect::<Vec<_>>()
        };
        assert_eq!(asks("192.0.2.1:1", 8), [3, 3]);
        assert_eq!(asks("192.0.2.2:1", 1), [1, 1], "there is room for others");
    }
}
