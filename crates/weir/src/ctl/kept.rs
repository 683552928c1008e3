//! The commands about the configuration, its files and what follows from it.

use super::{granted, not_found, refused, reloaded, removed, text};
use anyhow::Context;
use serde_json::Value;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use weir_control::{Caller, Reply, ShownCertificate};
use weir_say::{say, sayln};

pub(super) const DRAIN: &str = "/api/v1/drain";

const CONFIG: &str = "/api/v1/config";

/// Shows the configuration, or puts another in its place.
pub(super) fn config(
    caller: &Caller,
    put: Option<&Path>,
    dry_run: bool,
) -> anyhow::Result<ExitCode> {
    match put {
        None => shown(&caller.get(CONFIG)?),
        Some(file) => {
            let path = Caller::path(CONFIG, &[("dry_run", if dry_run { "true" } else { "false" })]);
            reloaded(&caller.put_text(&path, "application/toml", &read(file)?)?)
        }
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = match file.to_str() {
        Some("-") => std::io::stdin().read_to_string(&mut text).map(drop),
        _ => std::fs::read_to_string(file).map(|of_file| text = of_file),
    };
    read.with_context(|| format!("cannot read {}", file.display()))?;
    Ok(text)
}

/// A text as it is.
fn shown(reply: &Reply) -> anyhow::Result<ExitCode> {
    if reply.status == 404 {
        return not_found(reply);
    }
    anyhow::ensure!(reply.status == 200, "{}", refused(reply));
    say!("{}", String::from_utf8_lossy(&reply.body));
    Ok(ExitCode::SUCCESS)
}

pub(super) fn drain(
    caller: &Caller,
    server: Option<&str>,
    moved: bool,
    rate: u32,
) -> anyhow::Result<ExitCode> {
    let rate = rate.to_string();
    let mut query = vec![("rate", &*rate), ("moved", if moved { "true" } else { "false" })];
    query.extend(server.map(|server| ("server", server)));
    drained(&caller.post(&Caller::path(DRAIN, &query))?)
}

/// Says how far a drain is.
pub(super) fn drained(reply: &Reply) -> anyhow::Result<ExitCode> {
    let state = granted(reply)?;
    let number = |key: &str| state[key].as_u64().unwrap_or(0);
    let (ended, left) = (number("ended"), number("connections"));
    match state["draining"] == true {
        true => sayln!("draining: {ended} clients were sent away, {left} connections are left"),
        false => sayln!("not draining; {left} connections"),
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn users(caller: &Caller) -> anyhow::Result<ExitCode> {
    let users = granted(&caller.get("/api/v1/users")?)?;
    for user in users["users"].as_array().context("the broker sent no list")? {
        sayln!("{}", text::error(user.as_str().unwrap_or_default()));
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn user(caller: &Caller, name: &str, delete: bool) -> anyhow::Result<ExitCode> {
    let path = Caller::user_path(name, "");
    if delete {
        return removed(&caller.delete(&path)?);
    }
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).context("cannot read the password")?;
    let user = serde_json::json!({ "password": line.trim_end_matches(['\r', '\n']) });
    let reply = caller.put_text(&path, "application/json", &user.to_string())?;
    anyhow::ensure!(matches!(reply.status, 200 | 201), "{}", refused(&reply));
    Ok(ExitCode::SUCCESS)
}

pub(super) fn rights(
    caller: &Caller,
    user: Option<&str>,
    put: Option<&Path>,
) -> anyhow::Result<ExitCode> {
    let path = user.map(|user| Caller::user_path(user, "/rights"));
    let path = path.as_deref().unwrap_or("/api/v1/acl");
    match put {
        None => shown(&caller.get(path)?),
        Some(file) => removed(&caller.put_text(path, "text/plain", &read(file)?)?),
    }
}

pub(super) fn listeners(caller: &Caller, json: bool) -> anyhow::Result<ExitCode> {
    let answer = granted(&caller.get("/api/v1/listeners")?)?;
    let listeners = answer["listeners"].as_array().context("the broker sent no list")?;
    if !json {
        sayln!("CONNECTIONS  ADDRESS                   SPEAKS");
    }
    for listener in listeners {
        if json {
            sayln!("{}", text::json(&listener));
            continue;
        }
        let text = |key: &str| text::error(listener[key].as_str().unwrap_or_default());
        let count = listener["connections"].as_u64().unwrap_or(0);
        sayln!("{count:>11}  {:24}  {}", text("address"), text("speaks"));
        if let Some(certificate) = certificate(&listener["certificate"]) {
            sayln!("             {}", text::error(&certificate));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn certificate(shown: &Value) -> Option<String> {
    let shown: ShownCertificate = serde_json::from_value(shown.clone()).ok()?;
    let ShownCertificate { file, subject, days_left } = shown;
    Some(match days_left {
        Some(days) if days < 0 => format!("{file}: {subject}, EXPIRED"),
        Some(days) => format!("{file}: {subject}, {days} days left"),
        None => format!("{file}: {subject}"),
    })
}
