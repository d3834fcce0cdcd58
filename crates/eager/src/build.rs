//! From a call that was not seen before to its plan.

use crate::cells::TypeId;
use crate::core::{Core, Request};
use crate::error::{Error, Result};
use crate::plan::{Extents, New, Output, Plan, Requirement, Source, Value};
use crate::registry::Op;
use crate::words::{Header, Reader, Word, scalar_of};
use ir::alias::Layout;
use ir::eager::{CellType, EagerCall, EagerGraph, EagerInput, Given};
use ir::ops::{Arg, Condition, Context, Entry, MemoryFormat, Scalar, Variant, parse_default};
use ir::symbol::Symbols;
use ir::{DType, Graph, Op as CoreOp, OutputKind};
use smallvec::SmallVec;
use std::sync::Arc;

/// The form that the cell in a slot has to take before there can be a plan: this element type, at least so many elements.
pub(crate) struct Reform {
    pub(crate) slot: usize,
    pub(crate) dtype: DType,
    pub(crate) places: usize,
}

/// A call's cells as they are seen while it is built.
pub(crate) struct Seen {
    /// The types of the slots' values; `None` for one that was never written.
    pub(crate) types: Vec<Option<Arc<CellType>>>,
    pub(crate) nbytes: Vec<u64>,
}

/// The arguments of a call, apart.
pub(crate) struct Parsed {
    header: Header,
    words: Vec<Word>,
    /// The bound of the results' extents, once it is known.
    bound: Option<i64>,
}

impl Parsed {
    pub(crate) fn read(request: &Request<'_>, count: usize, bound: Option<i64>) -> Result<Parsed> {
        let mut reader = Reader::new(request.words, request.scalars);
        let words = (0..count).map(|_| reader.argument()).collect::<Result<Vec<_>>>()?;
        Ok(Parsed { header: Header::of(request.words)?, words, bound })
    }

    /// Whether all its tensors do, and it does not ask for results that lie otherwise.
    pub(crate) fn lies_in_rows(&self) -> bool {
        let keeps = |format| matches!(format, MemoryFormat::Contiguous | MemoryFormat::Preserve);
        let asks = |word: &Word| matches!(word, Word::Plain(Arg::MemoryFormat(format)) if !keeps(*format));
        let mut all = !self.words.iter().any(asks);
        let mut see = |_, _, layout: &Layout| all &= layout.strides == Layout::contiguous(layout.sizes.clone()).strides;
        self.words.iter().for_each(|word| collect(word, &mut see));
        all
    }

    /// The types of all cells, those never written included, or which do not fit the views of them.
    pub(crate) fn cells(&self, seen: &Seen) -> Result<std::result::Result<Vec<CellType>, Vec<Reform>>> {
        let mut views: Vec<Vec<(DType, &Layout)>> = seen.types.iter().map(|_| vec![]).collect();
        let mut see = |slot: usize, dtype, layout| {
            if let Some(views) = views.get_mut(slot) {
                views.push((dtype, layout));
            }
        };
        for word in &self.words {
            collect(word, &mut see);
        }
        let (mut cells, mut reforms) = (vec![], vec![]);
        for (slot, views) in views.iter().enumerate() {
            let Some(&(dtype, first)) = views.first() else {
                return Err(Error::internal("a cell that no tensor views"));
            };
            if views.iter().any(|(d, _)| *d != dtype) {
                return Err(Error::not_implemented("one storage is seen as two element types in the same call"));
            }
            let places = (seen.nbytes[slot] as usize) / dtype.size().max(1);
            let ends = views.iter().map(|(_, l)| l.end()).collect::<Option<Vec<_>>>();
            let end = ends.and_then(|e| e.into_iter().max()).unwrap_or(usize::MAX);
            match &seen.types[slot] {
                Some(ty) if ty.dtype == dtype && ty.layout.numel() >= Some(end) => cells.push(CellType::clone(ty)),
                Some(_) => reforms.push(Reform { slot, dtype, places: places.max(end) }),
                None => cells.push(unwritten(dtype, first, places.max(end))),
            }
        }
        Ok(if reforms.is_empty() { Ok(cells) } else { Err(reforms) })
    }
}

fn collect<'w>(word: &'w Word, see: &mut impl FnMut(usize, DType, &'w Layout)) {
    match word {
        Word::Tensor { slot, dtype, layout } => see(*slot, *dtype, layout),
        Word::List(words) => words.iter().for_each(|w| collect(w, see)),
        Word::Host { .. } | Word::Plain(_) => {}
    }
}

/// The type of a storage without a value: as its first tensor sees it, if that sees all of it.
fn unwritten(dtype: DType, view: &Layout, places: usize) -> CellType {
    let whole = view.offset == 0 && view.numel() == Some(places) && view.dense_order().is_some();
    let layout = if whole { view.clone() } else { Layout::contiguous([places].into_iter().collect::<ir::Shape>()) };
    CellType { dtype, layout }
}

/// Traces the call, as if its results went where `variant` says.
pub(crate) fn trace(
    op: &Op,
    variant: Variant,
    parsed: Parsed,
    cells: &[CellType],
    expected: Option<&[Option<CellType>]>,
    loc: ir::Loc,
) -> Result<EagerGraph> {
    let Parsed { header, words, bound } = parsed;
    let schema = op.entry.schema;
    let mut slots: Vec<Option<Word>> = schema.args.iter().map(|_| None).collect();
    let mut outs = vec![];
    for (word, place) in words.into_iter().zip(op.places()?) {
        match place {
            Some(i) => slots[*i] = Some(word),
            None => out_tensors(word, &mut outs)?,
        }
    }
    let mut args = vec![];
    for (param, slot) in schema.args.iter().zip(slots) {
        args.push(match slot {
            Some(word) => word.given(param.parts().base == "Tensor")?,
            None => Given::Plain(match outs.first() {
                // What is made into a given tensor is made in its element type.
                Some(out) if param.name == "dtype" => Arg::DType(out_dtype(out, cells)?),
                _ => parse_default(param)?,
            }),
        });
    }
    let context = Context {
        symbols: Symbols::new(Default::default()),
        precision: header.precision,
        default_dtype: Some(header.default_dtype),
        bound,
        relaying: true,
        ..Context::default()
    };
    let call = EagerCall { entry: Entry { variant, ..op.entry }, cells, args, outs, results: expected, loc };
    Ok(call.trace(context)?)
}

fn out_dtype(out: &ir::eager::Tensor, cells: &[CellType]) -> Result<DType> {
    match out {
        ir::eager::Tensor::View(slot, _) => match cells.get(*slot) {
            Some(cell) => Ok(cell.dtype),
            None => Err(Error::internal(format!("there is no cell {slot}"))),
        },
        ir::eager::Tensor::Host(dtype, _) => Ok(*dtype),
    }
}

fn out_tensors(word: Word, outs: &mut Vec<ir::eager::Tensor>) -> Result<()> {
    match word {
        Word::List(words) => words.into_iter().try_for_each(|w| out_tensors(w, outs)),
        Word::Plain(Arg::None) => Ok(()),
        word => {
            outs.extend(word.tensor()?);
            Ok(())
        }
    }
}

fn requirement(condition: Condition) -> Result<Requirement> {
    let scalar = |s: &Scalar| match s {
        Scalar::Known(_) => Ok(usize::MAX), // nobody asks for it
        Scalar::Symbolic(sym) => scalar_of(&sym.expr),
    };
    let scalars = condition.of.iter().map(scalar).collect::<Result<_>>()?;
    Ok(Requirement { condition, scalars })
}

/// A plan without its types interned.
pub(crate) struct Draft {
    graph: Graph,
    traced: EagerGraph,
    sources: Vec<Value>,
}

impl Draft {
    /// Takes apart which outputs are computed and which are inputs as they stand.
    pub(crate) fn new(traced: EagerGraph) -> Draft {
        let graph = &traced.graph;
        let mut kept = vec![];
        let mut sources = vec![];
        for output in &graph.outputs {
            sources.push(match graph.node(output.value).op {
                CoreOp::Input { index } if matches!(traced.inputs[index], EagerInput::Cell(_)) => Value::Input(index),
                _ => {
                    kept.push(output.clone());
                    Value::Output(kept.len() - 1)
                }
            });
        }
        // An input that goes on living in another cell cannot be taken over.
        let shared = |i: usize| sources.iter().any(|s| matches!(s, Value::Input(n) if *n == i));
        for output in &mut kept {
            if matches!(output.kind, OutputKind::Mutation(i) if shared(i)) {
                output.kind = OutputKind::User;
            }
        }
        let mut graph = graph.clone();
        graph.outputs = kept;
        Draft { graph, traced, sources }
    }

    /// Compiles it.
    pub(crate) fn finish(
        self,
        core: &Core,
        request: &Request<'_>,
        types: SmallVec<[TypeId; 8]>,
        bound: Option<i64>,
        cells: &[CellType],
    ) -> Result<Plan> {
        let Draft { graph, traced, sources } = self;
        let bytes = |o: &ir::Output| graph.tensor_type(o.value).map_or(0, |t| t.size_in_bytes() as u64);
        let mut outputs: Vec<_> = graph.outputs.iter().map(|o| Output { bytes: bytes(o), replaces: None }).collect();
        let mut inputs = vec![];
        for (input, node) in traced.inputs.iter().zip(&graph.inputs) {
            inputs.push(match input {
                EagerInput::Cell(slot) => Source::Cell(*slot),
                EagerInput::Symbol(name) => {
                    let float = graph.tensor_type(node.value).is_some_and(|t| t.dtype == DType::F64);
                    Source::Scalar(scalar_of(name)?, float)
                }
                EagerInput::Position(position) => Source::Position(*position),
                EagerInput::Rng => Source::Rng,
            });
        }
        let kernel = (!graph.outputs.is_empty()).then(|| core.kernel(graph));
        let donated = kernel.as_ref().map(|k| k.donated.clone()).unwrap_or_default();
        let donated = donated.into_iter().filter(|&i| matches!(inputs[i], Source::Cell(_))).collect();
        let guard = |name: &Arc<str>| {
            let i = scalar_of(name)?;
            Ok((i, request.scalars.get(i).copied().unwrap_or_default()))
        };
        let guards = traced.consulted.iter().map(guard).collect::<Result<Vec<_>>>()?;
        let conditions = traced.conditions.into_iter().map(requirement).collect::<Result<Vec<_>>>()?;
        let mut state = core.lock();
        let unwritten = types.iter().enumerate().filter(|(_, t)| **t == 0).map(|(slot, _)| slot).collect::<Vec<_>>();
        let assumed = unwritten.into_iter().map(|slot| (slot, state.cells.intern(cells[slot].clone()))).collect();
        let mut from = sources.into_iter();
        let mut next = || from.next().ok_or_else(|| Error::internal("fewer outputs than results"));
        let mut results = vec![];
        for ty in traced.results {
            results.push(match ty {
                None => None,
                Some(ty) => {
                    let id = state.cells.intern(ty.clone());
                    Some((New::of(&ty, id), next()?))
                }
            });
        }
        let mut written = vec![];
        for (slot, ty) in traced.written {
            written.push((slot, state.cells.intern(ty), next()?));
        }
        let extents = match traced.extents {
            ir::eager::Extents::Fixed => Extents::Fixed,
            ir::eager::Extents::Cut(cuts) => Extents::Cut { cuts, counts: next()? },
            ir::eager::Extents::Bound => Extents::Bound(next()?),
        };
        for (slot, ty, from) in &written {
            if let Value::Output(i) = *from
                && types[*slot] == *ty
            {
                outputs[i].replaces = inputs.iter().position(|s| matches!(s, Source::Cell(n) if n == slot));
            }
        }
        let words = request.words.into();
        Ok(Plan {
            words,
            types,
            bound,
            guards,
            conditions,
            assumed,
            kernel,
            inputs,
            donated,
            outputs,
            results,
            written,
            extents,
        })
    }
}
