//! What debug mode adds: what went into a call that failed, and results that are not numbers.

use crate::cells::Held;
use crate::error::{Error, Result};
use runtime::{Buffer, ElementType};
use std::fmt::Write;
use std::sync::Arc;

/// Inputs that are described.
const MOST_INPUTS: usize = 8;

/// `error` with the shapes and a summary of the values that went into the call.
pub(crate) fn with_inputs(mut error: Error, inputs: &[Arc<Held>]) -> Error {
    for (i, input) in inputs.iter().take(MOST_INPUTS).enumerate() {
        let _ = write!(
            error.message,
            "\n  input {i}: {}",
            input.buffer().map_or_else(|_| "not there".to_owned(), describe)
        );
    }
    error
}

/// Fails if there is NaN in an output and none in any input.
pub(crate) fn refuse_nan(inputs: &[Arc<Held>], outputs: &[Arc<Held>]) -> Result<()> {
    let count = |held: &Arc<Held>| held.buffer().ok().and_then(floats).map_or(0, |v| count(&v, |x| x.is_nan()));
    let Some(output) = outputs.iter().find(|o| count(o) > 0) else { return Ok(()) };
    let new = if inputs.iter().any(|i| count(i) > 0) { "" } else { ", and no input does" };
    let (ty, nan) = (output.buffer()?.tensor_type(), count(output));
    Err(with_inputs(Error::new(format!("a result of type {ty} holds NaN in {nan} places{new}")), inputs))
}

fn describe(buffer: &Buffer) -> String {
    let ty = buffer.tensor_type();
    if buffer.is_gone() {
        return format!("{ty}, taken over by the call");
    }
    let Some(values) = floats(buffer).filter(|v| !v.is_empty()) else { return ty.to_string() };
    let finite = values.iter().filter(|v| v.is_finite());
    let (least, most) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), &v| (a.min(v), b.max(v)));
    let (nan, infinite) = (count(&values, |v| v.is_nan()), count(&values, |v| v.is_infinite()));
    format!("{ty}, from {least} to {most}, {nan} NaN, {infinite} infinite")
}

fn count(values: &[f64], is: impl Fn(f64) -> bool) -> usize {
    values.iter().filter(|&&v| is(v)).count()
}

/// The values of a float tensor; `None` for another, or one that cannot be read.
fn floats(buffer: &Buffer) -> Option<Vec<f64>> {
    let ty = buffer.tensor_type();
    let mut bytes = vec![0; ty.host_size_in_bytes().ok()?];
    let (size, widen): (usize, fn(&[u8]) -> f64) = match ty.element_type {
        ElementType::F32 => (4, |b| f64::from(f32::from_le_bytes(b.try_into().unwrap_or_default()))),
        ElementType::F64 => (8, |b| f64::from_le_bytes(b.try_into().unwrap_or_default())),
        // The upper half of an f32.
        ElementType::Bf16 => (2, |b| f64::from(f32::from_le_bytes([0, 0, b[0], b[1]]))),
        _ => return None,
    };
    buffer.copy_to_host(&mut bytes).ok()?;
    Some(bytes.chunks_exact(size).map(widen).collect())
}
