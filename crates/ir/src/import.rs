//! From a trace to a graph of core ops.
//!
//! Every node of a [`Trace`] is looked up in the [op table](crate::ops) and its rule run: expansions append core ops and
//! put their results into fresh cells of the [alias model](crate::alias), views become other layouts over a cell, in-place
//! and `out=` overloads write cells. At the end, outputs are read, and every input that was written gives its next value
//! as a mutation. Symbols have values by then ([`ImportOptions::dims`]), so the graph is concrete.

mod arguments;
mod barrier;
mod body;
mod call;
mod control_flow;
mod draws;
mod higher_order;
mod inputs;
mod outputs;
mod python_ops;
mod readers;
mod scans;
mod sizes;
mod survey;

pub use inputs::{InputType, bind};
pub use survey::{data_dependent_ops, simpler_ops, unsupported_ops};

use crate::alias::{Aliases, CellId, Strides, TensorId};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Graph, InputKind};
use crate::literal::Number;
use crate::loc::Loc;
use crate::op::Precision;
use crate::ops::{Context, Entry, Scalar};
use crate::symbol::{Sym, Symbols};
use crate::trace::{Locator, Trace, schema};
use crate::types::{Shape, TensorType};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Depth of graphs in graphs beyond which a trace is refused.
const MAX_DEPTH: usize = 32;

/// What a trace is specialised for.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Values of symbols; [`bind`] finds them from the shapes of inputs.
    pub dims: BTreeMap<String, i64>,
    /// Precision of `f32` contractions.
    pub precision: Precision,
    /// What integers promote to in float ops; `None` stands for `f32`.
    pub default_dtype: Option<DType>,
    /// Whether values between ops may keep more than the 16 bits of their type; see [`Builder`].
    pub excess_precision: bool,
    /// Bytes beyond which a table that few rows are added to is not kept in a wider type; see [`Builder`].
    pub wide_tables: Option<usize>,
}

/// A graph and how it is called.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The program.
    pub graph: Graph,
    /// The symbols that the program depends on, with the values it holds for. It serves every value of the others.
    pub consulted: BTreeMap<Arc<str>, i64>,
    /// One per input of the trace.
    pub inputs: Vec<InputMeta>,
    /// One per result of the call, in the trace's order.
    pub outputs: Vec<OutputMeta>,
}

/// An input of the trace.
#[derive(Clone, Debug)]
pub struct InputMeta {
    /// Its name in the trace.
    pub name: String,
    /// What it is: a user's argument, or a parameter, buffer or constant by this qualified name.
    pub kind: InputKind,
    /// The qualified name of a parameter, buffer or constant.
    pub target: Option<String>,
    /// Where its value goes.
    pub value: InputValue,
}

/// Where the value of an input goes.
#[derive(Clone, Debug)]
pub enum InputValue {
    /// To the graph's input at `position`, of type `ty`, row-major in its logical shape.
    Tensor {
        /// Position in [`Graph::inputs`].
        position: usize,
        /// Element type and logical extents.
        ty: TensorType,
    },
    /// Into the symbols of this expression.
    Symbol(Arc<str>),
    /// Nowhere: the trace holds it.
    Constant,
}

/// A result of the call.
#[derive(Clone, Debug)]
pub enum OutputMeta {
    /// A tensor.
    Tensor(OutputTensor),
    /// A number; a symbolic one is an expression to evaluate at the call.
    Number(Scalar),
    /// A string.
    Str(Arc<str>),
    /// `None`, or an undefined tensor.
    None,
}

/// A tensor that the call returns. The graph's value is dense in the order of the storage; seen through `strides` it has
/// the logical `shape`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputTensor {
    /// Position in [`Graph::outputs`].
    pub position: usize,
    /// Logical extents.
    pub shape: Shape,
    /// Steps of the logical dimensions in the value, in elements.
    pub strides: Strides,
    /// Position in [`Graph::inputs`] of the input whose storage the result is a view of.
    pub alias: Option<usize>,
    /// Whose elements it has: results of other storages must not share memory, equal or not.
    pub storage: CellId,
}

/// Imports `trace`.
///
/// # Errors
/// With the op and the user's line: `Invalid` for a trace that is wrong, `Unsupported` for what has no lowering,
/// `Internal` where the op table and the trace disagree on a result.
pub fn import(trace: &Trace, options: &ImportOptions) -> Result<Imported> {
    let importer = Importer::new(trace, options);
    importer.check_ranges()?;
    let mut scope = importer.scope(&trace.graph);
    let inputs = importer.inputs(&mut scope)?;
    importer.nodes(&mut scope)?;
    let outputs = importer.outputs(&scope, &inputs)?;
    let consulted = importer.context.symbols.consulted();
    let inputs = inputs.into_iter().map(|i| i.meta).collect();
    Ok(Imported { graph: importer.b.finish(), consulted, inputs, outputs })
}

/// What a name of the trace stands for.
#[derive(Clone, Debug)]
enum Binding {
    Tensor(TensorId),
    Number(Scalar),
    Str(Arc<str>),
    /// `None`, or a tensor that an op left undefined.
    None,
}

/// The names of one graph of the trace.
struct Scope<'t> {
    graph: &'t schema::Graph,
    names: FxHashMap<&'t str, Binding>,
    /// Names whose values several ops read.
    shared: FxHashSet<&'t str>,
    /// Which views must be such, rather than copies.
    views: Views<'t>,
    /// Whether the graph's types already show the casts of autocast, which its nodes leave out.
    autocast: bool,
    depth: usize,
}

/// Those views of a graph that must share the storage they are of: all where something is written, else some by their names.
enum Views<'t> {
    All,
    Of(FxHashSet<&'t str>),
}

/// One import.
struct Importer<'t> {
    trace: &'t Trace,
    b: Builder,
    aliases: Aliases,
    context: Context,
    locator: RefCell<Locator<'t>>,
    /// Values of expressions, by their text.
    expressions: RefCell<FxHashMap<&'t str, Sym>>,
    /// The table's entries, by target.
    entries: RefCell<FxHashMap<&'t str, Option<Entry>>>,
}

impl<'t> Importer<'t> {
    fn new(trace: &'t Trace, options: &ImportOptions) -> Importer<'t> {
        let dims = options.dims.iter().map(|(name, &value)| (name.as_str().into(), value)).collect();
        let context = Context {
            symbols: Symbols::new(dims),
            precision: options.precision,
            default_dtype: options.default_dtype,
            ..Context::default()
        };
        Importer {
            trace,
            b: Builder::new("main")
                .allow_excess_precision(options.excess_precision)
                .limit_wide_tables(options.wide_tables),
            aliases: Aliases::new(),
            context,
            locator: RefCell::default(),
            expressions: RefCell::default(),
            entries: RefCell::default(),
        }
    }

    fn scope(&self, graph: &'t schema::Graph) -> Scope<'t> {
        let shared = if self.b.excess_precision() { self.read_by_several(graph) } else { FxHashSet::default() };
        let views = self.that_are_views(graph);
        Scope { graph, names: FxHashMap::default(), shared, views, autocast: false, depth: 0 }
    }

    fn nodes(&self, scope: &mut Scope<'t>) -> Result<()> {
        for node in &scope.graph.nodes {
            let loc: Loc = self.locator.borrow_mut().loc(node);
            self.b.set_loc(&loc);
            let name = node.name.as_deref().unwrap_or_default();
            self.node(scope, node).map_err(|e| e.at(node.op(), &loc).in_node(name))?;
        }
        Ok(())
    }

    fn entry(&self, target: &'t str) -> Option<Entry> {
        *self.entries.borrow_mut().entry(target).or_insert_with(|| survey::find(target))
    }
}

/// A literal number as an argument.
fn known(n: Number) -> Scalar {
    Scalar::Known(n)
}
