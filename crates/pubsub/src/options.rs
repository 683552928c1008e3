//! The options that `weir pub` and `weir sub` share, and what a connection needs of them.

use crate::Error;
use crate::property::{PacketProperties, Place};
use clap::{ArgAction, Args};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::path::PathBuf;
use weir_client::{Scheme, Url};
use weir_connection::{Address, TlsArgs};
use weir_reactor::Transport;
use weir_wire::packet::{Connect, Will};
use weir_wire::topic::is_valid_name;
use weir_wire::{Property, QoS, Version};

/// Where to connect, and as whom.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectionArgs {
    /// Host of the broker
    #[arg(short = 'h', long, value_name = "HOST", default_value = "localhost")]
    host: String,
    /// Port of the broker [default: 1883, or 8883 with TLS; that speaks TLS by itself]
    #[arg(short, long, value_name = "PORT")]
    port: Option<u16>,
    /// Broker and topic as mqtt[s]://[USER[:PASSWORD]@]HOST[:PORT]/TOPIC, or
    /// ws[s]://[USER[:PASSWORD]@]HOST[:PORT]/PATH with -t
    #[arg(short = 'L', long, value_name = "URL",
        conflicts_with_all = ["host", "port", "user_name", "password"])]
    pub(crate) url: Option<Url>,
    /// Unix socket of the broker, instead of host and port
    #[arg(long, value_name = "PATH", conflicts_with_all = ["url", "source"])]
    unix: Option<PathBuf>,
    /// Local address to connect from
    #[arg(short = 'A', value_name = "ADDRESS")]
    source: Option<IpAddr>,
    /// MQTT version: 5, 311 or 31, also as mqttv5 etc. [default: 311, or 5 with -D or -x]
    #[arg(short = 'V', long = "protocol-version", value_name = "VERSION",
        value_parser = parse_version)]
    version: Option<Version>,
    /// Client identifier [default: random]
    #[arg(short = 'i', long = "id", value_name = "ID", allow_hyphen_values = true)]
    client_id: Option<String>,
    /// Use PREFIX and the process id as the client identifier
    #[arg(short = 'I', long, value_name = "PREFIX", conflicts_with = "client_id")]
    id_prefix: Option<String>,
    /// User name
    #[arg(short, long = "username", value_name = "NAME", allow_hyphen_values = true)]
    user_name: Option<String>,
    /// Password
    #[arg(short = 'P', long = "pw", value_name = "PASSWORD", allow_hyphen_values = true)]
    password: Option<String>,
    /// Keep alive in seconds; 0 turns it off
    #[arg(short, long = "keepalive", value_name = "SECONDS", default_value_t = 60)]
    keep_alive: u16,
    /// Exit, with code 27, when the broker owes an answer and gives none for this many seconds; 0
    /// waits for ever
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(crate) answer_timeout: u32,
    /// Keep the session (no Clean Session, no Clean Start); needs -i
    #[arg(short = 'c', long = "disable-clean-session")]
    is_session_kept: bool,
    /// Seconds the session outlives the connection (5.0); -1 is forever [default: 0, or -1 with -c]
    #[arg(short = 'x', long, value_name = "SECONDS", allow_hyphen_values = true,
        value_parser = parse_expiry)]
    session_expiry_interval: Option<u32>,
    /// Topic of the will
    #[arg(long, value_name = "TOPIC", allow_hyphen_values = true)]
    will_topic: Option<String>,
    /// Payload of the will [default: empty]
    #[arg(long, value_name = "TEXT", requires = "will_topic", allow_hyphen_values = true)]
    will_payload: Option<String>,
    /// QoS of the will
    #[arg(long, value_name = "QOS", requires = "will_topic", value_parser = parse_qos)]
    will_qos: Option<QoS>,
    /// Retain the will
    #[arg(long, requires = "will_topic")]
    will_retain: bool,
    /// MQTT 5.0 property, such as `-D publish content-type text/plain`; may be given several times
    #[arg(short = 'D', long = "property", num_args = 3..=4, action = ArgAction::Append,
        value_names = ["PACKET", "NAME", "VALUE", "VALUE"])]
    properties: Vec<String>,
    /// Send without Nagle's delay; this is always so, and the option is for scripts that have it
    #[arg(long = "nodelay")]
    _has_no_delay: bool,
    /// Print every packet to standard error
    #[arg(short, long)]
    debug: bool,
    /// Print no errors; only the exit code tells
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Print this help
    #[arg(long, action = ArgAction::HelpShort)]
    help: Option<bool>,
    #[command(flatten)]
    tls: TlsArgs,
}

/// `5`, `mqttv5` and the like.
fn parse_version(text: &str) -> Result<Version, &'static str> {
    match text.strip_prefix("mqttv").unwrap_or(text) {
        "5" => Ok(Version::V5),
        "311" => Ok(Version::V311),
        "31" => Ok(Version::V31),
        _ => Err("it must be 5, 311 or 31"),
    }
}

pub(crate) fn parse_qos(text: &str) -> Result<QoS, &'static str> {
    text.parse().ok().and_then(QoS::from_u8).ok_or("it must be 0, 1 or 2")
}

fn parse_expiry(text: &str) -> Result<u32, &'static str> {
    match text {
        "-1" | "∞" => Ok(u32::MAX),
        _ => text.parse().map_err(|_| "it must be a number of seconds, or -1"),
    }
}

/// What a connection is made with; checked, so that encoding it cannot fail.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) address: Address,
    pub(crate) transport: Transport,
    pub(crate) source: Option<IpAddr>,
    pub(crate) version: Version,
    pub(crate) keep_alive_s: u16,
    /// Zero is no bound.
    pub(crate) answer_timeout_s: u32,
    pub(crate) properties: PacketProperties,
    pub(crate) is_shown: bool,
    pub(crate) is_quiet: bool,
    client_id: String,
    clean_start: bool,
    will: Option<WillMessage>,
}

#[derive(Clone, Debug)]
struct WillMessage {
    topic: String,
    payload: Vec<u8>,
    qos: QoS,
    retain: bool,
}

impl Settings {
    /// Checks what clap cannot.
    pub(crate) fn new(args: &ConnectionArgs) -> Result<Self, Error> {
        let address = args.address();
        let version = args.version()?;
        if address.password.is_some() && address.user_name.is_none() && !version.is_v5() {
            return Err(Error::option("-P", "", "before MQTT 5.0 it needs a user name: -u"));
        }
        if args.is_session_kept && args.client_id.is_none() && args.id_prefix.is_none() {
            return Err(Error::option("-c", "", "a session is kept by client identifier: -i"));
        }
        let mut settings = Self {
            transport: address.transport(&args.tls)?,
            address,
            source: args.source,
            version,
            keep_alive_s: args.keep_alive,
            answer_timeout_s: args.answer_timeout,
            properties: PacketProperties::parse(&args.properties)?,
            is_shown: args.debug,
            is_quiet: args.quiet,
            client_id: args.client_id(),
            clean_start: !args.is_session_kept,
            will: args.will()?,
        };
        settings.check_lengths()?;
        if let Some(seconds) = args.session_expiry_s() {
            settings
                .properties
                .push(
                    Place::Connect,
                    "session-expiry-interval",
                    Property::SessionExpiryInterval(seconds),
                )
                .map_err(|_| Error::option("-x", seconds.to_string(), "-D sets it as well"))?;
        }
        Ok(settings)
    }

    /// The CONNECT packet.
    pub(crate) fn connect(&self) -> Connect<'_> {
        let will = self.will.as_ref().map(|will| Will {
            topic: &will.topic,
            payload: &will.payload,
            qos: will.qos,
            retain: will.retain,
            properties: self.properties.of(Place::Will),
        });
        Connect {
            version: self.version,
            clean_start: self.clean_start,
            keep_alive_s: self.keep_alive_s,
            client_id: &self.client_id,
            will,
            user_name: self.address.user_name.as_deref(),
            password: self.address.password.as_deref().map(str::as_bytes),
            properties: self.properties.of(Place::Connect),
        }
    }

    /// A string of CONNECT has a length of two bytes.
    fn check_lengths(&self) -> Result<(), Error> {
        let lengths = [
            ("-i", self.client_id.len()),
            ("-u", self.address.user_name.as_ref().map_or(0, String::len)),
            ("-P", self.address.password.as_ref().map_or(0, String::len)),
            ("--will-payload", self.will.as_ref().map_or(0, |will| will.payload.len())),
        ];
        match lengths.into_iter().find(|(_, length)| *length > usize::from(u16::MAX)) {
            Some((option, length)) => {
                Err(Error::option(option, format!("of {length} bytes"), "65535 are allowed"))
            }
            None => Ok(()),
        }
    }
}

impl ConnectionArgs {
    /// Properties exist in 5.0 only, so asking for one asks for 5.0.
    fn version(&self) -> Result<Version, Error> {
        let asks_for_5 =
            [("-D", !self.properties.is_empty()), ("-x", self.session_expiry_interval.is_some())];
        let asking = asks_for_5.into_iter().find(|(_, is_given)| *is_given);
        match (self.version, asking) {
            (Some(version), Some((option, _))) if !version.is_v5() => {
                Err(Error::option(option, "", "it needs MQTT 5.0: -V 5"))
            }
            (Some(version), _) => Ok(version),
            (None, Some(_)) => Ok(Version::V5),
            (None, None) => Ok(Version::V311),
        }
    }

    fn address(&self) -> Address {
        if let Some(url) = self.url.clone() {
            return url.into();
        }
        let has_tls = self.tls.given().is_some() || self.port == Some(Scheme::Mqtts.port());
        let scheme = if has_tls { Scheme::Mqtts } else { Scheme::Mqtt };
        Address {
            scheme,
            port: self.port.unwrap_or(scheme.port()),
            socket: self.unix.clone(),
            user_name: self.user_name.clone(),
            password: self.password.clone(),
            ..Address::plain(self.host.clone(), 0)
        }
    }

    /// At most 23 characters when made up, as MQTT 3.1 asks.
    fn client_id(&self) -> String {
        match (&self.client_id, &self.id_prefix) {
            (Some(client_id), _) => client_id.clone(),
            (None, Some(prefix)) => format!("{prefix}{}", std::process::id()),
            // A process id is not enough: in a container it is 1.
            (None, None) => format!("weir-{:016x}", RandomState::new().hash_one("client")),
        }
    }

    fn session_expiry_s(&self) -> Option<u32> {
        let is_v5 = matches!(self.version(), Ok(Version::V5));
        let kept = (is_v5 && self.is_session_kept).then_some(u32::MAX);
        let is_given = self
            .properties
            .windows(2)
            .any(|words| words[0] == "connect" && words[1] == "session-expiry-interval");
        self.session_expiry_interval.or(kept.filter(|_| !is_given))
    }

    fn will(&self) -> Result<Option<WillMessage>, Error> {
        let Some(topic) = self.will_topic.clone() else { return Ok(None) };
        if !is_valid_name(&topic) {
            return Err(Error::option("--will-topic", topic, NOT_A_NAME));
        }
        Ok(Some(WillMessage {
            topic,
            payload: self.will_payload.clone().unwrap_or_default().into_bytes(),
            qos: self.will_qos.unwrap_or_default(),
            retain: self.will_retain,
        }))
    }
}

/// What a topic name must be.
pub(crate) const NOT_A_NAME: &str = "a topic name is not empty and holds no + and no #";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    #[command(disable_help_flag = true)]
    struct Line {
        #[command(flatten)]
        connection: ConnectionArgs,
    }

    fn settings(line: &str) -> Result<Settings, Error> {
        let words = std::iter::once("weir").chain(line.split_whitespace());
        Settings::new(&Line::try_parse_from(words).unwrap().connection)
    }

    #[test]
    fn the_defaults_are_those_people_know() {
        let settings = settings("").unwrap();
        let connect = settings.connect();
        assert_eq!(settings.address.to_string(), "localhost:1883");
        assert_eq!((connect.version, connect.keep_alive_s), (Version::V311, 60));
        assert!(connect.clean_start && connect.will.is_none() && connect.user_name.is_none());
        assert!((1..=23).contains(&connect.client_id.len()), "{}", connect.client_id);
    }

    #[test]
    fn a_property_asks_for_5_and_clashes_with_an_older_version() {
        assert_eq!(settings("-D connect receive-maximum 3").unwrap().version, Version::V5);
        assert_eq!(settings("-x 3").unwrap().version, Version::V5);
        for line in ["-V 311 -D connect receive-maximum 3", "-V mqttv31 -x 3"] {
            let text = settings(line).unwrap_err().to_string();
            assert!(text.contains("-V 5"), "{text}");
        }
    }

    #[test]
    fn a_kept_session_of_5_never_expires_unless_said() {
        let expiry = |line: &str| {
            let settings = settings(line).unwrap();
            let expiry = |property| match property {
                Property::SessionExpiryInterval(seconds) => Some(seconds),
                _ => None,
            };
            settings.connect().properties.find(expiry)
        };
        assert_eq!(expiry("-V 5"), None);
        assert_eq!(expiry("-V 5 -c -i a"), Some(u32::MAX));
        assert_eq!(expiry("-x -1 -i a"), Some(u32::MAX));
        assert_eq!(expiry("-c -i a -x 7"), Some(7));
        assert_eq!(expiry("-c -i a -D connect session-expiry-interval 8"), Some(8));
        let twice = settings("-x 1 -D connect session-expiry-interval 8").unwrap_err();
        assert!(twice.to_string().contains("-x 1"), "{twice}");
    }

    #[test]
    fn what_cannot_be_sent_is_refused_before_connecting() {
        for (line, part) in
            [("-c", "-i"), ("-P secret", "user name"), ("--will-topic a/#", "topic name")]
        {
            let text = settings(line).unwrap_err().to_string();
            assert!(text.contains(part), "{line}: {text}");
            assert!(!text.contains("secret"), "{text}");
        }
        assert!(settings("-V 5 -P secret").is_ok());
    }

    #[test]
    fn tls_is_spoken_where_anything_asks_for_it() {
        for (line, scheme, port) in [
            ("", Scheme::Mqtt, 1883),
            ("-p 8884", Scheme::Mqtt, 8884),
            ("-p 8883", Scheme::Mqtts, 8883),
            ("--insecure", Scheme::Mqtts, 8883),
            ("-p 1883 --tls-version tlsv1.3", Scheme::Mqtts, 1883),
            ("-L wss://h/p", Scheme::Wss, 443),
        ] {
            let Address { scheme: found, port: at, .. } = settings(line).unwrap().address;
            assert_eq!((found, at), (scheme, port), "{line}");
        }
    }

    #[test]
    fn options_of_tls_that_cannot_be_used_are_named() {
        for (line, part) in [
            ("-L mqtt://h/t --insecure", "--insecure: TLS is not spoken"),
            ("--cafile /no/such/file", "--cafile /no/such/file: No such file"),
            ("--ciphers RC4-MD5", "\"RC4-MD5\" is no cipher suite"),
            ("--ciphers ECDHE-RSA-AES128-GCM-SHA256 --tls-version tlsv1.3", "for another version"),
        ] {
            let text = settings(line).unwrap_err().to_string();
            assert!(text.contains(part), "{line}: {text}");
        }
    }

    #[test]
    fn a_url_says_it_all() {
        let settings = settings("-L mqtt://u:p@[::1]:7/t").unwrap();
        assert_eq!(settings.address.to_string(), "[::1]:7");
        let connect = settings.connect();
        assert_eq!((connect.user_name, connect.password), (Some("u"), Some(&b"p"[..])));
    }
}
