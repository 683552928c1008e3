//! Messages at QoS 2 that Mosquitto has taken and not yet given to anybody: it does so at PUBREL.
//! Weir does so at once, so they go to the subscribers now, and only the PUBREL is waited for.

use crate::file::{Database, State};
use std::collections::BTreeSet;
use weir_wire::QoS;
use weir_wire::topic::TopicFilter;

/// A message that waits for a client.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) message: u64,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) subscription_ids: Vec<u32>,
}

impl Database<'_> {
    /// What each client gets, in their order.
    pub(crate) fn arrivals(&self) -> Vec<Vec<Arrival>> {
        let mut all: Vec<Vec<Arrival>> = self.clients.iter().map(|_| Vec::new()).collect();
        for (publisher, client) in self.clients.iter().enumerate() {
            for delivery in &client.deliveries {
                if delivery.state == State::Incoming {
                    self.route(publisher, delivery.message, &mut all);
                }
            }
        }
        all
    }

    fn route(&self, publisher: usize, number: u64, all: &mut [Vec<Arrival>]) {
        let Some(message) = self.messages.get(&number) else { return };
        // Of a shared subscription's members, one gets it.
        let mut groups = BTreeSet::new();
        for (at, (client, arrivals)) in self.clients.iter().zip(all).enumerate() {
            let mut arrival: Option<Arrival> = None;
            for subscription in &client.subscriptions {
                let Some(filter) = TopicFilter::parse(subscription.name) else { continue };
                let options = subscription.options;
                let is_own = options.no_local && at == publisher;
                let qos = options.qos.min(message.qos);
                if is_own || qos == QoS::AtMostOnce || !filter.matches(message.topic) {
                    continue;
                }
                if filter.group.is_some() && !groups.insert(subscription.name) {
                    continue;
                }
                let retain = options.retain_as_published && message.retain;
                let subscription_ids = Vec::new();
                let one = arrival.get_or_insert(Arrival {
                    message: number,
                    qos,
                    retain,
                    subscription_ids,
                });
                one.qos = one.qos.max(qos);
                one.retain |= retain;
                one.subscription_ids.extend(subscription.subscription_id);
            }
            arrivals.extend(arrival);
        }
    }
}
