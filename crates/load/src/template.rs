//! Names with a number in them.

/// `template` with `{i}` replaced by `index`, `{i+N}` by that plus N, `{i%N}` by its remainder, and
/// `{run}` by `run`.
pub(crate) fn expand(template: &str, index: u32, run: u16) -> Box<str> {
    let text = template.replace("{i}", &index.to_string());
    let text = text.replace("{run}", &run.to_string());
    let shift = |number: u32| Some(u64::from(index) + u64::from(number));
    let text = computed(&text, "{i+", shift);
    let remainder = |number: u32| index.checked_rem(number).map(u64::from);
    computed(&text, "{i%", remainder).into_boxed_str()
}

/// With every `open`, number, `}` replaced; what is not quite that stays as it is.
fn computed(text: &str, open: &str, compute: impl Fn(u32) -> Option<u64>) -> String {
    let mut computed = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once(open) {
        computed.push_str(before);
        let number = behind
            .split_once('}')
            .and_then(|(number, behind)| Some((compute(number.parse().ok()?)?, behind)));
        rest = match number {
            Some((number, behind)) => {
                computed.push_str(&number.to_string());
                behind
            }
            None => {
                computed.push_str(open);
                behind
            }
        };
    }
    computed + rest
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
        assert_eq!(&*expand("{i%10}%2F{i%3}/{i%0}/{i+1}", 17, 0), "7%2F2/{i%0}/18");
    }
}
