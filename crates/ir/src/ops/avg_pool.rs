//! Average pooling.

use super::OpDef;

pub(super) static OPS: &[OpDef] = &[];
