//! The properties of letters between nodes: whatever the bytes, no panic; and what is a letter has
//! no other bytes.

use weir_core::{Mail, Wall};

/// Runs the properties on an input: a letter.
///
/// # Panics
/// If a property does not hold.
pub fn check(input: &[u8]) {
    let wall = Wall(0);
    let Ok(mail) = Mail::decode(input, wall) else { return };
    let mut again = Vec::new();
    mail.encode(wall, &mut again);
    // A refusal in words that are not known comes out in others.
    if !matches!(mail, Mail::Refused { .. }) {
        assert_eq!(again, input, "{mail:?}");
    }
    assert_eq!(Mail::decode(&again, wall), Ok(mail));
}
