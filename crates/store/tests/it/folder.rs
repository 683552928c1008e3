//! A log in a folder of the file system.

use crate::drive::{open, small};
use weir_store::Disk;
use weir_store::disk::{Folder, NoFolder};
use weir_store::{FileName, SegmentNumber};

#[test]
fn a_log_in_a_folder_comes_back() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("shard");
    let (mut drive, ..) = open(Folder::open(&path).unwrap(), small()).expect("it is empty");
    let mut kept = Vec::new();
    for count in 0..2_000 {
        let lsn = drive.append(format!("{count:0200}").as_bytes(), 1);
        if count % 100 == 0 {
            kept.push(lsn);
        } else {
            drive.log.release(lsn);
        }
        if count % 50 == 0 {
            drive.settle(|lsn| kept.contains(&lsn));
        }
    }
    drive.settle(|lsn| kept.contains(&lsn));
    assert!(drive.log.rewritten_bytes() > 0);
    drop(drive);
    let (_, told, _) = open(Folder::open(&path).unwrap(), small()).expect("nothing is wrong");
    let told: Vec<_> = told.into_iter().map(|(lsn, ..)| lsn).collect();
    assert!(kept.iter().all(|lsn| told.contains(lsn)));
    let mut names: Vec<_> =
        std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert!(
        names
            .iter()
            .all(|name| { name == "lock" || name.to_str().and_then(FileName::parse).is_some() })
    );
}

#[test]
fn a_folder_has_one_user() {
    let parent = tempfile::tempdir().unwrap();
    let first = Folder::open(parent.path()).unwrap();
    let error = Folder::open(parent.path()).expect_err("it is in use");
    assert!(matches!(error, NoFolder::InUse(_)));
    assert!(error.to_string().contains("is in use by another process"));
    drop(first);
    assert!(Folder::open(parent.path()).is_ok());
}

#[test]
fn a_folder_that_cannot_be_is_said() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let error = Folder::open(&file.join("shard")).expect_err("a file is in the way");
    assert!(matches!(error, NoFolder::Other { .. }));
}

#[test]
fn other_files_are_left_alone() {
    let parent = tempfile::tempdir().unwrap();
    for name in ["notes.txt", "1.log", "0000000001.logs", "0000000002.new.log"] {
        std::fs::write(parent.path().join(name), b"mine").unwrap();
    }
    let mut folder = Folder::open(parent.path()).unwrap();
    assert!(folder.list().unwrap().is_empty());
    let name = FileName::Segment(SegmentNumber(1));
    folder.create(name, 8192).unwrap();
    assert_eq!(folder.list().unwrap(), [(name, 8192)]);
    folder.write_at(name, 4000, b"over a page").unwrap();
    folder.rename(name, FileName::Spare(7)).unwrap();
    let mut bytes = [1; 12];
    assert_eq!(folder.read_at(FileName::Spare(7), 3999, &mut bytes).unwrap(), 12);
    assert_eq!(&bytes, b"\0over a page");
    assert_eq!(folder.read_at(FileName::Spare(7), 8190, &mut bytes).unwrap(), 2);
    folder.remove(FileName::Spare(7)).unwrap();
    assert!(folder.list().unwrap().is_empty());
}

#[test]
fn a_folder_that_is_read_is_shared_with_readers_only() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("log");
    assert!(Folder::open_to_read(&path).is_err(), "it is not made");
    drop(Folder::open(&path).expect("it can be made"));
    let reader = Folder::open_to_read(&path).expect("nobody has it");
    let other = Folder::open_to_read(&path).expect("others may read it");
    assert!(matches!(Folder::open(&path), Err(NoFolder::InUse(_))));
    drop((reader, other));
    let _writer = Folder::open(&path).expect("nobody has it");
    assert!(matches!(Folder::open_to_read(&path), Err(NoFolder::InUse(_))));
}
