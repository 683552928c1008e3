//! From a plan to an engine that is ready to run it.

use super::{Book, Engine, Slot, State};
use crate::audit::Audit;
use crate::cpu::thread_cpu_us;
use crate::outcome::{Connections, Operations, Phase};
use crate::plan::{Plan, ProtocolVersion};
use crate::publisher::Publisher;
use crate::recorder::Recorder;
use crate::stamp::STAMP_BYTES;
use crate::template::expand;
use crate::{LoadError, topic_error};
use std::collections::{BinaryHeap, VecDeque};
use weir_client::Client;
use weir_reactor::now_us;
use weir_wire::topic::{TopicFilter, is_valid_name};
use weir_wire::{QoS, Version};

impl<'a> Engine<'a> {
    pub(super) fn new(plan: &'a Plan) -> Result<Self, LoadError> {
        check(plan)?;
        let (slots, publishers, positions) = clients_of(plan)?;
        let topics: Vec<(u32, &str)> = publishers.iter().map(|p| (p.client, &*p.topic)).collect();
        let audit = Audit::new(plan, &topics);
        let version = version_of(plan);
        let clients = slots.iter().map(|_| Client::new(version)).collect();
        let payload_bytes = publishers.iter().map(|p| p.payload_bytes).max().unwrap_or(0);
        let planned = slots.len() as u64;
        let now_us = now_us();
        Ok(Self {
            plan,
            clients,
            by_token: Vec::new(),
            book: Book {
                audit,
                slots,
                publishers,
                recorder: Recorder::new(now_us, thread_cpu_us()),
                connections: Connections { planned, ..Connections::default() },
                subscriptions: Operations::default(),
                owed: 0,
                open: 0,
                backlog: 0,
                measure: None,
                read_us: now_us,
                ready: 0,
                live: 0,
                unreachable: 0,
                unreachable_since_us: None,
                last_cause: String::new(),
            },
            schedules: Vec::new(),
            positions,
            phase: Phase::Connect,
            phases: Vec::new(),
            phase_start_us: now_us,
            next_client: 0,
            connecting: VecDeque::new(),
            subscribing: VecDeque::new(),
            pings: BinaryHeap::new(),
            scratch: Vec::new(),
            payload: vec![b'.'; payload_bytes as usize],
            held: Vec::new(),
            cpu: Default::default(),
            has_intervals: true,
            end: None,
            ended_us: 0,
            is_over: false,
        })
    }
}

/// The protocol as the wire names it.
pub(super) fn version_of(plan: &Plan) -> Version {
    match plan.version {
        ProtocolVersion::V311 => Version::V311,
        ProtocolVersion::V5 => Version::V5,
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
    if plan.interval_ms == 0 {
        return fail("interval_ms = 0 must be above 0".into());
    }
    for group in &plan.groups {
        let name = &group.name;
        if let Some(bad) = group.subscriptions.iter().find(|subscription| subscription.qos > 2) {
            return fail(format!("group {name}: qos = {} must be 0, 1 or 2", bad.qos));
        }
        let Some(publish) = &group.publish else { continue };
        let rate = publish.rate_per_s;
        if !(rate > 0.0 && rate.is_finite()) {
            return fail(format!("group {name}: publish.rate_per_s = {rate} must be above 0"));
        }
        if (publish.payload_bytes as usize) < STAMP_BYTES {
            let bytes = publish.payload_bytes;
            return fail(format!(
                "group {name}: publish.payload_bytes = {bytes} must be at least {STAMP_BYTES}, \
                 the stamp"
            ));
        }
        if publish.qos > 2 {
            return fail(format!("group {name}: qos = {} must be 0, 1 or 2", publish.qos));
        }
    }
    Ok(())
}

type Clients = (Vec<Slot>, Vec<Publisher>, Vec<(u32, u64)>);

fn clients_of(plan: &Plan) -> Result<Clients, LoadError> {
    let (mut slots, mut publishers, mut positions) = (Vec::new(), Vec::new(), Vec::new());
    for (at, group) in plan.groups.iter().enumerate() {
        if group.publish.is_some() && group.clients > 0 {
            positions.push((publishers.len() as u32, 0));
        }
        for subscription in &group.subscriptions {
            let filter = expand(&subscription.filter, 0, plan.run);
            TopicFilter::parse(&filter).ok_or_else(|| topic_error(&group.name, &filter))?;
        }
        for index in 0..group.clients {
            let client = slots.len() as u32;
            let publisher = match &group.publish {
                None => None,
                Some(publish) => {
                    let topic = expand(&publish.topic, index, plan.run);
                    if !is_valid_name(&topic) {
                        return Err(topic_error(&group.name, &topic));
                    }
                    let qos = QoS::from_u8(publish.qos).unwrap_or_default();
                    let schedule = positions.len() as u32 - 1;
                    publishers.push(Publisher::new(
                        client,
                        topic.into(),
                        publish,
                        qos,
                        schedule,
                        index,
                    ));
                    Some(publishers.len() as u32 - 1)
                }
            };
            slots.push(Slot {
                state: State::Planned,
                token: None,
                group: at as u16,
                subscriptions_open: 0,
                index,
                publisher,
                asked_us: 0,
                disconnect: None,
            });
        }
    }
    Ok((slots, publishers, positions))
}
