//! The brokers that have a driver: the files of `brokers/`, in the order they are listed.

use super::file::BrokerFile;
use std::sync::LazyLock;

/// A broker's folder: its name, `broker.toml`, and what else its setup needs.
pub(super) struct Folder {
    pub(super) name: &'static str,
    pub(super) text: &'static str,
    pub(super) sources: &'static [(&'static str, &'static str)],
}

macro_rules! folders {
    ($($name:literal $(with $($source:literal),+)?;)*) => {
        &[$(Folder {
            name: $name,
            text: include_str!(concat!("../../../../brokers/", $name, "/broker.toml")),
            sources: &[$($((
                $source,
                include_str!(concat!("../../../../brokers/", $name, "/", $source)),
            ),)+)?],
        },)*]
    };
}

/// A new driver is a folder and a line here.
pub(super) const FOLDERS: &[Folder] = folders![
    "weir";
    "mosquitto";
    "nanomq";
    "emqx5";
    "emqx4";
    "vernemq";
    "hivemq-ce" with "pom.xml", "Launcher.java", "start.sh";
    "flashmq";
    "rmqttd";
    "rumqttd";
    "rabbitmq";
    "nats-server";
    "mochi";
    "aedes" with "launcher.js", "start.sh";
];

/// A broker that has a driver.
pub(super) struct Entry {
    pub(super) folder: &'static Folder,
    pub(super) file: BrokerFile,
}

/// All of them, read once.
pub(super) static CATALOG: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    // A test reads them all; a file that is wrong does not get here.
    let read = |folder: &'static Folder| {
        toml::from_str(folder.text).ok().map(|file| Entry { folder, file })
    };
    FOLDERS.iter().filter_map(read).collect()
});

/// The broker of a name, or of another that people know it by.
pub(super) fn entry(name: &str) -> Option<&'static Entry> {
    let is_alias = |entry: &&Entry| entry.file.aliases.iter().any(|alias| alias == name);
    let named = CATALOG.iter().find(|entry| entry.folder.name == name);
    named.or_else(|| CATALOG.iter().find(is_alias))
}
