//! What others have to say on the page of a set of runs: a comparison's verdicts, a ladder, faults.

use serde::Serialize;

/// A section of the page above the use cases. All texts are shown as they are, never as markup.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Extra {
    /// Its heading.
    pub title: String,
    /// Paragraphs below the heading.
    pub about: Vec<String>,
    /// Heads of the columns, the first that of the rows; none: no table.
    pub head: Vec<String>,
    /// Rows, each as long as the head.
    pub rows: Vec<ExtraRow>,
    /// A curve below the table, such as the knee of a ladder.
    pub plot: Option<Plot>,
}

/// A row of such a table.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ExtraRow {
    /// Texts of the cells; the first names the row.
    pub cells: Vec<String>,
    /// A word that is shown as a badge behind the name: passed, failed, invalid, aborted have
    /// colours of their own, as have better, worse, "no difference" and "too noisy".
    pub badge: Option<String>,
}

/// Lines over numbers, drawn into the page without a script.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Plot {
    /// What the plot shows, for those who cannot see it, too.
    pub title: String,
    /// Name and unit of the horizontal axis.
    pub x: String,
    /// Name and unit of the vertical axis.
    pub y: String,
    /// Whether the vertical axis is logarithmic; values of zero and below are then left out.
    pub is_log: bool,
    /// A name and its points, in the order of x.
    pub lines: Vec<(String, Vec<[f64; 2]>)>,
    /// A level that is meant to be kept, such as an objective.
    pub limit: Option<f64>,
}
