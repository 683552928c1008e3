//! The agents' processes: started, heard, and ended without leaving anything behind.

use super::line::{Hello, Order, PROTOCOL, Said, read_line, shown};
use crate::LoadError;
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long an agent may take to say hello: a login over ssh is slow.
const HELLO_MAX: Duration = Duration::from_secs(20);

/// How long it may take to end once its input has.
const END_MAX: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What agents have said and nobody has heard, and orders that wait to be written.
const EVENTS_MAX: usize = 1024;
const ORDERS_MAX: usize = 16;

/// Lines of its standard error that are kept for an error.
const ERRORS_MAX: usize = 3;
const ERROR_BYTES_MAX: u64 = 300;

/// How one agent is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentCommand {
    /// Program and arguments.
    pub command: Vec<String>,
    /// The same for a person.
    pub text: String,
    /// Processor it is kept on, if it runs on this host.
    pub core: Option<usize>,
}

impl AgentCommand {
    /// A line for the shell, such as `ssh host weir agent`.
    pub fn shell(line: &str) -> Self {
        let command = ["sh", "-c", line].map(str::to_owned).to_vec();
        Self { command, text: line.into(), core: None }
    }
}

/// What comes from an agent.
#[derive(Debug)]
pub(super) enum Event {
    Said(Said),
    /// A line that is not of the protocol.
    Garbage(String),
    /// Its standard output has ended.
    Ended,
}

/// One agent's process.
pub(super) struct Agent {
    /// As it is called in messages.
    pub(super) name: String,
    pub(super) hello: Hello,
    /// Of the hello, on our clock.
    pub(super) heard_us: u64,
    child: Child,
    orders: Option<SyncSender<Vec<u8>>>,
    errors: Arc<Mutex<VecDeque<String>>>,
}

/// All agents of a run. Dropping it ends their processes.
pub struct Fleet {
    pub(super) agents: Vec<Agent>,
    pub(super) events: Receiver<(usize, Event)>,
}

impl Fleet {
    /// Starts the commands and waits until every agent has said who it is.
    ///
    /// # Errors
    /// One that cannot be started, ends, says nothing in time, or speaks another protocol.
    pub fn start(commands: &[AgentCommand]) -> Result<Self, LoadError> {
        let (tells, events) = sync_channel(EVENTS_MAX);
        let mut fleet = Self { agents: Vec::new(), events };
        for (at, command) in commands.iter().enumerate() {
            fleet.agents.push(Agent::start(at, commands.len(), command, &tells)?);
        }
        drop(tells);
        fleet.wait_for_hellos()?;
        Ok(fleet)
    }

    fn wait_for_hellos(&mut self) -> Result<(), LoadError> {
        let deadline = Instant::now() + HELLO_MAX;
        while let Some(missing) = self.agents.iter().position(|agent| agent.hello.protocol == 0) {
            let wait = deadline.saturating_duration_since(Instant::now());
            let (at, event) = match self.events.recv_timeout(wait) {
                Ok(heard) => heard,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(self.agents[missing].error("does not say hello"));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.agents[missing].error("has ended"));
                }
            };
            let agent = &mut self.agents[at];
            match event {
                Event::Said(Said::Hello(hello)) if hello.protocol != PROTOCOL => {
                    return Err(agent.error(&format!(
                        "is weir {} and speaks version {} of the agents' protocol, this one \
                         version {PROTOCOL}: use the same weir on both sides",
                        hello.version, hello.protocol
                    )));
                }
                Event::Said(Said::Hello(hello)) => {
                    agent.heard_us = weir_reactor::now_us();
                    agent.hello = hello;
                }
                // It knows no plan yet, but beats.
                Event::Said(Said::Beat(_)) => {}
                Event::Said(Said::Failed { why }) => return Err(agent.error(&why)),
                Event::Said(said) => {
                    return Err(agent.error(&format!("says before its plan: {said:?}")));
                }
                Event::Garbage(what) => return Err(agent.error(&what)),
                Event::Ended => {
                    let how = agent.how_it_ended();
                    return Err(agent.error(&format!("{how} before it said hello")));
                }
            }
        }
        Ok(())
    }

    /// The processes that were started, in order.
    pub fn processes(&self) -> Vec<u32> {
        self.agents.iter().map(|agent| agent.child.id()).collect()
    }

    /// Connections that each agent holds.
    pub fn holds(&self) -> Vec<u64> {
        let hold = |agent: &Agent| agent.hello.open_files_max.saturating_sub(crate::FILES_RESERVED);
        self.agents.iter().map(hold).collect()
    }
}

impl Agent {
    fn start(
        at: usize,
        of: usize,
        command: &AgentCommand,
        tells: &SyncSender<(usize, Event)>,
    ) -> Result<Self, LoadError> {
        let name = format!("agent {} of {of} ({})", at + 1, command.text);
        let cannot = |error| LoadError::Protocol(format!("{name} cannot be started: {error}"));
        let [program, arguments @ ..] = &*command.command else {
            return Err(LoadError::Protocol(format!("{name} has no command")));
        };
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C is for us; we end the agents in our own time.
            .process_group(0)
            .spawn()
            .map_err(cannot)?;
        if let Some(core) = command.core {
            pin(&child, core);
        }
        let (Some(input), Some(output), Some(error)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(LoadError::Protocol(format!("{name} has no pipes")));
        };
        let (orders, waiting) = sync_channel(ORDERS_MAX);
        std::thread::spawn(move || write_orders(input, &waiting));
        let tells = tells.clone();
        std::thread::spawn(move || read_all(BufReader::new(output), at, &tells));
        let errors = Arc::new(Mutex::new(VecDeque::new()));
        let kept = Arc::clone(&errors);
        std::thread::spawn(move || keep_errors(BufReader::new(error), &kept));
        let hello = Hello {
            protocol: 0,
            version: String::new(),
            host: String::new(),
            pid: 0,
            clock: String::new(),
            now_us: 0,
            open_files_max: 0,
            cores: 0,
        };
        Ok(Self { name, hello, heard_us: 0, child, orders: Some(orders), errors })
    }

    /// Gives an order; one that does not take it will be noticed by its silence.
    pub(super) fn order(&self, order: &Order) {
        if let (Some(orders), Ok(mut line)) = (&self.orders, serde_json::to_vec(order)) {
            line.push(b'\n');
            let _ = orders.try_send(line);
        }
    }

    /// How the process ended, for a person; its output has.
    pub(super) fn how_it_ended(&mut self) -> String {
        let deadline = Instant::now() + END_MAX / 10;
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(Some(status)) => return format!("ended by itself: {status}"),
                Ok(None) => std::thread::sleep(LOOK_EVERY),
                Err(_) => break,
            }
        }
        "closed its output".into()
    }

    pub(super) fn error(&self, what: &str) -> LoadError {
        LoadError::Protocol(format!("{} {what}{}", self.name, self.last_words()))
    }

    /// The end of its standard error, for an error.
    pub(super) fn last_words(&self) -> String {
        let errors = self.errors.lock().map(|errors| errors.iter().cloned().collect::<Vec<_>>());
        match errors.unwrap_or_default() {
            words if words.is_empty() => String::new(),
            words => format!("; it said: {}", words.join(" / ")),
        }
    }

    /// Whether it reads our clock.
    pub(super) fn shares_clock(&self, clock: &str) -> bool {
        self.hello.clock == clock
    }

    /// One line of what is disclosed.
    pub(super) fn describe(&self, clock: &str, slice: &str) -> String {
        let Hello { version, host, cores, open_files_max, .. } = &self.hello;
        let shared = if self.shares_clock(clock) { "shared" } else { "its own" };
        format!(
            "{}: weir {version} on {host}, {cores} processors, {open_files_max} files, clock \
             {shared}; {slice}",
            self.name
        )
    }

    fn end(&mut self, deadline: Instant) {
        // Its input ends, and with it the agent.
        self.orders = None;
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(LOOK_EVERY),
                Ok(Some(_)) | Err(_) => return,
            }
        }
        tracing::warn!("{} did not end with its input; it is killed", self.name);
        // It is not waited for yet, so its id is still its own; it leads a group of its own.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.agents.iter_mut().for_each(|agent| agent.orders = None);
        let deadline = Instant::now() + END_MAX;
        self.agents.iter_mut().for_each(|agent| agent.end(deadline));
    }
}

fn pin(child: &Child, core: usize) {
    let mut cores = rustix::thread::CpuSet::new();
    cores.set(core);
    if let Err(error) = rustix::thread::sched_setaffinity(Some(Pid::from_child(child)), &cores) {
        tracing::warn!(%error, "an agent could not be pinned");
    }
}

fn write_orders(mut input: ChildStdin, orders: &Receiver<Vec<u8>>) {
    while let Ok(line) = orders.recv() {
        // An agent that is gone is noticed by its output.
        if input.write_all(&line).and_then(|()| input.flush()).is_err() {
            return;
        }
    }
}

fn read_all(mut output: impl BufRead, at: usize, tells: &SyncSender<(usize, Event)>) {
    loop {
        let event = match read_line(&mut output) {
            Ok(Some(line)) => match serde_json::from_slice(&line) {
                Ok(said) => Event::Said(said),
                Err(error) => Event::Garbage(format!(
                    "says what is not of the agents' protocol: {} ({error})",
                    shown(&line)
                )),
            },
            Ok(None) => Event::Ended,
            Err(error) => Event::Garbage(format!("cannot be heard: {error}")),
        };
        let is_last = !matches!(event, Event::Said(_));
        // Once nobody listens, the pipe is closed and the agent stopped by that.
        if tells.send((at, event)).is_err() || is_last {
            return;
        }
    }
}

fn keep_errors(mut errors: impl BufRead, kept: &Mutex<VecDeque<String>>) {
    let mut line = Vec::new();
    // What is longer than a line of text is cut, not kept.
    while errors.by_ref().take(ERROR_BYTES_MAX).read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        let text = String::from_utf8_lossy(&line).trim().to_owned();
        line.clear();
        tracing::debug!("an agent says: {text}");
        if let Ok(mut kept) = kept.lock()
            && !text.is_empty()
        {
            kept.push_back(text);
            if kept.len() > ERRORS_MAX {
                kept.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baton::Status;

    const HELLO: &str = r#"{"hello":{"protocol":PROTOCOL,"version":"1.2","host":"far","pid":3,
        "clock":"its","now_us":4,"open_files_max":1100,"cores":5}}"#;

    fn hello(protocol: u32) -> String {
        HELLO.replace("PROTOCOL", &protocol.to_string()).replace(['\n', ' '], "")
    }

    /// Agents that say this, a line each, and stay until their input ends.
    fn fleet(said: &[&[String]]) -> Result<Fleet, LoadError> {
        let command = |lines: &&[String]| {
            let say = lines.iter().map(|line| format!("echo '{line}'; "));
            AgentCommand::shell(&format!("{}cat >/dev/null", say.collect::<String>()))
        };
        Fleet::start(&said.iter().map(command).collect::<Vec<_>>())
    }

    fn refused(lines: &[String]) -> String {
        fleet(&[&[hello(PROTOCOL)], lines]).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn agents_that_say_hello_are_known_by_it() {
        let beat = serde_json::to_string(&Said::Beat(Status::default())).unwrap();
        let fleet = fleet(&[&[hello(PROTOCOL)], &[beat, hello(PROTOCOL)]]).unwrap();
        assert_eq!(fleet.holds(), [1_000, 1_000]);
        let processes: Vec<u32> = fleet.agents.iter().map(|agent| agent.child.id()).collect();
        assert_eq!(fleet.processes(), processes);
        let agent = &fleet.agents[1];
        assert!(agent.name.starts_with("agent 2 of 2 (echo"), "{}", agent.name);
        assert!(agent.heard_us > 0 && agent.shares_clock("its") && !agent.shares_clock("ours"));
        let told = |clock| agent.describe(clock, "half");
        let facts = ": weir 1.2 on far, 5 processors, 1100 files, clock ";
        assert!(told("its").ends_with(&format!("{facts}shared; half")), "{}", told("its"));
        assert!(told("ours").ends_with(&format!("{facts}its own; half")), "{}", told("ours"));
        drop(fleet);
        for process in processes {
            assert!(!std::path::Path::new(&format!("/proc/{process}")).exists(), "it is left");
        }
    }

    #[test]
    fn who_is_no_agent_of_this_version_is_refused_with_what_it_said() {
        let other = refused(&[hello(PROTOCOL + 1)]);
        let parts = ["agent 2 of 2 (", "is weir 1.2 and speaks version 8", "this one version 7"];
        parts.iter().for_each(|part| assert!(other.contains(part), "{part}: {other}"));
        let garbage = refused(&["hallo".into()]);
        let text = "says what is not of the agents' protocol: \"hallo\"";
        assert!(garbage.contains(text), "{garbage}");
        let failed = serde_json::to_string(&Said::Failed { why: "has no files".into() });
        let failed = refused(&[failed.unwrap()]);
        assert!(failed.ends_with(") has no files"), "{failed}");
        let early = refused(&[serde_json::to_string(&Said::Planned { clients: 8 }).unwrap()]);
        assert!(early.contains("says before its plan: Planned { clients: 8 }"), "{early}");
        let start = |command| Fleet::start(&[command]).map(|_| ()).unwrap_err().to_string();
        let ended = start(AgentCommand::shell("exit 3"));
        assert!(ended.contains("ended by itself: exit status: 3 before it said"), "{ended}");
        let none = AgentCommand { command: Vec::new(), text: "none".into(), core: None };
        let told = start(none.clone());
        assert!(told.contains("agent 1 of 1 (none) has no command"), "{told}");
        let told = start(AgentCommand { command: vec!["/none".into()], ..none });
        assert!(told.contains("(none) cannot be started: No such file"), "{told}");
    }

    #[test]
    fn the_end_of_its_standard_error_is_kept_line_by_line() {
        let kept = Mutex::default();
        let long = "x".repeat(ERROR_BYTES_MAX as usize);
        keep_errors(format!("one\n\n two \nthree\n{long}four\n").as_bytes(), &kept);
        assert_eq!(*kept.lock().unwrap(), ["three", &long, "four"]);
    }

    #[test]
    fn what_is_said_is_heard_until_it_is_nothing_of_ours() {
        let heard = |said: &str| -> Vec<String> {
            let (tells, events) = sync_channel(8);
            read_all(said.as_bytes(), 4, &tells);
            events.try_iter().map(|(at, event)| format!("{at} {event:?}")).collect()
        };
        let planned = serde_json::to_string(&Said::Planned { clients: 8 }).unwrap();
        let said = "4 Said(Planned { clients: 8 })";
        assert_eq!(heard(&format!("{planned}\n{planned}\n")), [said, said, "4 Ended"]);
        let heard = heard(&format!("{planned}\nhallo\n{planned}\n"));
        assert!(heard.len() == 2 && heard[1].starts_with("4 Garbage"), "{heard:?}");
    }
}
