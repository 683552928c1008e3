//! Steps of a use case's time line: what happens to the broker, to the way to it, and to clients.

use super::span::Span;
use serde::Deserialize;
use weir_load::steps::Action;

/// Something that happens at a time of the measure phase.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// From the begin of measure.
    pub at: Span,
    /// What goes wrong. Either this or `clients`.
    pub fault: Option<Fault>,
    /// What clients do that is no fault.
    pub clients: Option<ClientAction>,
    /// Whose clients, where it is about clients; all groups' if it is not given.
    pub group: Option<String>,
    /// Which part of the group: its first clients.
    #[serde(default = "all")]
    pub share: f64,
    /// Which node of the broker it is done to, from 1; all of them if it is not given.
    pub node: Option<u32>,
    /// How long it lasts.
    #[serde(default, rename = "for")]
    pub lasts: Span,
    /// Clients act one after the other within this time.
    #[serde(default)]
    pub over: Span,
    /// Done again after this time, until measure ends.
    pub every: Option<Span>,
    /// Of `fault = "delay"`: added each way.
    pub delay_ms: Option<f64>,
    /// Of `fault = "loss"`: part of the segments that TCP has to send again.
    pub loss_share: Option<f64>,
}

const fn all() -> f64 {
    1.0
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The broker's processes are stopped (SIGSTOP) and go on after `for`.
    Freeze,
    /// They are killed (SIGKILL) and the broker is started again after `for`.
    Kill,
    /// It is ended as an operator would (SIGTERM), and started again `for` after that.
    Restart,
    /// The way to the broker takes `delay_ms` longer.
    Delay,
    /// `loss_share` of what is sent has to be sent again by TCP.
    Loss,
    /// Connections are dead and neither side is told; new ones too while it lasts.
    HalfOpen,
    /// Clients read nothing.
    SlowReader,
    /// Clients' connections are reset; they come back after `for`.
    Cut,
}

/// What clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientAction {
    /// Connect only now.
    Join,
    /// Disconnect, and come back after `for`.
    Leave,
    /// Connect once more under the same client identifier.
    TakeOver,
}

impl Fault {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Freeze => "freeze",
            Self::Kill => "kill",
            Self::Restart => "restart",
            Self::Delay => "delay",
            Self::Loss => "loss",
            Self::HalfOpen => "half-open",
            Self::SlowReader => "slow-reader",
            Self::Cut => "cut",
        }
    }

    /// Whether it is done to the way between load and broker.
    pub const fn is_of_network(self) -> bool {
        matches!(self, Self::Delay | Self::Loss | Self::HalfOpen)
    }

    /// Whether the broker has to be started again after it.
    pub const fn is_killing(self) -> bool {
        matches!(self, Self::Kill | Self::Restart)
    }

    /// Whether it is done to the broker's processes.
    pub const fn is_of_broker(self) -> bool {
        matches!(self, Self::Freeze | Self::Kill | Self::Restart)
    }
}

impl Step {
    /// As it is written.
    pub fn name(&self) -> &'static str {
        match (self.fault, self.clients) {
            (Some(fault), _) => fault.name(),
            (None, Some(ClientAction::Join)) => "join",
            (None, Some(ClientAction::Leave)) => "leave",
            (None, Some(ClientAction::TakeOver)) => "take-over",
            (None, None) => "nothing",
        }
    }

    /// What clients do in it, if it is theirs to do.
    pub(super) fn action(&self) -> Option<Action> {
        match (self.fault, self.clients) {
            (Some(Fault::SlowReader), _) => Some(Action::Stall),
            (Some(Fault::Cut), _) => Some(Action::Cut),
            (Some(_), _) => None,
            (None, Some(ClientAction::Join)) => Some(Action::Join),
            (None, Some(ClientAction::Leave)) => Some(Action::Leave),
            (None, Some(ClientAction::TakeOver)) => Some(Action::TakeOver),
            (None, None) => None,
        }
    }

    /// When it is over, in seconds from the begin of measure, the first time.
    pub fn end_s(&self) -> f64 {
        self.at.seconds + self.over.seconds + self.lasts.seconds
    }

    /// Its begin and its end the first time, as one who watches is told: seconds from the begin of
    /// measure, and the words.
    pub(crate) fn moments(&self) -> impl Iterator<Item = (f64, String)> {
        let name = match (&self.group, self.node) {
            (Some(group), _) => format!("{} ({group})", self.name()),
            (None, Some(node)) => format!("{} (node {node})", self.name()),
            (None, None) => self.name().to_owned(),
        };
        let end = (self.lasts.seconds > 0.0).then(|| (self.end_s(), format!("{name} is over")));
        [(self.at.seconds, name)].into_iter().chain(end)
    }

    /// What is wrong with it: the key, and the sentence.
    pub(super) fn fault_of(&self, groups: &[&str]) -> Option<(&'static str, String)> {
        let text = |key, text: &str| Some((key, text.to_owned()));
        match (self.fault, self.clients) {
            (Some(_), Some(_)) | (None, None) => {
                return text("at", "a step has either fault or clients");
            }
            _ => {}
        }
        if let Some(group) = self.group.as_deref().filter(|group| !groups.contains(group)) {
            return Some((
                "group",
                format!("group = {group:?} is not one of {}", groups.join(", ")),
            ));
        }
        if self.group.is_some() && self.action().is_none() {
            return text("group", "group is for client actions; this step is done to the broker");
        }
        if !(self.share > 0.0 && self.share <= 1.0) {
            return Some((
                "share",
                format!("share = {} must be above 0 and at most 1", self.share),
            ));
        }
        if let Some(node) = self.node {
            if node == 0 {
                return text("node", "node = 0: nodes are counted from 1");
            }
            if !self.fault.is_some_and(|fault| fault.is_of_broker() || fault.is_of_network()) {
                return text("node", "node is for faults of the broker and of the network");
            }
        }
        if self.every.is_some_and(|every| every.seconds <= 0.0) {
            return text("every", "every must be above 0");
        }
        if self.every.is_some() && self.action().is_none() {
            return text("every", "every is for client actions; write the step twice");
        }
        if self.fault == Some(Fault::Delay) && !self.delay_ms.is_some_and(is_delay) {
            return text("at", "a delay has delay_ms, above 0 and at most 60000");
        }
        let is_share = |share: f64| share > 0.0 && share < 1.0;
        if self.fault == Some(Fault::Loss) && !self.loss_share.is_some_and(is_share) {
            return text("at", "a loss has loss_share, above 0 and below 1");
        }
        let lasts = self.lasts.seconds > 0.0;
        let needs_length = [Fault::Freeze, Fault::Delay, Fault::Loss, Fault::SlowReader].map(Some);
        if needs_length.contains(&self.fault) && !lasts {
            return text("at", "this step needs for, such as for = \"3s\"");
        }
        None
    }
}

fn is_delay(ms: f64) -> bool {
    ms > 0.0 && ms <= 60_000.0
}

/// How clients come back that lost their connections.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reconnect {
    /// After this time, and as often until they are there.
    pub after: Span,
    /// Attempts a second of all clients together. Without it as many as can, 1,000 at a time.
    pub rate_per_s: Option<f64>,
}

impl Step {
    pub(super) fn is_join(&self) -> bool {
        self.clients == Some(ClientAction::Join)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(text: &str) -> Step {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_step_says_what_is_wrong_with_it() {
        let groups = ["subscriber", "publisher"];
        let wrong = |text: &str| step(text).fault_of(&groups).map(|(key, _)| key);
        assert_eq!(wrong("at = '5s'\nfault = 'freeze'\nfor = '3s'"), None);
        assert_eq!(wrong("at = 5\nclients = 'join'\ngroup = 'publisher'"), None);
        assert_eq!(wrong("at = 5"), Some("at"));
        assert_eq!(wrong("at = 5\nfault = 'freeze'"), Some("at"));
        assert_eq!(wrong("at = 5\nfault = 'cut'\nclients = 'leave'"), Some("at"));
        assert_eq!(wrong("at = 5\nfault = 'cut'\ngroup = 'nobody'"), Some("group"));
        assert_eq!(wrong("at = 5\nfault = 'kill'\ngroup = 'publisher'"), Some("group"));
        assert_eq!(wrong("at = 5\nfault = 'cut'\nshare = 0.0"), Some("share"));
        assert_eq!(wrong("at = 5\nfault = 'kill'\nnode = 2"), None);
        assert_eq!(wrong("at = 5\nfault = 'kill'\nnode = 0"), Some("node"));
        assert_eq!(wrong("at = 5\nfault = 'cut'\nnode = 1"), Some("node"));
        assert_eq!(wrong("at = 5\nfault = 'delay'\nfor = 1"), Some("at"));
        assert_eq!(wrong("at = 5\nfault = 'loss'\nfor = 1\nloss_share = 1.0"), Some("at"));
        assert!(toml::from_str::<Step>("at = '5 days'\nfault = 'cut'").is_err());
    }
}
