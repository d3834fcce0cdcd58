//! Tensors as JSON, for what is compared with PyTorch.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use torchtpu_ir::Literal;

pub(crate) fn literal(l: &Literal) -> Value {
    let shape: &[usize] = &l.ty.shape;
    json!({ "dtype": l.ty.dtype.name(), "shape": shape, "data": BASE64_STANDARD.encode(l.dense_bytes()) })
}
