//! The property of the core: whatever clients, the network and the clock do, no shard panics, what
//! it writes is well-formed and owed, its bounds hold, and nothing is left when all is over.
//!
//! An input is a script: a byte of settings, then steps of a byte each with the bytes that they
//! take; where it ends, so does the script. It is written by hand rather than derived, so that the
//! byte tables can be turned into scripts, and so that `weir-core` can replay it without a fuzzer.

mod client;
mod packets;
pub mod script;
mod settings;
mod wires;
mod world;

use packets::Packets;
use script::Script;
use weir_core::ConnKey;
use world::World;

/// More steps than this find nothing that fewer do not, and take longer.
const STEPS_MAX: usize = 400;

/// Runs the property on a script.
///
/// # Panics
/// If it does not hold.
pub fn check(input: &[u8]) {
    let mut script = Script::new(input);
    let Some(settings) = script.byte() else { return };
    let mut world = World::new(settings);
    for _ in 0..STEPS_MAX {
        if step(&mut world, &mut script).is_none() {
            break;
        }
        world.settle();
    }
    world.quiesce();
    world.end(settings & 0x80 != 0);
}

/// Takes one step; nothing when the script is over.
fn step(world: &mut World, script: &mut Script<'_>) -> Option<()> {
    let (step, at) = script.step()?;
    let conn = ConnKey(u32::from(at));
    match step {
        script::OPEN => world.open(conn, script.byte()?),
        script::RAW => {
            let count = usize::from(script.u16()?) % (script::RAW_BYTES_MAX + 1);
            let bytes = script.take(count);
            world.send(conn, bytes, 0);
        }
        script::PACKET => {
            let (kind, split) = (script.byte()?, script.byte()?);
            if Packets::is_connect(kind) {
                world.open(conn, kind >> 4);
            }
            let mut packets = Packets::new(script, world.client(conn));
            let bytes = packets.packet(kind)?;
            world.send(conn, &bytes, split);
        }
        script::DAMAGED => {
            let (kind, at, byte) = (script.byte()?, script.byte()?, script.byte()?);
            let mut packets = Packets::new(script, world.client(conn));
            let mut bytes = packets.packet(kind)?;
            let at = usize::from(at) % bytes.len();
            bytes[at] = byte;
            world.send(conn, &bytes, 0);
        }
        script::ACKNOWLEDGE => {
            world.acknowledge(conn);
        }
        script::CUT => world.cut(conn),
        script::STUCK => world.set_stuck(conn, script.byte()? & 1 != 0),
        script::VERDICT => {
            world.answer_verdict(conn, script.byte()?);
        }
        script::MAIL => {
            world.deliver_mail(usize::from(at), script.byte()?.into());
        }
        script::PASS => {
            const SECONDS: [u32; 8] = [0, 1, 2, 5, 15, 60, 600, 5000];
            world.pass(SECONDS[usize::from(at)]);
        }
        script::PRESSED => world.set_pressed(usize::from(at % 2), script.byte()? & 1 != 0),
        _ => {}
    }
    Some(())
}
