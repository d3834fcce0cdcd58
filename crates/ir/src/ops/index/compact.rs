//! Sums of few rows into a large table of 16-bit floats.
//!
//! They add up in `f32`. A table of that type is twice as large; where it finds no place in a TPU's vector memory, it is
//! written and read whole for the sake of the rows that are named. Here only the sums are `f32`: the first update of each row
//! has a place in a table as long as the updates are many, where all updates of the row are added, and each writes the whole
//! sum into the row. XLA's CPU plugin takes up to a sixth longer for that than for the wide table.

use super::{index_dtype, put_points, take_slices};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::{Binary, Combiner, Comparison};

/// Rows of the table for each update, below which nothing is gained.
const FEW: usize = 4;

/// Whether the sums of so many rows are wider than `v`, whose rows are many and too large in that type.
pub(super) fn pays(b: &Builder, v: ValueId, updates: usize) -> bool {
    let (dtype, shape) = (b.dtype(v), b.shape(v));
    let wide = dtype.accumulator();
    let bytes = shape.iter().product::<usize>().saturating_mul(wide.size());
    wide != dtype && updates > 0 && shape[0] / FEW >= updates && b.wide_tables().is_some_and(|limit| bytes > limit)
}

/// `v` with each of `updates` added to the row that `index`, a vector, names for it. Those out of range are left out.
pub(super) fn add_rows(b: &Builder, v: ValueId, index: ValueId, updates: ValueId) -> Result<ValueId> {
    let (dtype, shape) = (b.dtype(v), b.shape(updates));
    let wide = dtype.accumulator();
    let place = first_of_each(b, index, b.shape(v)[0])?;
    let sums = b.full(Number::Int(0), wide, &shape)?;
    let sums = put_points(b, sums, &[place], &[0], b.convert(updates, wide)?, Combiner::Add)?;
    let sum = take_slices(b, sums, 0, place)?;
    let before = b.convert(take_slices(b, v, 0, index)?, wide)?;
    let rows = b.convert(b.add(before, sum)?, dtype)?;
    put_points(b, v, &[index], &[0], rows, Combiner::Set)
}

/// The position of the first element of `index` that is equal to each; their number for one that is none of `rows`.
fn first_of_each(b: &Builder, index: ValueId, rows: usize) -> Result<ValueId> {
    let n = b.shape(index)[0];
    let dtype = index_dtype(n);
    let none = Number::Int(n as i64);
    let firsts = b.full(none, dtype, &[rows])?;
    let firsts = put_points(b, firsts, &[index], &[0], b.iota(dtype, &[n], 0)?, Combiner::Minimum)?;
    let first = take_slices(b, firsts, 0, index)?;
    let at_least_0 = b.compare(Comparison::Ge, index, b.full_like(index, Number::Int(0))?)?;
    let below = b.compare(Comparison::Lt, index, b.full_like(index, Number::Int(rows as i64))?)?;
    b.select(b.binary(Binary::And, at_least_0, below)?, first, b.full_like(first, none)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::eval::eval;
    use crate::graph::{Graph, InputKind, OutputKind};
    use crate::literal::Literal;
    use crate::types::{TensorType, Type};
    use proptest::prelude::*;

    const ROWS: usize = 24;
    const UPDATES: usize = 6;

    fn graph(limit: Option<usize>, sums: impl Fn(&Builder, [ValueId; 3]) -> Result<ValueId>) -> Graph {
        let b = Builder::new("g").limit_wide_tables(limit);
        let input = |name, ty| b.input(name, InputKind::User, ty);
        let v = input("v", TensorType::new(DType::BF16, [ROWS, 2]));
        let index = input("index", TensorType::new(DType::I32, [UPDATES]));
        let updates = input("updates", TensorType::new(DType::BF16, [UPDATES, 2]));
        b.output("y", OutputKind::User, sums(&b, [v, index, updates]).unwrap());
        let graph = b.finish();
        crate::verify(&graph).unwrap();
        graph
    }

    fn compact(limit: usize) -> Graph {
        graph(Some(limit), |b, [v, index, updates]| put_points(b, v, &[index], &[0], updates, Combiner::Add))
    }

    /// The whole table in `f32`.
    fn wide() -> Graph {
        graph(None, |b, [v, index, updates]| {
            let (v, updates) = (b.convert(v, DType::F32)?, b.convert(updates, DType::F32)?);
            b.convert(put_points(b, v, &[index], &[0], updates, Combiner::Add)?, DType::BF16)
        })
    }

    fn bf16s(rows: usize) -> impl Strategy<Value = Literal> {
        let number = -1e3f32..1e3;
        prop::collection::vec(number, 2 * rows).prop_map(move |numbers| {
            let bytes: Vec<u8> = numbers.iter().flat_map(|&x| half::bf16::from_f32(x).to_le_bytes()).collect();
            Literal::dense(TensorType::new(DType::BF16, [rows, 2]), bytes).unwrap()
        })
    }

    /// Few rows, so that most are named more than once, and some that are none.
    fn places() -> impl Strategy<Value = Literal> {
        let place = prop_oneof![0i32..3, Just(-1), Just(ROWS as i32)];
        prop::collection::vec(place, UPDATES).prop_map(|places| {
            let bytes: Vec<u8> = places.iter().flat_map(|place| place.to_le_bytes()).collect();
            Literal::dense(TensorType::new(DType::I32, [UPDATES]), bytes).unwrap()
        })
    }

    proptest! {
        /// Not to the bit: what the row held comes after the sum, not before it.
        #[test]
        fn sums_are_those_of_a_wide_table(v in bf16s(ROWS), index in places(), updates in bf16s(UPDATES)) {
            let inputs = [v, index, updates];
            let [got, want] = [compact(0), wide()].map(|graph| values(&eval(&graph, &inputs).unwrap()[0]));
            for (got, want) in got.into_iter().zip(want) {
                prop_assert!((got - want).abs() <= want.abs() / 128.0 + 1e-3, "{got} instead of {want}");
            }
        }
    }

    fn values(literal: &Literal) -> Vec<f32> {
        literal.dense_bytes().chunks_exact(2).map(|b| half::bf16::from_le_bytes([b[0], b[1]]).to_f32()).collect()
    }

    #[test]
    fn a_table_beyond_the_limit_is_not_widened() {
        let table = TensorType::new(DType::F32, [ROWS, 2]);
        let has_wide = |graph: Graph| graph.nodes().iter().any(|node| node.ty == Type::Tensor(table.clone()));
        assert!(!has_wide(compact(table.size_in_bytes() - 1)));
        assert!(has_wide(compact(table.size_in_bytes())));
    }
}
