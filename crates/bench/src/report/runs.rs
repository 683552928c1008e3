//! Runs as the page orders, names and colours them.

use crate::result::RunResult;
use crate::tables::broker;

/// A use case with its runs, in the order they were run.
pub(super) struct Use<'a> {
    pub(super) name: &'a str,
    pub(super) runs: Vec<Named<'a>>,
}

impl Use<'_> {
    pub(super) fn has_messages(&self) -> bool {
        self.runs.iter().any(|named| named.run.use_case.qos.is_some())
    }
}

/// A run with its label, and the number of its colour: one label has one colour on the whole page.
pub(super) struct Named<'a> {
    pub(super) run: &'a RunResult,
    pub(super) label: String,
    pub(super) colour: usize,
}

/// Groups the runs by use case, and names them.
pub(super) fn group(results: &[RunResult]) -> Vec<Use<'_>> {
    let mut uses: Vec<Use<'_>> = Vec::new();
    let mut labels: Vec<String> = Vec::new();
    for run in results {
        let name = run.use_case.name.as_str();
        let at = uses.iter().position(|of| of.name == name).unwrap_or_else(|| {
            uses.push(Use { name, runs: Vec::new() });
            uses.len() - 1
        });
        let label = label(run, &uses[at].runs);
        let colour = labels.iter().position(|known| *known == label).unwrap_or_else(|| {
            labels.push(label.clone());
            labels.len() - 1
        });
        uses[at].runs.push(Named { run, label, colour });
    }
    uses
}

/// A run's label: its broker, with a number if it ran before.
fn label(run: &RunResult, earlier: &[Named<'_>]) -> String {
    let name = broker(run);
    let before = earlier.iter().filter(|named| broker(named.run) == name).count();
    if before == 0 { name } else { format!("{name}, run {}", before + 1) }
}

/// The verdict as a word, and as a class of the page.
pub(super) fn status(run: &RunResult) -> &'static str {
    run.verdict.status.name()
}
