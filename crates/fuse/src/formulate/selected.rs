//! The few first of many sorted, selected.
//!
//! XLA's CPU has a selection of the greatest `f32` of rows, which keeps as many as are asked for while it reads a row once. A sort
//! orders all of them, as one integer each ([`super::packed_sort`]). In ms, eagerly:
//!
//! | f32                   | k       | sorted | selected |
//! |-----------------------|---------|--------|----------|
//! | a row of 50,257       | 50      | 2.5    | 0.25     |
//! |                       | 3,141   | 2.5    | 1.4      |
//! |                       | 6,282   | 2.4    | 2.7      |
//! | a row of 1,000,000    | 62,500  | 57     | 40       |
//! |                       | 125,000 | 57     | 81       |
//! | 4,096 rows of 64      | 2       | 4.9    | 1.1      |
//! |                       | 8       | 5.1    | 3.2      |
//! |                       | 16      | 5.0    | 5.4      |
//! | 4,096 rows of 8       | 2       | 0.40   | 0.54     |

use super::ordered;
use super::rebuild::Rebuild;
use super::sorts::{read_along, sorts};
use crate::{Change, Changes, Class, Head};
use ir::op::Gather;
use ir::{Binary, Builder, DType, Dims, Graph, InputKind, LocId, Node, Number, Op, OutputKind, Result, ValueId};
use rustc_hash::FxHashMap;
use smallvec::smallvec;

/// Name, class and reason.
pub(super) const TOLD: (&str, Class, &str) =
    ("selection-for-a-sort", Class::Exact, "XLA's CPU selects the few greatest of a row while it reads it once");

/// Elements from which it is worth it.
const SMALLEST: usize = 512;
/// Elements of the shortest row that is worth it.
const SHORTEST: usize = 32;

/// `graph` with selections for sorts of which only the first elements are read.
pub(super) fn selected(graph: &Graph, changes: &mut Changes, within: Option<LocId>) -> Result<Graph> {
    if !graph.nodes().iter().any(|node| matches!(node.op, Op::Sort { .. })) {
        return Ok(graph.clone());
    }
    let sorts = sorts(graph);
    let read = read_along(graph, &sorts);
    let mut made: FxHashMap<ValueId, [ValueId; 2]> = FxHashMap::default();
    let mut to = Rebuild::of(graph);
    for (i, node) in graph.nodes().iter().enumerate() {
        to.set_loc(node.loc);
        if let Some(wanted) = wanted(graph, node, read[i].end).filter(|_| changes.allows(TOLD.1)) {
            let (keys, before) = (to.place(node.operands[0]), to.len());
            let both = selection(&mut to, keys, &wanted)?;
            let (locs, after) = (vec![within.unwrap_or(node.loc)], to.heads_from(before));
            changes.push(Change { rule: TOLD.0, class: TOLD.1, locs, before: Head::of(&node.op), after });
            made.insert(ValueId::new(i), both);
            to.stand_for(both[0]);
            continue;
        }
        match (&node.op, sorts[i].and_then(|sort| made.get(&sort))) {
            (&Op::GetTupleElement { index }, Some(both)) => to.stand_for(both[index]),
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

/// What is wanted of a sort.
struct Wanted {
    dim: usize,
    /// The greatest, or the least.
    descending: bool,
    /// How many.
    k: usize,
    /// The type of the positions.
    places: DType,
}

/// What is wanted of `node`, of which `k` elements are read, if it is a sort for which a selection is worth it.
fn wanted(graph: &Graph, node: &Node, k: usize) -> Option<Wanted> {
    let (&Op::Sort { dim, descending, .. }, &[keys, places]) = (&node.op, &node.operands[..]) else { return None };
    let (ty, places_ty) = (graph.tensor_type(keys)?, graph.tensor_type(places)?);
    let extent = ty.shape[dim];
    let counted = matches!(graph.node(places).op, Op::Iota { dim: along, .. } if along == dim);
    // Each of what is kept costs its way through a heap.
    let few = k >= 1 && k.saturating_mul(extent.max(1).ilog2() as usize) <= extent;
    let few = few && (SHORTEST..=i32::MAX as usize).contains(&extent);
    let fits = ordered::fits(ty.dtype) && counted && places_ty.dtype.is_int() && ty.numel() >= SMALLEST;
    (few && fits).then_some(Wanted { dim, descending, k, places: places_ty.dtype })
}

/// What is wanted of `keys`, and its positions.
fn selection(to: &mut Rebuild, keys: ValueId, wanted: &Wanted) -> Result<[ValueId; 2]> {
    let rank = to.ty(keys)?.rank();
    let last: Dims = (0..rank).filter(|&d| d != wanted.dim).chain([wanted.dim]).collect();
    let mut back: Dims = last.clone();
    last.iter().enumerate().for_each(|(at, &d)| back[d] = at);
    let lines = to.transpose(keys, last)?;
    let mut shape = to.shape(lines)?;
    let columns = shape[rank - 1];
    let rows = to.ty(lines)?.numel() / columns;
    let matrix = to.reshape(lines, smallvec![rows, columns])?;
    let ty = to.ty(matrix)?.clone();

    let b = Builder::new("places");
    let given = b.input("keys", InputKind::User, ty.clone());
    let ranked = ordered::floats(&b, ordered::keys(&b, given, !wanted.descending)?)?;
    let places = b.element(b.push(Op::TopK { k: wanted.k }, &[ranked], vec![])?, 1)?;
    b.output("places", OutputKind::User, places);
    let places = to.splice(&b.finish(), &[matrix])?;

    // Not those that were selected among, in which zeros are alike.
    let b = Builder::new("values");
    let (given, at) =
        (b.input("keys", InputKind::User, ty), b.input("places", InputKind::User, to.ty(places)?.clone()));
    b.output("values", OutputKind::User, of_rows(&b, given, at)?);
    let values = to.splice(&b.finish(), &[matrix, places])?;

    shape[rank - 1] = wanted.k;
    let places = to.convert(places, wanted.places)?;
    let mut as_they_lay = |v| {
        let lines = to.reshape(v, shape.clone())?;
        to.transpose(lines, back.clone())
    };
    Ok([as_they_lay(values)?, as_they_lay(places)?])
}

/// Of each row of a matrix, the elements in the columns that the same row of `columns` names.
fn of_rows(b: &Builder, matrix: ValueId, columns: ValueId) -> Result<ValueId> {
    let (from, to) = (b.shape(matrix), b.shape(columns));
    let count = from[0] * from[1];
    let dtype = if i32::try_from(count).is_ok() { DType::I32 } else { DType::I64 };
    let row = b.push(Op::Iota { dtype, shape: to.clone(), dim: 0 }, &[], vec![])?;
    let start = b.binary(Binary::Multiply, row, b.full(Number::Int(from[1] as i64), dtype, &to)?)?;
    let at = b.binary(Binary::Add, start, b.convert(columns, dtype)?)?;
    let each = Gather {
        collapsed_slice_dims: smallvec![0],
        start_index_map: smallvec![0],
        index_vector_dim: 2,
        slice_sizes: smallvec![1],
        ..Gather::default()
    };
    b.gather(b.reshape(matrix, &[count])?, at, each)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{few_of_a_sort, formulated, sorts_keep_bits};
    use super::TOLD;
    use crate::Class;
    use ir::{Builder, DType, InputKind, OutputKind, Shape, TensorType};

    #[test]
    fn random_selections_keep_their_bits() {
        let made = sorts_keep_bits(0..500, TOLD.0, few_of_a_sort);
        assert!(made > 60, "{made}");
    }

    #[test]
    fn what_is_read_whole_is_sorted() {
        let b = Builder::new("both");
        let shape = Shape::from_slice(&[1024]);
        let keys = b.input("keys", InputKind::User, TensorType { dtype: DType::F32, shape: shape.clone() });
        let places = b.iota(DType::I64, &shape, 0).unwrap();
        let sorted = b.sort(&[keys, places], 0, true, true).unwrap();
        b.output("few", OutputKind::User, b.slice_dim(sorted[0], 0, 0, 8, 1).unwrap());
        b.output("all", OutputKind::User, sorted[1]);
        let graph = b.finish();
        assert!(formulated(&graph, Class::Exact, None).1.iter().all(|change| change.rule != TOLD.0));
    }
}
