//! The whole terminal while runs last: a thread that draws the state and listens to keys.

mod charts;
mod draw;
mod errors;

use super::Viewer;
use super::events::Event;
use super::state::State;
use crate::host::step_back;
use crate::interrupt::Interrupted;
use anyhow::Context;
use errors::Errors;
use ratatui::crossterm::event::{self, Event as Input, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::style::{Color, Style};
use ratatui::text::Span;
use ratatui::widgets::Block;
use std::io::IsTerminal;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Events that may wait for the screen. One that finds no room is not shown: the run goes on.
const EVENTS_MAX: usize = 4_096;

/// How often keys are looked at.
const KEYS_EVERY: Duration = Duration::from_millis(100);

/// The screen is drawn anew after so long at the latest.
const DRAWN_EVERY: Duration = Duration::from_secs(1);

/// What is beside the matter.
const SOFT: Style = Style::new().fg(Color::DarkGray);

/// The screen. Dropping it gives the terminal back.
pub(crate) struct Screen {
    /// Taken to end the thread.
    events: Option<SyncSender<Event>>,
    thread: Option<JoinHandle<()>>,
}

impl Screen {
    /// Takes the terminal; its thread stays on `core`, if one is given.
    ///
    /// # Errors
    /// Standard output is no terminal, or one that cannot be drawn on.
    pub(crate) fn open(core: Option<usize>, interrupted: &Interrupted) -> anyhow::Result<Self> {
        anyhow::ensure!(
            std::io::stdout().is_terminal(),
            "standard output is not a terminal: choose --ui plain"
        );
        let errors = Errors::catch().context("cannot keep standard error off the screen")?;
        // It has a hook for panics that gives the terminal back first.
        let mut terminal = ratatui::try_init().context("cannot draw on this terminal")?;
        let (events, heard) = sync_channel(EVENTS_MAX);
        let interrupted = interrupted.clone();
        let show = move || {
            step_back(core);
            let mut view = View { state: State::default(), errors, interrupted };
            if let Err(error) = view.show(&mut terminal, &heard) {
                tracing::warn!(%error, "the screen cannot be drawn any more");
            }
            ratatui::restore();
        };
        let thread = std::thread::Builder::new().name("screen".into()).spawn(show)?;
        Ok(Self { events: Some(events), thread: Some(thread) })
    }
}

impl Viewer for Screen {
    fn handle(&mut self, event: &Event) {
        if let Some(events) = &self.events {
            // Full or gone: what is not drawn is in the result all the same.
            let _ = events.try_send(event.clone());
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.events = None;
        if let Some(thread) = self.thread.take() {
            // One that panicked has given the terminal back in its hook.
            let _ = thread.join();
        }
    }
}

/// A frame with a name.
fn card(title: &str) -> Block<'static> {
    Block::bordered()
        .border_style(SOFT)
        .title(Span::styled(format!(" {title} "), Style::new().bold()))
}

struct View {
    state: State,
    errors: Errors,
    interrupted: Interrupted,
}

impl View {
    /// Until nobody tells anything any more.
    fn show(
        &mut self,
        terminal: &mut ratatui::DefaultTerminal,
        events: &Receiver<Event>,
    ) -> std::io::Result<()> {
        let mut drawn: Option<Instant> = None;
        loop {
            let mut is_new = self.keys()?;
            match events.recv_timeout(KEYS_EVERY) {
                Ok(event) => {
                    self.state.handle(&event);
                    events.try_iter().for_each(|event| self.state.handle(&event));
                    is_new = true;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if is_new || drawn.is_none_or(|drawn| drawn.elapsed() >= DRAWN_EVERY) {
                let said = self.errors.last_line();
                let is_stopping = self.interrupted.load(Ordering::Relaxed);
                terminal.draw(|frame| draw::draw(frame, &self.state, &said, is_stopping))?;
                drawn = Some(Instant::now());
            }
        }
    }

    /// Whether a key, or another size of the terminal, asks for a new picture.
    fn keys(&mut self) -> std::io::Result<bool> {
        let mut is_new = false;
        while event::poll(Duration::ZERO)? {
            let input = event::read()?;
            is_new |= matches!(input, Input::Resize(..));
            if is_stop(&input) {
                self.interrupted.store(true, Ordering::Relaxed);
                is_new = true;
            }
        }
        Ok(is_new)
    }
}

/// q, or Ctrl-C, which is a key and no signal while the screen is drawn.
fn is_stop(input: &Input) -> bool {
    let Input::Key(key) = input else { return false };
    let is_ctrl_c = key.code == KeyCode::Char('c') && key.modifiers == KeyModifiers::CONTROL;
    key.kind == KeyEventKind::Press && (is_ctrl_c || key.code == KeyCode::Char('q'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::crossterm::event::KeyEvent;

    #[test]
    fn q_and_control_c_stop_and_no_other_key_does() {
        let key = |code, modifiers| Input::Key(KeyEvent::new(code, modifiers));
        assert!(is_stop(&key(KeyCode::Char('q'), KeyModifiers::NONE)));
        assert!(is_stop(&key(KeyCode::Char('c'), KeyModifiers::CONTROL)));
        assert!(!is_stop(&key(KeyCode::Char('c'), KeyModifiers::NONE)));
        assert!(!is_stop(&key(KeyCode::Esc, KeyModifiers::NONE)));
        assert!(!is_stop(&Input::Resize(80, 24)));
    }
}
