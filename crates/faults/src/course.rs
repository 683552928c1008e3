//! A run: quiet load, a fault, until all nodes serve again, and what is known by then.

use crate::Options;
use crate::ballast;
use crate::client::{Phase, Run, Traveller};
use crate::ledger::{At, Counts, Finding, Ledger, Loss};
use crate::nodes::Nodes;
use crate::plan::{Fault, Kind, NODES, name};
use crate::probe::{retained, until_all_serve};
use crate::publisher::{PUBLISHERS, Publisher};
use crate::subscriber::Subscriber;
use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::thread::Scope;
use std::time::{Duration, Instant};
use weir_bench::interrupt::{Interrupted, note_signals};
use weir_chance::Chance;

/// Members of each group: of two, one is pinned, and one wanders.
const MEMBERS: usize = NODES;

/// Subscribers, half of them pinned.
const SUBSCRIBERS: usize = 2 * NODES;

/// All nodes have to serve so long after a fault: a lease, and 10 s.
const SERVE_MAX: Duration = Duration::from_secs(16);

/// After that it is not waited for any longer.
const WAIT_MAX: Duration = Duration::from_secs(90);

/// Load after a fault.
const AFTER: Duration = Duration::from_secs(2);

/// What is on its way is lost if nothing comes for so long.
const SILENCE: Duration = Duration::from_secs(8);

/// Nodes have to retain the same within this time.
const ALIKE_MAX: Duration = Duration::from_secs(5);

/// Findings of each kind and fault that are told one by one.
const TOLD_MAX: usize = 5;

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Runs the plan of a seed. Says whether nothing was found.
pub(crate) fn run(options: &Options) -> anyhow::Result<bool> {
    let interrupted = note_signals()?;
    let nodes = Nodes::start(&options.weir, &options.folder, options.replicas)?;
    until_all_serve(WAIT_MAX).map_err(anyhow::Error::msg).context("the cluster does not start")?;
    let run = Run::new(Ledger::new(PUBLISHERS, options.replicas > 1));
    let ended = std::thread::scope(|scope| {
        start_clients(&run, options.seed, scope);
        let most = Duration::from_secs_f64(options.minutes * 60.0);
        let mut course = Course { run: &run, nodes, interrupted, faults: 0, served_max: At::ZERO };
        let ended = course.go(&mut Chance::new(options.seed), options, most);
        run.enter(Phase::End);
        course.tell_findings();
        tell(&run, &course);
        ended
    });
    ended.map(|()| run.ledger().found.iter().all(|&count| count == 0))
}

fn start_clients<'scope>(run: &'scope Run, seed: u64, scope: &'scope Scope<'scope, '_>) {
    for number in 0..SUBSCRIBERS {
        let pins = number < SUBSCRIBERS / 2;
        let client_id = format!("{}-s{number}", if pins { "pinned" } else { "wandering" });
        let traveller = Traveller::new(run, &client_id, number, pins, seed);
        let receiver = run.ledger().receiver(&client_id, &[traveller.session], false);
        let subscriber = Subscriber::new(run, traveller, receiver, None);
        scope.spawn(move || subscriber.listen(scope));
    }
    for (group, pins) in [("pinned", true), ("wandering", false)] {
        let member =
            |number| Traveller::new(run, &format!("{group}-member{number}"), number, pins, seed);
        let members: Vec<_> = (0..MEMBERS).map(member).collect();
        let sessions: Vec<_> = members.iter().map(|member| member.session).collect();
        let receiver = run.ledger().receiver(&format!("group {group}"), &sessions, true);
        for member in members {
            let subscriber = Subscriber::new(run, member, receiver, Some(group));
            scope.spawn(move || subscriber.listen(scope));
        }
    }
    for number in 0..PUBLISHERS {
        let publisher = Publisher::new(run, number, seed);
        scope.spawn(move || publisher.load());
    }
}

/// A run that goes on.
struct Course<'a> {
    run: &'a Run,
    nodes: Nodes,
    interrupted: Interrupted,
    faults: usize,
    served_max: At,
}

impl Course<'_> {
    fn go(&mut self, chance: &mut Chance, options: &Options, most: At) -> anyhow::Result<()> {
        let all = SUBSCRIBERS + 2 * MEMBERS;
        let begin = Instant::now();
        while self.run.subscribed.load(Ordering::Relaxed) < all {
            self.pause(LOOK_EVERY)?;
            if begin.elapsed() > WAIT_MAX {
                bail!("the subscribers cannot subscribe");
            }
        }
        let begin = self.run.now();
        let kinds = options.kinds();
        while self.run.now() - begin < most && !self.interrupted.load(Ordering::Relaxed) {
            let fault = Fault::draw(chance, &kinds);
            if self.suffer(&fault)?.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Waits; nothing if the user does not want to.
    fn pause(&self, time: Duration) -> anyhow::Result<Option<()>> {
        let begin = Instant::now();
        while begin.elapsed() < time {
            if self.interrupted.load(Ordering::Relaxed) {
                return Ok(None);
            }
            std::thread::sleep(LOOK_EVERY.min(time));
        }
        Ok(Some(()))
    }

    /// One fault with the quiet times before and after it.
    fn suffer(&mut self, fault: &Fault) -> anyhow::Result<Option<()>> {
        self.run.enter(Phase::Load);
        self.faults += 1;
        let Some(()) = self.pause(fault.quiet)? else { return Ok(None) };
        let from = self.run.now();
        self.run.suffer(Some(*fault));
        self.run.ledger().is_troubled = (0..NODES).any(|node| fault.may_lose(node));
        let node = self.nodes.break_by(fault)?;
        let is_full = fault.kind == Kind::DiskFull;
        if is_full {
            ballast::load(node)
                .with_context(|| format!("cannot use up the disk of {}", name(node)))?;
        }
        let waited = self.pause(fault.lasts)?;
        self.nodes.mend(fault, node)?;
        if is_full {
            ballast::drop_all(node).context("cannot give the disk back")?;
        }
        let Some(()) = waited else { return Ok(None) };
        let served = until_all_serve(WAIT_MAX).map_err(|why| {
            anyhow::anyhow!("{fault}: not all nodes serve after {} s: {why}", WAIT_MAX.as_secs())
        })?;
        self.served_max = self.served_max.max(served);
        let Some(()) = self.pause(AFTER)? else { return Ok(None) };
        // A node may lose the cluster a little later.
        let until = self.run.now();
        let mut lost = self.nodes.lost()?;
        lost.extend((0..NODES).filter(|&node| fault.ends_process(node)));
        lost.sort_unstable();
        lost.dedup();
        let losses: Vec<Loss> = lost.iter().map(|&node| Loss { node, from, until }).collect();
        let drained = self.drain(&losses)?;
        self.run.suffer(None);
        let lost: String = lost.into_iter().map(name).collect();
        println!(
            "{:8.1} s  {:<38} all serve after {:4.1} s, lost: {:<3} drained in {:.1} s",
            from.as_secs_f64(),
            fault.to_string(),
            served.as_secs_f64(),
            if lost.is_empty() { "-" } else { &lost },
            drained.as_secs_f64(),
        );
        let mut ledger = self.run.ledger();
        if served > SERVE_MAX {
            let what = format!("all serve only after {:.1} s", served.as_secs_f64());
            ledger.find(Finding::NotServed, from, &what);
        }
        drop(ledger);
        self.tell_findings();
        let ended = self.nodes.ended();
        if !ended.is_empty() {
            bail!("nodes have ended: {ended:?}");
        }
        Ok(Some(()))
    }

    fn tell_findings(&self) {
        let findings = self.run.ledger().findings();
        for finding in Finding::ALL {
            let mut whats = findings.iter().filter(|(of, _)| *of == finding).map(|(_, what)| what);
            whats.by_ref().take(TOLD_MAX).for_each(|what| println!("    FOUND {what}"));
            let more = whats.count();
            if more > 0 {
                println!("    FOUND {more} more: {}", finding.name());
            }
        }
    }

    /// Waits until nothing is on its way, and closes the books.
    fn drain(&self, losses: &[Loss]) -> anyhow::Result<Duration> {
        self.run.enter(Phase::Drain);
        let begin = Instant::now();
        let (mut last, mut since) = ((usize::MAX, usize::MAX), Instant::now());
        loop {
            let ledger = self.run.ledger();
            let now = (ledger.unanswered(), ledger.missing(losses));
            drop(ledger);
            if now == (0, 0) || since.elapsed() > SILENCE {
                break;
            }
            if now != last {
                (last, since) = (now, Instant::now());
            }
            self.pause(LOOK_EVERY)?;
        }
        // Nothing must come twice.
        self.pause(LOOK_EVERY * 3)?;
        let mut ledger = self.run.ledger();
        let now = self.run.now();
        let unanswered = ledger.unanswered();
        if unanswered > 0 {
            ledger.find(
                Finding::Unanswered,
                now,
                &format!("{unanswered} messages are not answered"),
            );
        }
        ledger.settle(losses, now);
        drop(ledger);
        self.check_retained();
        Ok(begin.elapsed())
    }

    /// All nodes have to retain the same, and what publishers know.
    fn check_retained(&self) {
        let begin = Instant::now();
        loop {
            let wrong = self.wrong_retained();
            let Err(what) = wrong else { return };
            if begin.elapsed() > ALIKE_MAX {
                self.run.ledger().find(Finding::Retained, self.run.now(), &what);
                return;
            }
        }
    }

    fn wrong_retained(&self) -> Result<(), String> {
        let on = |node| retained(node).map_err(|error| format!("{}: {error}", name(node)));
        let all = (0..NODES).map(on).collect::<Result<Vec<_>, _>>()?;
        let mut ledger = self.run.ledger();
        let is_alike = |topic: &&String| all.iter().all(|on| on.get(*topic) == all[0].get(*topic));
        if let Some(topic) = all.iter().flat_map(BTreeMap::keys).find(|topic| !is_alike(topic)) {
            let on = |(node, on): (usize, &BTreeMap<String, String>)| {
                let payload =
                    on.get(topic).map_or("nothing", |payload| payload.trim_end_matches('.'));
                format!("{}: {payload} of {}", name(node), on.len())
            };
            let each: Vec<_> = all.iter().enumerate().map(on).collect();
            let course = ledger.retained_course(topic);
            return Err(format!("retained: {topic} differs ({}); {course}", each.join(", ")));
        }
        for publisher in 0..PUBLISHERS {
            let Some((topic, wanted)) = ledger.retained(publisher) else { continue };
            ledger.counts.retained += 1;
            let found = all[0].get(&topic).map_or("", String::as_str);
            if found != wanted {
                return Err(format!("retained: {topic} is {found:?}, not {wanted:?}"));
            }
        }
        Ok(())
    }
}

/// The counts, as a table.
fn tell(run: &Run, course: &Course<'_>) {
    let ledger = run.ledger();
    let Counts { acknowledged, refused, deliveries, repeated, .. } = ledger.counts;
    let Counts { doubled_in_doubt, doubled_in_groups, not_promised, .. } = ledger.counts;
    let Counts { sessions_anew, connections, retained, .. } = ledger.counts;
    let rows = [
        ("faults", course.faults as u64),
        ("slowest until all served, ms", course.served_max.as_millis() as u64),
        ("connections", connections),
        ("acknowledged at QoS 1", acknowledged[0]),
        ("acknowledged at QoS 2", acknowledged[1]),
        ("acknowledged and retained", acknowledged[2]),
        ("refused", refused),
        ("deliveries", deliveries),
        ("QoS 1 repeated (permitted)", repeated),
        ("QoS 2 doubled, publisher's session lost or node killed", doubled_in_doubt),
        ("QoS 2 doubled in groups, a node lost", doubled_in_groups),
        ("deliveries not promised", not_promised),
        ("sessions begun anew, their node lost", sessions_anew),
        ("retained topics looked at", retained),
    ];
    println!();
    let found = Finding::ALL.into_iter().zip(ledger.found);
    let found = found.map(|(of, count)| (of.name(), count));
    rows.into_iter().chain(found).for_each(|(what, count)| println!("| {what:<56} | {count:>9} |"));
}
