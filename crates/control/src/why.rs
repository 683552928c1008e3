//! Why a message gets to a client or not: from values of a shard to sentences.

use crate::drops::Drop;
use crate::port::{Outlook, Subscription};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Drops that a [`Why`] has sentences for.
pub(crate) const DROPS_MAX: u16 = 5;

/// Whether a message gets to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Arrives {
    /// At once.
    Yes,
    /// It waits first.
    Later,
    /// It depends on the message, or on others.
    Depends,
    /// It does not.
    No,
}

/// The answer, with what it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Why {
    /// In short.
    pub arrives: Arrives,
    /// In a sentence, names in quotes and escaped.
    pub conclusion: String,
    /// What was looked at, a sentence each.
    pub findings: Vec<String>,
}

impl Why {
    /// `outlook` is nothing if there is no such client; `drops` are its own of this topic and
    /// messages to the topic that nobody got, or, if there is no such client, all of its own.
    pub fn new(client_id: &str, topic: &str, outlook: Option<&Outlook>, drops: &[Drop]) -> Self {
        let mut findings = match outlook {
            None => {
                vec![format!("There is no client {client_id:?}, and no session of one is kept.")]
            }
            Some(outlook) => outlook.findings(topic),
        };
        findings.extend(drops.iter().map(|drop| {
            let times =
                if drop.times == 1 { "".into() } else { format!(" ({} times)", drop.times) };
            format!("At {} {}{times}.", drop.at, drop.sentence())
        }));
        let (arrives, reason) = match outlook {
            None => (
                Arrives::No,
                "there is no such client; one whose session ends with its connection leaves \
                 nothing behind"
                    .into(),
            ),
            Some(outlook) => outlook.conclude(),
        };
        let gets = match arrives {
            Arrives::Yes => "gets",
            Arrives::Later => "will get",
            Arrives::Depends => "may get",
            Arrives::No => "does not get",
        };
        let conclusion = format!("{client_id:?} {gets} a message to {topic:?}: {reason}.");
        Self { arrives, conclusion, findings }
    }
}

impl Outlook {
    fn findings(&self, topic: &str) -> Vec<String> {
        let mut findings = vec![self.presence()];
        findings.push(match self.may_read {
            true => format!("Its rights let it read {topic:?}."),
            false => format!(
                "Its rights do not let it read {topic:?}: such messages are withheld, and neither \
                 side is told."
            ),
        });
        findings.extend(self.subscriptions.iter().map(subscribed));
        let of_all = self.client.subscriptions;
        match self.matching as usize - self.subscriptions.len().min(self.matching as usize) {
            0 if self.matching == 0 && of_all == 0 => {
                findings.push("It has subscribed to nothing.".into());
            }
            0 if self.matching == 0 => {
                let ends = if topic.starts_with('$') {
                    "; a wildcard in the first level does not match what begins with $"
                } else {
                    ""
                };
                let which = match of_all {
                    1 => "Its one subscription does not match".into(),
                    _ => format!("None of its {of_all} subscriptions matches"),
                };
                findings.push(format!("{which} {topic:?}{ends}."));
            }
            0 => {}
            more => findings.push(format!("{more} more of its subscriptions match.")),
        }
        findings.push(format!(
            "{} of at most {} messages wait in its queue, {} of at most {} bytes.",
            self.client.queued_messages,
            self.queue_messages_max,
            self.client.queued_bytes,
            self.queue_bytes_max,
        ));
        if let Some(max) = self.in_flight_max {
            // While memory is short, nobody says how many are too many.
            let bytes = match self.output_bytes {
                u64::MAX => "too many".into(),
                bytes => bytes.to_string(),
            };
            findings.push(format!(
                "{} of at most {max} messages at QoS 1 and 2 are in flight, and {bytes} of at most \
                 {} bytes wait for its connection.",
                self.client.in_flight, self.output_bytes_max,
            ));
        }
        if self.is_memory_short {
            findings.push("The broker is short of memory, and bounds are lower for that.".into());
        }
        findings
    }

    fn presence(&self) -> String {
        let user = self.client.user.as_ref().map(|user| format!(" as the user {user:?}"));
        let user = user.unwrap_or_default();
        match (&self.client.connection, self.client.session_expiry_s) {
            (Some(link), _) => {
                format!("The client is connected{user}, with MQTT {}.", link.version)
            }
            (None, None) => format!("The client{user} is absent; its session never expires."),
            (None, Some(seconds)) => format!(
                "The client{user} is absent; its session is kept for {seconds} s after its \
                 connection."
            ),
        }
    }

    /// Whether it arrives, and why, for behind a colon. What is in the way first comes first.
    fn conclude(&self) -> (Arrives, String) {
        let is_absent = self.client.connection.is_none();
        let says = |arrives, reason: &str| (arrives, reason.to_owned());
        if self.matching == 0 {
            return says(Arrives::No, "no subscription of it matches");
        }
        if !self.may_read {
            return says(Arrives::No, "its rights do not let it read this topic");
        }
        let all_named = self.matching as usize == self.subscriptions.len();
        let all = |is: fn(&Subscription) -> bool| all_named && self.subscriptions.iter().all(is);
        if is_absent && all(|it| it.qos == 0) {
            let reason = "it is absent, and has subscribed at QoS 0, at which nothing is kept";
            return says(Arrives::No, reason);
        }
        let is_queue_full = self.client.queued_messages >= self.queue_messages_max
            || self.client.queued_bytes >= self.queue_bytes_max;
        if is_queue_full {
            let reason = match is_absent {
                true => {
                    "its queue is full while it is absent, so each more drops the oldest, or is \
                     refused ([limits] queue_full_absent)"
                }
                false => {
                    "its queue is full, because it does not acknowledge or read as fast as \
                     messages come: each more ends the \
                     connection, or is refused ([limits] queue_full_connected)"
                }
            };
            return says(Arrives::Depends, reason);
        }
        if self.output_bytes > self.output_bytes_max {
            let reason = "it does not read as fast as messages come: those at QoS 0 are dropped, \
                          and others wait";
            return says(Arrives::Depends, reason);
        }
        if all(|it| it.filter.starts_with("$share/")) {
            let reason = "it shares its subscription, so that one member of the group gets each";
            return says(Arrives::Depends, reason);
        }
        if all(is_conditional) {
            return says(Arrives::Depends, "if the condition of its subscription holds");
        }
        if is_absent {
            let reason = "it is absent, so that one published at QoS 1 or 2 waits until it comes \
                          back; one at QoS 0 is not kept";
            return says(Arrives::Later, reason);
        }
        let is_waiting = self.in_flight_max.is_some_and(|max| self.client.in_flight >= max);
        if is_waiting || self.client.queued_messages > 0 {
            let reason = "those at QoS 1 and 2 wait until it has acknowledged others";
            return says(Arrives::Later, reason);
        }
        if all(|it| it.no_local) {
            return says(Arrives::Yes, "but for those that it has published itself");
        }
        says(Arrives::Yes, "nothing is in the way")
    }
}

fn is_conditional(subscription: &Subscription) -> bool {
    subscription.condition.is_some() || subscription.filter.contains("$filter/")
}

fn subscribed(subscription: &Subscription) -> String {
    let Subscription { filter, condition, qos, no_local, .. } = subscription;
    let condition = match condition {
        Some(condition) => format!(", on the condition {condition:?}"),
        None if is_conditional(subscription) => ", on the condition in it".into(),
        None => String::new(),
    };
    let no_local = if *no_local { ", but for what it publishes itself (No Local)" } else { "" };
    let share =
        if filter.starts_with("$share/") { "; one member of the group gets each" } else { "" };
    format!("It has subscribed to {filter:?} at QoS {qos}{condition}{no_local}{share}.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drops::DropKind;
    use crate::port::{Client, Link};

    fn subscription(filter: &str, qos: u8) -> Subscription {
        Subscription {
            filter: filter.into(),
            condition: None,
            qos,
            no_local: false,
            retain_as_published: false,
            subscription_id: None,
        }
    }

    /// A client that gets what it has subscribed to.
    fn well() -> Outlook {
        Outlook {
            client: Client {
                client_id: "c".into(),
                user: None,
                connection: Some(Link { version: "5.0".into(), keep_alive_s: 60 }),
                session_expiry_s: Some(60),
                subscriptions: 3,
                queued_messages: 0,
                queued_bytes: 0,
                in_flight: 0,
            },
            may_read: true,
            subscriptions: vec![subscription("a/#", 1)],
            matching: 1,
            queue_messages_max: 10,
            queue_bytes_max: 1_000,
            in_flight_max: Some(20),
            output_bytes: 0,
            output_bytes_max: 1_000,
            is_memory_short: false,
        }
    }

    fn of(change: impl FnOnce(&mut Outlook)) -> Why {
        let mut outlook = well();
        change(&mut outlook);
        Why::new("c", "a/b", Some(&outlook), &[])
    }

    #[test]
    fn all_that_is_well_is_said() {
        let why = of(|_| {});
        assert_eq!(why.arrives, Arrives::Yes);
        assert_eq!(why.conclusion, "\"c\" gets a message to \"a/b\": nothing is in the way.");
        assert_eq!(
            why.findings,
            [
                "The client is connected, with MQTT 5.0.",
                "Its rights let it read \"a/b\".",
                "It has subscribed to \"a/#\" at QoS 1.",
                "0 of at most 10 messages wait in its queue, 0 of at most 1000 bytes.",
                "0 of at most 20 messages at QoS 1 and 2 are in flight, and 0 of at most 1000 \
                 bytes wait for its connection.",
            ]
        );
    }

    #[test]
    fn each_thing_in_the_way_has_its_conclusion() {
        type Change = fn(&mut Outlook);
        let absent: Change = |it| (it.client.connection, it.in_flight_max) = (None, None);
        let cases: [(Change, Arrives, &str); 12] = [
            (|it| (it.matching, it.subscriptions) = (0, vec![]), Arrives::No, "no subscription"),
            (|it| it.may_read = false, Arrives::No, "its rights do not let it read"),
            (absent, Arrives::Later, "it is absent, so that one published at QoS 1 or 2 waits"),
            (|it| it.client.queued_messages = 10, Arrives::Depends, "its queue is full, because"),
            (|it| it.client.queued_bytes = 1_000, Arrives::Depends, "its queue is full, because"),
            (|it| it.output_bytes = 1_001, Arrives::Depends, "it does not read as fast"),
            (|it| it.client.in_flight = 20, Arrives::Later, "those at QoS 1 and 2 wait until"),
            (|it| it.client.queued_messages = 1, Arrives::Later, "those at QoS 1 and 2 wait until"),
            (|it| it.subscriptions[0].no_local = true, Arrives::Yes, "but for those that it has"),
            (
                |it| it.subscriptions[0].condition = Some("x > 1".into()),
                Arrives::Depends,
                "if the condition",
            ),
            (
                |it| it.subscriptions[0].filter = "$share/g/a/#".into(),
                Arrives::Depends,
                "it shares its subscription",
            ),
            (
                |it| {
                    (it.client.connection, it.in_flight_max) = (None, None);
                    it.subscriptions[0].qos = 0;
                },
                Arrives::No,
                "it is absent, and has subscribed at QoS 0",
            ),
        ];
        for (change, arrives, reason) in cases {
            let why = of(change);
            assert_eq!(why.arrives, arrives, "{why:?}");
            let said = why.conclusion.split_once(": ").unwrap().1;
            assert!(said.starts_with(reason) && said.ends_with('.'), "{said}");
        }
    }

    #[test]
    fn one_subscription_without_a_condition_is_enough() {
        let why = of(|it| {
            it.subscriptions.push(subscription("$share/g/#", 1));
            it.matching = 2;
        });
        assert_eq!(why.arrives, Arrives::Yes);
        // Of those that are not named nothing is known.
        let why = of(|it| {
            it.subscriptions[0].filter = "$share/g/#".into();
            it.matching = 9;
        });
        assert_eq!(why.arrives, Arrives::Yes);
        assert!(why.findings.contains(&"8 more of its subscriptions match.".into()), "{why:?}");
    }

    #[test]
    fn what_was_dropped_lately_is_said_also_of_a_client_that_is_not_there() {
        let drop = Drop {
            at: "2026-11-26T14:22:01.000Z".into(),
            kind: DropKind::ConnectionRefused,
            client_id: "c\u{1b}".into(),
            topic: String::new(),
            reason: "Not authorized".into(),
            detail: Some("wrong password".into()),
            times: 3,
        };
        let why = Why::new("c\u{1b}", "a", None, &[drop]);
        assert_eq!(why.arrives, Arrives::No);
        let expected = "At 2026-11-26T14:22:01.000Z \"c\\u{1b}\" could not connect: Not \
                        authorized (wrong password) (3 times).";
        assert_eq!(why.findings[1], expected);
        assert!(why.conclusion.contains("there is no such client"), "{}", why.conclusion);
        assert!(!format!("{why:?}").contains('\u{1b}'));
    }

    #[test]
    fn findings_name_users_conditions_and_topics_of_the_broker() {
        let why = of(|it| {
            it.client.user = Some("ann".into());
            it.subscriptions[0].condition = Some("x > 1".into());
            it.is_memory_short = true;
        });
        let said = why.findings.join("\n");
        for part in ["as the user \"ann\"", "on the condition \"x > 1\"", "short of memory"] {
            assert!(said.contains(part), "{said}");
        }
        let mut outlook = well();
        (outlook.matching, outlook.subscriptions) = (0, vec![]);
        let why = Why::new("c", "$SYS/x", Some(&outlook), &[]);
        assert!(why.findings[2].contains("what begins with $"), "{why:?}");
    }
}
