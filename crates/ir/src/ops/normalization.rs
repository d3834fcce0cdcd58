//! Batch, layer, group and RMS normalisation.

use super::OpDef;

pub(super) static OPS: &[OpDef] = &[];
