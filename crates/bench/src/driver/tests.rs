use super::places::Places;
use super::*;
use weir_load::plan::{ClientSettings, IdentityText, Transport};

#[test]
fn every_name_has_a_driver_of_that_name() {
    assert!(names().count() >= 2);
    for name in names() {
        assert_eq!(parse(name).unwrap().name(), name);
    }
}

#[test]
fn every_file_of_a_driver_can_be_read() {
    for folder in catalog::FOLDERS {
        let read = toml::from_str::<file::BrokerFile>(folder.text);
        assert!(read.is_ok(), "{}: {}", folder.name, read.unwrap_err());
    }
}

#[test]
fn every_setting_has_a_place_and_every_brace_a_value() {
    for entry in catalog::CATALOG.iter() {
        let (name, file) = (entry.folder.name, &entry.file);
        for change in &file.change {
            assert!(file.mentions(&change.slot), "{name}: nothing speaks of {{{}}}", change.slot);
            assert!(!change.reason.is_empty(), "{name}: {}", change.setting);
        }
        let program = program::Program::of(entry, "/bin/weir".into());
        let mut demands = demands(&file.can);
        if file.nodes.is_some() {
            demands.push(Demand { nodes: 3, ..demands[0].clone() });
        }
        let each = |&profile: &Profile| demands.iter().map(move |demand| (profile, demand));
        for (profile, demand) in file.profiles.iter().flat_map(each) {
            let (folder, path) = (Path::new("/run"), Path::new("/bin/it"));
            let places = Places::numbered(file, demand.nodes.max(1) as u16);
            let filled = program.filled((profile, demand), folder, path, (&places, 0), None);
            let files = filled.files.iter().map(|(_, text)| text);
            let environment = filled.environment.iter().map(|(_, text)| text);
            let all: Vec<&String> = files.chain(environment).chain(&filled.command).collect();
            assert!(all.iter().any(|text| text.contains("20000")), "{name} is told no port");
            let asks = !demand.login.route.identities.is_empty();
            for (_, value) in demand.values.iter().filter(|(word, _)| asks || *word != "ca") {
                let transport = demand.login.route.transport().name();
                let is_told = all.iter().any(|text| text.contains(value));
                assert!(is_told, "{name} {profile} {transport}: nothing says {value}");
            }
            for text in all {
                assert_eq!(left(text), None, "{name} {profile}: {text}");
            }
        }
    }
}

/// What use cases can ask of a broker that can do this.
fn demands(can: &Can) -> Vec<Demand> {
    let mut demands = Vec::new();
    for &transport in &can.transports {
        let mut demand = Demand::default();
        demand.login.route.path = transport.is_websocket().then(|| "/mqtt".into());
        let make = |demand: &mut Demand, word: &str| {
            demand.values.insert(word.into(), format!("/made/{word}"));
        };
        if transport.has_tls() {
            demand.login.route.tls = Some(ClientSettings::new(String::new()));
            for word in ["ca", "certificate", "key"] {
                make(&mut demand, word);
            }
        }
        demands.push(demand.clone());
        if can.users {
            let mut with_users = demand.clone();
            with_users.login.users = 1;
            make(&mut with_users, "password_file");
            demands.push(with_users.clone());
            if can.rules {
                with_users.has_rules = true;
                make(&mut with_users, "acl_file");
                demands.push(with_users);
            }
        }
        if can.client_certificates && transport == Transport::Tls {
            let (certificates, key) = (String::new(), String::new());
            demand.login.route.identities.push(IdentityText { certificates, key });
            demands.push(demand);
        }
    }
    demands
}

/// A brace that looks like one of ours, and has no value.
fn left(text: &str) -> Option<&str> {
    let is_key = |key: &&str| {
        !key.is_empty()
            && key.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit())
    };
    text.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(key, _)| key).find(is_key)
}

#[test]
fn an_unknown_broker_is_told_the_known_ones() {
    let text = parse("mosquito").map(|_| ()).unwrap_err().to_string();
    assert!(text.contains("\"mosquito\"") && text.contains("weir, mosquitto"), "{text}");
}

#[test]
fn a_url_that_is_not_mqtt_host_port_is_refused_with_its_reason() {
    for (url, part) in [
        ("http://localhost", "it must be mqtt://"),
        ("mqtt://", "no host"),
        ("mqtt://127.0.0.1:70000", "port"),
        ("mqtt://127.0.0.1:", "port"),
    ] {
        let text = parse(url).map(|_| ()).unwrap_err().to_string();
        assert!(text.contains(part), "{url}: {text}");
    }
}

#[test]
fn a_command_that_cannot_be_one_is_refused_with_its_reason() {
    for (given, part) in
        [("a/b=sh", "a name consists of"), ("=sh", "a name consists of"), ("x= ", "no command")]
    {
        let text = parse(given).map(|_| ()).unwrap_err().to_string();
        assert!(text.contains(part), "{given}: {text}");
    }
    let missing = parse("mine=/no/such/program").unwrap();
    let text = missing.about(Profile::Default).unwrap_err().to_string();
    assert!(text.contains("/no/such/program is not a program"), "{text}");
}

#[test]
fn a_profile_reads_what_it_writes() {
    for profile in [Profile::Default, Profile::Tuned, Profile::Published, Profile::Durable] {
        assert_eq!(profile.to_string().parse::<Profile>(), Ok(profile));
    }
    assert!("fast".parse::<Profile>().is_err());
}

/// What a broker is given for a run on one processor: its files and its environment.
fn rendered(name: &str, profile: Profile) -> String {
    let entry = catalog::entry(name).unwrap();
    let program = program::Program::of(entry, "/bin/weir".into());
    let (path, demand) = (Path::new("/bin/it"), Demand::default());
    let places = Places::numbered(&entry.file, 1);
    let asked = (profile, &demand);
    let filled = program.filled(asked, Path::new("/run"), path, (&places, 0), Some(1));
    let environment = filled.environment.iter().map(|(key, value)| format!("{key}={value}"));
    filled.files.into_iter().map(|(_, text)| text).chain(environment).collect::<Vec<_>>().join("\n")
}

#[test]
fn each_node_is_told_of_its_own_ports_of_all_others_and_of_what_they_share() {
    let file = &catalog::entry("nats-server").unwrap().file;
    let values = Places::numbered(file, 3).values(file, 1);
    assert_eq!((&*values["node"], &*values["nodes"]), ("2", "3"));
    assert_eq!((&*values["port"], &*values["first_port"]), ("20100", "20000"));
    assert_eq!((&*values["port_route"], &*values["first_port_route"]), ("20102", "20002"));
    let routes = ["20002", "20102", "20202"].map(|port| format!("\"nats://127.0.0.1:{port}\""));
    assert_eq!(values["routes"], routes.join(", "));
    let file = &catalog::entry("vernemq").unwrap().file;
    let epmd = |node| Places::numbered(file, 3).values(file, node)["port_epmd"].clone();
    assert_eq!((epmd(0), epmd(2)), ("20001".into(), "20001".into()));
    // What is of several nodes is nothing to a single one.
    let file = &catalog::entry("weir").unwrap().file;
    assert!(!Places::numbered(file, 1).values(file, 0).contains_key("port_link"));
    let free = Places::free(file, 2).unwrap();
    let mut all = [free.of_node(0), free.of_node(1), &free.services[0]].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 2 + 2 + 2);
}

#[test]
fn a_broker_promises_what_its_profile_can_keep() {
    let resumed = |profile| {
        let nodes = catalog::entry("weir").unwrap().file.nodes.as_ref().unwrap();
        let of_session = |session: &str| {
            let all = nodes.promises(profile).into_iter();
            let of: Vec<bool> =
                all.filter(|of| of.session == session).map(|of| of.survives).collect();
            of
        };
        (of_session("connected"), of_session("resumed"))
    };
    assert_eq!(resumed(Profile::Default), (vec![true], vec![false]));
    assert_eq!(resumed(Profile::Durable), (vec![true], vec![true]));
}

#[test]
fn what_is_promised_is_of_a_session_that_results_know_and_said_once() {
    let known = ["connected", "resumed", "clean", "new", "away", "shared"];
    for entry in catalog::CATALOG.iter() {
        let Some(nodes) = &entry.file.nodes else { continue };
        for &profile in &entry.file.profiles {
            let promises = nodes.promises(profile);
            let mut sessions: Vec<&str> = promises.iter().map(|of| &*of.session).collect();
            assert!(sessions.iter().all(|of| known.contains(of)), "{}", entry.folder.name);
            sessions.sort_unstable();
            sessions.dedup();
            assert_eq!(sessions.len(), promises.len(), "{} {profile}", entry.folder.name);
        }
    }
}

#[test]
fn a_broker_has_as_many_nodes_as_its_driver_can_start() {
    let nodes = |name: &str, asked| parse(name).unwrap().nodes(asked);
    assert_eq!((nodes("weir", 3), nodes("mosquitto", 1)), (Ok(3), Ok(1)));
    assert_eq!(nodes("weir", 17).unwrap_err(), "17 nodes: it has at most 16");
    assert!(nodes("hivemq-ce", 3).unwrap_err().contains("the Community Edition has no cluster"));
    assert_eq!(nodes("aedes", 2).unwrap_err(), "2 nodes as the driver sets it up");
    assert_eq!(nodes("weir@new", 3), Ok(3));
}

#[test]
fn flashmq_listens_on_this_host_alone_and_has_a_thread_per_processor_it_may_use() {
    for profile in [Profile::Default, Profile::Tuned] {
        let text = rendered("flashmq", profile);
        for part in ["inet_protocol ip4\n", "inet4_bind_address 127.0.0.1\n", "thread_count 1\n"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

#[test]
fn nanomq_leaves_alone_what_another_nanomq_of_the_host_has() {
    let text = rendered("nanomq", Profile::Default);
    for part in
        ["enable_ipc_internal = false", "NANOMQ_PID_FILE=/run/broker-data/", "level = error"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn nanomq_is_set_as_it_ships_and_no_key_without_effect_is_said_to_be_a_change() {
    let shipped = ["max_mqueue_len = 2048", "max_packet_size = 256MB", "max_topic_alias = 1024"];
    let text = rendered("nanomq", Profile::Default);
    assert!(shipped.iter().all(|part| text.contains(part)), "{text}");
    let text = rendered("nanomq", Profile::Tuned);
    assert!(!text.contains("max_inflight_window"), "nothing in NanoMQ reads it: {text}");
    assert!(text.contains("retry_interval = 1s, batch_resend = true"), "{text}");
}

#[test]
fn emqx_is_emqx_5() {
    let of = |text| parse(text).unwrap().name().to_owned();
    assert_eq!([of("emqx"), of("emqx=/opt/emqx/bin/emqx console")], ["emqx5", "emqx5"]);
}

/// A script that writes down that it was run.
fn script(folder: &Path, name: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join(name);
    let text = "#!/bin/sh\necho run >>\"$0.runs\"\necho mosquitto version 2.0.11\n";
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

#[test]
fn a_wrapper_is_not_run_for_its_version() {
    let folder = tempfile::TempDir::new().unwrap();
    let wrapper = script(folder.path(), "wrap");
    for rest in ["", " -c {config}"] {
        let driver = parse(&format!("mosquitto={}{rest}", wrapper.display())).unwrap();
        assert_eq!(driver.about(Profile::Default).unwrap().version, "unknown");
    }
    assert!(!folder.path().join("wrap.runs").exists());
    // In the place of the broker's program a script may stand.
    let program = script(folder.path(), "mosquitto");
    for rest in ["", " -c {config}"] {
        let driver = parse(&format!("mosquitto={}{rest}", program.display())).unwrap();
        assert_eq!(driver.about(Profile::Default).unwrap().version, "2.0.11");
    }
}

#[test]
fn another_program_in_front_is_not_taken_for_the_broker() {
    for broker in ["weir", "rmqttd"] {
        // It prints a version of its own.
        let driver = parse(&format!("{broker}=env {broker} --config {{config}}")).unwrap();
        assert_eq!(driver.about(Profile::Default).unwrap().version, "unknown", "{broker}");
    }
}

#[test]
fn a_command_line_of_the_users_lists_as_set_only_what_it_names() {
    let of = |text: &str| {
        let (name, command) = text.split_once('=').unwrap();
        let program = program::Program::given(name, command, "/bin/weir".into()).unwrap();
        let path = Path::new("/bin/it");
        let asked = (Profile::Tuned, &Demand::default());
        let places = Places::numbered(&catalog::entry(name).unwrap().file, 1);
        program.filled(asked, Path::new("/run"), path, (&places, 0), None).changes
    };
    assert_eq!(of("emqx5=docker run emqx"), [""; 0], "it may not care for the environment");
    assert_eq!(of("mosquitto=/opt/wrap --fast"), [""; 0], "it has a configuration of its own");
    let all = of("mosquitto=/opt/m/sbin/mosquitto");
    assert!(!all.is_empty());
    assert_eq!(of("mosquitto=/opt/wrap -c {config}"), all);
    assert_eq!(of("mosquitto=/opt/docker run -v {folder}:/etc/mosquitto it"), all);
    assert!(!of("emqx5=/opt/emqx/bin/emqx").is_empty());
}

/// A broker that the suite watches is stopped and goes on; the kernel tells its parent of both.
#[test]
fn a_broker_that_is_frozen_stands_still_until_it_is_thawed() {
    use rustix::process::{Pid, WaitOptions, waitpid};
    let null = crate::run::tests::NullBroker::start();
    let folder = tempfile::tempdir().unwrap();
    let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let pid = Pid::from_child(&child);
    // For a moment after it was started, a process has no command line yet.
    let command_line = format!("/proc/{}/cmdline", child.id());
    while std::fs::read(&command_line).unwrap().is_empty() {
        std::thread::yield_now();
    }
    let url = format!("mqtt://{}?pid={}", null.address, child.id());
    let running = parse(&url).unwrap().start(Profile::Default, folder.path(), None).unwrap();
    let seen = |options| waitpid(Some(pid), options).unwrap().unwrap().1;
    running.freeze().unwrap();
    assert!(seen(WaitOptions::UNTRACED).stopped());
    running.thaw().unwrap();
    let state = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let state = state.rsplit(") ").next().unwrap().chars().next();
    assert_ne!(state, Some('T'), "it goes on");
    assert!(running.freeze().is_err(), "there is nothing left to stop");
}
