//! Matrix products.

use super::OpDef;

pub(super) static OPS: &[OpDef] = &[];
