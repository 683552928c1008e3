//! The `[[flow]]` rules of a configuration: as they are written, and checked.

use serde::{Deserialize, Serialize, Serializer};
use weir_flow::{Flow, FlowError, Rule, RuleSource};

/// The rules, in the order in which they see a message.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct FlowRules {
    /// As they are written.
    pub rules: Vec<RuleSource>,
}

impl FlowRules {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules, compiled.
    ///
    /// # Errors
    /// Names the rule and the place; a circle of rules that feed each other is one.
    pub(crate) fn compile(&self) -> Result<Flow, FlowError> {
        Flow::compile(self.rules.clone())
    }

    /// What is odd about rules that can be used, a line each.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let Ok(flow) = self.compile() else { return Vec::new() };
        flow.rules().iter().filter_map(Rule::warning).collect()
    }
}

/// A rule as it is printed: what is absent is left out.
#[derive(Serialize)]
struct Printed<'a> {
    name: &'a str,
    from: &'a str,
    qos: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    when: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    publish_qos: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retain: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sample: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    throttle_per_s: Option<f64>,
}

impl<'a> From<&'a RuleSource> for Printed<'a> {
    fn from(source: &'a RuleSource) -> Self {
        Self {
            name: &source.name,
            from: &source.from,
            qos: source.qos,
            when: source.when.as_deref(),
            to: source.to.as_deref(),
            payload: source.payload.as_deref(),
            action: source.action.as_deref(),
            publish_qos: source.publish_qos,
            retain: source.retain,
            sample: source.sample,
            throttle_per_s: source.throttle_per_s,
        }
    }
}

impl Serialize for FlowRules {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.rules.iter().map(Printed::from))
    }
}
