//! Which clients send and get most, by the API and by `weir ctl top`.

use crate::support::asked::said;
use crate::support::blocking::Blocking;
use crate::support::live::Live;
use crate::traces::publish;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir_wire::QoS;

/// Publishes without end, until it is told to stop.
fn talk(client: &mut Blocking, payload_bytes: usize, is_over: &AtomicBool) {
    let payload = vec![b'x'; payload_bytes];
    while !is_over.load(Ordering::Relaxed) {
        client.send(&publish("a", &payload, QoS::AtMostOnce)).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn names(top: &Value) -> Vec<&str> {
    let clients = top["clients"].as_array().unwrap().iter();
    clients.map(|client| client["client_id"].as_str().unwrap()).collect()
}

#[test]
fn who_sends_most_is_counted_in_a_window_that_all_who_ask_share() {
    let live = Live::start("shards = 2\nlisten = [\"127.0.0.1:0\"]\n");
    let mut reader = live.join("reader");
    reader.subscribe("a", QoS::AtMostOnce).unwrap();
    let mut long = live.join("long");
    let mut many: Vec<_> = ["many", "more"].map(|name| live.join(name)).into();
    let silent = live.join("silent");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // A long payload is written in another way than short ones are.
        scope.spawn(|| talk(&mut long, 100_000, &is_over));
        many.iter_mut().for_each(|client| _ = scope.spawn(|| talk(client, 10, &is_over)));
        scope.spawn(|| while reader.next().is_some() {});
        let ask = |more: &[&str]| -> Value {
            let arguments = [&["top", "--seconds", "2", "--json"], more].concat();
            serde_json::from_str(&said(&live.ctl(&arguments))).unwrap()
        };
        let (by_bytes, out) = std::thread::scope(|scope| {
            let by_bytes = scope.spawn(|| ask(&["--by", "bytes", "--direction", "in"]));
            let out = scope.spawn(|| ask(&["--direction", "out"]));
            (by_bytes.join().unwrap(), out.join().unwrap())
        });
        let text = said(&live.ctl(&["top", "--seconds", "1", "--direction", "in", "--limit", "2"]));
        is_over.store(true, Ordering::Relaxed);
        drop(live.ctl(&["kick", "reader"]));

        assert_eq!((names(&by_bytes)[0], names(&out)), ("long", vec!["reader"]));
        assert_eq!(names(&by_bytes).len(), 3, "who says nothing is not there: {by_bytes:#}");
        assert_eq!((&by_bytes["seconds"], &by_bytes["total"]), (&out["seconds"], &out["total"]));
        let total = &out["total"];
        let reader = &out["clients"][0];
        assert_eq!(reader["messages_out"], total["messages_out"]);
        let (bytes_in, bytes_out) = (total["bytes_in"].as_u64(), total["bytes_out"].as_u64());
        assert!(bytes_in > Some(100_000) && bytes_out > Some(100_000), "{out:#}");
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[0].ends_with("CLIENT") && lines[3].contains("(all clients, in 1."), "{text}");
    });
    drop(silent);
}
