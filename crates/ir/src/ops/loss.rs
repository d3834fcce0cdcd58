//! Softmax and losses with their gradients.

use super::OpDef;

pub(super) static OPS: &[OpDef] = &[];
