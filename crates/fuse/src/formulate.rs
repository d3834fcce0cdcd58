//! Ops said in the way that is fastest on the platform, and layouts chosen for the whole graph.
//!
//! In this order: positions that nobody reads are left out ([`unread_positions`]); convolutions that are no matrix products are
//! said otherwise ([`depthwise`]), or are matrix products and said so ([`single_window`]); the graph is laid out with features
//! last ([`layout`]); what is left of groups becomes loops ([`depthwise_kernel`]) or convolutions of their own ([`grouped`]).
//! Where the host offers to multiply, it gets factorisations ([`host_lapack`]) and products of groups of rows ([`ragged`]), before anything else looks at them; convolutions, which come
//! next since it takes them as they lie
//! ([`host_convolution`]), products ([`host_product`], [`pointwise`]), and what is done to their results ([`host_finish`]), and functions that take vectors
//! ([`host_function`]), and reductions of rows with what is around them ([`host_rows`]), functions between its calls ([`host_elements`]), and what is left of many tensors ([`host_lists`]); other products get their operands in the order in which they are packed well ([`product_order`]). What several loops read is
//! [computed once](computed_once), what is overwritten [read first](read_first), what only moves elements
//! [made late](made_late), and what is written to a part of a value [computed before](written_apart). In loops, the largest elements and
//! the sums of rows are found in parts ([`rows_in_parts`]), neighbouring dimensions are reduced as one ([`joined_dims`]), windows
//! along one after the other ([`window_by_dims`]), the few
//! first of many sorted are selected ([`selected`](mod@selected)), and other keys are sorted in one integer with their positions
//! ([`packed_sort`]). Scans, scatters and sorts are the host's where it takes calls ([`host_scan`], [`host_scatter`], [`host_sort`]).
//! Every rule states what was measured, on XLA's CPU plugin with 2 cores.
//!
//! A TPU's compiler chooses formulations and layouts itself; it only gets products for Fourier transforms ([`fourier`]), which
//! rules can see through, routines for factorisations and products of groups of rows ([`routines`]), selections for what is scattered to the greatest of windows ([`pool_gradient`]), no positions that nobody reads, no elements gathered that are slices ([`counted`]), no reshapes that move rows
//! ([`apart`](mod@apart)), and no strided slices that it aborts on ([`phases`]).

mod apart;
mod as_they_lie;
mod computed_once;
mod counted;
mod depthwise;
mod depthwise_kernel;
mod fourier;
mod grouped;
mod host_convolution;
mod host_elements;
mod host_finish;
mod host_function;
mod host_lapack;
mod host_lists;
mod host_product;
mod host_rows;
mod host_scan;
mod host_scatter;
mod host_sort;
mod joined_dims;
mod layout;
mod made_late;
mod ordered;
mod packed_sort;
mod phases;
mod pointwise;
mod pool_gradient;
mod product_order;
mod ragged;
mod read_first;
mod rebuild;
mod routines;
mod rows_in_parts;
mod selected;
mod side;
mod single_window;
mod sorts;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod unread_positions;
mod window_by_dims;
mod written_apart;

use self::rebuild::Rebuild;
use crate::{Change, Changes, Class, Head, Options, Platform};
use ir::op::{Convolution, DotGeneral, Reducer, Scatter, Window};
use ir::{Dims, Graph, LocId, Node, Op, Operands, Result, ValueId};

/// `graph` with its convolutions in the formulation and the layout that is fastest on the platform, bodies of loops and
/// branches included. Inputs and outputs stay as they are. Takes linear time.
///
/// # Errors
/// `Invalid` or `Internal` if `graph` does not verify.
pub fn formulate(graph: &Graph, changes: &mut Changes) -> Result<Graph> {
    Formulating { changes, within: None }.graph(graph)
}

/// `graph` as the rules are to find it, with what they know better than what it stands for; `None` if that is all the same.
///
/// # Errors
/// As [`formulate`].
pub(crate) fn prepared(graph: &Graph, changes: &mut Changes) -> Result<Option<Graph>> {
    let says = |node: &Node| {
        let is_one = matches!(node.op, Op::Fft { .. } | Op::Lapack { .. }) || pool_gradient::may_be(node);
        is_one || !node.bodies.is_empty()
    };
    let is_wanted = changes.options().platform != Platform::Cpu && graph.nodes().iter().any(says);
    is_wanted.then(|| Formulating { changes, within: None }.prepared(graph)).transpose()
}

/// As [`formulate`], for the graph of one eager op: nothing does more than `most`, and what hangs on the ops around one does
/// nothing inexact, so that the op gives the same in a larger graph.
///
/// # Errors
/// As [`formulate`].
pub fn alone(graph: &Graph, most: Class, platform: Platform) -> Result<Graph> {
    formulate(graph, &mut Changes::new(Options { alone: most, ..Options::new(Class::Exact, platform) }))
}

/// A convolution that may be said otherwise: its operands stand in the graph being built.
struct Site<'a> {
    attributes: &'a Convolution,
    input: ValueId,
    kernel: ValueId,
}

/// A matrix product that may be said otherwise, likewise.
struct Product<'a> {
    attributes: &'a DotGeneral,
    lhs: ValueId,
    rhs: ValueId,
}

/// A reduction that may be said otherwise, likewise.
struct Reduction<'a> {
    reducer: Reducer,
    dims: &'a Dims,
    input: ValueId,
}

/// Windows that may be reduced otherwise, likewise.
struct Windowing<'a> {
    reducer: Reducer,
    window: &'a Window,
    input: ValueId,
    /// Where the elements are, for what is found with its place.
    places: Option<ValueId>,
    /// Whether the host takes calls.
    with_host: bool,
}

/// A scatter that may be said otherwise, likewise.
struct Scattering<'a> {
    attributes: &'a Scatter,
    operands: [ValueId; 3],
}

/// A sort that may be said otherwise, likewise.
struct Sorting<'a> {
    dim: usize,
    descending: bool,
    operands: &'a [ValueId],
}

/// One way to say an op otherwise.
struct Rule {
    name: &'static str,
    class: Class,
    /// Whether it hangs on nothing but the op: eager ops are reassociated only so, since else the same call would give
    /// two results.
    alone: bool,
    /// Why it is worth it, in one line.
    why: &'static str,
    rewrite: Rewrite,
}

/// What an op becomes: the value that takes its place, or `None` where it stays.
enum Rewrite {
    Convolution(fn(&mut Rebuild, &Site<'_>) -> Result<Option<ValueId>>),
    Product(fn(&mut Rebuild, &Product<'_>) -> Result<Option<ValueId>>),
    Reduction(fn(&mut Rebuild, &Reduction<'_>) -> Result<Option<ValueId>>),
    Windows(fn(&mut Rebuild, &Windowing<'_>) -> Result<Option<ValueId>>),
    Scatter(fn(&mut Rebuild, &Scattering<'_>) -> Result<Option<ValueId>>),
    Sort(fn(&mut Rebuild, &Sorting<'_>) -> Result<Option<ValueId>>),
}

impl Rewrite {
    /// What `node`, whose operands are `operands` in `to`, becomes.
    fn apply(&self, to: &mut Rebuild, node: &Node, operands: &[ValueId], with_host: bool) -> Result<Option<ValueId>> {
        match (self, &node.op, operands) {
            (Rewrite::Convolution(rewrite), Op::Convolution(attributes), &[input, kernel]) => {
                rewrite(to, &Site { attributes, input, kernel })
            }
            (Rewrite::Product(rewrite), Op::DotGeneral(attributes), &[lhs, rhs]) => {
                rewrite(to, &Product { attributes, lhs, rhs })
            }
            (Rewrite::Reduction(rewrite), &Op::Reduce { reducer, ref dims }, &[input]) => {
                rewrite(to, &Reduction { reducer, dims, input })
            }
            (Rewrite::Windows(rewrite), &Op::ReduceWindow { reducer, ref window }, &[input, ref places @ ..]) => {
                rewrite(to, &Windowing { reducer, window, input, places: places.first().copied(), with_host })
            }
            (Rewrite::Scatter(rewrite), Op::Scatter(attributes), &[a, indices, updates]) => {
                rewrite(to, &Scattering { attributes, operands: [a, indices, updates] })
            }
            (Rewrite::Sort(rewrite), &Op::Sort { dim, descending, .. }, operands) => {
                rewrite(to, &Sorting { dim, descending, operands })
            }
            _ => Ok(None),
        }
    }
}

/// Rules in the order in which they are tried.
const BEFORE_LAYOUT: &[Rule] = &[single_window::RULE, depthwise::RULE];
const WITH_BLAS: &[Rule] = &[
    pointwise::RULE,
    host_convolution::RULE,
    host_product::RULE,
    host_scan::RULE,
    host_scatter::RULE,
    host_rows::IN_TURN,
];
const AFTER_LAYOUT: &[Rule] = &[depthwise_kernel::RULE, grouped::RULE, product_order::RULE];
const OF_LOOPS: &[Rule] = &[
    rows_in_parts::MAXIMA,
    rows_in_parts::SUMS,
    joined_dims::RULE,
    packed_sort::RULE,
    window_by_dims::EXTREMES,
    window_by_dims::SUMS,
    window_by_dims::PLACES,
];

/// Name, class and reason of all that is done here, in order.
pub fn told() -> impl Iterator<Item = (&'static str, Class, &'static str)> {
    let of = |r: &Rule| (r.name, r.class, r.why);
    [
        host_lapack::TOLD,
        routines::TOLD,
        ragged::BY_THE_HOST,
        ragged::BY_A_ROUTINE,
        fourier::TOLD,
        pool_gradient::TOLD,
        counted::TOLD,
        apart::TOLD,
        phases::TOLD,
        unread_positions::TOLD,
    ]
    .into_iter()
    .chain(BEFORE_LAYOUT.iter().map(of))
    .chain([layout::TOLD])
    .chain(WITH_BLAS.iter().map(of))
    .chain(AFTER_LAYOUT.iter().map(of))
    .chain([
        host_sort::TOLD,
        host_sort::EXTREMES,
        host_finish::TOLD,
        host_finish::SCALED,
        host_function::TOLD,
        host_rows::TOLD,
        host_elements::TOLD,
        host_lists::TOLD,
        computed_once::TOLD,
        read_first::TOLD,
        made_late::TOLD,
        written_apart::TOLD,
        selected::TOLD,
    ])
    .chain(OF_LOOPS.iter().map(of))
}

struct Formulating<'a> {
    changes: &'a mut Changes,
    /// In a body, where the node that holds it came from: locations of a body mean nothing outside.
    within: Option<LocId>,
}

impl Formulating<'_> {
    fn graph(&mut self, graph: &Graph) -> Result<Graph> {
        if self.changes.options().platform == Platform::Tpu {
            let graph = unread_positions::dropped(&self.prepared(graph)?, self.changes, self.within)?;
            let graph = counted::as_slices(&self.bodies(&graph)?, self.changes, self.within)?;
            let graph = apart::apart(&graph, self.changes, self.within)?;
            return phases::phased(&graph, self.changes, self.within);
        }
        let with_blas = self.changes.options().platform == Platform::CpuWithBlas;
        let asking = self.asking_the_host(graph)?;
        let graph = asking.as_ref().unwrap_or(graph);
        let graph = unread_positions::dropped(&self.bodies(graph)?, self.changes, self.within)?;
        let before: &[Rule] = if with_blas && as_they_lie::is_better(&graph) { &[host_convolution::RULE] } else { &[] };
        let graph = self.ops(&graph, before)?;
        let mut graph = self.ops(&graph, BEFORE_LAYOUT)?;
        graph = layout::layout(&graph, self.changes, self.within)?;
        if with_blas {
            graph = self.ops(&graph, WITH_BLAS)?;
            graph = host_sort::left_to_the_host(&graph, self.changes, self.within)?;
        }
        graph = self.ops(&graph, AFTER_LAYOUT)?;
        if with_blas {
            graph = host_finish::finished(&graph, self.changes, self.within)?;
            graph = host_function::left_to_the_host(&graph, self.changes, self.within)?;
            graph = host_rows::left_to_the_host(&graph, self.changes, self.within)?;
            graph = host_elements::left_to_the_host(&graph, self.changes, self.within)?;
            graph = host_lists::left_to_the_host(&graph, self.changes, self.within)?;
            graph = computed_once::computed_once(&graph, self.changes, self.within)?;
            graph = read_first::ordered(&graph, self.changes, self.within)?;
            graph = made_late::made_late(&graph, self.changes, self.within)?;
            graph = written_apart::written_apart(&graph, self.changes, self.within)?;
        }
        let graph = selected::selected(&graph, self.changes, self.within)?;
        self.ops(&graph, OF_LOOPS)
    }

    /// `graph` as the rules are to find it, for a TPU or where the host takes calls.
    fn prepared(&mut self, graph: &Graph) -> Result<Graph> {
        let asking = match self.changes.options().platform {
            Platform::Tpu => routines::called(graph, self.changes, self.within)?,
            _ => self.asking_the_host(graph)?,
        };
        let graph = asking.as_ref().unwrap_or(graph);
        let graph = graph.map_bodies(|body, holder| {
            let within = Some(self.within.unwrap_or(holder));
            Formulating { changes: self.changes, within }.prepared(body)
        })?;
        match self.changes.options().platform {
            Platform::Tpu => {
                let graph = pool_gradient::selected(&graph, self.changes, self.within)?;
                fourier::as_products(&graph, self.changes, self.within)
            }
            _ => Ok(graph),
        }
    }

    /// `graph` with what a host that takes calls is asked for first; `None` if that is nothing.
    fn asking_the_host(&mut self, graph: &Graph) -> Result<Option<Graph>> {
        if self.changes.options().platform != Platform::CpuWithBlas {
            return Ok(None);
        }
        let factored = host_lapack::left_to_the_host(graph, self.changes, self.within)?;
        let multiplied = ragged::left_to_the_host(factored.as_ref().unwrap_or(graph), self.changes, self.within)?;
        Ok(multiplied.or(factored))
    }

    /// `graph` with its bodies formulated.
    fn bodies(&mut self, graph: &Graph) -> Result<Graph> {
        graph.map_bodies(|body, holder| {
            let within = Some(self.within.unwrap_or(holder));
            Formulating { changes: self.changes, within }.graph(body)
        })
    }

    /// `graph` with each op said as the first of `rules` that applies to it would have it.
    fn ops(&mut self, graph: &Graph, rules: &[Rule]) -> Result<Graph> {
        let mut to = Rebuild::of(graph);
        for node in graph.nodes() {
            match self.op(&mut to, node, rules)? {
                Some(value) => to.stand_for(value),
                None => to.keep(node),
            }
        }
        Ok(to.finish(graph))
    }

    fn op(&mut self, to: &mut Rebuild, node: &Node, rules: &[Rule]) -> Result<Option<ValueId>> {
        let settled =
            matches!(&node.op, Op::Convolution(c) if c.host) || matches!(&node.op, Op::DotGeneral(d) if d.host);
        if settled
            || !matches!(
                node.op,
                Op::Convolution(_)
                    | Op::DotGeneral(_)
                    | Op::Reduce { .. }
                    | Op::ReduceWindow { .. }
                    | Op::Scatter(_)
                    | Op::Sort { .. }
            )
        {
            return Ok(None);
        }
        let operands: Operands = node.operands.iter().map(|&v| to.place(v)).collect();
        to.set_loc(node.loc);
        let with_host = self.changes.options().platform == Platform::CpuWithBlas;
        for rule in rules {
            let allowed =
                if rule.alone { self.changes.allows_alone(rule.class) } else { self.changes.allows(rule.class) };
            if !allowed {
                continue;
            }
            let made = to.len();
            if let Some(value) = rule.rewrite.apply(to, node, &operands, with_host)? {
                let locs = vec![self.within.unwrap_or(node.loc)];
                let (before, after) = (Head::of(&node.op), to.heads_from(made));
                self.changes.push(Change { rule: rule.name, class: rule.class, locs, before, after });
                return Ok(Some(value));
            }
        }
        Ok(None)
    }
}
