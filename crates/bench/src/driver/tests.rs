use super::*;

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
        let addresses: Vec<_> = (0..=file.ports.len() as u16)
            .map(|at| std::net::SocketAddr::from(([127, 0, 0, 1], 20_000 + at)))
            .collect();
        let program = program::Program::of(entry, "/bin/weir".into());
        for &profile in &file.profiles {
            let (folder, path) = (Path::new("/run"), Path::new("/bin/it"));
            let filled = program.filled(profile, folder, path, &addresses);
            let files = filled.files.iter().map(|(_, text)| text);
            let environment = filled.environment.iter().map(|(_, text)| text);
            let all: Vec<&String> = files.chain(environment).chain(&filled.command).collect();
            assert!(all.iter().any(|text| text.contains("20000")), "{name} is told no port");
            for text in all {
                assert_eq!(left(text), None, "{name} {profile}: {text}");
            }
        }
    }
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
    for profile in [Profile::Default, Profile::Tuned, Profile::Published] {
        assert_eq!(profile.to_string().parse::<Profile>(), Ok(profile));
    }
    assert!("fast".parse::<Profile>().is_err());
}
