//! A will reaches its receivers when its connection or session ended without DISCONNECT. One that
//! is not due is nobody's message: that is found with what comes too often.

use crate::finding::Checker;
use crate::model::Model;

/// Everything has been delivered.
pub fn calm(model: &mut Model) {
    super::loss::lost(model, true, Checker::Wills);
}
