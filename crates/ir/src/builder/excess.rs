//! Excess precision: 16-bit floats that stay in `f32` from one op to the next.
//!
//! PyTorch rounds the result of every op to its type. An expansion computes in `f32`, rounds, and the next one converts
//! back: leaving both conversions out errs less, and is what XLA and TorchInductor do too. A value is rounded all the same
//! where it is an output, where an op takes it in its own type (a contraction's operand, a comparison), where the program
//! itself asks for the type, with [`Builder::cast`], where it comes from a convolution, and where several ops read it
//! ([`Builder::stays_rounded`]): it is written to memory for them, and would be written in both types. Results then differ
//! from PyTorch's by roundings of single values and no more; programs without 16-bit floats are the same to the bit.

use super::Builder;
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Operands, ValueId};
use crate::op::{Binary, Op, Unary};
use rustc_hash::{FxHashMap, FxHashSet};

/// Ops between a rounding and its use beyond which no one looks.
const MAX_CHAIN: usize = 32;

#[derive(Default)]
pub(super) struct Known {
    /// Values behind which nobody looks.
    rounded: FxHashSet<ValueId>,
    /// The `f32` behind a value, or that there is none.
    unrounded: FxHashMap<ValueId, Option<ValueId>>,
}

impl Builder {
    /// Lets values keep more than the 16 bits of their types from one op to the next.
    #[must_use]
    pub fn allow_excess_precision(self, allow: bool) -> Builder {
        Builder { excess_precision: allow, ..self }
    }

    /// Whether values may keep more than the 16 bits of their types.
    pub fn excess_precision(&self) -> bool {
        self.excess_precision
    }

    /// [`Builder::convert`] where the program itself asks for the type: no excess precision gets past it.
    pub fn cast(&self, a: ValueId, dtype: DType) -> Result<ValueId> {
        let v = self.convert(a, dtype)?;
        if v != a {
            self.stays_rounded(v);
        }
        Ok(v)
    }

    /// No excess precision gets past `v`.
    pub fn stays_rounded(&self, v: ValueId) {
        let excess = &mut self.state.borrow_mut().excess;
        excess.rounded.insert(v);
        excess.unrounded.remove(&v);
    }

    /// The `f32` behind a 16-bit float: what was rounded, or the same choice or order of elements that were.
    pub(super) fn unrounded(&self, a: ValueId) -> Result<Option<ValueId>> {
        self.behind(a, MAX_CHAIN)
    }

    fn behind(&self, a: ValueId, chain: usize) -> Result<Option<ValueId>> {
        if !self.excess_precision || chain == 0 || !is_16_bit(self.dtype(a)) {
            return Ok(None);
        }
        if let Some(&known) = self.state.borrow().excess.unrounded.get(&a) {
            return Ok(known);
        }
        let (op, operands, rounded) = {
            let s = self.state.borrow();
            let node = s.graph.node(a);
            (node.op.clone(), node.operands.clone(), s.excess.rounded.contains(&a))
        };
        let found = match op {
            _ if rounded => None,
            Op::Convert { .. } => operands.first().copied().filter(|&v| self.dtype(v) == DType::F32),
            op if keeps_values(&op) => self.on_what_is_behind(op, operands, chain - 1)?,
            _ => None,
        };
        self.state.borrow_mut().excess.unrounded.insert(a, found);
        Ok(found)
    }

    /// `op` in `f32`, if there is one behind any of its operands.
    fn on_what_is_behind(&self, op: Op, mut operands: Operands, chain: usize) -> Result<Option<ValueId>> {
        let mut found = false;
        for v in &mut operands {
            if let Some(behind) = self.behind(*v, chain)? {
                (*v, found) = (behind, true);
            }
        }
        if !found {
            return Ok(None);
        }
        for v in operands.iter_mut().filter(|v| is_16_bit(self.dtype(**v))) {
            *v = self.convert(*v, DType::F32)?;
        }
        self.push(op, &operands, vec![]).map(Some)
    }
}

fn is_16_bit(dtype: DType) -> bool {
    matches!(dtype, DType::BF16 | DType::F16)
}

/// Whether every element of the result is one of an operand's, up to its sign, so that rounding commutes with `op`.
fn keeps_values(op: &Op) -> bool {
    match op {
        Op::BroadcastInDim { .. } | Op::Reshape { .. } | Op::Transpose { .. } | Op::Slice { .. } => true,
        Op::Reverse { .. } | Op::Concatenate { .. } | Op::Pad { .. } | Op::Select => true,
        Op::Unary(u) => matches!(u, Unary::Abs | Unary::Negate),
        Op::Binary(b) => matches!(b, Binary::Maximum | Binary::Minimum),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Graph, InputKind, OutputKind};
    use crate::literal::{Literal, Number};
    use crate::text::print;
    use crate::types::TensorType;
    use insta::assert_snapshot;
    use proptest::prelude::*;

    fn builder(excess: bool) -> (Builder, ValueId) {
        let b = Builder::new("g").allow_excess_precision(excess);
        let x = b.input("x", InputKind::User, TensorType::new(DType::F32, [4]));
        (b, x)
    }

    fn finished(b: Builder, v: ValueId) -> Graph {
        b.output("y", OutputKind::User, v);
        let graph = b.finish();
        crate::verify(&graph).unwrap();
        graph
    }

    /// Rounds `x`, turns it round, and goes on in `f32`.
    fn chain(b: &Builder, x: ValueId, round: impl Fn(&Builder, ValueId) -> Result<ValueId>) -> Result<ValueId> {
        let turned = b.negate(b.reshape(round(b, x)?, &[2, 2])?)?;
        b.output("rounded", OutputKind::User, turned);
        b.multiply(b.convert(turned, DType::F32)?, b.convert(turned, DType::F32)?)
    }

    #[test]
    fn what_follows_a_rounding_takes_the_value_before_it() {
        let (b, x) = builder(true);
        let y = chain(&b, x, |b, x| b.convert(x, DType::BF16)).unwrap();
        assert_snapshot!(print(&finished(b, y)), @r#"
        graph @g {
          %0: f32[4] = input 0 "x" user
          %1: bf16[4] = convert(dtype:bf16) %0
          %2: bf16[2,2] = reshape(shape:[2,2]) %1
          %3: bf16[2,2] = negate %2
          %4: f32[2,2] = reshape(shape:[2,2]) %0
          %5: f32[2,2] = negate %4
          %6: f32[2,2] = multiply %5, %5
          return %3 "rounded", %6 "y"
        }
        "#);
    }

    #[test]
    fn a_cast_of_the_program_stays() {
        let (b, x) = builder(true);
        let y = chain(&b, x, |b, x| b.cast(x, DType::BF16)).unwrap();
        let excess = print(&finished(b, y));
        let (b, x) = builder(false);
        let y = chain(&b, x, |b, x| b.convert(x, DType::BF16)).unwrap();
        assert_eq!(excess, print(&finished(b, y)));
    }

    #[test]
    fn what_several_read_stays_rounded() {
        let (b, x) = builder(true);
        let y = b.reshape(b.convert(x, DType::BF16).unwrap(), &[2, 2]).unwrap();
        assert!(b.unrounded(y).unwrap().is_some());
        b.stays_rounded(y);
        assert_eq!(b.unrounded(y).unwrap(), None, "also where it was looked for before");
        assert_eq!(b.unrounded(b.negate(y).unwrap()).unwrap(), None, "nor behind what is made of it");
    }

    #[test]
    fn long_chains_end_the_search() {
        let (b, x) = builder(true);
        let mut v = b.convert(x, DType::BF16).unwrap();
        for i in 0..100_000 {
            v = b.reshape(v, if i % 2 == 0 { &[2, 2] } else { &[4] }).unwrap();
            v = b.negate(v).unwrap();
        }
        assert_eq!(b.unrounded(v).unwrap(), None);
    }

    /// `steps`, each with a number, computed in the accumulation type of `dtype` and rounded to it.
    fn steps(steps: &[(u8, f64)], dtype: DType, excess: bool) -> Graph {
        let (b, x) = builder(excess);
        let wide = |v| b.convert(v, dtype.accumulator());
        let mut v = b.cast(x, dtype).unwrap();
        for &(kind, number) in steps {
            let x = wide(v).unwrap();
            let n = b.full_like(x, Number::Float(number)).unwrap();
            let y = match kind {
                0 => b.multiply(x, n),
                1 => b.add(x, n),
                2 => b.maximum(x, n),
                3 => b.unary(Unary::Tanh, x),
                4 => b.reverse(x, &[0]),
                _ => b.negate(x),
            };
            v = b.convert(y.unwrap(), dtype).unwrap();
        }
        let y = b.convert(v, dtype).unwrap();
        let y = b.cast(y, DType::F64).unwrap();
        finished(b, y)
    }

    fn run(graph: &Graph, x: &[f32]) -> Vec<f64> {
        let bytes: Vec<u8> = x.iter().flat_map(|v| half::bf16::from_f32(*v).to_f32().to_le_bytes()).collect();
        let x = Literal::dense(TensorType::new(DType::F32, [x.len()]), bytes).unwrap();
        let y = crate::eval(graph, &[x]).unwrap().remove(0).dense_bytes();
        y.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect()
    }

    proptest! {
        /// However long the chain, it errs as one rounding does; rounding at every step does not keep to that.
        #[test]
        fn a_chain_errs_as_one_rounding(
            chain in prop::collection::vec((0..6u8, (-80..80i32).prop_map(|n| f64::from(n) / 64.0)), 1..7),
            x in prop::array::uniform4(-2.0f32..2.0),
        ) {
            let truth = run(&steps(&chain, DType::F64, false), &x);
            for (dtype, rounding) in [(DType::BF16, 2f64.powi(-8)), (DType::F16, 2f64.powi(-11))] {
                let ours = run(&steps(&chain, dtype, true), &x);
                for (y, t) in ours.iter().zip(&truth) {
                    prop_assert!((y - t).abs() <= t.abs() * rounding + 1e-5, "{y}, not {t}, in {dtype}");
                }
            }
        }

        #[test]
        fn wide_programs_are_left_alone(
            chain in prop::collection::vec((0..6u8, -2.0..2.0), 1..7),
        ) {
            for dtype in [DType::F32, DType::F64] {
                prop_assert_eq!(print(&steps(&chain, dtype, true)), print(&steps(&chain, dtype, false)));
            }
        }
    }
}
