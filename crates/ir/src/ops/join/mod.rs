pub(super) static OPS: &[super::OpDef] = &[];
