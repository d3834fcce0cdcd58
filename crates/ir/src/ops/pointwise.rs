//! Elementwise functions of one tensor.

use super::OpDef;

pub(super) static OPS: &[OpDef] = &[];
