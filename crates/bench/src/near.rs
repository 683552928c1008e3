//! What somebody may have meant by a name that is not known.

/// The known name with the fewest letters to change, if they are so few that it is likely: a
/// quarter of the name's; or one that only goes on. Dashes before an option do not count.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let known: Vec<&str> = known.into_iter().collect();
    let letters = name.trim_start_matches('-').chars().count();
    let steps_max = (letters / 4).max(usize::from(letters > 2));
    let near = known.iter().map(|one| (distance(name, one), *one));
    let (steps, found) = near.min_by_key(|(steps, _)| *steps)?;
    let goes_on = |one: &&str| letters > 2 && one.starts_with(name);
    if steps <= steps_max { Some(found) } else { known.into_iter().find(goes_on) }
}

/// Levenshtein's: letters to add, drop or change.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, of_one) in one.chars().enumerate() {
        let mut before = at;
        row[0] = at + 1;
        for (place, &of_other) in other.iter().enumerate() {
            let changed = before + usize::from(of_one != of_other);
            before = row[place + 1];
            row[place + 1] = changed.min(before + 1).min(row[place] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_near_is_likely() {
        for (name, known, expected) in [
            ("--counts", "--count", Some("--count")),
            ("--interval-of-msg", "--interval_of_msg", Some("--interval_of_msg")),
            ("p2p-1K-1K-1K-1", "p2p-1K-1K-1K-1K", Some("p2p-1K-1K-1K-1K")),
            ("p2p-1k-1k", "p2p-1k-1k-1k-1k", Some("p2p-1k-1k-1k-1k")),
            ("--cafile", "--file", None),
            ("nosuch", "churn", None),
            ("-x", "-t", None),
        ] {
            assert_eq!(nearest(name, [known, "quite another"]), expected, "{name}");
        }
        assert_eq!(nearest("x", []), None);
    }

    #[test]
    fn a_distance_is_the_letters_to_change() {
        for (one, other, steps) in
            [("size", "size", 0), ("size", "sizes", 1), ("", "abc", 3), ("kitten", "sitting", 3)]
        {
            assert_eq!(distance(one, other), steps, "{one} {other}");
        }
    }
}
