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
    "exchanges.toml",
    "v3-connect.toml",
    "v3-malformed.toml",
    "v3-publish.toml",
    "v3-session.toml",
    "v3-subscribe.toml",
    "v3-topics.toml",
    "v5-auth.toml",
    "v5-connect.toml",
    "v5-disconnect.toml",
    "v5-flow.toml",
    "v5-properties.toml",
    "v5-publish.toml",
    "v5-retain.toml",
    "v5-session.toml",
    "v5-shared.toml",
    "v5-subscribe.toml",
    "v5-will.toml",
}

/// Every table with the name of its file.
///
/// # Errors
/// The first table that cannot be read: never in a program whose tests pass.
pub fn tables() -> Result<Vec<(&'static str, Table)>, TableError> {
    FILES.iter().map(|&(name, text)| Ok((name, Table::parse(name, text)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_table_is_carried_and_no_case_has_the_name_of_another() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tables");
        let in_folder: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let carried: BTreeSet<String> = FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(carried, in_folder);
        let mut names = BTreeSet::new();
        for (file, table) in tables().unwrap() {
            for case in table.cases {
                assert!(names.insert(case.name.clone()), "{file}: {} twice", case.name);
            }
        }
    }
}
