//! Recurrent layers.

use super::OpDef;

pub(super) static OPS: &[OpDef] = &[];
