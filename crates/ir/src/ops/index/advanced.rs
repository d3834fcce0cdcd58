//! `x[i, :, j]` and `x[i, :, j] = y` with tensors of indices.

use super::super::bounded::data_dependent;
use super::super::support::{broadcast_shapes, broadcast_to, scalar_like, torch_name};
use super::super::{Call, OpDef, Outs, err, ok, one, outs};
use super::{index_dtype, put_points, stack_places, take_flat, window_dims, wrap};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::literal::Number;
use crate::op::{Binary, Combiner, Gather, Unary};
use crate::types::{Dims, Shape};
use crate::{DType, ensure, no_index};

pub(in super::super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
        |c, b| one(read(c, b, false)?),
        &[
            ok("f32[5,3], [i64[4]{-5..5}]"),
            ok("f32[5,3], [none, i32[2,2]{-3..3}]"),
            ok("f32[4,5,6], [i64[2,1]{0..4}, none, i64[3]{0..6}]"),
            ok("f32[4,5,6], [none, i64[2]{0..5}, i64[2]{0..6}]"),
            ok("f32[4,5], [i64[]{0..4}, i64[3]{0..5}]"),
            ok("i64[4], [i64[0]{0..1}]"),
            err("f32[4], [i64[2]{0..4}, i64[2]{0..4}]", "too many indices for tensor of dimension 1 (got 2)"),
            err("f32[4,4], [i64[2]{0..4}, i64[3]{0..4}]", "shape mismatch: indexing tensors could not be broadcast"),
            err("f32[4], [f32[2]]", "tensors used as indices must be long, int, byte or bool tensors"),
            err("f32[4], [bool[4]]", "the shape of its result depends on the data"),
        ],
    )
    .variants(&["index.Tensor_out"]),
    OpDef::new(
        "aten::_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
        |c, b| one(read(c, b, false)?),
        &[ok("f32[4,5,6], [none, i64[2,1]{0..5}, i64[2]{0..6}]")],
    ),
    OpDef::new(
        "aten::_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor",
        |c, b| {
            let values = read(c, b, true)?;
            let mask = broadcast_to(b, c.tensor(b, "mask")?, &b.shape(values))?;
            one(b.select(mask, values, scalar_like(c, b, &c.scalar("fill")?, values)?)?)
        },
        &[ok("f32[5,3], bool[4,3], [i64[4]{0..5}, none], 1.5")],
    ),
    OpDef::new(
        "aten::index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
        write,
        &[
            ok("f32[5,3], [i64[]{0..5}], f32[3]"),
            ok("f32[5,3], [none, i64[1]{-3..3}], f32[5,1]"),
            ok("f32[5,3], [i64[4]{-5..5}], f32[4,3], true"),
            ok("bf16[4,5,6], [i64[2,1]{0..4}, none, i64[3]{0..6}], bf16[], true"),
            ok("i64[4,5], [i64[3]{0..4}, i64[3]{0..5}], i64[3], true"),
            ok("bool[4], [i64[9]{0..4}], bool[9], true"),
            ok("f32[4,3], [bool[4,3]], f32[]"),
            ok("f32[4,3], [bool[4]], f32[3]"),
            ok("f32[4,3], [none, bool[3]], f32[4,1], true"),
            err("f32[4], [i64[2]{0..4}], i64[2]", "Index put requires the source and destination dtypes match"),
            err("f32[4], [i64[2]{0..4}], f32[3]", "shape mismatch: value tensor of shape [3] cannot be broadcast"),
            err("f32[5,5], [u8[3]], f32[]", "The shape of the mask [3] at index 0 does not match the shape of the indexed"),
            err("f32[5,5], [bool[5,3]], f32[]", "mask [5, 3] at index 1 does not match the shape of the indexed"),
        ],
    )
    .variants(&["index_put_", "index_put.out"]),
    OpDef::new(
        "aten::_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
        write,
        &[ok("f32[5,3], [i64[4]{0..5}], f32[4,3], true")],
    ),
    OpDef::new(
        "aten::_index_put_impl(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False, bool unsafe=False) \
         -> Tensor",
        write,
        &[ok("f32[5,3], [i64[4]{0..5}], f32[4,3], true")],
    )
    .variants(&["_index_put_impl_", "_index_put_impl.out"]),
    OpDef::new(
        "aten::_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, Tensor values) -> Tensor",
        masked_accumulate,
        &[ok("f32[5,3], bool[4,3], [i64[4]{0..5}, none], f32[4,3]")],
    ),
    OpDef::new(
        "aten::take(Tensor self, Tensor index) -> Tensor",
        |c, b| {
            let (flat, index) = flat_place(c, b, "take")?;
            if b.ty(flat)?.numel() == 0 && b.ty(index)?.numel() > 0 {
                no_index!("take(): tried to take from an empty tensor");
            }
            one(take_flat(b, flat, index)?)
        },
        &[
            ok("f32[2,3], i64[2,2]{-6..6}"),
            ok("f32[3], i64[]{0..3}"),
            ok("f32[], i64[2]{0..1}"),
            ok("f32[0], i64[0]"),
            err("f32[0], i64[2]", "take(): tried to take from an empty tensor"),
            err("f32[4], i32[2]{0..4}", "take(): Expected a long tensor for index, but got Int"),
        ],
    )
    .variants(&["take.out"])
    .typed_outs(outs::take),
    OpDef::new(
        "aten::put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor",
        put_flat,
        &[
            ok("f32[2,3], i64[4]{-6..6}, f32[2,2], true"),
            ok("f32[2,3], i64[1]{0..6}, f32[1]"),
            ok("f32[0], i64[0], f32[0]"),
            err("i64[4], i64[2]{0..4}, f32[2]", "same dtype, but got self.dtype = Long and source.dtype = Float"),
            err("i64[4], i32[2]{0..4}, i64[2]", "put_(): Expected a long tensor for index, but got Int"),
            err("i64[4], i64[2]{0..4}, i64[3]", "but got source.numel() = 3, index.numel() = 2"),
            err("f32[0], i64[1]{0}, f32[1]", "put_(): Tried to put elements into an empty tensor"),
        ],
    )
    .variants(&["put_", "put.out"]),
];

/// Which dimensions are indexed, and by what: all of one shape, none negative.
struct Places {
    dims: Dims,
    indices: Vec<ValueId>,
    /// The common shape of the indices.
    shape: Shape,
}

impl Places {
    fn new(b: &Builder, sizes: &Shape, given: &[Option<ValueId>], clamp: bool) -> Result<Places> {
        let (n, rank) = (given.len(), sizes.len());
        if n > rank {
            no_index!("too many indices for tensor of dimension {rank} (got {n})");
        }
        let mut places = Places { dims: Dims::new(), indices: vec![], shape: Shape::new() };
        for (d, index) in given.iter().enumerate().filter_map(|(d, i)| i.map(|i| (d, i))) {
            places.dims.push(d);
            let index = b.convert(index, index_dtype(sizes[d]))?;
            places.indices.push(if clamp { clamped(b, index, sizes[d])? } else { wrap(b, index, sizes[d])? });
        }
        let shapes: Vec<Shape> = places.indices.iter().map(|&i| b.shape(i)).collect();
        let Ok(shape) = broadcast_shapes(&shapes) else {
            let shapes = shapes.iter().map(|s| format!("{s:?}")).collect::<Vec<_>>().join(", ");
            no_index!("shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}")
        };
        for index in &mut places.indices {
            *index = broadcast_to(b, *index, &shape)?;
        }
        places.shape = shape;
        Ok(places)
    }

    /// The shape of what is read or written in a tensor of `sizes`.
    fn window(&self, sizes: &Shape) -> (Shape, Dims) {
        let kept = window_dims(sizes.len(), &self.dims, self.shape.len());
        let mut sizes = (0..sizes.len()).filter(|d| !self.dims.contains(d)).map(|d| sizes[d]);
        let mut batch = self.shape.iter().copied();
        let rank = kept.len() + self.shape.len();
        let extent = |i| if kept.contains(&i) { sizes.next() } else { batch.next() };
        ((0..rank).map(extent).collect::<Option<_>>().unwrap_or_default(), kept)
    }
}

fn clamped(b: &Builder, index: ValueId, extent: usize) -> Result<ValueId> {
    let last = b.full_like(index, Number::Int(extent.saturating_sub(1) as i64))?;
    b.minimum(b.maximum(index, b.full_like(index, Number::Int(0))?)?, last)
}

fn is_mask(dtype: DType) -> bool {
    matches!(dtype, DType::Bool | DType::U8)
}

fn checked(b: &Builder, given: &[Option<ValueId>]) -> Result<()> {
    let allowed = |d| is_mask(d) || matches!(d, DType::I64 | DType::I32);
    if !given.iter().flatten().all(|&i| allowed(b.dtype(i))) {
        no_index!("tensors used as indices must be long, int, byte or bool tensors");
    }
    Ok(())
}

fn read(c: &Call<'_>, b: &Builder, clamp: bool) -> Result<ValueId> {
    let (v, given) = (c.tensor(b, "self")?, c.optional_tensors(b, "indices")?);
    checked(b, &given)?;
    if given.iter().flatten().any(|&i| is_mask(b.dtype(i))) {
        return Err(data_dependent("indexing by a mask"));
    }
    let sizes = b.shape(v);
    let places = Places::new(b, &sizes, &given, clamp)?;
    if places.dims.is_empty() {
        return Ok(v);
    }
    let (result, offset_dims) = places.window(&sizes);
    if result.contains(&0) {
        return b.full(Number::Int(0), b.dtype(v), &result);
    }
    let mut slice_sizes = sizes;
    places.dims.iter().for_each(|&d| slice_sizes[d] = slice_sizes[d].min(1));
    let gather = Gather {
        offset_dims,
        collapsed_slice_dims: places.dims.clone(),
        start_index_map: places.dims.clone(),
        index_vector_dim: places.shape.len(),
        slice_sizes,
        ..Gather::default()
    };
    b.gather(v, stack_places(b, &places.indices)?, gather)
}

fn write(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, values) = (c.tensor(b, "self")?, c.tensor(b, "values")?);
    let given = c.optional_tensors(b, "indices")?;
    checked(b, &given)?;
    let accumulate = c.flag("accumulate")?;
    let (to, from) = (b.dtype(v), b.dtype(values));
    // PyTorch fills what one mask chooses with one value, which is converted.
    let indices: Vec<ValueId> = given.iter().flatten().copied().collect();
    let is_fill = !accumulate && matches!(indices[..], [mask] if is_mask(b.dtype(mask))) && b.ty(values)?.numel() == 1;
    let values = if is_fill && (to.is_complex() || !from.is_complex()) { b.convert(values, to)? } else { values };
    let from = b.dtype(values);
    ensure!(
        to == from,
        "Index put requires the source and destination dtypes match, got {} for the destination and {} for the source.",
        torch_name(to),
        torch_name(from)
    );
    if given.iter().flatten().any(|&i| is_mask(b.dtype(i))) {
        return one(write_masked(b, v, &given, values, accumulate)?);
    }
    one(put(b, v, &Places::new(b, &b.shape(v), &given, false)?, values, accumulate)?)
}

fn put(b: &Builder, v: ValueId, places: &Places, values: ValueId, accumulate: bool) -> Result<ValueId> {
    let (window, _) = places.window(&b.shape(v));
    let values = to_window(b, values, &window)?;
    if places.dims.is_empty() {
        return if accumulate { b.add(v, values) } else { Ok(values) };
    }
    if window.contains(&0) {
        return Ok(v);
    }
    let combiner = if accumulate { Combiner::Add } else { Combiner::Set };
    put_points(b, v, &places.indices, &places.dims, values, combiner)
}

fn to_window(b: &Builder, values: ValueId, window: &Shape) -> Result<ValueId> {
    // Leading dimensions of extent 1 may exceed the window's rank.
    let mut shape = b.shape(values);
    while shape.len() > window.len() && shape[0] == 1 {
        shape.remove(0);
    }
    let lead = window.len().checked_sub(shape.len());
    let fits = lead.is_some_and(|lead| shape.iter().zip(&window[lead..]).all(|(&s, &w)| s == w || s == 1));
    ensure!(
        fits,
        "shape mismatch: value tensor of shape {:?} cannot be broadcast to indexing result of shape {window:?}",
        b.shape(values)
    );
    broadcast_to(b, b.reshape(values, &shape)?, window)
}

/// `v[..., mask, ...] = values` where one value serves every place that the mask picks: a choice per element.
fn write_masked(
    b: &Builder,
    v: ValueId,
    given: &[Option<ValueId>],
    values: ValueId,
    accumulate: bool,
) -> Result<ValueId> {
    let mut tensors = given.iter().enumerate().filter_map(|(d, i)| i.map(|i| (d, i)));
    let (Some((at, mask)), None) = (tensors.next(), tensors.next()) else {
        return Err(data_dependent("writing by a mask together with other indices"));
    };
    let (sizes, covered) = (b.shape(v), b.shape(mask));
    let end = at + covered.len();
    if let Some(d) = (0..covered.len()).find(|&d| sizes.get(at + d) != Some(&covered[d])) {
        no_index!(
            "The shape of the mask {covered:?} at index {d} does not match the shape of the indexed tensor {sizes:?} at index {}",
            at + d
        );
    }
    let mask = b.convert(mask, DType::Bool)?;
    let mask = b.broadcast_in_dim(mask, &sizes, &(at..end).collect::<Dims>())?;
    // The picked places are one dimension of the window.
    let mut window = Shape::from_slice(&sizes[..at]);
    window.push(1);
    window.extend_from_slice(&sizes[end..]);
    let Ok(values) = to_window(b, values, &window) else {
        return Err(data_dependent("writing one value per place of a mask"));
    };
    let kept: Dims = (0..=at).chain(end..sizes.len()).collect();
    let values = match covered.is_empty() {
        true => b.reshape(values, &sizes)?,
        false => b.broadcast_in_dim(values, &sizes, &kept)?,
    };
    let written = match (accumulate, b.dtype(v)) {
        (false, _) => values,
        (true, DType::Bool) => b.binary(Binary::Or, v, values)?,
        (true, _) => b.add(v, values)?,
    };
    b.select(mask, written, v)
}

fn masked_accumulate(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (v, values) = (c.tensor(b, "self")?, c.tensor(b, "values")?);
    let places = Places::new(b, &b.shape(v), &c.optional_tensors(b, "indices")?, true)?;
    let (window, _) = places.window(&b.shape(v));
    let values = to_window(b, values, &window)?;
    let mask = broadcast_to(b, c.tensor(b, "mask")?, &window)?;
    let dropped = b.unary(Unary::Not, mask)?;
    let values = b.select(dropped, b.full_like(values, Number::Int(0))?, values)?;
    one(put(b, v, &places, values, true)?)
}

fn put_flat(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (flat, index) = flat_place(c, b, "put_")?;
    let source = c.tensor(b, "source")?;
    let (to, from) = (b.dtype(flat), b.dtype(source));
    ensure!(
        to == from,
        "put_(): self and source expected to have the same dtype, but got self.dtype = {} and source.dtype = {}",
        torch_name(to),
        torch_name(from)
    );
    let (given, places) = (b.ty(source)?.numel(), b.ty(index)?.numel());
    if given != places {
        no_index!(
            "put_(): Expected source and index to have the same number of elements, but got source.numel() = {given}, \
             index.numel() = {places}"
        );
    }
    let shape = b.shape(c.tensor(b, "self")?);
    if places == 0 {
        return one(b.reshape(flat, &shape)?);
    }
    if shape.contains(&0) {
        no_index!("put_(): Tried to put elements into an empty tensor");
    }
    let source = b.reshape(source, &b.shape(index))?;
    let combiner = if c.flag("accumulate")? { Combiner::Add } else { Combiner::Set };
    one(b.reshape(put_points(b, flat, &[index], &[0], source, combiner)?, &shape)?)
}

/// `self` in one dimension, and `index` into it with none negative; messages name `op`.
fn flat_place(c: &Call<'_>, b: &Builder, op: &str) -> Result<(ValueId, ValueId)> {
    let v = c.tensor(b, "self")?;
    let (n, index) = (b.ty(v)?.numel(), c.tensor(b, "index")?);
    let given = b.dtype(index);
    ensure!(given == DType::I64, "{op}(): Expected a long tensor for index, but got {}", torch_name(given));
    let index = b.convert(index, index_dtype(n))?;
    Ok((b.reshape(v, &[n])?, wrap(b, index, n)?))
}
