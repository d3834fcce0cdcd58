//! Views: other layouts over the same storage, and numbers read off a layout.

use super::OpDef;

pub(super) static OPS: &[OpDef] = &[];
