//! From a plan to an engine that is ready to run it.

use super::book::{Book, Slot, State};
use super::deadlines::Deadlines;
use super::inspection::Inspection;
use super::phase_clock::PhaseClock;
use super::publishing::Publishing;
use super::silences::Silences;
use super::step_runner::StepRunner;
use super::tokens::Tokens;
use super::watch::Watch;
use super::{Connecting, Ending, Engine};
use crate::audit::Audit;
use crate::baton::Baton;
use crate::cpu::thread_cpu_us;
use crate::outcome::{Connections, Operations};
use crate::payload::bytes_min;
use crate::plan::{Credentials, Plan, ProtocolVersion, Publish, Transports};
use crate::publisher::Publisher;
use crate::recorder::Recorder;
use crate::rotation::Rotation;
use crate::schedule::{Stream, streams};
use crate::steps::{Action, Cue, SessionKept};
use crate::template::expand;
use crate::{LoadError, topic_error};
use std::collections::BinaryHeap;
use std::rc::Rc;
use weir_client::Client;
use weir_reactor::now_us;
use weir_wire::topic::{TopicFilter, is_valid_name};

impl<'a> Engine<'a> {
    pub(super) fn new(plan: &'a Plan, baton: Option<&'a Baton>) -> Result<Self, LoadError> {
        check(plan)?;
        let streams = streams(plan, 0);
        let topics = topics_of(plan, &streams)?;
        let (slots, publishers) = clients_of(plan, &streams, &topics, baton);
        let named: Vec<(u32, &str)> =
            topics.iter().map(|(client, text)| (*client, &**text)).collect();
        let mut audit = Audit::new(plan, &named, &[plan.slice]);
        for stream in &streams {
            for place in 0..stream.group.clients {
                audit.measure_from(stream.first_publisher + place, stream.first_measured(place));
            }
        }
        let publishing = Publishing::new(plan, &streams);
        let version = plan.version.on_wire();
        let clients = slots.iter().map(|_| Client::new(version)).collect();
        let planned = slots.len() as u64;
        let now_us = now_us();
        Ok(Self {
            plan,
            baton,
            transports: Transports::new(&plan.route, plan.target.port())?,
            clients,
            tokens: Tokens::default(),
            clock: PhaseClock::new(plan.phases, !publishers.is_empty(), now_us),
            book: Book {
                audit,
                inspection: Inspection::new(plan, &streams),
                slots,
                publishers,
                recorder: Recorder::new(now_us, thread_cpu_us()),
                connections: Connections { planned, ..Connections::default() },
                subscriptions: Operations::default(),
                access: None,
                owed: 0,
                open: 0,
                backlog: 0,
                read_us: now_us,
                ready: 0,
                live: 0,
                unreachable: 0,
                unreachable_since_us: None,
                last_cause: String::new(),
                unclocked: 0,
            },
            connecting: Connecting::default(),
            subscribing: Deadlines::default(),
            publishing,
            pings: BinaryHeap::new(),
            runner: StepRunner::new(plan),
            watch: Watch::default(),
            silences: Silences::default(),
            began_us: now_us,
            cue: Cue::default(),
            connected: Default::default(),
            edges: Default::default(),
            fates: Vec::new(),
            has_intervals: true,
            ending: Ending::default(),
        })
    }
}

/// What is wrong with a plan before a client exists.
fn check(plan: &Plan) -> Result<(), LoadError> {
    let fail = |text: String| Err(LoadError::Plan(text));
    if plan.groups.iter().all(|group| group.clients == 0) {
        return fail("it has no clients".into());
    }
    let rate = plan.connect.rate_per_s;
    if !(rate > 0.0 && rate.is_finite()) {
        return fail(format!("connect.rate_per_s = {rate} must be above 0"));
    }
    check_credentials(plan)?;
    if plan.interval_ms == 0 {
        return fail("interval_ms = 0 must be above 0".into());
    }
    check_course(plan)?;
    check_shifts(plan)?;
    for group in &plan.groups {
        let name = &group.name;
        for subscription in &group.subscriptions {
            for text in [Some(&subscription.filter), subscription.asked.as_ref()] {
                let Some(filter) = text.map(|text| expand(text, 0, plan.run)) else { continue };
                TopicFilter::parse(&filter).ok_or_else(|| topic_error(name, &filter))?;
            }
        }
        if let Some(bad) = group.subscriptions.iter().find(|subscription| subscription.qos > 2) {
            return fail(format!("group {name}: qos = {} must be 0, 1 or 2", bad.qos));
        }
        if let Some(publish) = &group.publish {
            check_publish(name, publish)?;
        }
    }
    Ok(())
}

fn check_credentials(plan: &Plan) -> Result<(), LoadError> {
    let Credentials { user_name, password } = &plan.credentials;
    // Section 3.1.2.9 of 3.1.1; 5.0 allows it.
    if plan.version == ProtocolVersion::V311 && password.is_some() && user_name.is_none() {
        return Err(LoadError::Plan("MQTT 3.1.1 has no password without a user name".into()));
    }
    if plan.users > 0 && user_name.is_none() {
        return Err(LoadError::Plan("users without a user name".into()));
    }
    let length = [user_name, password].into_iter().flatten().map(String::len).max().unwrap_or(0);
    // A number and a dash may follow the name.
    if length > usize::from(u16::MAX) - if plan.users > 0 { 11 } else { 0 } {
        return Err(LoadError::Plan("user name and password have at most 65535 bytes".into()));
    }
    Ok(())
}

fn check_publish(name: &str, publish: &Publish) -> Result<(), LoadError> {
    let fail = |text: String| Err(LoadError::Plan(format!("group {name}: {text}")));
    let rate = publish.rate_per_s;
    if !(rate > 0.0 && rate.is_finite()) {
        return fail(format!("publish.rate_per_s = {rate} must be above 0"));
    }
    if let Some(to) = publish.rate_to_per_s.filter(|to| !(*to >= 0.0 && to.is_finite())) {
        return fail(format!("publish.rate_to_per_s = {to} must not be below 0"));
    }
    let least = bytes_min(publish.payload);
    if publish.payload_bytes_to.unwrap_or(least).min(publish.payload_bytes) < least {
        let bytes = publish.payload_bytes;
        return fail(format!(
            "publish.payload_bytes = {bytes} must be at least {least}, the stamp"
        ));
    }
    if publish.payload == crate::plan::Payload::Json && publish.payload_bytes_to.is_some() {
        return fail("publish.payload_bytes_to: JSON is of one size".into());
    }
    if publish.qos > 2 {
        return fail(format!("qos = {} must be 0, 1 or 2", publish.qos));
    }
    Ok(())
}

fn check_course(plan: &Plan) -> Result<(), LoadError> {
    let course = &plan.course;
    let fail = |text: String| Err(LoadError::Plan(text));
    let wills = plan.groups.iter().filter_map(|group| group.publish.as_ref());
    if !plan.slice.is_whole() && (!course.is_empty() || wills.clone().any(|publish| publish.will)) {
        return fail("steps, wills and clients that come back are run by one process".into());
    }
    for step in &course.steps {
        let Some(group) = plan.groups.get(usize::from(step.group)) else {
            return fail(format!("a step names group {}, which there is not", step.group));
        };
        if step.clients > group.clients {
            let (clients, name) = (step.clients, &group.name);
            return fail(format!("a step is for {clients} clients of group {name}: too many"));
        }
    }
    Ok(())
}

fn check_shifts(plan: &Plan) -> Result<(), LoadError> {
    let Some(shifts) = &plan.shifts else { return Ok(()) };
    let fail = |text: String| Err(LoadError::Plan(text));
    if let Some(fault) = shifts.fault() {
        return fail(fault);
    }
    let mut publishing = plan.groups.iter().filter_map(|group| group.publish.as_ref());
    if !publishing.all(Publish::is_even) {
        return fail("ramps and wills cannot be published in turn with another run".into());
    }
    if !plan.slice.is_whole() || !plan.course.is_empty() {
        return fail("steps and agents cannot take turns with another run".into());
    }
    Ok(())
}

/// Whether the group's clients join while the run lasts, and have no connection before.
fn joins(plan: &Plan, group: usize) -> bool {
    let mut steps = plan.course.steps.iter();
    steps.any(|step| usize::from(step.group) == group && step.action == Action::Join)
}

/// The publishers' clients and topics, in order.
pub(crate) fn topics_of(
    plan: &Plan,
    streams: &[Stream<'_>],
) -> Result<Vec<(u32, Rc<str>)>, LoadError> {
    let mut topics = Vec::new();
    for stream in streams {
        for index in 0..stream.group.clients {
            let topic = expand(&stream.publish.topic, index, plan.run);
            if !is_valid_name(&topic) {
                return Err(topic_error(&stream.group.name, &topic));
            }
            topics.push((stream.first_client + index, topic.into()));
        }
    }
    Ok(topics)
}

/// The clients of the slice, and all publishers of the plan.
fn clients_of(
    plan: &Plan,
    streams: &[Stream<'_>],
    topics: &[(u32, Rc<str>)],
    baton: Option<&Baton>,
) -> (Vec<Slot>, Vec<Publisher>) {
    let (mut slots, mut publishers) = (Vec::new(), Vec::with_capacity(topics.len()));
    let mut client = 0;
    let mut streams = streams.iter().enumerate();
    for (at, group) in plan.groups.iter().enumerate() {
        let publishes = group.publish.is_some() && group.clients > 0;
        let stream = if publishes { streams.next() } else { None };
        let joins = joins(plan, at);
        for index in 0..group.clients {
            let is_here = plan.slice.has(group, client);
            let number = publishers.len() as u32;
            let rotation = Rotation::new(index, group.node, plan.nodes());
            if let Some((schedule, Stream { publish, schedule: due, .. })) = stream {
                let topic = Rc::clone(&topics[number as usize].1);
                let (here, schedule) = (slots.len() as u32, schedule as u32);
                let mut of = Publisher::new(here, topic, publish, schedule, (index, group.clients));
                of.node = rotation.node();
                publishers.push(if is_here {
                    of
                } else {
                    let is_clocked = baton.is_none_or(|baton| baton.is_clocked(group, client));
                    of.elsewhere(due.total_of(index), is_clocked)
                });
            }
            if is_here {
                slots.push(Slot {
                    state: if joins { State::Away } else { State::Planned },
                    token: None,
                    group: at as u16,
                    subscriptions_open: 0,
                    client,
                    index,
                    rotation,
                    session: SessionKept::Connected,
                    publisher: stream.is_some().then_some(number),
                    asked_us: 0,
                    reached_us: 0,
                    opened_us: 0,
                    subscribed_us: u64::MAX,
                    was_quiet: false,
                    lost_us: 0,
                    heard_us: 0,
                    pinged_us: 0,
                    has_session: false,
                    is_subscribed: false,
                    stalled_until_us: 0,
                    is_pinging: false,
                    disconnect: None,
                });
            }
            client += 1;
        }
    }
    (slots, publishers)
}
