//! Patches, shuffles and sampling grids of images.

use super::OpDef;

pub(super) static OPS: &[OpDef] = &[];
