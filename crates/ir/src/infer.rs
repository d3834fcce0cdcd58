//! Type inference for core ops: the only judge of what a well-typed node is. The verifier calls it again.

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::Graph;
use crate::op::*;
use crate::types::{Dims, Shape, TensorType, Type};
use crate::{ensure, invalid};
use std::sync::Arc;

mod hosts;

/// The type of `op` applied to operands of types `args`. `Op::Input` has none of its own and is refused.
///
/// # Errors
/// `Invalid`, saying which rule the operands or attributes break.
pub fn infer(op: &Op, args: &[&Type], bodies: &[Arc<Graph>]) -> Result<Type> {
    let ty = match op {
        Op::GetTupleElement { index } => return element(args, *index),
        Op::While => return infer_while(args, bodies),
        Op::If => return infer_if(args, bodies),
        Op::Lapack { .. } | Op::Grouped { .. } | Op::Routine(_) => return infer_lapack(args, bodies),
        Op::HostRows => return hosts::rows(infer_lapack(args, bodies)?, bodies),
        _ => infer_tensors(op, &tensors(args)?)?,
    };
    ty.tensors().iter().try_for_each(addressable)?;
    Ok(ty)
}

/// That a tensor of type `t` has a size in bytes that a machine could address.
///
/// # Errors
/// `Invalid` otherwise.
pub fn addressable(t: &TensorType) -> Result<()> {
    let bytes = t.checked_numel().and_then(|n| n.checked_mul(t.dtype.size()));
    ensure!(bytes.is_some_and(|b| b <= isize::MAX as usize), "a tensor of type {t} is too large");
    Ok(())
}

fn tensors<'a>(args: &[&'a Type]) -> Result<Vec<&'a TensorType>> {
    let tensor = |t: &&'a Type| t.tensor();
    match args.iter().map(tensor).collect() {
        Some(ts) => Ok(ts),
        None => invalid!("a tuple is no operand here; project it with get_tuple_element"),
    }
}

fn arity<'a, const N: usize>(args: &[&'a TensorType]) -> Result<[&'a TensorType; N]> {
    match args.try_into() {
        Ok(a) => Ok(a),
        Err(_) => invalid!("takes {N} operands, got {}", args.len()),
    }
}

fn element(args: &[&Type], index: usize) -> Result<Type> {
    match args {
        [Type::Tuple(ts)] if index < ts.len() => Ok(ts[index].clone().into()),
        [Type::Tuple(ts)] => invalid!("element {index} of a tuple of {}", ts.len()),
        _ => invalid!("takes one tuple"),
    }
}

fn infer_tensors(op: &Op, args: &[&TensorType]) -> Result<Type> {
    let one = || arity::<1>(args).map(|[a]| a);
    Ok(match op {
        Op::Input { .. } => invalid!("an input's type is declared, not inferred"),
        Op::Constant(l) => {
            arity::<0>(args)?;
            let n = l.ty.checked_numel().and_then(|n| n.checked_mul(l.ty.dtype.size()));
            ensure!(l.is_splat() || n == Some(l.bytes.len()), "the literal's bytes do not fit {}", l.ty);
            l.ty.clone().into()
        }
        Op::Iota { dtype, shape, dim } => {
            arity::<0>(args)?;
            ensure!(*dim < shape.len(), "dimension {dim} of a {}-d iota", shape.len());
            ensure!(*dtype != DType::Bool, "iota does not count in bool");
            TensorType { dtype: *dtype, shape: shape.clone() }.into()
        }
        Op::Unary(u) => unary(*u, one()?)?.into(),
        Op::Binary(b) => binary(*b, arity(args)?)?.into(),
        Op::Compare(c) => compare(*c, arity(args)?)?.into(),
        Op::Select => select(arity(args)?)?.into(),
        Op::Convert { dtype } => TensorType { dtype: *dtype, shape: one()?.shape.clone() }.into(),
        Op::BitcastConvert { dtype } => bitcast(one()?, *dtype)?.into(),
        Op::BroadcastInDim { shape, dims } => broadcast_in_dim(one()?, shape, dims)?.into(),
        Op::Reshape { shape } => {
            let a = one()?;
            let t = TensorType { dtype: a.dtype, shape: shape.clone() };
            ensure!(t.checked_numel() == a.checked_numel(), "{a} and {t} differ in their number of elements");
            t.into()
        }
        Op::Transpose { permutation } => {
            let a = one()?;
            ensure!(is_permutation(permutation, a.rank()), "{permutation:?} does not permute {a}");
            TensorType::new(a.dtype, permutation.iter().map(|&d| a.shape[d])).into()
        }
        Op::Slice { start, limit, stride } => slice(one()?, start, limit, stride)?.into(),
        Op::DynamicSlice { sizes } => dynamic_slice(args, sizes)?.into(),
        Op::DynamicUpdateSlice => dynamic_update_slice(args)?.into(),
        Op::Concatenate { dim } => concatenate(args, *dim)?.into(),
        Op::Pad { low, high, interior } => pad(arity(args)?, low, high, interior)?.into(),
        Op::Reverse { dims } => {
            let a = one()?;
            ensure!(distinct_below(dims, a.rank()), "cannot reverse dimensions {dims:?} of {a}");
            a.clone().into()
        }
        Op::Gather(g) => gather(g, arity(args)?)?.into(),
        Op::Scatter(s) => scatter(s, arity(args)?)?.into(),
        Op::HostScatter(s) => {
            let [a, indices, updates] = arity(args)?;
            let out = scatter(s, [a, indices, updates])?;
            ensure!(
                s.hosted(a, indices, updates).is_some(),
                "the host has no scatter of {updates} at {indices} into {a}"
            );
            out.into()
        }
        Op::DotGeneral(d) => dot_general(d, arity(args)?)?.into(),
        Op::Convolution(c) => convolution(c, arity(args)?)?.into(),
        Op::Finished(f) => finished(f, args)?.into(),
        Op::Reduce { reducer, dims } => reduced(*reducer, args, |shape| {
            ensure!(
                distinct_below(dims, shape.len()),
                "cannot reduce dimensions {dims:?} of a {}-d tensor",
                shape.len()
            );
            Ok(shape.iter().enumerate().filter(|(i, _)| !dims.contains(i)).map(|(_, &d)| d).collect())
        })?,
        Op::ReduceWindow { reducer, window } => reduced(*reducer, args, |shape| windowed(shape, window))?,
        Op::SelectAndScatter { window } => {
            let [a, source] = arity(args)?;
            let no_dilation = window.dilation.iter().chain(&window.base_dilation).all(|&d| d == 1);
            ensure!(no_dilation, "select_and_scatter has no dilation");
            ensure!(
                windowed(&a.shape, window)? == source.shape,
                "source {source} does not have one element a window of {a}"
            );
            ensure!(a.dtype == source.dtype, "operand is {} but source is {}", a.dtype, source.dtype);
            a.clone().into()
        }
        Op::Sort { dim, .. } => sort(args, *dim)?,
        Op::Fft { kind, lengths } => fft(one()?, *kind, lengths)?,
        Op::TopK { k } => top_k(one()?, *k)?,
        Op::OptimizationBarrier => {
            ensure!(!args.is_empty(), "takes at least one operand");
            one_or_tuple(args)
        }
        Op::HostBarrier => {
            let [value, ..] = args else { invalid!("takes at least one operand") };
            (*value).clone().into()
        }
        Op::HostUnary(_) | Op::HostBinary(_) | Op::HostScan(_) | Op::HostSort(_) => hosts::infer(op, args)?,
        Op::RngBitGenerator { dtype, shape } => {
            let state = one()?;
            ensure!(*state == TensorType::new(DType::U64, [2]), "the state is {state}, not u64[2]");
            ensure!(matches!(dtype, DType::U32 | DType::U64), "random bits come as u32 or u64, not {dtype}");
            Type::Tuple(vec![state.clone(), TensorType { dtype: *dtype, shape: shape.clone() }])
        }
        Op::While
        | Op::If
        | Op::Lapack { .. }
        | Op::Grouped { .. }
        | Op::Routine(_)
        | Op::HostRows
        | Op::GetTupleElement { .. } => {
            invalid!("handled before tensors are asked for")
        }
    })
}

fn unary(u: Unary, a: &TensorType) -> Result<TensorType> {
    use Unary::*;
    let d = a.dtype;
    let with = |dtype| Ok(TensorType { dtype, shape: a.shape.clone() });
    let allowed = match u {
        Real | Imag => d.is_complex(),
        IsFinite | Floor | Ceil | RoundNearestEven => d.is_float(),
        Abs | Negate | Sign => d != DType::Bool,
        Not => d.is_int() || d == DType::Bool,
        Popcnt | CountLeadingZeros => d.is_int(),
        Cbrt | Erf | Erfc | ErfInv | Lgamma | Digamma | BesselI1e => d.is_float(),
        _ => d.is_float() || d.is_complex(),
    };
    ensure!(allowed, "{u:?} is not defined on {d}");
    match u {
        Real | Imag => with(d.real()),
        Abs => with(d.real()),
        IsFinite => with(DType::Bool),
        _ => with(d),
    }
}

fn binary(b: Binary, [x, y]: [&TensorType; 2]) -> Result<TensorType> {
    use Binary::*;
    ensure!(x == y, "operands differ in type: {x} and {y}");
    let d = x.dtype;
    let allowed = match b {
        And | Or | Xor => d.is_int() || d == DType::Bool,
        ShiftLeft | ShiftRightArithmetic | ShiftRightLogical => d.is_int(),
        Complex => matches!(d, DType::F32 | DType::F64),
        Atan2 => d.is_float() || d.is_complex(),
        NextAfter | Zeta => d.is_float(),
        Remainder => !d.is_complex() && d != DType::Bool,
        Maximum | Minimum => !d.is_complex(),
        Add | Subtract | Multiply | Divide | Power => d != DType::Bool,
    };
    ensure!(allowed, "{b:?} is not defined on {d}");
    let dtype = match (b, d) {
        (Complex, DType::F32) => DType::C64,
        (Complex, _) => DType::C128,
        _ => d,
    };
    Ok(TensorType { dtype, shape: x.shape.clone() })
}

fn compare(c: Comparison, [x, y]: [&TensorType; 2]) -> Result<TensorType> {
    ensure!(x == y, "operands differ in type: {x} and {y}");
    let ordered = !matches!(c, Comparison::Eq | Comparison::Ne);
    ensure!(!(ordered && x.dtype.is_complex()), "complex numbers have no order");
    Ok(TensorType { dtype: DType::Bool, shape: x.shape.clone() })
}

fn select([p, t, f]: [&TensorType; 3]) -> Result<TensorType> {
    ensure!(p.dtype == DType::Bool, "the predicate is {}, not bool", p.dtype);
    ensure!(t == f, "the branches differ in type: {t} and {f}");
    ensure!(p.shape == t.shape, "the predicate is {p} but the branches are {t}");
    Ok(t.clone())
}

fn broadcast_in_dim(a: &TensorType, shape: &Shape, dims: &Dims) -> Result<TensorType> {
    ensure!(dims.len() == a.rank(), "{} dimension numbers for {a}", dims.len());
    ensure!(dims.windows(2).all(|w| w[0] < w[1]), "dimension numbers {dims:?} do not rise");
    for (i, &d) in dims.iter().enumerate() {
        ensure!(d < shape.len(), "dimension {d} of a {}-d result", shape.len());
        let fits = a.shape[i] == shape[d] || a.shape[i] == 1;
        ensure!(fits, "dimension {i} of {a} cannot become {}", shape[d]);
    }
    Ok(TensorType { dtype: a.dtype, shape: shape.clone() })
}

fn slice(a: &TensorType, start: &Dims, limit: &Dims, stride: &Dims) -> Result<TensorType> {
    let n = a.rank();
    ensure!(start.len() == n && limit.len() == n && stride.len() == n, "slice bounds do not match the rank of {a}");
    let mut shape = Shape::new();
    for i in 0..n {
        let ok = start[i] <= limit[i] && limit[i] <= a.shape[i] && stride[i] >= 1;
        ensure!(ok, "slice {}:{}:{} of dimension {i} of {a}", start[i], limit[i], stride[i]);
        shape.push((limit[i] - start[i]).div_ceil(stride[i]));
    }
    Ok(TensorType { dtype: a.dtype, shape })
}

fn starts(a: &TensorType, indices: &[&TensorType]) -> Result<()> {
    ensure!(indices.len() == a.rank(), "{} start indices for {a}", indices.len());
    let ok = |i: &&TensorType| i.rank() == 0 && i.dtype.is_int() && i.dtype == indices[0].dtype;
    ensure!(indices.iter().all(ok), "start indices are 0-d integers of one type");
    Ok(())
}

fn dynamic_slice(args: &[&TensorType], sizes: &Shape) -> Result<TensorType> {
    let [a, indices @ ..] = args else { invalid!("takes an operand and start indices") };
    starts(a, indices)?;
    let fits = sizes.len() == a.rank() && sizes.iter().zip(&a.shape).all(|(s, d)| s <= d);
    ensure!(fits, "a window of {sizes:?} does not fit {a}");
    Ok(TensorType { dtype: a.dtype, shape: sizes.clone() })
}

fn dynamic_update_slice(args: &[&TensorType]) -> Result<TensorType> {
    let [a, update, indices @ ..] = args else { invalid!("takes an operand, an update and start indices") };
    starts(a, indices)?;
    ensure!(a.dtype == update.dtype, "operand is {} but update is {}", a.dtype, update.dtype);
    let fits = update.rank() == a.rank() && update.shape.iter().zip(&a.shape).all(|(u, d)| u <= d);
    ensure!(fits, "an update {update} does not fit {a}");
    Ok((*a).clone())
}

fn concatenate(args: &[&TensorType], dim: usize) -> Result<TensorType> {
    let [first, rest @ ..] = args else { invalid!("takes at least one operand") };
    ensure!(dim < first.rank(), "dimension {dim} of {first}");
    let mut ty = (*first).clone();
    for t in rest {
        let same = |i: usize| i == dim || t.shape[i] == first.shape[i];
        let ok = t.dtype == first.dtype && t.rank() == first.rank() && (0..t.rank()).all(same);
        ensure!(ok, "{first} and {t} cannot be joined along dimension {dim}");
        ty.shape[dim] = match ty.shape[dim].checked_add(t.shape[dim]) {
            Some(n) => n,
            None => invalid!("the joined dimension overflows"),
        };
    }
    Ok(ty)
}

fn pad([a, value]: [&TensorType; 2], low: &SignedDims, high: &SignedDims, interior: &Dims) -> Result<TensorType> {
    ensure!(value.rank() == 0 && value.dtype == a.dtype, "the padding value is {value}, not {}[]", a.dtype);
    let n = a.rank();
    ensure!(low.len() == n && high.len() == n && interior.len() == n, "padding does not match the rank of {a}");
    let mut shape = Shape::new();
    for i in 0..n {
        let inner = a.shape[i] as i128 + a.shape[i].saturating_sub(1) as i128 * interior[i] as i128;
        let d = inner + i128::from(low[i]) + i128::from(high[i]);
        match usize::try_from(d) {
            Ok(d) => shape.push(d),
            Err(_) => invalid!("padding dimension {i} of {a} by {} and {} leaves extent {d}", low[i], high[i]),
        }
    }
    Ok(TensorType { dtype: a.dtype, shape })
}

fn gather(g: &Gather, [a, indices]: [&TensorType; 2]) -> Result<TensorType> {
    ensure!(indices.dtype.is_int(), "indices are {}, not integers", indices.dtype);
    ensure!(g.index_vector_dim <= indices.rank(), "index_vector_dim {} of {indices}", g.index_vector_dim);
    ensure!(g.slice_sizes.len() == a.rank(), "{} slice sizes for {a}", g.slice_sizes.len());
    ensure!(g.slice_sizes.iter().zip(&a.shape).all(|(s, d)| s <= d), "a slice of {:?} does not fit {a}", g.slice_sizes);
    let vector = indices.shape.get(g.index_vector_dim).copied().unwrap_or(1);
    ensure!(
        vector == g.start_index_map.len(),
        "index vectors of {vector} for {} mapped dimensions",
        g.start_index_map.len()
    );
    ensure!(distinct_below(&g.start_index_map, a.rank()), "start_index_map {:?} of {a}", g.start_index_map);
    let gone: Dims = g.collapsed_slice_dims.iter().chain(&g.operand_batching_dims).copied().collect();
    ensure!(distinct_below(&gone, a.rank()), "collapsed or batching dimensions {gone:?} of {a}");
    ensure!(gone.iter().all(|&d| g.slice_sizes[d] <= 1), "a collapsed dimension's slice size is at most 1");
    batching(&g.operand_batching_dims, a, &g.start_indices_batching_dims, indices)?;
    let mut window = (0..a.rank()).filter(|d| !gone.contains(d)).map(|d| g.slice_sizes[d]);
    let mut batch = (0..indices.rank()).filter(|&d| d != g.index_vector_dim).map(|d| indices.shape[d]);
    let rank = a.rank() - gone.len() + indices.rank() - usize::from(g.index_vector_dim < indices.rank());
    ensure!(
        distinct_below(&g.offset_dims, rank) && g.offset_dims.len() == a.rank() - gone.len(),
        "offset_dims {:?}",
        g.offset_dims
    );
    let mut next = |i: usize| if g.offset_dims.contains(&i) { window.next() } else { batch.next() };
    let shape: Option<Shape> = (0..rank).map(&mut next).collect();
    match shape {
        Some(shape) => Ok(TensorType { dtype: a.dtype, shape }),
        None => invalid!("offset_dims {:?} do not match the result's rank {rank}", g.offset_dims),
    }
}

fn batching(dims: &Dims, a: &TensorType, index_dims: &Dims, indices: &TensorType) -> Result<()> {
    ensure!(dims.len() == index_dims.len(), "batching dimensions {dims:?} and {index_dims:?} do not pair up");
    ensure!(distinct_below(index_dims, indices.rank()), "index batching dimensions {index_dims:?} of {indices}");
    let equal = dims.iter().zip(index_dims).all(|(&d, &i)| a.shape[d] == indices.shape[i]);
    ensure!(equal, "batching dimensions of {a} and {indices} differ in extent");
    Ok(())
}

fn scatter(s: &Scatter, [a, indices, updates]: [&TensorType; 3]) -> Result<TensorType> {
    ensure!(indices.dtype.is_int(), "indices are {}, not integers", indices.dtype);
    ensure!(a.dtype == updates.dtype, "operand is {} but updates are {}", a.dtype, updates.dtype);
    ensure!(s.index_vector_dim <= indices.rank(), "index_vector_dim {} of {indices}", s.index_vector_dim);
    let vector = indices.shape.get(s.index_vector_dim).copied().unwrap_or(1);
    let map = &s.scatter_dims_to_operand_dims;
    ensure!(vector == map.len(), "index vectors of {vector} for {} mapped dimensions", map.len());
    ensure!(distinct_below(map, a.rank()), "scatter_dims_to_operand_dims {map:?} of {a}");
    let gone: Dims = s.inserted_window_dims.iter().chain(&s.input_batching_dims).copied().collect();
    ensure!(distinct_below(&gone, a.rank()), "inserted or batching dimensions {gone:?} of {a}");
    batching(&s.input_batching_dims, a, &s.scatter_indices_batching_dims, indices)?;
    let window: Dims = (0..a.rank()).filter(|d| !gone.contains(d)).collect();
    let batch: Dims = (0..indices.rank()).filter(|&d| d != s.index_vector_dim).collect();
    ensure!(
        updates.rank() == window.len() + batch.len(),
        "updates {updates} do not have rank {}",
        window.len() + batch.len()
    );
    ensure!(
        distinct_below(&s.update_window_dims, updates.rank()) && s.update_window_dims.len() == window.len(),
        "update_window_dims {:?}",
        s.update_window_dims
    );
    let (mut w, mut b) = (window.iter(), batch.iter());
    for (i, &extent) in updates.shape.iter().enumerate() {
        let fits = if s.update_window_dims.contains(&i) {
            w.next().is_some_and(|&d| extent <= a.shape[d])
        } else {
            b.next().is_some_and(|&d| extent == indices.shape[d])
        };
        ensure!(fits, "dimension {i} of updates {updates} does not fit {a} and {indices}");
    }
    Ok(a.clone())
}

fn dot_general(d: &DotGeneral, [l, r]: [&TensorType; 2]) -> Result<TensorType> {
    ensure!(l.dtype == r.dtype, "operands are {} and {}", l.dtype, r.dtype);
    accumulates(l.dtype, d.out)?;
    let gone = |batch: &Dims, contract: &Dims| -> Dims { batch.iter().chain(contract).copied().collect() };
    let (lg, rg) = (gone(&d.lhs_batch, &d.lhs_contract), gone(&d.rhs_batch, &d.rhs_contract));
    ensure!(distinct_below(&lg, l.rank()) && distinct_below(&rg, r.rank()), "dimension numbers {d:?} for {l} and {r}");
    let paired = d.lhs_batch.len() == d.rhs_batch.len() && d.lhs_contract.len() == d.rhs_contract.len();
    ensure!(paired, "dimension numbers {d:?} do not pair up");
    for (&i, &j) in lg.iter().zip(&rg) {
        ensure!(
            l.shape[i] == r.shape[j],
            "dimension {i} of {l} and {j} of {r} differ: {} and {}",
            l.shape[i],
            r.shape[j]
        );
    }
    let free = |t: &TensorType, gone: &Dims| -> Shape {
        (0..t.rank()).filter(|i| !gone.contains(i)).map(|i| t.shape[i]).collect()
    };
    ensure!(!d.host || d.strided(l, r).is_some(), "no BLAS takes {l} and {r} for {d:?}");
    let batch = d.lhs_batch.iter().map(|&i| l.shape[i]);
    Ok(TensorType::new(d.out, batch.chain(free(l, &lg)).chain(free(r, &rg))))
}

fn finished(f: &Finished, args: &[&TensorType]) -> Result<TensorType> {
    let Some((&[lhs, rhs], added)) = args.split_first_chunk::<2>() else {
        invalid!("takes two operands and what is added")
    };
    let out = match &f.of {
        Op::DotGeneral(d) if d.host => dot_general(d, [lhs, rhs])?,
        Op::Convolution(c) if c.host => {
            let is_map = c.windows(lhs, rhs).is_some_and(|w| w.computes == hostcall::Computes::Map);
            ensure!(is_map, "a gradient is not finished: {c:?}");
            convolution(c, [lhs, rhs])?
        }
        of => invalid!("the host has no {of:?}"),
    };
    let features = f.features(out.rank(), rhs.rank()).map(|d| out.shape[d]);
    let feature = TensorType::new(out.dtype, features);
    let wanted = [(f.scale, &feature), (f.bias, &feature), (f.addend, &out)];
    let wanted: Vec<&TensorType> = wanted.into_iter().filter(|w| w.0).map(|w| w.1).collect();
    ensure!(added == wanted, "adds {added:?} to {out}, not {wanted:?}");
    Ok(out)
}

/// That a contraction of `operands` may give `out`: a type of the same kind, at least as wide.
fn accumulates(operands: DType, out: DType) -> Result<()> {
    let fits = out.category() == operands.category() && out.size() >= operands.size();
    ensure!(fits, "a contraction of {operands} gives no {out}");
    Ok(())
}

fn convolution(c: &Convolution, [x, k]: [&TensorType; 2]) -> Result<TensorType> {
    ensure!(x.dtype == k.dtype, "input is {} but kernel is {}", x.dtype, k.dtype);
    accumulates(x.dtype, c.out)?;
    let n = c.input_spatial.len();
    let lengths = [
        c.strides.len(),
        c.padding.len(),
        c.lhs_dilation.len(),
        c.rhs_dilation.len(),
        c.kernel_spatial.len(),
        c.output_spatial.len(),
    ];
    ensure!(lengths.iter().all(|&l| l == n), "attributes do not agree on {n} spatial dimensions");
    ensure!(x.rank() == n + 2 && k.rank() == n + 2, "input {x} and kernel {k} need rank {}", n + 2);
    let dims = |a: usize, b: usize, s: &Dims| -> Dims { [a, b].into_iter().chain(s.iter().copied()).collect() };
    let numbers = [
        dims(c.input_batch, c.input_feature, &c.input_spatial),
        dims(c.kernel_input_feature, c.kernel_output_feature, &c.kernel_spatial),
        dims(c.output_batch, c.output_feature, &c.output_spatial),
    ];
    ensure!(numbers.iter().all(|d| is_permutation(d, n + 2)), "dimension numbers {numbers:?}");
    let (groups, batches) = (c.feature_group_count, c.batch_group_count);
    ensure!(groups >= 1 && batches >= 1 && (groups == 1 || batches == 1), "groups {groups} and {batches}");
    let (features, outs) = (x.shape[c.input_feature], k.shape[c.kernel_output_feature]);
    let per_group = k.shape[c.kernel_input_feature];
    ensure!(
        per_group.checked_mul(groups) == Some(features),
        "{features} input features for {groups} groups of {per_group}"
    );
    ensure!(outs % groups == 0 && outs % batches == 0, "{outs} output features do not split into groups");
    ensure!(x.shape[c.input_batch] % batches == 0, "the batch does not split into {batches} groups");
    let mut window = Window::trivial(n);
    window.size = c.kernel_spatial.iter().map(|&d| k.shape[d]).collect();
    (window.strides, window.dilation) = (c.strides.clone(), c.rhs_dilation.clone());
    (window.base_dilation, window.padding) = (c.lhs_dilation.clone(), c.padding.iter().copied().collect());
    let input: Shape = c.input_spatial.iter().map(|&d| x.shape[d]).collect();
    let spatial = windowed(&input, &window)?;
    ensure!(!c.host || c.windows(x, k).is_some(), "the host has no convolution of {x} and {k} by {c:?}");
    let mut shape: Shape = std::iter::repeat_n(0, n + 2).collect();
    shape[c.output_batch] = x.shape[c.input_batch] / batches;
    shape[c.output_feature] = outs;
    c.output_spatial.iter().zip(spatial).for_each(|(&d, s)| shape[d] = s);
    Ok(TensorType { dtype: c.out, shape })
}

/// The number of windows per dimension.
fn windowed(shape: &[usize], w: &Window) -> Result<Shape> {
    let n = shape.len();
    let lengths = [w.size.len(), w.strides.len(), w.padding.len(), w.base_dilation.len(), w.dilation.len()];
    ensure!(lengths.iter().all(|&l| l == n), "window attributes do not match rank {n}");
    let mut out = Shape::new();
    for (i, &extent) in shape.iter().enumerate() {
        let positive = w.strides[i] >= 1 && w.base_dilation[i] >= 1 && w.dilation[i] >= 1;
        ensure!(positive, "strides and dilations are at least 1");
        let dilate = |x: usize, by: usize| if x == 0 { 0 } else { (x as i128 - 1) * by as i128 + 1 };
        let (low, high) = w.padding[i];
        let padded = dilate(extent, w.base_dilation[i]) + i128::from(low) + i128::from(high);
        let size = dilate(w.size[i], w.dilation[i]);
        ensure!(padded >= 0, "padding {low} and {high} crops more than dimension {i} has");
        out.push(if padded < size { 0 } else { ((padded - size) / w.strides[i] as i128 + 1) as usize });
    }
    Ok(out)
}

fn reduced(reducer: Reducer, args: &[&TensorType], shape: impl Fn(&[usize]) -> Result<Shape>) -> Result<Type> {
    if reducer.is_arg() {
        let [values, indices] = arity(args)?;
        ensure!(values.shape == indices.shape, "values {values} and indices {indices} differ in shape");
        ensure!(indices.dtype.is_int(), "indices are {}, not integers", indices.dtype);
        ensure!(!values.dtype.is_complex(), "complex numbers have no order");
        let shape = shape(&values.shape)?;
        let of = |dtype| TensorType { dtype, shape: shape.clone() };
        return Ok(Type::Tuple(vec![of(values.dtype), of(indices.dtype)]));
    }
    let [a] = arity(args)?;
    let d = a.dtype;
    let allowed = match reducer {
        Reducer::And | Reducer::Or | Reducer::Xor => d.is_int() || d == DType::Bool,
        Reducer::Maximum | Reducer::Minimum => !d.is_complex(),
        _ => d != DType::Bool,
    };
    ensure!(allowed, "a reduction by {reducer:?} is not defined on {d}");
    Ok(TensorType { dtype: d, shape: shape(&a.shape)? }.into())
}

fn sort(args: &[&TensorType], dim: usize) -> Result<Type> {
    let [key, rest @ ..] = args else { invalid!("takes at least one operand") };
    ensure!(dim < key.rank(), "dimension {dim} of {key}");
    ensure!(!key.dtype.is_complex(), "complex numbers have no order");
    ensure!(rest.iter().all(|t| t.shape == key.shape), "operands differ in shape");
    Ok(one_or_tuple(args))
}

fn fft(a: &TensorType, kind: FftKind, lengths: &[usize]) -> Result<Type> {
    ensure!((1..=3).contains(&lengths.len()) && lengths.len() <= a.rank(), "{} lengths for {a}", lengths.len());
    ensure!(lengths.iter().all(|&n| n > 0), "a transform of no values");
    let is_real = kind == FftKind::Rfft;
    let fits = match a.dtype {
        DType::F32 | DType::F64 => is_real,
        d => d.is_complex() && !is_real,
    };
    ensure!(fits, "{} does not take {a}", if is_real { "rfft" } else { "a complex transform" });
    let shape = |half: bool| -> Shape {
        let (outer, n) = (a.rank() - lengths.len(), lengths.len());
        let last = |(i, &length): (usize, &usize)| if half && i + 1 == n { length / 2 + 1 } else { length };
        a.shape[..outer].iter().copied().chain(lengths.iter().enumerate().map(last)).collect()
    };
    let given = shape(kind == FftKind::Irfft);
    ensure!(a.shape == given, "{a} where {given:?} is transformed");
    let dtype = match (kind, a.dtype) {
        (FftKind::Rfft, DType::F32) => DType::C64,
        (FftKind::Rfft, _) => DType::C128,
        (FftKind::Irfft, DType::C64) => DType::F32,
        (FftKind::Irfft, _) => DType::F64,
        (_, dtype) => dtype,
    };
    Ok(TensorType { dtype, shape: shape(is_real) }.into())
}

fn top_k(a: &TensorType, k: usize) -> Result<Type> {
    let &[rows, columns] = &a.shape[..] else { invalid!("{a} is no matrix") };
    ensure!(a.dtype == DType::F32, "the elements are {}, not f32", a.dtype);
    ensure!(k <= columns, "{k} of {columns} columns");
    Ok(Type::Tuple([DType::F32, DType::I32].map(|dtype| TensorType::new(dtype, [rows, k])).into()))
}

fn one_or_tuple(types: &[&TensorType]) -> Type {
    match types {
        [only] => (*only).clone().into(),
        many => Type::Tuple(many.iter().map(|t| (*t).clone()).collect()),
    }
}

fn takes(body: &Graph, args: &[&Type]) -> Result<()> {
    let ok = body.inputs.len() == args.len() && body.input_types().zip(args).all(|(a, b)| a == *b);
    ensure!(ok, "body @{} does not take the operands' types", body.name);
    Ok(())
}

fn gives(body: &Graph) -> Result<Vec<TensorType>> {
    match body.output_types().map(|t| t.tensor().cloned()).collect() {
        Some(ts) => Ok(ts),
        None => invalid!("body @{} gives a tuple", body.name),
    }
}

fn infer_while(args: &[&Type], bodies: &[Arc<Graph>]) -> Result<Type> {
    let [cond, body] = bodies else { invalid!("takes two bodies, got {}", bodies.len()) };
    takes(cond, args)?;
    takes(body, args)?;
    ensure!(gives(cond)? == [TensorType::new(DType::Bool, [])], "the condition gives one bool[]");
    let carried = gives(body)?;
    ensure!(
        carried.len() == args.len() && body.output_types().zip(args).all(|(a, b)| a == *b),
        "the body changes the types it carries"
    );
    Ok(Type::Tuple(carried))
}

fn infer_if(args: &[&Type], bodies: &[Arc<Graph>]) -> Result<Type> {
    let ([pred, operands @ ..], [then, otherwise]) = (args, bodies) else {
        invalid!("takes a predicate and two bodies")
    };
    ensure!(**pred == TensorType::new(DType::Bool, []).into(), "the predicate is {pred}, not bool[]");
    takes(then, operands)?;
    takes(otherwise, operands)?;
    let result = gives(then)?;
    ensure!(gives(otherwise)? == result, "the two bodies give different types");
    Ok(Type::Tuple(result))
}

fn infer_lapack(args: &[&Type], bodies: &[Arc<Graph>]) -> Result<Type> {
    let [body] = bodies else { invalid!("takes one body, got {}", bodies.len()) };
    takes(body, args)?;
    Ok(Type::Tuple(gives(body)?))
}

/// Between types of different width, the parts of the wider element run along a last dimension of the other tensor.
fn bitcast(a: &TensorType, dtype: DType) -> Result<TensorType> {
    let (from, to) = (a.dtype.size(), dtype.size());
    let mut shape = a.shape.clone();
    if from == to {
        return Ok(TensorType { dtype, shape });
    }
    let plain = |d: DType| d != DType::Bool && !d.is_complex();
    ensure!(plain(a.dtype) && plain(dtype), "the bits of {} are not those of {dtype}", a.dtype);
    if from > to {
        shape.push(from / to);
    } else {
        ensure!(shape.pop() == Some(to / from), "{a} does not hold whole elements of {dtype} in its last dimension");
    }
    Ok(TensorType { dtype, shape })
}

fn distinct_below(dims: &[usize], rank: usize) -> bool {
    let mut seen = vec![false; rank];
    dims.iter().all(|&d| d < rank && !std::mem::replace(&mut seen[d], true))
}

fn is_permutation(dims: &[usize], rank: usize) -> bool {
    dims.len() == rank && distinct_below(dims, rank)
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    fn ty(shape: &[usize]) -> TensorType {
        TensorType::new(DType::F32, shape.iter().copied())
    }

    fn dot(host: bool) -> Op {
        Op::DotGeneral(DotGeneral {
            lhs_batch: smallvec![],
            rhs_batch: smallvec![],
            lhs_contract: smallvec![1],
            rhs_contract: smallvec![0],
            precision: Precision::Default,
            out: DType::F32,
            host,
        })
    }

    #[test]
    fn what_finishes_fits_the_result() {
        let finished =
            |of: Op, scale, bias, addend| Op::Finished(Box::new(Finished { of, scale, bias, addend, relu: true }));
        let given = |op: &Op, added: &[&[usize]]| {
            let args: Vec<Type> = [&[5, 6][..], &[6, 3, 4]].iter().chain(added).map(|shape| ty(shape).into()).collect();
            infer(op, &args.iter().collect::<Vec<_>>(), &[])
        };
        let all = finished(dot(true), true, true, true);
        assert_eq!(given(&all, &[&[3, 4], &[3, 4], &[5, 3, 4]]).unwrap(), ty(&[5, 3, 4]).into());
        assert_eq!(given(&finished(dot(true), false, false, false), &[]).unwrap(), ty(&[5, 3, 4]).into());
        for added in [&[&[3, 4][..], &[3, 4]][..], &[&[12], &[3, 4], &[5, 3, 4]], &[&[3, 4], &[3, 4], &[5, 12]]] {
            assert!(given(&all, added).is_err(), "{added:?}");
        }
        let nested = finished(finished(dot(true), false, false, false), false, false, false);
        for of in [finished(dot(false), false, false, false), nested, finished(Op::Select, false, false, false)] {
            assert!(given(&of, &[]).is_err(), "{of:?}");
        }
    }
}
