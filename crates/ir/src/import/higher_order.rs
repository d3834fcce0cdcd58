//! Higher-order ops that only run a graph: it is inlined.

use super::call::results;
use super::inputs::literal_binding;
use super::{Binding, Importer, MAX_DEPTH, Scope, Views, known};
use crate::error::Result;
use crate::literal::Number;
use crate::trace::schema::{Argument, Graph, Node, OptionalTensor, SymBoolArgument, SymFloatArgument, SymIntArgument};
use crate::{ensure, invalid};

impl<'t> Importer<'t> {
    /// Runs the graph of a transparent node.
    pub(super) fn wrapped_graph(&self, scope: &mut Scope<'t>, node: &'t Node, graph: &'t Graph) -> Result<()> {
        let behind = node.inputs.iter().skip_while(|i| !matches!(i.arg, Argument::AsGraph(_))).skip(1);
        let mut operands = vec![];
        // A string behind the graph is its name.
        for input in behind.filter(|i| !matches!(i.arg, Argument::AsString(_))) {
            self.bindings(scope, &input.arg, &mut operands)?;
        }
        self.inline(scope, node, graph, operands)
    }

    /// Runs `graph` on `operands` in the place of `node`.
    pub(super) fn inline(
        &self,
        scope: &mut Scope<'t>,
        node: &'t Node,
        graph: &'t Graph,
        operands: Vec<Binding>,
    ) -> Result<()> {
        ensure!(scope.depth < MAX_DEPTH, "graphs are nested deeper than {MAX_DEPTH}");
        let takes = graph.inputs.len();
        ensure!(operands.len() == takes, "{} operands for a graph that takes {takes}", operands.len());
        let mut inner = self.scope(graph);
        inner.depth = scope.depth + 1;
        // What is written around it may be seen through views that it gives.
        if matches!(scope.views, Views::All) {
            inner.views = Views::All;
        }
        inner.autocast = autocast(node).unwrap_or(scope.autocast);
        for (input, operand) in graph.inputs.iter().zip(operands) {
            input.for_each_name(&mut |name| {
                inner.names.insert(name, operand.clone());
            });
        }
        self.nodes(&mut inner).map_err(|e| e.in_outer_node(node.name.as_deref().unwrap_or_default()))?;
        let mut given = vec![];
        for output in &graph.outputs {
            self.bindings(&inner, output, &mut given)?;
        }
        let names = results(node)?;
        ensure!(names.len() == given.len(), "the graph gives {} results, the node names {}", given.len(), names.len());
        for (name, binding) in names.into_iter().zip(given) {
            let Some(name) = name else { continue };
            if let Binding::Tensor(t) = binding {
                self.learn(scope, name, &self.aliases.shape(t))?;
            }
            scope.names.insert(name, binding);
        }
        Ok(())
    }

    /// What an argument stands for, lists spelled out.
    pub(super) fn bindings(&self, scope: &Scope<'t>, arg: &Argument, into: &mut Vec<Binding>) -> Result<()> {
        let mut named = |name: &str| match scope.names.get(name) {
            Some(b) => {
                into.push(b.clone());
                Ok(())
            }
            None => invalid!("value `{name}` is used, but nothing defines it"),
        };
        match arg {
            Argument::AsTensor(t) => named(&t.name),
            Argument::AsTensors(ts) => ts.iter().try_for_each(|t| named(&t.name)),
            Argument::AsOptionalTensor(OptionalTensor::AsTensor(t)) => named(&t.name),
            Argument::AsInts(list) => {
                into.extend(list.iter().map(|&i| Binding::Number(known(Number::Int(i)))));
                Ok(())
            }
            Argument::AsSymInts(list) => list.iter().try_for_each(|i| {
                into.push(Binding::Number(self.sym_int(scope, i)?));
                Ok(())
            }),
            Argument::AsSymInt(SymIntArgument::AsName(n))
            | Argument::AsSymFloat(SymFloatArgument::AsName(n))
            | Argument::AsSymBool(SymBoolArgument::AsName(n)) => named(n),
            other => match literal_binding(other) {
                Some(b) => {
                    into.push(b);
                    Ok(())
                }
                None => invalid!("{} is no operand of a graph", other.variant()),
            },
        }
    }
}

/// Whether an autocast region casts; `None` for other ops.
fn autocast(node: &Node) -> Option<bool> {
    if !node.target.ends_with(".wrap_with_autocast") {
        return None;
    }
    let flags = node.inputs.iter().filter_map(|i| match i.arg {
        Argument::AsBool(b) => Some(b),
        _ => None,
    });
    flags.into_iter().next()
}
