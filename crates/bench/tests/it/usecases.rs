//! Files of use cases through the front door: what is refused and where, what a broker has to be
//! able to do, the plan that comes of a file, and what is disclosed of it.

use weir_bench::usecase::{Times, UseCase, plan, scale};
use weir_load::Shifts;
use weir_load::plan::{Plan, Slice};
use weir_load::steps::{Action, ClientStep};

/// A use case that has all but steps, thresholds and wills.
const FILE: &str = r#"name = "mine"
revision = 3
about = "for a test"
mqtt_version = "5.0"
connect_rate_per_s = 10
warm_up_s = 1.5
measure_s = 20
drain_s = 2.25

[[group]]
name = "one"
clients = 3
client_id = "a-{i}"
scales = true
clean_start = true
session_expiry_s = 7
subscriptions = [{ filter = "t/{i}", qos = 1 }]

[[group]]
name = "two"
clients = 4
client_id = "b-{i}"
scales = true
[group.publish]
topic = "t/{i}"
qos = 1
rate_per_s = 2
payload_bytes = 16

[[group]]
name = "idle"
clients = 5
client_id = "c-{i}"
scales = true
"#;

/// The file with another text for one that is in it.
fn with(from: &str, to: &str) -> String {
    assert!(FILE.contains(from), "{from}");
    FILE.replacen(from, to, 1)
}

/// With more at its end.
fn and(more: &str) -> String {
    format!("{FILE}{more}")
}

fn with_publish(more: &str) -> String {
    with("payload_bytes = 16\n", &format!("payload_bytes = 16\n{more}\n"))
}

fn read(text: &str) -> UseCase {
    UseCase::parse("mine.toml", text).unwrap()
}

fn plan_of(text: &str) -> Plan {
    let use_case = read(text);
    let scaled = scale(&use_case, 1.0, 1_000).unwrap();
    plan(&scaled, "192.0.2.1:1883".parse().unwrap(), 5, Times::new(&use_case, None, None))
}

#[track_caller]
fn assert_refused(text: &str, key: &str, message: &str) {
    let error = UseCase::parse("mine.toml", text).unwrap_err().to_string();
    assert!(error.contains(message), "{message} is missing in: {error}");
    let line: usize = error.split(':').nth(1).unwrap().parse().unwrap();
    let found = text.lines().nth(line - 1).unwrap();
    assert!(found.contains(key), "line {line} is {found:?}, and not that of {key}");
}

#[test]
fn values_at_a_limit_are_taken_and_values_beyond_it_refused_with_their_line() {
    for good in [
        with("warm_up_s = 1.5", "warm_up_s = 0"),
        with("drain_s = 2.25", "drain_s = 1e7"),
        with("drain_s", "connect_timeout_s = 1\ndrain_s"),
        with("drain_s", "connect_timeout_s = 86_400\ndrain_s"),
        with("clients = 3\nclient_id = \"a-{i}\"", "clients = 1\nclient_id = \"a\""),
        with("clients = 3\nclient_id = \"a-{i}\"", "clients = 0\nclient_id = \"a\""),
        with_publish("from_s = 0\nuntil_s = 1e7"),
        with_publish("rate_to_per_s = 0"),
        with_publish("count = 1"),
        with_publish("payload_bytes_to = 268369915"),
        and("[contract]\nrate_tolerance = 1\nlost_share_max = 0\nbehind_share_max = 1"),
        and("[thresholds]\np99_ms = 0.001"),
    ] {
        read(&good);
    }
    for (text, key, message) in [
        (with("warm_up_s = 1.5", "warm_up_s = -1"), "warm_up_s", "0 to 10000000 seconds"),
        (with("drain_s = 2.25", "drain_s = 1.1e7"), "drain_s", "0 to 10000000 seconds"),
        (with("measure_s = 20", "measure_s = 2e7"), "measure_s", "0 to 10000000 seconds"),
        (with("= 10\n", "= -1\n"), "connect_rate_per_s", "must be above 0"),
        (with("drain_s", "connect_timeout_s = 0\ndrain_s"), "connect_timeout_s", "1 to 86400"),
        (with("drain_s", "connect_timeout_s = 86401\ndrain_s"), "connect_timeout_s", "1 to 86400"),
        (with("a-{i}", "a"), "client_id", "must contain {i}"),
        (with("b-{i}", "a-{i}"), "client_id", "that of group \"one\""),
        (with("c-{i}", "b-{i}"), "client_id", "that of group \"two\""),
        (with("session", "filters_each = 0\nsession"), "filters_each", "above 0"),
        (with("topic = \"t/{i}\"", "topic = \"\""), "topic", "must not be empty"),
        (with("topic = \"t/{i}\"", "topic = \"t/+\""), "topic", "no wildcard"),
        (with("\"mine\"", "\"\""), "name", "must not be empty"),
        (with("rate_per_s = 2", "rate_per_s = 0"), "rate_per_s", "must be above 0"),
        (with_publish("payload_bytes_to = 15"), "payload_bytes_to", "must be 16"),
        (with_publish("payload_bytes_to = 268369916"), "payload_bytes_to", "to 268369915"),
        (with_publish("payload = \"json\"\npayload_bytes_to = 400"), "payload_bytes", "must be"),
        (with_publish("rate_to_per_s = -0.5"), "rate_to_per_s", "must not be below 0"),
        (with_publish("rate_to_per_s = inf"), "rate_to_per_s", "must not be below 0"),
        (with_publish("from_s = -1"), "from_s", "0 to 10000000 seconds"),
        (with_publish("until_s = -1"), "until_s", "0 to 10000000 seconds"),
        (with_publish("from_s = 2\nuntil_s = 2"), "until_s", "must be after from_s"),
        (with_publish("count = 0"), "count", "must be above 0"),
        (with_publish("will = true"), "will", "a will needs from_s"),
        (and("[contract]\nrate_tolerance = 1.1"), "rate_tolerance", "must be 0 to 1"),
        (and("[contract]\nbehind_share_max = -0.1"), "behind_share_max", "must be 0 to 1"),
        (and("[thresholds]\ncpu_cores = 0"), "cpu_cores", "must be above 0"),
        (and("[connection]\npassword_env = \"P\""), "[connection]", "needs a user_name"),
    ] {
        assert_refused(&text, key, message);
    }
    let json = with(
        "payload_bytes = 16",
        "payload = \"json\"\npayload_bytes_to = 400\n\
                     payload_bytes = 300",
    );
    assert_refused(&json, "payload_bytes_to", "a JSON payload has one size");
}

#[test]
fn nobody_at_all_is_no_use_case() {
    let empty = FILE.replace("clients = 3", "clients = 0").replace("clients = 4", "clients = 0");
    read(&empty);
    let empty = empty.replace("clients = 5", "clients = 0");
    assert_refused(&empty, "[[group]]", "with clients above 0");
}

/// A step's lines.
fn step(text: &str) -> String {
    format!("\n[[step]]\n{text}\n")
}

#[test]
fn steps_that_would_undo_each_other_or_owe_what_never_comes_are_refused() {
    let needs = "needs = [\"mqtt-5.0\", \"restart\"]\nabout";
    let file = with("about", needs);
    let freeze = |at: &str| step(&format!("at = {at}\nfault = \"freeze\"\nfor = 2"));
    let kill = |at: &str| step(&format!("at = {at}\nfault = \"kill\"\nfor = 2"));
    let cut = |at: &str| step(&format!("at = {at}\nfault = \"cut\"\nfor = 2"));
    let loss = |at: &str| step(&format!("at = {at}\nfault = \"loss\"\nloss_share = 0.1\nfor = 2"));
    for good in [
        freeze("1") + &freeze("3"),
        freeze("3") + &kill("1"),
        freeze("1") + &cut("1"),
        cut("1") + &loss("1.5"),
    ] {
        read(&format!("{file}{good}"));
    }
    for bad in [freeze("1") + &kill("2.9"), loss("2.9") + &freeze("1"), kill("1") + &kill("1")] {
        assert_refused(&format!("{file}{bad}"), "at", "overlaps another step");
    }
    let join = |group: &str| step(&format!("at = 1\nclients = \"join\"\ngroup = \"{group}\""));
    read(&format!("{file}{}", join("two")));
    assert_refused(&format!("{file}{}", join("one")), "at", "group \"one\" subscribes and joins");
    let all = step("at = 1\nclients = \"join\"");
    assert_refused(&format!("{file}{all}"), "at", "group \"one\" subscribes and joins late");
    let needs = "needs = [\"mqtt-5.0\", \"retained\"]\nabout";
    let kept = with_publish("retain = true\ncount = 1").replacen("about", needs, 1);
    read(&format!("{kept}{}", join("one")));
    for (from, to) in [("count = 1", "count = 2"), ("retain = true\n", "")] {
        let text = kept.replacen(from, to, 1);
        assert_refused(&format!("{text}{}", join("one")), "at", "subscribes and joins late");
    }
}

#[test]
fn a_use_case_that_names_needs_names_all() {
    let of =
        |file: &str, needs: &str| file.replacen("about", &format!("needs = [{needs}]\nabout"), 1);
    let v311 = FILE.replacen("\"5.0\"", "\"3.1.1\"", 1);
    read(FILE);
    read(&of(FILE, "\"mqtt-5.0\""));
    read(&of(&v311, "\"sessions\""));
    let shared = FILE.replacen("\"t/{i}\", qos = 1", "\"$share/g/t/#\", qos = 1", 1);
    let kill = step("at = 1\nfault = \"kill\"\nfor = 1");
    for (file, need) in [
        (FILE.to_owned(), "mqtt-5.0"),
        (shared, "shared-subscriptions"),
        (with("topic = \"t/{i}\"\nqos = 1", "topic = \"t/{i}\"\nqos = 2"), "qos-2"),
        (with("\"t/{i}\", qos = 1", "\"t/{i}\", qos = 2"), "qos-2"),
        (with_publish("retain = true"), "retained"),
        (with_publish("will = true\nfrom_s = 1"), "wills"),
        (with("clean_start = true", "clean_start = false"), "sessions"),
        (with("drain_s", "clean_start = false\ndrain_s"), "sessions"),
        (format!("{FILE}{kill}"), "restart"),
    ] {
        let (other, mqtt5) = ("\"content\"", "\"mqtt-5.0\"");
        assert!(!file.contains(other));
        if need == "mqtt-5.0" {
            assert_refused(&of(&file, "\"wills\""), "needs", "\"mqtt-5.0\"");
        } else {
            assert_refused(&of(&file, mqtt5), "needs", &format!("{need:?}"));
            read(&of(&file, &format!("{mqtt5}, \"{need}\"")));
        }
    }
}

#[test]
fn a_plan_has_everything_that_its_file_says() {
    let plan = plan_of(FILE);
    assert_eq!((plan.run, plan.keep_alive_s, plan.clean_start), (5, 300, true));
    assert_eq!((plan.connect.rate_per_s, plan.connect.timeout_ms), (10.0, 10_000));
    let phases = plan.phases;
    assert_eq!((phases.warm_up_ms, phases.measure_ms, phases.drain_ms), (1_500, 20_000, 2_250));
    assert_eq!((plan.interval_ms, plan.slice), (1_000, Slice::WHOLE));
    let clients: Vec<u32> = plan.groups.iter().map(|group| group.clients).collect();
    assert_eq!(clients, [3, 4, 5]);
    let [one, two, idle] = &plan.groups[..] else { panic!("{:?}", plan.groups) };
    assert_eq!((&*one.name, &*one.client_id), ("one", "a-{i}"));
    assert_eq!((one.clean_start, one.session_expiry_s), (Some(true), Some(7)));
    assert_eq!((one.subscriptions.len(), &*one.subscriptions[0].filter), (1, "t/{i}"));
    assert_eq!((&one.publish, two.subscriptions.len()), (&None, 0));
    assert_eq!(two.publish.as_ref().map(|publish| publish.rate_per_s), Some(2.0));
    assert!(idle.publish.is_none() && idle.subscriptions.is_empty());
    assert_eq!((idle.clean_start, idle.session_expiry_s), (None, None));
    let several = with("subscriptions", "filters_each = 2\nsubscriptions").replacen(
        "[{ filter = \"t/{i}\", qos = 1 }]",
        "[{ filter = \"t/{i}/{j}\", qos = 1 }, { filter = \"u/{j}\", qos = 0 }]",
        1,
    );
    let found = plan_of(&several).groups[0].subscriptions.clone();
    let found: Vec<_> = found.iter().map(|one| (one.filter.as_str(), one.qos)).collect();
    assert_eq!(found, [("t/{i}/0", 1), ("t/{i}/1", 1), ("u/0", 0), ("u/1", 0)]);
}

#[test]
fn a_plan_has_what_clients_do_in_the_steps_of_its_file() {
    let course = |text: &str| {
        let needs = "needs = [\"mqtt-5.0\"]\nabout";
        plan_of(&format!("{}{text}", with("about", needs))).course
    };
    let nothing = plan_of(FILE).course;
    assert_eq!((nothing.return_after_ms, nothing.steps.len(), nothing.has_pulse), (None, 0, false));
    let freeze = course(&step("at = 1\nfault = \"freeze\"\nfor = 1"));
    assert_eq!((freeze.return_after_ms, freeze.steps.len()), (Some(100), 0));
    assert!(freeze.has_pulse);
    let found = course(&step(
        "at = \"1500ms\"\nfault = \"cut\"\ngroup = \"one\"\nshare = 0.5\nover = 2\nfor = 3\n\
         every = \"4s\"",
    ));
    let cut = ClientStep {
        at_ms: 1_500,
        group: 0,
        action: Action::Cut,
        clients: 2,
        over_ms: 2_000,
        for_ms: 3_000,
        every_ms: 4_000,
    };
    assert_eq!((found.return_after_ms, found.steps), (Some(100), vec![cut]));
    let leave = course(&step("at = 2\nclients = \"leave\""));
    let of = |of: &ClientStep| (of.group, of.clients, of.every_ms);
    let found: Vec<_> = leave.steps.iter().map(of).collect();
    assert_eq!(found, [(0, 3, 0), (1, 4, 0), (2, 5, 0)], "every group, and all of it");
    let join = course(&step("at = 2\nclients = \"join\"\ngroup = \"two\""));
    assert_eq!((join.return_after_ms, join.steps[0].action), (None, Action::Join));
    let soon = course("\n[reconnect]\nafter = \"250ms\"\n");
    assert_eq!((soon.return_after_ms, soon.has_pulse), (Some(250), false));
}

#[test]
fn a_measure_phase_is_as_long_as_what_happens_in_it_needs() {
    let of = |text: &str, asked_s| read(text).measure_s(asked_s);
    assert_eq!((of(FILE, None), of(FILE, Some(7.0))), (20.0, 7.0));
    assert_eq!(of(&with("measure_s = 20\n", ""), None), 10.0);
    assert_eq!(of(&with_publish("from_s = 30"), None), 33.0);
    assert_eq!(of(&with_publish("until_s = 31"), Some(4.0)), 31.0);
    let file = with("about", "needs = [\"mqtt-5.0\"]\nkeep_alive_s = 10\nabout");
    let cut = step("at = 30\nfault = \"cut\"\nover = 2\nfor = 4");
    assert_eq!(of(&(file.clone() + &cut), None), 39.0);
    let dead = step("at = 5\nfault = \"half-open\"\nfor = 1");
    assert_eq!(of(&(file + &dead), None), 29.0, "twice the keep alive");
}

#[test]
fn what_has_steps_publishes_nothing_or_unevenly_cannot_go_in_turn() {
    let of = |text: &str| read(text).not_in_turn();
    assert_eq!(of(FILE), None);
    let steps = Some("it has steps");
    assert_eq!(of(&and("\n[reconnect]\nafter = 1\n")), steps);
    let file = with("about", "needs = [\"mqtt-5.0\"]\nabout");
    assert_eq!(of(&(file + &step("at = 1\nfault = \"cut\""))), steps);
    let start = FILE.find("[group.publish]").unwrap();
    let end = FILE.rfind("[[group]]").unwrap();
    let silent = format!("{}{}", &FILE[..start], &FILE[end..]);
    assert_eq!(of(&silent), Some("nothing is published"));
    let uneven = Some("it publishes a ramp or wills");
    assert_eq!(of(&with_publish("rate_to_per_s = 5")), uneven);
    assert_eq!(of(&with_publish("will = true\nfrom_s = 1")), uneven);
}

/// What is disclosed of rates: of a publisher that is due for a part of measure, the mean.
#[test]
fn planned_rates_are_means_over_the_measure_phase() {
    let of = |text: &str| {
        let use_case = read(text);
        let scaled = scale(&use_case, 1.0, 1_000).unwrap();
        let run = scaled.run_description(&plan_of(text));
        (run.publish_rate_planned, run.deliver_rate_planned)
    };
    // Four publish two a second for 20 s; three of them are heard, by one each.
    assert_eq!(of(FILE), (8.0, 6.0));
    for (more, rate) in [
        ("from_s = 5", 1.5),
        ("until_s = 5", 0.5),
        ("from_s = 5\nuntil_s = 10", 0.5),
        ("rate_to_per_s = 6", 4.0),
        ("rate_to_per_s = 6\nfrom_s = 10", 2.0),
        ("count = 10", 0.5),
        ("count = 1000", 2.0),
    ] {
        assert_eq!(of(&with_publish(more)), (4.0 * rate, 3.0 * rate), "{more}");
    }
}

#[test]
fn a_run_discloses_its_use_case() {
    let text = with_publish("payload_bytes_to = 40").replacen(
        "[[group]]\nname = \"idle\"",
        "[[group]]\nname = \"three\"\nclients = 2\nclient_id = \"d-{i}\"\nscales = false\n\
         publish = { topic = \"u\", qos = 0, rate_per_s = 1, payload_bytes = 50 }\n\n\
         [[group]]\nname = \"idle\"",
        1,
    );
    let use_case = read(&text);
    let scaled = scale(&use_case, 2.0, 1_000).unwrap();
    let target = "192.0.2.1:1883".parse().unwrap();
    let plan = plan(&scaled, target, 5, Times::new(&use_case, None, Some(30.0)));
    let run = scaled.run_description(&plan);
    assert_eq!((&*run.name, run.revision, &*run.about), ("mine", 3, "for a test"));
    assert_eq!((run.scale_asked, run.scale, run.scale_reason.clone()), (2.0, 2.0, None));
    assert_eq!((&*run.mqtt_version, run.qos, run.payload_bytes), ("5.0", Some(1), Some(50)));
    // The fixed header, the topic t/0 and its length, the identifier, no properties, the payload.
    assert_eq!(run.publish_bytes_on_wire, Some(2 + 5 + 2 + 1 + 16));
    assert_eq!((run.idle_clients, run.publishers, run.subscribers), (10, 10, 6));
    assert_eq!((run.topics, run.connect_rate_planned, run.duration_s), (9, 10.0, 30.0));
    assert_eq!((run.publish_rate_planned, run.deliver_rate_planned), (18.0, 12.0));
    assert_eq!((run.file.as_str(), run.file_sha256.len()), (text.as_str(), 64));
    // Two that take turns each publish for their part of the time.
    let shifts = Shifts { length_us: 300_000, pause_us: 100_000, index: 0, of: 2 };
    let share = shifts.share();
    let in_turn = Plan { shifts: Some(shifts), ..plan };
    let run = scaled.run_description(&in_turn);
    assert!((share - 0.375).abs() < 1e-9, "{share}");
    let expected = (18.0 * share, 12.0 * share);
    assert_eq!((run.publish_rate_planned, run.deliver_rate_planned), expected);
    let v311 = read(&FILE.replacen("\"5.0\"", "\"3.1.1\"", 1));
    let scaled = scale(&v311, 1.0, 1_000).unwrap();
    assert_eq!(scaled.run_description(&in_turn).mqtt_version, "3.1.1");
}
