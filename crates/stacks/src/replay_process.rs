//! The replay server's process, from the runner's side.

use crate::replay::{Counts, Order, Play, Played, Said};
use anyhow::{Context, bail};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long it may take to answer what it can answer at once.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A replay server. Dropping it ends it: its input does.
pub(crate) struct Replay {
    child: Child,
    input: Option<ChildStdin>,
    said: Receiver<Said>,
    pub(crate) address: SocketAddr,
}

/// Times of a play, microseconds of the monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    pub(crate) measure_us: (u64, u64),
}

impl Replay {
    /// Starts one; it inherits the calling thread's processor.
    pub(crate) fn start(weir: &Path) -> anyhow::Result<Self> {
        let mut child = Command::new(weir)
            .args(["bench", "replay"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .context("the replay server cannot be started")?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let said = listen(output);
        let address = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut replay = Self { child, input, said, address };
        match replay.hear(ANSWER_MAX)? {
            Said::Listening { address } => replay.address = address.parse()?,
            other => bail!("the replay server began with {other:?}"),
        }
        Ok(replay)
    }

    /// Waits until the stack has subscribed; the protocol level and the QoS it was granted.
    pub(crate) fn subscribed(&mut self) -> anyhow::Result<(u8, u8)> {
        match self.hear(ANSWER_MAX).context("the stack is ready and has not subscribed")? {
            Said::Subscribed { level, qos, .. } => Ok((level, qos)),
            other => bail!("the stack was to subscribe, and the replay server said {other:?}"),
        }
    }

    /// Begins a play.
    pub(crate) fn play(&mut self, play: Play) -> anyhow::Result<Times> {
        self.tell(&Order::Play(play))?;
        match self.hear(ANSWER_MAX)? {
            Said::Playing { measure_us, .. } => Ok(Times { measure_us }),
            other => bail!("the replay server does not play: {other:?}"),
        }
    }

    /// Waits for the end of a play, `time_max` from now.
    pub(crate) fn played(&mut self, time_max: Duration) -> anyhow::Result<Played> {
        let deadline = Instant::now() + time_max;
        loop {
            match self.hear(deadline.saturating_duration_since(Instant::now()))? {
                Said::Sent { .. } => {}
                Said::Played(played) => return Ok(*played),
                other => bail!("a play was to end, and the replay server said {other:?}"),
            }
        }
    }

    /// What it has counted.
    pub(crate) fn counts(&mut self) -> anyhow::Result<Counts> {
        self.tell(&Order::Counts {})?;
        loop {
            match self.hear(ANSWER_MAX)? {
                Said::Counts(counts) => return Ok(counts),
                // Said before the order came.
                Said::Subscribed { .. } => {}
                other => bail!("the replay server was asked for counts and said {other:?}"),
            }
        }
    }

    fn tell(&mut self, order: &Order) -> anyhow::Result<()> {
        let line = serde_json::to_string(order)?;
        let input = self.input.as_mut().context("the replay server was ended")?;
        writeln!(input, "{line}")
            .and_then(|()| input.flush())
            .context("the replay server has ended by itself")
    }

    fn hear(&mut self, time_max: Duration) -> anyhow::Result<Said> {
        match self.said.recv_timeout(time_max) {
            Ok(said) => Ok(said),
            Err(RecvTimeoutError::Timeout) => {
                bail!("the replay server said nothing for {:.0} s", time_max.as_secs_f64())
            }
            Err(RecvTimeoutError::Disconnected) => bail!("the replay server has ended by itself"),
        }
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        drop(self.input.take());
        let deadline = Instant::now() + ANSWER_MAX;
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(2)),
                _ => return,
            }
        }
        // It is stuck.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listen(output: Option<ChildStdout>) -> Receiver<Said> {
    let (sender, said) = channel();
    std::thread::spawn(move || {
        let Some(output) = output else { return };
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let of = serde_json::from_str(&line)
                .unwrap_or_else(|error| Said::Failed { why: format!("{line:?}: {error}") });
            if sender.send(of).is_err() {
                return;
            }
        }
    });
    said
}
