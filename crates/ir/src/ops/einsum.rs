//! Einstein sums.

use super::OpDef;

pub(super) static OPS: &[OpDef] = &[];
