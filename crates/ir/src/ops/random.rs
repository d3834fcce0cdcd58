//! Draws from the seeded generator.

use super::OpDef;

pub(super) static OPS: &[OpDef] = &[];
