//! What memory a region takes where its calls run one by one.

use crate::fused::compose::{Part, Wires};
use crate::fused::open::wire;
use crate::plan::Kernel;
use ir::{OutputKind, Result};
use std::sync::Arc;

/// Bytes that calls, wired as `stream` says, make at most at once, beyond what goes into them, with what their programs take
/// while they run. Values that are not `live` are gone after their last reader.
///
/// # Errors
/// `Internal`, if the stream is not that of the calls.
pub(crate) fn one_by_one(kernels: &[&Arc<Kernel>], parts: &[Part<'_>], stream: &[u64], live: &[bool]) -> Result<u64> {
    let wires = Wires::of(parts, stream)?;
    let mut readers = last_readers(parts, &wires);
    let (mut bytes, mut now, mut most): (Vec<u64>, u64, u64) = (vec![], 0, 0);
    for (i, (part, words)) in parts.iter().zip(&wires.calls).enumerate() {
        for output in &part.graph.outputs {
            // What takes over its operand's memory makes none.
            let taken_over = match output.kind {
                OutputKind::Mutation(input) => Some(inner(words[input]).map_or(0, |v| std::mem::take(&mut bytes[v]))),
                OutputKind::User => None,
            };
            let made = part.graph.tensor_type(output.value).map_or(0, |t| t.size_in_bytes() as u64);
            now += if taken_over.is_none() { made } else { 0 };
            bytes.push(taken_over.unwrap_or(made));
        }
        most = most.max(now + kernels.get(i).map_or(0, |kernel| kernel.temporaries()));
        for v in readers[i].drain(..).filter(|&v| !live.get(v).copied().unwrap_or(true)) {
            now -= std::mem::take(&mut bytes[v]);
        }
    }
    Ok(most)
}

/// By call, the values of which it is the last reader, or the maker if nobody reads them.
fn last_readers(parts: &[Part<'_>], wires: &Wires<'_>) -> Vec<Vec<usize>> {
    let mut last = vec![];
    for (i, (part, words)) in parts.iter().zip(&wires.calls).enumerate() {
        words.iter().filter_map(|&word| inner(word)).for_each(|v| last[v] = i);
        last.extend(part.graph.outputs.iter().map(|_| i));
    }
    let mut readers = vec![vec![]; parts.len()];
    last.into_iter().enumerate().for_each(|(v, call)| readers[call].push(v));
    readers
}

/// The value of the region that an input is.
fn inner(word: u64) -> Option<usize> {
    (word & ((1 << wire::BITS) - 1) == wire::INNER).then_some((word >> wire::BITS) as usize)
}
