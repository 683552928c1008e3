//! Names with a number in them.

/// `template` with `{i}` replaced by `index` and `{run}` by `run`.
pub(crate) fn expand(template: &str, index: u32, run: u16) -> Box<str> {
    let text = template.replace("{i}", &index.to_string());
    text.replace("{run}", &run.to_string()).into_boxed_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_and_run_are_filled_in() {
        assert_eq!(&*expand("w{run}/a-{i}/{i}", 12, 3), "w3/a-12/12");
        assert_eq!(&*expand("plain", 1, 2), "plain");
    }
}
