//! Look-ups: only what is read is computed, known indices are slices, and one-hot products are look-ups. Of their gradients,
//! rows are added to what there is.

use crate::change::Class::{Exact, Reassociating};
use crate::rule::{Edit, Right, Rule};
use egg::Id;
use ir::op::{Binary, Combiner, Comparison, DotGeneral, Gather, Reducer, Unary};
use ir::{DType, Dims, Number, Op, Shape};

pub(super) static RULES: &[Rule] = &[
    Rule {
        name: "pick-of-difference",
        class: Exact,
        why: "computed where it is read only: of all log-probabilities those of the targets",
        left: "(gather (subtract ?x ?y) ?i ?g)",
        right: Right::Build("(subtract (gather ?x ?i ?g) (gather ?y ?i ?g)), where few elements are read", |e| {
            picked(e, Binary::Subtract, false)
        }),
    },
    Rule {
        name: "pick-of-sum",
        class: Exact,
        why: "computed where it is read only: of all log-probabilities those of the targets",
        left: "(gather (add ?x ?y) ?i ?g)",
        right: Right::Build("(add (gather ?x ?i ?g) (gather ?y ?i ?g)), where few elements are read", |e| {
            picked(e, Binary::Add, false)
        }),
    },
    Rule {
        name: "pick-of-product",
        class: Exact,
        why: "computed where it is read only: of all log-probabilities those of the targets",
        left: "(gather (multiply ?x ?y) ?i ?g)",
        right: Right::Build("(multiply (gather ?x ?i ?g) (gather ?y ?i ?g)), where few elements are read", |e| {
            picked(e, Binary::Multiply, false)
        }),
    },
    Rule {
        name: "pick-of-quotient",
        class: Exact,
        why: "computed where it is read only: of all log-probabilities those of the targets",
        left: "(gather (divide ?x ?y) ?i ?g)",
        right: Right::Build("(divide (gather ?x ?i ?g) (gather ?y ?i ?g)), where few elements are read", |e| {
            picked(e, Binary::Divide, false)
        }),
    },
    Rule {
        name: "pick-of-reshaped-difference",
        class: Exact,
        why: "computed where it is read only: of all log-probabilities those of the targets",
        left: "(gather (reshape (subtract ?x ?y) ?s) ?i ?g)",
        right: Right::Build(
            "(subtract (gather (reshape ?x ?s) ?i ?g) (gather (reshape ?y ?s) ?i ?g)), where few elements are read",
            |e| picked(e, Binary::Subtract, true),
        ),
    },
    Rule {
        name: "pick-of-reshaped-quotient",
        class: Exact,
        why: "computed where it is read only: of all log-probabilities those of the targets",
        left: "(gather (reshape (divide ?x ?y) ?s) ?i ?g)",
        right: Right::Build(
            "(divide (gather (reshape ?x ?s) ?i ?g) (gather (reshape ?y ?s) ?i ?g)), where few elements are read",
            |e| picked(e, Binary::Divide, true),
        ),
    },
    Rule {
        name: "pick-of-broadcast",
        class: Exact,
        why: "what is the same along a dimension need not be looked up along it",
        left: "(gather (broadcast_in_dim ?x ?b) ?i ?g)",
        right: Right::Build(
            "(broadcast_in_dim ?x), where ?x does not vary along the dimensions that are indexed",
            |e| {
                let Op::BroadcastInDim { shape, dims } = &*e.op("b")? else { return None };
                pick_of_repeated(e, shape, dims)
            },
        ),
    },
    Rule {
        name: "pick-of-reshaped-broadcast",
        class: Exact,
        why: "what is the same along a dimension need not be looked up along it",
        left: "(gather (reshape (broadcast_in_dim ?x ?b) ?s) ?i ?g)",
        right: Right::Build(
            "(broadcast_in_dim ?x), where ?x does not vary along the dimensions that are indexed, and ?s adds or drops extents of 1",
            |e| {
                let Op::BroadcastInDim { shape, dims } = &*e.op("b")? else { return None };
                let Op::Reshape { shape: to } = &*e.op("s")? else { return None };
                let (from, into) = (long(shape), long(to));
                let same = from.iter().map(|&d| shape[d]).eq(into.iter().map(|&d| to[d]));
                let place = |d: usize| {
                    from.iter().position(|&f| f == d).and_then(|p| into.get(p).copied()).unwrap_or(usize::MAX)
                };
                let dims: Dims = dims.iter().map(|&d| place(d)).collect();
                same.then(|| pick_of_repeated(e, to, &dims))?
            },
        ),
    },
    Rule {
        name: "exponential-of-log-softmax",
        class: Reassociating,
        why: "the exponentials of the sum are there already",
        left: "(exponential (subtract ?x (broadcast_in_dim (log (reduce (exponential ?x) ?r)) ?b)))",
        right: Right::Build("(divide (exponential ?x) (broadcast_in_dim (reduce (exponential ?x) ?r) ?b))", |e| {
            let (x, op) = (e.var("x"), e.op("r")?);
            // Only a sum of these exponentials is as great as each of them.
            let sums = matches!(&*op, Op::Reduce { reducer: Reducer::Add, .. }) && e.splat(x).is_none();
            let each = sums.then(|| e.unary(Unary::Exponential, x))??;
            let sum = e.push(&op, &[each])?;
            let wide = e.broadcast_again(sum, "b")?;
            e.binary(Binary::Divide, each, wide)
        }),
    },
    Rule {
        name: "gather-with-constant-index",
        class: Exact,
        why: "what is read is known: a slice",
        left: "(gather ?x ?i ?g)",
        right: Right::Build("(broadcast_in_dim (slice ?x)), where ?i is a constant", with_constant_index),
    },
    Rule {
        name: "gather-of-counted",
        class: Exact,
        why: "rows one after the other are a slice: positions",
        left: "(gather ?x ?i ?g)",
        right: Right::Build("(slice ?x), where ?i counts along a dimension and stays in range", of_counted),
    },
    Rule {
        name: "gather-of-limited-above",
        class: Exact,
        why: "a gather limits its indices itself",
        left: "(gather ?x (minimum ?i ?c) ?g)",
        right: Right::Build("(gather ?x ?i ?g), where the constant ?c is no less than any index can be", |e| {
            without_limit(e, true)
        }),
    },
    Rule {
        name: "gather-of-limited-below",
        class: Exact,
        why: "a gather limits its indices itself",
        left: "(gather ?x (maximum ?i ?c) ?g)",
        right: Right::Build("(gather ?x ?i ?g), where the constant ?c is not positive", |e| without_limit(e, false)),
    },
    Rule {
        name: "one-hot-product",
        class: Reassociating,
        why: "rows are looked up, not multiplied by ones and zeros",
        left: "(dot_general (convert (compare_eq (broadcast_in_dim ?i ?b) ?n) ?t) ?w ?d)",
        right: Right::Build(
            "(gather ?w ?i), zero where ?i is no class, where ?n counts along the contracted dimension",
            |e| {
                let (one_hot, d) = (e.shape(e.var("n"))?, dot(e)?);
                let class = e.counting(e.var("n")).filter(|c| c.start == 0)?.dim;
                let index = (d.lhs_contract[..] == [class]).then(|| index_of(e, &one_hot, class))??;
                rows(e, index, &d)
            },
        ),
    },
    Rule {
        name: "reshaped-one-hot-product",
        class: Reassociating,
        why: "rows are looked up, not multiplied by ones and zeros",
        left: "(dot_general (reshape (convert (compare_eq (broadcast_in_dim ?i ?b) ?n) ?t) ?s) ?w ?d)",
        right: Right::Build(
            "(gather ?w ?i), zero where ?i is no class, where ?n counts along the last dimension, which is contracted",
            |e| {
                let (one_hot, d) = (e.shape(e.var("n"))?, dot(e)?);
                let Op::Reshape { shape } = &*e.op("s")? else { return None };
                let class = e.counting(e.var("n")).filter(|c| c.start == 0)?.dim;
                let last = shape.len().checked_sub(1)?;
                let kept = class + 1 == one_hot.len() && shape[last] == one_hot[class] && d.lhs_contract[..] == [last];
                let index = kept.then(|| index_of(e, &one_hot, class))??;
                let index = e.reshape(index, &shape[..last])?;
                rows(e, index, &d)
            },
        ),
    },
    Rule {
        name: "sum-with-scattered",
        class: Reassociating,
        why: "a table that is looked up and multiplied by has two gradients: rows are added to the other, not to zeros",
        left: "(add ?x (scatter ?zero ?i ?u ?s))",
        right: Right::Build("(scatter ?x ?i ?u ?s), where ?s adds and ?zero is 0", scattered_onto),
    },
    Rule {
        name: "scattered-plus",
        class: Reassociating,
        why: "a table that is looked up and multiplied by has two gradients: rows are added to the other, not to zeros",
        left: "(add (scatter ?zero ?i ?u ?s) ?x)",
        right: Right::Build("(scatter ?x ?i ?u ?s), where ?s adds and ?zero is 0", scattered_onto),
    },
];

/// Updates that would have been added to zeros, added to `?x`.
fn scattered_onto(e: &mut Edit<'_>) -> Option<Id> {
    let (op, x, zero) = (e.op("s")?, e.var("x"), e.var("zero"));
    let Op::Scatter(s) = &*op else { return None };
    // What is added up one by one must not be lost beside a great ?x.
    let narrow = matches!(e.dtype(x)?, DType::BF16 | DType::F16) && !s.unique_indices;
    let is_zero = e.is(zero, Number::Float(0.0)) || e.is(zero, Number::Float(-0.0));
    let sums = s.combiner == Combiner::Add && is_zero && !narrow && e.splat(x).is_none();
    sums.then(|| e.push(&op, &[x, e.var("i"), e.var("u")]))?
}

/// How much less a look-up has to give than it looks in, before both operands are looked up instead.
const FEWER: usize = 4;

fn gather(e: &Edit<'_>) -> Option<Gather> {
    match &*e.op("g")? {
        Op::Gather(g) => Some(g.clone()),
        _ => None,
    }
}

fn dot(e: &Edit<'_>) -> Option<DotGeneral> {
    match &*e.op("d")? {
        Op::DotGeneral(d) => Some(d.clone()),
        _ => None,
    }
}

fn picked(e: &mut Edit<'_>, op: Binary, reshaped: bool) -> Option<Id> {
    let (x, y, i, g) = (e.var("x"), e.var("y"), e.var("i"), e.op("g")?);
    if e.numel(e.root())? * FEWER > e.numel(x)? {
        return None;
    }
    let mut pick = |v: Id| {
        let v = if reshaped { e.push(&*e.op("s")?, &[v])? } else { v };
        e.push(&g, &[v, i])
    };
    let (x, y) = (pick(x)?, pick(y)?);
    e.binary(op, x, y)
}

/// Dimensions of more than one element.
fn long(shape: &[usize]) -> Dims {
    (0..shape.len()).filter(|&d| shape[d] != 1).collect()
}

/// The dimension of the result that each dimension of a gather's operand goes to.
struct Places {
    of: Vec<Option<usize>>,
    /// Those of the result that indices' dimensions go to, in order.
    batch: Dims,
}

impl Places {
    fn new(g: &Gather, rank: usize, result: usize) -> Places {
        let batch: Dims = (0..result).filter(|d| !g.offset_dims.contains(d)).collect();
        let mut offsets = (0..result).filter(|d| g.offset_dims.contains(d));
        let place = |d: usize| match g.operand_batching_dims.iter().position(|&b| b == d) {
            Some(pair) => Some(batch[index_place(g, g.start_indices_batching_dims[pair])]),
            None if g.collapsed_slice_dims.contains(&d) => None,
            None => offsets.next(),
        };
        Places { of: (0..rank).map(place).collect(), batch: batch.clone() }
    }
}

/// Which of the batch's dimensions a dimension of the indices is.
fn index_place(g: &Gather, dim: usize) -> usize {
    dim - usize::from(dim > g.index_vector_dim)
}

/// `id` with its dimensions at those of the root, repeated along all others; those without a place have extent 1.
fn placed(e: &mut Edit<'_>, id: Id, places: &[Option<usize>]) -> Option<Id> {
    let (shape, result) = (e.shape(id)?, e.shape(e.root())?);
    let kept: Dims = (0..shape.len()).filter(|&d| places[d].is_some()).collect();
    let extents: Shape = kept.iter().map(|&d| shape[d]).collect();
    let to: Dims = kept.iter().filter_map(|&d| places[d]).collect();
    let mut order: Dims = (0..to.len()).collect();
    order.sort_unstable_by_key(|&i| to[i]);
    let rising: Dims = order.iter().map(|&i| to[i]).collect();
    let narrow = e.reshape(id, &extents)?;
    let ordered = e.transpose(narrow, &order)?;
    e.broadcast_in_dim(ordered, &result, &rising)
}

/// A gather of `?x`, which is repeated to extents `shape` with its dimensions at `dims`.
fn pick_of_repeated(e: &mut Edit<'_>, shape: &[usize], dims: &[usize]) -> Option<Id> {
    let (x, g, result) = (e.var("x"), gather(e)?, e.shape(e.root())?);
    if result.contains(&0) || shape.contains(&0) {
        return None;
    }
    let places = Places::new(&g, shape.len(), result.len());
    let from = e.shape(x)?;
    let mut own: Vec<Option<usize>> = vec![None; from.len()];
    for (k, &d) in dims.iter().enumerate().filter(|&(k, _)| from[k] != 1) {
        let whole = g.slice_sizes[d] == shape[d] || g.operand_batching_dims.contains(&d);
        if g.start_index_map.contains(&d) || !whole {
            return None;
        }
        own[k] = Some(places.of[d]?);
    }
    placed(e, x, &own)
}

fn with_constant_index(e: &mut Edit<'_>) -> Option<Id> {
    let (x, g, result) = (e.var("x"), gather(e)?, e.shape(e.root())?);
    let (index, from) = (e.integer(e.var("i"))?, e.shape(x)?);
    if !g.operand_batching_dims.is_empty() || result.contains(&0) {
        return None;
    }
    let most = |d: usize| (from[d] - g.slice_sizes[d]) as i128;
    let first = |d: usize| if g.start_index_map.contains(&d) { index.clamp(0, most(d)) as usize } else { 0 };
    let start: Dims = (0..from.len()).map(first).collect();
    let limit: Dims = (0..from.len()).map(|d| start[d] + g.slice_sizes[d]).collect();
    let part = e.slice(x, &start, &limit)?;
    placed(e, part, &Places::new(&g, from.len(), result.len()).of)
}

fn of_counted(e: &mut Edit<'_>) -> Option<Id> {
    let (x, i, g, result) = (e.var("x"), e.var("i"), gather(e)?, e.shape(e.root())?);
    let (counting, from) = (e.counting(i)?, e.shape(x)?);
    let [indexed] = g.start_index_map[..] else { return None };
    let count = e.shape(i)?[counting.dim];
    let first = usize::try_from(counting.start).ok()?;
    let plain = g.operand_batching_dims.is_empty() && g.collapsed_slice_dims.contains(&indexed);
    let inside = counting.dim != g.index_vector_dim && first + count <= from[indexed] && !result.contains(&0);
    if !plain || !inside || g.slice_sizes[indexed] != 1 {
        return None;
    }
    let start: Dims = (0..from.len()).map(|d| if d == indexed { first } else { 0 }).collect();
    let limit = (0..from.len()).map(|d| if d == indexed { first + count } else { g.slice_sizes[d] });
    let part = e.slice(x, &start, &limit.collect::<Dims>())?;
    let mut places = Places::new(&g, from.len(), result.len());
    places.of[indexed] = Some(places.batch[index_place(&g, counting.dim)]);
    placed(e, part, &places.of)
}

fn without_limit(e: &mut Edit<'_>, above: bool) -> Option<Id> {
    let (x, i, op, g) = (e.var("x"), e.var("i"), e.op("g")?, gather(e)?);
    let (limit, from) = (e.integer(e.var("c"))?, e.shape(x)?);
    let most = g.start_index_map.iter().map(|&d| (from[d] - g.slice_sizes[d]) as i128).max().unwrap_or(0);
    (if above { limit >= most } else { limit <= 0 }).then(|| e.push(&op, &[x, i]))?
}

/// The class that `?i`, repeated by `?b` to `one_hot`, says: without the dimension of classes.
fn index_of(e: &mut Edit<'_>, one_hot: &[usize], class: usize) -> Option<Id> {
    let Op::BroadcastInDim { dims, .. } = &*e.op("b")? else { return None };
    let (i, from) = (e.var("i"), e.shape(e.var("i"))?);
    let varies = dims.iter().zip(&from).any(|(&d, &n)| d == class && n != 1);
    let left: Dims = (0..from.len()).filter(|&k| dims[k] != class).collect();
    let narrow = (!varies).then(|| e.reshape(i, &left.iter().map(|&k| from[k]).collect::<Shape>()))??;
    let lead: Shape = (0..one_hot.len()).filter(|&d| d != class).map(|d| one_hot[d]).collect();
    let places: Dims = left.iter().map(|&k| dims[k] - usize::from(dims[k] > class)).collect();
    e.broadcast_in_dim(narrow, &lead, &places)
}

/// Rows of `?w` by `index`, zero for an index that is none.
fn rows(e: &mut Edit<'_>, index: Id, d: &DotGeneral) -> Option<Id> {
    let (w, lead, result) = (e.var("w"), e.shape(index)?, e.ty(e.root())?);
    let from = e.shape(w)?;
    let [class] = d.rhs_contract[..] else { return None };
    // Zero times infinity would be NaN.
    let fine = d.lhs_batch.is_empty() && e.is_tame("w") && !from.contains(&0) && result.numel() > 0;
    if !fine || e.dtype(w)?.is_complex() {
        return None;
    }
    let g = Gather {
        offset_dims: (lead.len()..result.rank()).collect(),
        collapsed_slice_dims: [class].into_iter().collect(),
        start_index_map: [class].into_iter().collect(),
        index_vector_dim: lead.len(),
        slice_sizes: (0..from.len()).map(|k| if k == class { 1 } else { from[k] }).collect(),
        ..Gather::default()
    };
    let found = e.push(&Op::Gather(g), &[w, index])?;
    let found = e.convert(found, result.dtype)?;
    let (first, last) = e.range(index)?;
    if first >= 0 && last < from[class] as i128 {
        return Some(found);
    }
    let (zero, count) = (e.full_like(Number::Int(0), index)?, e.full_like(Number::Int(from[class] as i64), index)?);
    let (low, high) = (e.compare(Comparison::Ge, index, zero)?, e.compare(Comparison::Lt, index, count)?);
    let known = e.binary(Binary::And, low, high)?;
    let wide = e.broadcast_in_dim(known, &result.shape, &(0..lead.len()).collect::<Dims>())?;
    let nothing = e.full(Number::Int(0), &result)?;
    e.push(&Op::Select, &[wide, found, nothing])
}
