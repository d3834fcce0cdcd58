//! Sorting and selection by order.

use super::OpDef;

pub(super) static OPS: &[OpDef] = &[];
