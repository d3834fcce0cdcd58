//! Random programs that a pattern matches: drawn from the result down, so that types fit by construction or not at all.

use crate::change::Class;
use crate::language::{Head, Kind, Node};
use egg::{ENodeOrVar, Id, PatternAst, Var};
use ir::op::{Combiner, Convolution, DotGeneral, Reducer, Unary, Window};
use ir::ops::sample::data::SplitMix;
use ir::{
    Builder, DType, Dims, Graph, InputKind, Literal, Number, Op, OutputKind, Precision, Shape, TensorType, ValueId,
};
use rustc_hash::FxHashMap;

const DTYPES: [DType; 7] = [DType::F32, DType::F32, DType::F64, DType::BF16, DType::I32, DType::I64, DType::Bool];
const FLOATS: [f64; 12] =
    [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 1e-30, 3e38, -7.25];
const SPLATS: [f64; 12] = [0.0, 0.0, 1.0, 1.0, -0.0, -1.0, 2.0, 3.0, 0.5, 4.0, f64::INFINITY, f64::NEG_INFINITY];

/// A source of random choices, the same for a rule in every run.
pub(super) struct Draw(SplitMix);

impl Draw {
    pub(super) fn new(name: &str) -> Draw {
        let seed = name.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        Draw(SplitMix(seed))
    }
    fn next(&mut self) -> u64 {
        self.0.bits()
    }
    /// Below `n`.
    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
    /// Which of so many members of a family to draw: the first ones, with few operands, oftener.
    pub(super) fn member(&mut self, count: usize) -> usize {
        if self.one_in(2) { self.below(count.min(4)) } else { self.below(count) }
    }
    fn between(&mut self, least: usize, most: usize) -> usize {
        least + self.below(most - least + 1)
    }
    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
    fn of<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
    fn shape(&mut self, rank: usize) -> Shape {
        (0..rank).map(|_| self.extent()).collect()
    }
    fn extent(&mut self) -> usize {
        if self.one_in(24) { 0 } else { self.between(1, 4) }
    }
    fn permutation(&mut self, rank: usize) -> Dims {
        let mut p: Dims = (0..rank).collect();
        for i in (1..rank).rev() {
            p.swap(i, self.below(i + 1));
        }
        p
    }
    /// So many of the numbers below `n`, rising.
    fn subset(&mut self, n: usize, count: usize) -> Dims {
        let mut kept: Dims = self.permutation(n).into_iter().take(count).collect();
        kept.sort_unstable();
        kept
    }

    /// Elements for an input: with NaN, infinities and both zeros where the rule has to be exact.
    pub(super) fn tensor(&mut self, ty: &TensorType, class: Class) -> Literal {
        let wild = class == Class::Exact && self.one_in(2);
        let bytes: Vec<u8> = (0..ty.numel()).flat_map(|_| self.element(ty.dtype, wild)).collect();
        Literal::dense(ty.clone(), bytes).expect("as many bytes as there are elements")
    }
    fn element(&mut self, dtype: DType, wild: bool) -> Vec<u8> {
        let number = match dtype {
            DType::Bool => Number::Bool(self.one_in(2)),
            d if d.is_int() && wild => Number::Int(self.next() as i64),
            d if d.is_int() => Number::Int(self.below(9) as i64 - 4),
            _ if wild && self.one_in(3) => Number::Float(self.of(&FLOATS)),
            _ => Number::Float((2.0 * self.below(2000) as f64 - 1999.0) / 1000.0),
        };
        number.to_bytes(dtype)
    }
}

/// A program whose only result `pattern` matches, unless its conditions say otherwise; `None` if types did not fit.
pub(super) fn program(draw: &mut Draw, pattern: &PatternAst<Node>) -> Option<Graph> {
    let rank = draw.below(5);
    let ty = TensorType::new(draw.of(&DTYPES), draw.shape(rank));
    let mut drawing = Drawing {
        draw,
        pattern,
        builder: Builder::new("drawn"),
        values: FxHashMap::default(),
        ops: FxHashMap::default(),
        beside: vec![],
        sliced: None,
        slices: FxHashMap::default(),
        splat: None,
    };
    let root = drawing.value(Id::from(pattern.len() - 1), &ty)?;
    drawing.builder.output("", OutputKind::User, root);
    for value in std::mem::take(&mut drawing.beside) {
        drawing.builder.output("", OutputKind::User, value);
    }
    Some(drawing.builder.finish())
}

struct Drawing<'a> {
    draw: &'a mut Draw,
    pattern: &'a PatternAst<Node>,
    builder: Builder,
    values: FxHashMap<Var, (ValueId, TensorType)>,
    ops: FxHashMap<Var, Drawn>,
    /// What shares operands with parts of the program.
    beside: Vec<ValueId>,
    /// A variable of which there is a slice.
    sliced: Option<Var>,
    /// The last slice of a variable: starts and limits.
    slices: FxHashMap<Var, (Dims, Dims)>,
    /// The constant drawn last.
    splat: Option<Number>,
}

/// An op, the types of its operands and the type of its result.
type Drawn = (Op, Vec<TensorType>, TensorType);

impl Drawing<'_> {
    /// A value of type `ty` that the part of the pattern matches.
    fn value(&mut self, part: Id, ty: &TensorType) -> Option<ValueId> {
        let pattern = self.pattern;
        match &pattern[part] {
            ENodeOrVar::Var(v) => self.variable(*v, ty),
            ENodeOrVar::ENode(node) => self.node(node, ty),
        }
    }

    fn variable(&mut self, v: Var, ty: &TensorType) -> Option<ValueId> {
        if let Some((value, known)) = self.values.get(&v) {
            return (known == ty).then_some(*value);
        }
        if let Some(value) = self.beside_a_slice(ty) {
            self.values.insert(v, (value, ty.clone()));
            return Some(value);
        }
        let of_greatest = ty.dtype.is_float() && self.looks_for_the_greatest();
        let value = if of_greatest && ty.rank() > 0 && self.draw.one_in(2) {
            self.product(ty)?
        } else if self.draw.one_in(5) {
            // Often along the dimension of channels, as biases and scales are.
            let kept = self.draw.below(ty.rank() + 1);
            let channels = ty.rank() > 1 && self.draw.one_in(2);
            let dims = if channels { Dims::from_slice(&[1]) } else { self.draw.subset(ty.rank(), kept) };
            let from = TensorType::new(ty.dtype, dims.iter().map(|&d| ty.shape[d]));
            let small = self.builder.input("", InputKind::User, from);
            self.builder.broadcast_in_dim(small, &ty.shape, &dims).ok()?
        } else if ty.rank() > 0 && self.draw.one_in(8) {
            let dim = self.draw.below(ty.rank());
            let first = self.draw.below(ty.shape[dim] + 1);
            let part = |extent: usize| {
                let mut of = ty.clone();
                of.shape[dim] = extent;
                self.builder.input("", InputKind::User, of)
            };
            let parts = [part(first), part(ty.shape[dim] - first)];
            self.builder.concatenate(&parts, dim).ok()?
        } else if ty.dtype.is_int() && ty.rank() > 0 && self.draw.one_in(2) {
            self.counting(ty)?
        } else if of_greatest || self.draw.one_in(if ty.rank() == 0 { 2 } else { 3 }) {
            // Rules with two constants often want them alike.
            let again = self.splat.filter(|_| self.draw.one_in(3));
            let plain = ty.rank() == 0 && self.draw.one_in(2);
            let fresh = match plain {
                _ if of_greatest && self.draw.one_in(2) => f64::NEG_INFINITY, // the greatest of nothing
                true => 0.0,
                false => self.draw.of(&SPLATS),
            };
            let fresh = Number::Float(fresh);
            let number = again.unwrap_or(fresh);
            self.splat = Some(number);
            let scalar = self.builder.constant(Literal::splat(number, ty.dtype, [])).ok()?;
            self.builder.broadcast_in_dim(scalar, &ty.shape, &[]).ok()?
        } else {
            self.builder.input("", InputKind::User, ty.clone())
        };
        self.values.insert(v, (value, ty.clone()));
        Some(value)
    }

    fn looks_for_the_greatest(&self) -> bool {
        self.ops.values().any(|(op, ..)| matches!(op, Op::Reduce { reducer: Reducer::Maximum, .. }))
    }

    /// Scores: a product of two matrices, as high as the leading dimensions are long.
    fn product(&mut self, ty: &TensorType) -> Option<ValueId> {
        let (&columns, rows) = ty.shape.split_last()?;
        let lhs = TensorType::new(ty.dtype, rows.iter().copied().chain([2]));
        let rhs = TensorType::new(ty.dtype, [2, columns]);
        let [lhs, rhs] = [lhs, rhs].map(|ty| self.builder.input("", InputKind::User, ty));
        let attributes = DotGeneral {
            lhs_batch: Dims::new(),
            rhs_batch: Dims::new(),
            lhs_contract: [rows.len()].into_iter().collect(),
            rhs_contract: [0].into_iter().collect(),
            precision: Precision::Highest,
            out: ty.dtype,
            host: false,
        };
        self.builder.dot_general(lhs, rhs, attributes).ok()
    }

    /// Consecutive integers along a dimension, from 0 or 1 on.
    fn counting(&mut self, ty: &TensorType) -> Option<ValueId> {
        let dim = if self.draw.one_in(2) { ty.rank() - 1 } else { self.draw.below(ty.rank()) };
        let iota = self.builder.iota(ty.dtype, &ty.shape, dim).ok()?;
        if !self.draw.one_in(4) {
            return Some(iota);
        }
        let one = self.builder.full(Number::Int(1), ty.dtype, &ty.shape).ok()?;
        self.builder.add(iota, one).ok()
    }

    fn node(&mut self, node: &Node, ty: &TensorType) -> Option<ValueId> {
        let known = match (node.head, node.children.last().map(|&c| &self.pattern[c])) {
            (Head::With(_), Some(ENodeOrVar::Var(v))) => self.ops.get(v).cloned(),
            _ => None,
        };
        let (op, types) = self.operands(node, ty, known)?;
        if let (Head::With(_), Some(ENodeOrVar::Var(v))) = (node.head, node.children.last().map(|&c| &self.pattern[c]))
        {
            self.ops.insert(*v, (op.clone(), types.clone(), ty.clone()));
        }
        let children: Vec<Id> = node.operands().to_vec();
        let mut values = vec![];
        for (child, ty) in children.into_iter().zip(&types) {
            values.push(self.value(child, ty)?);
        }
        let made = self.builder.push(op.clone(), &values, vec![]).ok()?;
        if self.draw.one_in(2) {
            self.another_product(&op, &values);
        }
        (self.builder.ty(made).ok()? == *ty).then_some(made)
    }

    /// A product with one of the operands of another: what is merged with it.
    fn another_product(&mut self, op: &Op, values: &[ValueId]) {
        let (mut values, other) = (values.to_vec(), self.draw.below(2));
        let Op::DotGeneral(d) = op else { return };
        let Ok(mut ty) = self.builder.ty(values[other]) else { return };
        let taken = if other == 0 { [&d.lhs_batch, &d.lhs_contract] } else { [&d.rhs_batch, &d.rhs_contract] };
        let free = (0..ty.rank()).find(|k| !taken.iter().any(|t| t.contains(k)));
        let extent = self.draw.extent();
        free.into_iter().for_each(|k| ty.shape[k] = extent);
        values[other] = self.builder.input("", InputKind::User, ty);
        self.beside.extend(self.builder.push(op.clone(), &values, vec![]).ok());
    }

    /// An op with the head of `node` that gives `ty`, and the types of its operands.
    fn operands(&mut self, node: &Node, ty: &TensorType, known: Option<Drawn>) -> Option<(Op, Vec<TensorType>)> {
        let like = |dtype: DType| TensorType { dtype, shape: ty.shape.clone() };
        let count = node.operands().len();
        if let Some(op) = node.head.op() {
            let types = match node.head {
                Head::Unary(Unary::IsFinite) => vec![like(DType::F32)],
                Head::Compare(_) => vec![like(self.compared()); 2],
                Head::DynamicUpdateSlice => {
                    let less = |n: usize, draw: &mut Draw| n - if draw.one_in(2) { 0 } else { draw.below(n + 1) };
                    let update = ty.shape.iter().map(|&n| less(n, self.draw)).collect();
                    self.indexed(ty.clone(), Some(TensorType { dtype: ty.dtype, shape: update }), count, ty.rank())?
                }
                Head::Select => vec![like(DType::Bool), ty.clone(), ty.clone()],
                _ => vec![ty.clone(); count],
            };
            return Some((op, types));
        }
        if let Some((op, types, of)) = known {
            let types = if of == *ty { types } else { again(&op, ty)? };
            return Some((op, types));
        }
        let Head::With(kind) = node.head else { return None };
        if let (Kind::Slice, ENodeOrVar::Var(v)) = (kind, &self.pattern[node.children[0]]) {
            if self.values.get(v).is_some_and(|(_, from)| from.rank() == ty.rank()) {
                return self.another_slice(*v, ty);
            }
            let (op, mut types) = self.slice(ty);
            if let Op::Slice { start, limit, .. } = &op {
                types[0].shape.iter_mut().for_each(|n| *n += self.draw.below(3));
                self.slices.insert(*v, (start.clone(), limit.clone()));
                self.sliced = Some(*v);
            }
            return Some((op, types));
        }
        self.attributed(kind, count, ty)
    }

    /// A type to compare in: an integer half of the time, since rules about comparisons often need one.
    fn compared(&mut self) -> DType {
        if self.draw.one_in(2) { self.draw.of(&[DType::I32, DType::I64]) } else { self.draw.of(&DTYPES) }
    }

    fn attributed(&mut self, kind: Kind, count: usize, ty: &TensorType) -> Option<(Op, Vec<TensorType>)> {
        let (shape, rank) = (&ty.shape, ty.rank());
        let of = |shape: Shape| TensorType { dtype: ty.dtype, shape };
        Some(match kind {
            Kind::Constant => {
                (Op::Constant(Literal::splat(Number::Float(1.0), ty.dtype, shape.iter().copied())), vec![])
            }
            Kind::Iota => (Op::Iota { dtype: ty.dtype, shape: shape.clone(), dim: self.draw.below(rank) }, vec![]),
            Kind::Convert => {
                let from = TensorType { dtype: self.draw.of(&DTYPES), shape: shape.clone() };
                (Op::Convert { dtype: ty.dtype }, vec![from])
            }
            Kind::BroadcastInDim => {
                let kept = self.draw.below(rank + 1);
                let dims = self.draw.subset(rank, kept);
                let from = dims.iter().map(|&d| if self.draw.one_in(6) { 1 } else { shape[d] }).collect();
                (Op::BroadcastInDim { shape: shape.clone(), dims }, vec![of(from)])
            }
            Kind::Reshape => (Op::Reshape { shape: shape.clone() }, vec![of(self.reshaped(shape))]),
            Kind::Transpose => {
                let permutation = self.draw.permutation(rank);
                let mut from = shape.clone();
                permutation.iter().enumerate().for_each(|(i, &p)| from[p] = shape[i]);
                (Op::Transpose { permutation }, vec![of(from)])
            }
            Kind::Slice => self.slice(ty),
            Kind::DynamicSlice => {
                let from = of(shape.iter().map(|&n| n + self.draw.below(3)).collect());
                (Op::DynamicSlice { sizes: shape.clone() }, self.indexed(from, None, count, rank)?)
            }
            Kind::Concatenate => {
                let dim = self.draw.below(rank.max(1));
                let mut left = *shape.get(dim)?;
                let mut part = |last: bool| {
                    let extent = if last { left } else { self.draw.between(0, left) };
                    left -= extent;
                    let mut shape = shape.clone();
                    shape[dim] = extent;
                    of(shape)
                };
                (Op::Concatenate { dim }, (1..=count).map(|i| part(i == count)).collect())
            }
            Kind::Pad => self.pad(ty)?,
            Kind::Reverse => {
                let kept = self.draw.below(rank + 1);
                (Op::Reverse { dims: self.draw.subset(rank, kept) }, vec![ty.clone()])
            }
            Kind::DotGeneral => self.dot_general(ty),
            Kind::Reduce => {
                let numbers = [Reducer::Add, Reducer::Add, Reducer::Multiply, Reducer::Maximum, Reducer::Minimum];
                let truths = [Reducer::And, Reducer::Or, Reducer::Xor, Reducer::Maximum, Reducer::Minimum];
                let reducers = if ty.dtype == DType::Bool { truths } else { numbers };
                let more = self.draw.between(1, 2);
                let dims = self.draw.subset(rank + more, more);
                let mut kept = shape.iter().copied();
                let extents = (0..rank + more)
                    .map(|d| if dims.contains(&d) { self.draw.extent() } else { kept.next().unwrap_or(1) });
                let from = of(extents.collect());
                (Op::Reduce { reducer: self.draw.of(&reducers), dims }, vec![from])
            }
            Kind::ReduceWindow => self.reduce_window(ty),
            Kind::Convolution => self.convolution(ty)?,
            Kind::Gather => self.gather(ty),
            Kind::Scatter => self.scatter(ty),
            _ => return None,
        })
    }

    /// Types of an operand, of an update if there is one, and of as many indices as there are dimensions.
    fn indexed(
        &mut self,
        operand: TensorType,
        update: Option<TensorType>,
        count: usize,
        rank: usize,
    ) -> Option<Vec<TensorType>> {
        let index = TensorType::new(DType::I32, []);
        let types: Vec<TensorType> =
            [operand].into_iter().chain(update).chain(std::iter::repeat_n(index, rank)).collect();
        (types.len() == count).then_some(types)
    }

    fn reshaped(&mut self, shape: &[usize]) -> Shape {
        let mut rest: usize = shape.iter().product();
        if rest == 0 || self.draw.one_in(4) {
            // the same extents with ones among them: order matters to many rules
            let mut other: Shape = shape.iter().copied().filter(|&n| n != 1).collect();
            (0..self.draw.below(3)).for_each(|_| other.insert(self.draw.below(other.len() + 1), 1));
            return other;
        }
        if let [lead @ .., last] = shape
            && self.draw.one_in(2)
        {
            // the last extent kept: rows of another arrangement
            let mut other = self.reshaped(lead);
            other.push(*last);
            return other;
        }
        let mut other = Shape::new();
        while rest > 1 && other.len() < 4 {
            let divisors: Vec<usize> = (2..=rest).filter(|d| rest.is_multiple_of(*d)).collect();
            let d = self.draw.of(&divisors);
            other.push(d);
            rest /= d;
        }
        other.push(rest);
        other
    }

    /// Half the time, if the pattern slices a variable, another slice of it.
    fn beside_a_slice(&mut self, ty: &TensorType) -> Option<ValueId> {
        let sliced = self.sliced.filter(|_| self.draw.one_in(2))?;
        let (value, from) = self.values.get(&sliced).filter(|(_, from)| from.rank() == ty.rank())?.clone();
        let (op, _) = self.another_slice(sliced, ty).filter(|_| from.dtype == ty.dtype)?;
        self.builder.push(op, &[value], vec![]).ok()
    }

    /// A slice of type `ty` of a variable that is there already, often beside the one before.
    fn another_slice(&mut self, v: Var, ty: &TensorType) -> Option<(Op, Vec<TensorType>)> {
        let (_, from) = self.values.get(&v)?.clone();
        let (mut start, mut limit) = (Dims::new(), Dims::new());
        for (d, &n) in ty.shape.iter().enumerate() {
            let before = self.slices.get(&v).map_or((0, 0), |(start, limit)| (start[d], limit[d]));
            let room = from.shape[d].checked_sub(n)?;
            let first = if self.draw.one_in(2) { before.0 } else { before.1 };
            start.push(if self.draw.one_in(8) { self.draw.below(room + 1) } else { first });
            limit.push((start[d] <= room).then_some(start[d] + n)?);
        }
        let stride = start.iter().map(|_| 1).collect();
        self.slices.insert(v, (start.clone(), limit.clone()));
        Some((Op::Slice { start, limit, stride }, vec![from]))
    }

    fn slice(&mut self, ty: &TensorType) -> (Op, Vec<TensorType>) {
        let (mut start, mut limit, mut stride, mut from) = (Dims::new(), Dims::new(), Dims::new(), Shape::new());
        for &n in &ty.shape {
            let (s, by) = (self.draw.below(3), if self.draw.one_in(3) { 2 } else { 1 });
            let end = if n == 0 { s } else { s + (n - 1) * by + 1 };
            start.push(s);
            stride.push(by);
            limit.push(end);
            from.push(end + self.draw.below(3));
        }
        (Op::Slice { start, limit, stride }, vec![TensorType { dtype: ty.dtype, shape: from }])
    }

    fn pad(&mut self, ty: &TensorType) -> Option<(Op, Vec<TensorType>)> {
        let (mut low, mut high, mut interior, mut from) =
            (ir::op::SignedDims::new(), ir::op::SignedDims::new(), Dims::new(), Shape::new());
        let images = self.draw.one_in(2);
        for (d, &n) in ty.shape.iter().enumerate() {
            // Half of the pads add to images: nothing to batch and features.
            let idle = images && d < 2;
            let extent = if idle { n } else { self.draw.between(0, n) };
            let inside = usize::from(!idle && self.draw.one_in(4));
            let spread = extent + extent.saturating_sub(1) * inside;
            let before = match images {
                true if idle => 0,
                true => self.draw.below(n.saturating_sub(spread) + 1) as i64,
                false => self.draw.below(4) as i64 - 1,
            };
            low.push(before);
            high.push(n as i64 - spread as i64 - before);
            interior.push(inside);
            from.push(extent);
        }
        let of = |shape| TensorType { dtype: ty.dtype, shape };
        Some((Op::Pad { low, high, interior }, vec![of(from), of(Shape::new())]))
    }

    fn reduce_window(&mut self, ty: &TensorType) -> (Op, Vec<TensorType>) {
        let (mut window, mut from) = (Window::trivial(ty.rank()), Shape::new());
        for (d, &n) in ty.shape.iter().enumerate() {
            let (size, stride) = (self.draw.between(1, 3), self.draw.between(1, 2));
            let dilation = if self.draw.one_in(4) { 2 } else { 1 };
            let padded = n.saturating_sub(1) * stride + (size - 1) * dilation + usize::from(n > 0);
            let extent = self.draw.between(padded.saturating_sub(2), padded);
            let low = self.draw.between(0, padded - extent) as i64;
            (window.size[d], window.strides[d], window.dilation[d]) = (size, stride, dilation);
            window.padding[d] = (low, padded as i64 - extent as i64 - low);
            from.push(extent);
        }
        let reducer = self.draw.of(&[Reducer::Add, Reducer::Maximum, Reducer::Minimum]);
        (Op::ReduceWindow { reducer, window }, vec![TensorType { dtype: ty.dtype, shape: from }])
    }

    fn dot_general(&mut self, ty: &TensorType) -> (Op, Vec<TensorType>) {
        let rank = ty.rank();
        let batch = if self.draw.one_in(2) { 0 } else { self.draw.below(rank.min(2) + 1) };
        let of_lhs = self.draw.below(rank - batch + 1);
        let contracted = {
            let n = self.draw.of(&[0, 1, 1, 1, 2]);
            self.draw.shape(n)
        };
        let side = |draw: &mut Draw, free: &[usize]| {
            // Dimensions in the order batch, free, contracted are laid out by a permutation that keeps the free ones in order.
            let kinds = [vec![0; batch], vec![1; free.len()], vec![2; contracted.len()]].concat();
            let places = draw.permutation(kinds.len());
            let mut at: Vec<(usize, usize)> = vec![];
            let mut free_places: Vec<usize> = (0..kinds.len()).filter(|&i| kinds[i] == 1).map(|i| places[i]).collect();
            free_places.sort_unstable();
            let extents = [&ty.shape[..batch], free, &contracted[..]].concat();
            for (i, kind) in kinds.iter().enumerate() {
                at.push((if *kind == 1 { free_places[i - batch] } else { places[i] }, extents[i]));
            }
            let mut shape: Shape = at.iter().map(|_| 0).collect();
            at.iter().for_each(|&(place, extent)| shape[place] = extent);
            let dims = |from: usize, to: usize| at[from..to].iter().map(|p| p.0).collect::<Dims>();
            let (b, c) = (dims(0, batch), dims(batch + free.len(), at.len()));
            (TensorType { dtype: ty.dtype, shape }, b, c)
        };
        let (lhs, lhs_batch, lhs_contract) = side(self.draw, &ty.shape[batch..batch + of_lhs]);
        let (rhs, rhs_batch, rhs_contract) = side(self.draw, &ty.shape[batch + of_lhs..]);
        let (precision, out) = (Precision::Highest, ty.dtype);
        let d = DotGeneral { lhs_batch, rhs_batch, lhs_contract, rhs_contract, precision, out, host: false };
        (Op::DotGeneral(d), vec![lhs, rhs])
    }

    /// A gather of windows along some dimensions of the result; others are the batch, of which a few may be paired.
    fn gather(&mut self, ty: &TensorType) -> (Op, Vec<TensorType>) {
        let draw = &mut *self.draw;
        let kept = draw.below(ty.rank() + 1);
        let offset_dims = draw.subset(ty.rank(), kept);
        let batch: Dims = (0..ty.rank()).filter(|d| !offset_dims.contains(d)).collect();
        let paired = if draw.one_in(2) { draw.below(batch.len() + 1) } else { 0 };
        let start_indices_batching_dims = draw.subset(batch.len(), paired);
        let collapsed = draw.between(0, 2);
        // Kinds of the operand's dimensions: of the window, collapsed, paired.
        let kinds = [vec![0; offset_dims.len()], vec![1; collapsed], vec![2; paired]].concat();
        let order = draw.permutation(kinds.len());
        let (mut windows, mut pairs) = (offset_dims.iter(), start_indices_batching_dims.iter());
        let (mut shape, mut slice_sizes) = (Shape::new(), Shape::new());
        let (mut collapsed_slice_dims, mut operand_batching_dims, mut free) = (Dims::new(), Dims::new(), Dims::new());
        for (d, &i) in order.iter().enumerate() {
            let size = if kinds[i] == 0 { windows.next().map_or(1, |&o| ty.shape[o]) } else { 1 };
            slice_sizes.push(size);
            shape.push(match kinds[i] {
                2 => pairs.next().map_or(1, |&p| ty.shape[batch[p]]),
                _ => size + draw.below(4),
            });
            match kinds[i] {
                1 => collapsed_slice_dims.push(d),
                2 => operand_batching_dims.push(d),
                _ => free.push(d),
            }
        }
        let some = draw.below(free.len() + 1);
        let more: Dims = draw.subset(free.len(), some).into_iter().map(|i| free[i]).collect();
        let start_index_map: Dims = collapsed_slice_dims.iter().chain(&more).copied().collect();
        let indices: Shape = batch.iter().map(|&d| ty.shape[d]).collect();
        let index_vector_dim = indices.len();
        let from = index_vectors(draw, indices, start_index_map.len());
        let g = ir::op::Gather {
            offset_dims,
            collapsed_slice_dims,
            operand_batching_dims,
            start_indices_batching_dims,
            start_index_map,
            index_vector_dim,
            slice_sizes,
        };
        (Op::Gather(g), vec![TensorType { dtype: ty.dtype, shape }, from])
    }

    /// A scatter of windows along some dimensions; of the others a few may be paired with dimensions of the indices.
    fn scatter(&mut self, ty: &TensorType) -> (Op, Vec<TensorType>) {
        let draw = &mut *self.draw;
        let (paired, inserted) = (draw.below(ty.rank() + 1), draw.below(ty.rank() + 1));
        let input_batching_dims = if draw.one_in(2) { draw.subset(ty.rank(), paired) } else { Dims::new() };
        let mut inserted_window_dims = draw.subset(ty.rank(), inserted);
        inserted_window_dims.retain(|d| !input_batching_dims.contains(d));
        let is_window = |d: &usize| !input_batching_dims.contains(d) && !inserted_window_dims.contains(d);
        let windows: Dims = (0..ty.rank()).filter(is_window).collect();
        let mut indices: Shape = (0..draw.below(3)).map(|_| draw.extent()).collect();
        let scatter_indices_batching_dims: Dims = (0..input_batching_dims.len()).collect();
        indices.insert_many(0, input_batching_dims.iter().map(|&d| ty.shape[d]));
        let update_window_dims = draw.subset(indices.len() + windows.len(), windows.len());
        let (mut batch, mut window) = (indices.iter(), windows.iter());
        let updates = (0..indices.len() + windows.len()).map(|d| match update_window_dims.contains(&d) {
            true => window.next().map_or(1, |&w| draw.between(0, ty.shape[w])),
            false => batch.next().copied().unwrap_or(1),
        });
        let updates = TensorType { dtype: ty.dtype, shape: updates.collect() };
        let some = draw.below(windows.len() + 1);
        let more: Dims = draw.subset(windows.len(), some).into_iter().map(|i| windows[i]).collect();
        let scatter_dims_to_operand_dims: Dims = inserted_window_dims.iter().chain(&more).copied().collect();
        let index_vector_dim = indices.len();
        let from = index_vectors(draw, indices, scatter_dims_to_operand_dims.len());
        let s = ir::op::Scatter {
            combiner: draw.of(&[Combiner::Add, Combiner::Add, Combiner::Maximum]),
            update_window_dims,
            inserted_window_dims,
            input_batching_dims,
            scatter_indices_batching_dims,
            scatter_dims_to_operand_dims,
            index_vector_dim,
            unique_indices: false,
        };
        (Op::Scatter(s), vec![ty.clone(), from, updates])
    }

    /// A plain convolution with batch and features first, over up to two dimensions.
    fn convolution(&mut self, ty: &TensorType) -> Option<(Op, Vec<TensorType>)> {
        let spatial = ty.rank().checked_sub(2)?;
        let (features, size) = (self.draw.between(1, 3), self.draw.between(1, 3));
        let window: Dims = (0..spatial).map(|_| size).collect();
        let ones: Dims = (0..spatial).map(|_| 1).collect();
        let places: Dims = (2..2 + spatial).collect();
        let input: Shape = [ty.shape[0], features].into_iter().chain(ty.shape[2..].iter().copied()).collect();
        let kernel: Shape = [ty.shape[1], features].into_iter().chain(window.iter().copied()).collect();
        let c = Convolution {
            strides: ones.clone(),
            padding: (0..spatial).map(|_| (((size - 1) / 2) as i64, (size / 2) as i64)).collect(),
            lhs_dilation: ones.clone(),
            rhs_dilation: ones,
            input_batch: 0,
            input_feature: 1,
            input_spatial: places.clone(),
            kernel_input_feature: 1,
            kernel_output_feature: 0,
            kernel_spatial: places.clone(),
            output_batch: 0,
            output_feature: 1,
            output_spatial: places,
            feature_group_count: 1,
            batch_group_count: 1,
            reversed: false,
            precision: Precision::Highest,
            out: ty.dtype,
            host: false,
        };
        let of = |shape| TensorType { dtype: ty.dtype, shape };
        Some((Op::Convolution(c), vec![of(input), of(kernel)]))
    }
}

/// Types of operands with which an op that stands twice in the pattern gives another type; not for every op.
fn again(op: &Op, ty: &TensorType) -> Option<Vec<TensorType>> {
    let shape = &ty.shape;
    let of = |shape: Shape| TensorType { dtype: ty.dtype, shape };
    Some(match op {
        Op::Transpose { permutation } if permutation.len() == shape.len() => {
            let mut from = shape.clone();
            permutation.iter().enumerate().for_each(|(i, &p)| from[p] = shape[i]);
            vec![of(from)]
        }
        Op::BroadcastInDim { shape: to, dims } if to == shape => vec![of(dims.iter().map(|&d| shape[d]).collect())],
        _ => return None,
    })
}

/// The type of vectors of `length` indices, one for each place in `batch`; of a single index at times without a dimension for it.
fn index_vectors(draw: &mut Draw, mut batch: Shape, length: usize) -> TensorType {
    let bare = length == 1 && draw.one_in(3);
    if !bare {
        batch.push(length);
    }
    TensorType::new(draw.of(&[DType::I32, DType::I64]), batch)
}
