//! Reductions and scans.

use super::OpDef;

pub(super) static OPS: &[OpDef] = &[];
