//! `scan`, `map` and `associative_scan`: one loop over the rows of what they are given. What a step gives is put into its
//! row of the result.

use super::body::Body;
use super::call::results;
use super::{Binding, Importer, Scope};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{InputKind, ValueId};
use crate::literal::Number;
use crate::ops::loops;
use crate::trace::schema::{self, Node};
use crate::types::TensorType;
use crate::{ensure, invalid};

/// The step of a loop over rows.
struct Step<'t> {
    body: Body<'t>,
    /// The number of its row, inside.
    place: ValueId,
    /// Its operands, outside.
    operands: Vec<ValueId>,
}

impl<'t> Importer<'t> {
    /// `scan(graph, init, xs, additional)`, or without what is carried, `map_impl(graph, xs, additional)`.
    pub(super) fn scan(
        &self,
        scope: &mut Scope<'t>,
        node: &'t Node,
        graph: &'t schema::Graph,
        mut groups: Vec<Vec<Binding>>,
        carries: bool,
    ) -> Result<()> {
        ensure!(groups.len() > usize::from(carries), "takes tensors to go over");
        let carried = if carries { groups.remove(0) } else { vec![] };
        let xs = groups.remove(0);
        let steps = self.count_rows(&xs)?;
        let names = results(node)?;
        let mut values = self.values(&carried)?;
        if steps == 0 {
            for name in names.iter().skip(values.len()) {
                let (dtype, layout) = self.tensor_meta(scope, name.unwrap_or_default())?;
                values.push(self.b.full(Number::Int(0), dtype, &layout.sizes)?);
            }
            return self.name_defined(scope, names, &vec![true; values.len()], &values);
        }
        let step = self.step(scope, node, graph, &carried, &xs, &groups.concat())?;
        let given = step.body.results()?;
        ensure!(given.len() == names.len(), "the graph gives {} values, the node names {}", given.len(), names.len());
        let defined: Vec<bool> = given.iter().map(Option::is_some).collect();
        ensure!(defined.iter().take(carried.len()).all(|&d| d), "the graph leaves a carried value undefined");
        let mut next: Vec<ValueId> = given.into_iter().flatten().collect();
        let rows = next.split_off(carried.len());
        let stack = |&row: &ValueId| {
            let b = &step.body.importer.b;
            let shape = std::iter::once(steps).chain(b.shape(row)).collect::<Vec<_>>();
            self.b.full(Number::Int(0), b.dtype(row), &shape)
        };
        let stacks = rows.iter().map(stack).collect::<Result<Vec<_>>>()?;
        let values = self.over_rows(step, 0..steps, next, &rows, &stacks)?;
        self.name_defined(scope, names, &defined, &values)
    }

    /// `associative_scan(graph, xs, additional)`: the graph is given the last row of the result so far, and the next row.
    pub(super) fn associative_scan(
        &self,
        scope: &mut Scope<'t>,
        node: &'t Node,
        graph: &'t schema::Graph,
        mut groups: Vec<Vec<Binding>>,
    ) -> Result<()> {
        ensure!(!groups.is_empty(), "takes tensors to go over");
        let xs = groups.remove(0);
        let (names, stacks) = (results(node)?, self.values(&xs)?);
        let defined = vec![true; stacks.len()];
        let steps = self.count_rows(&xs)?;
        if steps == 0 {
            return self.name_defined(scope, names, &defined, &stacks);
        }
        let zero = self.b.scalar(Number::Int(0), DType::I32)?;
        let first = |&v: &ValueId| {
            let row = loops::row(&self.b, v, zero)?;
            self.aliases.fresh_contiguous(&self.b, row).map(Binding::Tensor)
        };
        let carried = stacks.iter().map(first).collect::<Result<Vec<_>>>()?;
        let step = self.step(scope, node, graph, &carried, &xs, &groups.concat())?;
        let next = step.body.results()?.into_iter().collect::<Option<Vec<_>>>();
        let Some(next) = next.filter(|next| next.len() == stacks.len()) else {
            invalid!("the graph gives not as much as it is given")
        };
        let values = self.over_rows(step, 1..steps, next.clone(), &next, &stacks)?;
        self.name_defined(scope, names, &defined, &values[stacks.len()..])
    }

    /// The number of rows that all of `xs` have.
    fn count_rows(&self, xs: &[Binding]) -> Result<usize> {
        let mut count = None;
        for v in self.values(xs)? {
            let shape = self.b.shape(v);
            ensure!(!shape.is_empty(), "goes over a 0-d tensor");
            ensure!(*count.get_or_insert(shape[0]) == shape[0], "goes over tensors of different lengths");
        }
        let Some(count) = count else { invalid!("goes over no tensor") };
        Ok(count)
    }

    fn step(
        &self,
        scope: &Scope<'t>,
        node: &'t Node,
        graph: &'t schema::Graph,
        carried: &[Binding],
        xs: &[Binding],
        rest: &[Binding],
    ) -> Result<Step<'t>> {
        let (count, takes) = (carried.len() + xs.len() + rest.len(), graph.inputs.len());
        ensure!(count == takes, "{count} operands for a graph that takes {takes}");
        let mut body = self.open(scope, graph);
        let place = body.importer.b.input("place", InputKind::User, TensorType::new(DType::I32, []));
        let mut inputs = graph.inputs.iter();
        for (operand, input) in carried.iter().zip(&mut inputs) {
            body.take(self, input, operand)?;
        }
        let whole = self.values(xs)?;
        for (&v, input) in whole.iter().zip(&mut inputs) {
            body.take_row(input, self.b.ty(v)?, place)?;
        }
        for (operand, input) in rest.iter().zip(inputs) {
            body.take(self, input, operand)?;
        }
        body.run(node)?;
        let operands = [self.values(carried)?, whole, self.values(rest)?].concat();
        Ok(Step { body, place, operands })
    }

    /// Runs `step`, which gives `next` for what it carries and `rows` of `stacks`, for the rows in `range`: the values last
    /// carried and the stacks.
    fn over_rows(
        &self,
        step: Step<'t>,
        range: std::ops::Range<usize>,
        next: Vec<ValueId>,
        rows: &[ValueId],
        stacks: &[ValueId],
    ) -> Result<Vec<ValueId>> {
        let Step { body, place, operands } = step;
        let (b, count, draws) = (&body.importer.b, next.len(), body.draws());
        let mut given = vec![self.b.scalar(Number::Int(range.start as i64), DType::I32)?];
        given.extend(operands);
        let mut outputs = vec![b.add(place, b.scalar(Number::Int(1), DType::I32)?)?];
        outputs.extend(next);
        outputs.extend(body.unchanged(count)?);
        if draws {
            given.push(self.b.random_state());
            outputs.push(b.random_state());
        }
        for (i, (&stack, &row)) in stacks.iter().zip(rows).enumerate() {
            let before = b.input(format!("stack{i}"), InputKind::User, self.b.ty(stack)?);
            outputs.push(loops::put_row(b, before, row, place)?);
            given.push(stack);
        }
        let cond = loops::fewer_than(&self.b, &given, range.end)?;
        let values = self.b.while_loop(&given, cond, body.finish(self, outputs)?)?;
        let first = values.len() - stacks.len();
        if draws {
            self.b.set_random_state(values[first - 1]);
        }
        Ok([&values[1..=count], &values[first..]].concat())
    }
}
