//! What the page says of its runs together: verdicts of a comparison, steps and faults.

use super::Stand;
use super::runs::Use;
use super::section::{Section, SectionRow};
use crate::compare::{self, Comparison, Pair};
use crate::faults;
use crate::result::CourseResult;

/// The sections that these runs call for, if any.
pub(super) fn extras(stand: Option<&Stand>, uses: &[Use<'_>]) -> Vec<Section> {
    let comparison = match stand {
        Some(Ok(comparison)) => verdicts(comparison),
        Some(Err(error)) => vec![Section {
            title: "Comparison".into(),
            about: vec![format!("The brokers {error}.")],
            ..Section::default()
        }],
        None => Vec::new(),
    };
    comparison.into_iter().chain(steps(uses)).collect()
}

/// A table a use case; what they rest on stands above the first.
fn verdicts(comparison: &Comparison) -> Vec<Section> {
    let mut extras: Vec<Section> = Vec::new();
    for pair in &comparison.pairs {
        let is_it = |of: &&Pair| of.use_case == pair.use_case;
        let is_alone = comparison.pairs.iter().filter(is_it).count() == 1;
        let title = format!("Comparison: {}", pair.use_case);
        if extras.last().is_none_or(|last| last.title != title) {
            let mut about = vec![format!("Ratios are relative to {}.", pair.base.label)];
            if extras.is_empty() {
                about.push(compare::confidence(comparison));
                about.extend(comparison.notes.iter().cloned());
            }
            about.extend(pair.base.told(&pair.base.label));
            let (first, other) = if is_alone {
                ("metric", pair.other.label.as_str())
            } else {
                ("broker: metric", "the row's broker")
            };
            let head = compare::head(&pair.base.label, other);
            let head = [first.to_owned()].into_iter().chain(head).collect();
            extras.push(Section { title, about, head, ..Section::default() });
        }
        let extra = extras.last_mut().expect("one was pushed above");
        extra.about.extend(pair.other.told(&pair.other.label));
        extra.rows.extend(rows(pair, is_alone));
    }
    extras
}

fn rows(pair: &Pair, is_alone: bool) -> impl Iterator<Item = SectionRow> + '_ {
    pair.cells.iter().map(move |cell| {
        let [metric, figures @ ..] = compare::row(cell);
        let name = if is_alone { metric } else { format!("{}: {metric}", pair.other.label) };
        SectionRow {
            cells: [name].into_iter().chain(figures).collect(),
            badge: cell.standing.map(|standing| standing.name().into()),
        }
    })
}

/// A table a use case with steps: a row a step of each run.
fn steps<'a>(uses: &'a [Use<'_>]) -> impl Iterator<Item = Section> + 'a {
    let of_use = |of: &Use<'_>| {
        let courses: Vec<_> = of
            .runs
            .iter()
            .filter_map(|named| Some((&named.label, named.run.course.as_ref()?)))
            .collect();
        let of_run = |(label, course): &(&String, &CourseResult)| {
            let row = |step| {
                let [name, figures @ ..] = faults::row(step);
                let name = format!("{label}: {name}");
                SectionRow { cells: [name].into_iter().chain(figures).collect(), badge: None }
            };
            course.steps.iter().map(row).collect::<Vec<_>>()
        };
        let sentence = |(label, course): &(&String, &CourseResult)| {
            format!("{label}: {}.", faults::sentence(course))
        };
        (!courses.is_empty()).then(|| Section {
            title: format!("Steps and faults: {}", of.name),
            about: courses.iter().map(sentence).collect(),
            head: ["broker: step"].iter().chain(&faults::HEAD[1..]).map(|s| (*s).into()).collect(),
            rows: courses.iter().flat_map(of_run).collect(),
        })
    };
    uses.iter().filter_map(of_use)
}
