//! Indexing, gathering and scattering.

use super::OpDef;

pub(super) static OPS: &[OpDef] = &[];
