//! Completions, manual pages, and the tips of a mistyped command line.

use std::process::{Command, Output};

fn weir(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(arguments).output().unwrap()
}

#[test]
fn every_shell_gets_completions_of_the_options() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = weir(&["completions", shell]);
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && script.contains("cool-down"), "{shell}");
    }
    assert_eq!(weir(&["completions", "nosuch"]).status.code(), Some(2));
}

#[test]
fn every_command_gets_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("share/man/man1");
    assert!(weir(&["man", inner.to_str().unwrap()]).status.success());
    for (name, option) in
        [("weir", "SUBCOMMANDS"), ("weir-broker", "log"), ("weir-bench-run", "duration")]
    {
        let page = std::fs::read_to_string(inner.join(format!("{name}.1"))).unwrap();
        assert!(page.contains(option), "{name}: {page}");
    }
}

#[test]
fn help_names_every_set_and_every_profile() {
    let help = String::from_utf8(weir(&["bench", "suite", "--help"]).stdout).unwrap();
    let lines: Vec<&str> = help.split_whitespace().collect();
    let help = lines.join(" ");
    let known = |arguments: &[&str], before: &str| {
        let said = String::from_utf8(weir(arguments).stderr).unwrap();
        let list = said.lines().find_map(|line| line.split_once(before)).unwrap().1.to_owned();
        list.replace(" or ", ", ").split(", ").map(str::to_owned).collect::<Vec<_>>()
    };
    let sets = known(&["bench", "suite", "nosuch"], "the sets are ");
    let (set, _) = help.split_once("Options:").unwrap();
    let profiles = known(&["bench", "suite", "basic", "--profile", "x"], "a profile is ");
    let profile = help.split_once("Configuration of the broker:").unwrap().1;
    for (known, help) in [(sets, set), (profiles, profile)] {
        assert!(known.len() > 3, "{known:?}");
        assert!(known.iter().all(|name| help.contains(name.trim())), "{known:?} {help}");
    }
}

#[test]
fn a_tip_names_only_what_is_near() {
    for (arguments, tip) in [
        (&["pub", "--topics", "a"][..], Some("--topic")),
        (&["bench", "runs"], Some("run")),
        (&["pub", "--cafile", "x", "-t", "a"], None),
        (&["broker", "--cafile", "x"], None),
        (&["nosuch"], None),
    ] {
        let output = weir(arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        match tip {
            Some(tip) => assert!(text.contains(&format!("'{tip}'")), "{arguments:?}: {text}"),
            None => assert!(!text.contains("similar"), "{arguments:?}: {text}"),
        }
    }
    let text = String::from_utf8(weir(&["bench", "run", "nosuch"]).stderr).unwrap();
    assert!(!text.contains("did you mean") && text.contains("weir bench list"), "{text}");
}
