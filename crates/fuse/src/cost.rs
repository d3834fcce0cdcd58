//! What an op takes on its own, in picoseconds: a rough clock by which right sides are chosen.
//!
//! Elementwise ops are fused by XLA into what reads them, so they cost arithmetic but no memory; what moves elements or
//! sums them reads and writes memory. Integers, so that every host decides alike.

use crate::change::Platform;
use crate::measure::{self, Effort, SUBLANES, butterflies, bytes, extent, numel};
use ir::op::{Convolution, DotGeneral};
use ir::{DType, Op, Type};

/// Rates of a platform.
struct Rates {
    /// Picoseconds for 1,000 cheap elementwise results.
    cheap: u64,
    /// The same for `exp`, `tanh` and their kind.
    dear: u64,
    /// Picoseconds for 1,000 bytes of memory.
    bytes: u64,
    /// Picoseconds for 1,000 multiply-adds of a matrix product in `f32`.
    products: u64,
    /// The same in 16 bits.
    products16: u64,
    /// Picoseconds for 1,000 multiply-adds of a convolution in groups.
    grouped: u64,
    /// Picoseconds for 1,000 elements of the windows of a reduction.
    windows: u64,
    /// Extents to which a matrix unit fills up rows, and what is contracted and columns.
    unit: [u64; 2],
    /// Whether convolutions are computed with features last, and others transposed into that order and back.
    features_last: bool,
    /// Picoseconds that an op which is not fused takes to start.
    start: u64,
}

// Two cores with AVX2: 8 GB/s a core each way, 30 GFLOP/s of products, 1 elementwise result a cycle and core. Groups as
// measured: 7x7 on 4x96x56x56 in 150 ms.
const CPU: Rates = Rates {
    cheap: 200_000,
    dear: 2_000_000,
    bytes: 80_000,
    products: 30_000,
    products16: 60_000,
    grouped: 2_500_000,
    windows: 2_000_000,
    unit: [1, 1],
    features_last: true,
    start: 1_000_000,
};
// A v5e: 197 TFLOP/s in bf16, about six passes for f32, 819 GB/s, 4 VALU slots of 1024 lanes at 1.5 GHz and one for what is
// dear. libtpu estimates 1.2 us for the smallest fusion, but most of what starts here by itself it fuses after all.
// `benches/clock.py` holds all of it against libtpu's programs.
const TPU: Rates = Rates {
    cheap: 160,
    dear: 650,
    bytes: 1_221,
    products: 60,
    products16: 10,
    grouped: 160,
    windows: 1_600,
    unit: [8, 128],
    features_last: false,
    start: 300_000,
};

fn rates(platform: Platform) -> &'static Rates {
    match platform {
        Platform::Cpu | Platform::CpuWithBlas => &CPU,
        Platform::Tpu => &TPU,
    }
}

/// Picoseconds that `op` takes to give `ty` from operands of types `args`.
pub(crate) fn cost(platform: Platform, op: &Op, args: &[&Type], ty: &Type) -> u64 {
    let r = rates(platform);
    let results = numel(ty);
    let moved = || r.start + thousands(bytes(ty) + args.iter().map(|t| bytes(t)).sum::<u64>(), r.bytes);
    match op {
        Op::Input { .. } | Op::Constant(_) | Op::GetTupleElement { .. } => 0,
        Op::Reshape { .. } if platform == Platform::Tpu && moves_tiles(args[0], ty) => moved(),
        // Read in place by whatever is fused with them.
        Op::Iota { .. } | Op::BroadcastInDim { .. } | Op::Reshape { .. } => thousands(results, r.cheap) / 16,
        // XLA's CPU backend copies what is sliced out of a product; a TPU reads it in place.
        Op::Slice { .. } if platform != Platform::Tpu => thousands(2 * bytes(ty), r.bytes),
        Op::Slice { .. } | Op::Pad { .. } | Op::Reverse { .. } => thousands(results, r.cheap) / 4,
        Op::Unary(u) | Op::HostUnary(u) => thousands(lanes(results, ty), rate(r, Effort::of_unary(*u))),
        Op::Binary(b) | Op::HostBinary(b) => thousands(lanes(results, ty), rate(r, Effort::of_binary(*b, ty))),
        Op::Compare(_) | Op::Convert { .. } => thousands(lanes(results, args[0]).max(lanes(results, ty)), r.cheap),
        // Three operands to read.
        Op::Select => thousands(lanes(results, ty), r.cheap * 5 / 4),
        Op::BitcastConvert { .. } => thousands(lanes(results, ty), r.cheap),
        Op::Transpose { .. } | Op::Concatenate { .. } | Op::DynamicSlice { .. } | Op::DynamicUpdateSlice => moved(),
        Op::Gather(_) => r.start + thousands(2 * bytes(ty) + bytes(args[1]), r.bytes) + thousands(results, r.cheap),
        Op::DotGeneral(d) => moved() + products(r, args[0], multiply_adds(r, d, args, results)),
        Op::Convolution(c) => convolution(r, c, args, results) + moved(),
        Op::Finished(f) => cost(platform, &f.of, args, ty),
        Op::Reduce { .. } => r.start + thousands(args.iter().map(|t| numel(t)).sum(), r.cheap),
        Op::ReduceWindow { window, .. } => {
            let size: u64 = window.size.iter().map(|&s| s as u64).product();
            // The CPU reads windows element by element: a 3x3 maximum takes 4 ns an element of a window.
            r.start + thousands(results.saturating_mul(size), r.windows)
        }
        Op::SelectAndScatter { .. } | Op::Scatter(_) | Op::HostScatter(_) | Op::HostScan(_) => {
            moved() + thousands(numel(args[0]), r.cheap)
        }
        Op::HostRows => moved() + thousands(results + args.iter().map(|t| numel(t)).sum::<u64>(), r.cheap),
        Op::Sort { .. } => moved() + thousands(results.saturating_mul(20), r.cheap),
        Op::HostSort(_) => moved() + thousands(numel(args[0]).saturating_mul(10), r.cheap),
        Op::Fft { lengths, .. } => moved() + thousands(results.saturating_mul(butterflies(lengths)), r.cheap),
        Op::TopK { .. } => moved() + thousands(numel(args[0]), r.cheap),
        Op::RngBitGenerator { .. } => r.start + thousands(results, r.dear),
        // Nothing rewrites them, so what they cost never counts.
        Op::While
        | Op::If
        | Op::Lapack { .. }
        | Op::Grouped { .. }
        | Op::Routine(_)
        | Op::OptimizationBarrier
        | Op::HostBarrier => 0,
    }
}

/// Multiply-adds of a product with what a matrix unit fills up. It takes either operand for the one that stays.
fn multiply_adds(r: &Rates, d: &DotGeneral, args: &[&Type], results: u64) -> u64 {
    let (batch, inner) = (extent(args[0], &d.lhs_batch).max(1), extent(args[0], &d.lhs_contract));
    let rows = (numel(args[0]) / (batch * inner).max(1)).max(1);
    let columns = results / (batch * rows);
    let up = |extent: u64, to: u64| extent.div_ceil(to).saturating_mul(to);
    let [few, many] = r.unit;
    let sides = (up(rows, few).saturating_mul(up(columns, many))).min(up(rows, many).saturating_mul(up(columns, few)));
    batch.saturating_mul(up(inner, many)).saturating_mul(sides)
}

/// Whether a reshape puts elements elsewhere in a TPU's memory, where the last dimension lies along lanes and the one before it
/// in eights of sublanes: 197 rows of two sequences are padded to 200 each, and as 394 to 400 at their end.
fn moves_tiles(from: &Type, to: &Type) -> bool {
    let last_two = |ty: &Type| {
        let shape = ty.tensor().map_or(&[][..], |t| &t.shape);
        let mut extents = shape.iter().rev().filter(|&&extent| extent != 1);
        [extents.next().copied().unwrap_or(1), extents.next().copied().unwrap_or(1)]
    };
    let ([from_lanes, from_rows], [to_lanes, to_rows]) = (last_two(from), last_two(to));
    from_lanes != to_lanes || (from_rows != to_rows && (from_rows % SUBLANES != 0 || to_rows % SUBLANES != 0))
}

/// The products of a convolution, and the transposes around it.
fn convolution(r: &Rates, c: &Convolution, args: &[&Type], results: u64) -> u64 {
    let count = measure::convolution(c, args, results);
    if c.feature_group_count > 1 || c.batch_group_count > 1 {
        return thousands(count, r.grouped);
    }
    let last = c.input_feature == c.input_spatial.len() + 1;
    let turned = if r.features_last && !last { thousands(4 * bytes(args[0]), r.bytes) } else { 0 };
    products(r, args[0], count) + turned
}

/// Results counted by the vector lanes they take: twice for 8 bytes, half for a predicate.
fn lanes(results: u64, ty: &Type) -> u64 {
    match ty.tensor().map(|t| t.dtype) {
        Some(DType::Bool) => results.div_ceil(2),
        Some(d) if d.size() >= 8 => results.saturating_mul(2),
        _ => results,
    }
}

fn products(r: &Rates, operand: &Type, count: u64) -> u64 {
    let narrow = operand.tensor().is_some_and(|t| matches!(t.dtype, DType::BF16 | DType::F16));
    thousands(count, if narrow { r.products16 } else { r.products })
}

fn thousands(count: u64, rate: u64) -> u64 {
    (u128::from(count) * u128::from(rate) / 1000).min(u128::from(u64::MAX >> 16)) as u64
}

/// Picoseconds for 1,000 results.
fn rate(r: &Rates, effort: Effort) -> u64 {
    match effort {
        Effort::Bit => r.cheap * 3 / 4,
        Effort::Cheap => r.cheap,
        Effort::Quotient | Effort::Root => 4 * r.cheap,
        Effort::Dear => r.dear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiply-adds of the product that `text` is.
    fn counted(platform: Platform, text: &str) -> u64 {
        let graph = ir::text::parse(text).expect("a program");
        let node = graph.node(graph.outputs[0].value);
        let Op::DotGeneral(d) = &node.op else { panic!("no product: {text}") };
        let args: Vec<&Type> = node.operands.iter().map(|&it| &graph.node(it).ty).collect();
        multiply_adds(rates(platform), d, &args, numel(&node.ty))
    }

    fn product(lhs: &str, rhs: &str, result: &str) -> String {
        let dims = "lhs_batch:[0],rhs_batch:[0],lhs_contract:[2],rhs_contract:[1],precision:highest,out:f32";
        format!(
            "graph @one {{\n  %0: {lhs} = input 0 \"a\" user\n  %1: {rhs} = input 1 \"b\" user\n  %2: {result} = \
             dot_general({dims}) %0, %1\n  return %2 \"out\"\n}}\n"
        )
    }

    #[test]
    fn a_matrix_unit_is_filled_up_and_a_processor_is_not() {
        let small = product("f32[256,32,64]", "f32[256,64,32]", "f32[256,32,32]");
        assert_eq!(counted(Platform::Cpu, &small), 256 * 32 * 64 * 32);
        assert_eq!(counted(Platform::Tpu, &small), 256 * 32 * 128 * 128);
        let wide = product("f32[1,3,128]", "f32[1,128,4000]", "f32[1,3,4000]");
        assert_eq!(counted(Platform::Tpu, &wide), 8 * 128 * 4096, "3 rows go through in eights");
        let long = product("f32[1,4000,128]", "f32[1,128,3]", "f32[1,4000,3]");
        assert_eq!(counted(Platform::Tpu, &long), 8 * 128 * 4096, "the other operand stays then");
        for empty in [
            product("f32[2,0,8]", "f32[2,8,4]", "f32[2,0,4]"),
            product("f32[2,4,0]", "f32[2,0,4]", "f32[2,4,4]"),
            product("f32[0,4,8]", "f32[0,8,4]", "f32[0,4,4]"),
        ] {
            assert_eq!(counted(Platform::Tpu, &empty), 0, "{empty}");
        }
    }
}
