//! The scoreboard: what the cases say of each statement.

use crate::outcome::{CaseOutcome, Verdict};
use crate::{Level, Version};
use serde::Serialize;
use std::collections::BTreeMap;

/// How a broker stands with a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// Some case that proves it failed.
    Fails,
    /// No case of it could be run.
    Skipped,
    /// Every case of it that was run passed.
    Holds,
}

/// One broker's cases and statements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Board {
    /// Every case, in the order of the tables.
    pub cases: Vec<CaseOutcome>,
    /// Statements by name, with their standing.
    pub statements: BTreeMap<String, Standing>,
}

/// Cases of one version, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Went as written.
    pub passed: usize,
    /// Broke a MUST.
    pub failed: usize,
    /// Differ from a SHOULD.
    pub differ: usize,
    /// Were not run.
    pub skipped: usize,
}

impl Board {
    /// Of these outcomes.
    pub fn new(cases: Vec<CaseOutcome>) -> Self {
        let mut statements: BTreeMap<String, Standing> = BTreeMap::new();
        for case in &cases {
            let standing = match &case.verdict {
                Verdict::Pass => Standing::Holds,
                Verdict::Fail { .. } if case.level == Level::Must => Standing::Fails,
                Verdict::Fail { .. } | Verdict::Skip { .. } => Standing::Skipped,
            };
            for statement in &case.statements {
                let known = statements.entry(statement.clone()).or_insert(standing);
                *known = match (*known, standing) {
                    (Standing::Fails, _) | (_, Standing::Fails) => Standing::Fails,
                    (Standing::Holds, _) | (_, Standing::Holds) => Standing::Holds,
                    (Standing::Skipped, Standing::Skipped) => Standing::Skipped,
                };
            }
        }
        Self { cases, statements }
    }

    /// Whether every MUST that was run holds.
    pub fn is_clean(&self) -> bool {
        !self.cases.iter().any(CaseOutcome::is_failure)
    }

    /// The cases of a version.
    pub fn count(&self, version: Version) -> Count {
        let mut count = Count::default();
        for case in self.cases.iter().filter(|case| case.version == version) {
            match &case.verdict {
                Verdict::Pass => count.passed += 1,
                Verdict::Fail { .. } if case.is_failure() => count.failed += 1,
                Verdict::Fail { .. } => count.differ += 1,
                Verdict::Skip { .. } => count.skipped += 1,
            }
        }
        count
    }

    /// How many statements of a version stand so.
    pub fn statements_of(&self, version: Version, standing: Standing) -> usize {
        let prefix = format!("{version}:");
        let is_so =
            |(name, found): &(&String, &Standing)| name.starts_with(&prefix) && **found == standing;
        self.statements.iter().filter(is_so).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(statement: &str, level: Level, verdict: Verdict) -> CaseOutcome {
        CaseOutcome {
            name: "n".into(),
            version: Version::V5,
            statements: vec![statement.into()],
            about: String::new(),
            level,
            verdict,
        }
    }

    #[test]
    fn one_failure_fails_a_statement_and_a_should_does_not() {
        let fail = || Verdict::Fail { step: String::new(), why: String::new() };
        let skip = || Verdict::Skip { why: String::new() };
        let board = Board::new(vec![
            case("5.0:a", Level::Must, Verdict::Pass),
            case("5.0:a", Level::Must, fail()),
            case("5.0:b", Level::Must, skip()),
            case("5.0:b", Level::Must, Verdict::Pass),
            case("5.0:c", Level::Should, fail()),
        ]);
        let standing = |name: &str| board.statements[name];
        assert_eq!(standing("5.0:a"), Standing::Fails);
        assert_eq!((standing("5.0:b"), standing("5.0:c")), (Standing::Holds, Standing::Skipped));
        let count = board.count(Version::V5);
        assert_eq!((count.passed, count.failed, count.differ, count.skipped), (2, 1, 1, 1));
        assert!(!board.is_clean());
    }
}
