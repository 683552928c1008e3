//! What the broker tells systemd, which started it.

use crate::support::Broker;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

#[test]
fn systemd_hears_that_the_broker_is_ready_and_that_its_shards_turn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let said = || {
        let mut bytes = [0; 64];
        let count = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..count].to_vec()).unwrap()
    };
    let file = folder.path().join("weir.toml");
    std::fs::write(&file, "listen = [\"127.0.0.1:0\"]\nshards = 3\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("broker").arg(file).env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "40000");
    let broker = Broker::by(&mut command).unwrap();
    // Three shards that sleep: each has to be woken each time.
    let (mut is_ready, mut tells) = (false, 0);
    while !is_ready || tells < 10 {
        match said().as_str() {
            "READY=1" => is_ready = true,
            "WATCHDOG=1" => tells += 1,
            other => panic!("{other}"),
        }
    }
    drop(broker);
}
