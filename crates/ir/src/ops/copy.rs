//! Copies, conversions, aliases, and assertions.

use super::support::expand_to;
use super::{Call, MemoryFormat, OpDef, Outs, Sample, err, ok, one};
use crate::alias::Layout;
use crate::builder::Builder;
use crate::error::Result;
use crate::{DType, ensure};

/// `aten::NAME(Tensor self) -> Tensor`, the value of `self`.
macro_rules! copied {
    ($name:literal, [$($variant:literal),*]) => {
        OpDef::new(concat!("aten::", $name, "(Tensor self) -> Tensor"), same_value, SAME).variants(&[$($variant),*])
    };
}

/// `aten::NAME(Tensor(a) self) -> Tensor(a)`, `self` itself.
macro_rules! aliased {
    ($name:literal, [$($variant:literal),*]) => {
        OpDef::view(concat!("aten::", $name, "(Tensor self) -> Tensor"), same_layout, SAME).variants(&[$($variant),*])
    };
}

/// `aten::NAME(Tensor self, ...) -> Tensor`, `self` converted, or itself where nothing changes.
macro_rules! converted {
    ($schema:literal, $samples:expr) => {
        OpDef::maybe_view($schema, same_if_unchanged, convert, $samples)
    };
}

/// What writes one tensor to another.
pub(super) const NAME: &str = "aten::copy.default";

pub(super) static OPS: &[OpDef] = &[
    aliased!("alias", []),
    aliased!("detach", ["detach_"]),
    aliased!("lift_fresh", []),
    OpDef::maybe_view(
        "aten::resolve_conj(Tensor self) -> Tensor",
        |c, layout| Ok((!c.lazy("self")?.conjugate).then(|| vec![layout.clone()])),
        same_value,
        SAME,
    ),
    OpDef::maybe_view(
        "aten::resolve_neg(Tensor self) -> Tensor",
        |c, layout| Ok((!c.lazy("self")?.negative).then(|| vec![layout.clone()])),
        same_value,
        SAME,
    ),
    OpDef::view(
        "aten::positive(Tensor self) -> Tensor",
        |c, layout| {
            ensure!(c.dtype_of("self")? != DType::Bool, "The `+` operator, on a bool tensor is not supported.");
            same_layout(c, layout)
        },
        &[ok("f32[3]"), err("bool[2]", "The `+` operator, on a bool tensor is not supported.")],
    ),
    copied!("alias_copy", ["alias_copy.out"]),
    copied!("detach_copy", ["detach_copy.out"]),
    copied!("lift", ["lift.out"]),
    copied!("lift_fresh_copy", ["lift_fresh_copy.out"]),
    OpDef::new(
        "aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
        same_value,
        &[
            ok("f32[2,3]"),
            ok("f32[2,3]:[1,2]"),
            ok("i64[]"),
            ok("f32[1,2,2,2], memory_format=channels_last"),
            ok("f32[2,3]:[1,2], memory_format=contiguous_format"),
        ],
    )
    .variants(&["clone.out"]),
    OpDef::new(
        "aten::copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor",
        |c, b| {
            let src = b.cast(c.tensor(b, "src")?, c.dtype_of("self")?)?;
            one(expand_to(b, src, &c.layout("self")?.sizes)?)
        },
        &[
            ok("f32[2,3], f32[3]"),
            ok("i64[2], f32[2]"),
            ok("bf16[2,1], f64[]"),
            ok("bool[3], f32[3]"),
            err("f32[2], f32[3]", "must match the existing size (3)"),
        ],
    )
    .variants(&["copy_", "copy.out"]),
    OpDef::new(
        "aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
        convert,
        &[
            ok("f32[2,3], dtype=bf16"),
            ok("f32[9]{-9..9}, dtype=i64"),
            ok("f32[5]{0,-0.0,nan,0.5,inf}, dtype=bool"),
            ok("i64[9], dtype=u8"),
            ok("i64[9], dtype=f16"),
            ok("bool[3], dtype=f32"),
            ok("f32[3], dtype=c64"),
            ok("f32[3]"),
            ok("f64[4]{1e300,-1e300,1e-300,1}, dtype=f32"),
        ],
    )
    .variants(&["_to_copy.out"]),
    aliased!("cpu", []),
    converted!(
        "aten::to.dtype(Tensor self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor",
        &[ok("f32[3], bf16"), ok("f32[3], f32"), ok("f32[3], f32, copy=true"), ok("i64[3], bool")]
    ),
    converted!(
        "aten::to.device(Tensor self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor",
        &[ok("f32[3], device(cpu), f16"), ok("f32[3], device(cpu), f32")]
    ),
    converted!(
        "aten::to.dtype_layout(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor",
        &[
            ok("f32[3], dtype=f64"),
            ok("f32[3], device=device(cpu), layout=strided"),
            ok("f32[3], copy=true"),
            ok("f32[2,3]:[1,2], memory_format=contiguous_format"),
        ]
    ),
    converted!(
        "aten::to.other(Tensor self, Tensor other, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor",
        &[ok("f32[3], i64[2]"), ok("f32[3], f32[]")]
    ),
    converted!("aten::type_as(Tensor self, Tensor other) -> Tensor", &[ok("f32[3], i64[2]"), ok("f32[3], f32[]")]),
    OpDef::maybe_view(
        "aten::contiguous(Tensor self, *, MemoryFormat memory_format=contiguous_format) -> Tensor",
        |c, layout| {
            let format = c.memory_format("memory_format")?.unwrap_or(MemoryFormat::Contiguous);
            Ok(has_format(layout, format).then(|| vec![layout.clone()]))
        },
        same_value,
        &[ok("f32[2,3]"), ok("f32[2,3]:[1,2]"), ok("f32[2,3,4,5], memory_format=channels_last"), ok("f32[0,3]:[1,1]")],
    ),
    OpDef::new(
        "prims::convert_element_type(Tensor a, ScalarType dtype) -> Tensor",
        |c, b| {
            let dtype = c.optional_dtype("dtype")?.unwrap_or(c.dtype_of("a")?);
            one(b.cast(c.tensor(b, "a")?, dtype)?)
        },
        &[ok("f32[3], bf16"), ok("i64[3], f32"), ok("f32[3], f32")],
    ),
];

const SAME: &[Sample] = &[ok("f32[2,3]"), ok("f32[2,3]:[1,2]"), ok("i64[]"), ok("bool[0]")];
fn same_value(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    one(c.tensor(b, "self")?)
}

fn same_layout(_: &Call<'_>, layout: &Layout) -> Result<Option<Vec<Layout>>> {
    Ok(Some(vec![layout.clone()]))
}

/// The type asked for by `dtype` or `other`, else that of `self`.
fn wanted_dtype(c: &Call<'_>) -> Result<DType> {
    if c.schema.position("other").is_some() {
        return c.dtype_of("other");
    }
    c.optional_dtype("dtype")?.map_or_else(|| c.dtype_of("self"), Ok)
}

fn convert(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    one(b.cast(c.tensor(b, "self")?, wanted_dtype(c)?)?)
}

/// `self` itself, unless another type, a copy or another memory format is asked for. Devices do not count: a program
/// runs on one.
fn same_if_unchanged(c: &Call<'_>, layout: &Layout) -> Result<Option<Vec<Layout>>> {
    let given = |name| c.schema.position(name).is_some();
    let copy = given("copy") && c.flag("copy")?;
    let format = if given("memory_format") { c.memory_format("memory_format")? } else { None };
    let fits = has_format(layout, format.unwrap_or(MemoryFormat::Preserve));
    let unchanged = !copy && fits && wanted_dtype(c)? == c.dtype_of("self")?;
    Ok(unchanged.then(|| vec![layout.clone()]))
}

/// Whether elements lie in the order of `format`.
fn has_format(layout: &Layout, format: MemoryFormat) -> bool {
    let rank = layout.sizes.len();
    let order: Vec<usize> = match format {
        MemoryFormat::Preserve => return true,
        MemoryFormat::Contiguous => (0..rank).collect(),
        MemoryFormat::ChannelsLast if rank == 4 => vec![0, 2, 3, 1],
        MemoryFormat::ChannelsLast3d if rank == 5 => vec![0, 2, 3, 4, 1],
        MemoryFormat::ChannelsLast | MemoryFormat::ChannelsLast3d => return false,
    };
    let mut step = 1usize;
    for &d in order.iter().rev() {
        if layout.sizes[d] != 1 && layout.strides[d] != step {
            return layout.sizes.contains(&0);
        }
        step = step.saturating_mul(layout.sizes[d]);
    }
    true
}
