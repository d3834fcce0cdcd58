//! What regions are priced by: a machine's rates, and the one function from work and bytes to time.

use super::tiles::padded_bytes;
use crate::measure::{Effort, butterflies, convolution, dot, numel};
use ir::{Op, Precision, TensorType, Type};

/// What a machine has. Rates are peaks per second of one device, sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Bytes to and from main memory (HBM on a TPU).
    pub bandwidth: u64,
    /// Multiply-adds of matrix products: of 16-bit floats on a TPU, of `f32` on a CPU.
    pub products: u64,
    /// Whether it is a TPU: values lie in padded tiles, wider products are made of 16-bit ones (three passes for precision
    /// `high`, six for `highest`), and what several passes need of an input is read twice.
    pub is_tpu: bool,
    /// Additions, comparisons and their like, on 32-bit elements.
    pub arithmetic: u64,
    /// Exponentials and their like.
    pub transcendentals: u64,
    /// Memory beside the units (vector memory on a TPU).
    pub on_chip: u64,
    /// Picoseconds that starting a region takes.
    pub start: u64,
}

impl Machine {
    /// Two cores with AVX2 and a megabyte of cache, by the figures of the optimizer's clock.
    pub const CPU: Machine = Machine {
        bandwidth: 12_500_000_000,
        products: 33_000_000_000,
        is_tpu: false,
        arithmetic: 5_000_000_000,
        transcendentals: 500_000_000,
        on_chip: 1 << 20,
        start: 1_000_000,
    };

    /// Picoseconds of a region that moves `bytes` and does `work`: the slowest of memory, matrix and vector unit, which run
    /// side by side, and the start. This is the only price of a region there is.
    pub fn time(&self, bytes: u64, work: Work) -> u64 {
        self.memory(bytes).max(work.matrix).max(work.vector).saturating_add(self.start)
    }

    /// What [`Machine::time`] is bound by: `memory`, `matrix unit`, `vector unit`, or `start` if all three take less.
    pub fn bound(&self, bytes: u64, work: Work) -> &'static str {
        let all = [("start", self.start), ("memory", self.memory(bytes)), ("matrix unit", work.matrix)];
        let all = all.into_iter().chain([("vector unit", work.vector)]);
        all.reduce(|a, b| if b.1 > a.1 { b } else { a }).map_or("start", |most| most.0)
    }

    /// Bytes that a value of type `ty` takes in memory: on a TPU with the padding of its tiles.
    pub fn bytes(&self, ty: &Type) -> u64 {
        let of = |t: &TensorType| if self.is_tpu { padded_bytes(t) } else { t.size_in_bytes() as u64 };
        ty.tensors().iter().map(of).sum()
    }

    fn memory(&self, bytes: u64) -> u64 {
        picoseconds(bytes, self.bandwidth)
    }

    /// What `op` computes, of operands of types `args` and for a result of type `ty`.
    pub(super) fn work(&self, op: &Op, ty: &Type, args: &[&Type]) -> Work {
        let results = numel(ty);
        let vector = |count, rate| Work { matrix: 0, vector: picoseconds(count, rate) };
        match op {
            Op::Unary(_) | Op::Binary(_) if is_dear(op, ty) => vector(results, self.transcendentals),
            Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Convert { .. } => {
                vector(results, self.arithmetic)
            }
            Op::HostUnary(_) | Op::HostBinary(_) => vector(results, self.transcendentals),
            Op::HostScan(_) => vector(results, self.arithmetic),
            Op::HostRows => vector(results + args.iter().map(|t| numel(t)).sum::<u64>(), self.arithmetic),
            Op::Reduce { .. } => vector(args.iter().map(|t| numel(t)).sum(), self.arithmetic),
            Op::ReduceWindow { window, .. } | Op::SelectAndScatter { window } => {
                let size: u64 = window.size.iter().map(|&s| s as u64).product();
                vector(results.saturating_mul(size), self.arithmetic)
            }
            Op::DotGeneral(d) => self.products(dot(d, args, results), args, d.precision),
            Op::Convolution(c) => self.products(convolution(c, args, results), args, c.precision),
            Op::Finished(f) => self.work(&f.of, ty, args),
            Op::Sort { .. } => vector(results.saturating_mul(20), self.arithmetic),
            Op::HostSort(_) => vector(numel(args[0]).saturating_mul(10), self.arithmetic),
            Op::Fft { lengths, .. } => vector(results.saturating_mul(butterflies(lengths)), self.arithmetic),
            Op::TopK { .. } => vector(args.iter().map(|t| numel(t)).sum(), self.arithmetic),
            Op::RngBitGenerator { .. } => vector(results.saturating_mul(20), self.arithmetic),
            _ => Work::default(),
        }
    }

    fn products(&self, count: u64, args: &[&Type], precision: Precision) -> Work {
        let is_wide = args.first().and_then(|t| t.tensor()).is_some_and(|t| t.dtype.size() > 2);
        let passes = match precision {
            _ if !self.is_tpu || !is_wide => 1,
            Precision::Default => 1,
            Precision::High => 3,
            Precision::Highest => 6,
        };
        Work { matrix: picoseconds(count.saturating_mul(passes), self.products), vector: 0 }
    }
}

/// Picoseconds of a machine's units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// The matrix unit's.
    pub matrix: u64,
    /// The vector unit's.
    pub vector: u64,
}

impl Work {
    pub(super) fn add(&mut self, other: Work) {
        self.matrix = self.matrix.saturating_add(other.matrix);
        self.vector = self.vector.saturating_add(other.vector);
    }
}

/// Whether an elementwise op takes many cycles an element.
pub(super) fn is_dear(op: &Op, ty: &Type) -> bool {
    let effort = match op {
        Op::Unary(u) => Effort::of_unary(*u),
        Op::Binary(b) => Effort::of_binary(*b, ty),
        _ => return false,
    };
    matches!(effort, Effort::Root | Effort::Dear)
}

/// Picoseconds for `count` at `rate` a second.
fn picoseconds(count: u64, rate: u64) -> u64 {
    let all = u128::from(count) * 1_000_000_000_000 / u128::from(rate.max(1));
    u64::try_from(all).unwrap_or(u64::MAX >> 16).min(u64::MAX >> 16)
}
