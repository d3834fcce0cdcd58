//! What the host computes of rows: which graphs say that, and as which steps.

use crate::graph::{Graph, Node, Output};
use crate::op::{Binary, Comparison, Op, Unary};
use crate::parts::parts;
use crate::{DType, Shape, TensorType, ValueId};
use hostcall::{OfOne, OfTwo, Operand, Rows, Step};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// The steps that `graph` is, which takes rows and gives rows or numbers of them; `None` if the host does not compute such. Parts of it
/// that have nothing to do with each other, and inputs and outputs one part after the other, may be of different tensors of a type.
///
/// The first reduction of a part says what a row is: of the tensor's extents the dimensions that go away, if those are the last, or that
/// stay, if they are; without one rows are as long as it takes for what is broadcast to have all of a row's dimensions or none. Inputs are that tensor, or broadcast to it, or a number for each row; all
/// else is elementwise, or a reduction of the same rows, or of all of them to one, which is only given. A number may be one of those of
/// an input, which is sliced. An output that is the next value of an input takes its memory.
pub fn hosted(graph: &Graph) -> Option<Vec<Rows>> {
    let mut uses = vec![0; graph.nodes().len()];
    graph.nodes().iter().flat_map(|node| &node.operands).for_each(|v| uses[v.index()] += 1);
    let apart = parts(graph, |_| Some(()));
    let all = || vec![(0..graph.nodes().len()).collect()];
    read(graph, &uses, &apart).or_else(|| if apart.len() == 1 { None } else { read(graph, &uses, &all()) })
}

/// The steps of each of `parts`, if the host computes all of them.
fn read(graph: &Graph, uses: &[usize], parts: &[Vec<usize>]) -> Option<Vec<Rows>> {
    let (mut all, mut inputs, mut outputs) = (vec![], 0..0, 0..0);
    let mut dtype = None;
    for nodes in parts {
        let own = |value: ValueId| nodes.binary_search(&value.index()).is_ok();
        let given = graph.inputs[inputs.end..].iter().take_while(|input| own(input.value)).count();
        let gives = graph.outputs[outputs.end..].iter().take_while(|output| own(output.value)).count();
        inputs = inputs.end..inputs.end + given;
        outputs = outputs.end..outputs.end + gives;
        let part = Part { graph, uses, nodes, inputs: inputs.clone(), outputs: &graph.outputs[outputs.clone()] };
        let (of, rows) = part.read()?;
        (*dtype.get_or_insert(of) == of).then_some(())?;
        all.push(rows);
    }
    (inputs.end == graph.inputs.len() && outputs.end == graph.outputs.len() && !all.is_empty()).then_some(all)
}

/// A part of a graph that has nothing to do with the others.
struct Part<'a> {
    graph: &'a Graph,
    /// How often each node is read.
    uses: &'a [usize],
    nodes: &'a [usize],
    inputs: Range<usize>,
    outputs: &'a [Output],
}

impl Part<'_> {
    /// The type of its elements, and its steps.
    fn read(&self) -> Option<(DType, Rows)> {
        let graph = self.graph;
        let nodes = || self.nodes.iter().map(|&i| &graph.nodes()[i]);
        let of_rows = |node: &Node| match &node.op {
            Op::Reduce { dims, .. } => {
                let whole = graph.tensor_type(node.operands[0])?.clone();
                let outer = counting(dims, whole.rank())?;
                Some((whole, outer))
            }
            _ => None,
        };
        let of_elements = || {
            let whole = graph.tensor_type(self.outputs.first()?.value)?.clone();
            let outer = self.longest_rows(&whole);
            Some((whole, outer))
        };
        let (whole, outer) = nodes().find_map(of_rows).or_else(of_elements)?;
        let is_float = matches!(whole.dtype, DType::F32 | DType::F64);
        let operands = vec![Operand::with(0, false); self.inputs.len()];
        let placed = vec![None; operands.len()];
        // A number by itself is a row of one.
        let extents = if whole.rank() == 0 { vec![1] } else { whole.shape.to_vec() };
        let rows = Rows { extents, outer, operands, steps: vec![], results: vec![], takes: vec![] };
        let (first, values) = (self.inputs.start, FxHashMap::default());
        let mut reading = Reading { graph, uses: self.uses, whole, rows, placed, first, values };
        for (&i, node) in self.nodes.iter().zip(nodes()) {
            let value = reading.node(node)?;
            reading.values.insert(i, value);
        }
        for output in self.outputs {
            let (Value::Made { at, .. } | Value::Gathered { at }) = reading.values[&output.value.index()] else {
                return None;
            };
            reading.rows.results.push(at);
            let takes = output.kind.mutated().map(|input| input.checked_sub(first));
            reading.rows.takes.push(takes.map_or(Some(None), |input| input.map(Some))?);
        }
        let sizes = reading.rows.sizes().1;
        let fits = |(output, size): (&Output, usize)| {
            graph.tensor_type(output.value).is_some_and(|ty| ty.dtype == reading.whole.dtype && ty.numel() == size)
        };
        let all_fit = self.outputs.iter().zip(sizes).all(fits);
        (is_float && all_fit && reading.rows.is_sound()).then_some((reading.whole.dtype, reading.rows))
    }

    /// How many dimensions of `whole` count rows where nothing is reduced: as few as can be.
    fn longest_rows(&self, whole: &TensorType) -> usize {
        let broadcast = |&i: &usize| {
            let node = &self.graph.nodes()[i];
            let Op::BroadcastInDim { dims, .. } = &node.op else { return None };
            let from = self.graph.tensor_type(node.operands[0])?;
            Some(mask(dims.iter().zip(&from.shape).filter(|(_, extent)| **extent != 1).map(|(&d, _)| d)))
        };
        let all: Vec<u64> = self.nodes.iter().filter_map(broadcast).collect();
        let many = |d: &usize| whole.shape[*d] != 1;
        let is_apart = |outer: &usize| {
            let row = mask((*outer..whole.rank()).filter(many));
            all.iter().all(|has| [0, row].contains(&(has & row)))
        };
        (0..whole.rank()).find(is_apart).unwrap_or(0)
    }
}

/// How many dimensions count rows, if those that a reduction of a tensor of so many takes away are a row's, or these.
pub fn counting(dims: &[usize], rank: usize) -> Option<usize> {
    let inner = rank.checked_sub(dims.len())?;
    match dims.first() {
        Some(_) if dims.iter().copied().eq(inner..rank) => Some(inner),
        Some(_) if dims.iter().copied().eq(0..dims.len()) => Some(dims.len()),
        _ => None,
    }
}

/// What a value of the graph is.
#[derive(Clone, Copy)]
enum Value {
    /// An input that is yet to be spread over the rows.
    Given(usize),
    /// One of the steps' values, or an operand.
    Made { at: usize, truths: bool },
    /// What is combined of all rows.
    Gathered { at: usize },
}

struct Reading<'a> {
    graph: &'a Graph,
    uses: &'a [usize],
    /// The tensor whose rows they are.
    whole: TensorType,
    rows: Rows,
    /// For each operand, which dimensions it is found to have.
    placed: Vec<Option<u64>>,
    /// The first of its inputs.
    first: usize,
    /// By node.
    values: FxHashMap<usize, Value>,
}

impl Reading<'_> {
    fn node(&mut self, node: &Node) -> Option<Value> {
        let ty = node.ty.tensor()?;
        // Of other types there are only numbers of 64 bits, one of which is made one of these.
        if let Some(value) = self.wide(node, ty) {
            return Some(value);
        }
        let fits = ty.dtype == self.whole.dtype || ty.dtype == DType::Bool;
        if !fits {
            return None;
        }
        let truths = ty.dtype == DType::Bool;
        let step = match &node.op {
            &Op::Input { index } => return self.input(index.checked_sub(self.first)?, ty),
            Op::BroadcastInDim { dims, .. } => return self.broadcast(node.operands[0], dims, &ty.shape),
            Op::Reshape { shape } => return self.reshape(node.operands[0], shape),
            Op::Slice { start, .. } => return self.one_of(node.operands[0], start, ty),
            Op::Constant(literal) if !truths => Step::Constant(literal.is_splat().then(|| literal.float())??),
            // A truth is one, a number then.
            Op::Convert { .. } => {
                let at = self.made(node.operands[0], &ty.shape)?;
                let was_truth = self.graph.tensor_type(node.operands[0])?.dtype == DType::Bool;
                return (was_truth && !truths).then_some(Value::Made { at, truths });
            }
            Op::Unary(Unary::Not) if truths => {
                let nought = self.push(Step::Constant(0.0));
                Step::Two(OfTwo::Equal, self.made(node.operands[0], &ty.shape)?, nought)
            }
            Op::Unary(u) if !truths => Step::One(of_one(*u)?, self.made(node.operands[0], &ty.shape)?),
            Op::Binary(b) => Step::Two(
                of_two(*b, truths)?,
                self.made(node.operands[0], &ty.shape)?,
                self.made(node.operands[1], &ty.shape)?,
            ),
            Op::Compare(c) => Step::Two(
                comparison(*c),
                self.made(node.operands[0], &ty.shape)?,
                self.made(node.operands[1], &ty.shape)?,
            ),
            Op::Select => Step::Select(
                self.made(node.operands[0], &ty.shape)?,
                self.made(node.operands[1], &ty.shape)?,
                self.made(node.operands[2], &ty.shape)?,
            ),
            Op::Reduce { reducer, dims } => {
                let (outer, rank) = (self.rows.outer, self.rows.extents.len());
                let is = |of: std::ops::Range<usize>| !of.is_empty() && dims.iter().copied().eq(of);
                let given = self.graph.tensor_type(node.operands[0])?;
                let (given, of) = (given.clone(), self.made(node.operands[0], &given.shape)?);
                (given == self.whole && self.rows.are_whole()[of]).then_some(())?;
                if is(0..outer) {
                    return Some(Value::Gathered { at: self.push(Step::Gather(reducer.hosted()?, of)) });
                }
                is(outer..rank).then_some(())?;
                Step::Reduce(reducer.hosted()?, of)
            }
            _ => return None,
        };
        let at = self.push(step);
        Some(Value::Made { at, truths })
    }

    fn push(&mut self, step: Step) -> usize {
        self.rows.steps.push(step);
        self.rows.operands.len() + self.rows.steps.len() - 1
    }

    /// The number of a value that an op of `shape` reads: elements of the whole, or numbers of rows.
    fn made(&mut self, value: ValueId, shape: &Shape) -> Option<usize> {
        (self.graph.tensor_type(value)?.shape == *shape).then_some(())?;
        match *self.values.get(&value.index())? {
            Value::Made { at, .. } => Some(at),
            Value::Gathered { .. } => None,
            Value::Given(index) => self.counts_rows(shape).then(|| self.place(index, 0..self.rows.outer))?,
        }
    }

    /// The operand's number, if it has these dimensions wherever it is read.
    fn place(&mut self, index: usize, dims: impl Iterator<Item = usize>) -> Option<usize> {
        let has = mask(dims);
        let known = *self.placed[index].get_or_insert(has);
        self.rows.operands[index].has = has;
        (known == has).then_some(index)
    }

    fn input(&mut self, index: usize, ty: &TensorType) -> Option<Value> {
        let truths = ty.dtype == DType::Bool;
        self.rows.operands.get_mut(index)?.truths = truths;
        if ty.shape != self.whole.shape {
            return Some(Value::Given(index));
        }
        self.place(index, 0..self.rows.extents.len()).map(|at| Value::Made { at, truths })
    }

    /// Numbers of 64 bits that are given, one of them, or that as the tensor's type has it.
    fn wide(&mut self, node: &Node, ty: &TensorType) -> Option<Value> {
        let is_wide = |ty: &TensorType| ty.dtype == DType::F64 && self.whole.dtype == DType::F32;
        match &node.op {
            &Op::Input { index } if is_wide(ty) => Some(Value::Given(index.checked_sub(self.first)?)),
            Op::Slice { start, .. } if is_wide(ty) => self.one_of(node.operands[0], start, ty),
            Op::Convert { .. } if ty.dtype == self.whole.dtype => {
                let of = node.operands[0];
                let Value::Given(index) = *self.values.get(&of.index())? else { return None };
                let is_number = self.placed[index] == Some(0) && is_wide(self.graph.tensor_type(of)?);
                is_number.then(|| self.rows.operands[index].wide = true)?;
                Some(Value::Given(index))
            }
            _ => None,
        }
    }

    /// The number at `start` of an input, of which nothing else is read.
    fn one_of(&mut self, of: ValueId, start: &[usize], ty: &TensorType) -> Option<Value> {
        let Op::Input { index } = self.graph.node(of).op else { return None };
        let (index, given) = (index.checked_sub(self.first)?, self.graph.tensor_type(of)?);
        let &[place] = start else { return None };
        (ty.numel() == 1 && self.uses[of.index()] == 1).then_some(())?;
        self.placed[index] = Some(0);
        let truths = ty.dtype == DType::Bool;
        self.rows.operands[index] = Operand { place, of: given.numel(), ..Operand::with(0, truths) };
        Some(Value::Given(index))
    }

    fn counts_rows(&self, shape: &[usize]) -> bool {
        count_alike(shape, &self.rows.extents[..self.rows.outer])
    }

    fn broadcast(&mut self, of: ValueId, dims: &[usize], shape: &Shape) -> Option<Value> {
        let from = self.graph.tensor_type(of)?.clone();
        let is_whole = *shape == self.whole.shape;
        match *self.values.get(&of.index())? {
            // A number of each row, which stands for it in all its places; or one for all.
            Value::Made { at, truths } => {
                let is_number = !self.rows.are_whole()[at];
                let to_rows = is_whole && self.maps_rows(&from.shape, dims);
                let is_one = from.numel() == 1 && (self.is_constant(at) || self.placed.get(at) == Some(&Some(0)));
                (is_number && (to_rows || is_one)).then_some(Value::Made { at, truths })
            }
            Value::Gathered { .. } => None,
            Value::Given(index) => {
                let is_ordered = dims.windows(2).all(|pair| pair[0] < pair[1]);
                (is_ordered && (is_whole || from.numel() == 1)).then_some(())?;
                let has = dims.iter().zip(&from.shape).filter(|(_, extent)| **extent != 1).map(|(&d, _)| d);
                let has: Vec<usize> = has.collect();
                // Of the dimensions of a row those of one place come along.
                let inner = self.rows.outer..self.rows.extents.len();
                let is_row = has.iter().any(|d| inner.contains(d));
                let ones = inner.filter(|&d| is_row && self.rows.extents[d] == 1).collect::<Vec<_>>();
                let at = self.place(index, has.into_iter().chain(ones))?;
                Some(Value::Made { at, truths: from.dtype == DType::Bool })
            }
        }
    }

    fn is_constant(&self, value: usize) -> bool {
        let step = value.checked_sub(self.rows.operands.len()).map(|i| self.rows.steps[i]);
        matches!(step, Some(Step::Constant(_)))
    }

    /// Whether a broadcast of numbers of rows puts each into its own row.
    fn maps_rows(&self, from: &[usize], dims: &[usize]) -> bool {
        let many = |d: &usize| self.rows.extents[*d] != 1;
        let spread = dims.iter().zip(from).filter(|(_, extent)| **extent != 1).map(|(&d, _)| d);
        spread.eq((0..self.rows.outer).filter(many))
    }

    fn reshape(&mut self, of: ValueId, shape: &Shape) -> Option<Value> {
        match *self.values.get(&of.index())? {
            Value::Made { at, truths } => {
                let is_number = !self.rows.are_whole()[at];
                (is_number || *shape == self.whole.shape).then_some(Value::Made { at, truths })
            }
            Value::Gathered { .. } => None,
            Value::Given(index) => {
                let ty = self.graph.tensor_type(of)?;
                let at = self.counts_rows(&ty.shape).then(|| self.place(index, 0..self.rows.outer))??;
                Some(Value::Made { at, truths: ty.dtype == DType::Bool })
            }
        }
    }
}

fn mask(dims: impl Iterator<Item = usize>) -> u64 {
    dims.fold(0, |mask, d| mask | 1u64.checked_shl(d as u32).unwrap_or(0))
}

/// Whether tensors of these extents, but for ones, have an element for each of the same rows.
pub fn count_alike(one: &[usize], other: &[usize]) -> bool {
    let many = |extents: &[usize]| extents.iter().copied().filter(|&extent| extent != 1).collect::<Shape>();
    many(one) == many(other)
}

/// The host's function, if it has one.
pub fn of_one(op: Unary) -> Option<OfOne> {
    Some(match op {
        Unary::Abs => OfOne::Abs,
        Unary::Erf => OfOne::Erf,
        Unary::Exponential => OfOne::Exponential,
        Unary::Log => OfOne::Log,
        Unary::Logistic => OfOne::Logistic,
        Unary::Negate => OfOne::Negate,
        Unary::Rsqrt => OfOne::Rsqrt,
        Unary::Sqrt => OfOne::Sqrt,
        Unary::Tanh => OfOne::Tanh,
        _ => return None,
    })
}

/// The host's function, if it has one; of truth values if they are such.
pub fn of_two(op: Binary, truths: bool) -> Option<OfTwo> {
    Some(match (op, truths) {
        (Binary::And, true) => OfTwo::Multiply,
        (Binary::Or, true) => OfTwo::Maximum,
        (Binary::Xor, true) => OfTwo::NotEqual,
        (_, true) => return None,
        (Binary::Add, false) => OfTwo::Add,
        (Binary::Divide, false) => OfTwo::Divide,
        (Binary::Maximum, false) => OfTwo::Maximum,
        (Binary::Minimum, false) => OfTwo::Minimum,
        (Binary::Multiply, false) => OfTwo::Multiply,
        (Binary::Subtract, false) => OfTwo::Subtract,
        _ => return None,
    })
}

fn comparison(c: Comparison) -> OfTwo {
    match c {
        Comparison::Eq => OfTwo::Equal,
        Comparison::Ne => OfTwo::NotEqual,
        Comparison::Lt => OfTwo::Less,
        Comparison::Le => OfTwo::LessEqual,
        Comparison::Gt => OfTwo::Greater,
        Comparison::Ge => OfTwo::GreaterEqual,
    }
}

#[cfg(test)]
mod tests {
    use super::hosted;
    use crate::{Builder, DType, InputKind, OutputKind, TensorType, Unary};

    /// How many dimensions count rows of `tanh(x + y)`, where `y` is broadcast along the other dimensions.
    fn outer(whole: &[usize], y: &[usize]) -> Option<usize> {
        let b = Builder::new("elements");
        let given = |name: &str, shape: &[usize]| {
            b.input(name, InputKind::User, TensorType::new(DType::F32, shape.iter().copied()))
        };
        let x = given("x", whole);
        let extents: Vec<usize> = y.iter().map(|&d| whole[d]).collect();
        let y = b.broadcast_in_dim(given("y", &extents), whole, y).ok()?;
        b.output("z", OutputKind::User, b.unary(Unary::Tanh, b.add(x, y).ok()?).ok()?);
        hosted(&b.finish()).map(|rows| rows[0].outer)
    }

    #[test]
    fn rows_are_as_long_as_what_is_broadcast_lets_them() {
        assert_eq!(outer(&[4, 5, 6], &[]), Some(0), "a number");
        assert_eq!(outer(&[4, 5, 6], &[0]), Some(1));
        assert_eq!(outer(&[4, 5, 6], &[2]), Some(2));
        assert_eq!(outer(&[4, 5, 6], &[1, 2]), Some(1));
        assert_eq!(outer(&[4, 5, 6], &[0, 2]), Some(2));
        assert_eq!(outer(&[2, 3, 4, 4], &[1]), Some(2), "channels of images");
        assert_eq!(outer(&[4, 5, 1], &[1]), Some(1), "an extent of one is a row's or not");
        assert_eq!(outer(&[], &[]), Some(0));
    }
}
