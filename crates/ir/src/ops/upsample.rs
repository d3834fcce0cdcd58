//! Resizing of images.

use super::OpDef;

pub(super) static OPS: &[OpDef] = &[];
