//! The page of client stacks in a browser, as a desktop, a phone and in the dark.

use crate::look::{look, look_mjs, seen};

#[test]
fn the_page_of_client_stacks_is_sound_on_every_screen() {
    let Some(program) = look_mjs() else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("clients.html");
    // Three stacks of a run, one of which did not keep up, and their knees.
    let clients = serde_json::from_str(include_str!("../data/clients.json")).unwrap();
    std::fs::write(&page, weir_stacks::html(&clients).unwrap()).unwrap();
    let seen = seen(&look(&program, &page, &[]));
    assert_eq!(seen["faults"], serde_json::json!([]), "{seen:#}");
    assert_eq!(seen["charts"].as_u64(), Some(1), "{seen}");
}
