//! Higher-order ops that choose or repeat: their graphs become the bodies of core ops.
//!
//! A body is closed: it sees its operands and nothing else. Numbers that it is given decide the program. It may not write
//! to its operands, draw random numbers or give numbers; such a node is unsupported as a whole.

use super::call::{Results, results};
use super::{Binding, Importer, MAX_DEPTH, Scope, known, survey};
use crate::alias::{Aliases, TensorId};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::{Graph, InputKind, OutputKind, ValueId};
use crate::ops::{Context, Scalar};
use crate::trace::schema::{self, Argument, Node};
use crate::{ensure, invalid};
use std::cell::RefCell;

/// An op that takes graphs and runs them as it sees fit.
#[derive(Clone, Copy)]
pub(super) enum Control {
    /// `cond(pred, true_graph, false_graph, operands)`.
    Cond,
    /// `while_loop(cond_graph, body_graph, carried, additional)`.
    While,
}

impl Control {
    pub(super) fn of(node: &Node) -> Option<Control> {
        match node.target.strip_prefix("torch.ops.higher_order.")?.split('.').next()? {
            "cond" => Some(Control::Cond),
            "while_loop" => Some(Control::While),
            _ => None,
        }
    }
}

/// A body while it is built.
struct Body<'t> {
    importer: Importer<'t>,
    scope: Scope<'t>,
    /// Its tensor operands.
    inputs: Vec<TensorId>,
}

impl<'t> Importer<'t> {
    pub(super) fn control_flow(&self, scope: &mut Scope<'t>, node: &'t Node, control: Control) -> Result<()> {
        ensure!(scope.depth < MAX_DEPTH, "graphs are nested deeper than {MAX_DEPTH}");
        let graphs = survey::graphs(node).collect::<Vec<_>>();
        let [first, second] = graphs[..] else { invalid!("takes two graphs, got {}", graphs.len()) };
        let mut operands = vec![];
        for input in node.inputs.iter().filter(|i| !matches!(i.arg, Argument::AsGraph(_) | Argument::AsString(_))) {
            self.bindings(scope, &input.arg, &mut operands)?;
        }
        match control {
            Control::Cond => self.cond(scope, node, operands, [first, second]),
            Control::While => self.repeat(scope, node, operands, first, second),
        }
    }

    fn cond(
        &self,
        scope: &mut Scope<'t>,
        node: &'t Node,
        mut operands: Vec<Binding>,
        graphs: [&'t schema::Graph; 2],
    ) -> Result<()> {
        ensure!(!operands.is_empty(), "takes a predicate");
        let pred = match operands.remove(0) {
            Binding::Tensor(t) => truth(&self.b, self.aliases.read(&self.b, t)?)?,
            Binding::Number(s) => {
                let chosen = graphs[usize::from(self.consult(&s).is_zero())];
                return self.inline(scope, node, chosen, operands);
            }
            Binding::Str(_) | Binding::None => invalid!("the predicate is no tensor and no number"),
        };
        let [then, otherwise] = graphs.map(|graph| {
            let body = self.body(scope, node, graph, &operands)?;
            let given = body.results()?;
            let kept: Vec<bool> = given.iter().map(Option::is_some).collect();
            Ok((kept, body.finish(self, given.into_iter().flatten())?))
        });
        let ((kept, then), (also, otherwise)) = (then?, otherwise?);
        ensure!(kept == also, "the two graphs give different results");
        let values = self.b.if_then_else(pred, &self.values(&operands)?, then, otherwise)?;
        let names = results(node)?;
        ensure!(names.len() == kept.len(), "the graphs give {} results, the node names {}", kept.len(), names.len());
        let (names, nothing): (Vec<_>, Vec<_>) = names.into_iter().zip(kept).partition(|(_, kept)| *kept);
        scope.names.extend(nothing.into_iter().filter_map(|(name, _)| Some((name?, Binding::None))));
        self.name(scope, names.into_iter().map(|(name, _)| name).collect(), &values)
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
        let cond = self.body(scope, node, cond, &operands)?;
        let holds = match cond.results()?[..] {
            [Some(v)] => truth(&cond.importer.b, v)?,
            _ => invalid!("the condition gives one tensor"),
        };
        let cond = cond.finish(self, [holds])?;
        let body = self.body(scope, node, body, &operands)?;
        let next = body.results()?.into_iter().collect::<Option<Vec<_>>>();
        let Some(mut next) = next else { invalid!("the body leaves a carried value undefined") };
        ensure!(next.len() == names.len(), "the body gives {} values, the node names {}", next.len(), names.len());
        // What is not carried stays as it is.
        for &t in body.inputs.iter().skip(next.len()) {
            next.push(body.importer.aliases.read(&body.importer.b, t)?);
        }
        let body = body.finish(self, next)?;
        let values = self.b.while_loop(&self.values(&operands)?, cond, body)?;
        self.name(scope, names, &values)
    }

    /// Imports `graph` as a body that takes the tensors among `operands`.
    fn body(
        &self,
        scope: &Scope<'t>,
        node: &'t Node,
        graph: &'t schema::Graph,
        operands: &[Binding],
    ) -> Result<Body<'t>> {
        let takes = graph.inputs.len();
        ensure!(operands.len() == takes, "{} operands for a graph that takes {takes}", operands.len());
        let importer = self.closed();
        let mut inner = Scope::new(graph);
        (inner.depth, inner.autocast) = (scope.depth + 1, scope.autocast);
        let mut inputs = vec![];
        for (input, operand) in graph.inputs.iter().zip(operands) {
            match (input, operand) {
                (Argument::AsTensor(t), Binding::Tensor(_)) => {
                    inputs.push(importer.tensor_input(&mut inner, &t.name, InputKind::User, None)?.1);
                }
                (_, Binding::Tensor(_)) => invalid!("a tensor for an input given as {}", input.variant()),
                _ => input.for_each_name(&mut |name| {
                    inner.names.insert(name, self.decided(operand));
                }),
            }
        }
        let name = node.name.as_deref().unwrap_or_default();
        importer.nodes(&mut inner).map_err(|e| e.in_outer_node(name))?;
        if inputs.iter().any(|&t| importer.aliases.writes(t) > 0) {
            return Err(Error::unsupported("a graph that writes to its operands"));
        }
        Ok(Body { importer, scope: inner, inputs })
    }

    /// An importer for a graph of its own, under the same bindings.
    fn closed(&self) -> Importer<'t> {
        let context = Context {
            symbols: self.context.symbols.unconsulted(),
            precision: self.context.precision,
            default_dtype: self.context.default_dtype,
            closed: true,
            ..Context::default()
        };
        Importer {
            trace: self.trace,
            b: Builder::new("body").allow_excess_precision(self.b.excess_precision()),
            aliases: Aliases::new(),
            context,
            locator: RefCell::default(),
            expressions: RefCell::default(),
            entries: RefCell::default(),
        }
    }

    fn decided(&self, operand: &Binding) -> Binding {
        match operand {
            Binding::Number(s @ Scalar::Symbolic(_)) => Binding::Number(known(self.consult(s))),
            other => other.clone(),
        }
    }

    fn values(&self, operands: &[Binding]) -> Result<Vec<ValueId>> {
        let tensor = |o: &Binding| if let Binding::Tensor(t) = o { Some(*t) } else { None };
        operands.iter().filter_map(tensor).map(|t| self.aliases.read(&self.b, t)).collect()
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

impl Body<'_> {
    /// What the graph gives; `None` for nothing.
    fn results(&self) -> Result<Vec<Option<ValueId>>> {
        let mut given = vec![];
        for output in &self.scope.graph.outputs {
            self.importer.bindings(&self.scope, output, &mut given)?;
        }
        let value = |binding| match binding {
            Binding::Tensor(t) => self.importer.aliases.read(&self.importer.b, t).map(Some),
            Binding::None => Ok(None),
            Binding::Number(_) | Binding::Str(_) => Err(Error::unsupported("a graph that gives numbers")),
        };
        given.into_iter().map(value).collect()
    }

    /// The body, which gives `outputs`. What it depends on, `outer` does.
    fn finish(self, outer: &Importer<'_>, outputs: impl IntoIterator<Item = ValueId>) -> Result<Graph> {
        let Importer { b, context, .. } = self.importer;
        outer.context.symbols.consult_too(&context.symbols);
        outputs.into_iter().enumerate().for_each(|(i, v)| b.output(format!("out{i}"), OutputKind::User, v));
        let graph = b.finish();
        if graph.inputs.len() > self.inputs.len() {
            return Err(Error::unsupported("a graph that draws random numbers"));
        }
        Ok(graph)
    }
}

/// A condition as `bool[]`.
fn truth(b: &Builder, v: ValueId) -> Result<ValueId> {
    let one = b.shape(v).iter().product::<usize>() == 1;
    ensure!(one, "a condition of extents {:?} is not one truth value", b.shape(v));
    b.reshape(b.convert(v, DType::Bool)?, &[])
}
