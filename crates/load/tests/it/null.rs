//! The null broker loses nothing at a rate it bears.

use std::net::TcpListener;
use weir_load::outcome::{End, Phase};
use weir_load::plan::{ConnectPlan, Group, Phases, Plan, ProtocolVersion, Publish, Subscription};
use weir_load::{Outcome, Stop, null, run};

/// Five publishers to five subscribers over a null broker that burns so many times its own CPU.
fn outcome(filter: &str, qos: u8, version: ProtocolVersion, burned: f64) -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    let stop = Stop::default();
    let of_broker = stop.clone();
    let broker = std::thread::spawn(move || null::serve(listener, burned, &of_broker));
    let group = |name: &str| Group {
        name: name.into(),
        clients: 5,
        client_id: format!("{name}-{{i}}"),
        ..Group::default()
    };
    let mut subscribers = group("sub");
    subscribers.subscriptions.push(Subscription::plain(filter, qos));
    let mut publishers = group("pub");
    let (topic, payload_bytes, retain) = ("t/{i}".into(), 16, false);
    publishers.publish = Some(Publish {
        topic,
        qos,
        rate_per_s: 100.0,
        payload_bytes,
        retain,
        ..Publish::default()
    });
    let plan = Plan {
        version,
        connect: ConnectPlan { rate_per_s: 1_000.0, timeout_ms: 5_000 },
        interval_ms: 100,
        ..Plan::new(
            target,
            vec![subscribers, publishers],
            Phases { warm_up_ms: 100, measure_ms: 400, drain_ms: 5_000 },
        )
    };
    let outcome = run(&plan, &Stop::default(), &mut |_| {}).unwrap();
    stop.stop();
    broker.join().unwrap().unwrap();
    outcome
}

#[test]
fn what_is_published_to_the_null_broker_is_delivered() {
    for (filter, qos, version) in
        [("t/#", 0, ProtocolVersion::V311), ("t/{i}", 1, ProtocolVersion::V5)]
    {
        let outcome = outcome(filter, qos, version, 0.0);
        assert_eq!(outcome.end, End::Completed);
        let expected = if qos == 0 { 5 * 200 } else { 200 };
        assert_eq!((outcome.measure.delivered, outcome.measure.lost), (expected, 0));
        // What was seen within measure: some, and no more than there was in all.
        let traffic = outcome.traffic;
        let all = outcome.measure.received + outcome.warm_up.received;
        assert!(traffic.received > 0 && traffic.received <= all, "{traffic:?}");
        assert!(traffic.published > 0 && traffic.duplicated == 0, "{traffic:?}");
        assert_eq!((outcome.measure.duplicated, outcome.measure.stray), (0, 0));
        let drain = outcome.phases.iter().find(|span| span.phase == Phase::Drain).unwrap();
        assert!(drain.end_us - drain.start_us < 5_000_000, "nothing is waited for");
    }
}

#[test]
fn a_null_broker_that_burns_loses_nothing() {
    let outcome = outcome("t/{i}", 1, ProtocolVersion::V311, 2.0);
    assert_eq!((outcome.measure.delivered, outcome.measure.lost), (200, 0));
}
