//! What the page says of its runs together: verdicts of a comparison, steps and faults.

use super::Stand;
use super::runs::Use;
use super::section::{Section, SectionRow};
use crate::cluster;
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
    comparison.into_iter().chain(steps(uses)).chain(uses.iter().flat_map(clusters)).collect()
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

/// Tables of a use case on several nodes: a row a node of each run, and a row for what became of
/// sessions.
fn clusters(of: &Use<'_>) -> Vec<Section> {
    let clusters: Vec<_> = of
        .runs
        .iter()
        .filter_map(|named| Some((&named.label, named.run.cluster.as_ref()?)))
        .collect();
    if clusters.is_empty() {
        return Vec::new();
    }
    let row = |label: &String, [name, figures @ ..]: [String; 6]| SectionRow {
        cells: [format!("{label}: {name}")].into_iter().chain(figures).collect(),
        badge: None,
    };
    let section = |title: &str, first: &str, head: [&str; 6]| Section {
        title: format!("{title}: {}", of.name),
        head: [first].iter().chain(&head[1..]).map(|text| (*text).into()).collect(),
        ..Section::default()
    };
    let mut nodes = section("Nodes", "broker: node", cluster::NODES_HEAD);
    let mut sessions = section("Sessions and promises", "broker: session", cluster::SESSIONS_HEAD);
    sessions.about.push(SESSIONS_ABOUT.into());
    for (label, cluster) in clusters {
        let told = cluster::sentences(cluster);
        nodes.about.extend(told.iter().take(1).map(|text| format!("{label}: {text}.")));
        sessions.about.extend(told.iter().skip(1).map(|text| format!("{label}: {text}.")));
        nodes.rows.extend(cluster.nodes.iter().map(|of| row(label, cluster::node_row(of))));
        sessions
            .rows
            .extend(cluster.sessions.iter().map(|of| row(label, cluster::sessions_row(of))));
    }
    let is_told = !sessions.rows.is_empty();
    [nodes].into_iter().chain(is_told.then_some(sessions)).collect()
}

/// What the sessions' words mean.
const SESSIONS_ABOUT: &str = "Subscribers by what became of their sessions. Connected: all the \
    time. Resumed: the client came back and the broker had its session. New: the client came back \
    and the broker had it no more. Clean: the client came back and wanted a new one. Away: the \
    client did not come back. Shared: of a member of a shared group, to which deliveries are owed \
    as a whole.";
