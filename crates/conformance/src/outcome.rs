//! What came of a case.

use crate::{Level, Version};
use serde::Serialize;

/// One case in one version against one broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CaseOutcome {
    /// The case.
    pub name: String,
    /// The version it was run in.
    pub version: Version,
    /// The statements of that version that it proves.
    pub statements: Vec<String>,
    /// What must happen, in a line.
    pub about: String,
    /// Whether a difference is a failure.
    pub level: Level,
    /// Pass, fail or skip.
    pub verdict: Verdict,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "lowercase")]
pub enum Verdict {
    /// Every step went as written.
    Pass,
    /// One did not.
    Fail {
        /// Its text.
        step: String,
        /// The difference.
        why: String,
    },
    /// It was not run.
    Skip {
        /// Why not.
        why: String,
    },
}

impl CaseOutcome {
    /// Whether a MUST was broken.
    pub fn is_failure(&self) -> bool {
        self.level == Level::Must && matches!(self.verdict, Verdict::Fail { .. })
    }
}
