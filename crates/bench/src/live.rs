//! What a person or a machine sees while runs last: one stream of events, and its viewers.
//!
//! A viewer must not block and must not disturb: it works on a thread of its own, of the lowest
//! priority, on the load's core where that is known, never on the broker's.

pub mod events;
mod lines;
#[cfg(test)]
pub(crate) mod sample;
mod screen;
pub mod state;
mod text;

pub(crate) use events::name;

use crate::assemble;
use crate::monitor::Sample;
use crate::run::Interrupted;
use crate::usecase::Step;
use crate::web::{self, Web};
use events::{Event, Mark, PhaseBegun};
use lines::Lines;
use screen::Screen;
use std::fmt;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use weir_load::outcome::{Interval, Phase};

/// Who hears of every event, in order.
pub(crate) trait Viewer: Send {
    /// Notes or shows it; must not block.
    fn handle(&mut self, event: &Event);
}

/// What is shown, and where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ui {
    /// The screen where standard output is a terminal, else lines.
    #[default]
    Auto,
    /// Lines on standard error, one below the other.
    Plain,
    /// The whole terminal.
    Screen,
    /// A page at this address, and lines on standard error.
    Web(SocketAddr),
    /// Nothing before the tables.
    None,
}

impl FromStr for Ui {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(address) = text.strip_prefix("web=") {
            let hint = || format!("{address:?} is no address such as 127.0.0.1:8080");
            return address.parse().map(Self::Web).map_err(|_| hint());
        }
        match text {
            "auto" => Ok(Self::Auto),
            "plain" => Ok(Self::Plain),
            "screen" => Ok(Self::Screen),
            "web" => Ok(Self::Web(web::ADDRESS)),
            "none" => Ok(Self::None),
            _ => Err("one of auto, plain, screen, web, web=ADDRESS, none".into()),
        }
    }
}

/// What the viewers of a command need to know.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What is shown, and where.
    pub ui: Ui,
    /// Where metrics can be read, if anywhere.
    pub metrics: Option<SocketAddr>,
    /// The folder of results that the page browses.
    pub results: PathBuf,
    /// Where viewers may run: the load's core.
    pub core: Option<usize>,
}

/// The viewers of a command. Clones are the same viewers; the default is none.
#[derive(Clone, Default)]
pub struct Live(Arc<Mutex<Vec<Box<dyn Viewer>>>>);

impl fmt::Debug for Live {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Live")
    }
}

impl Live {
    /// Opens the viewers that are asked for. A wish to stop given to one sets `interrupted`.
    ///
    /// # Errors
    /// A screen that was asked for where there is no terminal, an address that is taken.
    pub fn open(options: &Options, interrupted: &Interrupted) -> anyhow::Result<Self> {
        let mut viewers: Vec<Box<dyn Viewer>> = Vec::new();
        let page = if let Ui::Web(address) = options.ui { Some(address) } else { None };
        if page.is_some() || options.metrics.is_some() {
            // First: it says where it is, before there is a screen.
            let (metrics, results) = (options.metrics, &options.results);
            viewers.push(Box::new(Web::open(page, metrics, results, options.core)?));
        }
        // What calls itself dumb cannot be drawn on.
        let is_dumb = std::env::var_os("TERM").is_none_or(|name| name == "dumb");
        let is_terminal = std::io::stdout().is_terminal() && !is_dumb;
        let has_line = std::io::stderr().is_terminal();
        match options.ui {
            Ui::None => {}
            Ui::Web(_) => viewers.push(Box::new(Lines::new(has_line))),
            Ui::Plain => viewers.push(Box::new(Lines::new(false))),
            Ui::Screen => viewers.push(Box::new(Screen::open(options.core, interrupted)?)),
            Ui::Auto => match is_terminal.then(|| Screen::open(options.core, interrupted)) {
                Some(Ok(screen)) => viewers.push(Box::new(screen)),
                // A terminal that cannot be drawn on bears a line.
                _ => viewers.push(Box::new(Lines::new(has_line))),
            },
        }
        Ok(Self(Arc::new(Mutex::new(viewers))))
    }

    /// Tells every viewer.
    pub fn tell(&self, event: &Event) {
        if let Ok(mut viewers) = self.0.lock() {
            viewers.iter_mut().for_each(|viewer| viewer.handle(event));
        }
    }

    /// Ends every viewer; the terminal is as it was.
    pub fn close(&self) {
        self.tell(&Event::Over);
        // A viewer that panicked is dropped as well.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clear();
    }
}

/// Makes the calling thread the last to be run, on the processor `core` if one is given.
pub(crate) fn step_back(core: Option<usize>) {
    // For the calling thread alone, on Linux. A viewer that may not step back is no fault.
    let _ = rustix::process::setpriority_process(None, 19);
    if let Some(core) = core {
        crate::host::pin_this_thread(core);
    }
}

/// Tells the intervals of one run, with what was seen of the broker, and its steps as their times
/// come.
pub(crate) struct Teller<'a> {
    live: &'a Live,
    start_us: Option<u64>,
    phase: Option<Phase>,
    /// Seconds from the begin of measure, and what happens then; the latest first.
    moments: Vec<(f64, String)>,
    measure_s: Option<f64>,
}

impl<'a> Teller<'a> {
    pub(crate) fn new(live: &'a Live, steps: &[Step]) -> Self {
        let mut moments: Vec<_> = steps.iter().flat_map(Step::moments).collect();
        moments.sort_by(|one, other| other.0.total_cmp(&one.0));
        Self { live, start_us: None, phase: None, moments, measure_s: None }
    }

    /// Tells an interval that has ended; `samples` are the newest looks at the broker.
    pub(crate) fn interval(&mut self, interval: &Interval, samples: &[Sample]) {
        let start_us = *self.start_us.get_or_insert(interval.start_us);
        if self.phase != Some(interval.phase) {
            self.phase = Some(interval.phase);
            let t_s = interval.start_us.saturating_sub(start_us) as f64 / 1e6;
            self.live.tell(&Event::Phase(PhaseBegun { name: name(interval.phase), t_s }));
            if interval.phase == Phase::Measure {
                self.measure_s = Some(t_s);
            }
        }
        let row = assemble::row(interval, samples, start_us);
        self.marks(row.t_s);
        self.live.tell(&Event::Interval(Box::new(row)));
    }

    /// The steps up to `until_s` of the run that were not told yet.
    fn marks(&mut self, until_s: f64) {
        let Some(measure_s) = self.measure_s else { return };
        while let Some((at_s, text)) = self.moments.pop_if(|(at_s, _)| measure_s + *at_s <= until_s)
        {
            self.live.tell(&Event::Mark(Mark { t_s: measure_s + at_s, text }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_to_show_is_read_or_refused_with_the_known_ones() {
        assert_eq!("screen".parse(), Ok(Ui::Screen));
        assert_eq!("web".parse(), Ok(Ui::Web(web::ADDRESS)));
        assert_eq!("web=[::1]:80".parse(), Ok(Ui::Web("[::1]:80".parse().unwrap())));
        assert!("web=8080".parse::<Ui>().unwrap_err().contains("127.0.0.1:8080"));
        assert!("gui".parse::<Ui>().unwrap_err().contains("screen"));
    }

    #[test]
    fn a_phase_is_told_once_and_before_its_first_interval() {
        #[derive(Clone, Default)]
        struct Heard(Arc<Mutex<Vec<String>>>);
        impl Viewer for Heard {
            fn handle(&mut self, event: &Event) {
                let text = match event {
                    Event::Phase(phase) => format!("{} at {}", phase.name, phase.t_s),
                    Event::Interval(row) => format!("{} to {}", row.phase, row.t_s),
                    Event::Mark(mark) => format!("{} at {}", mark.text, mark.t_s),
                    event => format!("{event:?}"),
                };
                self.0.lock().unwrap().push(text);
            }
        }
        let heard = Heard::default();
        let viewer: Box<dyn Viewer> = Box::new(heard.clone());
        let live = Live(Arc::new(Mutex::new(vec![viewer])));
        let freeze = "at = '500ms'\nfault = 'freeze'\nfor = '1s'";
        let steps = [toml::from_str::<Step>(freeze).unwrap()];
        let mut teller = Teller::new(&live, &steps);
        for (start_s, phase) in [(7, Phase::Connect), (8, Phase::Measure), (9, Phase::Measure)] {
            let (start_us, length_us) = (start_s * 1_000_000, 1_000_000);
            teller.interval(&Interval { start_us, length_us, phase, ..Default::default() }, &[]);
        }
        let expected = [
            "connect at 0",
            "connect to 1",
            "measure at 1",
            "freeze at 1.5",
            "measure to 2",
            "freeze is over at 2.5",
            "measure to 3",
        ];
        assert_eq!(*heard.0.lock().unwrap(), expected);
        live.close();
        live.tell(&Event::Planned(Vec::new()));
        assert_eq!(heard.0.lock().unwrap()[7..], ["Over"], "nobody hears after the end");
    }
}
