//! What has to be true: a file each. Some look at each packet as it is written, the others at the
//! books when everything has been delivered.

pub mod answers;
pub mod balance;
pub mod duplication;
pub mod expiry;
pub mod in_flight;
pub mod lifetime;
pub mod loss;
pub mod order;
pub mod retained;
pub mod session;
pub mod shared;
pub mod wills;

use crate::model::Model;

/// Looks at the books. Everything has been delivered, and every client is connected.
pub fn calm(model: &mut Model) {
    for check in [
        answers::calm,
        in_flight::calm,
        loss::calm,
        duplication::calm,
        order::calm,
        wills::calm,
        shared::calm,
        retained::calm,
    ] {
        check(model);
    }
}
