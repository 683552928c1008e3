//! A run as its events tell it, for the tests of the viewers.

use super::events::{Cell, Ended, Event, Mark, PhaseBegun, PhaseLength, Started};
use crate::result::{SeriesRow, Status, SystemRow};

/// Three planned runs, the first of which has so many seconds of measure behind it.
pub(crate) fn events(rows: usize) -> Vec<Event> {
    let cell = |broker: &str| Cell {
        use_case: "singlenode-p2p-1K-1K-1K-1K".into(),
        broker: broker.into(),
    };
    let phase = |name, t_s| Event::Phase(PhaseBegun { name, t_s });
    let mut events = vec![
        Event::Planned(vec![cell("weir"), cell("mosquitto"), cell("nanomq")]),
        Event::Started(Box::new(started())),
        phase("connect", 0.0),
        phase("measure", 1.0),
    ];
    events.extend((1..=rows).map(|at| Event::Interval(Box::new(row(at)))));
    events.push(Event::Mark(Mark { t_s: 2.0, text: "broker frozen".into() }));
    events
}

pub(crate) fn started() -> Started {
    let phases = [("connect", Some(1.0)), ("subscribe", None), ("measure", Some(10.0))];
    Started {
        use_case: "singlenode-p2p-1K-1K-1K-1K".into(),
        about: "1,000 pairs".into(),
        driver: "weir".into(),
        broker: "Weir 0.1.0".into(),
        address: "127.0.0.1:1883".into(),
        profile: "default".into(),
        is_watched: true,
        folder: "weir-results/one".into(),
        connections: 2_000,
        publish_rate_per_s: 1_000.0,
        deliver_rate_per_s: 1_000.0,
        phases: phases.map(|(name, length_s)| PhaseLength { name, length_s }).to_vec(),
        ..Started::default()
    }
}

pub(crate) fn row(at: usize) -> SeriesRow {
    SeriesRow {
        t_s: at as f64,
        phase: "measure".into(),
        connections: 2_000,
        subscribers: 1_000,
        publishers: 1_000,
        published_per_s: 1_000.0,
        received_per_s: 990.0,
        outstanding: 10,
        latency_mean_us: 150.0,
        latency_p50_us: 120,
        latency_p90_us: 300,
        latency_p99_us: 900 + 10 * (at as u64 % 20),
        latency_max_us: 2_500,
        generator_lag_p99_us: 40,
        generator_cpu_cores: 0.21,
        broker_cpu_user_cores: 0.10,
        broker_cpu_system_cores: 0.15,
        broker_rss_bytes: 12_000_000,
        broker_threads: 3,
        broker_files: 2_030,
        system: SystemRow {
            context_switches_per_s: Some(1_500.0),
            host_cpu_cores: Some(0.75),
            loopback_bytes_per_s: Some(250_000.0),
            ..SystemRow::default()
        },
        ..SeriesRow::default()
    }
}

pub(crate) fn ended() -> Event {
    Event::Ended(Box::new(Ended {
        status: Status::Failed,
        reasons: vec!["10 of 10000 deliveries lost".into()],
        published_per_s: 1_000.0,
        received_per_s: 999.0,
        p50_us: Some(120),
        p99_us: Some(950),
        lost: 10,
        cpu_cores: Some(0.25),
        rss_bytes: Some(12_000_000),
    }))
}
