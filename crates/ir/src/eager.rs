//! One call of an op on strided tensors: what an eager device runs at a time.
//!
//! It is to a single call what [`import`](crate::import) is to a trace, on the same op table and the same alias model. The
//! storages that the call's tensors lie in are [cells](CellType) with a value in some logical shape; tensors are views of
//! them. The graph takes the cells' values, and gives the results and the next values of the cells that were written.
//!
//! Numbers that are lifted into symbols become hidden inputs unless the op's rule asks for their value; those it asked for
//! are [`EagerGraph::consulted`], and the graph holds for these values only.

use crate::alias::{Aliases, Layout, Lens, TensorId};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::ensure;
use crate::error::{Error, Result};
use crate::graph::{Graph, InputKind, OutputKind, ValueId};
use crate::literal::Number;
use crate::loc::Loc;
use crate::ops::support::torch_name;
use crate::ops::{Arg, Bounded, Call, Condition, Context, Cut, Entry, Outs, Rule, Scalar, TensorArg, Variant};
use crate::symbol::Sym;
use crate::types::{Dims, TensorType};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A storage: the element type of its value and where that lies in it, dense from its start.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CellType {
    /// Element type.
    pub dtype: DType,
    /// Logical shape and steps.
    pub layout: Layout,
}

impl CellType {
    /// Whether it is of one dimension, as [`flatten`] leaves it.
    pub fn is_flat(&self) -> bool {
        self.layout.sizes.len() == 1
    }
}

/// A tensor argument.
#[derive(Clone, Debug)]
pub enum Tensor {
    /// A view of the cell at this position, inside its layout and of its element type.
    View(usize, Layout),
    /// A 0-d tensor in host memory, whose value comes as a number.
    Host(DType, Sym),
}

/// An argument of the call.
pub enum Given {
    /// A tensor.
    Tensor(Tensor),
    /// A list of tensors.
    Tensors(Vec<Option<Tensor>>),
    /// Anything else.
    Plain(Arg<'static>),
}

/// A call on cells.
pub struct EagerCall<'a> {
    /// The overload.
    pub entry: Entry,
    /// The storages of all tensor arguments, each once.
    pub cells: &'a [CellType],
    /// One per argument of the functional schema.
    pub args: Vec<Given>,
    /// The tensors that an `out=` overload writes.
    pub outs: Vec<Tensor>,
    /// Element type and layout of each new tensor, where PyTorch has said them; `None` for an undefined one.
    pub results: Option<&'a [Option<CellType>]>,
    /// The user's line.
    pub loc: Loc,
}

/// The program of a call.
#[derive(Debug)]
pub struct EagerGraph {
    /// Its outputs are the results, then the written cells, then what [`EagerGraph::extents`] says.
    pub graph: Graph,
    /// What feeds each of its inputs.
    pub inputs: Vec<EagerInput>,
    /// Each new tensor, in a storage of its own; `None` for an undefined one. The value at the same position among the
    /// defined ones is in the logical shape.
    pub results: Vec<Option<CellType>>,
    /// The cells that are written and their new layouts, in the order of the outputs behind the results.
    pub written: Vec<(usize, CellType)>,
    /// Symbols that the rule asked for.
    pub consulted: BTreeSet<Arc<str>>,
    /// What must hold of those it did not ask for.
    pub conditions: Vec<Condition>,
    /// Which extents are data.
    pub extents: Extents,
}

/// Which extents of a call's results are data. See [`Bounded`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extents {
    /// None.
    Fixed,
    /// The results are padded: of each `(result, dimension)` so many elements are real as the vector says that is the last
    /// output, an `i64` each.
    Cut(Vec<(usize, usize)>),
    /// The only output is a bound of the extents, `i64[]`: the call is to be traced again with it.
    Bound,
}

/// What feeds an input of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EagerInput {
    /// The value of a cell.
    Cell(usize),
    /// A lifted number, by its symbol.
    Symbol(Arc<str>),
    /// Where a slice begins in this call.
    Position(usize),
    /// Key and counter of the random generator.
    Rng,
}

impl EagerCall<'_> {
    /// The graph of the call.
    ///
    /// # Errors
    /// `Invalid`, in PyTorch's words, for a call that PyTorch refuses; `Unsupported` for what has no lowering.
    pub fn trace(&self, context: Context) -> Result<EagerGraph> {
        let tracing = Tracing::new(self, context)?;
        tracing.run().map_err(|e| e.at(&self.entry.schema.name, &self.loc))
    }
}

struct Tracing<'a> {
    call: &'a EagerCall<'a>,
    b: Builder,
    aliases: Aliases,
    context: Context,
    cells: Vec<TensorId>,
}

/// A given argument whose tensors are in the alias model.
enum Placed {
    Tensor(TensorId),
    Tensors(Vec<Option<TensorId>>),
    Plain(Arg<'static>),
}

impl<'a> Tracing<'a> {
    fn new(call: &'a EagerCall<'a>, context: Context) -> Result<Tracing<'a>> {
        let b = Builder::new(call.entry.schema.name.replace("::", ".").replace('.', "_"));
        b.set_loc(&call.loc);
        let aliases = Aliases::relaying();
        let mut cells = vec![];
        for (i, cell) in call.cells.iter().enumerate() {
            let ty = TensorType { dtype: cell.dtype, shape: cell.layout.sizes.clone() };
            let value = b.input(format!("cell{i}"), InputKind::User, ty);
            cells.push(aliases.fresh(&b, value, cell.layout.clone())?);
        }
        Ok(Tracing { call, b, aliases, context, cells })
    }

    fn run(self) -> Result<EagerGraph> {
        let mut placed = self.call.args.iter().map(|a| self.place(a)).collect::<Result<Vec<_>>>()?;
        if let (Some(slot), Some(out)) = (self.call.entry.slot_typed_by_out(), self.call.outs.first()) {
            let dtype = self.aliases.dtype(self.tensor(out)?);
            if let Some(left_out @ Placed::Plain(Arg::None)) = placed.get_mut(slot) {
                *left_out = Placed::Plain(Arg::DType(dtype));
            }
        }
        let operands: Vec<_> = placed.iter().flat_map(tensors).map(|t| self.aliases.arg(t)).collect();
        let mut next = operands.iter().map(|o| o as &dyn TensorArg);
        let args = placed.iter().map(|p| match p {
            Placed::Tensor(_) => next.next().map_or(Arg::None, Arg::Tensor),
            Placed::Tensors(ts) => Arg::Tensors(ts.iter().map(|t| t.and_then(|_| next.next())).collect()),
            Placed::Plain(arg) => arg.clone(),
        });
        let call =
            Call { schema: self.call.entry.schema, args: args.collect(), context: &self.context, recorded: vec![] };
        let outs = match self.call.entry.def.rule {
            Rule::Bounded(expand) => match expand(&call, &self.b)? {
                Bounded::Bound(bound) => return self.bound(bound),
                Bounded::Results { padded, cuts, order } if !cuts.is_empty() => {
                    return self.padded(padded, &cuts, order);
                }
                Bounded::Results { padded, .. } => padded,
            },
            rule => rule.expand(&call, &self.b)?,
        };
        let new = match self.call.entry.variant {
            Variant::Functional => self.functional(&placed, outs)?,
            Variant::InPlace => {
                let first = first_tensors(&placed).into_iter().map(Some);
                let targets: Vec<_> = first.chain(self.written(&placed)).collect();
                self.write_all(&targets, outs)?
            }
            Variant::Out => {
                let targets = self.call.outs.iter().map(|t| self.tensor(t).map(Some));
                let mut targets = targets.collect::<Result<Vec<_>>>()?;
                self.check_outs(&targets, &outs)?;
                targets.extend(self.written(&placed));
                self.write_all(&targets, outs)?
            }
        };
        self.finish(new, Extents::Fixed)
    }

    fn check_outs(&self, targets: &[Option<TensorId>], results: &[Option<ValueId>]) -> Result<()> {
        for (place, (target, result)) in targets.iter().zip(results).enumerate() {
            if let (Some(t), Some(v)) = (target, result) {
                self.call.entry.check_out(place, self.b.dtype(*v), self.aliases.dtype(*t))?;
            }
        }
        Ok(())
    }

    /// The program that computes a bound of the results' extents.
    fn bound(self, bound: ValueId) -> Result<EagerGraph> {
        self.b.output("bound", OutputKind::User, bound);
        self.finish(vec![], Extents::Bound)
    }

    /// Padded results are new tensors for every overload: what an `out=` overload is given has no size yet.
    fn padded(self, results: Outs, cuts: &[Cut], order: Option<Dims>) -> Result<EagerGraph> {
        if self.call.entry.variant == Variant::Out {
            for (result, out) in results.iter().zip(&self.call.outs) {
                let (have, want) = (self.aliases.dtype(self.tensor(out)?), result.map(|v| self.b.dtype(v)));
                ensure!(
                    want.is_none_or(|want| want == have),
                    "Expected object of scalar type {} as out, but got {}",
                    want.map_or("", torch_name),
                    torch_name(have)
                );
            }
        }
        let counts = cuts.iter().map(|cut| self.b.reshape(cut.count, &[1])).collect::<Result<Vec<_>>>()?;
        let counts = self.b.concatenate(&counts, 0)?;
        let extents = Extents::Cut(cuts.iter().map(|cut| (cut.result, cut.dim)).collect());
        let mut results = self.results(&results)?;
        if let (Some(Some(first)), Some(order)) = (results.first_mut(), order) {
            first.layout = Layout::dense(&first.layout.sizes, &order);
        }
        self.b.output("counts", OutputKind::User, counts);
        self.finished(results, vec![], extents)
    }

    fn place(&self, given: &Given) -> Result<Placed> {
        Ok(match given {
            Given::Tensor(t) => Placed::Tensor(self.tensor(t)?),
            Given::Tensors(ts) => Placed::Tensors(
                ts.iter().map(|t| t.as_ref().map(|t| self.tensor(t)).transpose()).collect::<Result<_>>()?,
            ),
            Given::Plain(arg) => Placed::Plain(arg.clone()),
        })
    }

    fn tensor(&self, t: &Tensor) -> Result<TensorId> {
        match t {
            Tensor::View(cell, layout) => match self.cells.get(*cell) {
                Some(&base) => self.aliases.view(base, layout.clone()),
                None => Err(Error::internal(format!("there is no cell {cell}"))),
            },
            Tensor::Host(dtype, sym) => {
                let value = Scalar::Symbolic(sym.clone());
                let call =
                    Call { schema: self.call.entry.schema, args: vec![], context: &self.context, recorded: vec![] };
                self.aliases.fresh_contiguous(&self.b, call.scalar_value(&self.b, &value, *dtype)?)
            }
        }
    }

    /// New tensors first, then the next values of written arguments.
    fn functional(&self, placed: &[Placed], outs: Outs) -> Result<Outs> {
        let written = self.written(placed);
        let Some(count) = outs.len().checked_sub(written.len()) else {
            return Err(Error::internal("the op table gives too few results"));
        };
        let (new, next) = outs.split_at(count);
        for (target, next) in written.into_iter().zip(next) {
            if let (Some(t), Some(v)) = (target, next) {
                self.aliases.store(&self.b, t, *v)?;
            }
        }
        Ok(new.to_vec())
    }

    /// The arguments that the op writes besides its results.
    fn written(&self, placed: &[Placed]) -> Vec<Option<TensorId>> {
        let params = self.call.entry.schema.args.iter().zip(placed).filter(|(p, _)| p.written);
        params.flat_map(|(_, p)| optional_tensors(p)).collect()
    }

    fn write_all(&self, targets: &[Option<TensorId>], outs: Outs) -> Result<Outs> {
        if targets.len() != outs.len() {
            return Err(Error::internal(format!("{} results for {} written tensors", outs.len(), targets.len())));
        }
        for (&target, out) in targets.iter().zip(outs) {
            if let (Some(t), Some(v)) = (target, out) {
                self.aliases.store(&self.b, t, v)?;
            }
        }
        Ok(vec![])
    }

    fn finish(self, new: Outs, extents: Extents) -> Result<EagerGraph> {
        let results = self.results(&new)?;
        let written = self.written_cells()?;
        self.finished(results, written, extents)
    }

    /// Puts new tensors out.
    fn results(&self, new: &[Option<ValueId>]) -> Result<Vec<Option<CellType>>> {
        let expected = self.call.results;
        if expected.is_some_and(|e| e.len() != new.len() && !new.is_empty()) {
            return Err(Error::internal(format!(
                "gives {} results, PyTorch {}",
                new.len(),
                expected.map_or(0, <[_]>::len)
            )));
        }
        let mut results = vec![];
        for (i, value) in new.iter().enumerate() {
            let want = expected.and_then(|e| e.get(i)).and_then(Option::as_ref);
            // Statistics behind the first result: PyTorch's kernels choose even their size by device.
            let agrees = |w: &&CellType| i == 0 || value.is_none_or(|v| self.b.shape(v) == w.layout.sizes);
            let want = want.filter(agrees);
            results.push(value.map(|v| self.result(v, want)).transpose()?);
        }
        Ok(results)
    }

    /// Puts the next values of written cells out.
    fn written_cells(&self) -> Result<Vec<(usize, CellType)>> {
        let mut written = vec![];
        for (slot, &t) in self.cells.iter().enumerate().filter(|(_, t)| self.aliases.writes(**t) > 0) {
            let (value, layout) = self.aliases.whole(t);
            let (was, next) = (&self.call.cells[slot], self.b.ty(value)?);
            let same = was.dtype == next.dtype && was.layout.sizes == next.shape;
            let kind = if same { OutputKind::Mutation(slot) } else { OutputKind::User };
            self.b.output(format!("cell{slot}"), kind, value);
            written.push((slot, CellType { dtype: self.b.dtype(value), layout }));
        }
        Ok(written)
    }

    fn finished(
        self,
        results: Vec<Option<CellType>>,
        written: Vec<(usize, CellType)>,
        extents: Extents,
    ) -> Result<EagerGraph> {
        let consulted = self.context.symbols.consulted_names();
        let conditions = self.context.conditions.take();
        let graph = crate::fold::fold(&self.b.finish(), crate::fold::DEFAULT_LIMIT)?;
        let (graph, kept) = graph.without_unused_inputs();
        let inputs = graph.inputs.iter().zip(kept).map(|(input, was)| match &input.kind {
            InputKind::Symbol(name) => EagerInput::Symbol(name.as_str().into()),
            InputKind::RngState => EagerInput::Rng,
            InputKind::Position(position) => EagerInput::Position(*position),
            _ => EagerInput::Cell(was),
        });
        Ok(EagerGraph { inputs: inputs.collect(), graph, results, written, consulted, conditions, extents })
    }

    /// Puts a new tensor out, as PyTorch would lay it out.
    fn result(&self, value: ValueId, want: Option<&CellType>) -> Result<CellType> {
        let ty = self.b.ty(value)?;
        // What a kernel leaves out as the CPU's does, statistics that nobody needs, some meta kernels still describe.
        let Some(want) = want.filter(|_| ty.shape[..] != [0]) else {
            self.b.output("result", OutputKind::User, value);
            return Ok(CellType { dtype: ty.dtype, layout: Layout::contiguous(ty.shape) });
        };
        // Statistics that nobody asked for: the CPU's kernels leave them empty, the meta kernels do not.
        let left_empty = ty.numel() == 0;
        if want.layout.sizes != ty.shape && !left_empty {
            let sizes = &want.layout.sizes[..];
            return Err(Error::unsupported(format!(
                "a result of type {ty} where PyTorch says {}{sizes:?}",
                want.dtype
            )));
        }
        // Statistics of norms: PyTorch's kernels choose their float type by device. Of a power of truth values, the meta
        // kernel alone says that it is integers.
        let dtype = if ty.dtype == DType::Bool { ty.dtype } else { want.dtype };
        let value = if ty.dtype == dtype { value } else { self.b.convert(value, dtype)? };
        self.b.output("result", OutputKind::User, value);
        let dense = want.layout.sizes == ty.shape && want.layout.dense_order().is_some();
        let layout = if dense { Layout { offset: 0, ..want.layout.clone() } } else { Layout::contiguous(ty.shape) };
        Ok(CellType { dtype, layout })
    }
}

fn tensors(p: &Placed) -> Vec<TensorId> {
    optional_tensors(p).into_iter().flatten().collect()
}

fn optional_tensors(p: &Placed) -> Vec<Option<TensorId>> {
    match p {
        Placed::Tensor(t) => vec![Some(*t)],
        Placed::Tensors(ts) => ts.clone(),
        Placed::Plain(Arg::Scalars(_)) => vec![], // an empty list
        Placed::Plain(_) => vec![None],
    }
}

fn first_tensors(placed: &[Placed]) -> Vec<TensorId> {
    placed.first().map(tensors).unwrap_or_default()
}

/// The program that keeps the first `sizes` elements of a cell's value, which is in the logical shape.
///
/// # Errors
/// `Invalid`, if there are fewer.
pub fn cut(cell: &CellType, sizes: &[usize]) -> Result<Graph> {
    let b = Builder::new("cut");
    let v = b.input("cell", InputKind::User, TensorType { dtype: cell.dtype, shape: cell.layout.sizes.clone() });
    let (zeros, ones) = (vec![0; sizes.len()], vec![1; sizes.len()]);
    b.output("cell", OutputKind::User, b.slice(v, &zeros, sizes, &ones)?);
    Ok(b.finish())
}

/// The program that gives each of some cells another element type and at least so many elements: its bytes in the order of the
/// storage, as a flat tensor; behind the cell's own bytes come zeros.
///
/// # Errors
/// `Invalid`, if a cell's bytes are no whole number of elements, or have no meaning in the other type.
pub fn flatten(cells: &[(&CellType, DType, usize)]) -> Result<(Graph, Vec<CellType>)> {
    let b = Builder::new("flatten");
    let input = |&(cell, ..): &(&CellType, DType, usize)| {
        b.input("cell", InputKind::User, TensorType { dtype: cell.dtype, shape: cell.layout.sizes.clone() })
    };
    let inputs: Vec<ValueId> = cells.iter().map(input).collect();
    let mut next = vec![];
    for (input, &(cell, dtype, places)) in inputs.into_iter().zip(cells) {
        let value = flattened(&b, input, cell, dtype, places)?;
        b.output("cell", OutputKind::User, value);
        next.push(CellType { dtype, layout: Layout::contiguous(b.shape(value)) });
    }
    Ok((b.finish(), next))
}

/// As [`flatten`], for one cell.
fn flattened(b: &Builder, input: ValueId, cell: &CellType, dtype: DType, places: usize) -> Result<ValueId> {
    let bytes = b.ty(input)?.size_in_bytes();
    let Some(order) = cell.layout.dense_order() else {
        return Err(Error::internal("a cell's layout is not dense"));
    };
    let flat = parts(b, b.reshape(b.transpose(input, &order)?, &[bytes / cell.dtype.size().max(1)])?)?;
    let is_alike = dtype.real() == cell.dtype.real();
    let raw = if is_alike { flat } else { as_bytes(b, flat)? };
    let wanted = places.saturating_mul(dtype.size()).max(bytes.next_multiple_of(dtype.size()));
    let missing = (wanted.saturating_sub(bytes) / b.dtype(raw).size()) as i64;
    let raw = b.pad(raw, b.scalar(Number::Int(0), b.dtype(raw))?, &[0], &[missing], &[0])?;
    let (part, count) = (dtype.real(), wanted / dtype.real().size());
    let flat = if is_alike { raw } else { from_bytes(b, raw, part, count)? };
    if dtype == part { Ok(flat) } else { paired(b, flat) }
}

/// A flat tensor's numbers, if they are complex in pairs.
fn parts(b: &Builder, flat: ValueId) -> Result<ValueId> {
    if !b.dtype(flat).is_complex() {
        return Ok(flat);
    }
    b.reshape(Lens::Parts.see(b, flat)?, &[b.shape(flat)[0] * 2])
}

/// The complex numbers that those of a flat tensor are in pairs.
fn paired(b: &Builder, flat: ValueId) -> Result<ValueId> {
    Lens::Pairs.see(b, b.reshape(flat, &[b.shape(flat)[0] / 2, 2])?)
}

/// A flat tensor of real numbers as its bytes.
fn as_bytes(b: &Builder, flat: ValueId) -> Result<ValueId> {
    let bytes = match b.dtype(flat) {
        DType::U8 => return Ok(flat),
        DType::Bool => return b.convert(flat, DType::U8),
        _ => b.bitcast_convert(flat, DType::U8)?,
    };
    let total: usize = b.shape(bytes).iter().product();
    b.reshape(bytes, &[total])
}

/// The bytes as a flat tensor of `count` real numbers.
fn from_bytes(b: &Builder, bytes: ValueId, dtype: DType, count: usize) -> Result<ValueId> {
    match dtype {
        DType::U8 => Ok(bytes),
        DType::Bool => b.compare(crate::Comparison::Ne, bytes, b.full_like(bytes, Number::Int(0))?),
        _ if dtype.size() == 1 => b.bitcast_convert(bytes, dtype),
        _ => b.bitcast_convert(b.reshape(bytes, &[count, dtype.size()])?, dtype),
    }
}
