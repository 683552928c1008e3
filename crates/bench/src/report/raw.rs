//! The results themselves inside the page, to be saved from it.

use super::runs::Use;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::io::Write as _;

/// Bytes of all results in a page at most; what is beyond is in the folders alone.
pub(super) const BYTES_MAX: usize = 24_000_000;

/// For each run of the page, in its order: the name of a file, and `result.json` with gzip as
/// base64, which is empty where all of them would be more than `bytes_max`.
pub(super) fn runs(uses: &[Use<'_>], bytes_max: usize) -> anyhow::Result<Vec<Value>> {
    let mut named: Vec<_> = uses.iter().flat_map(|of| &of.runs).collect();
    named.sort_by_key(|named| named.at);
    let mut room = bytes_max;
    let mut all = Vec::new();
    for named in named {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        serde_json::to_writer(&mut gzip, named.run)?;
        gzip.flush()?;
        let mut text = STANDARD.encode(gzip.finish()?);
        match room.checked_sub(text.len()) {
            Some(left) => room = left,
            None => text.clear(),
        }
        let case = named.run.use_case.name.trim_start_matches("singlenode-");
        all.push(json!({ "file": file_name(&format!("{case}-{}", named.label)), "gzip": text }));
    }
    Ok(all)
}

/// Letters, digits, points and dashes.
fn file_name(text: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let name: String = text.chars().map(safe).collect();
    let parts: Vec<&str> = name.split('-').filter(|part| !part.is_empty()).collect();
    parts.join("-").trim_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_leads_nowhere_else() {
        assert_eq!(file_name("p2p-1K Weir 0.1.0, run 2"), "p2p-1K-Weir-0.1.0-run-2");
        assert_eq!(file_name("../../etc/passwd"), "-..-etc-passwd");
        assert_eq!(file_name("</script>"), "script");
    }
}
