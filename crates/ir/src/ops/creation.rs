//! Tensors made from nothing: fills, ranges, triangles.

use super::OpDef;

pub(super) static OPS: &[OpDef] = &[];
