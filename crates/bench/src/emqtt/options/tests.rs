use super::*;

fn common() -> Common {
    Common {
        url: "mqtt://localhost".parse().unwrap(),
        tls: None,
        version: 5,
        clients: 200,
        start_number: 0,
        connect_rate_per_s: 0,
        connect_interval_ms: 10,
        credentials: Credentials::default(),
        keep_alive_s: 300,
        is_clean: true,
        prefix: Some("p".into()),
    }
}

fn publish(topic: &str) -> Work {
    Work::Publish {
        topic: topic.into(),
        qos: 1,
        payload_bytes: 256,
        interval_ms: 1_000,
        limit: 0,
        is_retained: false,
        audience: None,
    }
}

fn plan(common: Common, work: Work) -> Result<Planned, EmqttError> {
    Options { common, work }.plan("127.0.0.1:1883".parse().unwrap(), 9)
}

fn topic_of(common: Common, topic: &str) -> Result<String, EmqttError> {
    let planned = plan(common, publish(topic))?;
    Ok(planned.plan.groups[0].publish.as_ref().unwrap().topic.clone())
}

#[test]
fn variables_of_a_topic_become_templates() {
    assert_eq!(topic_of(common(), "bench/%i").unwrap(), "bench/{i+1}");
    assert_eq!(topic_of(common(), "%c/x").unwrap(), "p_bench_pub_{i+1}/x");
    let named = Common {
        credentials: Credentials { user_name: Some("me".into()), password: None },
        start_number: 40,
        ..common()
    };
    assert_eq!(topic_of(named, "%u/%i/%i").unwrap(), "me/{i+41}/{i+41}");
}

#[test]
fn variables_that_cannot_be_are_named() {
    for (topic, part) in [
        ("a/%u", "give -u"),
        ("a/%s/b", "%s is not supported"),
        ("a/%rand_100", "%rand_100 is not supported"),
        ("100%", "% is not a variable"),
    ] {
        let text = topic_of(common(), topic).unwrap_err().to_string();
        assert!(text.contains(part) && text.contains(topic), "{text}");
    }
}

#[test]
fn rates_follow_from_intervals_and_a_rate_goes_before_an_interval() {
    let planned = plan(common(), publish("t")).unwrap();
    assert_eq!(planned.plan.connect.rate_per_s, 100.0);
    assert_eq!(planned.plan.groups[0].publish.as_ref().unwrap().rate_per_s, 1.0);
    let fast = Common { connect_rate_per_s: 2_500, ..common() };
    assert_eq!(plan(fast, Work::Connect).unwrap().plan.connect.rate_per_s, 2_500.0);
    let at_once = Common { connect_interval_ms: 0, ..common() };
    assert_eq!(plan(at_once, Work::Connect).unwrap().plan.connect.rate_per_s, CONNECT_RATE_MAX);
}

#[test]
fn a_limit_is_a_length_of_the_schedule() {
    let limited = |limit, clients| {
        let mut work = publish("t");
        if let Work::Publish { limit: of, .. } = &mut work {
            *of = limit;
        }
        plan(Common { clients, ..common() }, work).unwrap()
    };
    let even = limited(1_000, 200);
    assert_eq!((even.plan.phases.measure_ms, even.notes.len()), (5_000, 0));
    // 3 clients at 1/s: the eleventh message is due at 3,333.3 ms.
    let thirds = limited(10, 3);
    assert_eq!((thirds.plan.phases.measure_ms, thirds.notes.len()), (3_333, 0));
    // 10,000 clients at 1/s: ten messages a millisecond.
    let uneven = limited(1_001, 10_000);
    assert_eq!(uneven.plan.phases.measure_ms, 101);
    assert!(uneven.notes[0].contains("1010 messages"), "{:?}", uneven.notes);
    assert_eq!(limited(0, 1).plan.phases.measure_ms, RUN_MS_MAX);
}

#[test]
fn an_audience_hears_the_topic_with_its_variables_as_wildcards() {
    let mut work = publish("a/%i/b/%c-x");
    if let Work::Publish { audience, .. } = &mut work {
        *audience = Some(Audience { subscribers: 3, filter: None });
    }
    let groups = plan(common(), work).unwrap().plan.groups;
    assert_eq!((groups[0].clients, &*groups[0].client_id), (3, "p_bench_sub_{i+1}"));
    assert_eq!(
        (&*groups[0].subscriptions[0].filter, groups[0].subscriptions[0].qos),
        ("a/+/b/+", 1)
    );
    assert!(groups[1].publish.is_some());
}

#[test]
fn what_the_load_generator_cannot_do_is_refused_with_what_to_do() {
    let refused = |common: Common, work: Work| plan(common, work).unwrap_err().to_string();
    let text = refused(Common { version: 3, ..common() }, Work::Connect);
    assert!(text.contains("-V 3") && text.contains("-V 4"), "{text}");
    let text = refused(Common { clients: 0, ..common() }, Work::Connect);
    assert!(text.contains("-c 0"), "{text}");
    for (bytes, interval, part) in [(8, 1_000, "-s 8"), (16, 0, "-I 0")] {
        let mut work = publish("t");
        if let Work::Publish { payload_bytes, interval_ms, .. } = &mut work {
            (*payload_bytes, *interval_ms) = (bytes, interval);
        }
        let text = refused(common(), work);
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_publisher_sends_what_was_asked_for() {
    let asked = Work::Publish {
        topic: "t".into(),
        qos: 2,
        payload_bytes: 777,
        interval_ms: 250,
        limit: 0,
        is_retained: true,
        audience: None,
    };
    let planned = plan(common(), asked).unwrap().plan;
    let of = planned.groups[0].publish.as_ref().unwrap();
    assert_eq!((of.qos, of.payload_bytes, of.rate_per_s, of.retain), (2, 777, 4.0, true));
}
