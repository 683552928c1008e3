//! What a session says and asks for, before anything runs.

use super::*;
use crate::driver::parse;
use crate::run::tests::{NullBroker, options, small};

const ASKED: Repeats =
    Repeats { repeats: 3, seed: 7, cool_down_s: None, abreast_s: None, again: 0 };

fn use_cases() -> Vec<UseCase> {
    let names = ["p2p-1K-1K-1K-1K", "conn-tcp-10K-100"];
    names.map(|name| UseCase::builtin(name).unwrap()).to_vec()
}

fn brokers() -> Vec<Box<dyn Driver>> {
    ["weir", "mosquitto"].map(|name| parse(name).unwrap()).into_iter().collect()
}

/// A session of p2p alone on two brokers, in a folder that is gone with the test.
fn session(asked: Repeats) -> anyhow::Result<Session> {
    let folder = tempfile::tempdir().unwrap();
    Session::new(asked, folder.path(), &use_cases()[..1], 2, &Agents::default())
}

fn refused(asked: Repeats) -> String {
    session(asked).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn repeats_that_cannot_be_are_refused_with_their_option() {
    let abreast = Repeats { abreast_s: Some(0.1), ..ASKED };
    assert!(session(abreast).is_ok());
    assert!(session(Repeats { cool_down_s: Some(3_600.0), ..ASKED }).is_ok());
    for (asked, option) in [
        (Repeats { cool_down_s: Some(3_600.5), ..ASKED }, "--cool-down must be 1h at most"),
        (Repeats { abreast_s: Some(0.019), ..ASKED }, "--abreast must be 0.02s to 0.5s"),
        (Repeats { abreast_s: Some(0.51), ..ASKED }, "--abreast must be 0.02s to 0.5s"),
        (Repeats { again: 1, ..abreast }, "--again: one of those"),
        (Repeats { repeats: 1, ..abreast }, "--abreast needs --repeat"),
    ] {
        let text = refused(asked);
        assert!(text.starts_with(option), "{text}");
    }
    let folder = tempfile::tempdir().unwrap();
    let new = |use_cases: &[UseCase], brokers, agents: &Agents| {
        let session = Session::new(abreast, folder.path(), use_cases, brokers, agents);
        session.map(|_| ()).unwrap_err().to_string()
    };
    let agents = Agents { local: 2, ..Agents::default() };
    assert!(new(&use_cases(), 2, &agents).contains("agents share"));
    assert!(new(&use_cases()[..1], 1, &Agents::default()).contains("at least two brokers"));
    let [one, other] = [0, 1].map(|at| use_cases()[at].not_in_turn().is_some());
    assert!(!one && other, "connections are not made in turns");
    assert!(new(&use_cases(), 2, &Agents::default()).contains("conn-tcp-10K-100"));
}

#[test]
fn repeated_runs_have_a_folder_of_their_own_and_rest_between_them() {
    let out = tempfile::tempdir().unwrap();
    let new = |asked, use_cases: &[UseCase]| {
        Session::new(asked, out.path(), use_cases, 2, &Agents::default()).unwrap()
    };
    let single = new(Repeats { repeats: 1, ..ASKED }, &use_cases());
    assert_eq!((&*single.out, single.cool_down_s, single.is_repeated()), (out.path(), 0.0, false));
    let one = new(ASKED, &use_cases()[..1]);
    assert!(one.is_repeated() && one.out.is_dir() && one.cool_down_s == COOL_DOWN_S);
    assert!(one.name.contains("p2p-1K-1K-1K-1K") && one.name.contains("x3"), "{}", one.name);
    assert_eq!(one.out.file_name().unwrap().to_str(), Some(&*one.name));
    let set = new(Repeats { cool_down_s: Some(0.5), ..ASKED }, &use_cases());
    assert_eq!(set.cool_down_s, 0.5);
    assert!(set.name.contains(&use_cases()[0].set), "{}", set.name);
    let mut own = use_cases();
    own[0].set.clear();
    let own = new(ASKED, &own);
    assert!(own.name.contains("runs"), "{}", own.name);
}

#[test]
fn the_announcement_has_the_least_time_that_all_runs_take() {
    let asked = Repeats { cool_down_s: Some(5.0), ..ASKED };
    let mut of = session(asked).unwrap();
    of.out = "kept".into();
    // Two use cases of 30 s on two brokers, three times, and five seconds before each.
    let lines = of.announcement(&use_cases(), &brokers(), &options(Path::new("")));
    let expected = [
        "plan: 12 runs (use cases 2, brokers 2, rounds 3)",
        "  not pinned",
        "  order by seed 7; 5 s of rest before each run",
        "  results go to kept",
        "  at least 7.0 min, plus the time to connect and drain",
    ];
    assert_eq!(lines, expected);
    let (cases, two) = (&use_cases()[..1], &brokers());
    let mut abreast = session(Repeats { abreast_s: Some(0.25), ..asked }).unwrap();
    abreast.out = "kept".into();
    let lines = abreast.announcement(cases, two, &options(Path::new("")));
    assert_eq!(lines[0], "plan: 6 runs (use cases 1, brokers 2, rounds 3)");
    assert!(lines[2].ends_with("each loaded for about 250 ms in turn"), "{lines:?}");
    // Both at once: three times 30 s and a rest.
    assert_eq!(lines[5], "  at least 1.8 min, plus the time to connect and drain");
    let single = session(Repeats { repeats: 1, ..ASKED }).unwrap();
    assert!(single.announcement(cases, &two[..1], &options(Path::new(""))).is_empty());
    let lines = single.announcement(cases, two, &options(Path::new("")));
    assert_eq!(
        (lines.len(), &*lines[2]),
        (3, "  at least 1.0 min, plus the time to connect and drain")
    );
}

#[test]
fn what_is_planned_is_every_use_case_on_every_broker() {
    let single = session(Repeats { repeats: 1, ..ASKED }).unwrap();
    let cells = single.planned(&use_cases(), &brokers());
    let cells: Vec<_> = cells.iter().map(|of| (&*of.use_case, &*of.broker)).collect();
    let expected = [
        ("singlenode-p2p-1K-1K-1K-1K", "weir"),
        ("singlenode-p2p-1K-1K-1K-1K", "mosquitto"),
        ("singlenode-conn-tcp-10K-100", "weir"),
        ("singlenode-conn-tcp-10K-100", "mosquitto"),
    ];
    assert_eq!(cells, expected);
    assert_eq!(session(ASKED).unwrap().planned(&use_cases(), &brokers()).len(), 12);
}

#[test]
fn turns_of_brokers_that_go_abreast_fill_each_second() {
    let of = session(Repeats { abreast_s: Some(0.1), ..ASKED }).unwrap();
    assert_eq!((of.together(&brokers()), session(ASKED).unwrap().together(&brokers())), (2, 1));
    let barrier = StartBarrier::new(3);
    // Three rounds of 0.3 s would be 0.9 s: each turn is a ninth of a second.
    let of_three = of.abreast(&barrier, 1, 3).unwrap().shifts;
    assert_eq!(of_three, Shifts { length_us: 105_556, pause_us: 5_555, index: 1, of: 3 });
    // Two turns of half a second leave room for one round.
    let long = session(Repeats { abreast_s: Some(0.5), ..ASKED }).unwrap();
    let of_three = long.abreast(&barrier, 2, 3).unwrap().shifts;
    assert_eq!(of_three, Shifts { length_us: 316_667, pause_us: 16_666, index: 2, of: 3 });
    assert!(session(ASKED).unwrap().abreast(&barrier, 0, 2).is_none());
}

#[test]
fn each_run_says_which_repeat_it_is() {
    let of = session(Repeats { abreast_s: Some(0.1), ..ASKED }).unwrap();
    let turn = Turn { use_case: 0, broker: 1, round: 2 };
    let told = of.repetition(&turn, 3, 1.5).unwrap();
    assert_eq!((told.round, told.rounds, told.seed), (2, 3, 7));
    assert_eq!((told.position, told.broker, told.cool_down_s), (4, 2, 1.5));
    assert_eq!((told.session, told.abreast_ms), (of.name, Some(100)));
    let single = session(Repeats { repeats: 1, ..ASKED }).unwrap();
    assert!(single.repetition(&turn, 0, 0.0).is_none());
}

#[test]
fn every_turn_is_run_kept_and_reported_in_its_order() {
    let (null, out) = (NullBroker::start(), tempfile::tempdir().unwrap());
    let asked = Repeats { repeats: 2, cool_down_s: Some(0.01), ..ASKED };
    let (use_cases, brokers) = ([small()], [null.driver()]);
    let of = Session::new(asked, out.path(), &use_cases, 1, &Agents::default()).unwrap();
    let how = RunOptions { measure_s: Some(0.3), warm_up_s: Some(0.1), ..options(&of.out) };
    let mut kept = Vec::new();
    let mut keep = |result: RunResult, folder: PathBuf| kept.push((result, folder));
    let run = of.run_each(&use_cases, &brokers, &how, &Interrupted::default(), &mut keep);
    run.unwrap();
    let told: Vec<_> = kept
        .iter()
        .map(|(run, _)| run.repetition.as_ref().map(|of| (of.round, of.position)).unwrap())
        .collect();
    assert_eq!(told, [(1, 1), (2, 2)]);
    for (run, folder) in &kept {
        assert_eq!(run.measure.sent, 30);
        assert!(folder.starts_with(&of.out) && folder.join("report.html").is_file());
        let seed = &run.disclosed.seed;
        assert!(seed.starts_with("7, for the order of repeats"), "{seed}");
    }
    let comparison = crate::compare::within(
        &kept.iter().map(|(run, _)| run.clone()).collect::<Vec<_>>(),
        crate::compare::Options { seed: 1, is_anyway: true },
    );
    if let Ok(comparison) = comparison {
        of.keep(&comparison).unwrap();
        assert!(of.out.join("comparison.json").is_file());
    }
}

#[test]
fn nothing_is_run_after_a_wish_to_stop_and_no_run_at_all_is_an_error() {
    let out = tempfile::tempdir().unwrap();
    let of = Session::new(
        Repeats { repeats: 1, ..ASKED },
        out.path(),
        &use_cases(),
        1,
        &Agents::default(),
    )
    .unwrap();
    let nobody = parse("mine=mqtt://127.0.0.1:1").unwrap();
    let (brokers, mut kept) = ([nobody], 0);
    let mut run = |interrupted: bool| {
        let interrupted = Interrupted::new(interrupted.into());
        let how = options(out.path());
        let result = of.run_each(&use_cases(), &brokers, &how, &interrupted, &mut |_, _| kept += 1);
        (result.map_err(|error| error.to_string()), kept)
    };
    assert_eq!(run(true), (Ok(()), 0));
    let (result, kept) = run(false);
    assert!(result.unwrap_err().starts_with("not started: "));
    assert_eq!(kept, 2, "each cell says why");
}

#[test]
fn a_run_that_comes_out_invalid_is_made_again_as_often_as_asked_and_no_more() {
    let (null, out) = (NullBroker::start(), tempfile::tempdir().unwrap());
    // More than a generator can send, so that each of its runs is invalid.
    let mut use_case = small();
    use_case.group[1].publish.as_mut().unwrap().rate_per_s = 3_000_000.0;
    let (use_cases, brokers) = ([use_case], [null.driver()]);
    let how = RunOptions { measure_s: Some(0.2), warm_up_s: Some(0.0), ..options(out.path()) };
    let invalid_before = |again: u32| {
        let asked = Repeats { repeats: 1, cool_down_s: Some(0.01), again, ..ASKED };
        let of = Session::new(asked, out.path(), &use_cases, 1, &Agents::default()).unwrap();
        let mut kept = Vec::new();
        let mut keep = |result: RunResult, folder: PathBuf| kept.push((result, folder));
        of.run_each(&use_cases, &brokers, &how, &Interrupted::default(), &mut keep).unwrap();
        let [(result, folder)] = &kept[..] else { panic!("{} results", kept.len()) };
        assert_eq!(result.verdict.status, Status::Invalid, "{:?}", result.verdict);
        let before = result.invalid_before.clone();
        assert!(before.iter().all(|of| *out.path().join(&of.folder) != **folder));
        before.len()
    };
    assert_eq!([invalid_before(0), invalid_before(1)], [0, 1]);
}
