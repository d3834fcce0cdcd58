//! Views: other layouts over the same storage, and numbers read off a layout.

pub(super) mod copies;
pub(crate) mod layout;
pub(super) mod numbers;
pub(super) mod split;

use self::copies::copied;
use super::positions::part;
use super::{Call, OpDef, Outs, err, ok, one};
use crate::alias::{Layout, Lens};
use crate::builder::Builder;
use crate::error::Result;
use crate::types::{Dims, Shape};
use crate::{ensure, invalid, unsupported};
use layout::infer_size;

/// What a view's rule gives: see [`super::ViewFn`].
type Views = Result<Option<Vec<Layout>>>;

pub(super) static OPS: &[OpDef] = &[
    OpDef::maybe_view(
        "aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
        view,
        |c, b| reshaped(c, b, "size"),
        &[
            ok("f32[2,3], [3,2]"),
            ok("i64[2,3], [-1]"),
            ok("f32[], [1,1]"),
            ok("bool[0,3], [3,0,2]"),
            err("f32[2,3], [4]", "shape '[4]' is invalid for input of size 6"),
            err("f32[2,3], [-1,-1]", "only one dimension can be inferred"),
            err("f32[0,3], [-1,0]", "cannot reshape tensor of 0 elements into shape [-1, 0]"),
        ],
    ),
    OpDef::maybe_view(
        "aten::view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)",
        |c, l| Ok((c.optional_dtype("dtype")? == Some(c.dtype_of("self")?)).then(|| vec![l.clone()])),
        bits,
        &[ok("f32[3], f32"), ok("f32[3], i32"), ok("i16[2,0], bf16")],
    )
    .seen_through(|c| Ok(Lens::Bits(c.optional_dtype("dtype")?.unwrap_or(c.dtype_of("self")?)))),
    // Unsafe because autograd does not know that what PyTorch gives is a view: kernels write through it.
    OpDef::maybe_view(
        "aten::_unsafe_view(Tensor self, SymInt[] size) -> Tensor",
        |c, l| reshape_to(l, &c.ints("size")?),
        |c, b| reshaped(c, b, "size"),
        &[ok("f32[2,3], [6]"), ok("f32[0], [0,4]"), err("f32[2], [3]", "shape '[3]' is invalid for input of size 2")],
    ),
    OpDef::maybe_view(
        "aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)",
        |c, l| reshape_to(l, &c.ints("shape")?),
        |c, b| reshaped(c, b, "shape"),
        &[
            ok("f32[2,3,4], [4,-1]"),
            ok("f32[], [1]"),
            ok("f32[1], []"),
            err("f32[2,3], [5]", "shape '[5]' is invalid for input of size 6"),
        ],
    ),
    OpDef::new(
        "aten::_reshape_copy(Tensor self, SymInt[] size) -> Tensor",
        |c, b| reshaped(c, b, "size"),
        &[ok("f32[2,3], [3,2]"), ok("i64[2,3], [-1]")],
    ),
    // The strides given are those ATen found for its own layout; ours may differ, and give other ones.
    OpDef::maybe_view(
        "aten::_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)",
        view,
        |c, b| reshaped(c, b, "size"),
        &[ok("f32[2,3], [6], [1]")],
    ),
    OpDef::maybe_view(
        "aten::reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)",
        view_as_other,
        reshaped_as_other,
        &[ok("f32[2,3], i64[6]"), err("f32[2,3], f32[5]", "shape '[5]' is invalid for input of size 6")],
    ),
    OpDef::maybe_view(
        "aten::view_as(Tensor(a) self, Tensor other) -> Tensor(a)",
        view_as_other,
        reshaped_as_other,
        &[ok("f32[2,3], f32[3,2]"), err("f32[2], f32[5]", "shape '[5]' is invalid for input of size 2")],
    ),
    OpDef::maybe_view(
        "aten::flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)",
        |c, l| Ok(layout::reshape(l, &flattened(c, &l.sizes)?).map(|l| vec![l])),
        |c, b| {
            let v = c.tensor(b, "self")?;
            one(b.reshape(v, &flattened(c, &b.shape(v))?)?)
        },
        &[
            ok("f32[2,3,4]"),
            ok("f32[2,3,4], 1"),
            ok("f32[2,3,4], -2, -1"),
            ok("f32[]"),
            ok("f32[2,0,3], 0, 1"),
            err("f32[2,3], 1, 0", "flatten() has invalid args: start_dim cannot come after end_dim"),
        ],
    ),
    OpDef::maybe_view(
        "aten::ravel(Tensor(a) self) -> Tensor(a)",
        |_, l| {
            Ok(layout::is_contiguous(l)
                .then(|| layout::reshape(l, &Shape::from_slice(&[layout::numel(l)])))
                .flatten()
                .map(|l| vec![l]))
        },
        |c, b| {
            let v = c.tensor(b, "self")?;
            one(b.reshape(v, &[b.ty(v)?.numel()])?)
        },
        &[ok("f32[2,3]"), ok("i64[]"), ok("f32[0,2]")],
    ),
    OpDef::maybe_view(
        "aten::unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)",
        |c, l| Ok(layout::reshape(l, &unflattened(c, &l.sizes)?).map(|l| vec![l])),
        |c, b| {
            let v = c.tensor(b, "self")?;
            one(b.reshape(v, &unflattened(c, &b.shape(v))?)?)
        },
        &[
            ok("f32[6,2], 0, [2,-1]"),
            ok("f32[2,6], -1, [3,2]"),
            err("f32[6], 0, [2,2]", "unflatten: Provided sizes [2, 2] don't multiply up to the size of dim 0 (6)"),
            err("f32[6], 0, []", "unflatten: sizes must be non-empty"),
        ],
    ),
    OpDef::view(
        "aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)",
        permute,
        &[
            ok("f32[2,3,4], [2,0,1]"),
            ok("f32[2,3], [-1,0]"),
            ok("f32[], []"),
            err("f32[2,3], [0]", "input.dim() = 2 is not equal to len(dims) = 1"),
            err("f32[2,3], [0,0]", "permute(): duplicate dims are not allowed."),
        ],
    ),
    OpDef::view(
        "aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
        transpose,
        &[ok("f32[2,3,4], 0, -1"), ok("f32[], 0, -1"), err("f32[2,3], 0, 2", "Dimension out of range")],
    )
    .variants(&["transpose_"]),
    OpDef::view(
        "aten::swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)",
        |c, l| only(layout::transpose(l, c.int("axis0")?, c.int("axis1")?)),
        &[ok("f32[2,3], 0, 1")],
    )
    .variants(&["swapaxes_"]),
    OpDef::view("aten::swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", transpose, &[ok("f32[2,3], 0, 1")]),
    OpDef::view(
        "aten::t(Tensor(a) self) -> Tensor(a)",
        t,
        &[
            ok("f32[2,3]"),
            ok("f32[3]"),
            ok("f32[]"),
            err("f32[2,3,4]", "t() expects a tensor with <= 2 dimensions, but self is 3D"),
        ],
    )
    .variants(&["swapdims_"]),
    OpDef::view(
        "aten::numpy_T(Tensor(a) self) -> Tensor(a)",
        |_, l| only(Ok(layout::permute(l, &(0..l.sizes.len()).rev().collect::<Dims>()))),
        &[ok("f32[2,3]"), ok("f32[3]")],
    )
    .variants(&["t_"]),
    OpDef::view(
        "aten::mT(Tensor(a) self) -> Tensor(a)",
        |_, l| {
            let rank = l.sizes.len();
            ensure!(rank != 1, "tensor.mT is only supported on matrices or batches of matrices. Got {rank}-D tensor.");
            only(if rank == 0 { Ok(l.clone()) } else { layout::transpose(l, -2, -1) })
        },
        &[
            ok("f32[2,3,4]"),
            ok("f32[]"),
            err("f32[3]", "tensor.mT is only supported on matrices or batches of matrices."),
        ],
    ),
    OpDef::view(
        "aten::movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)",
        movedim,
        &[
            ok("f32[2,3,4], [0,-1], [1,0]"),
            err("f32[2,3], [0,1], [0]", "movedim: Invalid source or destination dims"),
            err("f32[2,3], [0,0], [0,1]", "movedim: repeated dim in `source` ([0, 0])"),
        ],
    ),
    OpDef::view(
        "aten::movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)",
        movedim,
        &[ok("f32[2,3,4], 0, -1"), ok("f32[], 0, 0")],
    ),
    OpDef::view(
        "aten::moveaxis.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)",
        movedim,
        &[ok("f32[2,3,4], [0,-1], [1,0]")],
    ),
    OpDef::view(
        "aten::moveaxis.int(Tensor(a) self, int source, int destination) -> Tensor(a)",
        movedim,
        &[ok("f32[2,3,4], 0, -1")],
    ),
    OpDef::view(
        "aten::expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)",
        expand,
        &[
            ok("f32[3,1], [3,4]"),
            ok("f32[3], [2,-1]"),
            ok("f32[], [2,2]"),
            ok("f32[1], [0]"),
            err("f32[2,3], [2,4]", "The expanded size of the tensor (4) must match the existing size (3)"),
            err("f32[2,3], [3]", "the number of sizes provided (1) must be greater or equal"),
            err("f32[2,3], [-1,2,3]", "isn't allowed in a leading, non-existing dimension 0"),
        ],
    ),
    OpDef::view(
        "aten::expand_as(Tensor(a) self, Tensor other) -> Tensor(a)",
        |c, l| only(layout::expand(l, &signed(&c.layout("other")?.sizes))),
        &[ok("f32[3,1], i64[2,3,4]"), err("f32[3], f32[4]", "must match the existing size (3)")],
    ),
    OpDef::view(
        "aten::broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)",
        expand,
        &[ok("f32[3,1], [3,4]"), err("f32[3], [4]", "must match the existing size (3)")],
    ),
    OpDef::view(
        "aten::squeeze(Tensor(a) self) -> Tensor(a)",
        squeeze_all,
        &[ok("f32[1,3,1]"), ok("f32[]"), ok("f32[1,0]")],
    )
    .variants(&["squeeze_"]),
    OpDef::view(
        "aten::squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)",
        squeeze_dims,
        &[ok("f32[1,3], 0"), ok("f32[1,3], -1"), ok("f32[], 0"), err("f32[2,3], 2", "Dimension out of range")],
    )
    .variants(&["squeeze_.dim"]),
    OpDef::view(
        "aten::squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)",
        squeeze_dims,
        &[
            ok("f32[1,3,1], [0,-1]"),
            ok("f32[1,3], []"),
            err("f32[1,3], [0,0]", "dim 0 appears multiple times in the list of dims"),
        ],
    )
    .variants(&["squeeze_.dims"]),
    OpDef::view(
        "aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)",
        unsqueeze,
        &[ok("f32[3], 0"), ok("f32[3,2], -1"), ok("f32[], -1"), err("f32[2,3], 3", "Dimension out of range")],
    )
    .variants(&["unsqueeze_"]),
    OpDef::view(
        "aten::atleast_1d(Tensor self) -> Tensor",
        |_, l| only(if l.sizes.is_empty() { layout::unsqueeze(l, 0) } else { Ok(l.clone()) }),
        &[ok("f32[]"), ok("f32[2]")],
    ),
    OpDef::view(
        "aten::atleast_2d(Tensor self) -> Tensor",
        |_, l| only((l.sizes.len()..2).try_fold(l.clone(), |l, _| layout::unsqueeze(&l, 0))),
        &[ok("f32[]"), ok("f32[2]"), ok("f32[2,3]")],
    ),
    OpDef::view(
        "aten::atleast_3d(Tensor self) -> Tensor",
        |_, l| {
            only(match l.sizes.len() {
                0 => (0..3).try_fold(l.clone(), |l, _| layout::unsqueeze(&l, 0)),
                1 => layout::unsqueeze(&layout::unsqueeze(l, 0)?, -1),
                2 => layout::unsqueeze(l, -1),
                _ => Ok(l.clone()),
            })
        },
        &[ok("f32[]"), ok("f32[2]"), ok("f32[2,3]"), ok("f32[2,3,4]")],
    ),
    OpDef::maybe_view(
        "aten::slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)",
        slice,
        sliced,
        &[
            ok("f32[5], 0, 1, 4"),
            ok("f32[2,5], -1, -3, 9223372036854775807, 2"),
            ok("f32[5], 0, 4, 2"),
            ok("f32[5], 0, 9, 12"),
            ok("i64[0], 0, -1, 3"),
            err("f32[5], 0, 0, 3, -1", "slice step must be positive"),
            err("f32[], 0, 0, 3", "slice() cannot be applied to a 0-dim tensor."),
        ],
    ),
    OpDef::maybe_view(
        "aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)",
        select,
        selected,
        &[
            ok("f32[2,5], 1, -1"),
            ok("f32[3], 0, 0"),
            err("f32[5], 0, 5", "select(): index 5 out of range for tensor of size [5] at dimension 0"),
            err("f32[], 0, 0", "select() cannot be applied to a 0-dim tensor."),
        ],
    ),
    OpDef::view(
        "aten::narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)",
        narrow,
        &[
            ok("f32[5,2], 0, 1, 3"),
            ok("f32[5], 0, -2, 2"),
            ok("f32[5], 0, 5, 0"),
            err("f32[5], 0, 3, 3", "start (3) + length (3) exceeds dimension size (5)."),
            err("f32[5], 0, 0, -1", "narrow(): length must be non-negative."),
        ],
    ),
    OpDef::view(
        "aten::diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)",
        diagonal,
        &[
            ok("f32[3,4]"),
            ok("f32[3,4], 1"),
            ok("f32[4,3,2], -1, 0, -2"),
            ok("f32[3,3], 5"),
            err("f32[5,5], 0, 1, 1", "diagonal dimensions cannot be identical 1, 1"),
        ],
    ),
    OpDef::view(
        "aten::linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)",
        diagonal,
        &[ok("f32[2,3,4]"), ok("f32[3,4], offset=1")],
    ),
    OpDef::view(
        "aten::unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)",
        unfold,
        &[
            ok("f32[7,2], 0, 3, 2"),
            ok("f32[2,5], -1, 5, 1"),
            ok("f32[], 0, 1, 1"),
            err("f32[5], 0, 6, 1", "maximum size for tensor at dimension 0 is 5 but size is 6"),
            err("f32[5], 0, 2, 0", "step is 0 but must be > 0"),
        ],
    ),
    OpDef::view(
        "aten::as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)",
        as_strided,
        &[
            ok("f32[12], [3,2], [4,1], 1"),
            ok("f32[3,4], [2,2], [1,1]"),
            ok("f32[6], [], []"),
            err("f32[5], [2], [2,1]", "mismatch in length of strides and shape"),
            err("f32[5], [2], [-1]", "as_strided: Negative strides are not supported at the moment"),
        ],
    )
    .variants(&["as_strided_"]),
];

fn only(l: Result<Layout>) -> Views {
    l.map(|l| Some(vec![l]))
}

fn signed(sizes: &[usize]) -> Vec<i64> {
    sizes.iter().map(|&s| s as i64).collect()
}

fn reshape_to(l: &Layout, sizes: &[i64]) -> Views {
    Ok(layout::reshape(l, &infer_size(sizes, layout::numel(l))?).map(|l| vec![l]))
}

/// Where ATen's strides allow a view and ours do not, a copy stands in: nothing that ATen accepts is refused.
fn view(c: &Call<'_>, l: &Layout) -> Views {
    reshape_to(l, &c.ints("size")?)
}

fn view_as_other(c: &Call<'_>, l: &Layout) -> Views {
    reshape_to(l, &signed(&c.layout("other")?.sizes))
}

fn reshaped(c: &Call<'_>, b: &Builder, sizes: &str) -> Result<Outs> {
    let v = c.tensor(b, "self")?;
    one(b.reshape(v, &infer_size(&c.ints(sizes)?, b.ty(v)?.numel())?)?)
}

fn reshaped_as_other(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let v = c.tensor(b, "self")?;
    one(b.reshape(v, &c.layout("other")?.sizes)?)
}

/// The same bits under another element type of the same width.
fn bits(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let v = c.tensor(b, "self")?;
    let (from, to) = (b.dtype(v), c.optional_dtype("dtype")?.unwrap_or(b.dtype(v)));
    let reinterpretable = from.size() == to.size() && ![from, to].contains(&crate::DType::Bool);
    if !reinterpretable || from.is_complex() != to.is_complex() {
        unsupported!("a view of {from} as {to} has no lowering: the two differ in width or kind");
    }
    one(Lens::Bits(to).see(b, v)?)
}

fn flattened(c: &Call<'_>, sizes: &Shape) -> Result<Shape> {
    let rank = sizes.len();
    let start = super::support::dim(c.int("start_dim")?, rank)?;
    let end = super::support::dim(c.int("end_dim")?, rank)?;
    ensure!(start <= end, "flatten() has invalid args: start_dim cannot come after end_dim");
    if rank == 0 {
        return Ok(Shape::from_slice(&[1]));
    }
    let mut out = Shape::from_slice(&sizes[..start]);
    out.push(sizes[start..=end].iter().product());
    out.extend_from_slice(&sizes[end + 1..]);
    Ok(out)
}

fn unflattened(c: &Call<'_>, shape: &Shape) -> Result<Shape> {
    let sizes = c.ints("sizes")?;
    ensure!(!shape.is_empty(), "unflatten: the input has no dimensions");
    let d = super::support::dim(c.int("dim")?, shape.len())?;
    ensure!(!sizes.is_empty(), "unflatten: sizes must be non-empty");
    let Ok(parts) = infer_size(&sizes, shape[d]) else {
        invalid!(
            "unflatten: Provided sizes {sizes:?} don't multiply up to the size of dim {d} ({}) in the input tensor",
            shape[d]
        )
    };
    let mut out = Shape::from_slice(&shape[..d]);
    out.extend(parts);
    out.extend_from_slice(&shape[d + 1..]);
    Ok(out)
}

fn permute(c: &Call<'_>, l: &Layout) -> Views {
    let (dims, rank) = (c.ints("dims")?, l.sizes.len());
    ensure!(
        dims.len() == rank,
        "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired \
         ordering of dimensions i.e. input.dim() = {rank} is not equal to len(dims) = {}",
        dims.len()
    );
    let order: Dims = dims.iter().map(|&d| super::support::dim(d, rank)).collect::<Result<_>>()?;
    let repeated = (1..rank).any(|i| order[..i].contains(&order[i]));
    ensure!(!repeated, "permute(): duplicate dims are not allowed.");
    only(Ok(layout::permute(l, &order)))
}

fn transpose(c: &Call<'_>, l: &Layout) -> Views {
    only(layout::transpose(l, c.int("dim0")?, c.int("dim1")?))
}

fn t(_: &Call<'_>, l: &Layout) -> Views {
    let rank = l.sizes.len();
    ensure!(rank <= 2, "t() expects a tensor with <= 2 dimensions, but self is {rank}D");
    only(if rank < 2 { Ok(l.clone()) } else { layout::transpose(l, 0, 1) })
}

fn movedim(c: &Call<'_>, l: &Layout) -> Views {
    let order = layout::movedim(l.sizes.len(), &c.ints("source")?, &c.ints("destination")?)?;
    only(Ok(layout::permute(l, &order)))
}

fn expand(c: &Call<'_>, l: &Layout) -> Views {
    only(layout::expand(l, &c.ints("size")?))
}

fn squeeze_all(_: &Call<'_>, l: &Layout) -> Views {
    only(Ok(layout::squeeze(l, &(0..l.sizes.len()).collect::<Dims>())))
}

fn squeeze_dims(c: &Call<'_>, l: &Layout) -> Views {
    let dims = super::support::distinct_dims(&c.ints("dim")?, l.sizes.len())?;
    only(Ok(layout::squeeze(l, &dims)))
}

fn unsqueeze(c: &Call<'_>, l: &Layout) -> Views {
    only(layout::unsqueeze(l, c.int("dim")?))
}

fn slice(c: &Call<'_>, l: &Layout) -> Views {
    if c.brought_to_copy("start")?.is_some() {
        return Ok(None);
    }
    let (start, end) = (c.optional_int("start")?, c.optional_int("end")?);
    only(layout::slice(l, c.int("dim")?, start, end, c.int("step")?))
}

/// A slice whose start need not decide the program.
fn sliced(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let Some((start, shape)) = c.brought_to_copy("start")? else { return copied(c, b, slice) };
    let (v, step) = (c.tensor(b, "self")?, c.int("step")?);
    let (from, d) = (b.shape(v), super::support::dim(c.int("dim")?, shape.len())?);
    ensure!(step > 0, "slice step must be positive");
    let (length, step) = (shape[d], step as usize);
    if length == 0 {
        return one(b.slice_dim(v, d, 0, 0, 1)?);
    }
    let span = (length - 1) * step + 1;
    let all = part(b, v, d, c.place(b, &start, from[d])?, span)?;
    one(b.slice_dim(all, d, 0, span, step)?)
}

/// A place of a dimension that need not decide the program.
fn selected(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let Some((index, shape)) = c.brought_to_copy("index")? else { return copied(c, b, select) };
    let v = c.tensor(b, "self")?;
    let (d, _) = layout::select_index(&b.shape(v), c.int("dim")?, index.now().as_i64())?;
    one(b.reshape(part(b, v, d, c.place(b, &index, b.shape(v)[d])?, 1)?, shape)?)
}

fn select(c: &Call<'_>, l: &Layout) -> Views {
    if c.brought_to_copy("index")?.is_some() {
        return Ok(None);
    }
    only(layout::select(l, c.int("dim")?, c.int("index")?))
}

fn narrow(c: &Call<'_>, l: &Layout) -> Views {
    only(layout::narrow(l, c.int("dim")?, c.int("start")?, c.int("length")?))
}

fn diagonal(c: &Call<'_>, l: &Layout) -> Views {
    only(layout::diagonal(l, c.int("offset")?, c.int("dim1")?, c.int("dim2")?))
}

fn unfold(c: &Call<'_>, l: &Layout) -> Views {
    only(layout::unfold(l, c.int("dimension")?, c.int("size")?, c.int("step")?))
}

fn as_strided(c: &Call<'_>, l: &Layout) -> Views {
    only(layout::as_strided(l, &c.sizes("size")?, &c.ints("stride")?, c.optional_int("storage_offset")?))
}
