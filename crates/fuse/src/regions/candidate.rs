//! What a set of steps would be as one region: whether it can be one, what it moves, and what it costs.
//!
//! A region is one or more *passes* over its values. What needs the result of a reduction belongs to a later pass than the
//! reduction, and what two passes read stays on the chip between them.

use super::machine::Work;
use super::set::{Key, Set};
use super::steps::{Kind, Read, Step, Steps};
use ir::{Op, ValueId};
use rustc_hash::FxHashMap;

/// Steps in a region, at most: what keeps the search linear. Positions of steps and numbers of passes fit a `u8`.
pub(super) const MOST: usize = 96;

/// Bytes of a vector register. What is no larger connects no loops over more.
const REGISTER: u64 = 4096;

/// The position of no step.
const NOBODY: u8 = u8::MAX;

/// Two tiles of a value that streams through, which the working set counts.
const TILES: u64 = 2 * 256 * 1024;

/// Why steps cannot be one region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Obstacle {
    /// One of them runs alone.
    Alone,
    /// One of them is a barrier.
    Barrier,
    /// There are two products.
    SecondProduct,
    /// Needs the result of a product after a reduction of it.
    AfterProduct,
    /// Has nothing to do with the product beside it.
    BesideProduct,
    /// Exponentials and their like would be computed for every tile of a product.
    DearOperand,
    /// The product's operand is needed elsewhere as well.
    SharedOperand,
    /// So many bytes would have to stay on the chip.
    WorkingSet(u64),
    /// Loops that share nothing.
    Unrelated,
    /// More than [`MOST`] steps.
    Size,
}

/// What a region moves and computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    pub(super) read: u64,
    pub(super) written: u64,
    /// Bytes of values that nothing outside needs.
    pub(super) kept: u64,
    /// Bytes on the chip: what several passes need, and tiles of the rest.
    pub(super) working_set: u64,
    pub(super) work: Work,
    /// Picoseconds.
    pub(super) time: u64,
}

/// Notes on values and steps, kept from one question to the next so that asking costs no more than the set is large.
pub(super) struct Candidates<'s> {
    pub(super) steps: &'s Steps<'s>,
    question: u32,
    marks: Vec<Mark>,
    /// By node: the question in which it was last counted as remade or as a part.
    counted: Vec<u32>,
    /// Values that the set touches.
    touched: Vec<ValueId>,
    /// The time of sets asked for before; none of those that cannot be one region.
    times: FxHashMap<Key, Option<u64>>,
}

/// What is known of a node in the question at hand.
#[derive(Clone, Copy, Default)]
struct Mark {
    question: u32,
    /// Whether its step is in the set.
    is_in: bool,
    /// The pass that makes it, or that reads it first.
    first: u8,
    /// The last pass that reads it.
    last: u8,
    /// Bytes read, if it comes from outside.
    read: u64,
    /// The position of a step in the set that makes it or reads all of it.
    toucher: u8,
    /// Whether the product needs it, and whether it needs the product.
    before: bool,
    after: bool,
    /// Whether something that needs the product needs it.
    feeds: bool,
}

impl<'s> Candidates<'s> {
    pub(super) fn new(steps: &'s Steps<'s>) -> Candidates<'s> {
        let n = steps.graph.nodes().len();
        let (marks, counted) = (vec![Mark::default(); n], vec![0; n]);
        let times = FxHashMap::with_capacity_and_hasher(16 * steps.all.len(), Default::default());
        Candidates { steps, question: 0, marks, counted, touched: vec![], times }
    }

    /// Picoseconds of `a` and `b` as one region; none if they cannot be one.
    pub(super) fn time(&mut self, a: &Set, b: &Set) -> Option<u64> {
        let key = a.key_with(b);
        if let Some(&known) = self.times.get(&key) {
            return known;
        }
        let fits = a.steps.len() + b.steps.len() <= MOST;
        let time = if fits { self.figures(&a.and(b).steps).ok().map(|f| f.time) } else { None };
        self.times.insert(key, time);
        time
    }

    /// `members`, ascending, as one region.
    pub(super) fn figures(&mut self, members: &[u32]) -> Result<Figures, Obstacle> {
        if members.len() > MOST {
            return Err(Obstacle::Size);
        }
        self.begin(members)?;
        self.sides(members)?;
        self.passes(members);
        self.product(members)?;
        self.relations(members)?;
        // Whatever one step needs by itself it has to have.
        let held = self.held();
        if members.len() > 1 && held > self.steps.machine.on_chip / 4 * 3 {
            return Err(Obstacle::WorkingSet(held));
        }
        Ok(self.sums(members, held))
    }

    fn step(&self, number: u32) -> &'s Step {
        &self.steps.all[number as usize]
    }

    fn is_in(&self, value: ValueId) -> bool {
        let mark = &self.marks[value.index()];
        mark.question == self.question && mark.is_in
    }

    fn begin(&mut self, members: &[u32]) -> Result<(), Obstacle> {
        self.question += 1;
        self.touched.clear();
        let mut products = 0;
        for (position, &number) in members.iter().enumerate() {
            let step = self.step(number);
            match step.kind {
                Kind::Alone if members.len() > 1 => return Err(Obstacle::Alone),
                Kind::Barrier if members.len() > 1 => return Err(Obstacle::Barrier),
                Kind::Product => products += 1,
                _ => {}
            }
            let mark = Mark { is_in: true, toucher: position as u8, ..Mark::default() };
            self.marks[step.node.index()] = Mark { question: self.question, ..mark };
            self.touched.push(step.node);
        }
        if products > 1 { Err(Obstacle::SecondProduct) } else { Ok(()) }
    }

    /// Numbers the passes that make and read each value.
    fn passes(&mut self, members: &[u32]) {
        for (position, &number) in members.iter().enumerate() {
            let step = self.step(number);
            let pass = step.reads.iter().map(|r| self.earliest(r)).max().unwrap_or(0);
            let own = &mut self.marks[step.node.index()];
            (own.first, own.last) = (pass, own.last.max(pass));
            for read in &step.reads {
                self.touch(read, pass, position as u8);
            }
        }
    }

    /// The first pass in which what is read is there: what a slice moves to another place, a TPU has to have in memory.
    fn earliest(&self, read: &Read) -> u8 {
        if !self.is_in(read.value) {
            return 0;
        }
        let is_reduction = self.steps.of(read.value).is_some_and(|s| self.step(s).kind == Kind::Reduce);
        let is_moved = self.steps.machine.is_tpu && matches!(self.steps.graph.node(read.part).op, Op::Slice { .. });
        self.marks[read.value.index()].first + u8::from(is_reduction || is_moved)
    }

    fn touch(&mut self, read: &Read, pass: u8, position: u8) {
        let question = self.question;
        let mark = &mut self.marks[read.value.index()];
        if mark.question != question {
            *mark = Mark { question, first: pass, last: pass, toucher: NOBODY, ..Mark::default() };
            self.touched.push(read.value);
        }
        if mark.toucher == NOBODY && read.is_whole() {
            mark.toucher = position;
        }
        mark.last = mark.last.max(pass);
        if !mark.is_in {
            mark.first = mark.first.min(pass);
            if std::mem::replace(&mut self.counted[read.part.index()], question) != question {
                let whole = self.steps.bytes_of(read.value);
                mark.read = mark.read.saturating_add(read.bytes).min(whole.max(read.bytes));
            }
        }
    }

    /// Tells what is on which side of the product, if there is one, and whether all is on one.
    fn sides(&mut self, members: &[u32]) -> Result<(), Obstacle> {
        let Some(at) = members.iter().position(|&m| self.step(m).kind == Kind::Product) else { return Ok(()) };
        self.mark_sides(members, at);
        let is_beside = |&m: &u32| {
            let mark = &self.marks[self.step(m).node.index()];
            !(mark.before || mark.after || mark.feeds)
        };
        if members.iter().any(is_beside) { Err(Obstacle::BesideProduct) } else { Ok(()) }
    }

    /// Whether the product, if there is one, gets along with what is before and after it.
    fn product(&self, members: &[u32]) -> Result<(), Obstacle> {
        let product = members.iter().map(|&m| self.step(m)).find(|s| s.kind == Kind::Product);
        let Some(product) = product.filter(|_| members.len() > 1) else { return Ok(()) };
        let pass = self.marks[product.node.index()].first;
        let operands: u64 = product.reads.iter().map(|r| r.bytes).sum();
        for &member in members {
            let step = self.step(member);
            let mark = &self.marks[step.node.index()];
            if mark.after && mark.first > pass {
                return Err(Obstacle::AfterProduct);
            }
            // Of earlier passes the results are there when the product begins.
            if mark.before && mark.first == pass && step.kind != Kind::Product {
                if step.is_dear && step.bytes.saturating_mul(8) > operands {
                    return Err(Obstacle::DearOperand);
                }
                if self.is_written(step) || step.kind == Kind::Reduce {
                    return Err(Obstacle::SharedOperand);
                }
            }
        }
        Ok(())
    }

    /// Marks what the product needs, what needs it, and what these need.
    fn mark_sides(&mut self, members: &[u32], at: usize) {
        let product = self.step(members[at]).node.index();
        (self.marks[product].before, self.marks[product].after) = (true, true);
        for &member in &members[at + 1..] {
            let step = self.step(member);
            let after = step.reads.iter().any(|r| self.is_in(r.value) && self.marks[r.value.index()].after);
            self.marks[step.node.index()].after = after;
        }
        for &member in members.iter().rev() {
            let step = self.step(member);
            let &Mark { before, after, feeds, .. } = &self.marks[step.node.index()];
            let is_product = step.kind == Kind::Product;
            for read in &step.reads {
                if self.is_in(read.value) {
                    let mark = &mut self.marks[read.value.index()];
                    mark.before |= before && !mark.after;
                    mark.feeds |= (after && !is_product) || feeds;
                }
            }
        }
    }

    /// Whether all of `members` hang together: loops by values that are worth a loop, the rest by any value.
    fn relations(&mut self, members: &[u32]) -> Result<(), Obstacle> {
        if members.len() == 1 {
            return Ok(());
        }
        let (mut groups, mut is_large) = (Groups::new(), [false; MOST]);
        for (position, &member) in members.iter().enumerate() {
            let step = self.step(member);
            is_large[position] = step.bytes > REGISTER || step.reads.iter().any(|r| r.bytes > REGISTER);
            for read in step.reads.iter().filter(|r| r.bytes > REGISTER) {
                if read.is_whole() || self.is_in(read.value) {
                    groups.join(position, self.marks[read.value.index()].toucher as usize);
                }
            }
        }
        if !groups.are_one((0..members.len()).filter(|&i| is_large[i])) {
            return Err(Obstacle::Unrelated);
        }
        if groups.are_one(0..members.len()) {
            return Ok(());
        }
        let none_is = !is_large.contains(&true);
        for (position, &member) in members.iter().enumerate() {
            for read in self.step(member).reads.iter().filter(|r| (none_is && r.is_whole()) || self.is_in(r.value)) {
                groups.join(position, self.marks[read.value.index()].toucher as usize);
            }
        }
        if groups.are_one(0..members.len()) { Ok(()) } else { Err(Obstacle::Unrelated) }
    }

    /// Whether something outside the set needs a step of it.
    pub(super) fn is_written(&self, step: &Step) -> bool {
        let outside = |&r: &u32| !self.is_in(self.step(r).node);
        step.given_out > 0 || self.steps.readers(step.node).iter().any(outside)
    }

    /// What comes from outside in the question that was last asked, and how many bytes of it; in order of first use.
    pub(super) fn inputs(&self) -> impl Iterator<Item = (ValueId, u64)> {
        let outside = self.touched.iter().filter(|v| !self.is_in(**v));
        outside.map(|v| (*v, self.marks[v.index()].read.saturating_mul(self.times_read(*v))))
    }

    /// How often a value from outside crosses the memory's bus. What a TPU's program is given lies in HBM: while a first
    /// pass reads it there, libtpu copies it to vector memory for the passes behind. What another region made has been
    /// put there already, and a CPU's cache keeps what it reads.
    fn times_read(&self, value: ValueId) -> u64 {
        let mark = &self.marks[value.index()];
        let is_given = self.steps.of(value).is_none();
        1 + u64::from(self.steps.machine.is_tpu && is_given && mark.last > mark.first)
    }

    fn sums(&mut self, members: &[u32], held: u64) -> Figures {
        let mut sums = Figures::default();
        for &member in members {
            let step = self.step(member);
            sums.work.add(step.work);
            for remade in &step.remakes {
                if self.counted[remade.index()] != self.question {
                    self.counted[remade.index()] = self.question;
                    sums.work.add(self.steps.work_of(*remade));
                }
            }
            if self.is_written(step) {
                let times = u64::from(step.given_out.max(1));
                sums.written = sums.written.saturating_add(step.bytes.saturating_mul(times));
            } else {
                sums.kept = sums.kept.saturating_add(step.bytes);
            }
        }
        if members.len() == 1 && self.step(members[0]).kind == Kind::Barrier {
            return Figures::default();
        }
        sums.read = self.inputs().map(|(_, bytes)| bytes).sum();
        sums.working_set = held.saturating_add(self.streamed());
        sums.time = self.steps.machine.time(sums.read.saturating_add(sums.written), sums.work);
        sums
    }

    /// Bytes that a later pass needs again.
    fn held(&self) -> u64 {
        let held = self.touched.iter().filter(|v| self.marks[v.index()].last > self.marks[v.index()].first);
        held.map(|v| self.size(*v)).sum()
    }

    /// Bytes of the tiles of what passes by.
    fn streamed(&self) -> u64 {
        let passing = self.touched.iter().filter(|v| self.marks[v.index()].last == self.marks[v.index()].first);
        passing.map(|v| self.size(*v).min(TILES)).sum()
    }

    fn size(&self, value: ValueId) -> u64 {
        if self.is_in(value) { self.steps.bytes_of(value) } else { self.marks[value.index()].read }
    }
}

/// Disjoint sets of positions below [`MOST`].
struct Groups([u8; MOST]);

impl Groups {
    fn new() -> Groups {
        Groups(std::array::from_fn(|i| i as u8))
    }
    fn find(&mut self, mut i: usize) -> usize {
        while self.0[i] as usize != i {
            self.0[i] = self.0[self.0[i] as usize];
            i = self.0[i] as usize;
        }
        i
    }
    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        self.0[a.max(b)] = a.min(b) as u8;
    }
    /// Whether these are all in one set.
    fn are_one(&mut self, mut positions: impl Iterator<Item = usize>) -> bool {
        let Some(first) = positions.next().map(|i| self.find(i)) else { return true };
        positions.all(|i| self.find(i) == first)
    }
}
