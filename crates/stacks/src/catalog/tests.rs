use super::*;
use tempfile::TempDir;

const FILE: &str = r#"
name = "mine"
language = "Shell"
about = "a library"
run = ["{cache}/bin/{runtime}", "{stack}/main"]
workflows = ["subscribe"]
qos = [0]
variants = [
    { name = "mine-a", args = ["--json", "a"], runtime = "one", env = { PLACE = "{stack}" } },
    { name = "mine-b", run = ["{weir}", "b"], workflows = ["connect"], qos = [1] },
    { name = "mine-c", unavailable = "nobody has it" },
]
"#;

fn write(root: &Path, name: &str, text: &str) {
    std::fs::create_dir_all(root.join(name)).unwrap();
    std::fs::write(root.join(name).join("stack.toml"), text).unwrap();
}

#[test]
fn a_stack_is_a_folder_and_its_variants_fill_in_what_is_in_braces() {
    let root = TempDir::new().unwrap();
    write(root.path(), "folder", FILE);
    let folders = folders(Some(root.path())).unwrap();
    let stacks = choose(&folders, &[], Path::new("/bin/weir")).unwrap();
    let names: Vec<&str> = stacks.iter().map(|of| &*of.name).collect();
    assert_eq!(names, ["mine-a", "mine-b", "mine-c"]);
    let place = root.path().join("folder").display().to_string();
    assert!(stacks[0].command[0].ends_with("weir/stacks/folder/bin/one"), "{stacks:?}");
    assert_eq!(stacks[0].command[1], format!("{place}/main"));
    assert_eq!(stacks[0].environment["PLACE"], place);
    assert_eq!((&*stacks[0].workflows, &*stacks[0].qos), (&[Workflow::Subscribe][..], &[0][..]));
    assert_eq!(stacks[1].command, ["/bin/weir", "b"]);
    assert_eq!((&*stacks[1].workflows, &*stacks[1].qos), (&[Workflow::Connect][..], &[1][..]));
    // Nothing to set up: it is here; what cannot be had is not.
    assert_eq!(stacks[0].missing, None);
    assert_eq!(stacks[2].missing.as_deref(), Some("nobody has it"));
    let list = render_list(&stacks);
    assert!(list.contains("mine-c") && list.contains("nobody has it"), "{list}");
}

#[test]
fn a_folder_or_a_variant_is_chosen_once_and_an_unknown_name_says_which_there_are() {
    let root = TempDir::new().unwrap();
    write(root.path(), "folder", FILE);
    let folders = folders(Some(root.path())).unwrap();
    let weir = Path::new("weir");
    let names = |given: &[&str]| -> Vec<String> {
        let given: Vec<String> = given.iter().map(|name| (*name).to_owned()).collect();
        choose(&folders, &given, weir).unwrap().into_iter().map(|of| of.name).collect()
    };
    assert_eq!(names(&["mine-b", "folder"]), ["mine-b", "mine-a", "mine-c"]);
    assert_eq!(names(&["folder", "mine-b"]), ["mine-a", "mine-b", "mine-c"]);
    let error = choose(&folders, &["other".into()], weir).unwrap_err().to_string();
    assert!(error.contains("other") && error.contains("mine-a, mine-b"), "{error}");
    write(root.path(), "folder", &FILE.replace("mine-b", "folder"));
    let folders = self::folders(Some(root.path())).unwrap();
    let chosen = |name: &str| choose(&folders, &[name.into()], weir).unwrap().len();
    assert_eq!((chosen("folder"), chosen("folder/")), (1, 3));
}

#[test]
fn a_file_that_is_wrong_is_named() {
    let wrong = [
        (FILE.replace("language", "languages"), "languages"),
        (FILE.replace("run = [\"{cache}/bin/{runtime}\", \"{stack}/main\"]", ""), "no command"),
        (FILE.replace("qos = [0]", "qos = [2]"), "`qos` is 0 or 1"),
        (FILE.replace("mine-a", "mine a"), "a name is of letters"),
        (FILE.replace("mine-a", "mine-b"), "two stacks are named mine-b"),
    ];
    for (text, part) in wrong {
        let root = TempDir::new().unwrap();
        write(root.path(), "folder", &text);
        let error = folders(Some(root.path())).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let root = TempDir::new().unwrap();
    assert!(matches!(folders(Some(root.path())), Err(CatalogError::Empty(_))));
}

#[test]
fn a_fingerprint_changes_with_every_file_and_with_what_is_shared() {
    let root = TempDir::new().unwrap();
    write(root.path(), "folder", FILE);
    let print = || folders(Some(root.path())).unwrap()[0].fingerprint.clone();
    let first = print();
    assert_eq!(print(), first);
    std::fs::write(root.path().join("folder/main"), "x").unwrap();
    let second = print();
    assert_ne!(first, second);
    std::fs::create_dir_all(root.path().join("lib")).unwrap();
    std::fs::write(root.path().join("lib/shared"), "x").unwrap();
    assert_ne!(print(), second);
    let third = print();
    std::fs::create_dir_all(root.path().join("folder/__pycache__")).unwrap();
    std::fs::write(root.path().join("folder/__pycache__/main"), "x").unwrap();
    assert_eq!(print(), third);
}
