//! What a caller says about a connection.

use weir_wire::Version;

/// How to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectOptions<'a> {
    /// Protocol to speak.
    pub version: Version,
    /// Client identifier; may be empty.
    pub client_id: &'a str,
    /// Clean Start or Clean Session.
    pub clean_start: bool,
    /// Seconds; 0 is off.
    pub keep_alive_s: u16,
    /// 5.0: seconds the session outlives the connection.
    pub session_expiry_s: u32,
    /// Credentials, if any.
    pub user_name: Option<&'a str>,
    /// Credentials, if any.
    pub password: Option<&'a [u8]>,
}
