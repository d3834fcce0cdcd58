//! Sorts left to the host, which computes no more of them than is read, a part of the lanes on each of its threads. The greatest
//! element with its place is the first of a sort.
//!
//! Milliseconds on 2 cores of a Zen 3, the whole compiled program in turn with eager PyTorch, 30 pairs:
//!
//! | of 64x4096 `f32` unless it says otherwise | host | eager |
//! |-------------------------------------------|-----:|------:|
//! | `sort`, last dimension                    | 5.1  | 9.0   |
//! | first dimension                           | 5.2  | 12.9  |
//! | of all                                    | 6.2  | 26.0  |
//! | of a row of 50,257                        | 1.35 | 4.2   |
//! | of `f64`                                  | 6.6  | 9.1   |
//! | `topk(50)` of a row of 50,257             | 0.13 | 0.13  |
//! | `topk(2)` of 4,096 rows of 64             | 1.0  | 1.5   |
//! | `median`, last dimension                  | 1.3  | 2.0   |
//! | of all                                    | 1.4  | 2.4   |
//! | `kthvalue`                                | 0.64 | 1.65  |
//! | `argmax`, last dimension                  | 0.21 | 0.19  |
//! | `max`, first dimension                    | 0.47 | 0.59  |

use super::rebuild::Rebuild;
use super::sorts::{read_along, sorts};
use crate::{Change, Changes, Class, Head};
use ir::op::SortedPart;
use ir::{Graph, LocId, Node, Op, Reducer, Result, TensorType, Type, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::ops::Range;

/// Name, class and reason.
pub(super) const TOLD: (&str, Class, &str) =
    ("sort-by-the-host", Class::Exact, "XLA's CPU sorts all of it, on one thread, by comparisons");

/// The same of greatest and least elements with their places.
pub(super) const EXTREMES: (&str, Class, &str) =
    ("extreme-by-the-host", Class::Exact, "XLA's CPU carries places along, an element at a time");

/// Elements from which it is worth a call.
const FEWEST: usize = 512;

/// `graph` with its larger sorts left to the host.
pub(super) fn left_to_the_host(graph: &Graph, changes: &mut Changes, within: Option<LocId>) -> Result<Graph> {
    if !graph.nodes().iter().any(|node| matches!(node.op, Op::Sort { .. }) || extreme(&node.op).is_some()) {
        return Ok(graph.clone());
    }
    let (sorts, taken) = (sorts(graph), taken(graph));
    let read = read_along(graph, &sorts);
    let mut made: FxHashMap<ValueId, Made> = FxHashMap::default();
    let mut to = Rebuild::of(graph);
    for (i, node) in graph.nodes().iter().enumerate() {
        to.set_loc(node.loc);
        let value = ValueId::new(i);
        let asked = asked(graph, value, &read[i], &taken).map(|asked| (TOLD, asked));
        let asked = asked.or_else(|| first(graph, node).map(|asked| (EXTREMES, asked)));
        if let Some((told, asked)) = asked.filter(|(told, _)| changes.allows_alone(told.1)) {
            let before = to.len();
            let sort = asked.made(&mut to, node)?;
            let (locs, after) = (vec![within.unwrap_or(node.loc)], to.heads_from(before));
            changes.push(Change { rule: told.0, class: told.1, locs, before: Head::of(&node.op), after });
            to.stand_for(sort.results[0]);
            made.insert(value, sort);
            continue;
        }
        let of = node.operands.first().map(|&v| sorts[v.index()].unwrap_or(v));
        match (&node.op, of.and_then(|sort| made.get(&sort))) {
            (&Op::GetTupleElement { index }, Some(sort)) => to.stand_for(sort.results[index]),
            (Op::Slice { start, limit, stride }, Some(sort)) => {
                let (mut start, mut limit, stride) = (start.clone(), limit.clone(), stride.clone());
                start[sort.dim] -= sort.start;
                limit[sort.dim] -= sort.start;
                let slice = to.push(Op::Slice { start, limit, stride }, &[to.place(node.operands[0])])?;
                to.stand_for(slice);
            }
            // Of fewer than there were.
            (&Op::Convert { dtype }, Some(_)) => {
                let converted = to.convert(to.place(node.operands[0]), dtype)?;
                to.stand_for(converted);
            }
            _ => to.keep(node),
        }
    }
    Ok(to.finish(graph))
}

/// The elements of tuples that anything uses.
fn taken(graph: &Graph) -> FxHashSet<(ValueId, usize)> {
    let operands = graph.nodes().iter().flat_map(|node| node.operands.iter().copied());
    let used = operands.chain(graph.outputs.iter().map(|output| output.value));
    let element = |v| match (&graph.node(v).op, graph.node(v).operands.first()) {
        (&Op::GetTupleElement { index }, Some(&tuple)) => Some((tuple, index)),
        _ => None,
    };
    used.filter_map(element).collect()
}

/// What the host is asked for instead of a sort.
struct Asked {
    part: SortedPart,
    /// Operands that go where the keys go, in order.
    others: SmallVec<[ValueId; 2]>,
    /// For each result of the sort, which one it is of the host's.
    results: SmallVec<[usize; 3]>,
}

/// What the host has instead.
struct Made {
    dim: usize,
    /// The first position along that dimension.
    start: usize,
    /// The value of each result of the sort.
    results: SmallVec<[ValueId; 3]>,
}

/// What the host is asked for instead of `sort`, of which this is read, if it is a sort and the host has it.
fn asked(graph: &Graph, sort: ValueId, read: &Range<usize>, taken: &FxHashSet<(ValueId, usize)>) -> Option<Asked> {
    let node = graph.node(sort);
    let &Op::Sort { dim, descending, .. } = &node.op else { return None };
    let keys = graph.tensor_type(node.operands[0]).filter(|ty| ty.numel() >= FEWEST && !read.is_empty())?;
    let limit = read.end.min(keys.shape[dim]);
    let mut part = SortedPart { dim, descending, nan_first: false, start: read.start, limit, places: None };
    let (mut others, mut order) = (SmallVec::new(), SmallVec::<[Option<ValueId>; 3]>::new());
    for (index, &operand) in node.operands.iter().enumerate().skip(1) {
        let ty = graph.tensor_type(operand)?;
        if counts(graph, operand, dim)
            && part.places.is_none_or(|dtype| dtype == ty.dtype)
            && taken.contains(&(sort, index))
        {
            part.places = Some(ty.dtype);
            order.push(None);
        } else {
            if taken.contains(&(sort, index)) {
                others.push(operand);
            }
            order.push(Some(operand));
        }
    }
    let first = 1 + usize::from(part.places.is_some());
    let at = |other: Option<ValueId>| match other {
        None => 1,
        Some(v) => others.iter().position(|&o| o == v).map_or(0, |i| first + i),
    };
    let results = [0].into_iter().chain(order.into_iter().map(at)).collect();
    let types: SmallVec<[&TensorType; 3]> =
        [Some(keys)].into_iter().chain(others.iter().map(|&v| graph.tensor_type(v))).collect::<Option<_>>()?;
    part.hosted(&types)?;
    Some(Asked { part, others, results })
}

/// Whether `v` says where along `dim` an element is.
fn counts(graph: &Graph, v: ValueId, dim: usize) -> bool {
    matches!(graph.node(v).op, Op::Iota { dim: along, dtype, .. } if along == dim && dtype.is_int())
}

/// The dimension along which `op` finds an extreme with its place, and whether it is the greatest.
fn extreme(op: &Op) -> Option<(usize, bool)> {
    match op {
        Op::Reduce { reducer: Reducer::ArgMax, dims } => dims.iter().next().map(|&dim| (dim, true)),
        Op::Reduce { reducer: Reducer::ArgMin, dims } => dims.iter().next().map(|&dim| (dim, false)),
        _ => None,
    }
}

/// What the host is asked for instead of `node`, if it finds the extreme along one dimension and its place there.
fn first(graph: &Graph, node: &Node) -> Option<Asked> {
    let (dim, descending) = extreme(&node.op)?;
    let &[keys, places] = &node.operands[..] else { return None };
    let (ty, dtype) = (graph.tensor_type(keys)?, graph.tensor_type(places)?.dtype);
    let is_line = matches!(&node.op, Op::Reduce { dims, .. } if dims.len() == 1) && ty.shape[dim] > 1;
    let part = SortedPart { dim, descending, nan_first: true, start: 0, limit: 1, places: Some(dtype) };
    let fits = is_line && ty.numel() >= FEWEST && counts(graph, places, dim) && part.hosted(&[ty]).is_some();
    fits.then(|| Asked { part, others: SmallVec::new(), results: SmallVec::from_slice(&[0, 1]) })
}

impl Asked {
    /// Asks for it in `to` instead of `node`.
    fn made(&self, to: &mut Rebuild, node: &Node) -> Result<Made> {
        let operands: SmallVec<[ValueId; 3]> =
            node.operands[..1].iter().chain(&self.others).map(|&v| to.place(v)).collect();
        let both = to.push(Op::HostSort(self.part), &operands)?;
        let is_one = operands.len() == 1 && self.part.places.is_none();
        let mut result =
            |&index: &usize| if is_one { Ok(both) } else { to.push(Op::GetTupleElement { index }, &[both]) };
        let mut results = self.results.iter().map(&mut result).collect::<Result<SmallVec<[ValueId; 3]>>>()?;
        if let (Some(_), Type::Tuple(made)) = (extreme(&node.op), &node.ty) {
            for (v, ty) in results.iter_mut().zip(made) {
                *v = to.reshape(*v, ty.shape.clone())?;
            }
        }
        Ok(Made { dim: self.part.dim, start: self.part.start, results })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Random, assert_same_bits, few_of_a_sort, formulated_for, sort, sorts_keep_bits_for};
    use super::{EXTREMES, TOLD};
    use crate::{Class, Platform};
    use ir::{Builder, DType, Graph, InputKind, Op, OutputKind, Reducer, Shape, TensorType};

    const PLATFORM: Platform = Platform::CpuWithBlas;

    #[test]
    fn random_sorts_keep_their_bits() {
        let whole = sorts_keep_bits_for(PLATFORM, 0..250, TOLD.0, sort);
        assert!(whole > 50, "{whole}");
        let few = sorts_keep_bits_for(PLATFORM, 250..500, TOLD.0, few_of_a_sort);
        assert!(few > 50, "{few}");
    }

    /// What the host is asked to sort in `graph`, which means the same then.
    fn asked(platform: Platform, graph: &Graph) -> Vec<(super::SortedPart, usize)> {
        let (after, changes) = formulated_for(platform, graph, Class::Exact, None);
        assert_same_bits(graph, &after, &Random(5).inputs(graph, true));
        let part = |n: &ir::Node| match n.op {
            Op::HostSort(part) => Some((part, n.operands.len())),
            _ => None,
        };
        let parts: Vec<_> = after.nodes().iter().filter_map(part).collect();
        assert_eq!(changes.iter().filter(|change| change.rule == TOLD.0).count(), parts.len());
        parts
    }

    /// A sort of `extent` keys with their places and with another operand, of whose results `read` makes outputs.
    fn graph(extent: usize, read: impl Fn(&Builder, &[ir::ValueId])) -> Graph {
        let b = Builder::new("sort");
        let input = |name, dtype| b.input(name, InputKind::User, TensorType::new(dtype, [3, extent]));
        let (keys, other) = (input("keys", DType::F32), input("other", DType::C64));
        let places = b.iota(DType::I64, &[3, extent], 1).unwrap();
        read(&b, &b.sort(&[keys, places, other], 1, true, true).unwrap());
        b.finish()
    }

    #[test]
    fn no_more_is_asked_for_than_is_read() {
        let output = |b: &Builder, v| b.output("y", OutputKind::User, v);
        let part = |b: &Builder, v, start, limit| output(b, b.slice_dim(v, 1, start, limit, 1).unwrap());
        let whole = graph(200, |b, sorted| sorted.iter().for_each(|&v| output(b, v)));
        let (all, operands) = asked(PLATFORM, &whole)[0];
        assert_eq!((all.start, all.limit, all.places, operands), (0, 200, Some(DType::I64), 2));
        let middle = graph(200, |b, sorted| {
            part(b, sorted[0], 90, 95);
            part(b, b.convert(sorted[1], DType::I32).unwrap(), 99, 110);
        });
        let (some, operands) = asked(PLATFORM, &middle)[0];
        assert_eq!((some.start, some.limit, some.places, operands), (90, 110, Some(DType::I64), 1));
        let other = graph(200, |b, sorted| part(b, sorted[2], 7, 8));
        let (one, operands) = asked(PLATFORM, &other)[0];
        assert_eq!((one.start, one.limit, one.places, operands), (7, 8, None, 2));
        let nothing = graph(200, |b, sorted| {
            part(b, sorted[0], 50, 50);
            part(b, sorted[0], 60, 70);
        });
        assert_eq!(asked(PLATFORM, &nothing)[0].0.limit, 200);
        assert_eq!(asked(PLATFORM, &graph(100, |b, sorted| output(b, sorted[0]))).len(), 0, "few");
        assert_eq!(asked(Platform::Cpu, &whole).len(), 0, "there is nobody to ask");
    }

    #[test]
    fn random_extremes_keep_their_bits() {
        let extremes = |r: &mut Random| {
            let b = Builder::new("extremes");
            let shape: Shape = (0..r.within(1, 3)).map(|_| r.one_of(&[1, 8, 17, 40])).collect();
            let dtypes = [DType::F32, DType::F32, DType::F64, DType::BF16, DType::I32, DType::U8, DType::Bool];
            let keys = TensorType { dtype: r.one_of(&dtypes), shape: shape.clone() };
            let (keys, dim) = (b.input("keys", InputKind::User, keys), r.below(shape.len()));
            let along = if r.below(8) == 0 { r.below(shape.len()) } else { dim };
            let places = b.iota(r.one_of(&[DType::I32, DType::I64]), &shape, along).unwrap();
            let reducer = r.one_of(&[Reducer::ArgMax, Reducer::ArgMin]);
            let (value, place) = b.reduce_arg(keys, places, reducer, &[dim]).unwrap();
            b.output("value", OutputKind::User, value);
            b.output("place", OutputKind::User, place);
            b.finish()
        };
        let made = sorts_keep_bits_for(PLATFORM, 0..500, EXTREMES.0, extremes);
        assert!(made > 100, "{made}");
    }

    #[test]
    fn keys_alone_are_one_result() {
        let b = Builder::new("keys");
        let keys = b.input("keys", InputKind::User, TensorType::new(DType::I8, [1000]));
        let sorted = b.sort(&[keys], 0, false, false).unwrap()[0];
        b.output("y", OutputKind::User, b.slice_dim(sorted, 0, 10, 20, 3).unwrap());
        let (part, operands) = asked(PLATFORM, &b.finish())[0];
        assert_eq!((part.start, part.limit, part.places, operands), (10, 20, None, 1));
    }
}
