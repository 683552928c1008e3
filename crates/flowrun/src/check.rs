//! `weir flow check`: what a flow file would do, or what is wrong with it.

use crate::Error;
use crate::subscriptions::subscriptions;
use clap::Args;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use weir_flow::{Flow, Rule};

/// Check a flow file: print its rules and subscriptions, or what is wrong and where
#[derive(Clone, Debug, Args)]
pub struct CheckArgs {
    /// Flow file (TOML) with [[flow]] rules
    file: PathBuf,
}

/// What `weir flow check` prints.
///
/// # Errors
/// A file that cannot be read, or whose rules have a fault or form a loop.
pub fn check(args: &CheckArgs) -> Result<String, Error> {
    let flow = read(&args.file)?;
    let unfit = |rule| Error::Unfit { path: args.file.display().to_string(), rule };
    let subscriptions = subscriptions(&flow, None).map_err(unfit)?;
    let mut text = String::new();
    for rule in flow.rules() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", rule_line(rule));
        if let Some(warning) = rule.warning() {
            let _ = writeln!(text, "warning: {warning}");
        }
    }
    for subscription in &subscriptions {
        let _ =
            writeln!(text, "subscribes to {}, QoS {}", subscription.text(), subscription.qos as u8);
    }
    let _ = writeln!(text, "{} rules, no loops", flow.rules().len());
    Ok(text)
}

/// `cells: ud/# (QoS 1), when has(payload.p) -> cells/{payload.p.mcc}`
fn rule_line(rule: &Rule) -> String {
    let source = rule.source();
    let mut line = format!("{}: {} (QoS {})", source.name, source.from, source.qos);
    if let Some(when) = &source.when {
        let _ = write!(line, ", when {when}");
    }
    let _ = match (&source.to, &source.action) {
        (Some(to), _) => write!(line, " -> {to}"),
        (None, action) => write!(line, " -> {}", action.as_deref().unwrap_or("publish")),
    };
    if let Some(payload) = &source.payload {
        let _ = write!(line, ", payload {payload}");
    }
    if let Some(qos) = source.publish_qos {
        let _ = write!(line, ", QoS {qos}");
    }
    if source.retain == Some(true) {
        line.push_str(", retained");
    }
    if let Some(share) = source.sample {
        let _ = write!(line, ", {share} of them");
    }
    if let Some(per_s) = source.throttle_per_s {
        let _ = write!(line, ", at most {per_s}/s");
    }
    line
}

/// Reads and compiles a flow file, and refuses one without rules.
///
/// # Errors
/// As [`check`].
pub(crate) fn read(file: &Path) -> Result<Flow, Error> {
    let path = || file.display().to_string();
    let text =
        std::fs::read_to_string(file).map_err(|error| Error::File { path: path(), error })?;
    let flow = Flow::parse(&text).map_err(|error| Error::Flow { path: path(), error })?;
    if flow.rules().is_empty() {
        return Err(Error::Unfit { path: path(), rule: "it has no [[flow]] rule".into() });
    }
    Ok(flow)
}
