//! Rows of several sequences one behind another, and each sequence padded to the same length: what nested tensors with
//! `layout=torch.jagged` are made of.
//!
//! Sequence `i` has the rows from the `i`th of the offsets up to the next.

use super::bounded::Bounded;
use super::index::take_slices;
use super::support::scalar_like;
use super::{Call, OpDef, Outs, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::op::{Binary, Comparison, Reducer};
use crate::types::Shape;
use crate::{DType, Number, ensure};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::_jagged_to_padded_dense_forward(Tensor values, Tensor[] offsets, SymInt[] max_lengths, \
         float padding_value=0.) -> Tensor",
        padded,
        &[
            ok("f32[5,3], [i64[4]{0,2,2,5}], [3]"),
            ok("f32[5,3], [i64[4]{0,2,2,5}], [4], -inf"),
            ok("bf16[5,3], [i64[3]{0,1,5}], [4], 2.5"),
            ok("i64[4,2], [i64[3]{0,3,4}], [3], 7.0"),
            ok("bool[3,1], [i32[3]{0,3,3}], [3]"),
            ok("f64[0,2], [i64[3]{0,0,0}], [2], 1.5"),
            ok("f32[0,2], [i64[1]{0}], [0]"),
            err("f32[5,3], [i64[2,2]{0,2,2,5}], [3]", "only 1D jagged tensors supported, but got offsets.dim() = 2"),
        ],
    ),
    OpDef::bounded(
        "aten::_padded_dense_to_jagged_forward(Tensor dense, Tensor[] offsets, SymInt? total_L=None) -> Tensor",
        packed,
        &[
            ok("f32[3,3,2], [i64[4]{0,2,2,5}], 5"),
            ok("f32[3,3,2], [i64[4]{0,2,2,5}]"),
            ok("i64[2,4,1], [i64[3]{0,1,5}], 5"),
            ok("bool[2,3,1], [i32[3]{0,3,3}], 3"),
            ok("bf16[2,2,3], [i64[3]{0,0,0}], 0"),
            ok("f64[2,2,3], [i64[3]{0,0,0}]"),
            err("f32[1,3,2], [i64[1,2]{0,2}], 2", "only 1D jagged tensors supported, but got offsets.dim() = 2"),
        ],
    ),
];

/// The offsets and how many sequences they are of.
fn offsets(c: &Call<'_>, b: &Builder) -> Result<(ValueId, usize)> {
    let all = c.tensors(b, "offsets")?;
    ensure!(all.len() == 1, "{}: expected one tensor of offsets, but got {}", c.name(), all.len());
    let rank = b.rank(all[0]);
    ensure!(rank == 1, "{}(): only 1D jagged tensors supported, but got offsets.dim() = {rank}", c.name());
    let count = b.shape(all[0])[0];
    ensure!(count > 0, "{}: expected at least one offset", c.name());
    Ok((b.convert(all[0], DType::I64)?, count - 1))
}

fn number(b: &Builder, n: usize, like: ValueId) -> Result<ValueId> {
    b.full_like(like, Number::Int(n as i64))
}

fn padded(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (values, (offsets, count), longest) = (c.tensor(b, "values")?, offsets(c, b)?, c.sizes("max_lengths")?);
    ensure!(longest.len() == 1, "{}: expected one length, but got {}", c.name(), longest.len());
    let (shape, grid) = (b.shape(values), [count, longest[0]]);
    ensure!(!shape.is_empty(), "{}: expected values of at least one dimension", c.name());
    let whole: Shape = grid.iter().chain(&shape[1..]).copied().collect();
    let padding = c.scalar("padding_value")?;
    if shape[0] == 0 || whole.contains(&0) {
        let nothing = b.full(Number::Int(0), b.dtype(values), &whole)?;
        return one(scalar_like(c, b, &padding, nothing)?);
    }
    let [start, end] = [0, 1].map(|i| b.slice_dim(offsets, 0, i, i + count, 1));
    let at = b.add(b.broadcast_in_dim(start?, &grid, &[0])?, b.iota(DType::I64, &grid, 1)?)?;
    let real = b.compare(Comparison::Lt, at, b.broadcast_in_dim(end?, &grid, &[0])?)?;
    let rows = take_slices(b, values, 0, b.minimum(at, number(b, shape[0] - 1, at)?)?)?;
    one(b.select(b.broadcast_in_dim(real, &whole, &[0, 1])?, rows, scalar_like(c, b, &padding, rows)?)?)
}

fn packed(c: &Call<'_>, b: &Builder) -> Result<Bounded> {
    let (dense, (offsets, count)) = (c.tensor(b, "dense")?, offsets(c, b)?);
    let shape = b.shape(dense);
    ensure!(shape.len() >= 2 && shape[0] == count, "{}: expected {count} padded sequences", c.name());
    let last = b.reshape(b.slice_dim(offsets, 0, count, count + 1, 1)?, &[])?;
    let total = c.optional_int("total_L")?;
    let Some(rows) = total.or(c.bound()) else { return Ok(Bounded::Bound(last)) };
    ensure!(rows >= 0, "{}: expected offsets that are not negative", c.name());
    let whole: Shape = [rows as usize].iter().chain(&shape[2..]).copied().collect();
    let result = if whole.contains(&0) || shape.contains(&0) {
        b.full(Number::Int(0), b.dtype(dense), &whole)?
    } else {
        let of = Sequences { offsets, count, longest: shape[1] };
        of.rows(b, dense, &whole)?
    };
    if total.is_some() { Bounded::fixed(vec![Some(result)]) } else { Bounded::rows(result, last) }
}

struct Sequences {
    offsets: ValueId,
    count: usize,
    longest: usize,
}

impl Sequences {
    /// The rows of padded sequences, in the shape `whole`; zeros for those that the padded ones are too short for.
    fn rows(&self, b: &Builder, dense: ValueId, whole: &[usize]) -> Result<ValueId> {
        let grid = [whole[0], self.count];
        let row = b.iota(DType::I64, &whole[..1], 0)?;
        let ends = b.slice_dim(self.offsets, 0, 1, self.count + 1, 1)?;
        let ended =
            b.compare(Comparison::Le, b.broadcast_in_dim(ends, &grid, &[1])?, b.broadcast_in_dim(row, &grid, &[0])?)?;
        let sequence = b.reduce(b.convert(ended, DType::I64)?, Reducer::Add, &[1])?;
        let sequence = b.minimum(sequence, number(b, self.count - 1, sequence)?)?;
        let at = b.subtract(row, take_slices(b, self.offsets, 0, sequence)?)?;
        let real = b.compare(Comparison::Lt, at, number(b, self.longest, at)?)?;
        let place = b.binary(Binary::Multiply, sequence, number(b, self.longest, sequence)?)?;
        let place = b.add(place, b.minimum(at, number(b, self.longest - 1, at)?)?)?;
        let flat: Shape = [self.count * self.longest].iter().chain(&whole[1..]).copied().collect();
        let rows = take_slices(b, b.reshape(dense, &flat)?, 0, place)?;
        let real = b.broadcast_in_dim(real, whole, &[0])?;
        b.select(real, rows, b.full_like(rows, Number::Int(0))?)
    }
}
