//! Who a client is, as the shell asks and judges it: bans first, then the authentication port, then
//! what a wrong password or a banned user means.

use super::Guard;
use std::net::SocketAddr;
use weir_core::{AuthRequest, AuthStep, Micros, OwnRights, Terms, Verdict};
use weir_wire::ReasonCode;

impl Guard {
    /// What is known of a client from `peer` at once; nothing if the answer comes later.
    pub(super) fn authenticate(
        &mut self,
        request: &AuthRequest<'_>,
        peer: Option<SocketAddr>,
        now: Micros,
    ) -> Option<Verdict> {
        if self.own_conns.contains(&request.conn) {
            let terms = Terms { rights: OwnRights::All, ..Terms::default() };
            return Some(Verdict::AcceptOn(Box::new(terms)));
        }
        let (client_id, address) = (request.client_id, peer.map(|peer| peer.ip()));
        // What its CONNECT says is not asked for if its transport has shown who it is.
        let user = request.user_name.filter(|_| !self.auth.is_named(request.conn));
        if request.step == AuthStep::Begin
            && self.admission().is_banned(address, client_id, user, now)
        {
            return Some(Verdict::Refuse(ReasonCode::Banned));
        }
        let verdict = self.auth.answer(request, peer)?;
        // Who has said no secret has not guessed one.
        let is_guess = request.password.is_some() || request.method.is_some();
        Some(self.judge(peer.filter(|_| is_guess), verdict, now))
    }

    /// A verdict on a client from `peer`, after what follows from it.
    pub(super) fn judge(
        &mut self,
        peer: Option<SocketAddr>,
        verdict: Verdict,
        now: Micros,
    ) -> Verdict {
        let user = match &verdict {
            Verdict::Refuse(ReasonCode::BadUserNameOrPassword | ReasonCode::NotAuthorized) => {
                if let Some(peer) = peer {
                    self.admission().guessed_wrong(peer.ip(), now);
                }
                return verdict;
            }
            Verdict::AcceptAs { user, .. } => Some(&**user),
            Verdict::AcceptOn(terms) => terms.user.as_deref(),
            Verdict::Accept(_) | Verdict::Continue(_) | Verdict::Refuse(_) => None,
        };
        match user {
            Some(user) if self.admission().is_user_banned(user) => {
                Verdict::Refuse(ReasonCode::Banned)
            }
            _ => verdict,
        }
    }
}
