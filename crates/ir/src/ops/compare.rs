//! Comparisons, logic, bits and choices.

use super::OpDef;

pub(super) static OPS: &[OpDef] = &[];
