//! Runs as pages order, name and colour them: use cases, in them brokers, of each its repeats.

use crate::result::{RunResult, Status};
use crate::stats::Spread;
use crate::tables::broker;

/// A use case with its runs.
pub(crate) struct Use<'a> {
    pub(crate) name: &'a str,
    /// A broker's in the order they were run.
    pub(crate) runs: Vec<Named<'a>>,
    /// In the order of the command line.
    pub(crate) brokers: Vec<Repeats<'a>>,
}

impl Use<'_> {
    pub(crate) fn has_messages(&self) -> bool {
        self.runs.iter().any(|named| named.run.has_messages())
    }
}

/// A run with its label, and the number of its colour: a broker has one colour on the whole page.
#[derive(Clone)]
pub(crate) struct Named<'a> {
    pub(crate) run: &'a RunResult,
    /// Its place among all runs of the page.
    pub(crate) at: usize,
    /// The broker, and which run of it where there are several.
    pub(crate) label: String,
    pub(crate) colour: usize,
    /// From 1.
    pub(crate) repeat: usize,
}

/// The runs of one broker on one use case.
pub(crate) struct Repeats<'a> {
    /// The broker.
    pub(crate) label: String,
    pub(crate) colour: usize,
    pub(crate) runs: Vec<Named<'a>>,
    /// The run whose p99 is the median of all: the one that charts show first.
    pub(crate) typical: Named<'a>,
}

impl Repeats<'_> {
    /// Runs that medians are made of.
    pub(crate) fn counted(&self) -> usize {
        self.telling().count()
    }

    /// Median, least and highest of what the runs say; nothing where none says anything.
    pub(crate) fn spread(&self, of: impl Fn(&RunResult) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.telling().filter_map(of))
    }

    /// Why its figures say nothing of the broker, in a word: where no run of it is valid.
    pub(crate) fn doubt(&self) -> Option<&'static str> {
        (!self.has_valid()).then(|| worst(self).name())
    }

    fn has_valid(&self) -> bool {
        self.runs.iter().any(|named| named.run.is_valid())
    }

    /// An invalid run says nothing of the broker, so its figures count only where there are no
    /// others: then the verdict beside them says what they are.
    fn telling(&self) -> impl Iterator<Item = &RunResult> {
        let has_valid = self.has_valid();
        let runs = self.runs.iter().map(|named| named.run);
        runs.filter(move |run| if has_valid { run.is_valid() } else { run.has_figures() })
    }
}

/// Groups the runs by use case and broker, and names them. The brokers of repeats stand in the
/// order of the command line, not in that of the first round, which is drawn by lot.
pub(crate) fn group(results: &[RunResult]) -> Vec<Use<'_>> {
    let mut uses: Vec<Use<'_>> = Vec::new();
    let mut brokers: Vec<String> = Vec::new();
    let mut all: Vec<(usize, &RunResult)> = results.iter().enumerate().collect();
    all.sort_by_key(|(_, run)| run.repetition.as_ref().map_or(0, |of| of.broker));
    for (at, run) in all {
        let name = run.use_case.name.as_str();
        let place = uses.iter().position(|of| of.name == name).unwrap_or_else(|| {
            uses.push(Use { name, runs: Vec::new(), brokers: Vec::new() });
            uses.len() - 1
        });
        let label = broker(run) + &build(run, results) + &otherwise(run, uses[place].runs.first());
        let colour = brokers.iter().position(|known| *known == label).unwrap_or_else(|| {
            brokers.push(label.clone());
            brokers.len() - 1
        });
        let earlier = uses[place].runs.iter().filter(|named| named.colour == colour);
        let repeat = earlier.count() + 1;
        uses[place].runs.push(Named { run, at, label, colour, repeat });
    }
    for of in &mut uses {
        number(&mut of.runs);
        of.brokers = repeats(&of.runs, &brokers);
    }
    uses
}

/// Which program it was, where another of the same name and version ran before.
fn build(run: &RunResult, results: &[RunResult]) -> String {
    let first = results.iter().find(|of| of.program().is_some() && broker(of) == broker(run));
    match (first.and_then(RunResult::program), run.program()) {
        (Some(first), Some(own)) if first != own => format!(" ({own:.7})"),
        _ => String::new(),
    }
}

/// How a run differs in size from the first of its use case: it is no repeat of a run of another
/// size.
fn otherwise(run: &RunResult, first: Option<&Named<'_>>) -> String {
    let of = &run.use_case;
    let Some(first) = first.map(|named| &named.run.use_case) else { return String::new() };
    let mut text = String::new();
    if of.scale != first.scale {
        text += &format!(", scale {}", of.scale);
    }
    if of.duration_s != first.duration_s {
        text += &format!(", {} s", of.duration_s);
    }
    if of.file_sha256 != first.file_sha256 {
        text += &format!(", revision {} ({:.7})", of.revision, of.file_sha256);
    }
    text
}

/// Says in the labels which run of a broker it is, where there are several.
fn number(runs: &mut [Named<'_>]) {
    let colours: Vec<usize> = runs.iter().map(|named| named.colour).collect();
    for named in runs {
        if colours.iter().filter(|colour| **colour == named.colour).count() > 1 {
            named.label += &format!(", run {}", named.repeat);
        }
    }
}

fn repeats<'a>(runs: &[Named<'a>], brokers: &[String]) -> Vec<Repeats<'a>> {
    let mut all: Vec<Repeats<'a>> = Vec::new();
    for named in runs {
        match all.iter_mut().find(|of| of.colour == named.colour) {
            Some(of) => of.runs.push(named.clone()),
            None => all.push(Repeats {
                label: brokers[named.colour].clone(),
                colour: named.colour,
                runs: vec![named.clone()],
                typical: named.clone(),
            }),
        }
    }
    for of in &mut all {
        let mut by_p99: Vec<&Named<'a>> =
            of.runs.iter().filter(|named| named.run.is_valid()).collect();
        by_p99.sort_by_key(|named| named.run.latency().map(|latency| latency.p99_us));
        if let Some(median) = by_p99.get(by_p99.len().saturating_sub(1) / 2) {
            of.typical = (*median).clone();
        }
    }
    all
}

/// A broker has passed when all its runs have.
pub(crate) fn worst(broker: &Repeats<'_>) -> Status {
    let rank = |status: Status| match status {
        Status::Passed => 0,
        Status::Unsupported => 1,
        Status::Aborted => 2,
        Status::Invalid => 3,
        Status::Failed => 4,
    };
    let all = broker.runs.iter().map(|named| named.run.verdict.status);
    all.max_by_key(|status| rank(*status)).unwrap_or(Status::Aborted)
}

/// The verdict as a word, and as a class of the page.
pub(super) fn status(run: &RunResult) -> &'static str {
    run.verdict.status.name()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(version: &str, p99_us: u64) -> RunResult {
        let text = include_str!("../../tests/data/result-2.json");
        let mut run = crate::result::read(text).unwrap();
        run.broker.version = version.into();
        run.latencies.get_mut("end_to_end").unwrap().p99_us = p99_us;
        run
    }

    #[test]
    fn repeats_are_numbered_have_one_colour_and_a_typical_run() {
        let all = [kept("1", 30), kept("2", 5), kept("1", 10), kept("1", 20)];
        let uses = group(&all);
        let [of] = &uses[..] else { panic!("one use case") };
        let labels: Vec<&str> = of.runs.iter().map(|named| named.label.as_str()).collect();
        assert_eq!(labels, ["Weir 1, run 1", "Weir 2", "Weir 1, run 2", "Weir 1, run 3"]);
        let [first, second] = &of.brokers[..] else { panic!("two brokers") };
        assert_eq!((first.colour, second.colour), (0, 1));
        assert_eq!(first.typical.label, "Weir 1, run 3");
        let spread = first.spread(|run| Some(run.latency()?.p99_us as f64));
        assert_eq!(spread, Some(Spread { median: 20.0, low: 10.0, high: 30.0, count: 3 }));
        assert_eq!(second.spread(|_| None), None);
    }

    #[test]
    fn the_figures_of_an_invalid_run_count_only_where_there_are_no_others() {
        let mut all = [kept("1", 10), kept("1", 90), kept("1", 80)];
        let p99 = |of: &Repeats<'_>| of.spread(|run| Some(run.latency()?.p99_us as f64));
        let of = |all: &[RunResult]| {
            let uses = group(all);
            let broker = &uses[0].brokers[0];
            (p99(broker).unwrap(), broker.counted(), broker.typical.repeat)
        };
        for invalid in &mut all[1..] {
            invalid.verdict.status = Status::Invalid;
        }
        assert_eq!(of(&all), (Spread { median: 10.0, low: 10.0, high: 10.0, count: 1 }, 1, 1));
        all[0].verdict.status = Status::Invalid;
        assert_eq!(of(&all).0, Spread { median: 80.0, low: 10.0, high: 90.0, count: 3 });
    }
}
