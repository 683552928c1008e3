//! Which messages go to the other end, and under which topic there.

use weir_wire::QoS;
use weir_wire::topic::{SHARE_PREFIX, TopicFilter};

/// One end of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The broker that the bridge belongs to.
    Local,
    /// The other broker.
    Remote,
}

impl End {
    /// The one at the other side.
    pub const fn other(self) -> Self {
        match self {
            Self::Local => Self::Remote,
            Self::Remote => Self::Local,
        }
    }
}

/// Which way messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the remote broker to the local one.
    In,
    /// From the local broker to the remote one.
    Out,
    /// Both ways.
    Both,
}

impl Direction {
    /// Whether messages that come from this end are relayed.
    const fn is_from(self, end: End) -> bool {
        matches!((self, end), (Self::Both, _) | (Self::Out, End::Local) | (Self::In, End::Remote))
    }
}

/// Messages that are relayed. At an end, their topics match that end's prefix with the pattern
/// behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// A topic filter, or nothing if the prefixes are the topics.
    pub pattern: String,
    /// Which way.
    pub direction: Direction,
    /// With which QoS they are relayed at most. The highest is QoS 1.
    pub qos: QoS,
    /// What topics begin with in the local broker.
    pub local_prefix: String,
    /// What topics begin with in the remote broker.
    pub remote_prefix: String,
}

impl Topic {
    /// What is wrong with it.
    pub fn fault(&self) -> Option<&'static str> {
        let Self { pattern, local_prefix, remote_prefix, .. } = self;
        let is_filter = |prefix: &String| {
            let filter = format!("{prefix}{pattern}");
            TopicFilter::parse(&filter).is_some() && !filter.starts_with(SHARE_PREFIX)
        };
        if [local_prefix, remote_prefix].iter().any(|prefix| prefix.contains(['+', '#', '\0'])) {
            return Some("its prefixes hold no wildcards");
        }
        let rule = "with each of its prefixes, the pattern must be a topic filter, and not $share";
        (!is_filter(local_prefix) || !is_filter(remote_prefix)).then_some(rule)
    }

    fn prefix(&self, end: End) -> &str {
        match end {
            End::Local => &self.local_prefix,
            End::Remote => &self.remote_prefix,
        }
    }
}

/// Where messages go that come from one end.
#[derive(Debug)]
pub(crate) struct Routes(Vec<Route>);

#[derive(Debug)]
struct Route {
    filter: String,
    qos: QoS,
    prefix: String,
    prefix_there: String,
}

impl Routes {
    pub(crate) fn from(end: End, topics: &[Topic]) -> Self {
        let is_from = |topic: &&Topic| topic.direction.is_from(end);
        let route = |topic: &Topic| Route {
            filter: format!("{}{}", topic.prefix(end), topic.pattern),
            qos: topic.qos,
            prefix: topic.prefix(end).to_owned(),
            prefix_there: topic.prefix(end.other()).to_owned(),
        };
        Self(topics.iter().filter(is_from).map(route).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What to subscribe to, each filter once with its highest QoS.
    pub(crate) fn filters(&self) -> Vec<(&str, QoS)> {
        let mut filters: Vec<(&str, QoS)> = Vec::new();
        for Route { filter, qos, .. } in &self.0 {
            match filters.iter_mut().find(|(other, _)| other == filter) {
                Some((_, other)) => *other = (*other).max(*qos),
                None => filters.push((filter, *qos)),
            }
        }
        filters
    }

    /// The first route that a topic takes.
    pub(crate) fn find(&self, topic: &str) -> Option<usize> {
        let takes = |route: &Route| {
            let filter = TopicFilter { group: None, filter: &route.filter };
            topic.starts_with(&route.prefix) && filter.matches(topic)
        };
        self.0.iter().position(takes)
    }

    /// Writes what a topic is called at the other end, by the first route that it takes; nothing
    /// if there is none.
    pub(crate) fn map(&self, topic: &str, there: &mut String) -> Option<()> {
        let route = &self.0[self.find(topic)?];
        there.clear();
        there.push_str(&route.prefix_there);
        there.push_str(&topic[route.prefix.len()..]);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(pattern: &str, direction: Direction, local: &str, remote: &str) -> Topic {
        let (pattern, local_prefix) = (pattern.to_owned(), local.to_owned());
        let (qos, remote_prefix) = (QoS::AtLeastOnce, remote.to_owned());
        Topic { pattern, direction, qos, local_prefix, remote_prefix }
    }

    fn there(from: End, topics: &[Topic], name: &str) -> Option<String> {
        let mut there = String::from("left over");
        Routes::from(from, topics).map(name, &mut there).map(|()| there)
    }

    #[test]
    fn a_topic_has_one_prefix_here_and_another_there() {
        let topics = [
            topic("a/#", Direction::Out, "home/", "site/7/"),
            topic("", Direction::Both, "time", "clock/now"),
            topic("+/b", Direction::In, "", "down/"),
            topic("#", Direction::Out, "late/", ""),
        ];
        for (from, name, expected) in [
            (End::Local, "home/a/x", Some("site/7/a/x")),
            (End::Local, "home/a", Some("site/7/a")),
            (End::Local, "home/b", None),
            (End::Remote, "site/7/a/x", None),
            (End::Local, "time", Some("clock/now")),
            (End::Remote, "clock/now", Some("time")),
            (End::Remote, "down/x/b", Some("x/b")),
            (End::Local, "x/b", None),
            (End::Local, "late/x", Some("x")),
            // It matches the filter, and has not the prefix.
            (End::Local, "late", None),
        ] {
            assert_eq!(there(from, &topics, name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn a_filter_is_subscribed_to_once() {
        let mut all = [
            topic("a", Direction::Out, "", "x/"),
            topic("a", Direction::Both, "", "y/"),
            topic("b", Direction::In, "", ""),
        ];
        all[1].qos = QoS::ExactlyOnce;
        let filters = |end| {
            let routes = Routes::from(end, &all);
            routes.filters().iter().map(|(it, qos)| format!("{it} {}", *qos as u8)).collect()
        };
        let (local, remote): (Vec<_>, Vec<_>) = (filters(End::Local), filters(End::Remote));
        assert_eq!((local, remote), (vec!["a 2".to_owned()], vec!["y/a 2".into(), "b 1".into()]));
    }

    #[test]
    fn what_is_no_filter_with_its_prefixes_is_refused() {
        for (pattern, local, remote, is_fine) in [
            ("a/#", "x/", "y/", true),
            ("", "x", "y", true),
            ("", "x", "", false),
            ("#", "x", "", false),
            ("a", "+/", "", false),
            ("a", "", "y/#/", false),
            ("g/a", "$share/", "", false),
        ] {
            let fault = topic(pattern, Direction::Both, local, remote).fault();
            assert_eq!(fault.is_none(), is_fine, "{pattern} {local} {remote}: {fault:?}");
        }
    }
}
