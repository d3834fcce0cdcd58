//! What our regions are said to move, held against what libtpu's optimized program moves for them: `cargo run -p
//! torchtpu-driver --example regions TPUTC FILE...`
//!
//! Each FILE is a graph in the text form. It is optimized for a v5e and compiled by libtpu with each op's region for its
//! name, which XLA keeps in every instruction's metadata. Regions that one HLO fusion holds ops of are held against it
//! together. Of the HLO counts what lies in HBM, padding included, and what is handed through vector memory from one
//! group of regions to another.

use fuse::regions::Region;
use fuse::{Options, Platform};
use hlo::proto::{HloComputationProto, HloInstructionProto, HloModuleProto, ShapeProto};
use ir::{Graph, Loc, ValueId};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use target::Target;
use torchtpu_driver::{Ahead, machine};

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
    let before = ir::text::parse(&std::fs::read_to_string(file)?)?;
    let (mut graph, _) = fuse::optimize(&before, Options { platform: Platform::Tpu, ..Options::default() })?;
    let regions = fuse::regions::regions(&graph, &machine(target.chip()));
    for (i, region) in regions.iter().enumerate() {
        let loc = graph.locs.intern(&Loc { op: format!("r{i}").into(), ..Loc::default() });
        region.members.iter().for_each(|&v| graph.set_loc(v, loc));
    }
    let options = lower::LowerOptions { locations: true, ..lower::LowerOptions::default() };
    let ahead = Ahead::of_stablehlo(lower::lower(&graph, &options)?.bytecode(), target, pool)?;
    let dump = ahead.outcome.dump.as_ref().and_then(|d| d.hlo_module.as_ref()).ok_or("libtpu left no program")?;
    let report = ahead.report("regions");
    let hbm: BTreeMap<String, f64> =
        report.cost.iter().flat_map(|c| &c.regions).map(|r| (r.name.clone(), r.hbm_bytes)).collect();
    Ok(Program::new(dump, regions.len()).rows(&graph, &regions, &hbm))
}

/// The entry computation, and which regions its instructions are of.
struct Program<'p> {
    entry: &'p HloComputationProto,
    by_id: BTreeMap<i64, &'p HloInstructionProto>,
    /// By instruction: the regions of its ops.
    regions: BTreeMap<i64, BTreeSet<usize>>,
    /// By region: one that stands for all that are fused with it.
    group: Vec<usize>,
}

impl<'p> Program<'p> {
    fn new(module: &'p HloModuleProto, regions: usize) -> Program<'p> {
        let computations: BTreeMap<i64, &HloComputationProto> = module.computations.iter().map(|c| (c.id, c)).collect();
        let entry = computations[&module.entry_computation_id];
        let by_id = entry.instructions.iter().map(|i| (i.id, i)).collect();
        let mut program = Program { entry, by_id, regions: BTreeMap::new(), group: (0..regions).collect() };
        for instruction in &entry.instructions {
            let mut found = BTreeSet::new();
            collect(instruction, &computations, &mut found);
            program.regions.insert(instruction.id, found);
        }
        let fused: Vec<BTreeSet<usize>> = program.regions.values().cloned().collect();
        for set in fused {
            let first = set.first().map_or(0, |&r| program.group[r]);
            let joined: Vec<usize> = set.iter().map(|&r| program.group[r]).collect();
            program.group.iter_mut().filter(|g| joined.contains(g)).for_each(|g| *g = first);
        }
        program
    }

    /// What only moves a value has the group of its first user, else of its operand.
    fn group_of(&self, instruction: &HloInstructionProto) -> Option<usize> {
        self.own_group(instruction.id)
            .or_else(|| self.group_of_user(instruction.id, 8))
            .or_else(|| instruction.operand_ids.iter().find_map(|&id| self.own_group(self.made_by(id))))
    }

    fn own_group(&self, id: i64) -> Option<usize> {
        self.regions.get(&id)?.first().map(|&r| self.group[r])
    }

    fn group_of_user(&self, id: i64, depth: usize) -> Option<usize> {
        let users: Vec<&HloInstructionProto> =
            self.entry.instructions.iter().filter(|i| i.operand_ids.contains(&id)).collect();
        let own = users.iter().find_map(|u| self.own_group(u.id));
        own.or_else(|| if depth == 0 { None } else { users.iter().find_map(|u| self.group_of_user(u.id, depth - 1)) })
    }

    /// The instruction whose result `id` is under another name or shape.
    fn made_by(&self, id: i64) -> i64 {
        let Some(instruction) = self.by_id.get(&id) else { return id };
        let op = instruction.opcode.as_str();
        let renames = matches!(op, "bitcast" | "get-tuple-element" | "async-update") || op.ends_with("-done");
        match instruction.operand_ids.first() {
            Some(&operand) if renames => self.made_by(operand),
            _ => id,
        }
    }

    fn rows(&self, graph: &Graph, regions: &[Region], hbm: &BTreeMap<String, f64>) -> Vec<Row> {
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
            row.predicted = self.predicted(graph, regions, group);
        }
        // Values that are handed on through vector memory, by maker and reading group.
        let mut handed: BTreeSet<(i64, usize)> = BTreeSet::new();
        for instruction in &self.entry.instructions {
            let Some(group) = self.group_of(instruction) else { continue };
            let Some(row) = rows.get_mut(&group) else { continue };
            let in_hbm = hbm.get(&instruction.name).copied().unwrap_or(0.0);
            (row.moved, row.hbm) = (row.moved + in_hbm, row.hbm + in_hbm);
            for &operand in &instruction.operand_ids {
                let maker = self.made_by(operand);
                let from = self.by_id.get(&maker).and_then(|m| self.group_of(m)).filter(|&g| g != group);
                let size = self.by_id.get(&operand).and_then(|o| o.shape.as_ref()).map_or(0.0, in_vmem);
                if let Some(from) = from
                    && size > 0.0
                    && handed.insert((operand, group))
                {
                    let is_first = handed.iter().filter(|(o, _)| *o == operand).count() == 1;
                    rows.entry(group).and_modify(|r| r.moved += size);
                    rows.entry(from).and_modify(|r| r.moved += if is_first { size } else { 0.0 });
                }
            }
        }
        rows.into_values().collect()
    }

    /// What the regions of a group read from outside and write for others.
    fn predicted(&self, graph: &Graph, regions: &[Region], group: usize) -> f64 {
        let of: Vec<&Region> = (0..regions.len()).filter(|&i| self.group[i] == group).map(|i| &regions[i]).collect();
        if let [only] = of[..] {
            return only.moved() as f64;
        }
        let is_made = |v: &ValueId| of.iter().any(|r| r.outputs.contains(v));
        let mut read: BTreeMap<ValueId, u64> = BTreeMap::new();
        for (v, bytes) in of.iter().flat_map(|r| &r.inputs).filter(|(v, _)| !is_made(v)) {
            let most = read.entry(*v).or_default();
            *most = (*most).max(*bytes);
        }
        let outside = |v: &ValueId| {
            let readers = regions.iter().enumerate().filter(|(_, r)| r.inputs.iter().any(|(i, _)| i == v));
            graph.outputs.iter().any(|o| o.value == *v) || readers.into_iter().any(|(i, _)| self.group[i] != group)
        };
        let size = |v: &ValueId| graph.tensor_type(*v).map_or(0, |t| t.size_in_bytes() as u64);
        let written: u64 = of.iter().flat_map(|r| &r.outputs).filter(|v| outside(v)).map(size).sum();
        (read.values().sum::<u64>() + written) as f64
    }
}

/// The regions that the names in an instruction's metadata, and in what it calls, tell.
fn collect(instruction: &HloInstructionProto, all: &BTreeMap<i64, &HloComputationProto>, found: &mut BTreeSet<usize>) {
    let name = instruction.metadata.as_ref().map_or("", |m| m.op_name.rsplit('/').next().unwrap_or(""));
    if !matches!(
        instruction.opcode.as_str(),
        "parameter" | "constant" | "broadcast" | "iota" | "bitcast" | "convert" | "tuple"
    ) {
        found.extend(name.strip_prefix('r').and_then(|n| n.parse::<usize>().ok()));
    }
    for computation in instruction.called_computation_ids.iter().filter_map(|id| all.get(id)) {
        computation.instructions.iter().for_each(|inner| collect(inner, all, found));
    }
}

/// Bytes of the arrays in a shape that lie in vector memory.
fn in_vmem(shape: &ShapeProto) -> f64 {
    if !shape.tuple_shapes.is_empty() {
        return shape.tuple_shapes.iter().map(in_vmem).sum();
    }
    let is_vmem = shape.layout.as_ref().is_some_and(|l| l.memory_space == 1);
    let elements: f64 = shape.dimensions.iter().map(|&d| d as f64).product();
    if is_vmem { elements * f64::from(hlo::primitive::bits(shape.element_type)) / 8.0 } else { 0.0 }
}
