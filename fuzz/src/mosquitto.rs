//! The properties of Mosquitto's persistence file: whatever the bytes, no panic; and what is read
//! of them is a log that fits.

use weir_core::{Lsn, Micros, Rebuild, Record, Wall};
use weir_mosquitto::Database;

/// Runs the properties on a file.
///
/// # Panics
/// If a property does not hold.
pub fn check(file: &[u8]) {
    let Ok(database) = Database::read(file) else { return };
    let mut rebuild = Rebuild::default();
    let mut last = Lsn(1);
    rebuild.apply(last, Record::Base).expect("it is the first");
    let told = database.tell(Micros(1_000_000), 1 << 20, |record| {
        last.0 += 1;
        let mut body = Vec::new();
        record.encode(Wall(0), &mut body);
        let decoded = Record::decode(record.kind(), &body, Wall(0)).expect("it was encoded");
        assert_eq!(&decoded, record);
        rebuild.apply(last, decoded).map(|()| last)
    });
    let told = told.expect("every record fits");
    last.0 += 1;
    rebuild.apply(last, Record::BaseEnd).expect("all is there");
    let parcels = rebuild.finish(Micros(1_000_000), Err).expect("nothing of it is on pages");
    let retained = parcels.iter().filter(|parcel| parcel.client_id().is_none());
    assert_eq!(retained.count() as u64, told.retained);
}
