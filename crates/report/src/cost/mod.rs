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

mod collective;
mod matrix;
mod traffic;
mod trips;
mod work;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use hlo::proto::{HloInstructionProto, HloModuleProto};
use target::Chip;

use crate::index::Index;
use crate::source::Sources;
use crate::{Collective, Cost, Input, LineCost, Padding, Region, Source};
use matrix::Product;
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

/// Transfers that run beside computing, one after the other.
#[derive(Default)]
struct Channel {
    rate: f64,
    started: f64,
    moved: f64,
    /// For each transfer begun: how much has been moved when it is done, and the instruction that began it.
    queue: VecDeque<(f64, i64)>,
}

impl Channel {
    /// Begins a transfer; how much has been begun by then tells when it is done.
    fn start(&mut self, bytes: f64, instruction: i64) -> f64 {
        self.started += bytes;
        self.queue.push_back((self.started, instruction));
        self.started
    }

    /// Time passes in which the channel also moves `bytes` of somebody else's.
    fn pass(&mut self, seconds: f64, bytes: f64) {
        let spare = (seconds * self.rate - bytes).max(0.0);
        self.moved = (self.moved + spare).min(self.started);
        while self.queue.front().is_some_and(|it| it.0 <= self.moved) {
            self.queue.pop_front();
        }
    }

    /// Waits until everything begun by then has been moved. Returns the seconds that each transfer takes of that.
    fn wait(&mut self, until: f64) -> Vec<(i64, f64)> {
        let mut waited = Vec::new();
        while let Some(&(end, instruction)) = self.queue.front().filter(|_| self.moved < until) {
            let to = end.min(until).max(self.moved);
            waited.push((instruction, (to - self.moved) / self.rate));
            self.moved = to;
            if end <= to {
                self.queue.pop_front();
            }
        }
        waited
    }
}

/// A transfer under way: until how much has been moved on which channel.
#[derive(Clone, Copy)]
struct Flight {
    until: f64,
    on_interconnect: bool,
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
            memory: Channel { rate: chip.device_hbm_bandwidth(), ..Channel::default() },
            interconnect: Channel { rate: chip.device_ici_bandwidth(), ..Channel::default() },
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
        let all = std::iter::once(instruction).chain(inner);
        let sent = |it: &HloInstructionProto| collective::bytes(self.index, it, self.devices) * runs;
        all.filter_map(|it| Some((collective::kind(it)?.to_owned(), sent(it)))).collect()
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

/// Each line's part of each region, most time first.
fn lines(steps: &[Step], seconds: f64) -> Vec<LineCost> {
    let mut lines: HashMap<(&str, u32, &str), LineCost> = HashMap::new();
    for step in steps {
        for (source, share, part) in weights(step) {
            let new = || LineCost {
                source: source.clone(),
                flops: 0.0,
                hbm_bytes: 0.0,
                transcendentals: 0.0,
                seconds: 0.0,
                share: 0.0,
            };
            let line = lines.entry((&source.file, source.line, &source.module)).or_insert_with(new);
            if line.source.op != source.op {
                line.source.op.clear();
            }
            line.flops += share.work.flops * step.region.runs;
            line.transcendentals += share.work.transcendentals * step.region.runs;
            line.hbm_bytes += share.bytes * step.region.runs;
            line.seconds += step.region.seconds * part;
        }
    }
    let mut lines: Vec<LineCost> = lines.into_values().collect();
    lines.iter_mut().for_each(|line| line.share = if seconds > 0.0 { line.seconds / seconds } else { 0.0 });
    lines.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then_with(|| a.source.cmp(&b.source)));
    lines
}

/// A region's contributors and their parts of its time, which add up to one.
fn weights(step: &Step) -> Vec<(&Source, Share, f64)> {
    let of = |share: &Share| match step.region.bound.as_str() {
        "bandwidth" => share.bytes,
        _ => share.work.seconds(),
    };
    let total: f64 = step.shares.iter().map(|(_, share)| of(share)).sum();
    let part = |source: &Source, share: &Share| match total > 0.0 {
        true => of(share) / total,
        false => f64::from(u8::from(*source == step.region.source)),
    };
    step.shares.iter().map(|(source, share)| (source, *share, part(source, share))).collect()
}

/// Products that waste the matrix unit, those of one place and shape once, most wasted work first.
fn padding(steps: &[Step], chip: &Chip) -> Vec<Padding> {
    let mut wasted: BTreeMap<(&Source, [u64; 4]), (f64, &Product)> = BTreeMap::new();
    for step in steps {
        for (source, product) in &step.products {
            let waste = product.waste(chip);
            if waste >= LEAST_WASTE {
                let work = matrix::volume(product.padded(chip)) * waste * step.region.runs;
                wasted.entry((source, product.extents)).or_insert((0.0, product)).0 += work;
            }
        }
    }
    let mut wasted: Vec<_> = wasted.into_iter().collect();
    wasted.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
    let of = |((source, shape), (_, product)): ((&Source, [u64; 4]), (f64, &Product))| Padding {
        source: source.clone(),
        shape,
        padded: product.padded(chip),
        waste: product.waste(chip),
        advice: product.advice(chip),
    };
    wasted.into_iter().map(of).collect()
}

fn collectives(steps: &[Step]) -> Vec<Collective> {
    let mut kinds: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for step in steps {
        for (kind, bytes) in &step.collectives {
            let entry = kinds.entry(kind).or_default();
            entry.0 += step.region.runs;
            entry.1 += bytes;
        }
    }
    let collective = |(kind, (count, bytes)): (&str, (f64, f64))| Collective { kind: kind.to_owned(), count, bytes };
    kinds.into_iter().map(collective).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{array, at_line, computation, instruction, laid_out, module, tuple};
    use hlo::proto::{
        AxisRefProto, CollectiveDeviceListProto, DotDimensionNumbers, HloComputationProto, HloProto,
        IotaReplicaGroupListProto, LiteralProto, MeshAxesReplicaGroupListProto, MeshAxisProto, MeshProto, ReplicaGroup,
        ShapeProto,
    };

    const TILES: &[&[i64]] = &[&[8, 128]];

    fn hbm(dimensions: &[i64]) -> ShapeProto {
        laid_out("f32", dimensions, TILES, 0)
    }

    fn vmem(dimensions: &[i64]) -> ShapeProto {
        laid_out("f32", dimensions, TILES, 1)
    }

    fn analysed(computations: Vec<HloComputationProto>, devices: u32) -> Cost {
        let dump = HloProto { hlo_module: Some(module(computations)), buffer_assignment: None };
        let cost = crate::analyse(&dump, &Input { devices, ..crate::tests::input() }).1;
        let lines: f64 = cost.lines.iter().map(|it| it.seconds).sum();
        assert!((lines - cost.seconds).abs() <= cost.seconds * 1e-9, "lines share all of the time");
        cost
    }

    fn fused(id: i64, shape: ShapeProto, operands: &[i64], called: i64) -> HloInstructionProto {
        HloInstructionProto {
            called_computation_ids: vec![called],
            fusion_kind: "kLoop".to_owned(),
            ..instruction(id, "fusion", shape, operands)
        }
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= b.abs() * 1e-9, "{a} is not {b}");
    }

    #[test]
    fn a_product_is_bound_by_the_matrix_unit() {
        let numbers = DotDimensionNumbers {
            lhs_contracting_dimensions: vec![1],
            rhs_contracting_dimensions: vec![0],
            ..DotDimensionNumbers::default()
        };
        let dot = instruction(3, "dot", hbm(&[4096, 4000]), &[1, 2]);
        let dot = HloInstructionProto { dot_dimension_numbers: Some(numbers), ..at_line(dot, "m/aten.mm.default", 7) };
        let entry = vec![
            instruction(1, "parameter", hbm(&[4096, 4096]), &[]),
            instruction(2, "parameter", hbm(&[4096, 4000]), &[]),
            dot,
        ];
        let cost = analysed(vec![computation(1, entry)], 1);
        let region = &cost.regions[0];
        close(region.flops, 2.0 * 4096.0 * 4096.0 * 4000.0);
        close(region.hbm_bytes, 4.0 * 4096.0 * (4096.0 + 4096.0 + 4096.0) - 0.0);
        assert_eq!(region.bound, "matrix unit");
        // Rows pass in multiples of 8, so that the 4000 columns need no padding when they are the ones that pass.
        close(region.seconds, 2.0 * 4096.0 * 4096.0 * 4000.0 / 197e12 + LAUNCH);
        assert!(cost.padding.is_empty());
    }

    #[test]
    fn fusions_share_their_work_among_their_lines() {
        let body = vec![
            instruction(11, "parameter", hbm(&[1024, 1024]), &[]),
            at_line(instruction(12, "exponential", hbm(&[1024, 1024]), &[11]), "m/aten.exp.default", 1),
            at_line(instruction(13, "add", hbm(&[1024, 1024]), &[12, 12]), "m/aten.add.Tensor", 2),
        ];
        let entry = vec![instruction(1, "parameter", hbm(&[1024, 1024]), &[]), fused(2, hbm(&[1024, 1024]), &[1], 10)];
        let cost = analysed(vec![computation(10, body), computation(1, entry)], 1);
        let elements = 1024.0 * 1024.0;
        assert_eq!((cost.flops, cost.transcendentals, cost.hbm_bytes), (elements, elements, 8.0 * elements));
        assert_eq!(cost.regions[0].bound, "bandwidth");
        close(cost.seconds, 8.0 * elements / 819e9 + LAUNCH);
        let line = |line: u32| cost.lines.iter().find(|it| it.source.line == line).expect("a line");
        assert_eq!((line(1).transcendentals, line(1).flops, line(1).hbm_bytes), (elements, 0.0, 4.0 * elements));
        assert_eq!((line(2).transcendentals, line(2).flops, line(2).hbm_bytes), (0.0, elements, 4.0 * elements));
        close(line(1).share, 0.5);
    }

    #[test]
    fn slices_read_what_they_take_and_updates_write_what_they_change() {
        let body = vec![
            instruction(11, "parameter", hbm(&[1024, 1024]), &[]),
            HloInstructionProto { parameter_number: 1, ..instruction(12, "parameter", hbm(&[8, 1024]), &[]) },
            instruction(13, "slice", hbm(&[8, 1024]), &[11]),
            instruction(14, "add", hbm(&[8, 1024]), &[13, 12]),
            instruction(15, "dynamic-update-slice", hbm(&[1024, 1024]), &[11, 14]),
        ];
        let entry = vec![
            instruction(1, "parameter", hbm(&[1024, 1024]), &[]),
            instruction(2, "parameter", hbm(&[8, 1024]), &[]),
            fused(3, hbm(&[1024, 1024]), &[1, 2], 10),
            instruction(4, "dynamic-slice", vmem(&[8, 1024]), &[3]),
        ];
        let cost = analysed(vec![computation(10, body), computation(1, entry)], 1);
        let part = 8.0 * 1024.0 * 4.0;
        assert_eq!(cost.regions[0].hbm_bytes, 3.0 * part, "the slice, the other operand, the update");
        assert_eq!(cost.regions[1].hbm_bytes, part, "its result is in vector memory");
        assert_eq!(cost.regions[1].operands, ["fusion.3"]);
    }

    #[test]
    fn prefetches_take_what_computing_does_not_hide() {
        let counted = |shape: ShapeProto| tuple(&[shape, hbm(&[8192, 1024]), array("u32", &[])]);
        let entry = |between: Vec<HloInstructionProto>| {
            let mut entry = vec![
                instruction(1, "parameter", hbm(&[8192, 1024]), &[]),
                at_line(instruction(2, "copy-start", counted(vmem(&[8192, 1024])), &[1]), "", 1),
            ];
            entry.extend(between);
            entry.push(instruction(9, "copy-done", vmem(&[8192, 1024]), &[2]));
            analysed(vec![computation(1, entry)], 1)
        };
        let transfer = 8192.0 * 1024.0 * 4.0 / 819e9;
        close(entry(Vec::new()).seconds, transfer);
        let exponential = |id| instruction(id, "exponential", vmem(&[1024, 1024]), &[1]);
        let one = entry(vec![exponential(3)]);
        let computing = 1024.0 * 1024.0 / (1024.0 * 1.5e9) + LAUNCH;
        let operand = 8192.0 * 1024.0 * 4.0 / 819e9 + LAUNCH;
        assert_eq!(one.regions[1].bound, "bandwidth", "the operand is in HBM");
        close(one.regions[1].seconds, operand.max(computing));
        // While it reads its own operand, HBM has only the launch to spare for the prefetch.
        close(one.regions[0].seconds, transfer - LAUNCH);
        let on_chip = HloInstructionProto { operand_ids: Vec::new(), ..exponential(3) };
        let hidden = entry(vec![on_chip]);
        close(hidden.regions[0].seconds, (transfer - computing).max(0.0));
        close(hidden.hbm_bytes, 8192.0 * 1024.0 * 4.0);
    }

    #[test]
    fn loops_run_as_often_as_their_condition_says() {
        let state = || tuple(&[array("s32", &[]), vmem(&[1024, 1024])]);
        let get = |id: i64, of: i64, index: i64, shape: ShapeProto| HloInstructionProto {
            tuple_index: index,
            ..instruction(id, "get-tuple-element", shape, &[of])
        };
        let constant = |id: i64, value: i32| HloInstructionProto {
            literal: Some(LiteralProto { s32s: vec![value], ..LiteralProto::default() }),
            ..instruction(id, "constant", array("s32", &[]), &[])
        };
        let body = vec![
            instruction(11, "parameter", state(), &[]),
            get(12, 11, 1, vmem(&[1024, 1024])),
            instruction(13, "tanh", vmem(&[1024, 1024]), &[12]),
        ];
        let condition = vec![
            instruction(21, "parameter", state(), &[]),
            get(22, 21, 0, array("s32", &[])),
            constant(23, 12),
            instruction(24, "compare", array("pred", &[]), &[22, 23]),
        ];
        let entry = vec![
            instruction(1, "parameter", vmem(&[1024, 1024]), &[]),
            constant(2, 2),
            instruction(3, "tuple", state(), &[2, 1]),
            HloInstructionProto { called_computation_ids: vec![10, 20], ..instruction(4, "while", state(), &[3]) },
        ];
        let cost = analysed(vec![computation(10, body), computation(20, condition), computation(1, entry)], 1);
        let tanh = cost.regions.iter().find(|it| it.name == "tanh.13").expect("the body");
        assert_eq!((tanh.runs, tanh.transcendentals), (10.0, 10.0 * 1024.0 * 1024.0));
    }

    #[test]
    fn the_dearest_branch_counts() {
        let branch = |id: i64, op: &str, rows: i64| {
            let parameter = instruction(id + 1, "parameter", vmem(&[1024, 1024]), &[]);
            computation(id, vec![parameter, instruction(id + 2, op, vmem(&[rows, 1024]), &[id + 1])])
        };
        let entry = vec![
            instruction(1, "parameter", vmem(&[1024, 1024]), &[]),
            HloInstructionProto {
                called_computation_ids: vec![10, 20],
                ..instruction(2, "conditional", vmem(&[8, 1024]), &[1])
            },
        ];
        let cost = analysed(vec![branch(10, "tanh", 8), branch(20, "tanh", 1024), computation(1, entry)], 1);
        assert_eq!(cost.regions.len(), 1);
        assert_eq!(cost.transcendentals, 1024.0 * 1024.0);
    }

    #[test]
    fn collectives_send_what_rings_send() {
        let groups =
            vec![ReplicaGroup { replica_ids: vec![0, 1, 2, 3] }, ReplicaGroup { replica_ids: vec![4, 5, 6, 7] }];
        let iota = IotaReplicaGroupListProto { num_replica_groups: 1, num_devices_per_group: 8 };
        let axis = |size: i64| MeshAxisProto { size, ..MeshAxisProto::default() };
        let mesh = MeshAxesReplicaGroupListProto {
            mesh: Some(MeshProto { axes: vec![axis(8), axis(2)] }),
            axes: vec![AxisRefProto { mesh_axis_index: 1, sub_axis_info: None }],
        };
        let list = CollectiveDeviceListProto { iota_replica_group_list: Some(iota), ..Default::default() };
        let entry = vec![
            instruction(1, "parameter", hbm(&[1024, 1024]), &[]),
            HloInstructionProto { replica_groups: groups, ..instruction(2, "all-reduce", hbm(&[1024, 1024]), &[1]) },
            HloInstructionProto {
                collective_device_list: Some(list),
                ..instruction(3, "all-gather", hbm(&[8192, 1024]), &[1])
            },
            instruction(4, "reduce-scatter", hbm(&[64, 1024]), &[1]),
            HloInstructionProto {
                mesh_axes_replica_group_list: Some(mesh),
                ..instruction(5, "all-to-all", hbm(&[1024, 1024]), &[1])
            },
        ];
        let cost = analysed(vec![computation(1, entry)], 16);
        let size = 1024.0 * 1024.0 * 4.0;
        let sent: Vec<_> = cost.collectives.iter().map(|it| (it.kind.as_str(), it.count, it.bytes)).collect();
        let expected = [
            ("all-gather", 1.0, 7.0 * size),
            ("all-reduce", 1.0, 2.0 * 3.0 / 4.0 * size),
            ("all-to-all", 1.0, size / 2.0),
            ("reduce-scatter", 1.0, 15.0 / 16.0 * size),
        ];
        assert_eq!(sent, expected);
    }

    #[test]
    fn nonsense_is_survived() {
        let calls = |id: i64, opcode: &str, called: &[i64]| HloInstructionProto {
            called_computation_ids: called.to_vec(),
            ..instruction(id, opcode, tuple(&[]), &[id, -7])
        };
        let entry = vec![
            calls(1, "while", &[1, 1]),
            calls(2, "fusion", &[1, 99]),
            calls(3, "conditional", &[2]),
            calls(4, "call", &[2]),
            calls(5, "async-start", &[1]),
            calls(6, "copy-start", &[]),
            calls(7, "copy-done", &[]),
            instruction(8, "convolution", hbm(&[-1]), &[8, 8]),
            instruction(9, "sort", hbm(&[i64::MAX, i64::MAX]), &[]),
            HloInstructionProto { shape: None, ..instruction(10, "reduce", hbm(&[1]), &[1]) },
        ];
        let nested = computation(2, vec![calls(21, "while", &[2, 1]), calls(22, "fusion", &[2])]);
        analysed(vec![nested, computation(1, entry)], 0);
    }
}
