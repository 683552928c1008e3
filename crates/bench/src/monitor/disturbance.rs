//! What was taken from a run while it was measured: by other programs, and by the hypervisor.

use super::{Sample, per_us};
use crate::result::{Disturbance, RunResult, Status};

/// Processors of others above which figures are doubtful: twice what a quiet host's daemons take.
const OTHERS_CORES_MAX: f64 = 0.2;

/// Shares of one processor that a hypervisor takes now and then from any guest.
const STEAL_CORES_MAX: f64 = 0.05;

/// As much as all of the limit, in one interval, moves a p99 of ten.
const WORST_FACTOR: f64 = 5.0;

/// A time of the monotonic clock, and what agents of this host used of it, in cores.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Microseconds.
    pub from_us: u64,
    /// Microseconds.
    pub to_us: u64,
    /// Of processes that are neither the broker's nor this one.
    pub agents_cores: f64,
}

/// Who else of a run is on this host.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// Whether all of the run's programs are seen: then the rest is others'.
    pub is_whole: bool,
    /// Whether the load is that of agents, which are processes of their own.
    pub has_agents: bool,
}

/// Over `measure`, and the worst of the intervals in it.
pub fn of(samples: &[Sample], measure: Span, intervals: &[Span], known: Known) -> Disturbance {
    let of_all = |of: fn(&[Sample], Span) -> Option<f64>| {
        let worst = intervals.iter().filter_map(|span| of(samples, *span));
        (of(samples, measure), worst.reduce(f64::max))
    };
    let (others_cores, others_cores_max) =
        if known.is_whole { of_all(others) } else { (None, None) };
    let (steal_cores, steal_cores_max) = of_all(steal);
    let mut reasons = Vec::new();
    let mut judge = |who: &str, all: Option<f64>, worst: Option<f64>, limit: f64| {
        let (all, worst) = (all.unwrap_or(0.0), worst.or(all).unwrap_or(0.0));
        if all > limit || worst > limit * WORST_FACTOR {
            reasons.push(format!(
                "the host was not quiet: {who} took {all:.2} processors in the measure phase, \
                 {worst:.2} in the worst interval; CPU, rate and latency may be theirs"
            ));
        }
    };
    judge("other programs", others_cores, others_cores_max, OTHERS_CORES_MAX);
    judge("the hypervisor", steal_cores, steal_cores_max, STEAL_CORES_MAX);
    Disturbance { others_cores, others_cores_max, steal_cores, steal_cores_max, reasons }
}

/// All that was at work, less broker, suite and agents. Soft interrupts are nobody's: most of them
/// are the run's own packets, and counted where they interrupted.
fn others(samples: &[Sample], span: Span) -> Option<f64> {
    let less = |(all, part): (u64, u64)| all.saturating_sub(part);
    let busy =
        cores(samples, span, |sample| sample.host.busy_us.zip(sample.host.softirq_us).map(less))?;
    let ours = cores(samples, span, |sample| Some(sample.cpu_us + sample.host.suite_us))?;
    Some((busy - ours - span.agents_cores).max(0.0))
}

fn steal(samples: &[Sample], span: Span) -> Option<f64> {
    cores(samples, span, |sample| sample.host.steal_us)
}

/// Processors of a time that every sample tells; nothing if one does not.
fn cores(samples: &[Sample], span: Span, of: impl Fn(&Sample) -> Option<u64>) -> Option<f64> {
    samples.iter().all(|sample| of(sample).is_some()).then_some(())?;
    per_us(samples, span.from_us, span.to_us, &|sample| of(sample).unwrap_or(0))
}

/// Puts what the samples say into a result, and what of it is too much into its verdict.
pub(crate) fn tell(result: &mut RunResult, samples: &[Sample], measure: (u64, u64), known: Known) {
    let agents = |cores: f64| if known.has_agents { cores } else { 0.0 };
    let (from_us, to_us) = measure;
    let measured = result.phases.iter().find(|phase| phase.name == "measure");
    let Some(begin_s) = measured.map(|phase| phase.start_s) else { return };
    let at_us = |t_s: f64| from_us + ((t_s - begin_s).max(0.0) * 1e6) as u64;
    let mut before_s = begin_s;
    let mut intervals = Vec::new();
    for row in &result.series {
        if row.phase == "measure" {
            let (from_us, to_us) = (at_us(before_s), at_us(row.t_s));
            let agents_cores = agents(row.generator_cpu_cores);
            intervals.push(Span { from_us, to_us, agents_cores });
        }
        before_s = row.t_s;
    }
    let measure = Span { from_us, to_us, agents_cores: agents(result.generator.cpu_cores_avg) };
    let disturbance = of(samples, measure, &intervals, known);
    // What was cut short, or never ran, has no figures to doubt.
    if !matches!(result.verdict.status, Status::Aborted | Status::Unsupported) {
        result.verdict.reasons.extend(disturbance.reasons.iter().cloned());
    }
    result.host.disturbance = disturbance;
}

#[cfg(test)]
mod tests {
    use super::super::HostSample;
    use super::*;

    const WHOLE: Known = Known { is_whole: true, has_agents: false };

    /// A broker that takes 0.2 cores, a suite of 0.3, soft interrupts of 0.1, and others: so much a
    /// second, in microseconds.
    fn samples(others_us: &[u64], steal_us: u64) -> Vec<Sample> {
        let mut others = 0;
        let seconds = (0..).zip([0].iter().chain(others_us));
        seconds
            .map(|(second, more_us)| {
                others += more_us;
                let ours = 500_000 * second;
                let host = HostSample {
                    busy_us: Some(7_000_000 + ours + 100_000 * second + others),
                    softirq_us: Some(1_000 + 100_000 * second),
                    steal_us: Some(steal_us * second),
                    suite_us: 300_000 * second,
                    ..HostSample::default()
                };
                let at_us = second * 1_000_000;
                Sample { at_us, cpu_us: 200_000 * second, host, ..Sample::default() }
            })
            .collect()
    }

    fn span(from_s: u64, to_s: u64) -> Span {
        Span { from_us: from_s * 1_000_000, to_us: to_s * 1_000_000, agents_cores: 0.0 }
    }

    fn seen(samples: &[Sample], known: Known) -> Disturbance {
        let intervals: Vec<Span> = (0..10).map(|second| span(second, second + 1)).collect();
        of(samples, span(0, 10), &intervals, known)
    }

    #[test]
    fn a_quiet_host_has_no_reasons_and_a_busy_one_says_who_took_what() {
        let quiet = seen(&samples(&[50_000; 10], 10_000), WHOLE);
        assert!((quiet.others_cores.unwrap() - 0.05).abs() < 1e-9, "{quiet:?}");
        assert!((quiet.steal_cores.unwrap() - 0.01).abs() < 1e-9, "{quiet:?}");
        assert!(quiet.reasons.is_empty(), "{quiet:?}");
        let busy = seen(&samples(&[700_000; 10], 80_000), WHOLE);
        let [others, steal] = &busy.reasons[..] else { panic!("{busy:?}") };
        assert!(others.contains("other programs took 0.70 processors"), "{others}");
        assert!(steal.contains("the hypervisor took 0.08 processors"), "{steal}");
    }

    #[test]
    fn one_bad_second_is_told_though_the_others_are_quiet() {
        let mut others = [0; 10];
        others[4] = 1_500_000;
        let seen = seen(&samples(&others, 0), WHOLE);
        assert!((seen.others_cores.unwrap() - 0.15).abs() < 1e-9, "below the limit: {seen:?}");
        assert!(seen.reasons[0].contains("1.50 in the worst interval"), "{seen:?}");
    }

    #[test]
    fn where_a_part_of_the_run_is_elsewhere_only_the_hypervisor_is_told() {
        let elsewhere = Known { is_whole: false, has_agents: false };
        let seen = seen(&samples(&[700_000; 10], 80_000), elsewhere);
        assert_eq!((seen.others_cores, seen.reasons.len()), (None, 1), "{seen:?}");
    }

    #[test]
    fn the_load_of_agents_is_not_others() {
        let samples = samples(&[700_000; 10], 0);
        let measure = Span { agents_cores: 0.65, ..span(0, 10) };
        let seen = of(&samples, measure, &[], Known { is_whole: true, has_agents: true });
        assert!((seen.others_cores.unwrap() - 0.05).abs() < 1e-9, "{seen:?}");
        assert!(seen.reasons.is_empty(), "{seen:?}");
    }

    #[test]
    fn a_result_says_in_its_verdict_that_the_host_was_busy() {
        let text = include_str!("../../tests/data/result-2.json");
        let mut run = crate::result::read(text).unwrap();
        let measure = run.phases.iter().find(|phase| phase.name == "measure").unwrap();
        let seconds = (measure.end_s - measure.start_s) as u64;
        let before = run.verdict.clone();
        let samples = samples(&[1_200_000; 60], 0);
        tell(&mut run, &samples, (0, seconds * 1_000_000), WHOLE);
        assert_eq!(run.verdict.status, before.status);
        let last = run.verdict.reasons.last().unwrap();
        assert!(last.contains("other programs took 1.20 processors"), "{last}");
        assert_eq!(run.host.disturbance.reasons.last(), Some(last));
        run.verdict = before.clone();
        run.verdict.status = Status::Aborted;
        tell(&mut run, &samples, (0, seconds * 1_000_000), WHOLE);
        assert_eq!(run.verdict.reasons, before.reasons);
    }

    #[test]
    fn intervals_are_those_of_measure_on_the_clock_of_the_looks() {
        let text = include_str!("../../tests/data/result-2.json");
        let mut run = crate::result::read(text).unwrap();
        run.phases.retain(|phase| phase.name == "measure");
        (run.phases[0].start_s, run.phases[0].end_s) = (2.0, 5.0);
        run.generator.cpu_cores_avg = 0.5;
        run.series.truncate(4);
        for (at, row) in run.series.iter_mut().enumerate() {
            row.t_s = 2.0 + at as f64;
            row.phase = if at == 0 { "warm-up" } else { "measure" }.into();
            row.generator_cpu_cores = 0.25;
        }
        // Measure is from second 1 to 4 of the looks; others are busy before it, and in its second.
        let looks = samples(&[1_900_000, 100_000, 1_600_000, 100_000, 1_900_000], 0);
        let told = |known| {
            let mut run = run.clone();
            tell(&mut run, &looks, (1_000_000, 4_000_000), known);
            let of = run.host.disturbance;
            (of.others_cores.unwrap(), of.reasons.join("; "))
        };
        let (cores, reasons) = told(WHOLE);
        assert!((cores - 0.6).abs() < 1e-9, "{cores}");
        assert!(reasons.contains("1.60 in the worst interval"), "{reasons}");
        let (cores, reasons) = told(Known { has_agents: true, ..WHOLE });
        assert!((cores - 0.1).abs() < 1e-9, "{cores}");
        assert!(reasons.contains("1.35 in the worst interval"), "{reasons}");
    }
}
