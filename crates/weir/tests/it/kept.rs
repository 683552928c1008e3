//! What is kept of runs, and where: pages of several, paths of this host, and a disk that is full.

use std::path::{Path, PathBuf};
use std::process::Command;

fn weir(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments).env_remove("WEIR_LOG");
    command
}

const SMALL: [&str; 9] =
    ["bench", "run", "fanout-1-1K-1-1K", "--scale", "0.01", "--duration", "1s", "--warm-up", "0s"];

/// The folder of a small run of a broker, in a folder that is gone with the value.
fn run_small(broker: &str) -> (PathBuf, tempfile::TempDir) {
    let out = tempfile::tempdir().unwrap();
    let output = weir(&SMALL).args(["--broker", broker, "--out"]).arg(out.path()).output().unwrap();
    assert!(output.status.code() < Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    let folder = std::fs::read_dir(out.path()).unwrap().next().unwrap().unwrap().path();
    (folder, out)
}

/// The page of several folders is none of a single run's.
#[test]
fn a_report_on_several_folders_leaves_their_own_pages_alone() {
    let (one, _out) = run_small("weir");
    let (other, _out_2) = run_small("weir");
    let page = |folder: &Path| std::fs::read(folder.join("report.html")).unwrap();
    let before = (page(&one), page(&other));
    let here = tempfile::tempdir().unwrap();
    let report = |more: &[&str]| {
        let mut report = weir(&["bench", "report"]);
        report.current_dir(here.path()).arg(&one).arg(&other).args(more).output().unwrap()
    };
    let text = String::from_utf8(report(&[]).stdout).unwrap();
    let name = text.lines().find_map(|line| line.strip_prefix("report: ")).unwrap();
    let [first, second] = [&one, &other].map(|of| of.file_name().unwrap().to_str().unwrap());
    assert_eq!(name, format!("report-{first}-{second}.html"));
    assert!(here.path().join(name).is_file());
    assert!(report(&["--out", "mine.html", "--small"]).status.success());
    let size = |name: &str| std::fs::metadata(here.path().join(name)).unwrap().len();
    assert!(size("mine.html") < size(name), "without the results themselves");
    assert_eq!((page(&one), page(&other)), before);
}

/// Results and pages are passed on: they say which program it was, and not where it lies.
#[test]
fn no_file_of_a_run_says_where_things_lie_on_this_host() {
    let program = env!("CARGO_BIN_EXE_weir");
    let (folder, out) = run_small(&format!("mine={program} broker --listen {{address}}"));
    let program = Path::new(program).parent().unwrap().to_str().unwrap();
    for name in ["result.json", "report.html", "summary.md", "junit.xml"] {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        for place in [program, out.path().to_str().unwrap()] {
            assert!(!text.contains(place), "{place} is in {name}");
        }
    }
    let text = std::fs::read_to_string(folder.join("result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&text).unwrap();
    let facts = &result["disclosed"]["broker"];
    assert_eq!(facts["executable"], "weir");
    assert_eq!(facts["executable_sha256"].as_str().unwrap().len(), 64, "{facts}");
    let command = result["broker"]["command"].as_array().unwrap();
    assert!(command.contains(&"weir".into()), "{command:?}");
    assert_eq!(result["suite"]["command"][0], "weir");
}

/// As on a full disk: no file may grow beyond 4 KiB, and what a run measured is printed all the
/// same.
#[test]
fn what_cannot_be_written_is_printed_all_the_same() {
    let out = tempfile::tempdir().unwrap();
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_weir")])
        .args(SMALL)
        .arg("--out")
        .arg(out.path())
        .output()
        .unwrap();
    let (said, error) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    assert_eq!(output.status.code(), Some(2), "{error}");
    // Whether it passed is up to the host.
    assert!(said.contains("| Weir 0.1.0 | "), "{said}\n{error}");
    assert!(error.lines().last().unwrap().contains("cannot write "), "{error}");
}
