//! Convolutions and their gradients.

use super::OpDef;

pub(super) static OPS: &[OpDef] = &[];
