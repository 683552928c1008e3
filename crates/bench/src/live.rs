//! What a person or a machine sees while runs last: one stream of events, and its viewers.
//!
//! A viewer must not block and must not disturb: it works on a thread of its own, of the lowest
//! priority, on the load's core where that is known, never on the broker's.

pub mod events;
pub(crate) mod lines;
#[cfg(test)]
pub(crate) mod sample;
pub(crate) mod screen;
pub mod state;
mod text;

use crate::assemble;
use crate::monitor::Sample;
use crate::result::phase_name;
use crate::usecase::Step;
use events::{Event, Mark, PhaseBegun};
use std::fmt;
use std::sync::{Arc, Mutex};
use weir_load::outcome::{Interval, Phase};

/// Who hears of every event, in order.
pub(crate) trait Viewer: Send {
    /// Notes or shows it; must not block.
    fn handle(&mut self, event: &Event);
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
    /// These viewers.
    pub(crate) fn of(viewers: Vec<Box<dyn Viewer>>) -> Self {
        Self(Arc::new(Mutex::new(viewers)))
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
            self.live.tell(&Event::Phase(PhaseBegun { name: phase_name(interval.phase), t_s }));
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
        let live = Live::of(vec![viewer]);
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
