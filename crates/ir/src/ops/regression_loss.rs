//! Losses that compare numbers with numbers.

use super::OpDef;

pub(super) static OPS: &[OpDef] = &[];
