//! What `weir ctl` shows, for people: tables of at most 80 columns.

use serde_json::Value;
use std::fmt::Display;
use unicode_width::UnicodeWidthStr;
use weir_control::{Ban, Bridge, By, Client, ConfigChange, Drop, Partitions, Talker, Traffic, Why};

const COLUMNS: usize = 80;

/// Above the lines of [`client_line`].
pub(super) const CLIENT_HEAD: &str = "MQTT    KEEP ALIVE    SUBS   QUEUED  IN FLIGHT  CLIENT";

/// Columns that are left for the client identifier, which stands last.
const ID_COLUMNS: usize = COLUMNS - 48;

const VERSION_COLUMNS: usize = 6;

/// A client on a line; an identifier too long for it is cut.
pub(super) fn client_line(client: &Client) -> String {
    let (version, keep_alive) = match &client.connection {
        Some(link) => {
            (cut(&printable(&link.version), VERSION_COLUMNS), format!("{} s", link.keep_alive_s))
        }
        None => ("absent".into(), "-".into()),
    };
    format!(
        "{version:<6}  {keep_alive:>10}  {:>6}  {:>7}  {:>9}  {}",
        short(client.subscriptions.into()),
        short(client.queued_messages),
        client.in_flight,
        cut(&printable(&client.client_id), ID_COLUMNS),
    )
}

/// Above the lines of [`ban_line`].
pub(super) const BAN_HEAD: &str = "UNTIL                 BY        KIND     NAME";

/// Columns that are left for whom it keeps out, and what for.
const NAME_COLUMNS: usize = COLUMNS - 41;

/// A ban on a line; a name or a reason too long for it is cut.
pub(super) fn ban_line(ban: &Ban) -> String {
    let by = match ban.by {
        By::Ctl => "ctl",
        By::File => "file",
        By::Guesses => "guesses",
        By::Flapping => "flapping",
    };
    let until = ban.until.as_deref().map_or("for ever".into(), printable);
    let reason = ban.reason.as_ref().map(|reason| format!("  ({})", printable(reason)));
    let name = printable(&ban.whom.name) + &reason.unwrap_or_default();
    let (until, kind) = (cut(&until, 20), cut(&printable(&ban.whom.kind), 7));
    format!("{until:<20}  {by:<8}  {kind:<7}  {}", cut(&name, NAME_COLUMNS))
}

/// Above the lines of [`bridge`].
pub(super) const BRIDGE_HEAD: &str =
    "NAME              STATE      OUT       IN   QUEUED  DROPPED  REMOTE";

/// Columns that are left for where a bridge goes.
const REMOTE_COLUMNS: usize = COLUMNS - 61;

/// A bridge on a line, and under it what was wrong with it last, if it is not connected.
pub(super) fn bridge(bridge: &Bridge) -> String {
    let count = |name| short(bridge.counters.get(name).copied().unwrap_or(0));
    let why = bridge.last_error.as_ref().filter(|_| !bridge.connected);
    let why = why.map(|why| format!("  {}\n", error(why))).unwrap_or_default();
    format!(
        "{:<16}  {:<5}  {:>6}  {:>7}  {:>7}  {:>7}  {}\n{why}",
        cut(&printable(&bridge.name), 16),
        if bridge.connected { "up" } else { "down" },
        count("messages_out"),
        count("messages_in"),
        short(bridge.queued_messages),
        short(bridge.dropped()),
        cut(&printable(&bridge.remote), REMOTE_COLUMNS),
    )
}

/// All of one client.
pub(super) fn client(client: &Client) -> String {
    let connection = match &client.connection {
        Some(link) => {
            let keep_alive = match link.keep_alive_s {
                0 => "no keep alive".into(),
                seconds => format!("keep alive {seconds} s"),
            };
            format!("MQTT {}, {keep_alive}", printable(&link.version))
        }
        None => "none; the session is kept".into(),
    };
    let user = client.user.as_ref().map(|user| format!("user           {}\n", printable(user)));
    let user = user.unwrap_or_default();
    let session = match client.session_expiry_s {
        None => "never expires".into(),
        Some(0) => "ends with the connection".into(),
        Some(seconds) => format!("expires {seconds} s after the connection"),
    };
    format!(
        "client         {}\n{user}connection     {connection}\nsession        {session}\n\
         subscriptions  {}\nqueued         {} messages, {} bytes\nin flight      {}\n",
        printable(&client.client_id),
        client.subscriptions,
        client.queued_messages,
        client.queued_bytes,
        client.in_flight,
    )
}

/// Above the lines of [`drop_line`].
pub(super) const DROP_HEAD: &str = "AT                         TIMES  WHAT";

/// What was dropped or refused, on a line that is as long as its names are.
pub(super) fn drop_line(drop: &Drop) -> String {
    format!("{:<24}  {:>6}  {}", printable(&drop.at), drop.times, error(&drop.sentence()))
}

/// Whether a message gets to a client, and under it what that comes from.
pub(super) fn why(why: &Why) -> String {
    let findings = why.findings.iter().map(|finding| format!("- {}\n", error(finding)));
    format!("{}\n{}", error(&why.conclusion), findings.collect::<String>())
}

/// Columns that are left for whose the figures are.
const TALKER_COLUMNS: usize = COLUMNS - 44;

/// What clients sent and got in so many seconds, a line each, and all of them together.
pub(super) fn top(seconds: f64, total: &Traffic, clients: &[Talker]) -> String {
    let line = |of: &Traffic, name: &str| {
        let Traffic { messages_in, messages_out, bytes_in, bytes_out } = *of;
        let [messages_in, messages_out, bytes_in, bytes_out] =
            [messages_in, messages_out, bytes_in, bytes_out]
                .map(|count| short((count as f64 / seconds.max(0.001)).round() as u64));
        format!("{messages_in:>9} {messages_out:>9} {bytes_in:>10} {bytes_out:>10}  {name}\n")
    };
    let mut text =
        format!("{:>9} {:>9} {:>10} {:>10}  CLIENT\n", "MSG/S IN", "OUT", "BYTE/S IN", "OUT");
    for Talker { client_id, traffic, .. } in clients {
        text += &line(traffic, &cut(&printable(client_id), TALKER_COLUMNS));
    }
    text + &line(total, &format!("(all clients, in {seconds:.1} s)"))
}

/// What each shard holds, a line a shard.
pub(super) fn partitions(shards: &[Partitions]) -> String {
    let mut text = "SHARD  PARTITIONS    SESSIONS\n".to_owned();
    for (shard, Partitions { held, sessions }) in shards.iter().enumerate() {
        text += &format!("{shard:>5}  {:>10}  {sessions:>10}\n", held.len());
    }
    text
}

/// A line a counter: the sum, then each shard where all of them fit, and the name.
pub(super) fn counters(counters: &Value) -> String {
    let none = Vec::new();
    let shards = counters["shards"].as_array().unwrap_or(&none);
    let mut columns = vec![("SUM".to_owned(), &counters["sum"])];
    let each = shards.iter().enumerate().map(|(at, shard)| (format!("SHARD {at}"), shard));
    columns.extend(each.filter(|_| shards.len() > 1));
    let names = names_of(&counters["sum"]);
    let longest_name = names.iter().map(|(_, shown)| shown.len()).max().unwrap_or(0);
    let width = |(head, column): &(String, &Value)| {
        let counts = names.iter().map(|(path, _)| count(column, path).to_string().len());
        counts.max().unwrap_or(0).max(head.len())
    };
    let mut widths: Vec<usize> = columns.iter().map(width).collect();
    let process = &counters["process"];
    let of_process = names_of(process);
    let digits = of_process.iter().map(|(path, _)| count(process, path).to_string().len());
    widths[0] = digits.max().unwrap_or(0).max(widths[0]);
    let is_cut = widths.iter().map(|width| width + 2).sum::<usize>() + longest_name > COLUMNS;
    if is_cut {
        columns.truncate(1);
        widths.truncate(1);
    }
    let mut text = String::new();
    for ((head, _), width) in columns.iter().zip(&widths) {
        text += &format!("{head:>width$}  ");
    }
    text += "COUNTER\n";
    for (path, shown) in &names {
        for ((_, column), width) in columns.iter().zip(&widths) {
            text += &format!("{:>width$}  ", count(column, path));
        }
        text += &format!("{shown}\n");
    }
    for (path, shown) in &of_process {
        text += &format!("{:>1$}  process: {shown}\n", count(process, path), widths[0]);
    }
    if is_cut {
        text += "Each shard by itself does not fit here: --json has all.\n";
    }
    text
}

/// The path of each number in an object, and how it is shown.
fn names_of(object: &Value) -> Vec<(String, String)> {
    let mut names = Vec::new();
    for (name, value) in object.as_object().into_iter().flatten() {
        let shown = printable(name);
        match value.as_object() {
            None => names.push((format!("/{name}"), shown)),
            Some(inner) => names.extend(
                inner
                    .keys()
                    .map(|key| (format!("/{name}/{key}"), format!("{shown}: {}", printable(key)))),
            ),
        }
    }
    names
}

fn count(column: &Value, path: &str) -> u64 {
    column.pointer(path).and_then(Value::as_u64).unwrap_or(0)
}

/// A number of at most six digits and a letter.
pub(super) fn short(number: u64) -> String {
    match number {
        0..1_000_000 => number.to_string(),
        1_000_000..1_000_000_000 => format!("{}k", number / 1_000),
        _ => format!("{}M", number / 1_000_000),
    }
}

/// What a key is set to now.
pub(super) fn change(change: &ConfigChange) -> String {
    let ConfigChange { key, from, to, .. } = change;
    error(&match (from, to) {
        (Some(from), Some(to)) => format!("{key} = {to} (was {from})"),
        (None, Some(to)) => format!("{key} = {to}"),
        _ => key.clone(),
    })
}

/// As [`printable`] has it; what the broker has escaped stays as it is.
pub(super) fn error(text: &str) -> String {
    text.split('\\').map(printable).collect::<Vec<_>>().join("\\")
}

/// The text with everything escaped that a terminal would obey or not show.
pub(super) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '"' | '\'' => shown.push(letter),
            _ => shown.extend(letter.escape_debug()),
        }
    }
    shown
}

/// JSON with everything escaped that a terminal would obey or not show: all of it is in strings.
pub(super) fn json(json: &impl Display) -> String {
    let json = json.to_string();
    let mut shown = String::with_capacity(json.len());
    for letter in json.chars() {
        // What an escape of Rust's is for; line ends stand between JSON objects.
        match letter == '\u{7f}' || !letter.is_ascii() && letter.escape_debug().len() > 1 {
            true => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    shown += &format!("\\u{unit:04x}");
                }
            }
            false => shown.push(letter),
        }
    }
    shown
}

/// The text if it fits into so many columns, else its begin and an ellipsis.
pub(super) fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.into();
    }
    let mut end = 0;
    for (at, letter) in text.char_indices() {
        let behind = at + letter.len_utf8();
        if text[..behind].width() > columns - 1 {
            break;
        }
        end = behind;
    }
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use weir_control::Link;

    fn of(client_id: &str) -> Client {
        Client {
            client_id: client_id.into(),
            user: None,
            connection: Some(Link { version: "3.1.1".into(), keep_alive_s: u16::MAX }),
            session_expiry_s: None,
            subscriptions: u32::MAX,
            queued_messages: 999_999_999,
            queued_bytes: 0,
            in_flight: u16::MAX,
        }
    }

    #[test]
    fn a_line_of_the_largest_numbers_and_any_identifier_has_80_columns() {
        assert_eq!(CLIENT_HEAD.find("CLIENT"), Some(48));
        for id in ["x".repeat(32), "x".repeat(33), "計".repeat(40), "\u{7}".repeat(40)] {
            let line = client_line(&of(&id));
            assert!(line.width() <= 80, "{line}");
            assert_eq!(line.width() == 80, id.len() != 120, "{line}");
            assert_eq!(line.ends_with('…'), id.len() > 32, "{line}");
        }
        // A letter of two columns does not stand on the edge.
        assert_eq!(cut("計計計", 4), "計…");
    }

    #[test]
    fn a_ban_of_any_name_and_reason_has_80_columns() {
        assert_eq!(BAN_HEAD.find("NAME"), Some(41));
        for name in ["192.0.2.0/24".to_owned(), "x".repeat(90), "\u{1b}[2J".repeat(9)] {
            for reason in [None, Some("計".repeat(40))] {
                let (until, kind) = (Some("2026-11-26T14:22:01Z".into()), "address".into());
                let whom = weir_control::Whom { kind, name: name.clone() };
                let line = ban_line(&Ban { whom, until, reason, by: By::Flapping });
                assert!(line.width() <= 80 && !line.contains('\u{1b}'), "{line}");
                assert!(line.starts_with("2026-11-26T14:22:01Z  flapping  address  "), "{line}");
            }
        }
    }

    #[test]
    fn json_has_nothing_that_a_terminal_would_obey_and_means_the_same() {
        let text = "\u{1b}[31m \u{9b}31m \u{7f} \u{202e}red \u{e0041} Zähler 計器 \u{1f600} \"\\";
        let value = serde_json::json!({ "client_id": text });
        let shown = json(&value);
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
        assert!(!shown.contains(|letter: char| letter.is_control() || letter == '\u{202e}'));
        assert!(shown.contains("Zähler 計器 \u{1f600}"), "{shown}");
        assert_eq!(json(&"{}\n{}\n"), "{}\n{}\n");
    }

    #[test]
    fn what_a_terminal_would_obey_is_escaped_and_letters_are_not() {
        for (text, shown) in [
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("a\nb\t", "a\\nb\\t"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("\u{202e}gnp", "\\u{202e}gnp"),
            ("back\\slash", "back\\\\slash"),
            ("it's \"é計\"", "it's \"é計\""),
        ] {
            assert_eq!(printable(text), shown);
        }
    }

    #[test]
    fn a_version_and_the_name_of_a_counter_are_escaped_too() {
        let mut client = of("c");
        client.connection = Some(Link { version: "\u{1b}[2J".into(), keep_alive_s: 1 });
        let line = client_line(&client);
        assert!(line.starts_with("\\u{1b…  ") && line.len() < 80, "{line}");
        assert!(self::client(&client).contains("MQTT \\u{1b}[2J, keep"));
        let name = "\u{1b}[31m";
        let counts = json!({ name: 1, "refusals": { name: 2 } });
        let shown = counters(&json!({ "sum": counts, "shards": [], "process": counts }));
        assert!(!shown.contains('\u{1b}'), "{shown}");
        assert_eq!(shown.matches("\\u{1b}[31m").count(), 4, "{shown}");
    }

    #[test]
    fn counters_of_shards_stand_beside_their_sum_where_they_fit() {
        let shard = |count: u64| json!({ "sessions": count, "refusals": { "Quota exceeded": 1 } });
        let all = |shards: u64| {
            let own: Vec<Value> = (0..shards).map(shard).collect();
            json!({
                "sum": { "sessions": 123_456, "refusals": { "Quota exceeded": shards } },
                "shards": own,
                "process": { "cut": 7 },
            })
        };
        let two = "   SUM  SHARD 0  SHARD 1  COUNTER\n\
                   123456        0        1  sessions\n     \
                   2        1        0  refusals: Quota exceeded\n     \
                   7  process: cut\n";
        let mut counts = all(2);
        counts["shards"][1]["refusals"] = json!({});
        assert_eq!(counters(&counts), two);
        let many = counters(&all(64));
        assert!(many.starts_with("   SUM  COUNTER\n123456  sessions\n"), "{many}");
        assert!(many.contains("--json") && many.lines().all(|line| line.width() <= 80), "{many}");
        assert!(counters(&all(1)).starts_with("   SUM  COUNTER\n"));
    }
}
