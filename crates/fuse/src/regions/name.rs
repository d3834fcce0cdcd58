//! What a region is called: the patterns that people know, in the order of the program, as in `rmsnorm+matmul`.

use hostcall::Lapack;
use ir::{Binary, Graph, Op, OutputKind, Reducer, Routine, Unary, ValueId};

/// Words in a name, at most.
const MOST: usize = 4;

/// Words that say little where others say more.
const PLAIN: [&str; 14] = [
    "add",
    "sub",
    "mul",
    "div",
    "scale",
    "offset",
    "neg",
    "cast",
    "max",
    "min",
    "select",
    "compare",
    "transpose",
    "slice",
];

/// The name of a region of these `members`, ascending.
pub(super) fn name(graph: &Graph, members: &[ValueId]) -> String {
    let region = Named { graph, members };
    if let [only] = members.iter().filter(|v| !is_view(&graph.node(**v).op)).collect::<Vec<_>>()[..] {
        return match &graph.node(*only).bodies[..] {
            [body] if *region.op(*only) == Op::HostRows => name(body, &computed(body)),
            _ => short(region.words(*only).collect()),
        };
    }
    if let Some(update) = region.update() {
        return update.to_owned();
    }
    let pattern = region.rows();
    let start = pattern.map_or(0, |p| p.1.index());
    let mut words: Vec<(usize, &'static str)> = pattern.into_iter().map(|(word, _, end)| (end.index(), word)).collect();
    let end = pattern.map_or(0, |p| p.2.index());
    for v in members.iter().filter(|v| v.index() < start || v.index() > end || region.is_product(**v)) {
        words.extend(region.words(*v).map(|w| (v.index(), w)));
    }
    words.sort_by_key(|w| w.0);
    short(words.into_iter().map(|w| w.1).collect())
}

/// What `body` computes.
fn computed(body: &Graph) -> Vec<ValueId> {
    let all = (0..body.nodes().len()).map(ValueId::new);
    all.filter(|v| !matches!(body.node(*v).op, Op::Input { .. } | Op::Constant(_))).collect()
}

/// `words` without repetitions, and without plain arithmetic if something better is there.
fn short(words: Vec<&'static str>) -> String {
    let is_plain = |w: &&str| PLAIN.contains(w);
    let better = words.iter().any(|w| !is_plain(w));
    let ends = words.iter().rposition(|w| !is_plain(w)).unwrap_or(0);
    let mut kept: Vec<&str> = vec![];
    for (i, w) in words.iter().enumerate() {
        // Behind everything else, a sum is the residual's.
        let is_residual = *w == "add" && i > ends;
        if !kept.contains(w) && (!better || !is_plain(w) || is_residual) {
            kept.push(w);
        }
    }
    let more = if kept.len() > MOST { "+..." } else { "" };
    kept.truncate(MOST);
    if kept.is_empty() { "copy".to_owned() } else { format!("{}{more}", kept.join("+")) }
}

struct Named<'a> {
    graph: &'a Graph,
    members: &'a [ValueId],
}

impl Named<'_> {
    fn op(&self, v: ValueId) -> &Op {
        &self.graph.node(v).op
    }
    fn operand(&self, v: ValueId, i: usize) -> ValueId {
        self.graph.node(v).operands[i]
    }
    fn has(&self, test: impl Fn(&Op) -> bool) -> bool {
        self.members.iter().any(|v| test(self.op(*v)))
    }
    fn is_product(&self, v: ValueId) -> bool {
        matches!(self.op(v), Op::DotGeneral(_) | Op::Convolution(_) | Op::Finished(_))
    }

    /// An optimizer's step: what it writes over its inputs.
    fn update(&self) -> Option<&'static str> {
        let written = self.graph.outputs.iter().filter(|o| matches!(o.kind, OutputKind::Mutation(_)));
        let written = written.filter(|o| self.members.binary_search(&o.value).is_ok()).count();
        let function = |what: &str| {
            self.members.iter().any(|v| self.graph.locs.get(self.graph.node(*v).loc).function.contains(what))
        };
        if written == 0 || self.members.iter().any(|v| self.is_product(*v)) {
            return None;
        }
        let roots = self.has(|op| matches!(op, Op::Unary(Unary::Sqrt | Unary::Rsqrt)));
        let is_adam = written > 1 && roots && !self.has(|op| matches!(op, Op::Reduce { .. }));
        match () {
            () if is_adam && (function("adamw") || self.decays()) => Some("adamw_update"),
            () if is_adam => Some("adam_update"),
            () if function("sgd") => Some("sgd_update"),
            () => None,
        }
    }

    /// Whether an input that is written over is first multiplied by a number: weight decay beside the gradient.
    fn decays(&self) -> bool {
        let mutated: Vec<ValueId> = self
            .graph
            .outputs
            .iter()
            .filter_map(|o| match o.kind {
                OutputKind::Mutation(i) => {
                    let next = self.graph.node(o.value);
                    // The next value of a parameter is a difference, that of a mean a sum of two products.
                    let is_step = matches!(next.op, Op::Binary(Binary::Subtract)) || self.is_quotient(o.value);
                    self.graph.inputs.get(i).filter(|_| is_step).map(|i| i.value)
                }
                OutputKind::User => None,
            })
            .collect();
        self.members.iter().any(|&v| {
            let node = self.graph.node(v);
            let is_scaled = |i: usize| mutated.contains(&node.operands[i]) && self.is_number(node.operands[1 - i]);
            matches!(node.op, Op::Binary(Binary::Multiply)) && (is_scaled(0) || is_scaled(1))
        })
    }

    /// Whether a sum ends in a quotient of two values, as a step of Adam does.
    fn is_quotient(&self, v: ValueId) -> bool {
        let ends_in = |o: &ValueId| {
            let mut at = *o;
            for _ in 0..4 {
                match self.op(at) {
                    Op::Binary(Binary::Divide) => return true,
                    Op::Binary(Binary::Multiply) | Op::Unary(Unary::Negate) => at = self.operand(at, 0),
                    _ => return false,
                }
            }
            false
        };
        matches!(self.op(v), Op::Binary(Binary::Add)) && self.graph.node(v).operands.iter().any(ends_in)
    }

    /// Whether `v` is one number for all elements.
    fn is_number(&self, v: ValueId) -> bool {
        match self.op(v) {
            Op::Constant(l) => l.is_splat(),
            Op::BroadcastInDim { .. } => self.graph.tensor_type(self.operand(v, 0)).is_some_and(|t| t.numel() == 1),
            _ => false,
        }
    }

    /// A pattern over rows, and the first and last op of it: what is reduced, and what takes the result back.
    fn rows(&self) -> Option<(&'static str, ValueId, ValueId)> {
        let mut reduced: Vec<ValueId> = vec![];
        let (mut first, mut last) = (None, None);
        for &v in self.members.iter() {
            let node = self.graph.node(v);
            let is_reduction = matches!(node.op, Op::Reduce { .. });
            let from_reduced = node.operands.iter().any(|o| reduced.contains(o));
            if is_reduction {
                first = first.or(Some(v));
                reduced.push(v);
            } else if from_reduced && !self.is_product(v) {
                let is_small = node.operands.iter().all(|o| reduced.contains(o) || self.is_number(*o));
                if is_small || is_view(&node.op) {
                    reduced.push(v);
                } else {
                    last = Some(v);
                }
            }
        }
        let (first, mut last) = (first?, last?);
        let start = self.members.iter().copied().find(|m| self.graph.node(first).operands.contains(m)).unwrap_or(first);
        let has = |r: Reducer| self.has(|op| matches!(op, Op::Reduce { reducer, .. } if *reducer == r));
        let exp = self.has(|op| matches!(op, Op::Unary(Unary::Exponential)));
        let log = self.has(|op| matches!(op, Op::Unary(Unary::Log)));
        let root = self.has(|op| matches!(op, Op::Unary(Unary::Rsqrt | Unary::Sqrt)));
        let sums =
            self.members.iter().filter(|v| matches!(self.op(**v), Op::Reduce { reducer: Reducer::Add, .. })).count();
        let differs = self.has(|op| matches!(op, Op::Binary(Binary::Subtract)));
        let word = match () {
            () if exp && log && sums > 0 => "log_softmax",
            () if exp && sums > 0 && (has(Reducer::Maximum) || sums == 1) => "softmax",
            () if root && differs => "layernorm",
            () if root => "rmsnorm",
            () => return None,
        };
        if !root {
            // Up to its sums, whether they divide here or later.
            let sum = self.members.iter().rfind(|v| matches!(self.op(**v), Op::Reduce { .. }));
            last = last.max(sum.copied().unwrap_or(last));
        }
        if root {
            // The weight and the shift that follow are the norm's.
            while let Some(next) = self.members.iter().find(|m| **m > last && self.scales_by_row(**m, last)) {
                last = *next;
            }
        }
        Some((word, start, last))
    }

    /// Whether `v` multiplies `x` by, or adds to it, a vector along its rows.
    fn scales_by_row(&self, v: ValueId, x: ValueId) -> bool {
        let is_arithmetic = matches!(self.op(v), Op::Binary(Binary::Multiply | Binary::Add));
        is_arithmetic && self.graph.node(v).operands.contains(&x) && self.row_beside(v).is_some()
    }

    /// The vector among the operands of `v` that is broadcast to its rows.
    fn row_beside(&self, v: ValueId) -> Option<ValueId> {
        let is_row = |o: &&ValueId| match self.op(**o) {
            Op::BroadcastInDim { .. } => self.graph.tensor_type(self.operand(**o, 0)).is_some_and(|t| t.numel() > 1),
            _ => false,
        };
        self.graph.node(v).operands.iter().find(is_row).copied()
    }

    /// Whether a constant near `number` is among the operands of the members.
    fn mentions(&self, number: f32) -> bool {
        let near = |l: &ir::Literal| {
            let bytes: Option<[u8; 4]> = l.bytes.get(..4).and_then(|b| b.try_into().ok());
            l.ty.dtype == ir::DType::F32
                && l.is_splat()
                && bytes.is_some_and(|b| (f32::from_le_bytes(b) - number).abs() < 1e-5)
        };
        let is_it = |v: ValueId| matches!(self.op(v), Op::Constant(l) if near(l));
        let from =
            |v: ValueId| is_it(v) || matches!(self.op(v), Op::BroadcastInDim { .. }) && is_it(self.operand(v, 0));
        self.members.iter().any(|v| self.graph.node(*v).operands.iter().any(|&o| from(o)))
    }

    /// What an op is called, and what it does to its result before it writes it.
    fn words(&self, v: ValueId) -> impl Iterator<Item = &'static str> {
        let finish = match self.op(v) {
            Op::Finished(f) => [(f.scale, "scale"), (f.bias, "bias"), (f.addend, "add"), (f.relu, "relu")],
            _ => [(false, ""); 4],
        };
        self.word(v).into_iter().chain(finish.into_iter().filter(|step| step.0).map(|step| step.1))
    }

    /// What an op is called; none for what goes without saying.
    fn word(&self, v: ValueId) -> Option<&'static str> {
        Some(match self.op(v) {
            Op::Finished(f) if matches!(f.of, Op::Convolution(_)) => "conv",
            Op::Finished(_) => "matmul",
            Op::DotGeneral(_) => "matmul",
            Op::Convolution(_) => "conv",
            Op::Unary(u) | Op::HostUnary(u) => return self.unary(*u, v),
            Op::Binary(b) | Op::HostBinary(b) => self.binary(*b, v),
            Op::Compare(_) => "compare",
            Op::Select => "select",
            Op::Convert { .. } | Op::BitcastConvert { .. } => "cast",
            Op::Reduce { reducer, .. } => reducer_word(*reducer),
            Op::ReduceWindow { reducer: Reducer::Add, .. } => "sum_pool",
            Op::ReduceWindow { .. } => "max_pool",
            Op::HostRows => "rows",
            Op::HostScan(_) => "scan",
            Op::SelectAndScatter { .. } => "max_pool_backward",
            Op::Transpose { .. } => "transpose",
            Op::Slice { .. } | Op::DynamicSlice { .. } => "slice",
            Op::Concatenate { .. } => "concat",
            Op::Pad { .. } => "pad",
            Op::Reverse { .. } => "reverse",
            Op::Gather(_) => "gather",
            Op::Scatter(_) | Op::HostScatter(_) => "scatter",
            Op::DynamicUpdateSlice => "update_slice",
            Op::Sort { .. } | Op::HostSort(_) => "sort",
            Op::TopK { .. } => "top_k",
            Op::Fft { .. } => "fft",
            Op::OptimizationBarrier | Op::HostBarrier => "barrier",
            Op::RngBitGenerator { .. } => "random_bits",
            Op::While => "while",
            Op::If => "if",
            Op::Lapack { of, .. } => lapack_word(*of),
            Op::Grouped { .. } => "grouped_matmul",
            Op::Routine(of) => routine_word(*of),
            Op::Input { .. } | Op::Constant(_) | Op::Iota { .. } | Op::BroadcastInDim { .. } => return None,
            Op::Reshape { .. } | Op::GetTupleElement { .. } => return None,
        })
    }

    fn unary(&self, u: Unary, v: ValueId) -> Option<&'static str> {
        let multiplies = |m: &&ValueId| {
            let node = self.graph.node(**m);
            let x = self.operand(v, 0);
            matches!(node.op, Op::Binary(Binary::Multiply)) && node.operands.contains(&v) && node.operands.contains(&x)
        };
        Some(match u {
            Unary::Erf | Unary::Erfc => "gelu",
            Unary::Tanh if self.mentions(0.044_715) => "gelu",
            Unary::Tanh => "tanh",
            Unary::Logistic if self.members.iter().any(|m| multiplies(&m)) => "silu",
            Unary::Logistic => "sigmoid",
            Unary::Exponential | Unary::ExponentialMinusOne => "exp",
            Unary::Log | Unary::LogPlusOne => "log",
            Unary::Negate => "neg",
            Unary::Sqrt => "sqrt",
            Unary::Rsqrt => "rsqrt",
            Unary::Abs => "abs",
            Unary::Cosine => "cos",
            Unary::Sine => "sin",
            Unary::Not | Unary::Real | Unary::Imag | Unary::IsFinite => return None,
            _ => "function",
        })
    }

    fn binary(&self, b: Binary, v: ValueId) -> &'static str {
        let numbers = self.graph.node(v).operands.iter().any(|&o| self.is_number(o));
        match b {
            Binary::Add if self.row_beside(v).is_some() => "bias",
            Binary::Multiply if numbers => "scale",
            Binary::Add if numbers => "offset",
            Binary::Maximum if numbers => "relu",
            Binary::Add => "add",
            Binary::Subtract => "sub",
            Binary::Multiply => "mul",
            Binary::Divide => "div",
            Binary::Maximum => "max",
            Binary::Minimum => "min",
            Binary::Power => "pow",
            Binary::And | Binary::Or | Binary::Xor => "select",
            _ => "function",
        }
    }
}

fn lapack_word(of: Lapack) -> &'static str {
    match of {
        Lapack::Lu => "lu",
        Lapack::Order => "pivots",
        Lapack::Qr => "qr",
        Lapack::Reflected { .. } => "reflections",
        Lapack::Cholesky => "cholesky",
        Lapack::Triangular { .. } => "triangular_solve",
        Lapack::Eigh | Lapack::EighValues => "eigh",
        Lapack::Svd { .. } | Lapack::SingularValues => "svd",
        Lapack::Eig | Lapack::Eigenvalues => "eig",
    }
}

fn routine_word(of: Routine) -> &'static str {
    match of {
        Routine::Cholesky => "cholesky",
        Routine::TriangularSolve { .. } => "triangular_solve",
        Routine::Lu => "lu",
        Routine::Qr => "qr",
        Routine::Reflections => "reflections",
        Routine::Eigh => "eigh",
        Routine::Grouped { .. } => "grouped_matmul",
    }
}

fn reducer_word(r: Reducer) -> &'static str {
    match r {
        Reducer::Add => "sum",
        Reducer::Multiply => "prod",
        Reducer::Maximum => "row_max",
        Reducer::Minimum => "row_min",
        Reducer::And => "all",
        Reducer::Or => "any",
        Reducer::Xor => "parity",
        Reducer::ArgMax => "argmax",
        Reducer::ArgMin => "argmin",
    }
}

/// What computes nothing.
fn is_view(op: &Op) -> bool {
    matches!(
        op,
        Op::BroadcastInDim { .. } | Op::Reshape { .. } | Op::GetTupleElement { .. } | Op::Iota { .. } | Op::Constant(_)
    )
}
