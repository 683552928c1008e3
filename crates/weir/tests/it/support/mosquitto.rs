//! Mosquitto as a process of its own. `WEIR_MOSQUITTO` names another program than the installed
//! one.

use super::live::free;
use super::tool;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};

/// Mosquitto on a port of its own; ended with the value.
pub(crate) struct Mosquitto {
    child: Child,
    pub(crate) port: String,
    _log: BufReader<ChildStderr>,
    _folder: tempfile::TempDir,
}

impl Mosquitto {
    /// With these lines in its configuration; nothing if it is not installed.
    pub(crate) fn start(lines: &str) -> Option<Self> {
        let named = std::env::var_os("WEIR_MOSQUITTO").map(PathBuf::from);
        let program = named.or_else(|| tool(&["mosquitto"]))?;
        let folder = tempfile::tempdir().unwrap();
        // Another process may take the port meanwhile; then another is tried.
        for _ in 0..10 {
            let port = free().to_string();
            let (file, acl) = (folder.path().join("m.conf"), folder.path().join("acl"));
            std::fs::write(&acl, "topic read #\ntopic write open/#\n").unwrap();
            let lines = lines.replace("ACL", acl.to_str().unwrap());
            std::fs::write(&file, format!("listener {port} 127.0.0.1\nuser root\n{lines}\n"))
                .unwrap();
            let mut child =
                Command::new(&program).arg("-c").arg(&file).stderr(Stdio::piped()).spawn().unwrap();
            let mut log = BufReader::new(child.stderr.take().unwrap());
            let mut line = String::new();
            while log.read_line(&mut line).unwrap() > 0 {
                // 2.1 says before that it is running as some user.
                if line.trim_end().ends_with(" running") {
                    return Some(Self { child, port, _log: log, _folder: folder });
                }
                line.clear();
            }
            child.wait().unwrap();
        }
        panic!("mosquitto does not start");
    }
}

impl Mosquitto {
    /// Has it write what it keeps, and end.
    pub(crate) fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
