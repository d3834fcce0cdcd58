//! Our own optimizer, before the plugin's.

use crate::error::Result;
use crate::findings;
use crate::program::{DimValues, Program};
use crate::session::Session;
use fuse::regions::{Machine, Region};
use fuse::{Change, Class, Platform};
use ir::Graph;
use report::{Planned, Rewrite, Rewrites};
use std::str::FromStr;
use std::sync::Arc;
use target::{Chip, Generation};

/// What the optimizer may do to results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Numerics {
    /// Round where PyTorch rounds, sum in the order of the program.
    Exact,
    /// What is the same in exact arithmetic. 16-bit floats stay in `f32` from one op to the next.
    #[default]
    Reassociate,
    /// Roundings of narrow types may go, too.
    Fast,
}

impl FromStr for Numerics {
    type Err = String;
    fn from_str(name: &str) -> std::result::Result<Numerics, String> {
        match name {
            "exact" => Ok(Numerics::Exact),
            "reassociate" => Ok(Numerics::Reassociate),
            "fast" => Ok(Numerics::Fast),
            _ => Err(format!("numerics is \"exact\", \"reassociate\" or \"fast\", not {name:?}")),
        }
    }
}

impl Numerics {
    pub(crate) fn class(self) -> Class {
        match self {
            Numerics::Exact => Class::Exact,
            Numerics::Reassociate => Class::Reassociating,
            Numerics::Fast => Class::PrecisionChanging,
        }
    }
}

/// A program before and after.
pub struct Rewritten {
    /// As it was imported.
    pub before: Graph,
    /// What is compiled.
    pub after: Graph,
    /// Every rewrite that is in it, in order.
    pub changes: Vec<Change>,
    /// What it is written for.
    pub platform: Platform,
}

impl Rewritten {
    /// What runs together, in order; on a TPU, on a v5e.
    pub fn regions(&self) -> Vec<Region> {
        regions(&self.after, self.platform)
    }
    /// What changed, as reports have it.
    pub fn report(&self) -> Rewrites {
        let ops = |graph: &Graph| (graph.nodes().len() - graph.inputs.len()) as u64;
        let places =
            |change: &Change| change.locs.iter().map(|&loc| findings::source(self.after.locs.get(loc))).collect();
        let change = |it: &Change| Rewrite {
            rule: it.rule.to_owned(),
            class: it.class.name().to_owned(),
            why: fuse::why(it.rule).to_owned(),
            places: places(it),
            before: it.before.to_string(),
            after: it.after.iter().map(ToString::to_string).collect(),
        };
        Rewrites {
            platform: self.platform.name().to_owned(),
            ops: report::Change { before: ops(&self.before), after: ops(&self.after) },
            picoseconds: report::Change {
                before: fuse::cost(&self.before, self.platform),
                after: fuse::cost(&self.after, self.platform),
            },
            changes: self.changes.iter().map(change).collect(),
        }
    }

    /// What is to run together, as reports have it.
    pub fn planned(&self) -> Vec<Planned> {
        let planned = |region: Region| Planned {
            source: findings::source(self.after.locs.get(self.after.node(region.root).loc)),
            name: region.name,
            picoseconds: region.picoseconds,
            bound: region.bound.to_owned(),
            read: region.read,
            written: region.written,
            kept: region.kept,
            gains: region.gains,
        };
        self.regions().into_iter().map(planned).collect()
    }
}

fn regions(graph: &Graph, platform: Platform) -> Vec<Region> {
    let machine = match platform {
        Platform::Cpu | Platform::CpuWithBlas => Machine::CPU,
        Platform::Tpu => machine(Generation::V5e.chip()),
    };
    fuse::regions::regions(graph, &machine)
}

/// Bytes beyond which a table that few rows are added to is not kept in a wider type: half a v5e's vector memory. BERT's,
/// which takes 70% of it in `f32`, libtpu leaves in HBM: its training step moved 180 MiB more.
pub(crate) fn wide_tables(platform: Platform) -> Option<usize> {
    match platform {
        Platform::Cpu | Platform::CpuWithBlas => None,
        Platform::Tpu => usize::try_from(Generation::V5e.chip().vmem_bytes / 2).ok(),
    }
}

/// By node: its region as locations name it, `3#softmax`.
pub(crate) fn region_names(graph: &Graph, platform: Platform) -> Vec<Arc<str>> {
    let none: Arc<str> = "".into();
    let mut names = vec![none; graph.nodes().len()];
    for (i, region) in regions(graph, platform).iter().enumerate() {
        let name: Arc<str> = format!("{i}#{}", region.name).into();
        region.members.iter().for_each(|v| names[v.index()] = name.clone());
    }
    names
}

/// Picoseconds in which a device starts a region: what libtpu's estimates have for those that do nothing
/// (docs/tpu-cost-model.md).
const START: u64 = 1_200_000;

/// One device of a chip, as regions are priced on it.
pub fn machine(chip: &Chip) -> Machine {
    Machine {
        bandwidth: chip.device_hbm_bandwidth() as u64,
        products: (chip.device_flops() / 2.0) as u64,
        is_tpu: true,
        arithmetic: chip.device_vector_ops() as u64,
        transcendentals: chip.device_transcendentals() as u64,
        on_chip: chip.vmem_bytes,
        start: START,
    }
}

impl Program {
    /// The program for these sizes before and after the optimizer.
    ///
    /// # Errors
    /// As [`Program::import`].
    pub fn rewritten(&self, dims: &DimValues, platform: Platform) -> Result<Rewritten> {
        self.rewritten_graph(self.import_for(dims, Some(platform))?.graph, platform)
    }

    pub(crate) fn rewritten_graph(&self, before: Graph, platform: Platform) -> Result<Rewritten> {
        let (after, changes) = self.optimized(&before, platform)?;
        Ok(Rewritten { before, after, changes, platform })
    }

    /// `graph` as the optimizer leaves it, and what it changed; nothing if the options say so.
    pub(crate) fn optimized(&self, graph: &Graph, platform: Platform) -> Result<(Graph, Vec<Change>)> {
        let options = self.options();
        if !options.optimize {
            return Ok((graph.clone(), vec![]));
        }
        let rules = fuse::Options { limit: options.limit, ..fuse::Options::new(options.numerics.class(), platform) };
        Ok(fuse::optimize(graph, rules)?)
    }
}

/// What a session's plugin runs on.
pub(crate) fn platform(session: Option<&Session>) -> Platform {
    match session {
        Some(session) if !session.is_on_cpu() => Platform::Tpu,
        Some(session) if session.offers_products() => Platform::CpuWithBlas,
        _ => Platform::Cpu,
    }
}
