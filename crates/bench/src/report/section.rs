//! A section of the page above the use cases.

use serde::Serialize;

/// A section of the page above the use cases. All texts are shown as they are, never as markup.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Section {
    /// Its heading.
    pub(super) title: String,
    /// Paragraphs below the heading.
    pub(super) about: Vec<String>,
    /// Heads of the columns, the first that of the rows; none: no table.
    pub(super) head: Vec<String>,
    /// Rows, each as long as the head.
    pub(super) rows: Vec<SectionRow>,
}

/// A row of such a table.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct SectionRow {
    /// Texts of the cells; the first names the row.
    pub(super) cells: Vec<String>,
    /// A word that is shown as a badge behind the name: passed, failed, invalid, aborted have
    /// colours of their own, as have better, worse, "no difference" and "too noisy".
    pub(super) badge: Option<String>,
}
