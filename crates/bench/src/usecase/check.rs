//! Reads the file of a use case, and refuses what its types allow and the suite does not.

use super::file::{Group, Need, UseCase, UseCaseError};
use super::step::{ClientAction, Step};
use std::ops::Range;
use toml::de::{DeTable, DeValue};
use weir_load::payload::bytes_min;
use weir_load::plan::{Payload, ProtocolVersion, Publish};

/// A day; more would not fit the plan's milliseconds.
const CONNECT_TIMEOUT_S_MAX: u32 = 86_400;

/// The protocol's remaining length without the longest topic and what else is before the payload.
pub(crate) const PAYLOAD_BYTES_MAX: u32 = 268_435_455 - 65_535 - 5;

/// The place of a value in the file: keys, and indices of arrays as text.
type Place = Vec<String>;

/// What is wrong, and where.
type Fault = (Place, String);

impl UseCase {
    /// Reads a file's text; `path` is for errors.
    ///
    /// # Errors
    /// Anything that is not a use case, with its line.
    pub fn parse(path: &str, text: &str) -> Result<Self, UseCaseError> {
        let mut use_case: Self = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            UseCaseError::Parse {
                path: path.into(),
                line: text[..at].matches('\n').count() + 1,
                message: error.message().replace('\n', " "),
            }
        })?;
        text.clone_into(&mut use_case.text);
        check(&use_case, path)?;
        Ok(use_case)
    }
}

/// Refuses a use case that cannot be run as it is written.
fn check(use_case: &UseCase, path: &str) -> Result<(), UseCaseError> {
    let all = top(use_case).and_then(|()| groups(use_case)).and_then(|()| steps(use_case));
    all.map_err(|(place, message)| UseCaseError::Value {
        path: path.into(),
        line: line_of(&use_case.text, &place),
        message,
    })
}

/// The line of a place in the file, from 1: of the nearest table around it if it is not written.
fn line_of(text: &str, place: &[String]) -> usize {
    let at = span_of(text, place).map_or(0, |span| span.start);
    text.get(..at).unwrap_or_default().matches('\n').count() + 1
}

fn span_of(text: &str, place: &[String]) -> Option<Range<usize>> {
    let document = DeTable::parse(text).ok()?;
    let (first, rest) = place.split_first()?;
    let mut value = document.get_ref().get(first.as_str())?;
    for step in rest {
        let next = match value.get_ref() {
            DeValue::Table(table) => table.get(step.as_str()),
            DeValue::Array(array) => step.parse::<usize>().ok().and_then(|at| array.get(at)),
            _ => None,
        };
        let Some(next) = next else { break };
        value = next;
    }
    Some(value.span())
}

fn fault(place: &[&str], message: impl Into<String>) -> Result<(), Fault> {
    Err((place.iter().map(|&step| step.into()).collect(), message.into()))
}

fn is_rate(rate: f64) -> bool {
    rate > 0.0 && rate.is_finite()
}

fn top(use_case: &UseCase) -> Result<(), Fault> {
    if use_case.name.is_empty() || use_case.name.contains(['/', '\\', '\0']) {
        return fault(&["name"], "name must not be empty and must not contain a slash");
    }
    let times = [
        ("warm_up_s", use_case.warm_up_s),
        ("measure_s", use_case.measure_s(None)),
        ("drain_s", use_case.drain_s),
    ];
    for (key, time) in times {
        if !(0.0..=1e7).contains(&time) {
            return fault(&[key], format!("{key} = {time} must be 0 to 10000000 seconds"));
        }
    }
    let rate = use_case.connect_rate_per_s;
    if !is_rate(rate) {
        let text = format!("connect_rate_per_s = {rate} must be above 0");
        return fault(&["connect_rate_per_s"], text);
    }
    let again = use_case.reconnect.and_then(|reconnect| reconnect.rate_per_s);
    if let Some(rate) = again.filter(|&rate| !is_rate(rate)) {
        let text = format!("rate_per_s = {rate} must be above 0");
        return fault(&["reconnect", "rate_per_s"], text);
    }
    let timeout = use_case.connect_timeout_s;
    if !(1..=CONNECT_TIMEOUT_S_MAX).contains(&timeout) {
        let text = format!("connect_timeout_s = {timeout} must be 1 to {CONNECT_TIMEOUT_S_MAX}");
        return fault(&["connect_timeout_s"], text);
    }
    if let Some(nodes) = use_case.nodes.filter(|nodes| !(1..=NODES_MAX).contains(nodes)) {
        return fault(&["nodes"], format!("nodes = {nodes} must be 1 to {NODES_MAX}"));
    }
    if let Err((key, message)) = use_case.connection.check() {
        return fault(&["connection", key], message);
    }
    secure(use_case)?;
    let contract = &use_case.contract;
    let shares = [
        ("rate_tolerance", contract.rate_tolerance),
        ("lost_share_max", contract.lost_share_max),
        ("behind_share_max", contract.behind_share_max),
    ];
    for (key, share) in shares {
        if !(0.0..=1.0).contains(&share) {
            return fault(&["contract", key], format!("{key} = {share} must be 0 to 1"));
        }
    }
    Ok(())
}

/// More than one host can start.
const NODES_MAX: u32 = 64;

/// More would take longer to make than a run lasts.
const MADE_MAX: u32 = 100_000;

/// What a run makes for its broker.
fn secure(use_case: &UseCase) -> Result<(), Fault> {
    let UseCase { transport, tls, access, .. } = use_case;
    if !transport.has_tls() && (tls.resume || tls.client_certificates > 0) {
        return fault(&["tls"], "[tls] needs transport = \"tls\" or \"wss\"");
    }
    let counts = [
        (["tls", "client_certificates"], tls.client_certificates, MADE_MAX),
        (["access", "users"], access.users, MADE_MAX),
        (["access", "rules"], access.rules, 10 * MADE_MAX),
    ];
    for ([table, key], count, most) in counts {
        if count > most {
            return fault(&[table, key], format!("{key} = {count} must be at most {most}"));
        }
    }
    if access.rules > 0 && access.users == 0 {
        return fault(&["access", "rules"], "rules are of users: name their number beside it");
    }
    Ok(())
}

fn groups(use_case: &UseCase) -> Result<(), Fault> {
    let groups = &use_case.group;
    if groups.iter().all(|group| group.clients == 0) {
        return fault(&["group"], "there must be a [[group]] with clients above 0");
    }
    for (at, group) in groups.iter().enumerate() {
        node(group)
            .and_then(|()| client_ids(group, &groups[..at]))
            .and_then(|()| subscriptions(group))
            .and_then(|()| group.publish.as_ref().map_or(Ok(()), publish))
            .map_err(|(place, message)| {
                let whole = ["group".into(), at.to_string()].into_iter().chain(place).collect();
                (whole, format!("group {:?}: {message}", group.name))
            })?;
    }
    Ok(())
}

fn node(group: &Group) -> Result<(), Fault> {
    if group.node == 0 {
        return fault(&["node"], "node = 0: nodes are counted from 1");
    }
    Ok(())
}

/// The steps, and what else the time line needs.
fn steps(use_case: &UseCase) -> Result<(), Fault> {
    let names: Vec<&str> = use_case.group.iter().map(|group| group.name.as_str()).collect();
    for (at, step) in use_case.step.iter().enumerate() {
        if let Some((key, message)) = step.fault_of(&names) {
            let place = ["step", &at.to_string(), key].map(String::from);
            return Err((place.into(), format!("step {}: {message}", at + 1)));
        }
        let overlaps =
            |other: &&Step| step.at.seconds < other.end_s() && other.at.seconds < step.end_s();
        let earlier = use_case.step[..at].iter().filter(|other| is_alone(other));
        if is_alone(step) && earlier.filter(overlaps).count() > 0 {
            let place = ["step", &at.to_string(), "at"].map(String::from);
            let text = format!("step {}: it overlaps another step of broker or network", at + 1);
            return Err((place.into(), text));
        }
        if let Some(name) = owed_before_joining(use_case, step) {
            let place = ["step", &at.to_string(), "at"].map(String::from);
            let text = format!(
                "step {}: group {name:?} subscribes and joins late: what is published before is \
                 owed only if it is retained, one message each (retain = true, count = 1)",
                at + 1
            );
            return Err((place.into(), text));
        }
    }
    if let Some((key, message)) = use_case.thresholds.fault() {
        return fault(&["thresholds", key], message);
    }
    for need in needed(use_case) {
        if !use_case.needs.contains(&need) {
            let text = format!("needs must name what the use case needs: {:?}", need.name());
            return fault(&["needs"], text);
        }
    }
    Ok(())
}

/// A step that bears no other at its time: its end would end the other, too.
fn is_alone(step: &Step) -> bool {
    step.fault.is_some_and(|fault| fault.is_of_broker() || fault.is_of_network())
}

/// A group that joins late and subscribes to more than what is retained once.
fn owed_before_joining<'a>(use_case: &'a UseCase, step: &Step) -> Option<&'a str> {
    if step.clients != Some(ClientAction::Join) {
        return None;
    }
    let publishes = || use_case.group.iter().filter_map(|group| group.publish.as_ref());
    let is_kept_once = publishes().all(|publish| publish.retain && publish.count == Some(1));
    let joins = |group: &&Group| step.group.as_ref().is_none_or(|name| name == &group.name);
    let mut joining = use_case.group.iter().filter(joins);
    let found = joining.find(|group| !group.subscriptions.is_empty())?;
    (!is_kept_once).then_some(&found.name)
}

/// What a broker has to be able to do for a use case with steps or `needs`; one without either is
/// of the suite of 2023, which names none.
fn needed(use_case: &UseCase) -> Vec<Need> {
    if use_case.needs.is_empty() && use_case.step.is_empty() {
        return Vec::new();
    }
    let groups = &use_case.group;
    let publishes = || groups.iter().filter_map(|group| group.publish.as_ref());
    let subscribes = || groups.iter().flat_map(|group| &group.subscriptions);
    let is_kept = |group: &Group| !group.clean_start.unwrap_or(use_case.clean_start);
    let is_qos_2 = publishes().any(|p| p.qos == 2) || subscribes().any(|s| s.qos == 2);
    let is_killed =
        use_case.step.iter().any(|step| step.fault.is_some_and(super::Fault::is_killing));
    let all = [
        (Need::Mqtt5, use_case.mqtt_version == ProtocolVersion::V5),
        (Need::SharedSubscriptions, subscribes().any(|s| s.filter.starts_with("$share/"))),
        (Need::Qos2, is_qos_2),
        (Need::Retained, publishes().any(|p| p.retain)),
        (Need::Wills, publishes().any(|p| p.will)),
        (Need::Sessions, groups.iter().any(is_kept)),
        (Need::Restart, is_killed),
    ];
    all.into_iter().filter(|(_, is_needed)| *is_needed).map(|(need, _)| need).collect()
}

/// Two clients of one identifier would take each other's connection over.
fn client_ids(group: &Group, before: &[Group]) -> Result<(), Fault> {
    if group.clients > 1 && !group.client_id.contains("{i}") {
        return fault(
            &["client_id"],
            "client_id must contain {i}, or all clients have the same \
            one",
        );
    }
    match before.iter().find(|other| other.client_id == group.client_id) {
        Some(other) => {
            let text = format!("client_id is that of group {:?}; give it its own", other.name);
            fault(&["client_id"], text)
        }
        None => Ok(()),
    }
}

fn subscriptions(group: &Group) -> Result<(), Fault> {
    if group.filters_each == 0 {
        return fault(&["filters_each"], "filters_each = 0 must be above 0");
    }
    for (at, subscription) in group.subscriptions.iter().enumerate() {
        let at = at.to_string();
        let (filter, qos) = (&subscription.filter, subscription.qos);
        if qos > 2 {
            let text = format!("qos = {qos} must be 0, 1 or 2");
            return fault(&["subscriptions", &at, "qos"], text);
        }
        if !is_filter(filter) {
            let text = format!("filter = {filter:?} is not a topic filter, such as test/#");
            return fault(&["subscriptions", &at, "filter"], text);
        }
    }
    Ok(())
}

fn publish(publish: &Publish) -> Result<(), Fault> {
    let Publish { topic, qos, rate_per_s, payload_bytes, payload_bytes_to, .. } = publish;
    if topic.is_empty() || topic.contains(['#', '+', '\0']) {
        let text = format!("topic = {topic:?} must not be empty and must have no wildcard");
        return fault(&["publish", "topic"], text);
    }
    if *qos > 2 {
        return fault(&["publish", "qos"], format!("qos = {qos} must be 0, 1 or 2"));
    }
    if !is_rate(*rate_per_s) {
        let text = format!("rate_per_s = {rate_per_s} must be above 0");
        return fault(&["publish", "rate_per_s"], text);
    }
    let least = bytes_min(publish.payload);
    let sizes = [("payload_bytes", Some(*payload_bytes)), ("payload_bytes_to", *payload_bytes_to)];
    for (key, size) in sizes {
        let Some(size) = size.filter(|size| !(least..=PAYLOAD_BYTES_MAX).contains(size)) else {
            continue;
        };
        let text = format!(
            "{key} = {size} must be {least} (the stamp that is audited) to {PAYLOAD_BYTES_MAX}"
        );
        return fault(&["publish", key], text);
    }
    timing(publish)
}

fn timing(publish: &Publish) -> Result<(), Fault> {
    let Publish { payload, rate_to_per_s, from_s, until_s, count, will, .. } = publish;
    if *payload == Payload::Json && publish.payload_bytes_to.is_some() {
        return fault(&["publish", "payload_bytes_to"], "a JSON payload has one size");
    }
    if let Some(to) = rate_to_per_s.filter(|to| !(*to >= 0.0 && to.is_finite())) {
        let text = format!("rate_to_per_s = {to} must not be below 0");
        return fault(&["publish", "rate_to_per_s"], text);
    }
    for (key, time) in [("from_s", from_s), ("until_s", until_s)] {
        if let Some(time) = time.filter(|time| !(0.0..=1e7).contains(time)) {
            let text = format!("{key} = {time} must be 0 to 10000000 seconds");
            return fault(&["publish", key], text);
        }
    }
    if matches!((from_s, until_s), (Some(from), Some(until)) if from >= until) {
        return fault(&["publish", "until_s"], "until_s must be after from_s");
    }
    if *count == Some(0) {
        return fault(&["publish", "count"], "count = 0 must be above 0");
    }
    if *will && from_s.is_none() {
        return fault(&["publish", "will"], "a will needs from_s: when its client is cut");
    }
    Ok(())
}

/// Whether the text is a topic filter, shared or not (section 4.7 of both standards).
fn is_filter(text: &str) -> bool {
    let filter = match text.strip_prefix("$share/") {
        Some(shared) => match shared.split_once('/') {
            Some((name, filter)) if !name.is_empty() && !name.contains(['#', '+']) => filter,
            _ => return false,
        },
        None => text,
    };
    let mut levels = filter.split('/').peekable();
    while let Some(level) = levels.next() {
        let is_wild = level.contains(['#', '+']);
        if is_wild && (level.len() > 1 || (level == "#" && levels.peek().is_some())) {
            return false;
        }
    }
    !filter.is_empty() && !filter.contains('\0')
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"name = "mine"
revision = 1
about = "for a test"
mqtt_version = "5.0"
connect_rate_per_s = 10

[[group]]
name = "one"
clients = 2
client_id = "a-{i}"
scales = true
subscriptions = [
    { filter = "t/{i}", qos = 1 },
    { filter = "$share/g/t/+/#", qos = 0 },
]

[[group]]
name = "two"
clients = 2
client_id = "b-{i}"
scales = true
[group.publish]
topic = "t/{i}"
qos = 1
rate_per_s = 1
payload_bytes = 16
"#;

    #[test]
    fn a_value_that_cannot_be_is_told_with_its_line_and_key() {
        UseCase::parse("my.toml", GOOD).unwrap();
        let cases = [
            ("connect_rate_per_s = 10", "connect_rate_per_s = 0", 5, "connect_rate_per_s"),
            ("about", "connect_timeout_s = 4294968\nabout", 3, "connect_timeout_s"),
            ("about", "drain_s = nan\nabout", 3, "drain_s"),
            ("\"mine\"", "\"../mine\"", 1, "name"),
            ("a-{i}", "a", 10, "client_id"),
            ("b-{i}", "a-{i}", 20, "client_id"),
            ("\"t/{i}\", qos = 1", "\"t/{i}\", qos = 3", 13, "qos"),
            ("$share/g/t", "$share/t#", 14, "filter"),
            ("topic = \"t/{i}\"", "topic = \"t/#\"", 23, "topic"),
            ("qos = 1\nrate", "qos = 9\nrate", 24, "qos"),
            ("rate_per_s = 1\npay", "rate_per_s = inf\npay", 25, "rate_per_s"),
            ("payload_bytes = 16", "payload_bytes = 15", 26, "payload_bytes"),
            ("payload_bytes = 16", "payload_bytes = 300_000_000", 26, "payload_bytes"),
            ("16\n", "16\n[contract]\nlost_share_max = 2\n", 28, "lost_share_max"),
        ];
        for (from, to, line, key) in cases {
            assert!(GOOD.contains(from), "{from}");
            let error = UseCase::parse("my.toml", &GOOD.replacen(from, to, 1)).unwrap_err();
            let text = error.to_string();
            assert!(text.starts_with(&format!("my.toml:{line}: ")), "{to}: {text}");
            assert!(text.contains(key) && !text.contains('\n'), "{to}: {text}");
        }
    }

    #[test]
    fn filters_are_told_from_what_is_none() {
        for good in ["#", "+", "a//b", "/", "$share/g/#", "+/a/#", "$SYS/x"] {
            assert!(is_filter(good), "{good}");
        }
        for bad in ["", "a#", "#/a", "a+/b", "$share/g", "$share//a", "$share/+/a", "$share/g/"] {
            assert!(!is_filter(bad), "{bad}");
        }
    }
}
