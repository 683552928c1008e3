//! A look at the retained messages after a start, before anybody publishes.

use crate::ledger::RetainedTally;
use crate::link::{Link, Place};
use crate::names::{RETAINED, number, retained_by};
use crate::publisher::Publisher;
use std::io;
use std::time::Duration;
use weir_wire::{Packet, QoS};

/// How long one that is missing is waited for.
const SILENCE: Duration = Duration::from_secs(3);

/// Checks that each publisher's last acknowledged update, or a later one, is there.
pub(crate) fn check(
    place: &Place,
    publishers: &mut [Publisher],
    tally: &mut RetainedTally,
) -> io::Result<()> {
    let mut found = vec![None; publishers.len()];
    let missing = |found: &[Option<u32>]| {
        let pairs = publishers.iter().zip(found);
        pairs.filter(|(of, found)| of.retained().is_some() && found.is_none()).count()
    };
    let (mut link, _) = Link::connect(place, "crash-look", true, false)?;
    link.subscribe([(RETAINED, QoS::AtMostOnce)].into_iter());
    link.flush()?;
    while missing(&found) > 0 {
        let seen = link.packet(SILENCE, |packet| match packet {
            Packet::Publish(publish) => {
                Some((retained_by(publish.topic)?, number(publish.topic, publish.payload)?))
            }
            _ => None,
        })?;
        // Nothing more comes.
        let Some(seen) = seen else { break };
        if let Some((publisher, number)) = seen
            && let Some(found) = found.get_mut(publisher)
        {
            *found = Some(number);
        }
    }
    for (publisher, found) in publishers.iter_mut().zip(found) {
        if publisher.retained().is_some() {
            tally.check(publisher.retained(), found);
            publisher.found(found);
        }
    }
    Ok(())
}
