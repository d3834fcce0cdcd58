//! Pooling to a given extent.

use super::OpDef;

pub(super) static OPS: &[OpDef] = &[];
