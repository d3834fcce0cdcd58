//! Optimizer ops over lists of tensors.

use super::OpDef;

pub(super) static OPS: &[OpDef] = &[];
