//! Copies, conversions and assertions.

use super::OpDef;

pub(super) static OPS: &[OpDef] = &[];
