//! A graph of a higher-order op as the body of a core op.
//!
//! A body is closed: it sees its operands and nothing else. Numbers that it is given decide the program. Where it draws
//! random numbers, the generator's state is one more operand and result. It may not write to its operands or give
//! numbers; such a node is unsupported as a whole.

use super::{Binding, Importer, Scope, known};
use crate::alias::{Aliases, TensorId};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::graph::{Graph, InputKind, OutputKind, ValueId};
use crate::ops::{Context, Scalar, loops};
use crate::trace::schema::{self, Argument, Node};
use crate::types::TensorType;
use crate::{ensure, invalid};
use std::cell::RefCell;

/// A body while it is built.
pub(super) struct Body<'t> {
    pub(super) importer: Importer<'t>,
    scope: Scope<'t>,
    /// Its tensor operands.
    inputs: Vec<TensorId>,
}

impl<'t> Importer<'t> {
    /// Imports `graph` as a body that takes the tensors among `operands`.
    pub(super) fn body(
        &self,
        scope: &Scope<'t>,
        node: &'t Node,
        graph: &'t schema::Graph,
        operands: &[Binding],
    ) -> Result<Body<'t>> {
        let takes = graph.inputs.len();
        ensure!(operands.len() == takes, "{} operands for a graph that takes {takes}", operands.len());
        let mut body = self.open(scope, graph);
        for (input, operand) in graph.inputs.iter().zip(operands) {
            body.take(self, input, operand)?;
        }
        body.run(node)?;
        Ok(body)
    }

    /// A body that has taken nothing yet.
    pub(super) fn open(&self, scope: &Scope<'t>, graph: &'t schema::Graph) -> Body<'t> {
        let mut inner = self.scope(graph);
        (inner.depth, inner.autocast) = (scope.depth + 1, scope.autocast);
        Body { importer: self.closed(), scope: inner, inputs: vec![] }
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
            b: Builder::new("body")
                .allow_excess_precision(self.b.excess_precision())
                .limit_wide_tables(self.b.wide_tables()),
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
}

impl<'t> Body<'t> {
    /// The next operand.
    pub(super) fn take(&mut self, outer: &Importer<'t>, input: &'t Argument, operand: &Binding) -> Result<()> {
        match (input, operand) {
            (Argument::AsTensor(t), Binding::Tensor(_)) => {
                let taken = self.importer.tensor_input(&mut self.scope, &t.name, InputKind::User, None)?;
                self.inputs.push(taken.1);
            }
            (_, Binding::Tensor(_)) => invalid!("a tensor for an input given as {}", input.variant()),
            _ => input.for_each_name(&mut |name| {
                self.scope.names.insert(name, outer.decided(operand));
            }),
        }
        Ok(())
    }

    /// The next operand, of which the graph itself sees one row: that of number `place`.
    pub(super) fn take_row(&mut self, input: &'t Argument, whole: TensorType, place: ValueId) -> Result<()> {
        let Argument::AsTensor(t) = input else { invalid!("a row for an input given as {}", input.variant()) };
        let b = &self.importer.b;
        let whole = b.input(&*t.name, InputKind::User, whole);
        self.inputs.push(self.importer.aliases.fresh_contiguous(b, whole)?);
        let row = self.importer.fresh(&self.scope, &t.name, loops::row(b, whole, place)?)?;
        self.scope.names.insert(&t.name, Binding::Tensor(row));
        Ok(())
    }

    /// Imports the nodes, once all is taken.
    pub(super) fn run(&mut self, node: &'t Node) -> Result<()> {
        let name = node.name.as_deref().unwrap_or_default();
        self.importer.nodes(&mut self.scope).map_err(|e| e.in_outer_node(name))?;
        if self.inputs.iter().any(|&t| self.importer.aliases.writes(t) > 0) {
            return Err(Error::unsupported("a graph that writes to its operands"));
        }
        Ok(())
    }

    /// Whether it draws random numbers.
    pub(super) fn draws(&self) -> bool {
        self.importer.b.draws()
    }

    /// What the graph gives; `None` for nothing.
    pub(super) fn results(&self) -> Result<Vec<Option<ValueId>>> {
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

    /// The types of what it gives.
    pub(super) fn types(&self) -> Result<Vec<Option<TensorType>>> {
        let ty = |v: Option<ValueId>| v.map(|v| self.importer.b.ty(v)).transpose();
        self.results()?.into_iter().map(ty).collect()
    }

    /// The tensor operands behind the first `carried`, which a loop hands on as they are.
    pub(super) fn unchanged(&self, carried: usize) -> Result<Vec<ValueId>> {
        let read = |&t: &TensorId| self.importer.aliases.read(&self.importer.b, t);
        self.inputs.iter().skip(carried).map(read).collect()
    }

    /// The body, which gives `outputs`. What it depends on, `outer` does.
    pub(super) fn finish(self, outer: &Importer<'_>, outputs: impl IntoIterator<Item = ValueId>) -> Result<Graph> {
        let Importer { b, context, .. } = self.importer;
        outer.context.symbols.consult_too(&context.symbols);
        outputs.into_iter().enumerate().for_each(|(i, v)| b.output(format!("out{i}"), OutputKind::User, v));
        Ok(b.finish())
    }
}
