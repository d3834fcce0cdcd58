//! Histograms in one and more dimensions, of equal bins or bins that are given.

use super::expr::formula;
use super::index::{index_dtype, put_points};
use super::search::counted;
use super::support::{cpp_type, not_implemented};
use super::{Call, OpDef, err, many, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::op::{Binary, Combiner, Comparison, Reducer};
use crate::types::{Dims, Shape};
use crate::{DType, Number, ensure};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, \
         bool density=False) -> (Tensor hist, Tensor bin_edges)",
        |c, b| {
            let data = Data::flat(c, b)?;
            let edges = data.equal_bins(c, b, &[c.int("bins")?])?;
            many([data.histogram(c, b, &edges)?, edges[0]])
        },
        &[
            ok("f32[6]{0,1,2,3,1,0.5}, 3"),
            ok("f32[2,3]{0,1,2,3,1,0.5}, 3, range=[1.0,2.0]"),
            ok("f32[5]{nan,inf,-inf,1,2}, 4, range=[0.0,2.0]"),
            ok("f32[6]{0,1,2,3,1,0.5}, 3, weight=f32[6], density=true"),
            ok("f64[50], 7"),
            ok("f32[3]{1}, 2"),
            ok("f32[3]{1}, 2, range=[1.0,1.0]"),
            ok("f32[3]{1}, 2, range=[5.0,6.0], density=true"),
            ok("f32[0], 2"),
            err("f32[3], 0", "torch.histogram(): bins must be > 0, but got 0 for dimension 0"),
            err("f32[3], 2, range=[2.0]", "torch.histogramdd: for a 1-dimensional histogram range should have 2 elements, but got 1"),
            err("f32[3], 2, range=[2.0,1.0]", "torch.histogramdd: min should not exceed max, but got min 2 max 1 for dimension 0"),
            err("f32[3], 2, range=[0.0,inf]", "torch.histogramdd: dimension 0's range [0, inf] is not finite"),
            err("f32[3], 2, weight=f64[3]", "input tensor and weight tensor should have the same dtype, but got input(float), and weight(double)"),
            err("f32[6], 2, weight=f32[2]", "but got input with shape [6, 1] and weight with shape [2]"),
            err("i64[3], 2", "\"histogramdd\" not implemented for 'Long'"),
        ],
    )
    .variants(&["histogram.bin_ct_out"]),
    OpDef::new(
        "aten::histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) -> (Tensor hist, \
         Tensor bin_edges)",
        |c, b| {
            let (data, bins) = (Data::flat(c, b)?, c.tensor(b, "bins")?);
            data.check_edges(b, &[bins])?;
            many([data.histogram(c, b, &[bins])?, bins])
        },
        &[
            ok("f32[6]{0,1,2,3,1,0.5}, f32[4]{0,1,1.5,3}"),
            ok("f32[6]{0,1,2,3,1,nan}, f32[4]{0,1,1,3}, weight=f32[6], density=true"),
            ok("f32[0], f32[4]{0,1,2,3}"),
            err("f32[6], f32[1]", "torch.histogram(): bins must be > 0, but got 0 for dimension 0"),
            err("f32[6], f64[3]", "should have the same dtype, but got input with dtype float and bins for dimension 0 with dtype double"),
            err("f32[6], f32[2,2]", "bins tensor should have one dimension, but got 2 dimensions in the bins tensor for dimension 0"),
            err("f32[6], f32[0]", "bins tensor should have at least 1 element, but got 0 elements in the bins tensor for dimension 0"),
        ],
    )
    .variants(&["histogram.bins_tensor_out"]),
    OpDef::new(
        "aten::_histogramdd_bin_edges(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, \
         bool density=False) -> Tensor[]",
        |c, b| many(Data::rows(c, b)?.equal_bins(c, b, &c.ints("bins")?)?),
        &[
            ok("f32[4,2], [2,3]"),
            ok("f32[4,2], [2,3], range=[0.0,1.0,0.0,2.0]"),
            ok("f32[0,2], [2,3]"),
            err("f32[4,2], [2]", "The size of bins must be equal to the innermost dimension of the input."),
        ],
    ),
    OpDef::new(
        "aten::_histogramdd_from_bin_cts(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, \
         bool density=False) -> Tensor",
        |c, b| {
            let data = Data::rows(c, b)?;
            let edges = data.equal_bins(c, b, &c.ints("bins")?)?;
            one(data.histogram(c, b, &edges)?)
        },
        &[
            ok("f32[9,2], [2,3]"),
            ok("f32[4,2], [2,3], range=[0.0,1.0,0.0,2.0], weight=f32[4]{1,2}, density=true"),
            ok("f64[3,4,3], [2,3,2], weight=f64[3,4]"),
            err("f32[4], [2]", "torch.histogramdd: input tensor should have at least 2 dimensions"),
            err("f32[4,2], [2,3], range=[0.0,1.0]", "for a 2-dimensional histogram range should have 4 elements, but got 2"),
        ],
    )
    .variants(&["_histogramdd_from_bin_cts.out"]),
    OpDef::new(
        "aten::_histogramdd_from_bin_tensors(Tensor self, Tensor[] bins, *, Tensor? weight=None, bool density=False) -> Tensor",
        |c, b| {
            let (data, edges) = (Data::rows(c, b)?, c.tensors(b, "bins")?);
            data.check_edges(b, &edges)?;
            one(data.histogram(c, b, &edges)?)
        },
        &[
            ok("f32[9,2], [f32[3]{-1,0,1}, f32[4]{-1,-0.5,0.5,1}]"),
            ok("f32[9,2], [f32[3]{-1,0,1}, f32[2]{-1,1}], weight=f32[9]{1,2}, density=true"),
            err("f32[4,2], [f32[3]]", "torch.histogramdd: expected 2 sequences of bin edges for a 2-dimensional histogram but got 1"),
        ],
    )
    .variants(&["_histogramdd_from_bin_tensors.out"]),
];

/// What is counted: points in `dims` dimensions, and what each counts for.
struct Data {
    /// One `[n]` a dimension.
    columns: Vec<ValueId>,
    n: usize,
    dtype: DType,
    weight: Option<ValueId>,
}

impl Data {
    /// Every element is a point.
    fn flat(c: &Call<'_>, b: &Builder) -> Result<Data> {
        let v = c.tensor(b, "self")?;
        let column = b.reshape(v, &[b.ty(v)?.numel(), 1])?;
        let weight = c.optional_tensor(b, "weight")?;
        let weight = weight.map(|w| b.reshape(w, &[b.ty(w)?.numel()])).transpose()?;
        Data::new(b, column, weight)
    }

    /// The last dimension holds a point.
    fn rows(c: &Call<'_>, b: &Builder) -> Result<Data> {
        let v = c.tensor(b, "self")?;
        ensure!(b.rank(v) >= 2, "torch.histogramdd: input tensor should have at least 2 dimensions");
        Data::new(b, v, c.optional_tensor(b, "weight")?)
    }

    fn new(b: &Builder, points: ValueId, weight: Option<ValueId>) -> Result<Data> {
        let (shape, dtype) = (b.shape(points), b.dtype(points));
        let (lead, dims) = shape.split_at(shape.len() - 1);
        if let Some(w) = weight {
            let [x, y] = [dtype, b.dtype(w)];
            let what = "torch.histogramdd: if weight tensor is provided";
            let [s, t] = [x, y].map(cpp_type);
            ensure!(
                x == y,
                "{what}, input tensor and weight tensor should have the same dtype, but got input({s}), and weight({t})"
            );
            let given = b.shape(w);
            ensure!(
                given[..] == *lead,
                "{what} it should have the same shape as the input tensor excluding its innermost dimension, but got \
                 input with shape {shape:?} and weight with shape {given:?}"
            );
        }
        if !matches!(dtype, DType::F32 | DType::F64) {
            return not_implemented("histogramdd", dtype);
        }
        let n = lead.iter().product();
        let flat = b.reshape(points, &[n, dims[0]])?;
        let column = |d| b.reshape(b.slice_dim(flat, 1, d, d + 1, 1)?, &[n]);
        let weight = weight.map(|w| b.reshape(w, &[n])).transpose()?;
        Ok(Data { columns: (0..dims[0]).map(column).collect::<Result<_>>()?, n, dtype, weight })
    }

    /// The edges of `bins` equal bins in each dimension, between the ends that the call names, or those of the data.
    fn equal_bins(&self, c: &Call<'_>, b: &Builder, bins: &[i64]) -> Result<Vec<ValueId>> {
        let dims = self.columns.len();
        ensure!(
            bins.len() == dims,
            "histogramdd: The size of bins must be equal to the innermost dimension of the input."
        );
        let range = if c.has("range") { Some(c.scalars("range")?) } else { None };
        if let Some(range) = &range {
            let (want, got) = (2 * dims, range.len());
            ensure!(
                got == want,
                "torch.histogramdd: for a {dims}-dimensional histogram range should have {want} elements, but got {got}"
            );
        }
        let mut edges = vec![];
        for (d, (&column, &count)) in self.columns.iter().zip(bins).enumerate() {
            ensure!(count > 0, "torch.histogram(): bins must be > 0, but got {count} for dimension {d}");
            let (low, high) = match &range {
                Some(range) => {
                    let ends = [&range[2 * d], &range[2 * d + 1]];
                    let finite = c.require(&ends, |n| n.iter().all(|n| n.as_f64().is_finite()));
                    let ordered = c.require(&ends, |n| n[0].as_f64() <= n[1].as_f64());
                    let [low, high] = ends.map(|end| end.now().as_f64());
                    ensure!(finite, "torch.histogramdd: dimension {d}'s range [{low}, {high}] is not finite");
                    ensure!(
                        ordered,
                        "torch.histogramdd: min should not exceed max, but got min {low} max {high} for dimension {d}"
                    );
                    let end = |i: usize| c.scalar_value(b, &range[i], self.dtype);
                    (end(2 * d)?, end(2 * d + 1)?)
                }
                None if self.n == 0 => (b.scalar(Number::Int(0), self.dtype)?, b.scalar(Number::Int(1), self.dtype)?),
                None => (b.reduce(column, Reducer::Minimum, &[0])?, b.reduce(column, Reducer::Maximum, &[0])?),
            };
            edges.push(evenly(b, low, high, count as usize)?);
        }
        Ok(edges)
    }

    fn check_edges(&self, b: &Builder, edges: &[ValueId]) -> Result<()> {
        let (dims, got) = (self.columns.len(), edges.len());
        ensure!(
            got == dims,
            "torch.histogramdd: expected {dims} sequences of bin edges for a {dims}-dimensional histogram but got {got}"
        );
        for (d, &bins) in edges.iter().enumerate() {
            let [s, t] = [self.dtype, b.dtype(bins)].map(cpp_type);
            let what = "torch.histogramdd";
            ensure!(
                s == t,
                "{what}: input tensor and bins tensors should have the same dtype, but got input with dtype {s} and bins \
                 for dimension {d} with dtype {t}"
            );
            let rank = b.rank(bins);
            ensure!(
                rank == 1,
                "{what}: bins tensor should have one dimension, but got {rank} dimensions in the bins tensor for dimension {d}"
            );
            let n = b.shape(bins)[0];
            ensure!(
                n > 0,
                "{what}: bins tensor should have at least 1 element, but got 0 elements in the bins tensor for dimension {d}"
            );
            ensure!(n > 1, "torch.histogram(): bins must be > 0, but got 0 for dimension {d}");
        }
        Ok(())
    }

    /// How often each bin is met, or how densely.
    fn histogram(&self, c: &Call<'_>, b: &Builder, edges: &[ValueId]) -> Result<ValueId> {
        let bins: Shape = edges.iter().map(|&e| b.shape(e)[0] - 1).collect();
        let total: usize = bins.iter().product();
        let mut place = b.full(Number::Int(0), index_dtype(total), &[self.n])?;
        let mut inside = b.full(Number::Bool(true), DType::Bool, &[self.n])?;
        for ((&column, &edges), &count) in self.columns.iter().zip(edges).zip(&bins) {
            let (bin, within) = bin_of(b, column, edges, b.dtype(place))?;
            place = b.add(b.multiply(place, b.full_like(place, Number::Int(count as i64))?)?, bin)?;
            inside = b.binary(Binary::And, inside, within)?;
        }
        // What is outside goes to a bin that does not exist.
        let place = b.select(inside, place, b.full_like(place, Number::Int(total as i64))?)?;
        let counts = match self.weight {
            None => b.convert(counted(b, place, total)?, self.dtype)?,
            Some(weight) => {
                let zeros = b.full(Number::Int(0), self.dtype, &[total])?;
                put_points(b, zeros, &[place], &[0], weight, Combiner::Add)?
            }
        };
        let counts = b.reshape(counts, &bins)?;
        if c.flag("density")? { density(b, counts, edges) } else { Ok(counts) }
    }
}

/// `count` equal bins from `low` to `high`; one bin width around them where they are the same.
fn evenly(b: &Builder, low: ValueId, high: ValueId, count: usize) -> Result<ValueId> {
    let shape = [count + 1];
    let spread = |v| b.broadcast_in_dim(v, &shape, &[]);
    let place = b.iota(b.dtype(low), &shape, 0)?;
    formula(b, [place, spread(low)?, spread(high)?], |[place, low, high]| {
        let point = low.equals(high);
        let (low, high) = (point.select(low - 0.5, low), point.select(high + 0.5, high));
        let step = (high - low) / count as f64;
        // From whichever end is nearer, so that both are met.
        place.less(count.div_ceil(2) as f64).select(low + step * place, high - step * (count as f64 - place))
    })
}

/// The bin of each element, the last one with its right edge, and whether it lies between the outer edges.
fn bin_of(b: &Builder, v: ValueId, edges: ValueId, dtype: DType) -> Result<(ValueId, ValueId)> {
    let (n, m) = (b.shape(v)[0], b.shape(edges)[0]);
    let grid = [n, m];
    let [column, edge] = [b.broadcast_in_dim(v, &grid, &[0])?, b.broadcast_in_dim(edges, &grid, &[1])?];
    let passed = b.convert(b.compare(Comparison::Le, edge, column)?, dtype)?;
    let passed = b.reduce(passed, Reducer::Add, &[1])?;
    let bin = b.subtract(passed, b.full_like(passed, Number::Int(1))?)?;
    let bin = b.minimum(bin, b.full_like(bin, Number::Int(m as i64 - 2))?)?;
    let end = |i| b.broadcast_in_dim(b.slice_dim(edges, 0, i, i + 1, 1)?, &[n], &[0]);
    let [low, high] = [end(0)?, end(m - 1)?];
    let within = b.binary(Binary::And, b.compare(Comparison::Ge, v, low)?, b.compare(Comparison::Le, v, high)?)?;
    Ok((bin, within))
}

/// The share of all per unit of each bin's extent.
fn density(b: &Builder, counts: ValueId, edges: &[ValueId]) -> Result<ValueId> {
    let shape = b.shape(counts);
    let all: Dims = (0..shape.len()).collect();
    let total = b.broadcast_in_dim(b.reduce(counts, Reducer::Add, &all)?, &shape, &[])?;
    let mut share = b.divide(counts, total)?;
    for (d, &edges) in edges.iter().enumerate() {
        let m = b.shape(edges)[0];
        let widths = b.subtract(b.slice_dim(edges, 0, 1, m, 1)?, b.slice_dim(edges, 0, 0, m - 1, 1)?)?;
        share = b.divide(share, b.broadcast_in_dim(widths, &shape, &[d])?)?;
    }
    Ok(share)
}
