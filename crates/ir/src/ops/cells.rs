//! Single steps of recurrent networks.

use super::OpDef;

pub(super) static OPS: &[OpDef] = &[];
