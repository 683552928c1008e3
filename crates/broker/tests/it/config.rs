//! Files of configuration as hands and editors leave them: broken in every way, they are understood
//! or refused with a word, and never the end of the program.

use proptest::collection::vec;
use proptest::prelude::*;
use std::path::Path;
use weir_broker::{Config, ConfigError, MosquittoFile};

const OURS: [&str; 4] = [
    include_str!("../../../../docs/broker/durable.toml"),
    include_str!("../../../../docs/broker/gateway.toml"),
    include_str!("../../../../docs/broker/telemetry.toml"),
    include_str!("../../../../packaging/deb/weir.toml"),
];

const MOSQUITTOS: &str = "\
per_listener_settings true
listener 1884 127.0.0.1
allow_anonymous false
password_file /nowhere/passwd
acl_file /nowhere/acl
max_connections 100
listener 8883
cafile /nowhere/ca.pem
certfile /nowhere/server.pem
keyfile /nowhere/server.key
require_certificate true
persistence true
persistence_location /nowhere/
persistent_client_expiration 2w
max_queued_messages 1000
message_size_limit 0
log_type all
";

/// Values in the place of others. None is the name of a host, which somebody would be asked for.
const VALUES: [&str; 16] = [
    "-1",
    "0",
    "1",
    "18446744073709551615",
    "1e400",
    "nan",
    "true",
    "\"\"",
    "\"\\u0000\"",
    "\"0x\"",
    "[]",
    "[[[]]]",
    "{}",
    "{ a = 1 }",
    "1979-05-27T07:32:00Z",
    "\"\u{1F980}\"",
];

/// What happens to a line.
#[derive(Clone, Debug)]
enum Edit {
    Drop(usize),
    Double(usize),
    Swap(usize, usize),
    /// Another value.
    Value(usize, usize),
    /// A character in its name.
    Insert(usize, usize, char),
    /// Nothing comes behind it.
    End(usize),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let line = 0_usize..200;
    let edit = prop_oneof![
        line.clone().prop_map(Edit::Drop),
        line.clone().prop_map(Edit::Double),
        (line.clone(), line.clone()).prop_map(|(one, other)| Edit::Swap(one, other)),
        (line.clone(), 0..VALUES.len()).prop_map(|(line, value)| Edit::Value(line, value)),
        (line.clone(), 0_usize..8, any::<char>())
            .prop_map(|(line, at, c)| Edit::Insert(line, at, c)),
        line.prop_map(Edit::End),
    ];
    vec(edit, 0..6)
}

/// `text` with the edits, where `separator` is between a name and its value.
fn edited(text: &str, edits: &[Edit], separator: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for edit in edits {
        let count = lines.len().max(1);
        let place = |line: &usize| line % count;
        if lines.is_empty() {
            break;
        }
        match edit {
            Edit::Drop(line) => drop(lines.remove(place(line))),
            Edit::Double(line) => lines.insert(place(line), lines[place(line)].clone()),
            Edit::Swap(one, other) => lines.swap(place(one), place(other)),
            Edit::Value(line, value) => {
                let line = &mut lines[place(line)];
                let name = line.split(separator).next().unwrap_or_default().to_owned();
                *line = format!("{name}{separator}{}", VALUES[*value]);
            }
            Edit::Insert(line, at, character) => {
                let line = &mut lines[place(line)];
                let name = line.split(separator).next().unwrap_or_default();
                let at = name.char_indices().nth(*at).map_or(0, |(at, _)| at);
                line.insert(at, *character);
            }
            Edit::End(line) => lines.truncate(place(line)),
        }
    }
    lines.join("\n")
}

/// It can be asked whatever is asked before a broker runs, or says what is wrong.
fn look(read: Result<Config, ConfigError>) {
    match read {
        Ok(config) => {
            assert!(config.shard_count() > 0);
            let _ = (config.settings(), config.allows_anonymous());
        }
        Err(error) => assert!(error.to_string().len() > 10, "{error}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_broken_file_is_understood_or_refused(which in 0..OURS.len(), edits in edits()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weir.toml");
        std::fs::write(&path, edited(OURS[which], &edits, "=")).unwrap();
        look(Config::read(&path));
    }

    #[test]
    fn a_broken_file_of_mosquitto_is_understood_or_refused(edits in edits()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mosquitto.conf");
        std::fs::write(&path, edited(MOSQUITTOS, &edits, " ")).unwrap();
        look(MosquittoFile::read(&path).and_then(|file| file.config()));
    }
}

#[test]
fn what_is_broken_here_is_whole_before() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for file in ["docs/broker/durable.toml", "packaging/deb/weir.toml"] {
        Config::read(&root.join(file)).unwrap();
    }
}
