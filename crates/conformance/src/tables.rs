//! The tables of this crate: part of the program, one line a file.

use crate::table::{Table, TableError};

macro_rules! files {
    ($($name:literal,)*) => {
        /// Name and text of every table.
        const FILES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../tables/", $name)))),*];
    };
}

files! {
    "v3-connect.toml",
    "v3-malformed.toml",
    "v3-publish.toml",
    "v3-session.toml",
    "v3-subscribe.toml",
    "v3-topics.toml",
}

/// Every table with the name of its file.
///
/// # Errors
/// The first table that cannot be read: never in a program whose tests pass.
pub fn tables() -> Result<Vec<(&'static str, Table)>, TableError> {
    FILES.iter().map(|&(name, text)| Ok((name, Table::parse(name, text)?))).collect()
}
