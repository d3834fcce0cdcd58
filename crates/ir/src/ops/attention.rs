//! Scaled dot product attention.

use super::OpDef;

pub(super) static OPS: &[OpDef] = &[];
