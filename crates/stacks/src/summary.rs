//! Repeats of every stack brought together: what tables and page show.

use crate::catalog::Workflow;
use crate::record::{Clients, KneeFound, Point, StackUsed, Standing};
use hdrhistogram::Histogram;
use weir_bench::latency::restore;
use weir_bench::result::LatencyResult;
use weir_stats::{Ratio, Spread, paired};

/// Chance that the interval of a ratio may miss.
const SHARE: f64 = 0.05;

/// One workflow at one QoS.
pub(crate) struct Group<'a> {
    pub(crate) workflow: Workflow,
    pub(crate) qos: u8,
    pub(crate) rates: Vec<f64>,
    /// In the order of the score, best first; those without one last.
    pub(crate) rows: Vec<Row<'a>>,
}

/// A stack in a group.
pub(crate) struct Row<'a> {
    pub(crate) stack: &'a StackUsed,
    /// At each rate of the group; nothing where it was not run.
    pub(crate) rates: Vec<Option<AtRate>>,
    pub(crate) knee: Option<AtKnee>,
    /// Operations per core-second: at the knee if there is one, else at the highest rate.
    pub(crate) score: Option<Spread>,
    /// The score by that of the base, in rounds that both ran.
    pub(crate) by_base: Option<Ratio>,
    pub(crate) rss_max_bytes: Option<Spread>,
    /// Growth of memory, bytes a second, at the highest rate.
    pub(crate) rss_slope: Option<Spread>,
}

/// Repeats at one rate.
pub(crate) struct AtRate {
    pub(crate) rate_per_s: f64,
    pub(crate) cpu_us: Option<Spread>,
    pub(crate) user_us: Option<Spread>,
    pub(crate) system_us: Option<Spread>,
    pub(crate) per_core_s: Option<Spread>,
    pub(crate) cpu_cores: Option<Spread>,
    /// Of all repeats together: p50, p99, microseconds.
    pub(crate) latency_us: Option<(u64, u64)>,
    /// The worst of the repeats.
    pub(crate) standing: Standing,
    pub(crate) reasons: Vec<String>,
    pub(crate) repeats: usize,
}

/// Repeats of the knee.
pub(crate) struct AtKnee {
    pub(crate) rate_per_s: Option<Spread>,
    pub(crate) per_core_s: Option<Spread>,
    pub(crate) broken: Option<String>,
    /// Whether some search ended for want of the replay server's speed.
    pub(crate) is_limited: bool,
    /// Whether every knee met once more below it.
    pub(crate) is_confirmed: bool,
    /// The worst step that was more than too fast for the stack, and what it was.
    pub(crate) fault: Option<(Standing, String)>,
}

/// Every group that something was run of.
pub(crate) fn groups(clients: &Clients) -> Vec<Group<'_>> {
    let settings = &clients.settings;
    let mut groups = Vec::new();
    for &workflow in &settings.workflows {
        for &qos in &settings.qos {
            let is_of = |of: (Workflow, u8)| of == (workflow, qos);
            let points: Vec<&Point> =
                clients.points.iter().filter(|of| is_of((of.workflow, of.qos))).collect();
            let knees: Vec<&KneeFound> =
                clients.knees.iter().filter(|of| is_of((of.workflow, of.qos))).collect();
            if points.is_empty() && knees.is_empty() {
                continue;
            }
            let mut rates: Vec<f64> = points.iter().map(|point| point.rate_per_s).collect();
            rates.sort_by(f64::total_cmp);
            rates.dedup();
            let mut rows: Vec<Row<'_>> = clients
                .stacks
                .iter()
                .map(|stack| row(stack, &rates, &points, &knees, clients))
                .filter(|row| row.knee.is_some() || row.rates.iter().any(Option::is_some))
                .collect();
            let score = |row: &Row<'_>| row.score.map_or(0.0, |score| score.median);
            rows.sort_by(|one, other| score(other).total_cmp(&score(one)));
            groups.push(Group { workflow, qos, rates, rows });
        }
    }
    groups
}

fn row<'a>(
    stack: &'a StackUsed,
    rates: &[f64],
    points: &[&Point],
    knees: &[&KneeFound],
    clients: &Clients,
) -> Row<'a> {
    let own: Vec<&Point> = points.iter().filter(|of| of.stack == stack.name).copied().collect();
    let at = |&rate_per_s: &f64| {
        let repeats: Vec<&Point> =
            own.iter().filter(|of| of.rate_per_s == rate_per_s).copied().collect();
        at_rate(rate_per_s, &repeats)
    };
    let of_stack: Vec<&KneeFound> =
        knees.iter().filter(|of| of.stack == stack.name).copied().collect();
    let scores = |name: &str| scores(name, points, knees);
    let pairs: Vec<(f64, f64)> = scores(&clients.settings.base)
        .iter()
        .filter_map(|(round, base)| {
            let own = scores(&stack.name);
            own.iter().find(|(of, _)| of == round).map(|(_, own)| (*base, *own))
        })
        .collect();
    let highest = rates.last().copied().unwrap_or(0.0);
    let sound = || own.iter().filter(|point| point.is_sound());
    let slopes = sound().filter(|point| point.rate_per_s == highest);
    let steps = of_stack.iter().flat_map(|knee| &knee.steps);
    let memory = own.iter().copied().chain(steps).map(|point| point.rss_max_bytes as f64);
    Row {
        stack,
        rates: rates.iter().map(at).collect(),
        knee: at_knee(&of_stack),
        score: Spread::of(scores(&stack.name).into_iter().map(|(_, score)| score)),
        by_base: if stack.name == clients.settings.base {
            None
        } else {
            paired(&pairs, SHARE, clients.settings.seed)
        },
        rss_max_bytes: Spread::of(memory.filter(|bytes| *bytes > 0.0)),
        rss_slope: Spread::of(slopes.filter_map(|of| Some(of.rss_slope?.bytes_per_s))),
    }
}

/// The score of each round: at the knee where knees were looked for, else at the highest rate. The
/// two are not mixed.
fn scores(name: &str, points: &[&Point], knees: &[&KneeFound]) -> Vec<(u32, f64)> {
    let own = knees.iter().filter(|of| of.stack == name);
    let at_knee: Vec<(u32, f64)> = own.filter_map(|of| Some((of.round, of.per_core_s?))).collect();
    if !knees.is_empty() {
        return at_knee;
    }
    // The same for all: a stack that says nothing there has no score.
    let highest = points.iter().map(|of| of.rate_per_s).fold(0.0, f64::max);
    points
        .iter()
        .filter(|of| of.stack == name && of.is_sound() && of.rate_per_s == highest)
        .filter_map(|of| Some((of.round, of.per_core_s()?)))
        .collect()
}

fn at_rate(rate_per_s: f64, repeats: &[&Point]) -> Option<AtRate> {
    let first = repeats.first()?;
    let sound = || repeats.iter().filter(|point| point.is_sound());
    let spread = |of: fn(&Point) -> Option<f64>| Spread::of(sound().filter_map(|point| of(point)));
    let timed = repeats.iter().filter(|point| point.is_latency_sound());
    let latencies = timed.filter_map(|of| of.latency.as_ref().or(of.acknowledge.as_ref()));
    let worst = repeats.iter().map(|of| of.standing).max();
    let mut reasons: Vec<String> = repeats.iter().flat_map(|of| of.reasons.clone()).collect();
    reasons.sort();
    reasons.dedup();
    Some(AtRate {
        rate_per_s,
        cpu_us: spread(Point::cpu_us_each),
        user_us: spread(|of| Some(of.cpu_parts_us_each()?.0)),
        system_us: spread(|of| Some(of.cpu_parts_us_each()?.1)),
        per_core_s: spread(Point::per_core_s),
        cpu_cores: spread(|of| Some(of.cpu_cores())),
        latency_us: merged(latencies),
        standing: worst.unwrap_or(first.standing),
        reasons,
        repeats: repeats.len(),
    })
}

/// p50 and p99 of all histograms together.
fn merged<'a>(latencies: impl Iterator<Item = &'a LatencyResult>) -> Option<(u64, u64)> {
    let mut all: Option<Histogram<u64>> = None;
    for histogram in latencies.filter_map(|of| restore(&of.histogram)) {
        match &mut all {
            None => all = Some(histogram),
            // They have the same bounds.
            Some(all) => all.add(histogram).ok()?,
        }
    }
    all.map(|all| (all.value_at_quantile(0.5), all.value_at_quantile(0.99)))
}

fn at_knee(knees: &[&KneeFound]) -> Option<AtKnee> {
    knees.first()?;
    Some(AtKnee {
        rate_per_s: Spread::of(knees.iter().filter_map(|of| of.rate_per_s)),
        per_core_s: Spread::of(knees.iter().filter_map(|of| of.per_core_s)),
        broken: knees.iter().find_map(|of| of.broken.clone()),
        is_confirmed: knees.iter().all(|of| of.confirmed_per_s.is_some()),
        fault: fault_of(knees),
        is_limited: knees
            .iter()
            .any(|of| of.ending == Some(weir_bench::ladder::Ending::GeneratorLimit)),
    })
}

/// To be overloaded at some step is what a search is for; nothing else is.
fn fault_of(knees: &[&KneeFound]) -> Option<(Standing, String)> {
    let steps = knees.iter().flat_map(|of| &of.steps);
    let faulty = steps.filter(|of| of.standing.is_fault());
    let worst = faulty.max_by_key(|of| of.standing)?;
    let rate = weir_bench::numbers::count(worst.rate_per_s);
    Some((worst.standing, format!("a step at {rate}/s: {}", worst.reasons.join("; "))))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::{PointLedger, ReplaySide, SCHEMA, Settings};
    use weir_bench::latency::summarize;
    use weir_bench::result::{Host, Suite};

    fn point(stack: &str, round: u32, rate_per_s: f64, cpu_us: f64) -> Point {
        let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000, 3).unwrap();
        (1..=100).for_each(|value| histogram.record(value * 10 * u64::from(round)).unwrap());
        let handled = rate_per_s as u64;
        Point {
            stack: stack.into(),
            workflow: Workflow::Workflow,
            qos: 0,
            rate_per_s,
            round,
            position: 1,
            purpose: None,
            standing: Standing::Kept,
            reasons: Vec::new(),
            level: Some(4),
            window_s: 1.0,
            is_window_missed: false,
            handled,
            cpu_user_us: cpu_us * 0.75 * handled as f64,
            cpu_system_us: cpu_us * 0.25 * handled as f64,
            latency: Some(summarize(&histogram)),
            acknowledge: None,
            rss_max_bytes: 50_000_000,
            rss_slope: None,
            threads_max: 1,
            ledger: PointLedger { sent: handled, received: handled, ..PointLedger::default() },
            replay: ReplaySide::default(),
        }
    }

    /// Three rounds of two stacks, of which one falls behind, and one that is missing.
    pub(crate) fn example() -> Clients {
        let stack = |name: &str| StackUsed {
            name: name.into(),
            language: "Rust".into(),
            library: "1.0".into(),
            runtime: "rustc-1.95".into(),
            json: "none".into(),
            ..StackUsed::default()
        };
        let missing = Some("nobody <b>has</b> it".to_owned());
        let mut points = Vec::new();
        for round in 1..=3 {
            for rate in [1_000.0, 20_000.0] {
                points.push(point("quick", round, rate, 1.0 + f64::from(round) / 100.0));
                points.push(point("slow", round, rate, 10.0 + f64::from(round) / 10.0));
            }
        }
        points[3].standing = Standing::Overloaded;
        points[3].reasons = vec!["7 messages behind at the end".into()];
        Clients {
            schema: SCHEMA,
            suite: Suite::default(),
            host: Host::default(),
            settings: Settings {
                workflows: vec![Workflow::Workflow],
                rates: vec![1_000.0, 20_000.0],
                qos: vec![0],
                repeats: 3,
                seed: 1,
                base: "slow".into(),
                ..Settings::default()
            },
            stacks: vec![stack("slow"), stack("quick"), StackUsed { missing, ..stack("absent") }],
            points,
            knees: Vec::new(),
        }
    }

    #[test]
    fn rows_are_in_the_order_of_the_score_with_their_ratio_by_round() {
        let clients = example();
        let groups = groups(&clients);
        let [group] = &groups[..] else { panic!("one group") };
        let names: Vec<&str> = group.rows.iter().map(|row| &*row.stack.name).collect();
        assert_eq!(names, ["quick", "slow"]);
        let ratio = group.rows[0].by_base.unwrap();
        assert!((ratio.ratio - 10.0).abs() < 0.1 && ratio.pairs == 3, "{ratio:?}");
        assert!(ratio.interval.low < 10.0 && ratio.interval.high > 9.9);
        assert!(group.rows[1].by_base.is_none());
        let at = group.rows[1].rates[1].as_ref().unwrap();
        assert_eq!((at.standing, at.repeats), (Standing::Overloaded, 3));
        assert_eq!(at.cpu_us.map(|of| (of.low, of.high)).unwrap(), (10.1, 10.3));
    }

    #[test]
    fn latencies_of_repeats_are_merged_and_never_averaged() {
        let clients = example();
        let groups = groups(&clients);
        let (p50, p99) = groups[0].rows[0].rates[0].as_ref().unwrap().latency_us.unwrap();
        // 10 to 1,000, 20 to 2,000 and 30 to 3,000 together.
        assert!(p50.abs_diff(830) < 40 && p99.abs_diff(2_910) < 30, "{p50} {p99}");
    }

    #[test]
    fn a_late_replay_server_spoils_latencies_and_not_costs_at_the_rate() {
        let mut clients = example();
        for at in [0, 4, 8] {
            clients.points[at].standing = Standing::ReplayLimit;
        }
        let at = |clients: &Clients| {
            let groups = groups(clients);
            let at = groups[0].rows[0].rates[0].as_ref().unwrap();
            (at.cpu_us.map_or(0, |of| of.count), at.latency_us.is_some())
        };
        assert_eq!(at(&clients), (3, false));
        clients.points[0].handled /= 2;
        assert_eq!(at(&clients), (2, false));
    }

    #[test]
    fn a_broken_repeat_has_no_figure_and_is_the_worst() {
        let mut clients = example();
        clients.points[0].standing = Standing::Broken;
        clients.points[0].reasons = vec!["it died".into()];
        let groups = groups(&clients);
        let at = groups[0].rows[0].rates[0].as_ref().unwrap();
        assert_eq!((at.standing, at.cpu_us.unwrap().count), (Standing::Broken, 2));
        assert_eq!(at.reasons, ["it died"]);
    }

    #[test]
    fn results_come_back_as_they_were_kept() {
        let clients = example();
        let text = serde_json::to_string(&clients).unwrap();
        let back: Clients = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&back).unwrap(), text);
    }
}
