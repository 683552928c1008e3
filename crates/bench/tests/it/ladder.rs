//! A ladder's table, page and record, from steps that are made up.

use weir_bench::ladder::{
    self, Ending, Knee, Ladder, LadderStep, Limits, Purpose, SCHEMA, Seen, What,
};
use weir_bench::result::{RunResult, Status};

const HOSTILE: &str = "</text></svg><script>\u{1b}[31m";

fn step(number: u32, value: f64, p99_us: u64, seen: Seen, purpose: Purpose) -> LadderStep {
    LadderStep {
        number,
        purpose,
        value,
        seen,
        reasons: match seen {
            Seen::Met => Vec::new(),
            Seen::Missed => vec![format!("p99 was long {HOSTILE}")],
            Seen::GeneratorLimit => vec!["the load generator used 99 % of its core".into()],
        },
        status: Status::Passed,
        folder: format!("step-{number}"),
        published_per_s_planned: value,
        delivered_per_s_planned: value,
        delivered_per_s: value,
        connections: 2_000,
        lost: 0,
        p50_us: Some(p99_us / 3),
        p99_us: Some(p99_us),
        max_us: Some(p99_us * 2),
        cpu_cores: Some(0.5),
        rss_max_bytes: Some(10_000_000),
        generator_cpu_cores: 0.4,
    }
}

fn ladder(name: &str, ending: Ending) -> Ladder {
    let run: RunResult = serde_json::from_str(include_str!("../data/result.json")).unwrap();
    let mut broker = run.broker;
    broker.name = name.into();
    Ladder {
        schema: SCHEMA,
        suite: run.suite,
        use_case: run.use_case.name,
        revision: 1,
        file_sha256: run.use_case.file_sha256,
        what: What::Rate,
        objective: "p99<=20ms,lost=0".parse().unwrap(),
        limits: Limits {
            from: 1_000.0,
            to: 1e6,
            growth: 1.5,
            tolerance: 0.05,
            measure_s: 4.0,
            warm_up_s: 1.0,
            scale: 1.0,
        },
        broker,
        host: run.host,
        round: 0,
        steps: vec![
            step(1, 1_000.0, 900, Seen::Met, Purpose::Climb),
            step(2, 1_500.0, 90_000, Seen::Missed, Purpose::Climb),
            step(3, 1_225.0, 4_000, Seen::Met, Purpose::Bisect),
            step(4, 1_102.0, 1_000, Seen::Met, Purpose::Confirm),
        ],
        knee: Some(Knee {
            met: Some(1_225.0),
            missed: (ending == Ending::Found).then_some(1_500.0),
            confirmed: Some(1_102.0),
            ending,
        }),
    }
}

#[test]
fn a_page_has_the_knee_of_every_broker_and_nothing_unescaped() {
    let page = ladder::html(&[ladder("a", Ending::Found), ladder(HOSTILE, Ending::Found)]).unwrap();
    assert!(!page.contains("<script") && !page.contains("</text></svg><"), "{page}");
    assert_eq!(page.matches("<svg").count(), 1);
    // Each broker: three steps that met, of them one confirmation; one that missed.
    for (mark, count) in [("<circle", 4), ("<rect", 2), ("<path", 2), ("class=\"rule\"", 2)] {
        assert_eq!(page.matches(mark).count(), count, "{mark}");
    }
    for part in [
        "objective: p99",
        "the knee is between 1225 and 1500 published&#x2f;s; confirmed at 1102",
        "href=\"step-3/report.html\"",
        "Highest published&#x2f;s with p99&lt;=20ms,lost=0",
    ] {
        assert!(page.contains(part), "{part} is missing");
    }
    for outside in ["http://", "https://", "src=", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(ladder::html(&[]).is_err());
}

#[test]
fn a_table_has_the_steps_by_value_and_says_what_ended_it() {
    let text = ladder::render(&ladder(HOSTILE, Ending::Found));
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
    assert!(at("| 1000 ") < at("| 1102 ") && at("| 1225 ") < at("| 1500 "), "{text}");
    assert!(!text.contains('\u{1b}') && text.lines().all(|line| line.chars().count() <= 120));
    let text = ladder::render(&ladder("a", Ending::GeneratorLimit));
    assert!(text.contains("at least 1225 published/s: above that, the generator is the limit"));
    let mut stopped = ladder("a", Ending::Found);
    stopped.knee = None;
    assert!(ladder::render(&stopped).contains("stopped before its end: no knee"));
    let line = ladder::step_line("a", &stopped.steps[1], "published/s");
    assert!(line.starts_with("a: step 2 (climb): 1500 published/s: missed; p99 90.0 ms"), "{line}");
}

#[test]
fn ladders_of_one_broker_say_how_far_apart_they_are() {
    let of = |name: &str, round: u32, met: f64, ending: Ending| {
        let mut ladder = Ladder { round, ..ladder(name, ending) };
        ladder.knee.as_mut().unwrap().met = Some(met);
        ladder
    };
    assert_eq!(ladder::apart(&[of("a", 0, 100.0, Ending::Found)]), Vec::<String>::new());
    let ladders = [
        of("a", 1, 1_000.0, Ending::Found),
        of("a", 2, 1_100.0, Ending::Found),
        of("b", 1, 500.0, Ending::GeneratorLimit),
        of("b", 2, 500.0, Ending::Found),
    ];
    let [one, other] = &ladder::apart(&ladders)[..] else { panic!("a line a broker") };
    assert!(one.ends_with("2 of 2 ladders end at 1000 to 1100, 10.0 % apart"), "{one}");
    let (first, second) = other.split_once("\n  ").unwrap();
    assert!(first.ends_with("500 to 500, 0.0 % apart; for 1 of"), "{other}");
    assert_eq!(second, "them only a lower bound is known");
    assert!(other.lines().all(|line| line.len() <= 80), "{other}");
    let page = ladder::html(&ladders).unwrap();
    assert!(page.contains("10.0 % apart") && page.contains(" #2: 1100"), "{page}");
    let mut stopped = ladders;
    stopped[0].knee = None;
    assert!(ladder::apart(&stopped)[0].ends_with("2 ladders, 1 with a knee: no spread"));
}

#[test]
fn a_record_reads_what_it_writes() {
    let before = ladder("a", Ending::Found);
    let text = serde_json::to_string(&before).unwrap();
    assert!(text.contains("\"objective\":\"p99<=20ms,lost=0\""), "{text}");
    let after: Ladder = serde_json::from_str(&text).unwrap();
    assert_eq!((after.knee, after.what), (before.knee, before.what));
    assert_eq!(after.objective, before.objective);
    let broken = text.replace("p99<=20ms", "p98<=20ms");
    assert!(serde_json::from_str::<Ladder>(&broken).unwrap_err().to_string().contains("p98"));
}

/// A chart that somebody has looked at. After a change that is meant,
/// `KEEP=1 cargo test -p weir-bench --test it kept` keeps the new one: look at the difference.
#[test]
fn the_chart_is_as_it_was_kept() {
    let ladders = [ladder("a", Ending::Found), ladder("b", Ending::SpanEnded)];
    let page = ladder::html(&ladders).unwrap();
    let svg = &page[page.find("<svg").unwrap()..page.find("</svg>").unwrap()];
    let svg = svg.replace("><", ">\n<");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/ladder.svg");
    if std::env::var_os("KEEP").is_some() {
        std::fs::write(path, &svg).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap();
    assert!(svg == kept, "it is now\n{svg}\nand was\n{kept}");
}
