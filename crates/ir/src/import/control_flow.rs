//! Higher-order ops that choose or repeat: their graphs become the bodies of core ops.

use super::body::Body;
use super::call::{Results, results};
use super::{Binding, Importer, MAX_DEPTH, Scope, survey};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::{Graph, InputKind, OutputKind, ValueId};
use crate::literal::Number;
use crate::op::Comparison;
use crate::ops::Scalar;
use crate::trace::schema::{self, Argument, Node};
use crate::{ensure, invalid};
use std::collections::VecDeque;

/// An op that takes graphs and runs them as it sees fit.
#[derive(Clone, Copy)]
pub(super) enum Control {
    /// `cond(pred, true_graph, false_graph, operands)`.
    Cond,
    /// `switch(index, graphs, operands)`; an index out of range stands for the nearest.
    Switch,
    /// `while_loop(cond_graph, body_graph, carried, additional)`.
    While,
    /// `scan(graph, init, xs, additional)`.
    Scan,
    /// `map_impl(graph, xs, additional)`.
    Map,
    /// `associative_scan(graph, xs, additional)`.
    AssociativeScan,
}

impl Control {
    pub(super) fn of(node: &Node) -> Option<Control> {
        match node.target.strip_prefix("torch.ops.higher_order.")?.split('.').next()? {
            "cond" => Some(Control::Cond),
            "switch" => Some(Control::Switch),
            "while_loop" => Some(Control::While),
            "scan" => Some(Control::Scan),
            "map_impl" => Some(Control::Map),
            "associative_scan" => Some(Control::AssociativeScan),
            _ => None,
        }
    }
}

impl<'t> Importer<'t> {
    pub(super) fn control_flow(&self, scope: &mut Scope<'t>, node: &'t Node, control: Control) -> Result<()> {
        ensure!(scope.depth < MAX_DEPTH, "graphs are nested deeper than {MAX_DEPTH}");
        let graphs = survey::graphs(node).collect::<Vec<_>>();
        let mut groups = vec![];
        for input in node.inputs.iter().filter(|i| !matches!(i.arg, Argument::AsGraph(_) | Argument::AsString(_))) {
            let mut group = vec![];
            self.bindings(scope, &input.arg, &mut group)?;
            groups.push(group);
        }
        match (control, &graphs[..]) {
            (Control::Cond, [_, _]) | (Control::Switch, [_, ..]) => {
                self.choose(scope, node, control, groups.concat(), &graphs)
            }
            (Control::While, &[cond, body]) => self.repeat(scope, node, groups.concat(), cond, body),
            (Control::Scan, &[body]) => self.scan(scope, node, body, groups, true),
            (Control::Map, &[body]) => self.scan(scope, node, body, groups, false),
            (Control::AssociativeScan, &[body]) => self.associative_scan(scope, node, body, groups),
            _ => invalid!("does not take {} graphs", graphs.len()),
        }
    }

    fn choose(
        &self,
        scope: &mut Scope<'t>,
        node: &'t Node,
        control: Control,
        mut operands: Vec<Binding>,
        graphs: &[&'t schema::Graph],
    ) -> Result<()> {
        ensure!(!operands.is_empty(), "takes a predicate");
        let (decides, bodies) = match operands.remove(0) {
            Binding::Tensor(t) => (self.aliases.read(&self.b, t)?, self.bodies(scope, node, graphs, &operands)?),
            Binding::Number(s) => match self.bodies_for_any(&s, scope, node, graphs, &operands) {
                Some(bodies) => (self.context.scalar_value(&self.b, &s, DType::I64)?, bodies),
                None => {
                    let chosen = control.chosen(self.consult(&s), graphs.len())?;
                    return self.inline(scope, node, graphs[chosen], operands);
                }
            },
            Binding::Str(_) | Binding::None => invalid!("the predicate is no tensor and no number"),
        };
        let pick = control.pick(&self.b, decides)?;
        let draws = bodies.iter().any(Body::draws);
        let mut kept: Option<Vec<bool>> = None;
        let mut finished = vec![];
        for body in bodies {
            let given = body.results()?;
            let defined: Vec<bool> = given.iter().map(Option::is_some).collect();
            ensure!(*kept.get_or_insert_with(|| defined.clone()) == defined, "the graphs give different results");
            let state = draws.then(|| body.importer.b.random_state());
            if let Control::Switch = control {
                body.importer.b.input("place", InputKind::User, self.b.ty(pick)?);
            }
            finished.push(body.finish(self, given.into_iter().flatten().chain(state))?);
        }
        let mut values = self.values(&operands)?;
        values.extend(draws.then(|| self.b.random_state()));
        let mut values = match control {
            Control::Switch => {
                values.push(pick);
                at_place(&self.b, &values, 0, finished.into())?
            }
            _ => {
                let (Some(otherwise), Some(then)) = (finished.pop(), finished.pop()) else {
                    invalid!("takes two graphs")
                };
                self.b.if_then_else(pick, &values, then, otherwise)?
            }
        };
        if draws && let Some(state) = values.pop() {
            self.b.set_random_state(state);
        }
        let (names, kept) = (results(node)?, kept.unwrap_or_default());
        ensure!(names.len() == kept.len(), "the graphs give {} results, the node names {}", kept.len(), names.len());
        self.name_defined(scope, names, &kept, &values)
    }

    fn bodies(
        &self,
        scope: &Scope<'t>,
        node: &'t Node,
        graphs: &[&'t schema::Graph],
        operands: &[Binding],
    ) -> Result<Vec<Body<'t>>> {
        graphs.iter().map(|graph| self.body(scope, node, graph, operands)).collect()
    }

    /// All graphs, so that the program serves any value of the number that chooses. `None` where it depends on that number
    /// anyway, or cannot hold them all: one that has no lowering, or results of other types.
    fn bodies_for_any(
        &self,
        number: &Scalar,
        scope: &Scope<'t>,
        node: &'t Node,
        graphs: &[&'t schema::Graph],
        operands: &[Binding],
    ) -> Option<Vec<Body<'t>>> {
        let Scalar::Symbolic(sym) = number else { return None };
        if self.context.closed || self.context.symbols.is_decided(sym) {
            return None;
        }
        let bodies = self.bodies(scope, node, graphs, operands).ok()?;
        let types = bodies.iter().map(|body| body.types().ok()).collect::<Option<Vec<_>>>()?;
        types.windows(2).all(|pair| pair[0] == pair[1]).then_some(bodies)
    }

    fn repeat(
        &self,
        scope: &mut Scope<'t>,
        node: &'t Node,
        operands: Vec<Binding>,
        cond: &'t schema::Graph,
        body: &'t schema::Graph,
    ) -> Result<()> {
        let names = results(node)?;
        let body = self.body(scope, node, body, &operands)?;
        let next = body.results()?.into_iter().collect::<Option<Vec<_>>>();
        let Some(mut next) = next else { invalid!("the body leaves a carried value undefined") };
        ensure!(next.len() == names.len(), "the body gives {} values, the node names {}", next.len(), names.len());
        next.extend(body.unchanged(next.len())?);
        let cond = self.body(scope, node, cond, &operands)?;
        if cond.draws() {
            return Err(Error::unsupported("a condition that draws random numbers"));
        }
        let holds = match cond.results()?[..] {
            [Some(v)] => truth(&cond.importer.b, v)?,
            _ => invalid!("the condition gives one tensor"),
        };
        let mut values = self.values(&operands)?;
        let draws = body.draws();
        if draws {
            cond.importer.b.random_state(); // an input that it does not look at
            next.push(body.importer.b.random_state());
            values.push(self.b.random_state());
        }
        let (cond, body) = (cond.finish(self, [holds])?, body.finish(self, next)?);
        let mut values = self.b.while_loop(&values, cond, body)?;
        if draws && let Some(state) = values.pop() {
            self.b.set_random_state(state);
        }
        self.name(scope, names, &values)
    }

    /// The tensors among `operands`.
    pub(super) fn values(&self, operands: &[Binding]) -> Result<Vec<ValueId>> {
        let tensor = |o: &Binding| if let Binding::Tensor(t) = o { Some(*t) } else { None };
        operands.iter().filter_map(tensor).map(|t| self.aliases.read(&self.b, t)).collect()
    }

    /// Gives `values` to those of `names` whose results are defined.
    pub(super) fn name_defined(
        &self,
        scope: &mut Scope<'t>,
        names: Results<'t>,
        defined: &[bool],
        values: &[ValueId],
    ) -> Result<()> {
        let (names, nothing): (Vec<_>, Vec<_>) = names.into_iter().zip(defined).partition(|(_, defined)| **defined);
        scope.names.extend(nothing.into_iter().filter_map(|(name, _)| Some((name?, Binding::None))));
        self.name(scope, names.into_iter().map(|(name, _)| name).collect(), values)
    }

    fn name(&self, scope: &mut Scope<'t>, names: Results<'t>, values: &[ValueId]) -> Result<()> {
        for (name, &value) in names.into_iter().zip(values) {
            let Some(name) = name else { continue };
            let tensor = self.fresh(scope, name, value)?;
            scope.names.insert(name, Binding::Tensor(tensor));
        }
        Ok(())
    }
}

impl Control {
    /// What decides, as `bool[]`, or as `i32[]` where there is a choice of several graphs.
    fn pick(self, b: &Builder, v: ValueId) -> Result<ValueId> {
        match self {
            Control::Switch => {
                ensure!(b.shape(v).iter().product::<usize>() == 1, "an index of extents {:?}", b.shape(v));
                b.reshape(b.convert(v, DType::I32)?, &[])
            }
            _ => truth(b, v),
        }
    }

    /// Which of `count` graphs a number stands for.
    fn chosen(self, number: Number, count: usize) -> Result<usize> {
        match (self, number) {
            (Control::Switch, Number::Int(i)) => Ok(i.clamp(0, count as i64 - 1) as usize),
            (Control::Switch, other) => invalid!("{other:?} is no index"),
            _ => Ok(usize::from(number.is_zero())),
        }
    }
}

/// The results of one of `graphs`, of which the first is number `from`: that at the place which the last operand says, or
/// the nearest.
fn at_place(b: &Builder, operands: &[ValueId], from: i64, mut graphs: VecDeque<Graph>) -> Result<Vec<ValueId>> {
    let (Some(first), Some(&place)) = (graphs.pop_front(), operands.last()) else { invalid!("takes a graph") };
    let otherwise = match graphs.len() {
        0 => first.clone(),
        1 => graphs.remove(0).unwrap_or_default(),
        _ => {
            let inner = Builder::new("otherwise");
            let input = |(i, &v): (usize, &ValueId)| Ok(inner.input(format!("arg{i}"), InputKind::User, b.ty(v)?));
            let inputs = operands.iter().enumerate().map(input).collect::<Result<Vec<_>>>()?;
            let results = at_place(&inner, &inputs, from + 1, graphs)?;
            results.into_iter().enumerate().for_each(|(i, v)| inner.output(format!("out{i}"), OutputKind::User, v));
            inner.finish()
        }
    };
    let here = b.compare(Comparison::Le, place, b.scalar(Number::Int(from), DType::I32)?)?;
    b.if_then_else(here, operands, first, otherwise)
}

/// A condition as `bool[]`.
fn truth(b: &Builder, v: ValueId) -> Result<ValueId> {
    let one = b.shape(v).iter().product::<usize>() == 1;
    ensure!(one, "a condition of extents {:?} is not one truth value", b.shape(v));
    b.reshape(b.convert(v, DType::Bool)?, &[])
}
