//! A rewrite: what it matches, what it makes of it, and what that may do to values.
//!
//! The law: a right side never costs more than its left side everywhere, no rule merely commutes or associates, and each
//! has a name, a class, a reason, and holds in the reference evaluator on random programs (`rules/tests.rs`).

mod numbers;

use crate::analysis::{EGraph, add, attributes, is_number};
use crate::change::{Class, Platform};
use crate::family::{self, Spelled};
use crate::language::{Head, Node};
use egg::{ENodeOrVar, Id, Pattern, PatternAst, Subst, Var};
use ir::op::{Binary, Comparison, DotGeneral, Reducer, Unary};
use ir::{DType, Dims, Literal, Number, Op, Shape, TensorType};
use smallvec::SmallVec;
use std::sync::Arc;

/// A rewrite of one e-class into an equal one.
pub struct Rule {
    /// Its name, in reports and in docs/rewrite-rules.md.
    pub name: &'static str,
    /// What it may do to values.
    pub class: Class,
    /// Why it is worth it, in one line.
    pub why: &'static str,
    /// What it matches: an egg pattern, or a family of them. `(unary ..)` and `(binary ..)` stand for every elementwise
    /// op of so many operands, comparisons included; a part followed by `...` stands for one or more such parts, in
    /// which `?x*` is another variable each time.
    pub left: &'static str,
    /// What it makes of it.
    pub right: Right,
}

/// The right side of a rule.
pub enum Right {
    /// An egg pattern without attributes.
    Pattern(&'static str),
    /// A function that computes attributes, or declines. The text says in the terms of a pattern what it makes.
    Build(&'static str, fn(&mut Edit<'_>) -> Option<Id>),
}

impl Right {
    /// The right side as people read it.
    pub fn text(&self) -> &'static str {
        match self {
            Right::Pattern(text) | Right::Build(text, _) => text,
        }
    }
}

/// A rule about to be run: its patterns parsed.
pub(crate) struct Ready {
    pub(crate) rule: &'static Rule,
    pub(crate) members: Vec<Member>,
}

/// One pattern of a rule's left side, and the right side if that is a pattern too.
pub(crate) struct Member {
    pub(crate) left: Pattern<Node>,
    right: Option<PatternAst<Node>>,
    /// What stands for the family's name.
    op: Option<Op>,
}

impl Ready {
    /// # Panics
    /// If a pattern does not parse, which the test of the table sees.
    #[allow(clippy::expect_used)] // patterns are part of the program
    pub(crate) fn new(rule: &'static Rule) -> Ready {
        let parse = |text: &str| text.parse::<Pattern<Node>>().expect("a pattern of the table");
        let member = |m: &Spelled| {
            let right = match rule.right {
                Right::Pattern(text) => Some(parse(&m.spell(text)).ast),
                Right::Build(..) => None,
            };
            Member { left: parse(&m.spell(rule.left)), right, op: m.name.and_then(ir::text::elementwise) }
        };
        Ready { rule, members: family::members(rule.left).iter().map(member).collect() }
    }

    /// Pairs of e-classes that are equal by this rule; none if it declines the match.
    pub(crate) fn apply(
        &self,
        member: &Member,
        egraph: &mut EGraph,
        root: Id,
        subst: &Subst,
    ) -> SmallVec<[(Id, Id); 1]> {
        let mut edit = Edit { egraph, root, subst, family: member.op.as_ref(), equal: SmallVec::new() };
        let made = match (&self.rule.right, &member.right) {
            (Right::Build(_, build), _) => build(&mut edit),
            (_, Some(pattern)) => edit.instantiate(pattern),
            (_, None) => None,
        };
        let mut equal = edit.equal;
        match made {
            Some(made) => equal.push((root, made)),
            None => equal.clear(),
        }
        equal
    }
}

/// A match and the e-graph it is in: what a right side is built with. Methods that add an op infer its type, and give
/// `None` where operands do not fit.
pub struct Edit<'a> {
    egraph: &'a mut EGraph,
    root: Id,
    subst: &'a Subst,
    family: Option<&'a Op>,
    equal: SmallVec<[(Id, Id); 1]>,
}

impl Edit<'_> {
    fn instantiate(&mut self, pattern: &PatternAst<Node>) -> Option<Id> {
        let mut ids: Vec<Id> = Vec::with_capacity(pattern.len());
        for part in pattern {
            ids.push(match part {
                ENodeOrVar::Var(v) => *self.subst.get(*v)?,
                ENodeOrVar::ENode(node) => {
                    let operands: Vec<Id> = node.children.iter().map(|&c| ids[usize::from(c)]).collect();
                    self.push(&node.head.op()?, &operands)?
                }
            });
        }
        ids.last().copied()
    }

    /// What variable `?name` of the left side matched.
    ///
    /// # Panics
    /// If the left side has no such variable, which the test of the table sees.
    #[allow(clippy::expect_used)]
    pub fn var(&self, name: &str) -> Id {
        let var: Var = format!("?{name}").parse().expect("a variable");
        *self.subst.get(var).expect("a variable of the left side")
    }
    /// What the variables `?name*` of a repeated part matched, in order.
    pub fn vars(&self, name: &str) -> Vec<Id> {
        let var = |i: usize| format!("?{name}{i}").parse().ok().and_then(|v: Var| self.subst.get(v).copied());
        (0..).map_while(var).collect()
    }
    /// The op that `unary` or `binary` stood for in the left side.
    pub fn family(&self) -> Option<Op> {
        self.family.cloned()
    }
    /// Notes that another e-class is rewritten too, in the same step.
    pub fn also(&mut self, root: Id, made: Id) {
        self.equal.push((root, made));
    }
    /// What is rewritten.
    pub fn root(&self) -> Id {
        self.root
    }
    /// The op whose attributes `?name` matched.
    pub fn op(&self, name: &str) -> Option<Arc<Op>> {
        self.attributes(self.var(name))
    }
    /// The op of an e-class of attributes: the last child of an e-node.
    pub fn attributes(&self, id: Id) -> Option<Arc<Op>> {
        attributes(self.egraph, id).map(|(op, _)| op.clone())
    }
    /// The e-classes of the e-nodes with this head that have `id` among their children, in order, each once.
    pub fn users(&self, id: Id, head: Head) -> Vec<Id> {
        let uses = |&user: &Id| self.egraph[user].nodes.iter().any(|n| n.head == head && n.operands().contains(&id));
        let mut users: Vec<Id> = self.egraph[id].parents().map(|p| self.egraph.find(p)).filter(uses).collect();
        users.sort_unstable();
        users.dedup();
        users
    }
    /// Its type, if it is a tensor.
    pub fn ty(&self, id: Id) -> Option<TensorType> {
        self.egraph[id].data.ty.tensor().cloned()
    }
    /// Its extents.
    pub fn shape(&self, id: Id) -> Option<Shape> {
        self.ty(id).map(|t| t.shape)
    }
    /// The extents that the reshape `?name` gives.
    pub fn shape_of(&self, name: &str) -> Option<Shape> {
        match &*self.op(name)? {
            Op::Reshape { shape } => Some(shape.clone()),
            _ => None,
        }
    }
    /// Its element type.
    pub fn dtype(&self, id: Id) -> Option<DType> {
        self.ty(id).map(|t| t.dtype)
    }
    /// The element that fills it, as a 0-d literal.
    pub fn splat(&self, id: Id) -> Option<Literal> {
        self.egraph[id].data.splat.clone()
    }
    /// Whether it is filled with an infinity or NaN, which arithmetic in another order may make into something else.
    pub fn is_infinite(&self, id: Id) -> bool {
        let nan = |s: &Literal| s.ty.dtype.is_float() && is_number(s, Number::Float(f64::NAN));
        let infinite = [f64::INFINITY, f64::NEG_INFINITY].iter().any(|&n| self.is(id, Number::Float(n)));
        self.dtype(id).is_some_and(DType::is_float) && (infinite || self.splat(id).as_ref().is_some_and(nan))
    }
    /// Whether all its elements are numbers, in exact arithmetic on finite numbers: for rules that reassociate.
    pub fn is_finite(&self, id: Id) -> bool {
        self.egraph[id].data.finite
    }
    /// Whether all its elements are `number`, bit by bit.
    pub fn is(&self, id: Id, number: Number) -> bool {
        self.egraph[id].data.splat.as_ref().is_some_and(|s| is_number(s, number))
    }
    /// The e-nodes of an e-class that have this head.
    pub fn nodes(&self, id: Id, head: Head) -> impl Iterator<Item = &Node> {
        self.egraph[id].nodes.iter().filter(move |n| n.head == head)
    }

    /// Adds `op`, unless it is a slice that takes all: rules make those by the dozen of slices that meet.
    pub fn push(&mut self, op: &Op, operands: &[Id]) -> Option<Id> {
        match op {
            Op::Slice { start, limit, stride } if self.takes_all(operands[0], start, limit, stride) => {
                Some(operands[0])
            }
            _ => add(self.egraph, op, &[], operands),
        }
    }
    fn takes_all(&self, of: Id, start: &[usize], limit: &[usize], stride: &[usize]) -> bool {
        let whole = start.iter().all(|&s| s == 0) && stride.iter().all(|&s| s == 1);
        whole && self.shape(of).is_some_and(|shape| shape[..] == *limit)
    }
    /// Adds an elementwise op of one operand.
    pub fn unary(&mut self, u: Unary, a: Id) -> Option<Id> {
        self.push(&Op::Unary(u), &[a])
    }
    /// Adds an elementwise op of two operands.
    pub fn binary(&mut self, op: Binary, a: Id, b: Id) -> Option<Id> {
        self.push(&Op::Binary(op), &[a, b])
    }
    /// Adds a comparison.
    pub fn compare(&mut self, c: Comparison, a: Id, b: Id) -> Option<Id> {
        self.push(&Op::Compare(c), &[a, b])
    }
    /// Adds a conversion, unless the type is there already.
    pub fn convert(&mut self, a: Id, dtype: DType) -> Option<Id> {
        if self.dtype(a)? == dtype { Some(a) } else { self.push(&Op::Convert { dtype }, &[a]) }
    }
    /// Adds a transpose, unless it moves nothing.
    pub fn transpose(&mut self, a: Id, permutation: &[usize]) -> Option<Id> {
        let moves = permutation.iter().enumerate().any(|(i, &p)| i != p);
        if !moves { Some(a) } else { self.push(&Op::Transpose { permutation: permutation.into() }, &[a]) }
    }
    /// Adds a reshape, unless the extents are there already.
    pub fn reshape(&mut self, a: Id, shape: &[usize]) -> Option<Id> {
        if self.shape(a)?[..] == *shape { Some(a) } else { self.push(&Op::Reshape { shape: shape.into() }, &[a]) }
    }
    /// Adds a broadcast, unless it changes nothing.
    pub fn broadcast_in_dim(&mut self, a: Id, shape: &[usize], dims: &[usize]) -> Option<Id> {
        if self.shape(a)?[..] == *shape {
            return Some(a);
        }
        self.push(&Op::BroadcastInDim { shape: shape.into(), dims: dims.into() }, &[a])
    }
    /// Adds a slice of every element between `start` and `limit`, unless that is all of it.
    pub fn slice(&mut self, a: Id, start: &[usize], limit: &[usize]) -> Option<Id> {
        let stride = start.iter().map(|_| 1).collect();
        self.push(&Op::Slice { start: start.into(), limit: limit.into(), stride }, &[a])
    }
    /// Adds a concatenation.
    pub fn concatenate(&mut self, operands: &[Id], dim: usize) -> Option<Id> {
        self.push(&Op::Concatenate { dim }, operands)
    }
    /// What the program is optimized for.
    pub fn platform(&self) -> Platform {
        self.egraph.analysis.platform
    }
    /// Adds a contraction whose batch dimensions come first: XLA's CPU plugin transposes others into that form itself.
    /// So it does with 16-bit operands that are no plain matrices, and then fails to run them ("Unsupported element type
    /// for DotThunk"): declined too.
    pub fn dot_general(&mut self, lhs: Id, rhs: Id, d: DotGeneral) -> Option<Id> {
        let leads = |batch: &[usize]| batch.iter().enumerate().all(|(i, &dim)| i == dim);
        if !leads(&d.lhs_batch) || !leads(&d.rhs_batch) {
            return None;
        }
        let matrices = |rank: usize| rank <= d.lhs_batch.len() + 2 && d.lhs_contract.len() == 1;
        let narrow = self.dtype(lhs)?.size() == 2 && self.platform() != Platform::Tpu;
        if narrow && !(matrices(self.shape(lhs)?.len()) && matrices(self.shape(rhs)?.len())) {
            return None;
        }
        self.push(&Op::DotGeneral(d), &[lhs, rhs])
    }
    /// Adds a reduction.
    pub fn reduce(&mut self, a: Id, reducer: Reducer, dims: Dims) -> Option<Id> {
        self.push(&Op::Reduce { reducer, dims }, &[a])
    }
    /// Adds a constant with `number` in every element.
    pub fn full(&mut self, number: Number, ty: &TensorType) -> Option<Id> {
        self.push(&Op::Constant(Literal::splat(number, ty.dtype, ty.shape.iter().copied())), &[])
    }
    /// Adds a constant with one element everywhere.
    pub fn filled(&mut self, element: &Literal, shape: &Shape) -> Option<Id> {
        self.push(&Op::Constant(element.with_shape(shape.clone())?), &[])
    }
}
