//! Softmax and its kin.

use super::OpDef;

pub(super) static OPS: &[OpDef] = &[];
