//! Random views and writes against storage as a flat list of numbers.

use super::*;
use crate::graph::{InputKind, OutputKind};
use crate::literal::Literal;
use crate::op::Op;

/// A small generator: tests must not depend on anything that changes.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % n.max(1)
    }
    fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }
}

fn places(view: &Layout) -> Vec<usize> {
    let mut places = vec![view.offset];
    for (&n, &s) in view.sizes.iter().zip(&view.strides) {
        places = places.iter().flat_map(|&p| (0..n).map(move |i| p + i * s)).collect();
    }
    places
}

fn random_dense(r: &mut Random) -> Layout {
    let sizes: Shape = (0..r.below(5)).map(|_| if r.chance(20) { 0 } else { 1 + r.below(5) }).collect();
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, r.below(i + 1));
    }
    let mut strides: Strides = sizes.iter().map(|_| 1).collect();
    let mut step = 1;
    for &d in &order {
        strides[d] = step;
        step *= sizes[d].max(1);
    }
    Layout { sizes, strides, offset: 0 }
}

/// One random view op on `v`; the same layout where the op does not apply.
fn random_view(r: &mut Random, v: &Layout, places: usize) -> Layout {
    let mut v = v.clone();
    let rank = v.sizes.len();
    let dim = r.below(rank);
    match r.below(9) {
        0 if rank > 1 => {
            let other = r.below(rank);
            v.sizes.swap(dim, other);
            v.strides.swap(dim, other);
        }
        1 if rank > 0 && v.sizes[dim] > 0 => {
            let start = r.below(v.sizes[dim]);
            let step = 1 + r.below(3);
            let length = r.below(v.sizes[dim] - start + 1);
            v.offset += start * v.strides[dim];
            v.strides[dim] *= step;
            v.sizes[dim] = length.div_ceil(step);
        }
        2 if rank > 0 && v.sizes[dim] > 0 => {
            v.offset += r.below(v.sizes[dim]) * v.strides[dim];
            v.sizes.remove(dim);
            v.strides.remove(dim);
        }
        3 if rank < 6 => {
            let at = r.below(rank + 1);
            v.sizes.insert(at, 1);
            v.strides.insert(at, r.below(7));
        }
        4 if rank > 0 && v.sizes[dim] == 1 => {
            (v.sizes[dim], v.strides[dim]) = (1 + r.below(3), 0);
        }
        5 if rank > 0 && rank < 6 => {
            let parts: Vec<usize> = (1..=v.sizes[dim]).filter(|p| v.sizes[dim].is_multiple_of(*p)).collect();
            if let Some(&outer) = parts.get(r.below(parts.len())) {
                let inner = v.sizes[dim] / outer;
                v.sizes[dim] = outer;
                v.sizes.insert(dim + 1, inner);
                v.strides.insert(dim, v.strides[dim] * inner);
            }
        }
        6 if rank > 1 && dim + 1 < rank && v.strides[dim] == v.sizes[dim + 1] * v.strides[dim + 1] => {
            let outer = v.sizes.remove(dim);
            v.strides.remove(dim);
            v.sizes[dim] *= outer;
        }
        7 if rank > 1 => {
            let n = v.sizes[rank - 2].min(v.sizes[rank - 1]);
            let stride = v.strides[rank - 2] + v.strides[rank - 1];
            v.sizes.truncate(rank - 2);
            v.strides.truncate(rank - 2);
            v.sizes.push(n);
            v.strides.push(stride);
        }
        8 if r.chance(3) => {
            let sizes: Shape = (0..r.below(4)).map(|_| 1 + r.below(4)).collect();
            let strides = sizes.iter().map(|_| r.below(6)).collect();
            let any = Layout { sizes, strides, offset: r.below(places) };
            if any.end().is_some_and(|e| e <= places) {
                v = any;
            }
        }
        _ => {}
    }
    v
}

fn bytes(values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

struct Model {
    b: Builder,
    aliases: Aliases,
    storage: Vec<i64>,
    input: Vec<i64>,
    base: TensorId,
    expected: Vec<Vec<i64>>,
}

impl Model {
    fn new(layout: Layout) -> Model {
        let b = Builder::new("test");
        let ty = TensorType { dtype: DType::I64, shape: layout.sizes.clone() };
        let storage: Vec<i64> = (0..ty.numel() as i64).map(|i| 1000 + i).collect();
        let input = places(&layout).into_iter().map(|p| storage[p]).collect();
        let value = b.input("x", InputKind::User, ty);
        let aliases = Aliases::new();
        let base = aliases.fresh(&b, value, layout).expect("dense");
        Model { b, aliases, storage, input, base, expected: vec![] }
    }

    /// One whose storage was filled with a number.
    fn filled(layout: Layout) -> Model {
        let mut model = Model::new(layout.clone());
        let value = model.b.full(crate::Number::Int(7), DType::I64, &layout.sizes).expect("a fill");
        model.base = model.aliases.fresh(&model.b, value, layout).expect("dense");
        model.storage.fill(7);
        model
    }

    fn read(&mut self, t: TensorId) {
        let value = self.aliases.read(&self.b, t).expect("read");
        self.b.output("o", OutputKind::User, value);
        let places = places(&self.aliases.layout(t));
        self.expected.push(places.into_iter().map(|p| self.storage[p]).collect());
    }

    fn write(&mut self, r: &mut Random, t: TensorId) {
        let layout = self.aliases.layout(t);
        let places = places(&layout);
        let new: Vec<i64> = places.iter().map(|_| r.below(1000) as i64).collect();
        let ty = TensorType { dtype: DType::I64, shape: layout.sizes };
        let value = self.b.constant(Literal::dense(ty, bytes(&new)).expect("dense")).expect("constant");
        let mut distinct = places.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let written = self.aliases.write(&self.b, t, value);
        if distinct.len() < places.len() {
            assert!(written.expect_err("overlap").message().contains("refers to a single memory location"));
            return;
        }
        written.expect("write");
        places.into_iter().zip(new).for_each(|(p, v)| self.storage[p] = v);
    }

    /// Compares every read; gives the ops of the program.
    fn check(self, what: &str) -> Vec<Op> {
        let graph = self.b.finish();
        let ty = graph.tensor_type(graph.inputs[0].value).expect("a tensor").clone();
        let input = Literal::dense(ty, bytes(&self.input)).expect("dense");
        let results = crate::eval(&graph, &[input]).expect("evaluates");
        for (i, (got, want)) in results.into_iter().zip(&self.expected).enumerate() {
            assert_eq!(got.dense_bytes(), bytes(want), "{what}, read {i} of {:#?}", graph.nodes());
        }
        graph.nodes().iter().map(|n| n.op.clone()).collect()
    }
}

#[test]
fn random_chains_read_and_write_as_storage_does() {
    for seed in 0..6000 {
        let mut r = Random(seed * 7919 + 1);
        let layout = random_dense(&mut r);
        let size = layout.numel().expect("small");
        let mut model = if seed % 3 == 0 { Model::filled(layout) } else { Model::new(layout) };
        let mut known = vec![model.base];
        for _ in 0..1 + r.below(5) {
            let mut view = model.aliases.layout(known[r.below(known.len())]);
            for _ in 0..1 + r.below(4) {
                view = random_view(&mut r, &view, size);
            }
            let t = model.aliases.view(model.base, view).expect("inside");
            known.push(t);
            if r.chance(2) {
                model.write(&mut r, t);
            }
            let other = known[r.below(known.len())];
            model.read(t);
            model.read(other);
        }
        model.read(known[0]);
        model.check(&format!("seed {seed}"));
    }
}

fn strided(sizes: &[usize], strides: &[usize], offset: usize) -> Layout {
    Layout { sizes: sizes.into(), strides: strides.into(), offset }
}

/// The ops that reading (and then writing) `view` of a contiguous `cell` takes.
fn ops_of(cell: &[usize], view: Layout, write: bool) -> Vec<&'static str> {
    let mut model = Model::new(Layout::contiguous(Shape::from_slice(cell)));
    let t = model.aliases.view(model.base, view).expect("inside");
    model.read(t);
    if write {
        model.write(&mut Random(1), t);
        model.read(model.base);
    }
    let name = |op: &Op| match op {
        Op::Slice { .. } => Some("slice"),
        Op::Reshape { .. } => Some("reshape"),
        Op::Transpose { .. } => Some("transpose"),
        Op::BroadcastInDim { .. } => Some("broadcast"),
        Op::Gather(_) => Some("gather"),
        Op::Scatter(_) => Some("scatter"),
        Op::DynamicUpdateSlice => Some("update"),
        Op::Pad { .. } => Some("pad"),
        Op::Select => Some("select"),
        Op::Input { .. } | Op::Constant(_) | Op::Iota { .. } => None,
        _ => Some("other"),
    };
    model.check("structure").iter().filter_map(name).collect()
}

#[test]
fn common_views_are_one_step_each() {
    let read = |cell: &[usize], view| ops_of(cell, view, false);
    assert!(read(&[4, 6], strided(&[4, 6], &[6, 1], 0)).is_empty());
    assert_eq!(read(&[4, 6], strided(&[6, 4], &[1, 6], 0)), ["transpose"]);
    assert_eq!(read(&[4, 6], strided(&[4, 3], &[6, 2], 1)), ["slice"]);
    assert_eq!(read(&[4, 6], strided(&[4, 2, 3], &[6, 3, 1], 0)), ["reshape"]);
    assert_eq!(read(&[4, 6], strided(&[24], &[1], 0)), ["reshape"]);
    assert_eq!(read(&[4, 6], strided(&[6], &[1], 12)), ["slice", "reshape"]);
    assert_eq!(read(&[4, 6], strided(&[2, 4, 6], &[0, 6, 1], 0)), ["broadcast"]);
    // qkv: view [2, 5, 3, 4, 8] of [2, 5, 96], permuted, the second of the three
    let qkv = strided(&[2, 4, 5, 8], &[480, 8, 96, 1], 32);
    assert_eq!(read(&[2, 5, 96], qkv), ["slice", "reshape", "transpose"]);
    // permute + slice + select + unsqueeze + expand + view
    let chain = strided(&[2, 1, 3, 2, 2], &[1, 0, 0, 12, 6], 1 + 24);
    assert_eq!(read(&[4, 4, 6], chain), ["slice", "reshape", "transpose", "broadcast"]);
    assert_eq!(read(&[4, 4], strided(&[4], &[5], 0)), ["reshape", "slice"]);
    // Windows that overlap have no better form.
    assert!(read(&[8], strided(&[3, 4], &[2, 1], 0)).contains(&"gather"));
}

#[test]
fn writes_update_in_place() {
    let tail = |ops: Vec<&'static str>, n: usize| ops[ops.len() - n..].to_vec();
    let row = ops_of(&[4, 6], strided(&[6], &[1], 12), true);
    assert_eq!(tail(row, 2), ["reshape", "update"]);
    let every_other = ops_of(&[4, 6], strided(&[4, 3], &[6, 2], 1), true);
    assert_eq!(tail(every_other, 1), ["select"]);
    let whole = ops_of(&[4, 6], strided(&[6, 4], &[1, 6], 0), true);
    assert_eq!(whole, ["transpose", "transpose"]);
}

#[test]
fn writes_into_what_is_filled_are_paddings() {
    for view in [strided(&[6], &[1], 12), strided(&[4, 3], &[6, 2], 1), strided(&[2, 2], &[6, 3], 7)] {
        let mut model = Model::filled(Layout::contiguous(Shape::from_slice(&[4, 6])));
        let t = model.aliases.view(model.base, view).expect("inside");
        model.write(&mut Random(1), t);
        model.read(model.base);
        let ops = model.check("a fill");
        assert!(ops.iter().any(|op| matches!(op, Op::Pad { .. })), "{ops:?}");
        assert!(!ops.iter().any(|op| matches!(op, Op::Select | Op::DynamicUpdateSlice)), "{ops:?}");
    }
}

#[test]
fn a_view_must_lie_in_its_storage() {
    let model = Model::new(Layout::contiguous(Shape::from_slice(&[4])));
    let err = model.aliases.view(model.base, strided(&[3], &[2], 0)).expect_err("outside");
    assert!(err.message().contains("out of bounds for storage of 4 elements"), "{err}");
    let huge = strided(&[usize::MAX, usize::MAX], &[usize::MAX, 1], 1);
    assert!(model.aliases.view(model.base, huge).is_err());
}
