//! Names with a number in them.

/// `template` with `{i}` replaced by `index`, `{i+N}` by that plus N, and `{run}` by `run`.
pub(crate) fn expand(template: &str, index: u32, run: u16) -> Box<str> {
    let text = template.replace("{i}", &index.to_string());
    let text = text.replace("{run}", &run.to_string());
    shifted(&text, index).into_boxed_str()
}

/// With every `{i+N}` replaced; what is not quite that stays as it is.
fn shifted(text: &str, index: u32) -> String {
    const OPEN: &str = "{i+";
    let mut shifted = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once(OPEN) {
        shifted.push_str(before);
        let number = behind.split_once('}').and_then(|(number, behind)| {
            let offset: u32 = number.parse().ok()?;
            Some((u64::from(index) + u64::from(offset), behind))
        });
        rest = match number {
            Some((number, behind)) => {
                shifted.push_str(&number.to_string());
                behind
            }
            None => {
                shifted.push_str(OPEN);
                behind
            }
        };
    }
    shifted + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_shifted_index_and_run_are_filled_in() {
        assert_eq!(&*expand("w{run}/a-{i}/{i}", 12, 3), "w3/a-12/12");
        assert_eq!(&*expand("plain", 1, 2), "plain");
        assert_eq!(&*expand("{i+1}/{i+100}/{i}", 7, 0), "8/107/7");
        assert_eq!(&*expand("{i+x}/{i+1", 7, 0), "{i+x}/{i+1");
    }
}
