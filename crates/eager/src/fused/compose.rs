//! One graph of many calls.

use crate::fused::compile::Input;
use crate::fused::open::wire;
use ir::{Builder, DType, Error, Graph, InputKind, Loc, Op, OutputKind, Result, TensorType, ValueId};

/// A call's program, and the line that called it.
pub(crate) struct Part<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) loc: &'a Loc,
}

/// The program of a region, and what feeds it.
pub(crate) struct Composed {
    pub(crate) graph: Graph,
    pub(crate) inputs: Vec<Input>,
}

/// The graph that computes the live values of `parts`, which are wired as `stream` says.
///
/// # Errors
/// `Internal`, if the stream is not that of the parts.
pub(crate) fn compose(name: &str, parts: &[Part<'_>], stream: &[u64], live: &[bool]) -> Result<Composed> {
    let wires = Wires::of(parts, stream)?;
    let b = Builder::new(name);
    let mut inputs = vec![];
    let mut outer = vec![];
    for (i, ty) in wires.outer.iter().enumerate() {
        outer.push(b.input(format!("outer{i}"), InputKind::User, ty.clone()));
        inputs.push(Input::Outer(i));
    }
    let mut packed = |kind: Input, name: &str, ty: TensorType| {
        inputs.push(kind);
        b.input(name, InputKind::User, ty)
    };
    let floats = packed(Input::Floats, "floats", TensorType::new(DType::F64, [wires.floats]));
    let ints = packed(Input::Ints, "ints", TensorType::new(DType::I64, [wires.ints]));
    let seeds = packed(Input::Seeds, "seeds", TensorType::new(DType::U64, [wires.seeds, 2]));
    let mut made = Made { b: &b, outer, floats, ints, seeds, values: vec![], replaces: vec![], next: [0; 3] };
    for (part, words) in parts.iter().zip(&wires.calls) {
        made.call(part, words)?;
    }
    let kinds = made.kinds(live);
    for (i, (&value, kind)) in made.values.iter().zip(kinds).enumerate() {
        if live.get(i).copied().unwrap_or(true) {
            b.output(format!("value{i}"), kind, value);
        }
    }
    let (graph, kept) = b.finish().without_unused_inputs();
    Ok(Composed { graph, inputs: kept.into_iter().map(|i| inputs[i]).collect() })
}

/// A stream, taken apart.
pub(super) struct Wires<'a> {
    /// By call, the words of its inputs.
    pub(super) calls: Vec<&'a [u64]>,
    /// Types of what goes into the region.
    outer: Vec<TensorType>,
    floats: usize,
    ints: usize,
    seeds: usize,
}

impl<'a> Wires<'a> {
    pub(super) fn of(parts: &[Part<'_>], stream: &'a [u64]) -> Result<Wires<'a>> {
        let mut wires = Wires { calls: vec![], outer: vec![], floats: 0, ints: 0, seeds: 0 };
        let mut rest = stream;
        for part in parts {
            let count = part.graph.inputs.len();
            let words = rest.get(1..=count).ok_or_else(broken)?;
            rest = &rest[count + 1..];
            for (&word, input) in words.iter().zip(&part.graph.inputs) {
                match word & MASK {
                    wire::INNER => {}
                    wire::OUTER if (word >> wire::BITS) as usize == wires.outer.len() => {
                        wires.outer.push(part.graph.tensor_type(input.value).ok_or_else(broken)?.clone());
                    }
                    wire::OUTER => {}
                    wire::FLOAT => wires.floats += 1,
                    wire::INT => wires.ints += 1,
                    wire::SEED => wires.seeds += 1,
                    _ => return Err(broken()),
                }
            }
            wires.calls.push(words);
        }
        Ok(wires)
    }
}

const MASK: u64 = (1 << wire::BITS) - 1;

fn broken() -> Error {
    Error::internal("a region's stream is not that of its calls")
}

/// What was composed so far.
struct Made<'b> {
    b: &'b Builder,
    outer: Vec<ValueId>,
    floats: ValueId,
    ints: ValueId,
    seeds: ValueId,
    /// The region's values.
    values: Vec<ValueId>,
    /// By value: what goes into the region and has this value as a next one of its storage.
    replaces: Vec<Option<usize>>,
    /// Floats, integers and seeds taken so far.
    next: [usize; 3],
}

impl Made<'_> {
    fn call(&mut self, part: &Part<'_>, words: &[u64]) -> Result<()> {
        let graph = part.graph;
        let mut arguments = vec![];
        for &word in words {
            arguments.push(self.argument(word)?);
        }
        let mut map: Vec<ValueId> = Vec::with_capacity(graph.nodes().len());
        for node in graph.nodes() {
            let value = match node.op {
                Op::Input { index } => *arguments.get(index).ok_or_else(broken)?,
                ref op => {
                    let its = graph.locs.get(node.loc);
                    self.b.set_loc(&Loc { module: its.module.clone(), op: its.op.clone(), ..part.loc.clone() });
                    let operands: Vec<ValueId> = node.operands.iter().map(|v| map[v.index()]).collect();
                    self.b.push(op.clone(), &operands, node.bodies.clone())?
                }
            };
            map.push(value);
        }
        for (input, &value) in graph.inputs.iter().zip(&arguments) {
            if graph.tensor_type(input.value) != Some(&self.b.ty(value)?) {
                return Err(broken());
            }
        }
        for output in &graph.outputs {
            let replaces = match output.kind {
                OutputKind::Mutation(input) => self.replaced_by(words[input]),
                OutputKind::User => None,
            };
            self.values.push(map[output.value.index()]);
            self.replaces.push(replaces);
        }
        Ok(())
    }

    fn replaced_by(&self, word: u64) -> Option<usize> {
        let index = (word >> wire::BITS) as usize;
        match word & MASK {
            wire::OUTER => Some(index),
            wire::INNER => self.replaces.get(index).copied().flatten(),
            _ => None,
        }
    }

    fn argument(&mut self, word: u64) -> Result<ValueId> {
        let index = (word >> wire::BITS) as usize;
        match word & MASK {
            wire::INNER => self.values.get(index).copied().ok_or_else(broken),
            wire::OUTER => self.outer.get(index).copied().ok_or_else(broken),
            wire::FLOAT => self.unpack(self.floats, 0, &[]),
            wire::INT => self.unpack(self.ints, 1, &[]),
            _ => self.unpack(self.seeds, 2, &[2]),
        }
    }

    /// The next of packed numbers.
    fn unpack(&mut self, packed: ValueId, kind: usize, shape: &[usize]) -> Result<ValueId> {
        let i = self.next[kind];
        self.next[kind] += 1;
        self.b.reshape(self.b.slice_dim(packed, 0, i, i + 1, 1)?, shape)
    }

    /// What the values are as outputs: the last live one of a storage may take over its memory.
    fn kinds(&self, live: &[bool]) -> Vec<OutputKind> {
        let mut taken = vec![false; self.outer.len()];
        let mut kinds = vec![OutputKind::User; self.values.len()];
        for i in (0..kinds.len()).rev().filter(|&i| live.get(i).copied().unwrap_or(true)) {
            if let Some(input) = self.replaces[i]
                && !std::mem::replace(&mut taken[input], true)
            {
                kinds[i] = OutputKind::Mutation(input);
            }
        }
        kinds
    }
}
