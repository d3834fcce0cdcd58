//! What the program computes and moves, and how long that must take: a roofline.
//!
//! Each region (a fusion, or an op that stands alone) takes as long as the slowest of the matrix unit, the vector unit and
//! HBM needs for its work, and [`LAUNCH`] on top. Transfers that run beside other regions (prefetches into vector memory,
//! asynchronous collectives) take what is left of them when their result is waited for: while a region computes, HBM
//! moves what the region itself does not.
//!
//! A fusion's work is shared out to the lines that its instructions come from: flops and transcendentals are each
//! instruction's own; a byte belongs to the instruction that first uses the operand, or to the one that makes the result;
//! time is shared in proportion to bytes where HBM bounds the region, else to the instructions' own computing times.
//!
//! Bodies of loops count as often as the loop is known to run, and once where that is not known. Of branches, the one
//! counts that takes longest.

mod channel;
mod collective;
mod matrix;
#[cfg(test)]
mod tests;
mod totals;
mod traffic;
mod trips;
mod work;

use std::collections::{BTreeMap, HashMap, HashSet};

use hlo::proto::{HloInstructionProto, HloModuleProto};
use target::Chip;

use crate::index::Index;
use crate::source::Sources;
use crate::{Cost, Input, Region, Source};
use channel::{Channel, Flight};
use matrix::Product;
use totals::{collectives, lines, padding};
use traffic::Traffic;
use work::Work;

/// Seconds that starting a region takes. libtpu's own estimates of fusions that do next to nothing are 1,820 cycles on
/// v5e, 2,122 on v5p and 2,118 on v6e, which are all 1.2 µs; see docs/tpu-cost-model.md.
const LAUNCH: f64 = 1.2e-6;

/// Products that waste less of the matrix unit than this are not worth a line.
const LEAST_WASTE: f64 = 0.01;

/// Branches and loops nested deeper than this are nobody's program.
const DEEPEST: usize = 64;

/// What the program costs on one device.
pub(crate) fn cost(index: &Index<'_>, sources: &Sources, input: &Input<'_>) -> Cost {
    let mut walk = Walk::new(index, sources, input);
    let steps = index.entry().map(|entry| walk.computation(entry, 1.0, 0)).unwrap_or_default();
    walk.finish(steps)
}

/// One region, and who pays for it.
struct Step {
    instruction: i64,
    region: Region,
    shares: Vec<(Source, Share)>,
    products: Vec<(Source, Product)>,
    collectives: Vec<(String, f64)>,
}

/// What one source contributes to a region.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    work: Work,
    bytes: f64,
}

struct Walk<'a> {
    index: &'a Index<'a>,
    sources: &'a Sources,
    chip: &'static Chip,
    devices: u32,
    traffic: Traffic<'a>,
    estimates: HashMap<&'a str, f64>,
    /// For every fused computation: the sum over what it and those that it calls contain, by source.
    inner: Vec<BTreeMap<Source, Work>>,
    visited: HashSet<usize>,
    memory: Channel,
    interconnect: Channel,
    /// Seconds that nothing hides of transfers, by the instruction that begins them.
    waits: HashMap<i64, f64>,
    /// Which region an instruction's value comes from.
    makers: HashMap<i64, String>,
}

impl<'a> Walk<'a> {
    fn new(index: &'a Index<'a>, sources: &'a Sources, input: &'a Input<'a>) -> Walk<'a> {
        let chip = input.chip;
        let mut walk = Walk {
            index,
            sources,
            chip,
            devices: input.devices,
            traffic: Traffic::new(index),
            estimates: estimates(input.optimized.unwrap_or(index.module)),
            inner: Vec::new(),
            visited: HashSet::new(),
            memory: Channel::new(chip.device_hbm_bandwidth()),
            interconnect: Channel::new(chip.device_ici_bandwidth()),
            waits: HashMap::new(),
            makers: HashMap::new(),
        };
        // Computations come after those that they call.
        for computation in &index.computations {
            let mut sum: BTreeMap<Source, Work> = BTreeMap::new();
            for instruction in &computation.instructions {
                let (source, work) = walk.by_source(instruction);
                for (source, work) in std::iter::once((source, work)).chain(walk.within(instruction)) {
                    sum.entry(source).or_default().add(work);
                }
            }
            walk.inner.push(sum);
        }
        walk
    }

    fn by_source(&self, instruction: &HloInstructionProto) -> (Source, Work) {
        let source = self.sources.of(self.index, instruction.id).clone();
        (source, Work::of(self.index, instruction, self.chip))
    }

    /// What the fusions within an instruction contain.
    fn within(&self, instruction: &'a HloInstructionProto) -> Vec<(Source, Work)> {
        if !matches!(instruction.opcode.as_str(), "fusion" | "call" | "async-start") {
            return Vec::new();
        }
        let called = self.index.called(instruction).filter_map(|called| self.inner.get(called));
        called.flatten().map(|(source, work)| (source.clone(), *work)).collect()
    }

    /// The steps of a computation that is run, rather than fused or applied.
    fn computation(&mut self, computation: usize, runs: f64, depth: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        // Compilers make a computation for each place that runs one; a second caller can only be nonsense.
        if depth > DEEPEST || !self.visited.insert(computation) {
            return steps;
        }
        let mut flights: HashMap<i64, Flight> = HashMap::new();
        let index = self.index;
        for &instruction in &index.computations[computation].instructions {
            match instruction.opcode.as_str() {
                "while" => {
                    let trips = trips::trips(index, instruction);
                    let called: Vec<usize> = index.called(instruction).collect();
                    for called in called {
                        steps.extend(self.computation(called, runs * trips, depth + 1));
                    }
                    self.makers.insert(instruction.id, instruction.name.clone());
                }
                "conditional" => {
                    let called: Vec<usize> = index.called(instruction).collect();
                    let branches = called.into_iter().map(|it| self.computation(it, runs, depth + 1));
                    steps.extend(dearest(branches.collect()));
                }
                "call" => {
                    let called: Vec<usize> = index.called(instruction).collect();
                    for called in called {
                        steps.extend(self.computation(called, runs, depth + 1));
                    }
                }
                opcode if is_free(instruction) || is_scalar(index, instruction) => {
                    if opcode != "tuple" {
                        let maker = instruction.operand_ids.first().and_then(|id| self.makers.get(id)).cloned();
                        self.makers.extend(maker.map(|maker| (instruction.id, maker)));
                    }
                    if let Some(flight) = landing(instruction, &flights) {
                        self.wait(flight, runs);
                    } else if let Some(flight) = instruction.operand_ids.first().and_then(|it| flights.get(it)).copied()
                    {
                        flights.insert(instruction.id, flight);
                    }
                }
                opcode => {
                    let step = self.step(instruction, runs);
                    if opcode.ends_with("-start") {
                        flights.insert(instruction.id, self.take_off(&step, runs));
                    }
                    steps.push(step);
                }
            }
        }
        steps
    }

    /// What computing does not hide of a transfer is its own time.
    fn wait(&mut self, flight: Flight, runs: f64) {
        let (channel, other) = match flight.on_interconnect {
            true => (&mut self.interconnect, &mut self.memory),
            false => (&mut self.memory, &mut self.interconnect),
        };
        for (instruction, seconds) in channel.wait(flight.until) {
            other.pass(seconds, 0.0);
            *self.waits.entry(instruction).or_default() += seconds * runs;
        }
    }

    fn take_off(&mut self, step: &Step, runs: f64) -> Flight {
        let once = |bytes: f64| if runs > 0.0 { bytes / runs } else { 0.0 };
        let sent = once(step.collectives.iter().map(|it| it.1).sum::<f64>());
        let on_interconnect = !step.collectives.is_empty();
        let until = match on_interconnect {
            true => self.interconnect.start(sent, step.instruction),
            false => self.memory.start(once(step.region.hbm_bytes), step.instruction),
        };
        Flight { until, on_interconnect }
    }

    fn step(&mut self, instruction: &'a HloInstructionProto, runs: f64) -> Step {
        let bytes = self.traffic.of(instruction);
        let shares = self.shares(instruction, &bytes);
        let mut work = Work::default();
        shares.values().for_each(|share| work.add(share.work));
        let collectives = self.collectives(instruction, runs);
        let sent: f64 = collectives.iter().map(|it| it.1).sum::<f64>() / runs.max(f64::MIN_POSITIVE);
        let is_start = instruction.opcode.ends_with("-start");
        let moved = bytes.total();
        let times = [
            ("matrix unit", work.matrix),
            ("vector unit", work.vector),
            ("bandwidth", moved / self.memory.rate),
            ("interconnect", sent / self.interconnect.rate),
        ];
        let slowest = times.iter().fold(("overhead", LAUNCH), |a, b| if b.1 > a.1 { *b } else { a });
        // A transfer's time is what is left of it when it is waited for.
        let seconds = if is_start { 0.0 } else { times.iter().fold(0.0, |a, b| f64::max(a, b.1)) + LAUNCH };
        if !is_start {
            self.memory.pass(seconds, moved);
            self.interconnect.pass(seconds, sent);
        }
        let operands = instruction.operand_ids.iter().filter_map(|id| self.makers.get(id));
        let mut seen = HashSet::new();
        let operands = operands.filter(|it| seen.insert(it.as_str())).cloned().collect();
        self.makers.insert(instruction.id, instruction.name.clone());
        let region = Region {
            name: instruction.name.clone(),
            kind: region_kind(instruction),
            source: self.sources.of(self.index, instruction.id).clone(),
            runs,
            flops: work.flops * runs,
            hbm_bytes: moved * runs,
            transcendentals: work.transcendentals * runs,
            seconds: seconds * runs,
            bound: if is_start && sent > 0.0 {
                "interconnect"
            } else if is_start {
                "bandwidth"
            } else {
                slowest.0
            }
            .to_owned(),
            estimated_cycles: self.estimates.get(instruction.name.as_str()).copied(),
            operands,
        };
        let shares = shares.into_iter().collect();
        Step { instruction: instruction.id, region, shares, products: self.products(instruction), collectives }
    }

    /// Who contributes what to one run of a region.
    fn shares(&self, instruction: &'a HloInstructionProto, bytes: &traffic::Bytes) -> BTreeMap<Source, Share> {
        let mut shares: BTreeMap<Source, Share> = BTreeMap::new();
        let own = self.by_source(instruction);
        for (source, work) in std::iter::once(own.clone()).chain(self.within(instruction)) {
            shares.entry(source).or_default().work.add(work);
        }
        for (operand, &read) in bytes.read.iter().enumerate() {
            let parameter = self.traffic.parameter(instruction, operand).filter(|_| instruction.opcode == "fusion");
            let user = parameter.and_then(|it| self.traffic.users(it.id).first());
            let source = user.map_or(&own.0, |user| self.sources.of(self.index, user.id));
            shares.entry(source.clone()).or_default().bytes += read;
        }
        let root = self.index.called(instruction).next().filter(|_| instruction.opcode == "fusion");
        let root = root.and_then(|called| self.index.root(called)).filter(|root| root.opcode != "tuple");
        let source = root.map_or(&own.0, |root| self.sources.of(self.index, root.id));
        shares.entry(source.clone()).or_default().bytes += bytes.written;
        shares
    }

    /// The products within an instruction.
    fn products(&self, instruction: &'a HloInstructionProto) -> Vec<(Source, Product)> {
        let mut found = Vec::new();
        let mut pending = vec![(instruction, 0)];
        while let Some((instruction, depth)) = pending.pop() {
            if let Some(product) = Product::of(self.index, instruction) {
                found.push((self.sources.of(self.index, instruction.id).clone(), product));
            }
            if depth < 4 && matches!(instruction.opcode.as_str(), "fusion" | "async-start") {
                let called = self.index.called(instruction).map(|called| &self.index.computations[called]);
                pending.extend(called.flat_map(|it| &it.instructions).map(|&inner| (inner, depth + 1)));
            }
        }
        found
    }

    /// The collectives within an instruction: their kind and the bytes that all runs send.
    fn collectives(&self, instruction: &'a HloInstructionProto, runs: f64) -> Vec<(String, f64)> {
        let wraps = matches!(instruction.opcode.as_str(), "fusion" | "async-start");
        let called = self.index.called(instruction).filter(|_| wraps).map(|called| &self.index.computations[called]);
        let inner = called.flat_map(|it| &it.instructions).copied();
        let inner = inner.filter_map(|it| Some((collective::kind_in_fusion(it, &self.traffic)?, it)));
        let own = collective::kind(instruction).map(|kind| (kind, instruction));
        let sent = |kind, it| collective::bytes(self.index, kind, it, self.devices) * runs;
        own.into_iter().chain(inner).map(|(kind, it)| (kind.to_owned(), sent(kind, it))).collect()
    }

    fn finish(self, mut steps: Vec<Step>) -> Cost {
        for step in &mut steps {
            step.region.seconds += self.waits.get(&step.instruction).copied().unwrap_or(0.0);
        }
        let sum = |of: fn(&Region) -> f64| steps.iter().map(|step| of(&step.region)).sum::<f64>();
        let (flops, seconds) = (sum(|it| it.flops), sum(|it| it.seconds));
        let possible = seconds * self.chip.device_flops();
        Cost {
            flops,
            hbm_bytes: sum(|it| it.hbm_bytes),
            transcendentals: sum(|it| it.transcendentals),
            seconds,
            peak_share: if possible > 0.0 { flops / possible } else { 0.0 },
            lines: lines(&steps, seconds),
            padding: padding(&steps, self.chip),
            collectives: collectives(&steps),
            regions: steps.into_iter().map(|step| step.region).collect(),
        }
    }
}

/// The branch that takes longest.
fn dearest(branches: Vec<Vec<Step>>) -> Vec<Step> {
    let seconds = |steps: &[Step]| steps.iter().map(|step| step.region.seconds).sum::<f64>();
    branches.into_iter().reduce(|a, b| if seconds(&b) > seconds(&a) { b } else { a }).unwrap_or_default()
}

/// The transfer that an instruction waits for.
fn landing(instruction: &HloInstructionProto, flights: &HashMap<i64, Flight>) -> Option<Flight> {
    let is_done = instruction.opcode.ends_with("-done");
    instruction.operand_ids.first().filter(|_| is_done).and_then(|id| flights.get(id)).copied()
}

/// Whether an instruction costs nothing: it names a value, or waits for what has been counted where it began.
fn is_free(instruction: &HloInstructionProto) -> bool {
    let opcode = instruction.opcode.as_str();
    let free_calls = ["ConcatBitcast", "AllocateBuffer", "Sharding", "AssumeGatherIndicesInBound"];
    matches!(
        opcode,
        "parameter"
            | "constant"
            | "tuple"
            | "get-tuple-element"
            | "bitcast"
            | "after-all"
            | "add-dependency"
            | "opt-barrier"
            | "optimization-barrier"
            | "partition-id"
            | "replica-id"
            | "async-update"
    ) || opcode.ends_with("-done")
        || (opcode == "custom-call" && free_calls.contains(&instruction.custom_call_target.as_str()))
}

/// Whether an instruction is arithmetic on single numbers, such as a loop's counter: the scalar unit does that on the side.
fn is_scalar(index: &Index<'_>, instruction: &HloInstructionProto) -> bool {
    let is_number = |it: &HloInstructionProto| {
        it.shape.as_ref().is_some_and(|shape| shape.dimensions.is_empty() && shape.tuple_shapes.is_empty())
    };
    instruction.called_computation_ids.is_empty()
        && is_number(instruction)
        && instruction.operand_ids.len() <= 3
        && index.operands(instruction).all(is_number)
        && collective::kind(instruction).is_none()
        && !matches!(instruction.opcode.as_str(), "custom-call" | "infeed" | "outfeed" | "send" | "recv")
}

fn region_kind(instruction: &HloInstructionProto) -> String {
    match instruction.opcode.as_str() {
        "fusion" => instruction.fusion_kind.clone(),
        "custom-call" => instruction.custom_call_target.clone(),
        opcode => opcode.to_owned(),
    }
}

/// The compiler's own estimates of cycles, by the instruction's name. The greatest number stands for none.
fn estimates(module: &HloModuleProto) -> HashMap<&str, f64> {
    let instructions = module.computations.iter().flat_map(|it| &it.instructions);
    let configured = instructions.filter(|it| !it.backend_config.is_empty());
    let estimate = |instruction: &HloInstructionProto| {
        let config: serde_json::Value = serde_json::from_slice(&instruction.backend_config).ok()?;
        let cycles: i64 = config.get("window_config")?.get("estimated_cycles")?.as_str()?.parse().ok()?;
        (cycles > 0 && cycles < i64::MAX).then_some(cycles as f64)
    };
    configured.filter_map(|it| Some((it.name.as_str(), estimate(it)?))).collect()
}
