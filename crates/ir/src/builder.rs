//! Builds graphs: every node is inferred, located and shared with an equal earlier one.

mod excess;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::{Graph, Input, InputKind, Node, Operands, Output, OutputKind, ValueId};
use crate::infer::infer;
use crate::literal::{Literal, Number};
use crate::loc::{Loc, LocId};
use crate::op::*;
use crate::types::{Dims, Shape, TensorType, Type};
use rustc_hash::FxHashMap;
use std::cell::{Ref, RefCell};
use std::sync::Arc;

/// Appends core ops to a graph. Methods take `&self`, so that calls nest: `b.add(b.multiply(x, y)?, z)?`.
///
/// Equal nodes (same op, operands and bodies) are built once: common subexpressions never enter a graph.
///
/// With [excess precision](Builder::allow_excess_precision), a 16-bit float that one op rounded and another takes back to
/// `f32` is the `f32` itself. With [a limit](Builder::limit_wide_tables), expansions sum in no wider table than that.
pub struct Builder {
    state: RefCell<State>,
    excess_precision: bool,
    wide_tables: Option<usize>,
}

struct State {
    graph: Graph,
    known: FxHashMap<(Op, Operands, Vec<usize>), ValueId>,
    loc: LocId,
    rng: Option<ValueId>,
    excess: excess::Known,
}

impl State {
    fn infer(&self, op: &Op, operands: &[ValueId], bodies: &[Arc<Graph>]) -> Result<Type> {
        let types: smallvec::SmallVec<[&Type; 4]> = operands.iter().map(|&v| self.graph.ty(v)).collect();
        infer(op, &types, bodies)
    }
}

impl Builder {
    /// A builder of an empty graph called `name`.
    pub fn new(name: impl Into<String>) -> Builder {
        let graph = Graph::new(name);
        let state = State {
            graph,
            known: FxHashMap::default(),
            loc: LocId::UNKNOWN,
            rng: None,
            excess: excess::Known::default(),
        };
        Builder { state: RefCell::new(state), excess_precision: false, wide_tables: None }
    }

    /// Lets expansions widen a table, to sum few rows into it, up to so many bytes.
    #[must_use]
    pub fn limit_wide_tables(self, bytes: Option<usize>) -> Builder {
        Builder { wide_tables: bytes, ..self }
    }

    /// The limit on widened tables, if there is one.
    pub fn wide_tables(&self) -> Option<usize> {
        self.wide_tables
    }

    /// The graph, without the nodes that nothing needs. A generator state that was drawn from becomes the last
    /// input's next value only through [`Builder::random_bits`]; it is no output.
    pub fn finish(self) -> Graph {
        self.state.into_inner().graph.without_dead_nodes()
    }

    /// Nodes pushed from here on came from `loc`.
    pub fn set_loc(&self, loc: &Loc) {
        let mut s = self.state.borrow_mut();
        s.loc = s.graph.locs.intern(loc);
    }

    /// What was built so far. It is to be let go of before the next node.
    pub(crate) fn graph(&self) -> Ref<'_, Graph> {
        Ref::map(self.state.borrow(), |s| &s.graph)
    }

    /// Adds an input.
    pub fn input(&self, name: impl Into<String>, kind: InputKind, ty: TensorType) -> ValueId {
        let mut s = self.state.borrow_mut();
        let op = Op::Input { index: s.graph.inputs.len() };
        let loc = s.loc;
        let value = s.graph.push(Node { op, operands: Operands::new(), bodies: vec![], ty: ty.into(), loc });
        s.graph.inputs.push(Input { name: name.into(), kind, value });
        value
    }

    /// The number of inputs so far.
    pub fn input_count(&self) -> usize {
        self.state.borrow().graph.inputs.len()
    }

    /// Adds an output.
    pub fn output(&self, name: impl Into<String>, kind: OutputKind, value: ValueId) {
        self.state.borrow_mut().graph.outputs.push(Output { name: name.into(), kind, value });
    }

    /// Applies `op`; the general form of the methods below.
    ///
    /// # Errors
    /// `Invalid` if the operands do not fit the op.
    pub fn push(&self, op: Op, operands: &[ValueId], bodies: Vec<Arc<Graph>>) -> Result<ValueId> {
        let mut s = self.state.borrow_mut();
        let bodies_key = bodies.iter().map(|b| Arc::as_ptr(b) as usize).collect();
        let key = (op, Operands::from_slice(operands), bodies_key);
        if let Some(&v) = s.known.get(&key) {
            return Ok(v);
        }
        let ty = s.infer(&key.0, operands, &bodies)?;
        let (op, operands) = (key.0.clone(), key.1.clone());
        let loc = s.loc;
        let v = s.graph.push(Node { op, operands, bodies, ty, loc });
        s.known.insert(key, v);
        Ok(v)
    }

    /// The type of `v`, which is a tensor.
    pub fn ty(&self, v: ValueId) -> Result<TensorType> {
        match self.state.borrow().graph.ty(v) {
            Type::Tensor(t) => Ok(t.clone()),
            Type::Tuple(_) => Err(Error::internal(format!("{v} is a tuple"))),
        }
    }
    /// Whether `v` is given to the program.
    pub fn is_input(&self, v: ValueId) -> bool {
        matches!(self.state.borrow().graph.node(v).op, Op::Input { .. })
    }
    /// Extents of `v`; empty for a tuple.
    pub fn shape(&self, v: ValueId) -> Shape {
        self.state.borrow().graph.tensor_type(v).map(|t| t.shape.clone()).unwrap_or_default()
    }
    /// Rank of `v`.
    pub fn rank(&self, v: ValueId) -> usize {
        self.state.borrow().graph.tensor_type(v).map_or(0, TensorType::rank)
    }
    /// Element type of `v`; `bool` for a tuple.
    pub fn dtype(&self, v: ValueId) -> DType {
        self.state.borrow().graph.tensor_type(v).map_or(DType::Bool, |t| t.dtype)
    }
    /// What `v` is a transpose of, and the permutation.
    pub fn as_transpose(&self, v: ValueId) -> Option<(ValueId, Dims)> {
        let s = self.state.borrow();
        let node = s.graph.node(v);
        match &node.op {
            Op::Transpose { permutation } => Some((*node.operands.first()?, permutation.clone())),
            _ => None,
        }
    }

    // Leaves.

    /// A literal.
    pub fn constant(&self, literal: Literal) -> Result<ValueId> {
        self.push(Op::Constant(literal), &[], vec![])
    }
    /// `number` as a 0-d `dtype`.
    pub fn scalar(&self, number: Number, dtype: DType) -> Result<ValueId> {
        self.constant(Literal::splat(number, dtype, []))
    }
    /// `number` in every element of `shape`.
    pub fn full(&self, number: Number, dtype: DType, shape: &[usize]) -> Result<ValueId> {
        self.broadcast_in_dim(self.scalar(number, dtype)?, shape, &[])
    }
    /// `number` in every element of a tensor of `like`'s type.
    pub fn full_like(&self, like: ValueId, number: Number) -> Result<ValueId> {
        let t = self.ty(like)?;
        self.full(number, t.dtype, &t.shape)
    }
    /// Counts along `dim`.
    pub fn iota(&self, dtype: DType, shape: &[usize], dim: usize) -> Result<ValueId> {
        self.push(Op::Iota { dtype, shape: shape.into(), dim }, &[], vec![])
    }

    // Elementwise.

    /// One operand, elementwise.
    pub fn unary(&self, u: Unary, a: ValueId) -> Result<ValueId> {
        self.push(Op::Unary(u), &[a], vec![])
    }
    /// Two operands of one type, elementwise.
    pub fn binary(&self, op: Binary, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.push(Op::Binary(op), &[a, b], vec![])
    }
    /// Two operands of one type, to `bool`.
    pub fn compare(&self, c: Comparison, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.push(Op::Compare(c), &[a, b], vec![])
    }
    /// Elementwise choice; all of one shape.
    pub fn select(&self, pred: ValueId, on_true: ValueId, on_false: ValueId) -> Result<ValueId> {
        self.push(Op::Select, &[pred, on_true, on_false], vec![])
    }
    /// `a` as `dtype`; `a` itself if it is that already.
    pub fn convert(&self, a: ValueId, dtype: DType) -> Result<ValueId> {
        if self.dtype(a) == dtype {
            return Ok(a);
        }
        if dtype == DType::F32
            && let Some(wide) = self.unrounded(a)?
        {
            return Ok(wide);
        }
        // PyTorch makes its `f16` of `f32`, and rounds an `f64` twice.
        let a = match (self.dtype(a), dtype) {
            (DType::F64, DType::F16) => self.push(Op::Convert { dtype: DType::F32 }, &[a], vec![])?,
            _ => a,
        };
        self.push(Op::Convert { dtype }, &[a], vec![])
    }
    /// The bits of `a` as `dtype`.
    pub fn bitcast_convert(&self, a: ValueId, dtype: DType) -> Result<ValueId> {
        if self.dtype(a) == dtype { Ok(a) } else { self.push(Op::BitcastConvert { dtype }, &[a], vec![]) }
    }
    /// Sum; operands of one type.
    pub fn add(&self, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.binary(Binary::Add, a, b)
    }
    /// Difference; operands of one type.
    pub fn subtract(&self, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.binary(Binary::Subtract, a, b)
    }
    /// Product; operands of one type.
    pub fn multiply(&self, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.binary(Binary::Multiply, a, b)
    }
    /// Quotient; operands of one type.
    pub fn divide(&self, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.binary(Binary::Divide, a, b)
    }
    /// Maximum, NaN wins; operands of one type.
    pub fn maximum(&self, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.binary(Binary::Maximum, a, b)
    }
    /// Minimum, NaN wins; operands of one type.
    pub fn minimum(&self, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.binary(Binary::Minimum, a, b)
    }
    /// `-a`.
    pub fn negate(&self, a: ValueId) -> Result<ValueId> {
        self.unary(Unary::Negate, a)
    }

    // Shape.

    /// `a` itself if the result has its type.
    pub fn broadcast_in_dim(&self, a: ValueId, shape: &[usize], dims: &[usize]) -> Result<ValueId> {
        if self.shape(a)[..] == *shape {
            return Ok(a);
        }
        self.push(Op::BroadcastInDim { shape: shape.into(), dims: dims.into() }, &[a], vec![])
    }
    /// `a` itself if the result has its type.
    pub fn reshape(&self, a: ValueId, shape: &[usize]) -> Result<ValueId> {
        if self.shape(a)[..] == *shape {
            return Ok(a);
        }
        self.push(Op::Reshape { shape: shape.into() }, &[a], vec![])
    }
    /// `a` itself for the identity permutation.
    pub fn transpose(&self, a: ValueId, permutation: &[usize]) -> Result<ValueId> {
        let identity = permutation.iter().enumerate().all(|(i, &d)| i == d);
        if identity && permutation.len() == self.rank(a) {
            return Ok(a);
        }
        self.push(Op::Transpose { permutation: permutation.into() }, &[a], vec![])
    }
    /// `a` itself if everything is taken.
    pub fn slice(&self, a: ValueId, start: &[usize], limit: &[usize], stride: &[usize]) -> Result<ValueId> {
        let all = start.iter().all(|&s| s == 0) && stride.iter().all(|&s| s == 1) && *limit == self.shape(a)[..];
        if all && start.len() == limit.len() && stride.len() == limit.len() {
            return Ok(a);
        }
        self.push(Op::Slice { start: start.into(), limit: limit.into(), stride: stride.into() }, &[a], vec![])
    }
    /// Elements `start..limit` by `stride` of one dimension.
    pub fn slice_dim(&self, a: ValueId, dim: usize, start: usize, limit: usize, stride: usize) -> Result<ValueId> {
        let shape = self.shape(a);
        crate::ensure!(dim < shape.len(), "dimension {dim} of a {}-d tensor", shape.len());
        let (mut s, mut l, mut t): (Dims, Dims, Dims) =
            (shape.iter().map(|_| 0).collect(), shape.iter().copied().collect(), shape.iter().map(|_| 1).collect());
        (s[dim], l[dim], t[dim]) = (start, limit, stride);
        self.slice(a, &s, &l, &t)
    }
    /// One operand is that operand.
    pub fn concatenate(&self, operands: &[ValueId], dim: usize) -> Result<ValueId> {
        match operands {
            [only] => Ok(*only),
            _ => self.push(Op::Concatenate { dim }, operands, vec![]),
        }
    }
    /// `a` itself if nothing is added or cropped.
    pub fn pad(&self, a: ValueId, value: ValueId, low: &[i64], high: &[i64], interior: &[usize]) -> Result<ValueId> {
        let nothing = low.iter().chain(high).all(|&p| p == 0) && interior.iter().all(|&p| p == 0);
        if nothing && low.len() == self.rank(a) {
            return Ok(a);
        }
        let op = Op::Pad { low: low.into(), high: high.into(), interior: interior.into() };
        self.push(op, &[a, value], vec![])
    }
    /// Reverses `dims`.
    pub fn reverse(&self, a: ValueId, dims: &[usize]) -> Result<ValueId> {
        if dims.is_empty() { Ok(a) } else { self.push(Op::Reverse { dims: dims.into() }, &[a], vec![]) }
    }

    // Indexing, contraction, reduction.

    /// See [`Op::Gather`].
    pub fn gather(&self, a: ValueId, indices: ValueId, g: Gather) -> Result<ValueId> {
        self.push(Op::Gather(g), &[a, indices], vec![])
    }
    /// See [`Op::Scatter`].
    pub fn scatter(&self, a: ValueId, indices: ValueId, updates: ValueId, s: Scatter) -> Result<ValueId> {
        self.push(Op::Scatter(s), &[a, indices, updates], vec![])
    }
    /// See [`Op::DotGeneral`].
    pub fn dot_general(&self, lhs: ValueId, rhs: ValueId, d: DotGeneral) -> Result<ValueId> {
        self.push(Op::DotGeneral(d), &[lhs, rhs], vec![])
    }
    /// See [`Op::Convolution`].
    pub fn convolution(&self, input: ValueId, kernel: ValueId, c: Convolution) -> Result<ValueId> {
        self.push(Op::Convolution(c), &[input, kernel], vec![])
    }
    /// Reduces `dims` by a reducer that takes one operand; `a` itself if there is nothing to reduce.
    pub fn reduce(&self, a: ValueId, reducer: Reducer, dims: &[usize]) -> Result<ValueId> {
        if dims.is_empty() {
            return Ok(a);
        }
        self.push(Op::Reduce { reducer, dims: dims.into() }, &[a], vec![])
    }
    /// Reduces (value, index) pairs along `dims` by `arg_max` or `arg_min`.
    pub fn reduce_arg(
        &self,
        values: ValueId,
        indices: ValueId,
        reducer: Reducer,
        dims: &[usize],
    ) -> Result<(ValueId, ValueId)> {
        let both = self.push(Op::Reduce { reducer, dims: dims.into() }, &[values, indices], vec![])?;
        Ok((self.element(both, 0)?, self.element(both, 1)?))
    }
    /// See [`Op::Fft`].
    pub fn fft(&self, a: ValueId, kind: FftKind, lengths: &[usize]) -> Result<ValueId> {
        self.push(Op::Fft { kind, lengths: lengths.into() }, &[a], vec![])
    }
    /// See [`Op::ReduceWindow`]; one operand.
    pub fn reduce_window(&self, a: ValueId, reducer: Reducer, window: Window) -> Result<ValueId> {
        self.push(Op::ReduceWindow { reducer, window }, &[a], vec![])
    }
    /// Sorts all operands by the first.
    pub fn sort(&self, operands: &[ValueId], dim: usize, descending: bool, stable: bool) -> Result<Vec<ValueId>> {
        let sorted = self.push(Op::Sort { dim, descending, stable }, operands, vec![])?;
        match operands.len() {
            1 => Ok(vec![sorted]),
            n => (0..n).map(|i| self.element(sorted, i)).collect(),
        }
    }
    /// One tensor of a tuple.
    pub fn element(&self, tuple: ValueId, index: usize) -> Result<ValueId> {
        self.push(Op::GetTupleElement { index }, &[tuple], vec![])
    }
    /// `value` as it is, for what must wait for `after` and not be merged with what uses `value` itself.
    pub fn behind_barrier(&self, value: ValueId, after: ValueId) -> Result<ValueId> {
        let both = self.push(Op::OptimizationBarrier, &[value, after], vec![])?;
        self.element(both, 0)
    }
    /// The elements of what `op` gives for `operands`, which its only body, written by `body` for operands of their types, says.
    pub fn said_by(
        &self,
        op: Op,
        operands: &[ValueId],
        body: impl FnOnce(&Builder, &[ValueId]) -> Result<Vec<ValueId>>,
    ) -> Result<Vec<ValueId>> {
        let own = Builder::new("body");
        let input = |(i, &v): (usize, &ValueId)| Ok(own.input(format!("arg{i}"), InputKind::User, self.ty(v)?));
        let given = operands.iter().enumerate().map(input).collect::<Result<Vec<_>>>()?;
        for (i, v) in body(&own, &given)?.into_iter().enumerate() {
            own.output(format!("out{i}"), OutputKind::User, v);
        }
        self.elements(self.push(op, operands, vec![Arc::new(own.finish())])?)
    }
    /// All tensors of a tuple.
    pub fn elements(&self, tuple: ValueId) -> Result<Vec<ValueId>> {
        let n = match self.state.borrow().graph.ty(tuple) {
            Type::Tuple(ts) => ts.len(),
            Type::Tensor(_) => return Err(Error::internal(format!("{tuple} is no tuple"))),
        };
        (0..n).map(|i| self.element(tuple, i)).collect()
    }

    /// See [`Op::While`].
    pub fn while_loop(&self, operands: &[ValueId], cond: Graph, body: Graph) -> Result<Vec<ValueId>> {
        let tuple = self.push(Op::While, operands, vec![Arc::new(cond), Arc::new(body)])?;
        self.elements(tuple)
    }
    /// See [`Op::If`].
    pub fn if_then_else(
        &self,
        pred: ValueId,
        operands: &[ValueId],
        then: Graph,
        otherwise: Graph,
    ) -> Result<Vec<ValueId>> {
        let operands: Operands = std::iter::once(pred).chain(operands.iter().copied()).collect();
        let tuple = self.push(Op::If, &operands, vec![Arc::new(then), Arc::new(otherwise)])?;
        self.elements(tuple)
    }

    /// The hidden input that brings the value of `sym`: `i64[]`, or `f64[]` for a float.
    pub fn symbol_input(&self, sym: &crate::symbol::Sym) -> ValueId {
        let dtype = match sym.value {
            Number::Float(_) | Number::Complex(..) => DType::F64,
            Number::Bool(_) | Number::Int(_) => DType::I64,
        };
        self.input(&*sym.expr, InputKind::Symbol(sym.expr.to_string()), TensorType::new(dtype, []))
    }

    /// A hidden input that brings where a slice begins, `i64[]`. Each is a new one, so that programs for different
    /// positions are the same program.
    pub fn position_input(&self, position: usize) -> ValueId {
        let name = format!("position{}", self.input_count());
        self.input(name, InputKind::Position(position), TensorType::new(DType::I64, []))
    }

    /// The generator's state before the next draw, `u64[2]`: that of the hidden input, unless something was drawn.
    pub fn random_state(&self) -> ValueId {
        let known = self.state.borrow().rng;
        let state =
            known.unwrap_or_else(|| self.input("rng_state", InputKind::RngState, TensorType::new(DType::U64, [2])));
        self.state.borrow_mut().rng = Some(state);
        state
    }

    /// Whether anything was drawn.
    pub fn draws(&self) -> bool {
        self.state.borrow().rng.is_some()
    }

    /// Lets the next draw continue from `state`: a loop carries it.
    pub fn set_random_state(&self, state: ValueId) {
        self.state.borrow_mut().rng = Some(state);
    }

    /// Random bits (`u32` or `u64`), drawn from the graph's hidden [`InputKind::RngState`] input, which the first
    /// draw creates. Each draw continues where the one before left off.
    pub fn random_bits(&self, dtype: DType, shape: &[usize]) -> Result<ValueId> {
        let state = self.random_state();
        let both = self.push(Op::RngBitGenerator { dtype, shape: shape.into() }, &[state], vec![])?;
        self.state.borrow_mut().rng = Some(self.element(both, 0)?);
        self.element(both, 1)
    }
}
