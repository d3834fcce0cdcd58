//! Running the rule of one node and putting its results where the overload wants them.

use super::arguments::{self, Assigned, Owned};
use super::barrier::BARRIER;
use super::control_flow::Control;
use super::draws::Draw;
use super::{Binding, Importer, Scope, Views, python_ops, survey};
use crate::alias::{Layout, TensorId};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::ValueId;
use crate::invalid;
use crate::ops::{Arg, Call, ExpandFn, Outs, Rule, Scalar, Variant, ViewFn};
use crate::symbol::Expr;
use crate::trace::schema::{
    Argument, Node, OptionalTensor, SymBoolArgument, SymFloatArgument, SymIntArgument, TensorName,
};
use crate::types::Shape;
use smallvec::SmallVec;

/// The names of a node's results, lists spelled out; `None` for one that nobody wants.
pub(super) type Results<'t> = SmallVec<[Option<&'t str>; 4]>;

impl<'t> Importer<'t> {
    pub(super) fn node(&self, scope: &mut Scope<'t>, node: &'t Node) -> Result<()> {
        if let Some(inner) = survey::inlined(node) {
            return self.wrapped_graph(scope, node, inner);
        }
        if let Some(control) = Control::of(node) {
            return self.control_flow(scope, node, control);
        }
        if let Some(draw) = Draw::of(node) {
            return self.draw(scope, node, draw);
        }
        if node.target == BARRIER {
            return self.barrier(scope, node);
        }
        if self.all_tabled(scope, node) {
            return Ok(());
        }
        if let Some(op) = python_ops::find(&node.target) {
            return self.arithmetic(scope, node, op);
        }
        let Some(entry) = self.entry(&node.target) else { return Err(no_lowering(node)) };
        let mut assigned = arguments::assign(node, entry);
        if let Some(entry) = assigned.as_ref().ok().and_then(|a| arguments::for_numbers(node, a)) {
            assigned = arguments::assign(node, entry);
        }
        self.call(scope, node, &assigned?)
    }

    /// Takes results that are numbers from the trace's tables, if all are there.
    fn all_tabled(&self, scope: &mut Scope<'t>, node: &'t Node) -> bool {
        let number = |o: &'t Argument| match o {
            Argument::AsSymInt(SymIntArgument::AsName(n))
            | Argument::AsSymFloat(SymFloatArgument::AsName(n))
            | Argument::AsSymBool(SymBoolArgument::AsName(n)) => Some(n.as_str()),
            _ => None,
        };
        let tabled = |o| number(o).and_then(|name| Some((name, self.tabled(scope, name)?)));
        let Some(values) = node.outputs.iter().map(tabled).collect::<Option<Vec<_>>>() else { return false };
        let any = !values.is_empty();
        scope.names.extend(values.into_iter().map(|(name, s)| (name, Binding::Number(s))));
        any
    }

    /// Python arithmetic on numbers.
    fn arithmetic(&self, scope: &mut Scope<'t>, node: &'t Node, op: python_ops::PythonOp) -> Result<()> {
        let numbers = |a: &'t Argument| match a {
            Argument::AsSymInt(a) => Ok(vec![self.sym_int(scope, a)?]),
            Argument::AsSymFloat(a) => Ok(vec![self.sym_float(scope, a)?]),
            Argument::AsSymBool(a) => Ok(vec![self.sym_bool(scope, a)?]),
            Argument::AsSymInts(all) => all.iter().map(|a| self.sym_int(scope, a)).collect(),
            Argument::AsSymFloats(all) => all.iter().map(|a| self.sym_float(scope, a)).collect(),
            other => match super::inputs::literal_binding(other) {
                Some(Binding::Number(s)) => Ok(vec![s]),
                _ => invalid!("{} is no number", other.variant()),
            },
        };
        let expr = |s: Scalar| match s {
            Scalar::Known(n) => Ok(Expr::Number(n)),
            Scalar::Symbolic(s) => Expr::parse(&s.expr),
        };
        let mut operands = vec![];
        for input in &node.inputs {
            for number in numbers(&input.arg)? {
                operands.push(expr(number)?);
            }
        }
        let result = op.apply(operands);
        let sym = self.sym(&result, result.to_string().into())?;
        let value = if sym.free.is_empty() { Scalar::Known(sym.value) } else { Scalar::Symbolic(sym) };
        self.bind_number(scope, node, value)
    }

    fn bind_number(&self, scope: &mut Scope<'t>, node: &'t Node, value: Scalar) -> Result<()> {
        match results(node)?[..] {
            [Some(name)] => {
                scope.names.insert(name, Binding::Number(value));
                Ok(())
            }
            _ => invalid!("the node gives one number, but names {} results", node.outputs.len()),
        }
    }

    fn call(&self, scope: &mut Scope<'t>, node: &'t Node, assigned: &Assigned<'t>) -> Result<()> {
        let mut owned = self.owned(scope, assigned)?;
        match assigned.entry.def.rule {
            Rule::Expand(_) | Rule::Bounded(_) => {
                if let Some(slot) = assigned.entry.slot_typed_by_out() {
                    self.type_by_out(scope, assigned, &mut owned[slot])?;
                }
                let outs = self.expand(scope, node, assigned, &owned)?;
                match assigned.entry.variant {
                    Variant::Functional => self.new_tensors(scope, node, assigned, &owned, outs),
                    Variant::InPlace => {
                        let targets = first_tensors(&owned).chain(written(assigned, &owned));
                        self.write_back(scope, node, &targets.collect::<Vec<_>>(), outs)
                    }
                    Variant::Out => {
                        let targets = self.out_targets(scope, assigned)?;
                        for (place, (&t, result)) in targets.iter().zip(&outs).enumerate() {
                            let want = result.map_or(self.aliases.dtype(t), |v| self.b.dtype(v));
                            assigned.entry.check_out(place, want, self.aliases.dtype(t))?;
                        }
                        let targets = targets.into_iter().map(Some).chain(written(assigned, &owned));
                        self.write_back(scope, node, &targets.collect::<Vec<_>>(), outs)
                    }
                }
            }
            Rule::View(view, copy) => self.view(scope, node, assigned, &owned, view, copy),
            Rule::Number(number) => {
                let operands = self.operands(&owned, None);
                let call = self.prepare(assigned, &owned, &operands);
                let value = number(&call)?;
                self.bind_number(scope, node, value)
            }
        }
    }

    fn prepare<'a>(
        &'a self,
        assigned: &Assigned<'t>,
        owned: &[Owned],
        operands: &'a [arguments::Operand<'a>],
    ) -> Call<'a> {
        let args = arguments::args(owned, operands);
        Call { schema: assigned.entry.schema, args, context: &self.context, recorded: vec![] }
    }

    fn expand(&self, scope: &Scope<'t>, node: &'t Node, assigned: &Assigned<'t>, owned: &[Owned]) -> Result<Outs> {
        let recorded = self.recorded(scope, node)?;
        let run = |cast: Option<DType>| {
            let operands = self.operands(owned, cast);
            let call = Call { recorded: recorded.clone(), ..self.prepare(assigned, owned, &operands) };
            assigned.entry.def.rule.expand(&call, &self.b)
        };
        let plain = run(None);
        if !scope.autocast || assigned.entry.variant != Variant::Functional {
            return plain;
        }
        // The types in an autocast region show its casts, which have no nodes: where the op alone does not give the
        // recorded type, its operands were cast to it.
        let Some(Some(name)) = results(node)?.first().copied() else { return plain };
        let want = self.recorded_dtype(scope, name)?;
        let differs = |v: ValueId| self.b.dtype(v) != want && self.b.dtype(v).is_float();
        let cast = match &plain {
            Ok(outs) => outs.first().copied().flatten().is_some_and(differs),
            Err(_) => true,
        };
        if cast && want.is_float() { run(Some(want)).or(plain) } else { plain }
    }

    /// The extents that the trace records for the results of `node`, as far as they are known before it is imported. Those
    /// of the only result of most ops nobody asks for.
    fn recorded(&self, scope: &Scope<'t>, node: &'t Node) -> Result<Vec<Option<Shape>>> {
        let names = results(node)?;
        if names.len() < 2 {
            return Ok(vec![]);
        }
        let shape = |name: &Option<&str>| self.tensor_meta(scope, (*name)?).ok().map(|(_, layout)| layout.sizes);
        Ok(names.iter().map(shape).collect())
    }

    /// Results in storages of their own, laid out as the trace records.
    fn new_tensors(
        &self,
        scope: &mut Scope<'t>,
        node: &'t Node,
        assigned: &Assigned<'t>,
        owned: &[Owned],
        outs: Outs,
    ) -> Result<()> {
        let names = results(node)?;
        let written: Vec<Option<TensorId>> = written(assigned, owned).collect();
        expect_results(&outs, names.len() + written.len())?;
        let (new, next) = outs.split_at(names.len());
        for (i, (name, out)) in names.iter().zip(new).enumerate() {
            let Some(name) = name else { continue };
            let binding = match out {
                Some(v) if i == 0 && assigned.entry.def.lens.is_some() => {
                    Binding::Tensor(self.seen(scope, name, assigned, owned, *v)?)
                }
                Some(v) if i > 0 => Binding::Tensor(self.auxiliary(scope, name, *v)?),
                Some(v) => Binding::Tensor(self.fresh(scope, name, self.widened(scope, name, *v)?)?),
                None => Binding::None,
            };
            scope.names.insert(name, binding);
        }
        for (target, next) in written.into_iter().zip(next) {
            if let (Some(t), Some(v)) = (target, next) {
                self.aliases.store(&self.b, t, *v)?;
            }
        }
        Ok(())
    }

    /// A tensor for a result that shares the storage of the first argument, but not its elements.
    fn seen(
        &self,
        scope: &Scope<'t>,
        name: &str,
        assigned: &Assigned<'t>,
        owned: &[Owned],
        v: ValueId,
    ) -> Result<TensorId> {
        let (Some(lens), Some(Owned::Tensor(base))) = (assigned.entry.def.lens, owned.first()) else {
            return self.fresh(scope, name, v);
        };
        let operands = self.operands(owned, None);
        let lens = lens(&self.prepare(assigned, owned, &operands))?;
        let ty = self.b.ty(v)?;
        let layout = self.expected(scope, name, ty.dtype, &ty.shape)?;
        self.aliases.seen(&self.b, *base, lens, v, layout)
    }

    /// Truth values as integers where the trace says so: of a power of truth values, which the CPU gives as truth values,
    /// PyTorch's fake kernel says that they are integers, and what follows relies on that.
    fn widened(&self, scope: &Scope<'t>, name: &str, v: ValueId) -> Result<ValueId> {
        let want = self.recorded_dtype(scope, name)?;
        if self.b.dtype(v) == DType::Bool && want.is_int() { self.b.convert(v, want) } else { Ok(v) }
    }

    /// A new tensor for a result behind the first. PyTorch's fake kernels do not always agree with its real ones on the
    /// float type of such, the statistics of a norm for instance; what follows relies on what was recorded.
    fn auxiliary(&self, scope: &Scope<'t>, name: &str, v: ValueId) -> Result<TensorId> {
        self.learn(scope, name, &self.b.shape(v))?;
        let (want, layout) = self.tensor_meta(scope, name)?;
        let v = if want.is_float() && self.b.dtype(v).is_float() { self.b.convert(v, want)? } else { v };
        if self.b.shape(v).contains(&0) != layout.sizes.contains(&0) {
            // The statistics of a batch norm in evaluation: empty on the CPU, not so elsewhere, and nobody's concern.
            return self.aliases.fresh_contiguous(&self.b, v);
        }
        self.fresh(scope, name, v)
    }

    /// A new tensor for the value called `name`, checked against the trace.
    pub(super) fn fresh(&self, scope: &Scope<'t>, name: &str, v: ValueId) -> Result<TensorId> {
        let ty = self.b.ty(v)?;
        let layout = self.expected(scope, name, ty.dtype, &ty.shape)?;
        if scope.shared.contains(name) {
            self.b.stays_rounded(v);
        }
        self.aliases.fresh(&self.b, v, layout)
    }

    /// The layout recorded for `name`.
    fn expected(&self, scope: &Scope<'t>, name: &str, dtype: DType, shape: &[usize]) -> Result<Layout> {
        self.learn(scope, name, shape)?;
        let (want, layout) = self.tensor_meta(scope, name)?;
        if want != dtype || layout.sizes[..] != *shape {
            let sizes = &layout.sizes[..];
            let message = format!("`{name}` comes out as {dtype}{shape:?}, but the trace records {want}{sizes:?}");
            return Err(disagreement(message));
        }
        Ok(layout)
    }

    /// Results of an in-place or `out=` overload.
    fn write_back(
        &self,
        scope: &mut Scope<'t>,
        node: &'t Node,
        targets: &[Option<TensorId>],
        outs: Outs,
    ) -> Result<()> {
        expect_results(&outs, targets.len())?;
        for (&target, out) in targets.iter().zip(outs) {
            if let (Some(t), Some(v)) = (target, out) {
                self.aliases.store(&self.b, t, v)?;
            }
        }
        for (name, &target) in results(node)?.into_iter().zip(targets) {
            if let (Some(name), Some(t)) = (name, target) {
                scope.names.insert(name, Binding::Tensor(t));
            }
        }
        Ok(())
    }

    /// Puts the element type of the first `out` where a `dtype` was left out.
    fn type_by_out(&self, scope: &Scope<'t>, assigned: &Assigned<'t>, dtype: &mut Owned) -> Result<()> {
        if let (Owned::Plain(Arg::None), Some(&out)) = (&*dtype, self.out_targets(scope, assigned)?.first()) {
            *dtype = Owned::Plain(Arg::DType(self.aliases.dtype(out)));
        }
        Ok(())
    }

    fn out_targets(&self, scope: &Scope<'t>, assigned: &Assigned<'t>) -> Result<Vec<TensorId>> {
        let mut names: Vec<&TensorName> = vec![];
        for arg in &assigned.outs {
            match arg {
                Argument::AsTensor(t) => names.push(t),
                Argument::AsTensors(ts) => names.extend(ts),
                other => invalid!("an output tensor is given as {}", other.variant()),
            }
        }
        let tensor = |t: &&TensorName| match self.optional_tensor(scope, &t.name)? {
            Some(id) => Ok(id),
            None => invalid!("`{}` is written, but is no tensor", t.name),
        };
        names.iter().map(tensor).collect()
    }

    fn view(
        &self,
        scope: &mut Scope<'t>,
        node: &'t Node,
        assigned: &Assigned<'t>,
        owned: &[Owned],
        view: ViewFn,
        copy: Option<ExpandFn>,
    ) -> Result<()> {
        let Some(Owned::Tensor(base)) = owned.first() else { invalid!("the first argument must be a tensor") };
        let operands = self.operands(owned, None);
        let names = results(node)?;
        let recorded = self.of_a_copy(scope, owned, &names)?;
        let call = Call { recorded, ..self.prepare(assigned, owned, &operands) };
        let Some(layouts) = view(&call, &self.aliases.layout(*base))? else {
            let outs = match copy {
                Some(copy) => copy(&call, &self.b)?,
                None => self.reshaped(scope, *base, &names)?,
            };
            return self.new_tensors(scope, node, assigned, owned, outs);
        };
        if layouts.len() != names.len() {
            return Err(disagreement(format!("gives {} views, the trace names {}", layouts.len(), names.len())));
        }
        for (name, layout) in names.iter().zip(layouts) {
            let Some(name) = name else { continue };
            self.expected(scope, name, self.aliases.dtype(*base), &layout.sizes)?;
            let id = self.aliases.view(*base, layout)?;
            scope.names.insert(name, Binding::Tensor(id));
        }
        if assigned.entry.variant == Variant::InPlace {
            rebind(scope, assigned, &names);
        }
        Ok(())
    }

    /// The extents of a view with symbolic numbers, if it may as well be a copy. The program depends on them, and so perhaps not on
    /// where the view begins.
    fn of_a_copy(&self, scope: &Scope<'t>, owned: &[Owned], names: &Results<'t>) -> Result<Vec<Option<Shape>>> {
        let is_symbolic = |owned: &Owned| matches!(owned, Owned::Plain(Arg::Scalar(Scalar::Symbolic(_))));
        let (Views::Of(views), &[Some(name)]) = (&scope.views, &names[..]) else { return Ok(vec![]) };
        let Some(meta) = scope.graph.tensor_values.get(name) else { return Ok(vec![]) };
        if views.contains(name) || !owned.iter().any(is_symbolic) {
            return Ok(vec![]);
        }
        self.depend_on(meta)?;
        Ok(vec![Some(self.tensor_meta(scope, name)?.1.sizes)])
    }

    /// What PyTorch sees as a view of its layout may be none of ours: then the same elements in a new storage.
    fn reshaped(&self, scope: &Scope<'t>, base: TensorId, names: &Results<'t>) -> Result<Outs> {
        let [Some(name)] = names[..] else {
            return Err(Error::internal("a view with several results has no layout"));
        };
        let (_, layout) = self.tensor_meta(scope, name)?;
        let value = self.aliases.read(&self.b, base)?;
        Ok(vec![Some(self.b.reshape(value, &layout.sizes)?)])
    }
}

/// An in-place view changes what the name of its argument stands for.
fn rebind<'t>(scope: &mut Scope<'t>, assigned: &Assigned<'t>, names: &Results<'t>) {
    if let (Some(Some(Argument::AsTensor(old))), [Some(new)]) = (assigned.slots.first(), &names[..])
        && let Some(binding) = scope.names.get(new).cloned()
    {
        scope.names.insert(&old.name, binding);
    }
}

/// What an in-place overload writes.
fn first_tensors(owned: &[Owned]) -> impl Iterator<Item = Option<TensorId>> {
    owned.first().map(tensors_of).unwrap_or_default().into_iter().filter(Option::is_some)
}

/// What an op writes besides its results, one for each next value that it gives.
fn written(assigned: &Assigned<'_>, owned: &[Owned]) -> impl Iterator<Item = Option<TensorId>> {
    assigned.entry.schema.args.iter().zip(owned).filter(|(p, _)| p.written).flat_map(|(_, o)| tensors_of(o))
}

fn expect_results(outs: &Outs, wanted: usize) -> Result<()> {
    match outs.len() == wanted {
        true => Ok(()),
        false => Err(disagreement(format!("the op table gives {} results, the trace has {wanted}", outs.len()))),
    }
}

/// Of what the trace records and what the op table gives, one is wrong.
fn disagreement(message: String) -> Error {
    Error::internal(message)
        .with_help("if the trace was changed after PyTorch wrote it, trace the program again; if not,")
}

/// The names of a node's results.
pub(super) fn results(node: &Node) -> Result<Results<'_>> {
    let mut names = Results::new();
    for output in &node.outputs {
        match output {
            Argument::AsTensor(t) => names.push(Some(&t.name)),
            Argument::AsTensors(ts) => names.extend(ts.iter().map(|t| Some(t.name.as_str()))),
            Argument::AsOptionalTensors(ts) => names.extend(ts.iter().map(|t| match t {
                OptionalTensor::AsTensor(t) => Some(t.name.as_str()),
                OptionalTensor::AsNone(_) => None,
            })),
            Argument::AsSymInt(SymIntArgument::AsName(n))
            | Argument::AsSymFloat(SymFloatArgument::AsName(n))
            | Argument::AsSymBool(SymBoolArgument::AsName(n)) => names.push(Some(n)),
            // Undefined tensors, and numbers that are known.
            Argument::AsNone(_) | Argument::AsOptionalTensor(OptionalTensor::AsNone(_)) => names.push(None),
            Argument::AsInt(_) | Argument::AsFloat(_) | Argument::AsBool(_) => names.push(None),
            Argument::AsOptionalTensor(OptionalTensor::AsTensor(t)) => names.push(Some(&t.name)),
            other => invalid!("a result is given as {}", other.variant()),
        }
    }
    Ok(names)
}

/// The error for a node without an entry in the table.
fn no_lowering(node: &Node) -> Error {
    match survey::qualified(&node.target) {
        Some(name) => {
            Error::unsupported(format!("no lowering for {}", name.trim_end_matches(".default"))).with_help(format!(
                "`tputc ops` lists what is lowered; {}under torch.compile such an op can run on the host",
                survey::simpler_ops(&name)
            ))
        }
        None => {
            let error = Error::unsupported(format!("`{}` is no op of PyTorch's", node.target));
            // `torch.vmap` leaves calls of its own in exported programs, and so do scans of any function.
            match node.target.starts_with("torch._functorch.") {
                true => error.with_help("an exported program is rid of it after `.run_decompositions()`"),
                false => error,
            }
        }
    }
}

fn tensors_of(arg: &Owned) -> Vec<Option<TensorId>> {
    match arg {
        Owned::Tensor(t) => vec![Some(*t)],
        Owned::Tensors(ts) => ts.clone(),
        Owned::Plain(Arg::Scalars(_)) => vec![], // an empty list
        Owned::Plain(_) => vec![None],
    }
}
