//! What our regions are said to move, held against what libtpu's optimized program moves for them: `cargo run -p
//! torchtpu-driver --example regions TPUTC FILE...`
//!
//! Each FILE is a trace (`.json`) or a graph in the text form. It is optimized for a v5e and compiled by libtpu with each
//! op's region for its name, which XLA keeps in every instruction's metadata. Regions that one HLO fusion holds ops of are
//! held against it together, and a product that libtpu's own kernel (attention) took the place of with its readers. Of the
//! HLO counts what lies in HBM and what is handed through vector memory from one group of regions to another, padding
//! included. A value that several groups read is fetched from HBM for the one that takes most of it, handed to the others,
//! and made by none.

use fuse::Platform;
use fuse::regions::Region;
use hlo::proto::{HloComputationProto, HloInstructionProto, HloModuleProto, ShapeProto};
use ir::{Graph, Loc, Op, ValueId};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use target::Target;
use torchtpu_driver::{Ahead, DimValues, Options, Program as Traced, machine};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let tputc = PathBuf::from(args.next().ok_or("regions TPUTC FILE...")?);
    let launcher = aot::Launcher { program: tputc, arguments: vec!["worker".into()] };
    let pool = aot::Pool::new(launcher, aot::libtpu(None)?, Duration::from_secs(600));
    let target: Target = "v5e:1x1".parse().map_err(|_| "no such target")?;
    println!(
        "{:<24} {:<44} {:>12} {:>12} {:>12} {:>8}",
        "program", "regions", "predicted", "libtpu", "in HBM", "off by"
    );
    let (mut groups, mut near, mut bytes, mut near_bytes) = (0, 0, 0.0, 0.0);
    for file in args {
        let name = Path::new(&file).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for row in compare(&file, &target, &pool)? {
            let off = (row.predicted - row.moved) / row.moved.max(1.0);
            println!(
                "{name:<24} {:<44} {:>12.0} {:>12.0} {:>12.0} {:>7.1}%",
                row.name,
                row.predicted,
                row.moved,
                row.hbm,
                100.0 * off
            );
            let is_near = off.abs() <= 0.2;
            (groups, bytes) = (groups + 1, bytes + row.moved);
            (near, near_bytes) = (near + usize::from(is_near), near_bytes + if is_near { row.moved } else { 0.0 });
        }
    }
    println!(
        "{near} of {groups} groups are within 20%, which move {:.1}% of the bytes",
        100.0 * near_bytes / bytes.max(1.0)
    );
    Ok(())
}

/// Regions that fusions of libtpu's hold together.
struct Row {
    name: String,
    predicted: f64,
    moved: f64,
    hbm: f64,
}

fn compare(file: &str, target: &Target, pool: &aot::Pool) -> Outcome<Vec<Row>> {
    let mut graph = optimized(file)?;
    let machine = machine(target.chip());
    let regions = fuse::regions::regions(&graph, &machine);
    name_by_region(&mut graph, &regions);
    let options = lower::LowerOptions { locations: true, ..lower::LowerOptions::default() };
    let ahead = Ahead::of_stablehlo(lower::lower(&graph, &options)?.bytecode(), file, target, pool)?;
    let dump = ahead.outcome.dump.as_ref().and_then(|d| d.hlo_module.as_ref()).ok_or("libtpu left no program")?;
    let report = ahead.report("regions");
    let hbm: BTreeMap<String, f64> =
        report.cost.iter().flat_map(|c| &c.regions).map(|r| (r.name.clone(), r.hbm_bytes)).collect();
    let size = |v: ValueId| machine.bytes(graph.ty(v));
    Ok(Program::new(dump, &graph, &regions).rows(&graph, &regions, &size, &hbm))
}

fn optimized(file: &str) -> Outcome<Graph> {
    if file.ends_with(".json") {
        let traced = Traced::from_bytes(std::fs::read(file)?, Options::default())?;
        return Ok(traced.rewritten(&DimValues::default(), Platform::Tpu)?.after);
    }
    let before = ir::text::parse(&std::fs::read_to_string(file)?)?;
    let options = fuse::Options { platform: Platform::Tpu, ..fuse::Options::default() };
    Ok(fuse::optimize(&before, options)?.0)
}

/// Each op's region for its name, and of products that they are. What is remade has none: it says nothing of where a
/// region begins.
fn name_by_region(graph: &mut Graph, regions: &[Region]) {
    let remade: BTreeSet<ValueId> = regions.iter().flat_map(|r| r.remade.iter().copied()).collect();
    let nowhere = graph.locs.intern(&Loc::default());
    for (i, region) in regions.iter().enumerate() {
        let [plain, product] =
            ["", "p"].map(|end| graph.locs.intern(&Loc { op: format!("r{i}{end}").into(), ..Loc::default() }));
        for &v in &region.members {
            let loc = match graph.node(v).op {
                _ if remade.contains(&v) => nowhere,
                Op::DotGeneral(_) | Op::Convolution(_) => product,
                _ => plain,
            };
            graph.set_loc(v, loc);
        }
    }
}

/// The region that an instruction's name tells, and whether it is a product.
fn region_in(instruction: &HloInstructionProto) -> Option<(usize, bool)> {
    let name = instruction.metadata.as_ref()?.op_name.rsplit('/').next()?.strip_prefix('r')?;
    let number = name.trim_end_matches('p');
    Some((number.parse().ok()?, number.len() < name.len()))
}

/// The entry computation, and which regions its instructions are of.
struct Program<'p> {
    entry: &'p HloComputationProto,
    computations: BTreeMap<i64, &'p HloComputationProto>,
    by_id: BTreeMap<i64, &'p HloInstructionProto>,
    /// By instruction: the regions of its ops.
    regions: BTreeMap<i64, BTreeSet<usize>>,
    /// By region: one that stands for all that are fused with it.
    group: Vec<usize>,
}

impl<'p> Program<'p> {
    fn new(module: &'p HloModuleProto, graph: &Graph, regions: &[Region]) -> Program<'p> {
        let computations: BTreeMap<i64, &HloComputationProto> = module.computations.iter().map(|c| (c.id, c)).collect();
        let entry = computations[&module.entry_computation_id];
        let by_id = entry.instructions.iter().map(|i| (i.id, i)).collect();
        let group = (0..regions.len()).collect();
        let mut program = Program { entry, computations, by_id, regions: BTreeMap::new(), group };
        for instruction in &entry.instructions {
            let mut found = BTreeSet::new();
            collect(instruction, &program.computations, &mut found);
            // What fills memory by itself is not computed along with others.
            found.extend(region_in(instruction).filter(|_| instruction.opcode == "broadcast").map(|r| r.0));
            program.join(&found);
            program.regions.insert(instruction.id, found);
        }
        let seen: BTreeSet<usize> = module
            .computations
            .iter()
            .flat_map(|c| &c.instructions)
            .filter_map(region_in)
            .filter(|r| r.1)
            .map(|r| r.0)
            .collect();
        let is_product = |r: &Region| matches!(graph.node(r.root).op, Op::DotGeneral(_) | Op::Convolution(_));
        for (i, region) in regions.iter().enumerate().filter(|(i, r)| is_product(r) && !seen.contains(i)) {
            let reads = |r: &Region| r.inputs.iter().any(|(v, _)| region.outputs.contains(v));
            let readers = regions.iter().enumerate().filter(|(_, r)| reads(r)).map(|(j, _)| j);
            program.join(&readers.chain([i]).collect());
        }
        program
    }

    fn join(&mut self, regions: &BTreeSet<usize>) {
        let Some(first) = regions.first().map(|&r| self.group[r]) else { return };
        let joined: Vec<usize> = regions.iter().map(|&r| self.group[r]).collect();
        self.group.iter_mut().filter(|g| joined.contains(g)).for_each(|g| *g = first);
    }

    /// What only moves a value has the group of a user, else of its operand.
    fn group_of(&self, instruction: &HloInstructionProto) -> Option<usize> {
        self.own_group(instruction.id)
            .or_else(|| self.group_of_user(instruction.id, 8))
            .or_else(|| instruction.operand_ids.iter().find_map(|&id| self.own_group(self.made_by(id))))
    }

    fn own_group(&self, id: i64) -> Option<usize> {
        self.regions.get(&id)?.first().map(|&r| self.group[r])
    }

    /// Of the groups that use what is moved, the first of those that take most of it: a table is fetched for the product
    /// that reads all of it, not for the gather that reads some rows.
    fn group_of_user(&self, id: i64, depth: usize) -> Option<usize> {
        let mut most: Option<(f64, usize)> = None;
        for (bytes, group) in self.takers(id, depth) {
            if most.is_none_or(|(least, _)| bytes > least) {
                most = Some((bytes, group));
            }
        }
        most.map(|(_, group)| group)
    }

    /// What groups take of the value `id` in vector memory: those that use it, then those behind other moves.
    fn takers(&self, id: i64, depth: usize) -> Vec<(f64, usize)> {
        let users = self.entry.instructions.iter().filter(|i| i.operand_ids.contains(&id));
        let (owned, moves): (Vec<_>, Vec<_>) = users.partition(|user| self.own_group(user.id).is_some());
        let taken = |user: &HloInstructionProto| {
            let places = (0..user.operand_ids.len()).filter(|&place| user.operand_ids[place] == id);
            Some((places.map(|place| self.taken(user, place)).fold(0.0, f64::max), self.own_group(user.id)?))
        };
        let deeper = moves.iter().filter(|_| depth > 0).flat_map(|user| self.takers(user.id, depth - 1));
        owned.into_iter().filter_map(taken).chain(deeper).collect()
    }

    /// The instruction whose result `id` is under another name or shape.
    fn made_by(&self, id: i64) -> i64 {
        let Some(instruction) = self.by_id.get(&id) else { return id };
        let op = instruction.opcode.as_str();
        match instruction.operand_ids.first() {
            Some(&operand) if renames(op) => self.made_by(operand),
            _ => id,
        }
    }

    /// The value that `id` is under another name: an instruction's result, or an element of one.
    fn value(&self, id: i64) -> i64 {
        let Some(instruction) = self.by_id.get(&id) else { return id };
        match instruction.operand_ids.first() {
            Some(&operand) if renames(&instruction.opcode) && instruction.opcode != "get-tuple-element" => {
                self.value(operand)
            }
            _ => id,
        }
    }

    /// Bytes in vector memory that `instruction` takes of its operand at `place`.
    fn taken(&self, instruction: &HloInstructionProto, place: usize) -> f64 {
        let operand = instruction.operand_ids.get(place).and_then(|id| self.by_id.get(id));
        let whole = operand.and_then(|o| o.shape.as_ref()).map_or(0.0, in_vmem);
        let Some(inner) = instruction.called_computation_ids.first().and_then(|id| self.computations.get(id)) else {
            return whole;
        };
        let is_it = |i: &&HloInstructionProto| i.opcode == "parameter" && i.parameter_number == place as i64;
        let Some(parameter) = inner.instructions.iter().find(is_it) else { return whole };
        let users = inner.instructions.iter().filter(|i| i.operand_ids.contains(&parameter.id));
        let part = |i: &HloInstructionProto| match i.opcode.as_str() {
            "gather" | "slice" | "dynamic-slice" if i.operand_ids.first() == Some(&parameter.id) => {
                i.shape.as_ref().map(padded)
            }
            _ => None,
        };
        users.map(part).sum::<Option<f64>>().map_or(whole, |parts| parts.min(whole))
    }

    fn rows(
        &self,
        graph: &Graph,
        regions: &[Region],
        size: &dyn Fn(ValueId) -> u64,
        hbm: &BTreeMap<String, f64>,
    ) -> Vec<Row> {
        let mut rows: BTreeMap<usize, Row> = BTreeMap::new();
        for (i, &group) in self.group.iter().enumerate() {
            let row =
                rows.entry(group).or_insert_with(|| Row { name: String::new(), predicted: 0.0, moved: 0.0, hbm: 0.0 });
            row.name = if row.name.is_empty() {
                regions[i].name.clone()
            } else {
                format!("{} & {}", row.name, regions[i].name)
            };
        }
        for (&group, row) in &mut rows {
            row.predicted = self.predicted(graph, regions, size, group);
        }
        self.add_moved(&mut rows, hbm);
        rows.into_values().collect()
    }

    /// Adds what each group's instructions move in HBM and hand to others through vector memory.
    fn add_moved(&self, rows: &mut BTreeMap<usize, Row>, hbm: &BTreeMap<String, f64>) {
        // By value and reading group: what the group takes.
        let mut handed: BTreeMap<(i64, usize), f64> = BTreeMap::new();
        for instruction in &self.entry.instructions {
            let Some(group) = self.group_of(instruction) else { continue };
            let in_hbm = hbm.get(&instruction.name).copied().unwrap_or(0.0);
            rows.entry(group).and_modify(|r| (r.moved, r.hbm) = (r.moved + in_hbm, r.hbm + in_hbm));
            if renames(&instruction.opcode) || instruction.opcode == "tuple" {
                continue;
            }
            for (place, &operand) in instruction.operand_ids.iter().enumerate() {
                let most = handed.entry((self.value(operand), group)).or_default();
                *most = most.max(self.taken(instruction, place));
            }
        }
        let mut written = BTreeSet::new();
        for ((value, group), bytes) in handed {
            let [made, maker] = [value, self.made_by(value)].map(|id| self.by_id.get(&id));
            let (Some(made), Some(maker)) = (made, maker) else { continue };
            let Some(from) = self.group_of(maker).filter(|&g| g != group && bytes > 0.0) else { continue };
            rows.entry(group).and_modify(|r| r.moved += bytes);
            if !self.is_fetched(maker) && written.insert(value) {
                let size = made.shape.as_ref().map_or(0.0, in_vmem);
                rows.entry(from).and_modify(|r| r.moved += size);
            }
        }
    }

    /// Whether `instruction` brings a value into vector memory, and does not lay out anew what is there.
    fn is_fetched(&self, instruction: &HloInstructionProto) -> bool {
        let from = instruction.operand_ids.first().and_then(|id| self.by_id.get(id)).and_then(|i| i.shape.as_ref());
        match instruction.opcode.as_str() {
            "copy" => from.is_none_or(|shape| in_vmem(shape) == 0.0),
            op => matches!(op, "copy-start" | "async-start"),
        }
    }

    /// How often a group's instructions read the program's input `number` where it lies. What is fetched in slices is read
    /// once by all of them.
    fn times_input_is_read(&self, number: usize, group: usize) -> usize {
        let is_input = |id: i64| {
            let made = self.by_id.get(&self.value(id));
            made.is_some_and(|i| i.opcode == "parameter" && i.parameter_number == number as i64)
        };
        let reads = |i: &&HloInstructionProto| !renames(&i.opcode) && i.operand_ids.iter().any(|&id| is_input(id));
        let readers = self.entry.instructions.iter().filter(reads).filter(|i| self.group_of(i) == Some(group));
        readers.map(|i| self.part_fetched(i)).sum::<f64>().round() as usize
    }

    /// How much of its operand an instruction reads, if it brings a slice of it into vector memory; else all.
    fn part_fetched(&self, instruction: &HloInstructionProto) -> f64 {
        let Some(inner) = instruction.called_computation_ids.first().and_then(|id| self.computations.get(id)) else {
            return 1.0;
        };
        let shape = |i: Option<&&HloInstructionProto>| i.and_then(|i| i.shape.as_ref()).map(padded);
        let whole = instruction.operand_ids.first().and_then(|id| self.by_id.get(id));
        let slice = inner.instructions.iter().find(|i| i.id == inner.root_id && i.opcode == "slice");
        match (instruction.opcode.as_str(), shape(slice.as_ref()), shape(whole)) {
            ("async-start", Some(part), Some(whole)) if whole > 0.0 => part / whole,
            _ => 1.0,
        }
    }

    /// What the regions of a group read from outside and write for others. An input of the program that several of them read
    /// is read as often as libtpu's program has them read it: by the fusions that hold them, or once for all of them.
    fn predicted(&self, graph: &Graph, regions: &[Region], size: &dyn Fn(ValueId) -> u64, group: usize) -> f64 {
        let of: Vec<&Region> = (0..regions.len()).filter(|&i| self.group[i] == group).map(|i| &regions[i]).collect();
        if let [only] = of[..] {
            return only.moved() as f64;
        }
        let is_made = |v: &ValueId| of.iter().any(|r| r.outputs.contains(v));
        let mut read: BTreeMap<ValueId, Vec<u64>> = BTreeMap::new();
        for (v, bytes) in of.iter().flat_map(|r| &r.inputs).map(|(v, b)| (before_barriers(graph, *v), *b)) {
            if !is_made(&v) {
                read.entry(v).or_default().push(bytes);
            }
        }
        let taken = read.into_iter().map(|(v, mut each)| {
            each.sort_unstable_by(|a, b| b.cmp(a));
            let readers = match graph.inputs.iter().position(|i| i.value == v) {
                Some(number) if each.len() > 1 => self.times_input_is_read(number, group).max(1),
                _ => 1,
            };
            each.iter().take(readers).sum::<u64>()
        });
        let outside = |v: &ValueId| {
            let readers = regions.iter().enumerate().filter(|(_, r)| r.inputs.iter().any(|(i, _)| i == v));
            graph.outputs.iter().any(|o| o.value == *v) || readers.into_iter().any(|(i, _)| self.group[i] != group)
        };
        let times = |v: &ValueId| graph.outputs.iter().filter(|o| o.value == *v).count().max(1) as u64;
        let from_outside = |r: &Region| !graph.node(r.root).operands.first().is_some_and(is_made);
        let written = of.iter().map(|r| match r.outputs[..] {
            // Less than all of it, if it is updated where it lies, and was not made along with it.
            [only] if outside(&only) && from_outside(r) => r.written,
            _ => r.outputs.iter().filter(|v| outside(v)).map(|v| times(v) * size(*v)).sum(),
        });
        (taken.sum::<u64>() + written.sum::<u64>()) as f64
    }
}

/// The value that `value` is: barriers are nothing at run time.
fn before_barriers(graph: &Graph, value: ValueId) -> ValueId {
    match (&graph.node(value).op, graph.node(value).operands.first()) {
        (Op::OptimizationBarrier, Some(&before)) => before_barriers(graph, before),
        _ => value,
    }
}

/// The regions that the names in an instruction's metadata, and in what it calls, tell.
fn collect(instruction: &HloInstructionProto, all: &BTreeMap<i64, &HloComputationProto>, found: &mut BTreeSet<usize>) {
    if !matches!(
        instruction.opcode.as_str(),
        "parameter" | "constant" | "broadcast" | "iota" | "bitcast" | "convert" | "tuple"
    ) {
        found.extend(region_in(instruction).map(|r| r.0));
    }
    for computation in instruction.called_computation_ids.iter().filter_map(|id| all.get(id)) {
        computation.instructions.iter().for_each(|inner| collect(inner, all, found));
    }
}

/// Whether an instruction only gives its operand another name or shape.
fn renames(opcode: &str) -> bool {
    matches!(opcode, "bitcast" | "get-tuple-element" | "async-update") || opcode.ends_with("-done")
}

/// Bytes of the arrays in a shape that lie in vector memory.
fn in_vmem(shape: &ShapeProto) -> f64 {
    if !shape.tuple_shapes.is_empty() {
        return shape.tuple_shapes.iter().map(in_vmem).sum();
    }
    let is_vmem = shape.layout.as_ref().is_some_and(|l| l.memory_space == 1);
    if is_vmem { padded(shape) } else { 0.0 }
}

/// Bytes of an array in the tiles of its layout. Those within tiles pack narrow elements and pad no further.
fn padded(shape: &ShapeProto) -> f64 {
    let layout = shape.layout.clone().unwrap_or_default();
    let mut extents: Vec<i64> = layout.minor_to_major.iter().map(|&d| shape.dimensions[d as usize]).collect();
    for (extent, tile) in extents.iter_mut().zip(layout.tiles.iter().take(1).flat_map(|t| t.dimensions.iter().rev())) {
        *extent = (*extent as u64).next_multiple_of((*tile).max(1) as u64) as i64;
    }
    let elements: f64 = extents.iter().map(|&e| e as f64).product();
    elements * f64::from(hlo::primitive::bits(shape.element_type)) / 8.0
}
