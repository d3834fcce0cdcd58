//! Calls whose sizes never come again, computed without a program.
//!
//! Where sizes are data (a batch of graphs, boxes that were kept, a text that grows), each call of a form compiles a program that is
//! never needed again. So of calls of the same op, types and ranks, once new forms came in [`MANY`] turns, the next is not compiled
//! but evaluated ([`ir::eval`]), as long as that takes less than compiling would. A turn is what comes between two reads, uploads or
//! synchronisations, such as a step: the first one of a model whose sizes stay has all its forms. A form that does come again is
//! evaluated until all its calls together have taken as long as compiling it: whichever way it goes, at most twice the time of the
//! better one is lost. Which calls these are hangs on nothing but the calls before them.

use crate::cells::Held;
use crate::core::{Core, Mode};
use crate::error::{Error, Result};
use crate::plan::Kernel;
use ir::op::Binary;
use ir::{Graph, Literal, Node, Op, ValueId};
use runtime::Buffer;
use rustc_hash::{FxHashMap, FxHasher};
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Turns with new forms of a family, all of which are compiled.
const MANY: u32 = 5;
/// `0`: calls are never evaluated. `1`: as said above, as when it is not set. `always`: all that are not too long. For tests.
const CHOICE: &str = "TORCHTPU_INTERPRET";
/// Nanoseconds that compiling a program is taken to cost, and each of its ops: on two processors, the CPU plugin takes 10 ms for an
/// addition and 25 for a softmax.
const PROGRAM: u64 = 10_000_000;
const OP: u64 = 1_000_000;

/// Which calls are evaluated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Choice {
    Never,
    Data,
    Always,
}

impl Choice {
    fn made() -> Result<Choice> {
        let said = std::env::var_os(CHOICE).unwrap_or_default();
        match said.to_string_lossy().as_ref() {
            "0" => Ok(Choice::Never),
            "" | "1" => Ok(Choice::Data),
            "always" => Ok(Choice::Always),
            other => Err(Error::new(format!("{CHOICE} must be `0`, `1` or `always`, not {other:?}"))),
        }
    }
}

/// Calls that differ in sizes, and in what hangs on these: see [`family`].
#[derive(Default)]
struct Family {
    /// Turns in which a new form came, and the last of them.
    turns: u32,
    last: u64,
}

/// All families that came.
pub(crate) struct Families {
    choice: Choice,
    /// How often something was read, uploaded or waited for.
    turn: u64,
    families: FxHashMap<u64, Family>,
}

impl Families {
    /// None yet. On other platforms than the host's own processor nothing is evaluated.
    ///
    /// # Errors
    /// When the environment chooses what there is not.
    pub(crate) fn new(on_cpu: bool) -> Result<Families> {
        let choice = if on_cpu { Choice::made()? } else { Choice::Never };
        Ok(Families::with(choice))
    }

    fn with(choice: Choice) -> Families {
        Families { choice, turn: 1, families: FxHashMap::default() }
    }

    /// All calls are evaluated that are short enough.
    #[cfg(test)]
    pub(crate) fn always() -> Families {
        Families::with(Choice::Always)
    }

    /// Something is read, uploaded or waited for.
    pub(crate) fn turn(&mut self) {
        self.turn += 1;
    }

    /// Counts a form that is new, and says how it is to be evaluated, if it is.
    pub(crate) fn meet(&mut self, graph: &Graph) -> Option<Rent> {
        if self.choice == Choice::Never {
            return None;
        }
        let family = self.families.entry(family(graph)).or_default();
        if family.last != self.turn {
            (family.turns, family.last) = (family.turns + 1, self.turn);
        }
        let comes = family.turns > MANY || self.choice == Choice::Always;
        let (work, price) =
            if comes && keeps_draws(graph) { (ir::eval::work(graph)?, price(graph)) } else { return None };
        let limit = if self.choice == Choice::Always { u64::MAX } else { price };
        (work <= price / 2).then(|| Rent { work: work.max(1), limit, spent: AtomicU64::new(0) })
    }
}

/// What has been paid for a form without a program.
pub(crate) struct Rent {
    /// Nanoseconds of one call, of all before there is a program, and of those that came.
    work: u64,
    limit: u64,
    spent: AtomicU64,
}

/// How a call is to be computed.
#[derive(PartialEq, Eq, Debug)]
enum Pay {
    Evaluate,
    /// And have the program compiled for the next one.
    Last,
    Execute,
}

impl Rent {
    /// For a call whose turn has come: one thread does at a time.
    fn pay(&self) -> Pay {
        let before = self.spent.load(Ordering::Relaxed);
        if before >= self.limit {
            return Pay::Execute;
        }
        let after = before.saturating_add(self.work);
        self.spent.store(after, Ordering::Relaxed);
        if after >= self.limit { Pay::Last } else { Pay::Evaluate }
    }

    /// From now on there is a program.
    fn end(&self) {
        self.spent.store(self.limit, Ordering::Relaxed);
    }

    /// Whether the program has been sent for.
    pub(crate) fn is_over(&self) -> bool {
        self.spent.load(Ordering::Relaxed) >= self.limit
    }
}

/// Tells families apart: the name, and of which element types and ranks what goes in is and what comes out. Not how many: a list may
/// have another length each time. Nor which ops there are: these may hang on the sizes.
fn family(graph: &Graph) -> u64 {
    let mut hasher = FxHasher::default();
    graph.name.hash(&mut hasher);
    for types in [graph.input_types().collect::<Vec<_>>(), graph.output_types().collect()] {
        let kinds: BTreeSet<_> = types.iter().flat_map(|ty| ty.tensors()).map(|t| (t.dtype, t.rank())).collect();
        kinds.hash(&mut hasher);
    }
    hasher.finish()
}

/// Nanoseconds that compiling is taken to cost.
fn price(graph: &Graph) -> u64 {
    PROGRAM + OP * nodes(graph).count() as u64
}

/// All nodes, those of bodies too.
fn nodes(graph: &Graph) -> Box<dyn Iterator<Item = &Node> + '_> {
    Box::new(graph.nodes().iter().flat_map(|node| {
        let within = node.bodies.iter().flat_map(|body| nodes(body));
        std::iter::once(node).chain(within)
    }))
}

/// Whether a seed gives the same numbers with a program, to the bit.
fn keeps_draws(graph: &Graph) -> bool {
    let draws = |node: &Node| matches!(node.op, Op::RngBitGenerator { .. });
    !nodes(graph).any(draws) || is_exact(graph)
}

/// Whether floats come out to the bit, however they are computed: they are compared, chosen and scaled, but not put through functions
/// or summed by the thousand. Programs add to a product, and divide by a constant, in another rounding.
fn is_exact(graph: &Graph) -> bool {
    let is_float = |node: &Node| node.ty.tensor().is_some_and(|ty| ty.dtype.is_float());
    let made = |mut v: ValueId| loop {
        let node = graph.node(v);
        v = match (&node.op, &node.operands[..]) {
            (Op::BroadcastInDim { .. } | Op::Reshape { .. } | Op::Convert { .. }, &[from]) => from,
            (op, _) => return op,
        };
    };
    let is_product = |&v: &ValueId| matches!(made(v), Op::Binary(Binary::Multiply));
    let float_is_exact = |node: &Node| match &node.op {
        Op::Binary(Binary::Add | Binary::Subtract) => !node.operands.iter().any(is_product),
        Op::Binary(Binary::Divide) => !matches!(made(node.operands[1]), Op::Constant(_)),
        Op::Binary(op) => matches!(op, Binary::Multiply | Binary::Maximum | Binary::Minimum),
        Op::Input { .. } | Op::Constant(_) | Op::Iota { .. } | Op::GetTupleElement { .. } | Op::Select => true,
        Op::BroadcastInDim { .. } | Op::Reshape { .. } | Op::Transpose { .. } | Op::Slice { .. } => true,
        Op::Concatenate { .. } | Op::Pad { .. } | Op::Reverse { .. } | Op::BitcastConvert { .. } => true,
        op => matches!(op, Op::Convert { .. }),
    };
    let exact =
        |node: &Node| (!is_float(node) || float_is_exact(node)) && node.bodies.iter().all(|body| is_exact(body));
    graph.nodes().iter().all(exact)
}

impl Core {
    /// The results of a call of `kernel`, if it is to be evaluated; `None` where its program is to compute them.
    pub(crate) fn interpret(
        &self,
        kernel: &Arc<Kernel>,
        inputs: &[Arc<Held>],
        device: usize,
        mode: Mode,
    ) -> Option<Vec<Buffer>> {
        let rent = kernel.rent.as_ref()?;
        if mode.deterministic {
            rent.end();
        }
        match rent.pay() {
            Pay::Execute => return None,
            Pay::Last => self.makers.order(kernel.clone()),
            Pay::Evaluate => {}
        }
        // What cannot be evaluated, such as what an input has failed with, is the program's to tell.
        let results = self.evaluated(&kernel.graph, inputs, device).ok()?;
        self.count_interpreted();
        Some(results)
    }

    fn evaluated(&self, graph: &Graph, inputs: &[Arc<Held>], device: usize) -> Result<Vec<Buffer>> {
        let lost = || crate::Error::internal("a value of another size than its type");
        let given = inputs.iter().zip(&graph.inputs).map(|(held, input)| {
            let ty = graph.tensor_type(input.value).ok_or_else(lost)?;
            let mut bytes = vec![0; ty.size_in_bytes()];
            held.buffer()?.copy_to_host(&mut bytes)?;
            Literal::dense(ty.clone(), bytes).ok_or_else(lost)
        });
        let results = ir::eval(graph, &given.collect::<Result<Vec<_>>>()?)?;
        let device = self.device(device)?;
        let buffer =
            |value: &Literal| Ok(Buffer::from_host(device, &value.dense_bytes(), driver::runtime_type(&value.ty))?);
        results.iter().map(buffer).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use ir::{Builder, DType, InputKind, Number, OutputKind, TensorType};

    /// The square of `n` floats.
    fn square(n: usize) -> Graph {
        let b = Builder::new("square");
        let x = b.input("x", InputKind::User, TensorType::new(DType::F32, [n]));
        b.output("y", OutputKind::User, b.multiply(x, x).unwrap());
        b.finish()
    }

    /// Vectors of these lengths behind each other.
    fn joined(lengths: &[usize], dtype: DType) -> Graph {
        let b = Builder::new("joined");
        let input = |&n: &usize| b.input("x", InputKind::User, TensorType::new(dtype, [n]));
        let all: Vec<_> = lengths.iter().map(input).collect();
        b.output("y", OutputKind::User, b.concatenate(&all, 0).unwrap());
        b.finish()
    }

    /// `n` numbers that are drawn, less than 1, and `more`, if there is any.
    fn draw(n: usize, more: Option<f64>) -> Graph {
        let b = Builder::new("draw");
        let bits = b.convert(b.random_bits(DType::U32, &[n]).unwrap(), DType::F32).unwrap();
        let full = |x| b.full(Number::Float(x), DType::F32, &[n]).unwrap();
        let drawn = b.multiply(bits, full(0.5f64.powi(32))).unwrap();
        b.output("y", OutputKind::User, more.map_or(drawn, |more| b.add(drawn, full(more)).unwrap()));
        b.finish()
    }

    #[test]
    fn sizes_are_data_once_new_ones_came_in_many_turns() {
        let mut families = Families::with(Choice::Data);
        for n in 1..100 {
            assert!(families.meet(&square(n)).is_none(), "all of one turn");
        }
        for turn in 1..MANY as usize {
            families.turn();
            assert!(families.meet(&square(100 + turn)).is_none());
        }
        families.turn();
        assert!(families.meet(&square(200)).is_some());
        assert!(families.meet(&square(201)).is_some());
        assert!(families.meet(&square(1 << 24)).is_none(), "it takes longer than compiling it");
        assert!(families.meet(&draw(7, None)).is_none(), "another family");
    }

    #[test]
    fn the_choice_of_the_environment_is_followed() {
        let mut never = Families::with(Choice::Never);
        for n in 1..20 {
            never.turn();
            assert!(never.meet(&square(n)).is_none());
        }
        assert!(Families::with(Choice::Always).meet(&square(3)).is_some());
    }

    #[test]
    fn what_is_drawn_and_summed_keeps_its_program() {
        let mut always = Families::with(Choice::Always);
        assert!(always.meet(&draw(7, None)).is_some());
        assert!(always.meet(&draw(7, Some(0.25))).is_none());
    }

    #[test]
    fn rent_is_paid_until_it_is_as_much_as_the_price() {
        let rent = Rent { work: 4, limit: 10, spent: AtomicU64::new(0) };
        assert_eq!([(); 4].map(|()| rent.pay()), [Pay::Evaluate, Pay::Evaluate, Pay::Last, Pay::Execute]);
        assert!(rent.is_over());
    }

    #[test]
    fn families_differ_in_more_than_sizes_and_lengths() {
        assert_eq!(family(&square(3)), family(&square(4)));
        assert_ne!(family(&square(3)), family(&draw(3, None)));
        assert_eq!(family(&joined(&[3, 4], DType::F32)), family(&joined(&[5, 6, 7], DType::F32)));
        assert_ne!(family(&joined(&[3, 4], DType::F32)), family(&joined(&[3, 4], DType::I32)));
    }
}
