//! Rows that a reshape would move in a TPU's memory, left apart.
//!
//! A TPU keeps the last dimension along lanes and the one before it in eights of sublanes. PyTorch's linear layers make two
//! sequences of 197 rows into 394: the sequences were padded to 200 rows each, and 394 to 400 at the end, so that such a reshape
//! moves every row. libtpu fuses nothing across it, and keeps what is read on both sides twice. Here everything that follows one
//! is said for the dimensions as they were, up to where that cannot be said. So it is of rows in whole eights, too, which stay
//! where they are: what is computed for merged rows and read for others is kept in memory, not computed again. An input that is
//! read apart and stays where it is stands behind a barrier, or XLA would move its reshape below what is computed of it alone,
//! and libtpu write that: with the decay of a moment outside, an update is no longer fused into the product of its gradient.
//!
//! | libtpu 0.0.51, v5e        | merged                   | apart                    |
//! |---------------------------|--------------------------|--------------------------|
//! | ViT's training step, bf16 | 321 MiB of HBM, 1449 us  | 257 MiB of HBM, 1293 us  |
//! | the same in f32           | 757 MiB of HBM, 2976 us  | 688 MiB of HBM, 2788 us  |
//! | BERT's, bf16, 64 rows     | 1800 MiB of HBM, 3192 us | 1654 MiB of HBM, 2919 us |

use super::rebuild::Rebuild;
use crate::measure::{SUBLANES, is_elementwise, uses};
use crate::rules::shapes::reshaped_broadcast;
use crate::{Change, Changes, Class, Head};
use ir::op::DotGeneral;
use ir::reshape::groups;
use ir::{Dims, Graph, LocId, Node, Op, Operands, Result, Shape, ValueId};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Name, class and reason.
pub(super) const TOLD: (&str, Class, &str) = (
    "rows-stay-apart",
    Class::Exact,
    "a TPU pads rows to eights: merging others moves them, and what is said both ways is kept",
);

/// Ops on the way of what is said apart because it is read there: the decay of a weight or a moment has two.
const DEEPEST: usize = 4;

/// `graph`, for a TPU, without reshapes that merge rows, where what reads them can do without.
pub(super) fn apart(graph: &Graph, changes: &mut Changes, within: Option<LocId>) -> Result<Graph> {
    let splits = Vec::with_capacity(graph.nodes().len());
    let mut pass = Pass { to: Rebuild::of(graph), uses: uses(graph), views: FxHashMap::default(), splits };
    for node in graph.nodes() {
        let started = changes.allows(TOLD.1);
        let made = pass.to.len();
        pass.to.set_loc(node.loc);
        let Some(split) = pass.node(graph, node, started)? else {
            pass.to.keep(node);
            pass.splits.push(None);
            continue;
        };
        if split.began {
            let (locs, before) = (vec![within.unwrap_or(node.loc)], Head::of(&node.op));
            changes.push(Change { rule: TOLD.0, class: TOLD.1, locs, before, after: pass.to.heads_from(made) });
        }
        let shape = node.ty.tensor().map(|t| t.shape.clone()).unwrap_or_default();
        let merged = pass.to.reshape(split.value, shape)?;
        pass.to.stand_for(merged);
        pass.splits.push(split.runs.iter().any(|&run| run > 1).then_some(split));
    }
    Ok(pass.to.finish(graph))
}

/// A value whose dimensions are apart.
#[derive(Clone)]
struct Split {
    /// In the graph being built.
    value: ValueId,
    /// For each dimension of the old value, how many it is made of.
    runs: Vec<usize>,
    /// Whether a reshape that merges is left out here.
    began: bool,
}

impl Split {
    fn of(value: ValueId, runs: Vec<usize>) -> Split {
        Split { value, runs, began: false }
    }
}

struct Pass {
    to: Rebuild,
    /// How often each old value is read.
    uses: Vec<usize>,
    /// Inputs with other extents, behind barriers.
    views: FxHashMap<(ValueId, Shape), ValueId>,
    /// By node of the old graph.
    splits: Vec<Option<Split>>,
}

impl Pass {
    /// What `node` is with its operands' dimensions apart; `None` where it stays as it is.
    fn node(&mut self, graph: &Graph, node: &Node, may_begin: bool) -> Result<Option<Split>> {
        match &node.op {
            Op::Reshape { shape } => self.reshape(node.operands[0], shape, may_begin),
            _ if !node.operands.iter().any(|&v| self.split(v).is_some()) => Ok(None),
            op if is_elementwise(op) => self.elementwise(graph, node),
            Op::BroadcastInDim { shape, dims } => self.broadcast(graph, node.operands[0], shape, dims),
            Op::Transpose { permutation } => self.transpose(node.operands[0], permutation),
            Op::Reduce { dims, .. } if node.operands.len() == 1 => self.reduce(node, dims),
            Op::Slice { start, limit, stride } => self.slice(graph, node.operands[0], [start, limit, stride]),
            Op::Concatenate { dim } => self.concatenate(graph, node, *dim),
            Op::DotGeneral(product) => self.product(graph, node, product),
            _ => Ok(None),
        }
    }

    fn split(&self, v: ValueId) -> Option<&Split> {
        self.splits[v.index()].as_ref()
    }

    /// Extents of each dimension of `v`, an old value.
    fn parts(&self, graph: &Graph, v: ValueId) -> Result<Vec<Shape>> {
        let Some(split) = self.split(v) else {
            let shape = graph.tensor_type(v).map(|t| t.shape.clone()).unwrap_or_default();
            return Ok(shape.iter().map(|&extent| Shape::from_slice(&[extent])).collect());
        };
        let shape = self.to.shape(split.value)?;
        Ok(ranges(&split.runs).map(|run| Shape::from_slice(&shape[run])).collect())
    }

    /// `v`, an old value, with these extents of its dimensions.
    fn with_parts(&mut self, graph: &Graph, v: ValueId, parts: &[Shape]) -> Result<ValueId> {
        self.computed_with_parts(graph, v, parts, DEEPEST)
    }

    /// The same; where only this is read, so many ops that it is computed by have these extents, too.
    fn computed_with_parts(&mut self, graph: &Graph, v: ValueId, parts: &[Shape], deep: usize) -> Result<ValueId> {
        let shape: Shape = parts.iter().flatten().copied().collect();
        let place = self.to.place(v);
        match self.split(v) {
            Some(split) if self.to.shape(split.value)? == shape => return Ok(split.value),
            Some(_) => return self.to.reshape(place, shape),
            None => {}
        }
        if let Some((small, dims)) = self.to.as_broadcast(place) {
            let (from, dims) = (self.to.shape(place)?, dims.clone());
            if let Some((of, along)) = reshaped_broadcast(&self.to.shape(small)?, &dims, &from, &shape) {
                let small = self.to.reshape(small, of)?;
                return self.to.push(Op::BroadcastInDim { shape, dims: along }, &[small]);
            }
        }
        let node = graph.node(v);
        if deep > 0 && self.uses[v.index()] == 1 && is_elementwise(&node.op) {
            let mut operands = Operands::new();
            for &v in &node.operands {
                operands.push(self.computed_with_parts(graph, v, parts, deep - 1)?);
            }
            return self.to.push(node.op.clone(), &operands);
        }
        if self.to.is_input(place) && stays(parts) { self.view(place, shape) } else { self.to.reshape(place, shape) }
    }

    /// `input`, of the graph being built, with the extents `shape`, behind a barrier.
    fn view(&mut self, input: ValueId, shape: Shape) -> Result<ValueId> {
        let key = (input, shape);
        if let Some(&view) = self.views.get(&key) {
            return Ok(view);
        }
        let view = self.to.reshape(input, key.1.clone())?;
        let view = self.to.push(Op::OptimizationBarrier, &[view])?;
        self.views.insert(key, view);
        Ok(view)
    }

    fn reshape(&mut self, v: ValueId, shape: &Shape, may_begin: bool) -> Result<Option<Split>> {
        let from = self.split(v).map_or_else(|| self.to.place(v), |split| split.value);
        let Some(groups) = groups(&self.to.shape(from)?, shape) else { return Ok(None) };
        let extents = self.to.shape(from)?;
        let (mut apart, mut runs, mut begins) = (Shape::new(), vec![], false);
        for (left, right) in groups {
            let rows = right.len() == 1 && right.start + 2 == shape.len();
            if rows && holds_rows(&extents[left.clone()]) {
                apart.extend(extents[left.clone()].iter().copied());
                runs.push(left.len());
                begins = true;
            } else {
                apart.extend(right.clone().map(|d| shape[d]));
                runs.extend(right.map(|_| 1));
            }
        }
        if (begins && !may_begin) || (!begins && self.split(v).is_none()) {
            return Ok(None);
        }
        Ok(Some(Split { value: self.to.reshape(from, apart)?, runs, began: begins }))
    }

    fn elementwise(&mut self, graph: &Graph, node: &Node) -> Result<Option<Split>> {
        let Some(of) = node.operands.iter().copied().find(|&v| self.split(v).is_some()) else { return Ok(None) };
        let parts = self.parts(graph, of)?;
        let operands = node.operands.iter().map(|&v| self.with_parts(graph, v, &parts)).collect::<Result<Vec<_>>>()?;
        self.made(node.op.clone(), &operands, &parts)
    }

    fn made(&mut self, op: Op, operands: &[ValueId], parts: &[Shape]) -> Result<Option<Split>> {
        let value = self.to.push(op, operands)?;
        Ok(Some(Split::of(value, parts.iter().map(|part| part.len()).collect())))
    }

    fn broadcast(&mut self, graph: &Graph, v: ValueId, shape: &Shape, dims: &Dims) -> Result<Option<Split>> {
        let parts = self.parts(graph, v)?;
        let mut to: Vec<Shape> = shape.iter().map(|&extent| Shape::from_slice(&[extent])).collect();
        for (part, &d) in parts.iter().zip(dims).filter(|(part, _)| part.len() > 1) {
            to[d] = part.clone();
        }
        let starts: Vec<Range<usize>> = ranges(&to.iter().map(|part| part.len()).collect::<Vec<_>>()).collect();
        let along = dims.iter().flat_map(|&d| starts[d].clone()).collect();
        let value = self.with_parts(graph, v, &parts)?;
        self.made(Op::BroadcastInDim { shape: to.iter().flatten().copied().collect(), dims: along }, &[value], &to)
    }

    fn transpose(&mut self, v: ValueId, permutation: &Dims) -> Result<Option<Split>> {
        let Some(Split { value, runs, .. }) = self.split(v).cloned() else { return Ok(None) };
        let places: Vec<Range<usize>> = ranges(&runs).collect();
        let apart = permutation.iter().flat_map(|&d| places[d].clone()).collect();
        let value = self.to.transpose(value, apart)?;
        Ok(Some(Split::of(value, permutation.iter().map(|&d| runs[d]).collect())))
    }

    fn reduce(&mut self, node: &Node, dims: &Dims) -> Result<Option<Split>> {
        let Some(Split { value, runs, .. }) = self.split(node.operands[0]).cloned() else { return Ok(None) };
        let Op::Reduce { reducer, .. } = node.op else { return Ok(None) };
        let places: Vec<Range<usize>> = ranges(&runs).collect();
        let over = dims.iter().flat_map(|&d| places[d].clone()).collect();
        let value = self.to.push(Op::Reduce { reducer, dims: over }, &[value])?;
        let kept = (0..runs.len()).filter(|d| !dims.contains(d)).map(|d| runs[d]).collect();
        Ok(Some(Split::of(value, kept)))
    }

    fn slice(&mut self, graph: &Graph, v: ValueId, along: [&Dims; 3]) -> Result<Option<Split>> {
        let parts = self.parts(graph, v)?;
        let mut apart = [Dims::new(), Dims::new(), Dims::new()];
        for (d, part) in parts.iter().enumerate() {
            let [start, limit, stride] = along.map(|dims| dims[d]);
            let whole = (start, limit, stride) == (0, part.iter().product(), 1);
            match part.len() {
                1 => apart.iter_mut().zip([start, limit, stride]).for_each(|(dims, n)| dims.push(n)),
                _ if whole => part.iter().for_each(|&extent| {
                    apart.iter_mut().zip([0, extent, 1]).for_each(|(dims, n)| dims.push(n));
                }),
                _ => return Ok(None),
            }
        }
        let [start, limit, stride] = apart;
        let value = self.with_parts(graph, v, &parts)?;
        self.made(Op::Slice { start, limit, stride }, &[value], &parts)
    }

    fn concatenate(&mut self, graph: &Graph, node: &Node, dim: usize) -> Result<Option<Split>> {
        let Some(of) = node.operands.iter().copied().find(|&v| self.split(v).is_some()) else { return Ok(None) };
        let parts = self.parts(graph, of)?;
        if parts[dim].len() > 1 {
            return Ok(None);
        }
        let mut operands = vec![];
        for &v in &node.operands {
            let mut own = parts.clone();
            own[dim] = self.parts(graph, v)?[dim].clone();
            if own[dim].len() > 1 {
                return Ok(None);
            }
            operands.push(self.with_parts(graph, v, &own)?);
        }
        let dim = parts[..dim].iter().map(|part| part.len()).sum();
        self.made(Op::Concatenate { dim }, &operands, &parts)
    }

    fn product(&mut self, graph: &Graph, node: &Node, product: &DotGeneral) -> Result<Option<Split>> {
        let [l, r] = [node.operands[0], node.operands[1]];
        let (mut lhs, mut rhs) = (self.parts(graph, l)?, self.parts(graph, r)?);
        let batch = product.lhs_batch.iter().zip(&product.rhs_batch);
        for (&i, &j) in batch.chain(product.lhs_contract.iter().zip(&product.rhs_contract)) {
            match (lhs[i].len(), rhs[j].len()) {
                (1, _) => lhs[i] = rhs[j].clone(),
                (_, 1) => rhs[j] = lhs[i].clone(),
                _ if lhs[i] != rhs[j] => return Ok(None),
                _ => {}
            }
        }
        let places = |parts: &[Shape], dims: &Dims| -> Dims {
            let starts: Vec<_> = ranges(&parts.iter().map(|part| part.len()).collect::<Vec<_>>()).collect();
            dims.iter().flat_map(|&d| starts[d].clone()).collect()
        };
        let apart = DotGeneral {
            lhs_batch: places(&lhs, &product.lhs_batch),
            rhs_batch: places(&rhs, &product.rhs_batch),
            lhs_contract: places(&lhs, &product.lhs_contract),
            rhs_contract: places(&rhs, &product.rhs_contract),
            ..product.clone()
        };
        let free = |parts: &[Shape], taken: [&Dims; 2]| -> Vec<Shape> {
            let left = (0..parts.len()).filter(|d| !taken.iter().any(|dims| dims.contains(d)));
            left.map(|d| parts[d].clone()).collect()
        };
        let mut result: Vec<Shape> = product.lhs_batch.iter().map(|&d| lhs[d].clone()).collect();
        result.extend(free(&lhs, [&product.lhs_batch, &product.lhs_contract]));
        result.extend(free(&rhs, [&product.rhs_batch, &product.rhs_contract]));
        let operands = [self.with_parts(graph, l, &lhs)?, self.with_parts(graph, r, &rhs)?];
        self.made(Op::DotGeneral(apart), &operands, &result)
    }
}

/// Whether dimensions of these extents hold rows of several, and leaving those apart pads each by a fifth at most.
fn holds_rows(extents: &[usize]) -> bool {
    let rows = extents.iter().rposition(|&extent| extent != 1);
    let Some((rows, outer)) = rows.map(|at| (extents[at], &extents[..at])) else { return false };
    outer.iter().any(|&extent| extent != 1) && rows.next_multiple_of(SUBLANES) * 5 <= rows * 6
}

/// Whether a value with these extents of its dimensions lies in a TPU's memory as it does without them.
fn stays(parts: &[Shape]) -> bool {
    let [.., rows, lanes] = parts else { return false };
    lanes.len() == 1 && (rows.len() == 1 || rows.last().is_some_and(|&extent| extent % SUBLANES == 0))
}

/// Where runs of so many dimensions lie.
fn ranges(runs: &[usize]) -> impl Iterator<Item = Range<usize>> {
    runs.iter().scan(0, |at, &run| {
        *at += run;
        Some(*at - run..*at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Platform;
    use crate::formulate::testing::{Random, formulated_for, keeps_bits_on_a_tpu};
    use ir::{Binary, Builder, DType, InputKind, OutputKind, Precision, Reducer, TensorType, Unary};

    /// A product of `rank` dimensions less these, contracted.
    fn over(lhs: &[usize], rhs: &[usize]) -> DotGeneral {
        DotGeneral {
            lhs_batch: Dims::new(),
            rhs_batch: Dims::new(),
            lhs_contract: lhs.into(),
            rhs_contract: rhs.into(),
            precision: Precision::Highest,
            out: DType::F32,
            host: false,
        }
    }

    /// Sequences whose rows are merged, and a chain of ops on them and on another such value.
    fn layers(r: &mut Random) -> Graph {
        let b = Builder::new("layers");
        let (rows, width) = (r.one_of(&[7usize, 14, 15, 23, 16, 3]), r.within(2, 4));
        let (outer, merged) = (r.within(1, 3), |outer: usize| outer * rows);
        let input = |name: &str, shape: &[usize]| {
            b.input(name, InputKind::User, TensorType::new(DType::F32, shape.iter().copied()))
        };
        let x = input("x", &[outer, rows, width]);
        let mut v = b.reshape(x, &[merged(outer), width]).unwrap();
        let mut side = b.reshape(input("s", &[outer, rows, 2]), &[merged(outer), 2]).unwrap();
        for step in 0..r.within(2, 7) {
            let shape = b.shape(v);
            let other = input(&format!("i{step}"), &shape);
            v = match r.below(12) {
                0 => b.unary(Unary::Negate, v).unwrap(),
                1 => b.binary(Binary::Add, v, other).unwrap(),
                2 => {
                    let row = input(&format!("r{step}"), &shape[1..]);
                    b.multiply(b.broadcast_in_dim(row, &shape, &[1]).unwrap(), v).unwrap()
                }
                3 => b.dot_general(v, input(&format!("w{step}"), &[shape[1], 3]), over(&[1], &[0])).unwrap(),
                4 => b.dot_general(v, input(&format!("u{step}"), &[2, shape[1]]), over(&[1], &[1])).unwrap(),
                5 => {
                    let sums = b.reduce(v, Reducer::Add, &[1]).unwrap();
                    b.subtract(v, b.broadcast_in_dim(sums, &shape, &[0]).unwrap()).unwrap()
                }
                6 => b.slice_dim(v, 1, 0, shape[1] - 1, 1).unwrap(),
                7 => b.slice_dim(v, 0, 1, shape[0], 1).and_then(|v| b.concatenate(&[v, v], 1)).unwrap(),
                8 => b.concatenate(&[v, other], r.below(2)).unwrap(),
                9 => b.transpose(b.transpose(v, &[1, 0]).unwrap(), &[1, 0]).unwrap(),
                10 if shape[0] == merged(outer) => {
                    let apart = b.reshape(v, &[outer, rows, shape[1]]).unwrap();
                    b.reshape(b.unary(Unary::Abs, apart).unwrap(), &shape).unwrap()
                }
                _ if shape[0] == b.shape(side)[0] => {
                    side = b.concatenate(&[side, side], 1).unwrap();
                    let turned = b.dot_general(side, v, over(&[0], &[0])).unwrap();
                    b.output(format!("t{step}"), OutputKind::User, turned);
                    v
                }
                _ => b.convert(b.convert(v, DType::F64).unwrap(), DType::F32).unwrap(),
            };
            if b.shape(v).contains(&0) {
                break;
            }
        }
        b.output("y", OutputKind::User, v);
        b.output("sum", OutputKind::User, b.reduce(v, Reducer::Add, &[0]).unwrap());
        b.finish()
    }

    #[test]
    fn random_layers_keep_their_bits() {
        keeps_bits_on_a_tpu(layers, 100);
    }

    /// A linear layer, its activation and the gradient of its weight.
    fn linear(rows: usize, platform: Platform) -> (Graph, usize) {
        let text = format!(
            "graph @g {{\n  %0: f32[2,{rows},4] = input 0 \"x\" user\n  %1: f32[4,3] = input 1 \"w\" user\n  \
             %2: f32[{all},4] = reshape(shape:[{all},4]) %0\n  \
             %3: f32[{all},3] = dot_general(lhs_batch:[],rhs_batch:[],lhs_contract:[1],rhs_contract:[0],precision:highest,out:f32) %2, %1\n  \
             %4: f32[{all},3] = tanh %3\n  %5: f32[2,{rows},3] = reshape(shape:[2,{rows},3]) %4\n  \
             %6: f32[4,3] = dot_general(lhs_batch:[],rhs_batch:[],lhs_contract:[0],rhs_contract:[0],precision:highest,out:f32) %2, %4\n  \
             return %5 \"y\", %6 \"dw\"\n}}\n",
            all = 2 * rows
        );
        let graph = ir::text::parse(&text).expect("a program");
        let (after, _) = formulated_for(platform, &graph, Class::Exact, None);
        let reshapes = after.nodes().iter().filter(|node| matches!(node.op, Op::Reshape { .. })).count();
        (after, reshapes)
    }

    #[test]
    fn a_layer_leaves_rows_apart() {
        for rows in [197, 200] {
            let (graph, reshapes) = linear(rows, Platform::Tpu);
            assert_eq!(reshapes, 0, "{}", ir::text::print(&graph));
        }
        assert_eq!(linear(3, Platform::Tpu).1, 2, "3 rows would be padded to 8");
        assert_eq!(linear(197, Platform::Cpu).1, 2, "a processor has no tiles");
    }

    /// Views of inputs in the update of a moment by a gradient whose rows are heads of `rows` each.
    fn views(rows: usize) -> usize {
        let text = format!(
            "graph @g {{\n  %0: f32[4,{rows},3] = input 0 \"gradient\" user\n  %1: f32[{all},3] = input 1 \"moment\" user\n  \
             %2: f32[{all},3] = reshape(shape:[{all},3]) %0\n  %3: f32[{all},3] = multiply %1, %1\n  \
             %4: f32[{all},3] = add %3, %2\n  return %4 \"out\"\n}}\n",
            all = 4 * rows
        );
        let graph = ir::text::parse(&text).expect("a program");
        let (after, _) = formulated_for(Platform::Tpu, &graph, Class::Exact, None);
        after.nodes().iter().filter(|node| matches!(node.op, Op::OptimizationBarrier)).count()
    }

    #[test]
    fn an_input_is_seen_apart_behind_one_barrier() {
        assert_eq!(views(64), 1);
        assert_eq!(views(63), 0, "it is copied");
    }
}
