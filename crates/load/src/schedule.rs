//! When messages are due: pacing as a value.

use crate::plan::{Group, Plan, Publish};
use crate::shifts::Shifts;

/// One even stream of messages, dealt to publishers in turn. So each publisher has its own rate
/// and the publishers' phases are spread evenly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    start_us: u64,
    step_us: f64,
    publishers: u32,
    total: u64,
    /// Messages a microsecond that the rate grows by in a microsecond; 0 for an even stream.
    growth: f64,
    /// Whose time alone passes for it.
    shifts: Option<Shifts>,
}

/// One message of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Publisher within the schedule.
    pub publisher: u32,
    /// Sequence number at that publisher.
    pub sequence: u32,
    /// When it is due.
    pub intended_us: u64,
}

impl Schedule {
    /// `publishers` publishers with `rate_per_s` messages a second each, from `start_us` for
    /// `length_us`.
    pub fn new(start_us: u64, length_us: u64, publishers: u32, rate_per_s: f64) -> Self {
        let step_us = 1e6 / (rate_per_s * f64::from(publishers));
        let (total, growth, shifts) = (u64::MAX, 0.0, None);
        let mut schedule = Self { start_us, step_us, publishers, total, growth, shifts };
        schedule.total = schedule.count_before(start_us + length_us);
        schedule
    }

    /// The same rate, in these shifts alone, until `end_us`.
    fn in_shifts(mut self, shifts: Shifts, end_us: u64) -> Self {
        (self.shifts, self.total) = (Some(shifts), u64::MAX);
        self.total = self.count_before(end_us);
        self
    }

    /// Nothing is due from `time_us` on.
    pub(crate) fn end_at(&mut self, time_us: u64) {
        self.total = self.total.min(self.count_before(time_us));
    }

    /// As [`Schedule::new`], but the rate changes evenly to `to_per_s` over the whole length.
    pub fn ramp(
        start_us: u64,
        length_us: u64,
        publishers: u32,
        rate_per_s: f64,
        to_per_s: f64,
    ) -> Self {
        let mut schedule = Self::new(start_us, length_us, publishers, rate_per_s);
        if length_us > 0 {
            let change_per_us = (to_per_s - rate_per_s) * f64::from(publishers) / 1e6;
            schedule.growth = change_per_us / length_us as f64;
        }
        schedule.total = u64::MAX;
        schedule.total = schedule.count_before(start_us + length_us);
        schedule
    }

    /// At most `count` messages of each publisher.
    pub fn at_most(self, count: u32) -> Self {
        let total = self.total.min(u64::from(count) * u64::from(self.publishers));
        Self { total, ..self }
    }

    /// Messages in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// When the message with this number is due.
    #[inline]
    pub fn intended_us(&self, number: u64) -> u64 {
        if self.growth != 0.0 {
            return self.start_us + self.ramp_us(number) as u64;
        }
        let offset_us = (number as f64 * self.step_us) as u64;
        match self.shifts {
            None => self.start_us + offset_us,
            Some(shifts) => shifts.at_us(shifts.own_us(self.start_us) + offset_us),
        }
    }

    /// Where the messages due since the begin, r t + g t^2 / 2, are `number`. Beyond the top of a
    /// falling ramp no message is ever due.
    fn ramp_us(&self, number: u64) -> f64 {
        let rate = 1.0 / self.step_us;
        let root = rate * rate + 2.0 * self.growth * number as f64;
        if root < 0.0 { u64::MAX as f64 / 2.0 } else { 2.0 * number as f64 / (rate + root.sqrt()) }
    }

    /// The message with this number, from 0 to the total less one.
    #[inline]
    pub fn due(&self, number: u64) -> Due {
        let publishers = u64::from(self.publishers);
        Due {
            publisher: (number % publishers) as u32,
            sequence: (number / publishers) as u32,
            intended_us: self.intended_us(number),
        }
    }

    /// When a publisher's message is due.
    #[inline]
    pub fn intended_of(&self, publisher: u32, sequence: u32) -> u64 {
        let number = u64::from(sequence) * u64::from(self.publishers) + u64::from(publisher);
        self.intended_us(number)
    }

    /// How many messages are due before `time_us`.
    pub fn count_before(&self, time_us: u64) -> u64 {
        let Some(length_us) = time_us.checked_sub(self.start_us) else { return 0 };
        let length_us = self
            .shifts
            .map_or(length_us, |shifts| shifts.own_us(time_us) - shifts.own_us(self.start_us));
        let length = length_us as f64;
        let due = length / self.step_us + self.growth * length * length / 2.0;
        let mut count = due.max(0.0).ceil() as u64;
        // Rounding may be off by one either way; the definition decides.
        while count > 0 && self.intended_us(count - 1) >= time_us {
            count -= 1;
        }
        while self.intended_us(count) < time_us {
            count += 1;
        }
        count.min(self.total)
    }

    /// How many messages of one publisher are due before `time_us`.
    pub fn count_of_before(&self, publisher: u32, time_us: u64) -> u32 {
        self.share(self.count_before(time_us), publisher)
    }

    /// How many messages of one publisher there are in all.
    pub fn total_of(&self, publisher: u32) -> u32 {
        self.share(self.total, publisher)
    }

    /// One publisher's share of the first `count` messages.
    fn share(&self, count: u64, publisher: u32) -> u32 {
        let publishers = u64::from(self.publishers);
        let rest = u64::from(count % publishers > u64::from(publisher));
        (count / publishers + rest) as u32
    }
}

/// What one group of a plan publishes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream<'a> {
    pub(crate) group: &'a Group,
    pub(crate) publish: &'a Publish,
    /// Its first client and publisher among all of the plan.
    pub(crate) first_client: u32,
    pub(crate) first_publisher: u32,
    pub(crate) schedule: Schedule,
    measure_start_us: u64,
}

impl Stream<'_> {
    /// The publisher's first sequence of the measure phase.
    pub(crate) fn first_measured(&self, place: u32) -> u32 {
        self.schedule.count_of_before(place, self.measure_start_us)
    }
}

/// What the groups of a plan publish, in order, if publishing begins at `start_us`.
pub(crate) fn streams(plan: &Plan, start_us: u64) -> Vec<Stream<'_>> {
    let (mut first_client, mut first_publisher) = (0, 0);
    let mut streams = Vec::new();
    let [warm_up_us, measure_us] =
        [plan.phases.warm_up_ms, plan.phases.measure_ms].map(|length_ms| length_ms * 1_000);
    for group in &plan.groups {
        if let Some(publish) = group.publish.as_ref().filter(|_| group.clients > 0) {
            let measure_start_us = start_us + warm_up_us;
            streams.push(Stream {
                group,
                publish,
                first_client,
                first_publisher,
                schedule: schedule_of(
                    publish,
                    group.clients,
                    start_us,
                    [warm_up_us, measure_us],
                    plan.shifts,
                ),
                measure_start_us,
            });
            first_publisher += group.clients;
        }
        first_client += group.clients;
    }
    streams
}

fn schedule_of(
    publish: &Publish,
    clients: u32,
    start_us: u64,
    [warm_up_us, measure_us]: [u64; 2],
    shifts: Option<Shifts>,
) -> Schedule {
    let measure_start_us = start_us + warm_up_us;
    // Nothing is published beyond measure.
    let offset_us = |seconds: f64| ((seconds * 1e6) as u64).min(measure_us);
    let from_us = publish.from_s.map_or(start_us, |from| measure_start_us + offset_us(from));
    let until_us = measure_start_us + publish.until_s.map_or(measure_us, offset_us);
    let length_us = until_us.saturating_sub(from_us);
    let rate = publish.rate_per_s;
    let schedule = match publish.rate_to_per_s {
        None => Schedule::new(from_us, length_us, clients, rate),
        Some(to) => Schedule::ramp(from_us, length_us, clients, rate, to),
    };
    let schedule = match shifts {
        None => schedule,
        Some(shifts) => schedule.in_shifts(shifts, from_us + length_us),
    };
    publish.count.map_or(schedule, |count| schedule.at_most(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn totals_follow_from_rate_and_length(
            publishers in 1u32..2000, rate in 0.1f64..500.0, seconds in 1u64..60,
        ) {
            let schedule = Schedule::new(1_000, seconds * 1_000_000, publishers, rate);
            let expected = f64::from(publishers) * rate * seconds as f64;
            prop_assert!((schedule.total() as f64 - expected).abs() <= 1.0 + expected * 1e-9);
        }

        #[test]
        fn messages_are_due_in_order_within_the_time_and_evenly(
            publishers in 1u32..50, rate in 0.5f64..200.0,
        ) {
            let schedule = Schedule::new(77, 2_000_000, publishers, rate);
            let step_us = 1e6 / (f64::from(publishers) * rate);
            for number in 0..schedule.total() {
                let due_us = schedule.intended_us(number) as f64 - 77.0;
                prop_assert!((due_us - number as f64 * step_us).abs() <= 1.0);
            }
            if let Some(last) = schedule.total().checked_sub(1) {
                prop_assert!(schedule.intended_us(last) < 2_000_077);
            }
        }

        #[test]
        fn a_publishers_share_adds_up_to_the_total(
            publishers in 1u32..50, rate in 0.5f64..200.0, at in 0u64..3_000_000,
        ) {
            let schedule = Schedule::new(0, 2_000_000, publishers, rate);
            let count = |p| u64::from(schedule.count_of_before(p, at));
            let sum: u64 = (0..publishers).map(count).sum();
            prop_assert_eq!(sum, schedule.count_before(at));
            let sum: u64 = (0..publishers).map(|p| u64::from(schedule.total_of(p))).sum();
            prop_assert_eq!(sum, schedule.total());
        }

        #[test]
        fn a_schedule_that_ends_early_keeps_what_was_due_by_then(
            publishers in 1u32..50, rate in 0.5f64..200.0, at in 0u64..3_000_000,
        ) {
            let mut schedule = Schedule::new(0, 2_000_000, publishers, rate);
            let before = schedule;
            schedule.end_at(at);
            prop_assert_eq!(schedule.total(), before.count_before(at));
            prop_assert!(schedule.total() <= before.total());
        }

        #[test]
        fn a_ramp_is_in_order_and_has_the_mean_of_its_rates(
            publishers in 1u32..50, from in 1.0f64..200.0, to in 1.0f64..200.0,
        ) {
            let schedule = Schedule::ramp(77, 4_000_000, publishers, from, to);
            let expected = f64::from(publishers) * (from + to) / 2.0 * 4.0;
            prop_assert!((schedule.total() as f64 - expected).abs() <= 2.0, "{}", expected);
            let half = schedule.count_before(2_000_077) as f64;
            let first = f64::from(publishers) * (from * 3.0 + to) / 4.0 * 2.0;
            prop_assert!((half - first).abs() <= 2.0);
            let times: Vec<u64> = (0..schedule.total()).map(|n| schedule.intended_us(n)).collect();
            prop_assert!(times.is_sorted());
            prop_assert!(times.last().is_none_or(|&last| last < 4_000_077));
        }

        #[test]
        fn in_shifts_the_rate_is_kept_and_nothing_is_due_outside_of_them(
            publishers in 1u32..20, rate in 10.0f64..200.0, of in 1u32..5, at in 0u64..500_000,
            warm_up_us in 0u64..400_000,
        ) {
            let publish = Publish { rate_per_s: rate, ..Publish::default() };
            let length_us = u64::from(of) * 1_050_000;
            for index in 0..of {
                let shifts = Shifts { length_us: 100_000, pause_us: 5_000, index, of };
                let start = shifts.cycle_from(at);
                let [schedule, before] = [start, 0].map(|start| {
                    schedule_of(&publish, publishers, start, [warm_up_us, length_us], Some(shifts))
                });
                let warmed = [
                    schedule.count_before(start + warm_up_us), before.count_before(warm_up_us)
                ];
                // Ten shifts of a tenth of a second, and known before the begin is.
                let measured = (schedule.total() - warmed[0]) as f64;
                prop_assert!((measured - f64::from(publishers) * rate).abs() <= 2.0, "{measured}");
                prop_assert_eq!((schedule.total(), warmed[0]), (before.total(), warmed[1]));
                let due: Vec<u64> =
                    (0..schedule.total()).map(|number| schedule.intended_us(number)).collect();
                prop_assert!(due.is_sorted());
                prop_assert!(due.iter().all(|&us| shifts.own_us(us + 1) > shifts.own_us(us)));
                let end_us = start + warm_up_us + length_us;
                prop_assert!(due.iter().all(|us| (start..end_us).contains(us)));
            }
        }

        #[test]
        fn a_stream_is_due_in_its_part_of_measure_and_ends_with_its_count(
            from in 0.0f64..1.5, length in 0.0f64..1.5, count in 1u32..20,
        ) {
            let times = (Some(from), Some(from + length));
            let publish = Publish {
                rate_per_s: 10.0, from_s: times.0, until_s: times.1, count: Some(count),
                ..Publish::default()
            };
            let schedule = schedule_of(&publish, 3, 1_000, [500_000, 2_000_000], None);
            let (start, end) = (501_000.0 + from * 1e6, 501_000.0 + (from + length).min(2.0) * 1e6);
            for number in 0..schedule.total() {
                let due_us = schedule.intended_us(number) as f64;
                prop_assert!(due_us >= start - 1.0 && due_us < end + 1.0);
            }
            prop_assert!(schedule.total() <= u64::from(count) * 3);
            let due = ((end - start).max(0.0) / 1e6 * 30.0).ceil();
            prop_assert!(schedule.total() as f64 >= due.min(f64::from(count) * 3.0) - 1.0);
        }

        #[test]
        fn number_and_publisher_with_sequence_name_the_same_message(
            publishers in 1u32..50, number in 0u64..100_000,
        ) {
            let schedule = Schedule::new(5, u64::from(u32::MAX), publishers, 100.0);
            let due = schedule.due(number);
            prop_assert_eq!(schedule.intended_of(due.publisher, due.sequence), due.intended_us);
        }
    }
}
