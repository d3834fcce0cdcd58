//! Concatenation, padding, flips, repeats and functional slice updates.

use super::OpDef;

pub(super) static OPS: &[OpDef] = &[];
