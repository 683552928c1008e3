//! Rules applied to messages, one after the other.

use crate::condition::{Message, Reading, Scratch, Verdict};
use crate::pace::{Sample, Throttle};
use crate::rule::{self, Action, FlowError, Publish, Rule, RuleSource};
use crate::{Fault, Faults};
use std::sync::Arc;

/// A message to publish. Topic and payload are borrowed until the call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output<'a> {
    /// The topic made.
    pub topic: &'a str,
    /// The bytes that came, or those made.
    pub payload: &'a [u8],
    /// 0, 1 or 2.
    pub qos: u8,
    /// RETAIN.
    pub retain: bool,
    /// Which rule made it: its place in [`Flow::rules`].
    pub rule: usize,
}

/// What one rule did since the flow was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuleCounts {
    /// Messages on a topic that it listens to.
    pub seen: u64,
    /// Those that its condition takes.
    pub matched: u64,
    /// Matches that its sample left out.
    pub sampled_out: u64,
    /// Matches over its rate.
    pub throttled: u64,
    /// Messages published.
    pub published: u64,
    /// Messages dropped.
    pub dropped: u64,
    /// Messages that it could not judge, or of which it could not make what it should.
    pub faults: Faults,
}

/// What the rules did with one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Applied {
    /// Rules that listen to its topic and saw it.
    pub seen: u32,
    /// Rules whose condition takes it.
    pub matched: u32,
    /// Messages published.
    pub published: u32,
    /// Rules that left it out by their sample.
    pub sampled_out: u32,
    /// Rules that left it out by their rate.
    pub throttled: u32,
    /// Rules that could not judge it or could not make what they should.
    pub invalid: u32,
    /// A rule dropped it: later rules did not see it.
    pub dropped: bool,
}

/// What a rule remembers.
#[derive(Debug, Clone)]
struct State {
    sample: Option<Sample>,
    /// Shared with the other threads.
    throttle: Option<Arc<Throttle>>,
    counts: RuleCounts,
}

/// Rules, compiled, with what they remember. A thread has its own: see [`Flow::split`].
#[derive(Debug)]
pub struct Flow {
    rules: Vec<Rule>,
    states: Vec<State>,
    scratch: Scratch,
    made: Made,
}

/// The memory of what is made.
#[derive(Debug, Default)]
struct Made {
    topic: String,
    payload: Vec<u8>,
}

impl Flow {
    /// Reads a file of `[[flow]]` rules.
    ///
    /// # Errors
    /// Names the rule and the place.
    pub fn parse(toml: &str) -> Result<Self, FlowError> {
        Self::compile(rule::read(toml)?)
    }

    /// Compiles rules that stand in a larger file.
    ///
    /// # Errors
    /// Names the rule and the place.
    pub fn compile(sources: Vec<RuleSource>) -> Result<Self, FlowError> {
        let rules = rule::compile(sources)?;
        let states = states(&rules);
        Ok(Self::new(rules, states))
    }

    fn new(rules: Vec<Rule>, states: Vec<State>) -> Self {
        Self { rules, states, scratch: Scratch::default(), made: Made::default() }
    }

    /// The same rules for so many threads, which share every rate and count from 0.
    #[must_use]
    pub fn split(&self, threads: u32) -> Vec<Self> {
        let states = states(&self.rules);
        (0..threads.max(1)).map(|_| Self::new(self.rules.clone(), states.clone())).collect()
    }

    /// The rules in the order in which they see a message.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// What the rules did so far, in the order of [`Flow::rules`].
    pub fn counts(&self) -> impl Iterator<Item = &RuleCounts> {
        self.states.iter().map(|state| &state.counts)
    }

    /// Shows a message to each rule that listens to its topic, in order.
    ///
    /// Calls `out` for each message to publish. A rule that drops ends it: later rules do not see
    /// the message. `now_us` is any clock that goes forward, in microseconds; threads share it.
    pub fn apply(
        &mut self,
        message: &Message<'_>,
        now_us: u64,
        out: &mut dyn FnMut(Output<'_>),
    ) -> Applied {
        let Self { rules, states, scratch, made } = self;
        let mut reading = scratch.reading(message);
        let mut applied = Applied::default();
        for (at, (rule, state)) in rules.iter().zip(states).enumerate() {
            if !rule.filter.matches(message.topic) {
                continue;
            }
            applied.seen += 1;
            state.counts.seen += 1;
            let verdict = match &rule.condition {
                None => Verdict::Match,
                Some(condition) => reading.check(condition),
            };
            match verdict {
                Verdict::Match => {}
                Verdict::NoMatch => continue,
                Verdict::Invalid(fault) => {
                    state.invalid(fault, &mut applied);
                    continue;
                }
            }
            applied.matched += 1;
            state.counts.matched += 1;
            if !state.let_through(now_us, &mut applied) {
                continue;
            }
            match &rule.action {
                Action::Publish(publish) => match made.make(publish, message, &mut reading) {
                    Ok(()) => {
                        let made = made.output(publish, message, at);
                        out(made);
                        applied.published += 1;
                        state.counts.published += 1;
                    }
                    Err(fault) => state.invalid(fault, &mut applied),
                },
                Action::Drop => {
                    applied.dropped = true;
                    state.counts.dropped += 1;
                    break;
                }
                Action::Count => {}
            }
        }
        applied
    }
}

fn states(rules: &[Rule]) -> Vec<State> {
    rules.iter().map(|rule| State::new(rule.source())).collect()
}

impl State {
    fn new(source: &RuleSource) -> Self {
        let share = source.sample.filter(|share| *share < 1.0);
        Self {
            sample: share.map(|share| Sample::new(share, &source.name)),
            throttle: source.throttle_per_s.map(|per_s| Arc::new(Throttle::new(per_s))),
            counts: RuleCounts::default(),
        }
    }

    fn invalid(&mut self, fault: Fault, applied: &mut Applied) {
        applied.invalid += 1;
        self.counts.faults.add(fault);
    }

    fn let_through(&mut self, now_us: u64, applied: &mut Applied) -> bool {
        if self.sample.as_mut().is_some_and(|sample| !sample.pass()) {
            applied.sampled_out += 1;
            self.counts.sampled_out += 1;
            return false;
        }
        if self.throttle.as_ref().is_some_and(|throttle| !throttle.pass(now_us)) {
            applied.throttled += 1;
            self.counts.throttled += 1;
            return false;
        }
        true
    }
}

impl Made {
    fn make(
        &mut self,
        publish: &Publish,
        message: &Message<'_>,
        reading: &mut Reading<'_>,
    ) -> Result<(), Fault> {
        let json = match publish.topic.reads_payload() {
            true => Some(reading.json()?),
            false => None,
        };
        publish.topic.render(message, json.as_ref(), &mut self.topic)?;
        self.payload.clear();
        match &publish.payload {
            None => Ok(()),
            Some(expression) => reading.write(expression, &mut self.payload),
        }
    }

    fn output<'a>(&'a self, publish: &Publish, message: &Message<'a>, rule: usize) -> Output<'a> {
        Output {
            topic: &self.topic,
            payload: if publish.payload.is_some() { &self.payload } else { message.payload },
            qos: publish.qos.unwrap_or(message.qos),
            retain: publish.retain,
            rule,
        }
    }
}
