//! Pooling and resampling.

use super::OpDef;

pub(super) static OPS: &[OpDef] = &[];
