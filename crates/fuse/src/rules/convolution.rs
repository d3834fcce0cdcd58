//! Convolutions: operands and results as they lie, padding and scales of channels taken in.

use super::shapes::{inverse, operand, permutation, permuted};
use crate::change::Class::{Exact, Reassociating};
use crate::language::Kind;
use crate::rule::{Edit, Right, Rule};
use egg::Id;
use ir::op::{Binary, Convolution};
use ir::{DType, Dims, Number, Op, Shape};

pub(super) static RULES: &[Rule] = &[
    Rule {
        name: "convolution-of-transposed-input",
        class: Exact,
        why: "a convolution reads its input in any layout",
        left: "(convolution (transpose ?x ?p) ?k ?c)",
        right: Right::Build("(convolution ?x ?k ?c[?p])", |e| {
            let (p, mut c) = (permutation(e, "p")?, convolution(e)?);
            (c.input_batch, c.input_feature) = (p[c.input_batch], p[c.input_feature]);
            c.input_spatial = permuted(&p, &c.input_spatial);
            e.push(&Op::Convolution(c), &[e.var("x"), e.var("k")])
        }),
    },
    Rule {
        name: "convolution-of-transposed-kernel",
        class: Exact,
        why: "a convolution reads its kernel in any layout",
        left: "(convolution ?x (transpose ?k ?p) ?c)",
        right: Right::Build("(convolution ?x ?k ?c[?p])", |e| {
            let (p, mut c) = (permutation(e, "p")?, convolution(e)?);
            c.kernel_input_feature = p[c.kernel_input_feature];
            c.kernel_output_feature = p[c.kernel_output_feature];
            c.kernel_spatial = permuted(&p, &c.kernel_spatial);
            e.push(&Op::Convolution(c), &[e.var("x"), e.var("k")])
        }),
    },
    Rule {
        name: "transpose-of-convolution",
        class: Exact,
        why: "a convolution writes its result in any layout",
        left: "(transpose (convolution ?x ?k ?c) ?p)",
        right: Right::Build("(convolution ?x ?k ?c[?p])", |e| {
            let (p, mut c) = (permutation(e, "p")?, convolution(e)?);
            let at = inverse(&p);
            (c.output_batch, c.output_feature) = (at[c.output_batch], at[c.output_feature]);
            c.output_spatial = permuted(&at, &c.output_spatial);
            e.push(&Op::Convolution(c), &[e.var("x"), e.var("k")])
        }),
    },
    Rule {
        name: "convolution-of-padded",
        class: Reassociating,
        why: "a convolution pads on the way",
        left: "(convolution (pad ?x ?v ?a) ?k ?c)",
        right: Right::Build(
            "(convolution ?x ?k ?c), padded and dilated by ?a too, where ?v is 0 and only spatial dimensions are padded",
            |e| {
                let (Op::Pad { low, high, interior }, mut c) = (&*e.op("a")?, convolution(e)?) else { return None };
                let zero = [0.0, -0.0].iter().any(|&n| e.is(e.var("v"), Number::Float(n)));
                let shape = e.shape(e.var("x"))?;
                let idle = |d: usize| low[d] == 0 && high[d] == 0 && interior[d] == 0;
                if !zero || !idle(c.input_batch) || !idle(c.input_feature) || e.is_infinite(e.var("k")) {
                    return None;
                }
                for (i, &d) in c.input_spatial.iter().enumerate() {
                    // Padding counts steps of the dilated input; a crop would have to fall between them.
                    if c.lhs_dilation[i] != 1 && !idle(d) || low[d] < 0 || high[d] < 0 || shape[d] == 0 {
                        return None;
                    }
                    c.padding[i] = (c.padding[i].0 + low[d], c.padding[i].1 + high[d]);
                    c.lhs_dilation[i] *= interior[d] + 1;
                }
                e.push(&Op::Convolution(c), &[e.var("x"), e.var("k")])
            },
        ),
    },
    Rule {
        name: "scaled-convolution",
        class: Reassociating,
        why: "the kernel is smaller than the result",
        left: "(multiply (convolution ?x ?k ?c) ?s)",
        right: Right::Build(
            "(convolution ?x (multiply ?k ?s) ?c), where ?s is a splat or a broadcast along the output features",
            |e| {
                let (s, channels) = (e.var("s"), channels(e, "s")?);
                let (c, kernel) = (convolution(e)?, e.ty(e.var("k"))?);
                let wide = kernel.dtype == c.out && matches!(c.out, DType::F32 | DType::F64 | DType::BF16);
                if !wide || e.is_infinite(s) || e.is_infinite(e.var("k")) || kernel.numel() >= e.ty(e.root())?.numel() {
                    return None;
                }
                let factor = along(e, channels, &kernel.shape, c.kernel_output_feature)?;
                let scaled = e.binary(Binary::Multiply, e.var("k"), factor)?;
                e.push(&Op::Convolution(c), &[e.var("x"), scaled])
            },
        ),
    },
    Rule {
        name: "product-of-difference-by-channel",
        class: Reassociating,
        why: "the shift is computed for channels, and the scale meets the convolution",
        left: "(multiply (subtract (convolution ?x ?k ?c) ?m) ?s)",
        right: Right::Build(
            "(subtract (multiply (convolution ?x ?k ?c) ?s) (multiply ?m ?s)), where ?m and ?s are broadcast along the output features",
            |e| distributed(e, Binary::Subtract),
        ),
    },
    Rule {
        name: "product-of-sum-by-channel",
        class: Reassociating,
        why: "the shift is computed for channels, and the scale meets the convolution",
        left: "(multiply (add (convolution ?x ?k ?c) ?m) ?s)",
        right: Right::Build(
            "(add (multiply (convolution ?x ?k ?c) ?s) (multiply ?m ?s)), where ?m and ?s are broadcast along the output features",
            |e| distributed(e, Binary::Add),
        ),
    },
    Rule {
        name: "products-by-channel",
        class: Reassociating,
        why: "factors are multiplied for channels",
        left: "(multiply (multiply ?x ?s) ?t)",
        right: Right::Build("(multiply ?x (multiply ?s ?t)), where ?s and ?t are broadcast along one dimension", |e| {
            let factor = for_channels(e, Binary::Multiply, "s", "t")?;
            e.binary(Binary::Multiply, e.var("x"), factor)
        }),
    },
    Rule {
        name: "shifts-by-channel",
        class: Reassociating,
        why: "shifts are added for channels",
        left: "(add (subtract ?x ?s) ?t)",
        right: Right::Build("(add ?x (subtract ?t ?s)), where ?s and ?t are broadcast along one dimension", |e| {
            let shift = for_channels(e, Binary::Subtract, "t", "s")?;
            e.binary(Binary::Add, e.var("x"), shift)
        }),
    },
    Rule {
        name: "sums-by-channel",
        class: Reassociating,
        why: "shifts are added for channels",
        left: "(add (add ?x ?s) ?t)",
        right: Right::Build("(add ?x (add ?t ?s)), where ?s and ?t are broadcast along one dimension", |e| {
            let shift = for_channels(e, Binary::Add, "t", "s")?;
            e.binary(Binary::Add, e.var("x"), shift)
        }),
    },
];

/// The convolution that `?c` names.
fn convolution(e: &Edit<'_>) -> Option<Convolution> {
    match &*e.op("c")? {
        Op::Convolution(c) => Some(c.clone()),
        _ => None,
    }
}

/// A 1-d value along the output features of `?c` of which `?name` is a broadcast, or a 0-d one.
fn channels(e: &mut Edit<'_>, name: &str) -> Option<Id> {
    let feature = convolution(e)?.output_feature;
    let (small, dim) = channel(e, e.var(name))?;
    dim.is_none_or(|d| d == feature).then_some(small)
}

/// What `x` is a broadcast of along one dimension, and that dimension; of one element along none.
fn channel(e: &mut Edit<'_>, x: Id) -> Option<(Id, Option<usize>)> {
    if let Some(element) = e.splat(x) {
        return Some((e.filled(&element, &Shape::new())?, None));
    }
    let (full, (small, op)) = (e.shape(x)?, operand(e, x, Kind::BroadcastInDim, |_| true)?);
    let Op::BroadcastInDim { dims, .. } = op else { return None };
    let extents = e.shape(small)?;
    let kept: Vec<usize> = (0..dims.len()).filter(|&i| extents[i] == full[dims[i]] && extents[i] != 1).collect();
    match kept[..] {
        [] => Some((e.reshape(small, &[])?, None)),
        [i] => Some((e.reshape(small, &[extents[i]])?, Some(dims[i]))),
        _ => None,
    }
}

/// A value of channels broadcast to `shape`, along `dim`.
fn along(e: &mut Edit<'_>, channels: Id, shape: &[usize], dim: usize) -> Option<Id> {
    let dims: Dims = e.shape(channels)?.iter().map(|_| dim).collect();
    e.broadcast_in_dim(channels, shape, &dims)
}

/// `op` of two operands that vary along one dimension at most, computed along that alone; the wider type of sums stays.
fn for_channels(e: &mut Edit<'_>, op: Binary, a: &str, b: &str) -> Option<Id> {
    let (a, b, ty) = (e.var(a), e.var(b), e.ty(e.root())?);
    let wide = matches!(ty.dtype, DType::F32 | DType::F64 | DType::BF16);
    let ((a, of_a), (b, of_b)) = (channel(e, a)?, channel(e, b)?);
    let dim = of_a.or(of_b).filter(|_| of_a == of_b || of_a.is_none() || of_b.is_none())?;
    if !wide || e.is_infinite(a) || e.is_infinite(b) {
        return None;
    }
    let extent = [ty.shape[dim]];
    let (a, b) = (along(e, a, &extent, 0)?, along(e, b, &extent, 0)?);
    let both = e.binary(op, a, b)?;
    along(e, both, &ty.shape, dim)
}

/// `(convolution ± ?m) * ?s` as `convolution * ?s ± ?m * ?s`.
fn distributed(e: &mut Edit<'_>, op: Binary) -> Option<Id> {
    let (c, s) = (convolution(e)?, e.var("s"));
    channels(e, "m")?;
    channels(e, "s")?;
    let shift = for_channels(e, Binary::Multiply, "m", "s")?;
    let product = e.push(&Op::Convolution(c), &[e.var("x"), e.var("k")])?;
    let scaled = e.binary(Binary::Multiply, product, s)?;
    e.binary(op, scaled, shift)
}
