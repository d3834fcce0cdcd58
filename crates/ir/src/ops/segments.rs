//! Reductions over neighbours along a dimension, in segments of different lengths.
//!
//! Where segments lie is data. Each element learns the segment it lies in, and a scatter combines those of one segment.

use super::index::{put_along, take_along};
use super::scan::cumulative_sum;
use super::support::{dim, not_implemented, torch_name};
use super::{Call, OpDef, Outs, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::op::{Binary, Combiner, Comparison};
use crate::types::Shape;
use crate::{DType, Number, ensure, invalid};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, \
         int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
        |c, b| one(Segments::read(c, b)?.reduce(c, b)?),
        &[
            ok("f32[6], 'sum', lengths=i64[3]{2,0,4}"),
            ok("f32[6], 'mean', lengths=i64[3]{2,0,4}"),
            ok("f32[6], 'mean', lengths=i32[3]{2,0,4}, initial=2.5"),
            ok("f32[6,2], 'max', lengths=i64[3]{2,0,4}"),
            ok("f32[6], 'min', lengths=i64[3]{2,0,4}, initial=0.0"),
            ok("f64[6], 'prod', lengths=i64[3]{2,0,4}"),
            ok("bf16[6,3], 'mean', lengths=i64[3]{2,0,4}"),
            ok("f32[6], 'sum', offsets=i64[4]{1,3,3,5}, unsafe=true"),
            ok("f32[6], 'sum', lengths=i64[2]{2,3}, unsafe=true"),
            ok("f32[2,3,2], 'max', lengths=i64[2,2]{2,1,0,3}, axis=1"),
            ok("f32[5]{1,nan,2,inf,-inf}, 'max', lengths=i64[2]{3,2}"),
            err("f32[6], 'foo', lengths=i64[1]{6}", "reduce argument must be either sum, prod, mean, amax or amin, got foo"),
            err("f32[6], 'sum'", "segment_reduce(): Either lengths or offsets must be defined."),
            err("f32[2,3], 'sum', lengths=i64[1]{3}, axis=1", "Expected axis to be the last dimension of lengths but got 1."),
            err("i64[6], 'sum', lengths=i64[1]{6}", "\"_segment_reduce_cpu\" not implemented for 'Long'"),
        ],
    )
    .variants(&["segment_reduce.out"]),
    OpDef::new(
        "aten::_segment_reduce_backward(Tensor grad, Tensor output, Tensor data, str reduce, *, Tensor? lengths=None, \
         Tensor? offsets=None, int axis=0, Scalar? initial=None) -> Tensor",
        backward,
        &[
            ok("f32[3], f32[3], f32[6], 'sum', lengths=i64[3]{2,0,4}"),
            ok("f32[3,2], f32[3,2], f32[6,2], 'mean', offsets=i64[4]{0,2,2,6}"),
            ok("f32[3]{2,3,4}, f32[3]{3,-inf,7}, f32[6]{1,3,7,7,0,nan}, 'max', lengths=i64[3]{2,0,4}"),
            ok("f32[3]{2,3,4}, f32[3]{1,inf,0}, f32[6]{1,3,7,7,0,0}, 'min', lengths=i64[3]{2,0,4}"),
            ok("f32[3]{2,3,4}, f32[3]{3,1,0}, f32[6]{1,3,2,5,0,7}, 'prod', lengths=i64[3]{2,0,4}"),
            ok("f32[2]{2,3}, f32[2]{0,nan}, f32[6]{0,3,0,nan,2,5}, 'prod', lengths=i64[2]{3,3}"),
            ok("f64[2]{2,3}, f64[2]{0,60}, f64[6]{0,3,4,3,2,5}, 'prod', lengths=i64[2]{3,3}, initial=2.0"),
            ok("f32[2,2,2], f32[2,2,2], f32[2,3,2], 'sum', lengths=i64[2,2]{2,1,0,3}, axis=1"),
        ],
    )
    .variants(&["_segment_reduce_backward.out"]),
];

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Sum,
    Mean,
    Prod,
    Max,
    Min,
}

impl Kind {
    fn read(c: &Call<'_>) -> Result<Kind> {
        Ok(match c.string("reduce")?.unwrap_or_default() {
            "sum" => Kind::Sum,
            "mean" => Kind::Mean,
            "prod" => Kind::Prod,
            "max" => Kind::Max,
            "min" => Kind::Min,
            other => invalid!("reduce argument must be either sum, prod, mean, amax or amin, got {other}"),
        })
    }

    fn combiner(self) -> Combiner {
        match self {
            Kind::Sum | Kind::Mean => Combiner::Add,
            Kind::Prod => Combiner::Multiply,
            Kind::Max => Combiner::Maximum,
            Kind::Min => Combiner::Minimum,
        }
    }

    fn identity(self) -> Number {
        match self {
            Kind::Sum | Kind::Mean => Number::Int(0),
            Kind::Prod => Number::Int(1),
            Kind::Max => Number::Float(f64::NEG_INFINITY),
            Kind::Min => Number::Float(f64::INFINITY),
        }
    }
}

/// Data as `[batch, n, inner]`, and the segment that each of its places lies in.
struct Segments {
    kind: Kind,
    data: ValueId,
    dtype: DType,
    /// The segment of each element, of the data's shape; none (-1, or too large) where there is none.
    of: ValueId,
    /// The segment of each place, `[batch, n]`.
    places: ValueId,
    count: usize,
    /// Of the result.
    shape: Shape,
}

impl Segments {
    fn read(c: &Call<'_>, b: &Builder) -> Result<Segments> {
        let (data, kind) = (c.tensor(b, "data")?, Kind::read(c)?);
        let (shape, dtype) = (b.shape(data), b.dtype(data));
        let axis = dim(c.int("axis")?, shape.len())?;
        let (lengths, offsets) = (c.optional_tensor(b, "lengths")?, c.optional_tensor(b, "offsets")?);
        let (name, given) = match (lengths, offsets) {
            (_, Some(offsets)) => ("offsets", offsets),
            (Some(lengths), None) => ("lengths", lengths),
            (None, None) => invalid!("segment_reduce(): Either lengths or offsets must be defined."),
        };
        let lead = b.shape(given);
        ensure!(
            !lead.is_empty() && axis == lead.len() - 1,
            "segment_reduce(): Expected axis to be the last dimension of {name} but got {axis}."
        );
        ensure!(
            lead[..axis] == shape[..axis],
            "segment_reduce(): {name} and data differ in the dimensions before {axis}"
        );
        ensure!(
            matches!(b.dtype(given), DType::I64 | DType::I32),
            "expected {name} to be of an integer type, but got {}",
            torch_name(b.dtype(given))
        );
        if !dtype.is_float() {
            return not_implemented("_segment_reduce_cpu", dtype);
        }
        let sizes = |dims: &[usize]| dims.iter().product::<usize>();
        let (batch, n, inner) = (sizes(&shape[..axis]), shape[axis], sizes(&shape[axis + 1..]));
        let flat = b.convert(b.reshape(given, &[batch, lead[axis]])?, DType::I64)?;
        let offsets = if offsets.is_some() { flat } else { offsets_of(b, flat)? };
        let count = b.shape(offsets)[1].saturating_sub(1);
        let places = segment_of_places(b, offsets, n)?;
        let of = b.broadcast_in_dim(places, &[batch, n, inner], &[0, 1])?;
        let data = b.convert(b.reshape(data, &[batch, n, inner])?, dtype.accumulator())?;
        let mut result = shape;
        result[axis] = count;
        Ok(Segments { kind, data, dtype, of, places, count, shape: result })
    }

    /// The shape of one value per segment.
    fn segments(&self, b: &Builder) -> Shape {
        let mut shape = b.shape(self.data);
        shape[1] = self.count;
        shape
    }

    /// `values`, of the data's shape, combined by segment, starting with `start` in each.
    fn combined(&self, b: &Builder, values: ValueId, start: ValueId, combiner: Combiner) -> Result<ValueId> {
        put_along(b, start, 1, self.of, values, combiner)
    }

    /// Sums by segment.
    fn sums(&self, b: &Builder, values: ValueId) -> Result<ValueId> {
        let zeros = b.full(Number::Int(0), b.dtype(values), &self.segments(b))?;
        self.combined(b, values, zeros, Combiner::Add)
    }

    /// The value of its segment for each element; where it lies in none, of some other.
    fn spread(&self, b: &Builder, by_segment: ValueId) -> Result<ValueId> {
        take_along(b, by_segment, 1, self.of)
    }

    /// How many elements a segment has, in the type of the data.
    fn lengths(&self, b: &Builder) -> Result<ValueId> {
        let ones = b.full_like(self.data, Number::Int(1))?;
        self.sums(b, ones)
    }

    fn start(&self, c: &Call<'_>, b: &Builder) -> Result<ValueId> {
        let dtype = b.dtype(self.data);
        let start = match c.optional_scalar("initial")? {
            Some(initial) => c.scalar_value(b, &initial, dtype)?,
            None => b.scalar(self.kind.identity(), dtype)?,
        };
        b.broadcast_in_dim(start, &self.segments(b), &[])
    }

    fn reduce(&self, c: &Call<'_>, b: &Builder) -> Result<ValueId> {
        let mut out = self.combined(b, self.data, self.start(c, b)?, self.kind.combiner())?;
        if self.kind == Kind::Mean {
            let lengths = self.lengths(b)?;
            let empty = b.compare(Comparison::Eq, lengths, b.full_like(lengths, Number::Int(0))?)?;
            let of_nothing = if c.has("initial") { out } else { b.full_like(out, Number::Float(f64::NAN))? };
            out = b.select(empty, of_nothing, b.divide(out, lengths)?)?;
        }
        b.reshape(b.convert(out, self.dtype)?, &self.shape)
    }
}

/// Where segments of these lengths begin, and where the last ends.
fn offsets_of(b: &Builder, lengths: ValueId) -> Result<ValueId> {
    let batch = b.shape(lengths)[0];
    let ends = cumulative_sum(b, lengths, 1)?;
    b.concatenate(&[b.full(Number::Int(0), DType::I64, &[batch, 1])?, ends], 1)
}

/// For each of `n` places the last segment that begins at or before it, as `i32`.
fn segment_of_places(b: &Builder, offsets: ValueId, n: usize) -> Result<ValueId> {
    let batch = b.shape(offsets)[0];
    let zeros = b.full(Number::Int(0), DType::I32, &[batch, n])?;
    let ones = b.full(Number::Int(1), DType::I32, &b.shape(offsets))?;
    let begun = cumulative_sum(b, put_along(b, zeros, 1, offsets, ones, Combiner::Add)?, 1)?;
    b.subtract(begun, b.full_like(begun, Number::Int(1))?)
}

fn backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let s = Segments::read(c, b)?;
    let shape = c.layout("data")?.sizes;
    if shape.contains(&0) || s.count == 0 {
        return one(b.full(Number::Int(0), s.dtype, &shape)?);
    }
    let by_segment = |name| b.convert(b.reshape(c.tensor(b, name)?, &s.segments(b))?, b.dtype(s.data));
    let (grad, output) = (by_segment("grad")?, by_segment("output")?);
    let gradient = match s.kind {
        Kind::Sum => s.spread(b, grad)?,
        Kind::Mean => s.spread(b, b.divide(grad, s.lengths(b)?)?)?,
        Kind::Max | Kind::Min => of_extremes(b, &s, grad, output)?,
        Kind::Prod => of_products(c, b, &s, grad, output)?,
    };
    // Places behind the last segment count as in the one behind it.
    let last = b.full_like(s.places, Number::Int(s.count as i64 - 1))?;
    let inside = b.binary(
        Binary::And,
        b.compare(Comparison::Ge, s.places, b.full_like(s.places, Number::Int(0))?)?,
        b.compare(Comparison::Le, s.places, last)?,
    )?;
    let inside = b.broadcast_in_dim(inside, &b.shape(s.data), &[0, 1])?;
    let gradient = b.select(inside, gradient, b.full_like(gradient, Number::Int(0))?)?;
    one(b.reshape(b.convert(gradient, s.dtype)?, &shape)?)
}

/// Shared among the elements that equal the extreme, and NaN.
fn of_extremes(b: &Builder, s: &Segments, grad: ValueId, output: ValueId) -> Result<ValueId> {
    let equal = b.compare(Comparison::Eq, s.data, s.spread(b, output)?)?;
    let chosen = b.binary(Binary::Or, equal, b.compare(Comparison::Ne, s.data, s.data)?)?;
    let number = s.sums(b, b.convert(chosen, b.dtype(s.data))?)?;
    let share = s.spread(b, b.divide(grad, number)?)?;
    b.select(chosen, share, b.full_like(share, Number::Int(0))?)
}

/// The product of the other elements: that of all over this one, unless it is zero or NaN.
fn of_products(c: &Call<'_>, b: &Builder, s: &Segments, grad: ValueId, output: ValueId) -> Result<ValueId> {
    let (zero, one) = (b.full_like(s.data, Number::Int(0))?, b.full_like(s.data, Number::Int(1))?);
    let is_zero = b.compare(Comparison::Eq, s.data, zero)?;
    let is_nan = b.compare(Comparison::Ne, s.data, s.data)?;
    let special = b.binary(Binary::Or, is_zero, is_nan)?;
    let plain = b.select(special, one, s.data)?;
    let product = s.spread(b, s.combined(b, plain, s.start(c, b)?, Combiner::Multiply)?)?;
    let others = |mask| -> Result<ValueId> {
        let this = b.convert(mask, b.dtype(s.data))?;
        let all = s.spread(b, s.sums(b, this)?)?;
        b.compare(Comparison::Gt, b.subtract(all, this)?, zero)
    };
    let among_zeros = b.select(others(is_zero)?, b.multiply(product, zero)?, product)?;
    let rest = b.select(others(is_nan)?, b.full_like(product, Number::Float(f64::NAN))?, among_zeros)?;
    let grad = s.spread(b, grad)?;
    let quotient = b.divide(b.multiply(grad, s.spread(b, output)?)?, s.data)?;
    b.select(special, b.multiply(grad, rest)?, quotient)
}
