//! What `scripts/package` puts into packages: the files, the units, and configurations that the
//! broker takes. Packages themselves are made and installed by `make packages`.

use crate::support::tool;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What the .deb has.
fn tree(folder: &Path) -> PathBuf {
    let tree = folder.join("tree");
    let mut package = Command::new(root().join("scripts/package"));
    said(&package.args(["tree", WEIR]).arg(&tree).output().unwrap());
    tree
}

fn files(folder: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in folder.read_dir().unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => files(&entry.path(), found),
            false => _ = found.insert(entry.path()),
        }
    }
}

#[test]
fn the_package_has_its_files_and_a_configuration_for_this_host_alone() {
    let folder = tempfile::tempdir().unwrap();
    let tree = tree(folder.path());
    let mut found = BTreeSet::new();
    files(&tree, &mut found);
    for name in [
        "etc/weir/weir.toml",
        "usr/bin/weir",
        "usr/lib/systemd/system/weir.service",
        "usr/share/bash-completion/completions/weir",
        "usr/share/doc/weir/changelog.gz",
        "usr/share/doc/weir/copyright",
        "usr/share/doc/weir/examples/weir.socket",
        "usr/share/doc/weir/install.md",
        "usr/share/fish/vendor_completions.d/weir.fish",
        "usr/share/man/man1/weir-broker.1.gz",
        "usr/share/man/man1/weir.1.gz",
        "usr/share/zsh/vendor-completions/_weir",
    ] {
        assert!(found.contains(&tree.join(name)), "{name} of {found:#?}");
    }
    let outside = |path: &&PathBuf| {
        let name = path.strip_prefix(&tree).unwrap();
        !name.starts_with("usr") && !name.starts_with("etc/weir")
    };
    assert_eq!(found.iter().find(outside), None);
    let check = Command::new(WEIR)
        .args(["broker", "--check"])
        .arg(tree.join("etc/weir/weir.toml"))
        .output()
        .unwrap();
    let checked = said(&check);
    assert!(checked.contains("listen = [\"127.0.0.1:1883\"]"), "{checked}");
    assert!(checked.contains("durability = \"fsync\""), "{checked}");
}

/// The greatest exposure that `systemd-analyze security` may find, of 10.
const EXPOSURE_MAX: f64 = 2.0;

#[test]
fn the_units_are_as_systemd_has_them_and_shut_in() {
    let Some(analyze) = tool(&["systemd-analyze"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let tree = tree(folder.path());
    let unit = tree.join("usr/lib/systemd/system/weir.service");
    // Verified where the program and the user are as on this host.
    let text = std::fs::read_to_string(&unit).unwrap();
    let text = text.replace("/usr/bin/weir", WEIR);
    std::fs::write(folder.path().join("weir.service"), text).unwrap();
    std::fs::copy(
        tree.join("usr/share/doc/weir/examples/weir.socket"),
        folder.path().join("weir.socket"),
    )
    .unwrap();
    let units = ["weir.service", "weir.socket"];
    let verified = Command::new(&analyze)
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .args(units)
        .current_dir(folder.path())
        .output()
        .unwrap();
    let complaints = String::from_utf8(verified.stderr).unwrap();
    assert!(!complaints.contains("weir."), "{complaints}");
    let security =
        Command::new(&analyze).args(["security", "--offline=true"]).arg(&unit).output().unwrap();
    let security = said(&security);
    let overall = security.rsplit_once("weir.service: ").unwrap().1;
    let exposure: f64 = overall.split(' ').next().unwrap().parse().unwrap();
    assert!(exposure <= EXPOSURE_MAX, "{security}");
}

#[test]
fn the_configurations_of_the_image_and_the_compose_file_name_what_they_lack() {
    for (file, lacks) in
        [("image/weir.toml", "/data/users"), ("compose/weir.toml", "/run/tls/broker.pem")]
    {
        let path = root().join("packaging").join(file);
        let check = Command::new(WEIR).args(["broker", "--check"]).arg(path).output().unwrap();
        let error = String::from_utf8(check.stderr).unwrap();
        assert_eq!(check.status.code(), Some(2), "{error}");
        assert!(error.contains(lacks), "{error}");
    }
}

#[test]
fn chart_compose_file_and_page_have_the_version_of_the_program() {
    let version = env!("CARGO_PKG_VERSION");
    for (file, line) in [
        ("packaging/helm/weir/Chart.yaml", format!("\nversion: {version}\n")),
        ("packaging/helm/weir/Chart.yaml", format!("\nappVersion: \"{version}\"\n")),
        ("packaging/compose/compose.yaml", format!("image: weir:{version}\n")),
        ("docs/install.md", format!("./weir_{version}_amd64.deb\n")),
    ] {
        let text = std::fs::read_to_string(root().join(file)).unwrap();
        assert!(text.contains(&line), "{file} has no {line:?}");
    }
}
