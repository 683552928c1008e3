//! Fan-out against a broker that is already running: what one core of the generator bears.
//!
//! `cargo run --release -p weir-load --example fanout -- 127.0.0.1:1883 5 50 1000 1 10`: 5
//! publishers at 50/s, 1,000 subscribers, QoS 1, 10 s; `p2p` at the end for pairs.

use weir_load::plan::{
    ConnectPlan, Group, Phases, Plan, ProtocolVersion, Publish, Sources, Subscription,
};
use weir_load::{Stop, run};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments[at].parse::<u32>().expect("a number");
    let is_p2p = arguments.get(6).is_some_and(|word| word == "p2p");
    let qos = number(4) as u8;
    let filter = if is_p2p { "test/{i}" } else { "test/#" };
    let group = |name: &str, clients| Group {
        name: name.into(),
        clients,
        client_id: format!("w{{run}}-{name}-{{i}}"),
        ..Group::default()
    };
    let mut subscribers = group("sub", number(3));
    subscribers.subscriptions.push(Subscription::plain(filter, qos));
    let mut publishers = group("pub", number(1));
    publishers.publish = Some(Publish {
        topic: "test/{i}".into(),
        qos,
        rate_per_s: f64::from(number(2)),
        payload_bytes: 16,
        retain: false,
        ..Publish::default()
    });
    let plan = Plan {
        version: ProtocolVersion::V311,
        keep_alive_s: 300,
        sources: Some(Sources { first: [127, 0, 1, 1].into(), connections_each: 10_000 }),
        connect: ConnectPlan { rate_per_s: 5_000.0, timeout_ms: 10_000 },
        interval_ms: 1_000,
        ..Plan::new(
            arguments[0].parse().expect("HOST:PORT"),
            vec![subscribers, publishers],
            Phases {
                warm_up_ms: 1_000,
                measure_ms: u64::from(number(5)) * 1_000,
                drain_ms: 10_000,
            },
        )
    };
    let outcome = run(&plan, &Stop::default(), &mut |interval| {
        println!(
            "{:?} connections {} published {} received {} p99 {} us cpu {:.2}",
            interval.phase,
            interval.connections,
            interval.published,
            interval.received,
            interval.end_to_end_latency.p99_us,
            interval.generator_cpu_cores
        );
    })
    .expect("a plan that runs");
    println!("{:?} {:?}\n{:?}", outcome.end, outcome.connections, outcome.measure);
    let latency = &outcome.latencies.end_to_end;
    println!(
        "p50 {} p99 {} max {} us; turn p99 {} us; generator {:.2} cores {:?}",
        latency.value_at_quantile(0.5),
        latency.value_at_quantile(0.99),
        latency.max(),
        outcome.generator.turn.value_at_quantile(0.99),
        (outcome.generator.cpu_user_us + outcome.generator.cpu_system_us) as f64
            / outcome.generator.wall_us.max(1) as f64,
        outcome.generator.invalid
    );
}
