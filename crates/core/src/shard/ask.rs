//! What whoever runs the broker asks and wants: clients, their subscriptions and their end,
//! retained messages, and a message of their own.

use super::Shard;
use super::connection::Refusal;
use crate::ask::{
    ClientPage, ClientState, ConnectionState, Kicked, MessagePage, NotPublished, Outlook,
    OwnMessage, SubscriptionPage, SubscriptionState,
};
use crate::content::Derived;
use crate::keys::{Micros, Origin, SessionKey};
use crate::message::Delivery;
use crate::name::Name;
use crate::own::is_brokers_own;
use crate::parcel::MovedSubscription;
use crate::queue::Queue;
use crate::routing::SubscriptionRecord;
use crate::sink::Sink;
use weir_wire::topic::{TopicFilter, is_valid_name};
use weir_wire::{Properties, QoS, ReasonCode};

/// Places of sessions, or empty pages of such places, that one call looks at. So a page of clients
/// takes a bounded time in a table that was once much larger.
const PLACES_MAX: usize = 4096;

/// Bytes of names and filters in a page; what passes this is its last. Clients choose them.
const PAGE_BYTES_MAX: usize = 256 * 1024;

/// Subscriptions that an [`Outlook`] names.
const NAMED_MAX: usize = 16;

impl Shard {
    /// Clients of this shard, at most `clients_max`, from a place that [`ClientPage::next`] said;
    /// the first page is from 0. A page may be short of clients, and even empty, with more behind
    /// it. A session that is there all the time is on exactly one page.
    pub fn clients(&self, from: u32, clients_max: usize) -> ClientPage {
        let mut page = ClientPage::default();
        let (mut at, mut bytes) = (from as usize, 0);
        for _ in 0..PLACES_MAX {
            if at >= self.clients.end() {
                return page;
            }
            if page.clients.len() == clients_max || bytes >= PAGE_BYTES_MAX {
                break;
            }
            let Some(key) = self.clients.step(&mut at) else { continue };
            let client = self.state_of(key);
            bytes += client.client_id.len() + client.user.as_deref().map_or(0, str::len);
            page.clients.push(client);
            page.behind.push(at as u32);
        }
        page.next = (at < self.clients.end()).then_some(at as u32);
        page
    }

    /// The client of this identifier, if this shard has it.
    pub fn client(&self, client_id: &str) -> Option<ClientState> {
        let key = self.clients.find(client_id)?;
        Some(self.state_of(key))
    }

    /// Messages that wait for the client of this identifier, those included that were sent and are
    /// not acknowledged; nothing if this shard does not have it.
    pub fn waiting(&self, client_id: &str) -> Option<u64> {
        let session = &self.clients[self.clients.find(client_id)?];
        let (queued, _) = session.queue().map_or((0, 0), Queue::total);
        Some(queued + session.window.in_flight().count() as u64)
    }

    /// Ends the connection of a client because a person wants it: DISCONNECT 0x98 where the
    /// protocol has it. Its will is sent, and its session is kept if it outlives the connection.
    pub fn kick(&mut self, client_id: &str, now: Micros, sink: &mut impl Sink) -> Kicked {
        let Some(key) = self.clients.find(client_id) else { return Kicked::Unknown };
        let Some(conn) = self.connection_of(key) else { return Kicked::Absent };
        self.end(conn, Refusal::new(ReasonCode::AdministrativeAction, ""), now, sink);
        self.settle(now, sink);
        self.come_to_rest(now, sink);
        Kicked::Ended
    }

    /// Ends a client's connection as [`Shard::kick`] does, and its session with it: subscriptions,
    /// queue and all.
    pub fn end_client(&mut self, client_id: &str, now: Micros, sink: &mut impl Sink) -> Kicked {
        let Some(key) = self.clients.find(client_id) else { return Kicked::Unknown };
        if let Some(conn) = self.connection_of(key) {
            self.end(conn, Refusal::new(ReasonCode::AdministrativeAction, ""), now, sink);
        }
        // It may have ended with the connection.
        if let Some(key) = self.clients.find(client_id) {
            self.end_session(key, sink);
        }
        self.settle(now, sink);
        self.come_to_rest(now, sink);
        Kicked::Ended
    }

    /// Subscriptions of a client from a place on, so many at most, or fewer with more behind them;
    /// nothing if this shard does not have it.
    pub fn subscriptions(
        &self,
        client_id: &str,
        from: u32,
        subscriptions_max: usize,
    ) -> Option<SubscriptionPage> {
        let key = self.clients.find(client_id)?;
        let (records, from) = (self.clients[key].subscriptions(), from as usize);
        let (all, some) = (records.len(), records.iter().skip(from).take(subscriptions_max));
        let (mut subscriptions, mut bytes) = (Vec::new(), 0);
        for &record in some {
            let subscription = self.subscription_state(record);
            let condition = subscription.condition.as_deref();
            bytes += subscription.filter.len() + condition.map_or(0, str::len);
            subscriptions.push(subscription);
            if bytes >= PAGE_BYTES_MAX {
                break;
            }
        }
        let next = from + subscriptions.len();
        let next = (next < all && !subscriptions.is_empty()).then_some(next as u32);
        Some(SubscriptionPage { subscriptions, next })
    }

    /// What decides whether a message of this topic gets to a client; nothing if this shard does
    /// not have it. Looks at all its subscriptions.
    pub fn outlook(&self, client_id: &str, topic: &str, sink: &impl Sink) -> Option<Outlook> {
        let key = self.clients.find(client_id)?;
        let session = &self.clients[key];
        let (mut subscriptions, mut matching) = (Vec::new(), 0);
        for &record in session.subscriptions().iter() {
            let subscription = self.subscription_state(record);
            let name = Name::parse(&subscription.filter);
            if name.is_some_and(|name| name.topic.matches(topic)) {
                matching += 1;
                if subscriptions.len() < NAMED_MAX {
                    subscriptions.push(subscription);
                }
            }
        }
        let (queue_messages_max, queue_bytes_max) = self.bounds.queue_max(session);
        let attachment = session.attachment;
        Some(Outlook {
            client: self.state_of(key),
            may_read: self.clients.may_read(key, topic),
            subscriptions,
            matching,
            queue_messages_max,
            queue_bytes_max,
            in_flight_max: attachment.map(|attachment| attachment.open_max),
            output_bytes: attachment.map_or(0, |attachment| sink.pending(attachment.conn)),
            output_bytes_max: self.bounds.output_bytes_max,
            is_memory_short: self.bounds.is_short,
        })
    }

    fn subscription_state(&self, record: SubscriptionRecord) -> SubscriptionState {
        let MovedSubscription { name, condition, options, subscription_id } =
            self.moved_subscription(record);
        SubscriptionState { filter: name, condition, options, subscription_id }
    }

    /// Retained messages of this shard whose topics match, so many at most, from behind a topic. A
    /// page may be short of messages, and even empty, with more behind it. Nothing if that is no
    /// filter, or one of a group.
    pub fn retained_messages(
        &mut self,
        filter: &str,
        after: Option<&str>,
        messages_max: usize,
        now: Micros,
    ) -> Option<MessagePage> {
        let filter = TopicFilter::parse(filter).filter(|filter| filter.group.is_none())?;
        let page = self.retained.page(filter, after, None, messages_max, now);
        Some(MessagePage { messages: page.messages, next: page.next })
    }

    /// Publishes a message as the broker's own. A client could do the same but for access rights;
    /// what forbids it to all of them is in the way here too. It goes to the rules as well. Nobody
    /// waits until the log has it.
    ///
    /// # Errors
    /// Why it is not published.
    pub fn publish(
        &mut self,
        message: &OwnMessage,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Result<(), NotPublished> {
        if self.freeze.is_some() {
            return Err(NotPublished::Busy);
        }
        let OwnMessage { topic, payload, qos, retain } = message;
        let (qos, retain) = (*qos, *retain);
        self.check_derived(Derived { topic, payload, qos, retain })
            .map_err(|(reason, detail)| NotPublished::Refused(reason, detail))?;
        let mut delivery =
            Delivery::from_parts(topic, payload, Properties::EMPTY, (qos, retain), None, None);
        self.publish_own(&mut delivery, Origin::OTHER_SHARDS, now, sink);
        self.apply_rules(&delivery, |_| Origin::OTHER_SHARDS, now, sink);
        self.post_present(None, now);
        self.settle(now, sink);
        Ok(())
    }

    /// Publishes what the broker says of itself, at QoS 0 to a topic below `$SYS` where no client
    /// may publish. If it is retained, no bound counts it and no log has it. Rules do not see it.
    ///
    /// # Errors
    /// Why it is not published: the topic is none, or a client's, or no client could use so long a
    /// one.
    pub fn publish_sys(
        &mut self,
        (topic, payload): (&str, &[u8]),
        retain: bool,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Result<(), NotPublished> {
        if self.freeze.is_some() {
            return Err(NotPublished::Busy);
        }
        let topic_bytes_max = usize::from(self.bounds.limits.topic_bytes_max);
        if !is_brokers_own(topic) || !is_valid_name(topic) || topic.len() > topic_bytes_max {
            return Err(NotPublished::Refused(ReasonCode::TopicNameInvalid, "no topic of $SYS"));
        }
        let (qos, retain) = (QoS::AtMostOnce, retain && self.bounds.features.retain);
        let mut delivery =
            Delivery::from_parts(topic, payload, Properties::EMPTY, (qos, retain), None, None);
        self.publish_own(&mut delivery, Origin::OTHER_SHARDS, now, sink);
        self.post_present(None, now);
        self.settle(now, sink);
        Ok(())
    }

    fn state_of(&self, key: SessionKey) -> ClientState {
        let session = &self.clients[key];
        let user = self.clients.rights.as_ref().and_then(|rights| rights.user_name(key));
        let connection = session.attachment.and_then(|attachment| {
            let live = self.connections.live(attachment.conn)?;
            Some(ConnectionState { version: attachment.version, keep_alive_s: live.keep_alive_s })
        });
        let (queued_messages, queued_bytes) = session.queue().map_or((0, 0), Queue::total);
        ClientState {
            client_id: (*session.client_id).into(),
            user: user.map(Into::into),
            connection,
            session_expiry_s: session.expiry_s,
            subscriptions: session.subscriptions().len() as u32,
            queued_messages,
            queued_bytes,
            in_flight: session.window.open(),
        }
    }
}
