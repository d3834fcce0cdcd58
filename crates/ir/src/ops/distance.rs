//! Distances and similarities of vectors.

use super::OpDef;

pub(super) static OPS: &[OpDef] = &[];
