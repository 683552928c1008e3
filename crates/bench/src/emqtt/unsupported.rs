//! Options of emqtt-bench that are not taken, each with what to do instead; and the nearest of
//! those that are, for one that nobody knows.

/// An option of emqtt-bench that is not taken.
struct Missing {
    /// With its dashes; the short one may be missing.
    names: &'static [&'static str],
    /// Nothing for all three commands.
    command: Option<&'static str>,
    /// Why, and what to use.
    instead: &'static str,
}

const fn missing(names: &'static [&'static str], instead: &'static str) -> Missing {
    Missing { names, command: None, instead }
}

const NO_TLS_DETAIL: &str = "only --tls-version and --ciphers choose how TLS is spoken";
const NO_QUIC: &str = "the load generator speaks MQTT over TCP, TLS and WebSocket";
const NO_METRICS: &str = "the lines of each second are on standard output; `weir bench run` keeps \
                          series, histograms and a report";
const NO_OTHER_RUN: &str = "it is for the Erlang runtime, which Weir does not use: leave it out";

const MISSING: &[Missing] = &[
    missing(&["--signature-algs"], NO_TLS_DETAIL),
    missing(&["--keyex-groups"], NO_TLS_DETAIL),
    missing(&["--ssl-version"], "use --tls-version tlsv1.2 or tlsv1.3"),
    missing(&["--quic"], NO_QUIC),
    missing(&["--load-qst", "--nst-dets-file"], NO_QUIC),
    missing(
        &["--ifaddr"],
        "beyond 10,000 connections to this host source addresses rotate by themselves; for another \
         host use `weir bench run --agent`",
    ),
    Missing {
        names: &["-s", "--shortids"],
        command: Some("conn"),
        instead: "give a short --prefix instead",
    },
    missing(&["--shortids"], "give a short --prefix instead"),
    missing(
        &["-x", "--session-expiry"],
        "with -C false a session of MQTT 5.0 outlives its connection by an hour",
    ),
    missing(
        &["-m", "--message"],
        "a payload begins with the stamp that the audit needs, so only its size can be chosen: -s",
    ),
    missing(&["--payload-hdrs"], "every payload has a sequence number and the time it was due"),
    missing(&["--topics-payload"], "write a use case instead: docs/use-cases.md"),
    missing(
        &["-F", "--inflight"],
        "the window is the broker's Receive Maximum; what it holds back counts from when it was \
         due",
    ),
    missing(
        &["--retry-interval"],
        "nothing is sent again on the same connection, as MQTT 5.0 \
        requires",
    ),
    missing(
        &["--min-random-wait", "--max-random-wait"],
        "messages are due on one even schedule: leave it out",
    ),
    missing(
        &["--num-retry-connect", "--reconnect"],
        "a connection that fails or drops is counted, not retried",
    ),
    missing(&["-Q", "--qoe", "--qoelog"], NO_METRICS),
    missing(&["--prometheus", "--restapi"], NO_METRICS),
    missing(&["--log_to", "--log-to"], "redirect standard output"),
    missing(&["-d", "--dist"], NO_OTHER_RUN),
    missing(&["--force-major-gc-interval"], NO_OTHER_RUN),
];

/// What to say of an argument that is not taken by `command`, which takes `taken` (with their
/// dashes): one line.
pub fn refusal(command: &str, argument: &str, taken: &[String]) -> String {
    let name = argument.split('=').next().unwrap_or(argument);
    if !name.starts_with('-') {
        return format!(
            "{argument:?} is not an option of weir bench {command}: options begin with \
            -"
        );
    }
    // -Sfoo is -S with a value behind.
    let short: String = name.chars().take(2).collect();
    let name = if name.starts_with("--") { name } else { &short };
    let is_of = |missing: &&Missing| {
        missing.names.contains(&name) && missing.command.is_none_or(|only| only == command)
    };
    if let Some(missing) = MISSING.iter().find(is_of) {
        return format!(
            "{name} of emqtt-bench is not supported by weir bench {command}: {}",
            missing.instead
        );
    }
    match nearest(name, taken) {
        Some(near) => format!("weir bench {command} has no option {name}; did you mean {near}?"),
        None => format!(
            "weir bench {command} has no option {name}; `weir bench {command} --help` lists them"
        ),
    }
}

/// The option it may be; a letter's other case first.
fn nearest<'a>(name: &str, taken: &'a [String]) -> Option<&'a str> {
    if let Some(found) = taken.iter().find(|one| one.eq_ignore_ascii_case(name)) {
        return Some(found);
    }
    let long = taken.iter().filter(|one| one.starts_with("--") && name.starts_with("--"));
    crate::near::nearest(name, long.map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken() -> Vec<String> {
        ["--topic", "--interval", "--interval_of_msg", "--size", "-t", "-I", "-i"]
            .map(str::to_owned)
            .to_vec()
    }

    #[test]
    fn an_option_of_theirs_says_what_to_do_instead() {
        for (command, argument, parts) in [
            ("pub", "--quic", ["--quic", "TLS and WebSocket"]),
            ("sub", "--ssl-version", ["--ssl-version", "tlsv1.3"]),
            ("sub", "--ifaddr=10.0.0.1", ["--ifaddr ", "rotate"]),
            ("conn", "-s", ["-s", "--prefix"]),
            ("pub", "-F10", ["-F", "Receive Maximum"]),
        ] {
            let text = refusal(command, argument, &taken());
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
            assert!(text.contains(&format!("weir bench {command}")), "{text}");
        }
    }

    #[test]
    fn an_unknown_option_is_told_the_nearest() {
        let near = |argument| refusal("pub", argument, &taken());
        assert!(near("--topics").ends_with("did you mean --topic?"), "{}", near("--topics"));
        assert!(near("--interval-of-msg").ends_with("did you mean --interval_of_msg?"));
        assert!(near("-T").ends_with("did you mean -t?"));
        assert!(near("--frobnicate").contains("--help"));
        assert!(near("topic").contains("options begin with -"));
    }
}
