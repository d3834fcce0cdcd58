//! Repetition, reversal and rotation.

use super::super::bounded::{Bounded, Cut};
use super::super::index::{index_dtype, take_slices};
use super::super::positions::{from_behind, part};
use super::super::search::counted;
use super::super::support::{dim, distinct_dims, not_implemented};
use super::super::{Call, OpDef, Outs, Scalar, Strides, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::{Binary, Unary};
use crate::types::{Dims, Shape};
use crate::{DType, ensure};

pub(in super::super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::repeat(Tensor self, SymInt[] repeats) -> Tensor",
        |c, b| {
            let (v, repeats) = (c.tensor(b, "self")?, c.ints("repeats")?);
            ensure!(
                repeats.len() >= b.rank(v),
                "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
            );
            repeated(b, v, &repeats)
        },
        &[
            ok("f32[2,3], [2,2]"),
            ok("i64[3], [2,1,2]"),
            ok("f32[], [3]"),
            ok("f32[2], [0]"),
            ok("f32[], []"),
            err("f32[2,3], [2]", "Number of dimensions of repeat dims can not be smaller"),
            err("f32[2,3], [2,-1]", "Trying to create tensor with negative dimension"),
        ],
    )
    .variants(&["repeat.out"]),
    OpDef::new(
        "aten::tile(Tensor self, SymInt[] dims) -> Tensor",
        |c, b| {
            let (v, dims) = (c.tensor(b, "self")?, c.ints("dims")?);
            let missing = b.rank(v).saturating_sub(dims.len());
            let repeats: Vec<i64> = std::iter::repeat_n(1, missing).chain(dims).collect();
            repeated(b, v, &repeats)
        },
        &[ok("f32[2,3], [2]"), ok("f32[3], [2,2]")],
    ),
    OpDef::new(
        "aten::repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) \
         -> Tensor",
        repeat_interleave,
        &[
            ok("f32[2,3], 2"),
            ok("f32[2,3], 3, 0"),
            ok("f32[2,3], 2, -1"),
            ok("f32[], 2"),
            ok("f32[2], 0"),
            err("f32[2], -1", "Repeats must be non-negative"),
        ],
    ),
    OpDef::new(
        "aten::flip(Tensor self, int[] dims) -> Tensor",
        |c, b| {
            let v = c.tensor(b, "self")?;
            one(b.reverse(v, &distinct_dims(&c.ints("dims")?, b.rank(v))?)?)
        },
        &[
            ok("f32[2,3], [0,-1]"),
            ok("bool[4], [0]"),
            ok("f32[2,3], []"),
            err("f32[2,3], [0,0]", "dim 0 appears multiple times in the list of dims"),
        ],
    )
    .variants(&["flip.out"]),
    OpDef::new(
        "aten::fliplr(Tensor self) -> Tensor",
        |c, b| {
            let v = c.tensor(b, "self")?;
            ensure!(b.rank(v) >= 2, "Input must be >= 2-d.");
            one(b.reverse(v, &[1])?)
        },
        &[ok("f32[2,3]"), err("f32[2]", "Input must be >= 2-d.")],
    ),
    OpDef::new(
        "aten::flipud(Tensor self) -> Tensor",
        |c, b| {
            let v = c.tensor(b, "self")?;
            ensure!(b.rank(v) >= 1, "Input must be >= 1-d.");
            one(b.reverse(v, &[0])?)
        },
        &[ok("f32[2,3]"), err("f32[]", "Input must be >= 1-d.")],
    ),
    OpDef::new(
        "aten::roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor",
        roll,
        &[
            ok("f32[2,3], [1], [1]"),
            ok("f32[4,3], [-1,5], [0,-1]"),
            ok("f32[2,3], [2]"),
            ok("f32[0,3], [1], [0]"),
            ok("f32[0,3], [1], [2]"),
            ok("f32[], [1]"),
            err("f32[], [1], [0]", "Dimension specified as 0 but tensor has no dimensions"),
            err("f32[2,3], [1,2], [0]", "shifts and dimensions must align. shifts: 2, dims:1"),
        ],
    )
    .variants(&["roll.out"])
    .laid_out(Strides::Rolled),
    OpDef::new(
        "aten::rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor",
        rot90,
        &[
            ok("f32[2,3]"),
            ok("f32[2,3], 2"),
            ok("f32[2,3,4], -1, [0,-1]"),
            ok("f32[2,3], 4"),
            err("f32[2,3], 1, [0]", "expected total rotation dims == 2, but got dims = 1"),
            err("f32[2,3], 1, [0,0]", "expected rotation dims to be different, but got dim0 = 0 and dim1 = 0"),
        ],
    )
    .asked()
    .variants(&["rot90.out"]),
    OpDef::bounded(
        "aten::repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor",
        |c, b| {
            let repeats = c.tensor(b, "repeats")?;
            let (rank, dtype) = (b.rank(repeats), b.dtype(repeats));
            let repeats = counts(b, repeats)?;
            ensure!(rank == 1, "repeat_interleave only accept 1D vector as repeat");
            let of = |size| b.convert(runs(b, repeats, size)?, dtype);
            match output_size(c, b, repeats)? {
                Size::Known(size) => Bounded::fixed(vec![Some(of(size)?)]),
                Size::Within(size, count) => Bounded::rows(of(size)?, count),
                Size::Asked(bound) => Ok(Bounded::Bound(bound)),
            }
        },
        &[
            ok("i64[3]{2,0,1}, output_size=3"),
            ok("i32[2]{2,3}, output_size=5"),
            ok("i16[2]{2,3}, output_size=5"),
            ok("i64[3]{2,0,3}"),
            ok("i32[70]{0..3}"),
            ok("i64[0]"),
            err("i64[2]{2,-1}", "repeats can not be negative"),
            err("f32[2]{2,3}", "\"repeat_interleave_cpu\" not implemented for 'Float'"),
            err("i64[1,3]{1}, output_size=3", "repeat_interleave only accept 1D vector as repeat"),
        ],
    )
    .variants(&["repeat_interleave.Tensor_out"]),
    OpDef::bounded(
        "aten::repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? output_size=None) \
         -> Tensor",
        repeat_interleave_each,
        &[
            ok("f32[3,2], i64[3]{2,0,1}, 0, output_size=3"),
            ok("f32[3], i64[1]{2}, output_size=6"),
            ok("f32[3,2], i64[2]{3,1}, 1"),
            ok("f32[3], i64[3]{0,5,0}"),
        ],
    ),
];

/// `repeats` copies of `v` along each dimension; leading dimensions are added as needed.
fn repeated(b: &Builder, v: ValueId, repeats: &[i64]) -> Result<Outs> {
    let mut shape = b.shape(v);
    let negative = repeats.iter().any(|&r| r < 0);
    ensure!(!negative, "Trying to create tensor with negative dimension: repeats {repeats:?}");
    while shape.len() < repeats.len() {
        shape.insert(0, 1);
    }
    let counts = repeats.iter().map(|&r| r as usize);
    let pairs: Shape = counts.clone().zip(&shape).flat_map(|(r, &s)| [r, s]).collect();
    let result: Option<Shape> = counts.zip(&shape).map(|(r, &s)| r.checked_mul(s)).collect();
    let Some(result) = result else { crate::invalid!("repeats {repeats:?} of {shape:?} overflow") };
    let dims: Dims = (0..shape.len()).map(|d| 2 * d + 1).collect();
    let spread = b.broadcast_in_dim(b.reshape(v, &shape)?, &pairs, &dims)?;
    one(b.reshape(spread, &result)?)
}

fn repeat_interleave(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, repeats) = (c.tensor(b, "self")?, c.int("repeats")?);
    ensure!(repeats >= 0, "Repeats must be non-negative");
    let (v, d) = flattened_unless(c, b, v)?;
    let mut shape = b.shape(v);
    let mut spread = shape.clone();
    spread.insert(d + 1, repeats as usize);
    shape[d] = shape[d].saturating_mul(repeats as usize);
    let dims: Dims = (0..spread.len()).filter(|&i| i != d + 1).collect();
    one(b.reshape(b.broadcast_in_dim(v, &spread, &dims)?, &shape)?)
}

/// `v` with the dimension `dim`, or flat with dimension 0 if that is `None`.
fn flattened_unless(c: &Call<'_>, b: &Builder, v: ValueId) -> Result<(ValueId, usize)> {
    let rank = b.rank(v);
    match c.optional_int("dim")? {
        Some(d) if rank > 0 => Ok((v, dim(d, rank)?)),
        _ => Ok((b.reshape(v, &[b.ty(v)?.numel()])?, 0)),
    }
}

/// Element `i` of the result is the one whose run of repeats covers `i`.
/// `repeats` as `i64`, of an integer type that PyTorch has a kernel for.
fn counts(b: &Builder, repeats: ValueId) -> Result<ValueId> {
    let dtype = b.dtype(repeats);
    if !dtype.is_int() || dtype.is_wide_unsigned() {
        return not_implemented("repeat_interleave_cpu", dtype);
    }
    b.convert(repeats, DType::I64)
}

fn repeat_interleave_each(c: &Call<'_>, b: &Builder) -> Result<Bounded> {
    let (v, d) = flattened_unless(c, b, c.tensor(b, "self")?)?;
    let (repeats, n) = (c.tensor(b, "repeats")?, b.shape(v)[d]);
    let count = b.ty(repeats)?.numel();
    ensure!(b.rank(repeats) <= 1, "repeat_interleave only accept 0D or 1D vector as repeat");
    ensure!(count == n || count == 1, "repeats must have the same size as input along dim");
    let repeats = counts(b, b.reshape(repeats, &[count])?)?;
    let repeats = b.broadcast_in_dim(repeats, &[n], &[0])?;
    let of = |size| take_slices(b, v, d, runs(b, repeats, size)?);
    match output_size(c, b, repeats)? {
        Size::Known(size) => Bounded::fixed(vec![Some(of(size)?)]),
        Size::Within(size, count) => {
            let cuts = vec![Cut { result: 0, dim: d, count }];
            Ok(Bounded::Results { padded: vec![Some(of(size)?)], cuts, order: None })
        }
        Size::Asked(bound) => Ok(Bounded::Bound(bound)),
    }
}

/// What is known of a result's size.
enum Size {
    Known(usize),
    /// A bound, and the size itself.
    Within(usize, ValueId),
    /// The bound has to be read.
    Asked(ValueId),
}

/// The size that the call names, or else the sum of `repeats`, `i64[n]`.
fn output_size(c: &Call<'_>, b: &Builder, repeats: ValueId) -> Result<Size> {
    if let Some(size) = c.optional_int("output_size")? {
        ensure!(size >= 0, "output_size {size} is negative");
        return Ok(Size::Known(size as usize));
    }
    if b.shape(repeats)[0] == 0 {
        return Ok(Size::Known(0));
    }
    let total = b.reduce(repeats, crate::Reducer::Add, &[0])?;
    let least = b.reduce(repeats, crate::Reducer::Minimum, &[0])?;
    let negative = b.compare(crate::Comparison::Lt, least, b.full_like(least, Number::Int(0))?)?;
    match c.bound() {
        None => Ok(Size::Asked(b.select(negative, least, total)?)),
        Some(bound) => {
            ensure!(bound >= 0, "repeats can not be negative");
            Ok(Size::Within(bound as usize, total))
        }
    }
}

/// Each position of `repeats`, `i64[n]`, as often as it says: `size` of them in all.
fn runs(b: &Builder, repeats: ValueId, size: usize) -> Result<ValueId> {
    if size == 0 {
        return b.full(Number::Int(0), DType::I64, &[0]);
    }
    let ends = super::super::scan::cumulative_sum(b, repeats, 0)?;
    // The number of runs that end at or before each place.
    let ended = b.convert(counted(b, b.convert(ends, index_dtype(size))?, size)?, DType::I64)?;
    super::super::scan::cumulative_sum(b, ended, 0)
}

fn roll(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, shifts, dims) = (c.tensor(b, "self")?, c.scalars("shifts")?, c.ints("dims")?);
    let flat = dims.is_empty() && shifts.len() == 1;
    ensure!(
        flat || shifts.len() == dims.len(),
        "shifts and dimensions must align. shifts: {}, dims:{}",
        shifts.len(),
        dims.len()
    );
    let (t, shape) = (b.ty(v)?, b.shape(v));
    if t.numel() == 0 {
        return one(v); // whatever the dimensions are
    }
    if let (Some(d), true) = (dims.first(), shape.is_empty()) {
        crate::no_index!("Dimension specified as {d} but tensor has no dimensions");
    }
    if flat {
        let line = roll_one(c, b, b.reshape(v, &[t.numel()])?, 0, &shifts[0])?;
        return one(b.reshape(line, &shape)?);
    }
    let rolled = shifts.iter().zip(&dims).try_fold(v, |v, (s, &d)| roll_one(c, b, v, dim(d, shape.len())?, s))?;
    one(rolled)
}

fn roll_one(c: &Call<'_>, b: &Builder, v: ValueId, d: usize, shift: &Scalar) -> Result<ValueId> {
    let n = b.shape(v).get(d).copied().unwrap_or(1);
    if n <= 1 {
        return Ok(v);
    }
    let begins = |shift: i64| (n as i64 - shift.rem_euclid(n as i64)) as usize % n;
    let at = if c.is_brought(shift) {
        let extent = b.scalar(Number::Int(n as i64), DType::I64)?;
        let over = b.binary(Binary::Remainder, c.scalar_value(b, shift, DType::I64)?, extent)?;
        from_behind(b, b.unary(Unary::Negate, over)?, n)?
    } else {
        let at = begins(c.number(shift).as_i64());
        if !c.context.relaying {
            let parts = [b.slice_dim(v, d, at, n, 1)?, b.slice_dim(v, d, 0, at, 1)?];
            return if at == 0 { Ok(v) } else { b.concatenate(&parts, d) };
        }
        c.relayed(b, at as i64)?
    };
    part(b, b.concatenate(&[v, v], d)?, d, at, n)
}

fn rot90(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, k, dims) = (c.tensor(b, "self")?, c.int("k")?, c.ints("dims")?);
    let rank = b.rank(v);
    ensure!(dims.len() == 2, "expected total rotation dims == 2, but got dims = {}", dims.len());
    ensure!(rank >= 2, "expected total dims >= 2, but got total dims = {rank}");
    let (p, q) = (dim(dims[0], rank)?, dim(dims[1], rank)?);
    ensure!(p != q, "expected rotation dims to be different, but got dim0 = {} and dim1 = {}", dims[0], dims[1]);
    let mut swapped: Dims = (0..rank).collect();
    swapped.swap(p, q);
    one(match k.rem_euclid(4) {
        0 => v,
        1 => b.transpose(b.reverse(v, &[q])?, &swapped)?,
        2 => b.reverse(v, &[p, q])?,
        _ => b.transpose(b.reverse(v, &[p])?, &swapped)?,
    })
}
