//! The optimizer: a graph of core ops in, one that computes the same in less time out, and what was changed and why.
//!
//! Whatever it does is a [`Change`] by a named rule of a [`Class`], which the caller caps, and that is counted, so that
//! [`Options::limit`] can corner a wrong one. All decisions are functions of the graph and the [`Options`]: never of
//! time, addresses or hash seeds. Like [`ir`], it knows neither MLIR nor PJRT nor Python.

mod analysis;
mod change;
mod cost;
mod extract;
mod family;
pub mod formulate;
mod language;
mod measure;
pub mod regions;
mod rule;
pub mod rules;
mod saturate;
mod window;
mod windows;

pub use change::{Change, Changes, Class, Options, Platform};
pub use language::{Head, Kind};
pub use rule::{Edit, Right, Rule};

use ir::{Graph, Result};

/// What the ops of `graph` take by the clock that rewrites are chosen by, in picoseconds; bodies are left out.
pub fn cost(graph: &Graph, platform: Platform) -> u64 {
    let of = |node: &ir::Node| {
        let args: Vec<&ir::Type> = node.operands.iter().map(|&v| graph.ty(v)).collect();
        cost::cost(platform, &node.op, &args, &node.ty)
    };
    graph.nodes().iter().map(of).sum()
}

/// Why a rule is worth it; empty if there is no such rule.
pub fn why(rule: &str) -> &'static str {
    let mut all = rules::all().map(|r| (r.name, r.why)).chain(formulate::told().map(|(name, _, why)| (name, why)));
    all.find(|(name, _)| *name == rule).map_or("", |(_, why)| why)
}

/// `graph` as the rules make it cheapest, and the changes in it. Its inputs, outputs and their kinds stay.
///
/// # Errors
/// `Internal` if a rule is wrong and the result does not verify.
pub fn optimize(graph: &Graph, options: Options) -> Result<(Graph, Vec<Change>)> {
    let mut changes = Changes::new(options);
    let prepared = formulate::prepared(graph, &mut changes)?;
    let made = windows::optimize(prepared.as_ref().unwrap_or(graph), rules::ready(), None, &mut changes)?;
    // After the rules: they know convolutions, not what is made of them.
    let made = formulate::formulate(&made, &mut changes)?;
    debug_assert!(ir::verify(&made).is_ok(), "{:?}", ir::verify(&made));
    Ok((made, changes.into_vec()))
}
