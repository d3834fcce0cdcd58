//! Products of groups of rows, left to the host or to a TPU's compiler.
//!
//! In other ops they are a loop over tiles of rows: XLA's CPU copies the matrix of each tile's group before it multiplies, and a TPU
//! launches every step on its own. The host reads matrices where they lie, once for each group. libtpu has a kernel for CHLO's
//! `ragged_dot`, on every generation, in two launches; where the rows are no multiple of [`TILE`] it multiplies all rows by every
//! matrix instead, so there are as many.

use super::rebuild::Rebuild;
use crate::{Change, Changes, Class, Head};
use hostcall::Grouped;
use ir::{
    Builder, Comparison, DType, Error, Graph, InputKind, LocId, Node, Number, Op, OutputKind, Precision, Reducer,
    Result, Routine, ValueId,
};

/// Name, class and reason, of the host's.
pub(super) const BY_THE_HOST: (&str, Class, &str) = (
    "grouped-product-by-the-host",
    Class::Exact,
    "the host reads the matrix of each group where it lies, a loop of XLA's copies it for each tile of rows",
);
/// The same of a TPU's.
pub(super) const BY_A_ROUTINE: (&str, Class, &str) = (
    "grouped-product-by-a-routine",
    Class::Exact,
    "a TPU's compiler has a kernel for all groups, and launches each step of a loop on its own",
);

/// What libtpu's kernel wants rows to be a multiple of.
const TILE: usize = 8;

/// `graph`, for a platform where the host takes calls, with such products left to it; `None` if it has none.
pub(super) fn left_to_the_host(graph: &Graph, changes: &mut Changes, within: Option<LocId>) -> Result<Option<Graph>> {
    let is_one = |node: &Node| match node.op {
        Op::Grouped { host: false, .. } => matches!(types(graph, node), Some([x, y]) if x == y && is_multiplied(x)),
        _ => false,
    };
    if !changes.allows(BY_THE_HOST.1) || !graph.nodes().iter().any(is_one) {
        return Ok(None);
    }
    let mut to = Rebuild::of(graph);
    for node in graph.nodes() {
        let (Op::Grouped { of, precision, .. }, true) = (node.op.clone(), is_one(node)) else {
            to.keep(node);
            continue;
        };
        let (locs, head) = (vec![within.unwrap_or(node.loc)], Head::of(&node.op));
        changes.push(Change { rule: BY_THE_HOST.0, class: BY_THE_HOST.1, locs, before: head, after: vec![head] });
        to.keep(&Node { op: Op::Grouped { of, precision, host: true }, ..node.clone() });
    }
    Ok(Some(to.finish(graph)))
}

/// Whether the host multiplies elements of this type.
fn is_multiplied(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64)
}

/// The element types of what `node` multiplies.
fn types(graph: &Graph, node: &Node) -> Option<[DType; 2]> {
    let dtype = |i: usize| Some(graph.tensor_type(*node.operands.get(i)?)?.dtype);
    Some([dtype(0)?, dtype(1)?])
}

/// What `node` computes by a TPU's kernel: its operands are the inputs, its element the output. `None` if there is no kernel.
pub(super) fn said(graph: &Graph, node: &Node) -> Result<Option<Graph>> {
    let Op::Grouped { of, precision, host: false } = node.op else { return Ok(None) };
    let is_one = matches!(types(graph, node), Some([x, y]) if x == y && matches!(x, DType::F32 | DType::BF16));
    if !is_one {
        return Ok(None);
    }
    let b = Builder::new("routine");
    let mut operands = vec![];
    for (i, &v) in node.operands.iter().enumerate() {
        let Some(ty) = graph.tensor_type(v) else { return Ok(None) };
        operands.push(b.input(format!("arg{i}"), InputKind::User, ty.clone()));
    }
    let &[x, other, ends] = &operands[..] else { return Ok(None) };
    let call = Call { b: &b, node, of, precision, counts: b.dtype(ends) };
    let made = call.by_routine(x, other, ends)?;
    b.output("out0", OutputKind::User, made);
    Ok(Some(b.finish()))
}

/// A product that is being said by a routine.
struct Call<'a> {
    b: &'a Builder,
    node: &'a Node,
    of: Grouped,
    precision: Precision,
    /// The type of where groups end.
    counts: DType,
}

impl Call<'_> {
    fn by_routine(&self, x: ValueId, other: ValueId, ends: ValueId) -> Result<ValueId> {
        let (b, n) = (self.b, self.b.shape(x)[0]);
        // Of ends that fall, the greatest so far counts.
        let greatest = |order| over_those_up_to(b, ends, order, Reducer::Maximum);
        let (begin, end) = (greatest(Comparison::Lt)?, greatest(Comparison::Le)?);
        let sizes = b.convert(b.subtract(end, begin)?, DType::I32)?;
        let rows = n.next_multiple_of(TILE);
        let other = if self.of == Grouped::Matrices { with_rows(b, other, rows)? } else { other };
        let operands = [with_rows(b, x, rows)?, other, sizes];
        let op = Op::Routine(Routine::Grouped { of: self.of, precision: self.precision });
        let made = b.said_by(op, &operands, |b, given| Ok(vec![self.before(b, given, n)?]))?[0];
        match self.of {
            Grouped::Rows { .. } => {
                let made = first_rows(b, made, n)?;
                let last = b.reduce(end, Reducer::Maximum, &[0])?;
                let row = b.iota(b.dtype(end), &[n], 0)?;
                let is_of_one = b.compare(Comparison::Lt, row, b.broadcast_in_dim(last, &[n], &[])?)?;
                or_zero(b, is_of_one, made)
            }
            Grouped::Matrices => or_zero(b, b.compare(Comparison::Lt, begin, end)?, made),
        }
    }

    /// What the routine gives, as before: of the first `n` rows, by where groups end.
    fn before(&self, b: &Builder, given: &[ValueId], n: usize) -> Result<ValueId> {
        let &[x, other, sizes] = given else { return Err(Error::internal("three operands were given")) };
        let ends = b.convert(over_those_up_to(b, sizes, Comparison::Le, Reducer::Add)?, self.counts)?;
        let other = if self.of == Grouped::Matrices { first_rows(b, other, n)? } else { other };
        let made = b.push(self.node.op.clone(), &[first_rows(b, x, n)?, other, ends], self.node.bodies.clone())?;
        let made = b.elements(made)?[0];
        if self.of == Grouped::Matrices { Ok(made) } else { with_rows(b, made, b.shape(x)[0]) }
    }
}

/// For each group the `counts`, which are not negative, of all groups up to it, itself included or not, reduced; 0 of none.
fn over_those_up_to(b: &Builder, counts: ValueId, order: Comparison, reducer: Reducer) -> Result<ValueId> {
    let groups = b.shape(counts)[0];
    let spread = b.broadcast_in_dim(counts, &[groups, groups], &[1])?;
    let [row, column] = [0, 1].map(|dim| b.iota(DType::I32, &[groups, groups], dim));
    let is_up_to = b.compare(order, column?, row?)?;
    b.reduce(b.select(is_up_to, spread, b.full_like(spread, Number::Int(0))?)?, reducer, &[1])
}

/// `v`, with zeros in the places along the first dimension that are not so.
fn or_zero(b: &Builder, is_so: ValueId, v: ValueId) -> Result<ValueId> {
    b.select(b.broadcast_in_dim(is_so, &b.shape(v), &[0])?, v, b.full_like(v, Number::Int(0))?)
}

/// `v` with rows of zeros behind its own.
fn with_rows(b: &Builder, v: ValueId, rows: usize) -> Result<ValueId> {
    let shape = b.shape(v);
    let behind = [(rows - shape[0]) as i64, 0];
    b.pad(v, b.scalar(Number::Int(0), b.dtype(v))?, &[0, 0], &behind, &[0, 0])
}

fn first_rows(b: &Builder, v: ValueId, rows: usize) -> Result<ValueId> {
    b.slice_dim(v, 0, 0, rows, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Platform;
    use crate::formulate::testing::formulated_for;
    use crate::rules::tests::same;
    use ir::ops::sample::{bind, data, expand_for};
    use ir::{Literal, eval};

    const FORWARD: &str = "transformers::grouped_mm_fallback.default";
    const BACKWARD: &str = "transformers::grouped_mm_fallback_backward.default";
    const GROUPED: &str = "aten::_grouped_mm.default";

    /// The program of a sample call, and its inputs.
    fn program(name: &str, args: &str) -> (Graph, Vec<Literal>) {
        let entry = ir::ops::find(name).unwrap();
        let args = bind(entry.schema, args).unwrap();
        let inputs = data::literals(&args, 1, false);
        (expand_for(&entry, &args, &inputs).unwrap().graph, inputs)
    }

    /// What is said otherwise, once formulated; it means the same.
    fn said_otherwise(platform: Platform, name: &str, args: &str) -> Vec<Op> {
        let (before, inputs) = program(name, args);
        let (after, changes) = formulated_for(platform, &before, Class::Exact, None);
        let [wanted, given] = [&before, &after].map(|graph| eval(graph, &inputs).unwrap());
        for (wanted, given) in wanted.iter().zip(&given) {
            let verdict = same(wanted, given, Class::Exact);
            assert!(verdict.is_ok(), "{platform:?} {name}({args}): {verdict:?}");
        }
        let told = [BY_THE_HOST.0, BY_A_ROUTINE.0];
        let is_one = |op: &&Op| matches!(op, Op::Grouped { host: true, .. } | Op::Routine(Routine::Grouped { .. }));
        let made: Vec<Op> = after.nodes().iter().map(|node| &node.op).filter(is_one).cloned().collect();
        assert_eq!(made.len(), changes.iter().filter(|change| told.contains(&change.rule)).count(), "{changes:?}");
        made
    }

    /// What is multiplied on `platform`, `Matrices` or whether matrices are turned.
    fn multiplied(platform: Platform, name: &str, args: &str) -> Vec<Grouped> {
        let of = |op: Op| match op {
            Op::Grouped { of, .. } | Op::Routine(Routine::Grouped { of, .. }) => of,
            other => panic!("{other:?}"),
        };
        said_otherwise(platform, name, args).into_iter().map(of).collect()
    }

    #[test]
    fn the_host_and_a_tpu_multiply_groups_and_it_means_the_same() {
        let [plain, turned] = [false, true].map(|turned| Grouped::Rows { turned });
        for platform in [Platform::CpuWithBlas, Platform::Tpu] {
            for (name, args, wanted) in [
                (FORWARD, "f32[6,3], f32[4,3,5], i32[4]{1,1,4,6}", &[plain][..]),
                (FORWARD, "f32[11,3], f32[4,3,5], i64[4]{0,2,3,5}", &[plain]),
                (FORWARD, "f32[16,3], f32[1,3,5], i32[1]{16}", &[plain]),
                (FORWARD, "f32[6,3], f32[2,3,5], i32[2]{0,0}", &[plain]),
                (BACKWARD, "f32[6,3], f32[4,3,5], i32[4]{1,1,4,6}, f32[6,5]", &[turned, Grouped::Matrices]),
                (BACKWARD, "f32[9,3], f32[4,3,5], i64[4]{0,2,3,5}, f32[9,5]", &[turned, Grouped::Matrices]),
                (GROUPED, "f32[16,16], f32[16,8], i32[3]{4,8,16}", &[Grouped::Matrices]),
                (GROUPED, "f32[3,8,16], f32[16,16], i32[3]{4,8,16}", &[turned]),
            ] {
                assert_eq!(multiplied(platform, name, args), wanted, "{platform:?} {name}({args})");
            }
        }
    }

    #[test]
    fn types_that_are_not_multiplied_stay_loops() {
        let of = |platform, args: &str| said_otherwise(platform, FORWARD, args).len();
        let args = |dtype: &str| format!("{dtype}[6,3], {dtype}[2,3,5], i32[2]{{2,6}}");
        for (dtype, by_host, by_tpu) in [("f32", 1, 1), ("f64", 1, 0), ("bf16", 0, 1), ("f16", 0, 0)] {
            assert_eq!(of(Platform::CpuWithBlas, &args(dtype)), by_host, "{dtype}");
            assert_eq!(of(Platform::Tpu, &args(dtype)), by_tpu, "{dtype}");
            assert_eq!(of(Platform::Cpu, &args(dtype)), 0, "{dtype}");
        }
    }

    #[test]
    fn a_tpu_gets_whole_tiles_of_rows_and_the_size_of_each_group() {
        let (before, _) = program(FORWARD, "f32[11,3], f32[4,3,5], i64[4]{0,2,3,5}");
        let (after, _) = formulated_for(Platform::Tpu, &before, Class::Exact, None);
        let call = after.nodes().iter().find(|node| matches!(node.op, Op::Routine(_))).unwrap();
        let types = call.operands.iter().map(|&v| after.tensor_type(v).unwrap().to_string());
        assert_eq!(types.collect::<Vec<_>>(), ["f32[16,3]", "f32[4,3,5]", "i32[4]"]);
    }
}
