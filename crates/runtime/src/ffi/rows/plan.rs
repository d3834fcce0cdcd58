//! In which order steps are taken: in phases, of which each passes over a row once and ends with what it combines of it.

use hostcall::{Combines, OfOne, OfTwo, Rows, Step};
use rustc_hash::FxHashMap;

use super::Strides;

/// What a phase makes of each part of a row.
pub(super) struct Task {
    /// The value's number.
    pub(super) value: usize,
    /// What makes it of what it reads; an operand's truth values are made numbers.
    pub(super) step: Option<Step>,
    pub(super) reads: Vec<(usize, Where)>,
    pub(super) to: To,
}

/// Where a value goes.
#[derive(Clone, Copy)]
pub(super) enum To {
    Result(usize),
    /// Memory for whole rows, for later phases.
    Kept(usize),
    /// Memory for a part, which is another value's thereafter.
    Slot(usize),
    /// A number of each row, added up in these lanes.
    Lanes(usize),
    /// A result that is combined of all rows, by its place among those.
    Gathered(usize),
}

/// Where a value is.
#[derive(Clone, Copy)]
pub(super) enum Where {
    Operand,
    Result(usize),
    Kept(usize),
    Slot(usize),
    /// One number of each row.
    Narrow,
    /// One number of all rows.
    Number,
    /// Where it goes: the operand whose memory the result takes.
    Own,
}

/// How all that a call asks for is computed.
pub(in crate::ffi) struct Plans {
    pub(super) plans: Vec<Plan>,
    pub(super) each: Vec<Own>,
    /// Of all operands, one after the other: what they hold, how many elements there are, and which of them is asked for if that is
    /// one.
    pub(in crate::ffi) operands: Vec<(Holds, usize)>,
    pub(super) places: Vec<usize>,
    /// Elements of all results.
    pub(in crate::ffi) results: Vec<usize>,
    /// Which results are in the memory of which operands.
    pub(in crate::ffi) takes: Vec<(usize, usize)>,
}

/// What an operand holds.
#[derive(Clone, Copy, PartialEq)]
pub(in crate::ffi) enum Holds {
    /// Elements of the type that all is computed in.
    Same,
    Truths,
    /// Floats of 64 bits.
    Wide,
}

/// Which plan something has, and how long its rows are: of lists, whose tensors differ in no more, all have the same.
#[derive(Clone, Copy)]
pub(super) struct Own {
    pub(super) plan: usize,
    pub(super) length: usize,
}

impl Plans {
    /// `keeps`: as of [`Plan::of`].
    pub(super) fn of(all: Vec<Rows>, keeps: impl Fn(&Rows) -> bool) -> Plans {
        let mut made =
            Plans { plans: vec![], each: vec![], operands: vec![], places: vec![], results: vec![], takes: vec![] };
        let mut known: FxHashMap<Vec<i64>, usize> = FxHashMap::default();
        for rows in all {
            let (operands, results) = rows.sizes();
            let first = (made.results.len(), made.operands.len());
            let takes = rows.takes.iter().enumerate().filter_map(|(result, takes)| Some((result, (*takes)?)));
            made.takes.extend(takes.map(|(result, operand)| (first.0 + result, first.1 + operand)));
            let holds = |o: &hostcall::Operand| match (o.truths, o.wide) {
                (true, _) => Holds::Truths,
                (false, true) => Holds::Wide,
                (false, false) => Holds::Same,
            };
            made.operands.extend(rows.operands.iter().map(holds).zip(operands));
            made.places.extend(rows.operands.iter().map(|o| o.place));
            made.results.extend(results);
            let length = rows.length();
            let next = made.plans.len();
            let plan = if rows.is_elementwise() {
                *known.entry(Rows::encode_all(&[rows.of_any_length()])).or_insert(next)
            } else {
                next
            };
            if plan == next {
                let keeps = keeps(&rows);
                made.plans.push(Plan::of(rows, keeps));
            }
            made.each.push(Own { plan, length });
        }
        made
    }
}

/// How [`Rows`] are computed.
pub(super) struct Plan {
    pub(super) rows: Rows,
    /// Steps on numbers of rows that are taken before each phase, and after all of them.
    pub(super) before: Vec<Vec<usize>>,
    pub(super) during: Vec<Vec<Task>>,
    /// Operands that are one number of each row.
    pub(super) narrow_operands: Vec<usize>,
    /// Results that are, and their values.
    pub(super) narrow_results: Vec<(usize, usize)>,
    /// Results that are combined of all rows, and how.
    pub(super) gathered: Vec<(usize, Combines)>,
    /// Results that take an operand's memory, and the slots in which they wait until nobody reads it.
    pub(super) late: Vec<(usize, usize)>,
    pub(super) slots: usize,
    pub(super) kept: usize,
    pub(super) lanes: usize,
    /// Of each operand.
    strides: Vec<Strides>,
    dense: Vec<bool>,
}

impl Plan {
    /// `keeps`: whether there is memory for whole rows. Without it steps are taken again.
    pub(super) fn of(rows: Rows, keeps: bool) -> Plan {
        let (whole, operands) = (rows.are_whole(), rows.operands.len());
        let values = whole.len();
        // A number is known before its phase, an element from its phase on.
        let mut known = vec![0; values];
        for (i, step) in rows.steps.iter().enumerate() {
            let latest = step.reads().map(|value| known[value]).max().unwrap_or(0);
            known[operands + i] = latest + usize::from(matches!(step, Step::Reduce(..)));
        }
        let phases = known.iter().zip(&whole).map(|(&phase, &whole)| phase + usize::from(whole)).max().unwrap_or(0);
        let strides = (0..operands).map(|operand| strides(&rows, operand)).collect();
        let dense = (0..operands).map(|operand| is_dense(&rows, operand)).collect();
        let computed = computed_in(&rows, &whole, &known, keeps);
        let results = || rows.results.iter().copied().enumerate();
        let mut plan = Plan {
            before: vec![vec![]; phases + 1],
            during: vec![],
            narrow_operands: (0..operands).filter(|&operand| !whole[operand]).collect(),
            narrow_results: results().filter(|&(_, value)| !whole[value] && rows.gathers(value).is_none()).collect(),
            gathered: results().filter_map(|(result, value)| Some((result, rows.gathers(value)?))).collect(),
            late: vec![],
            slots: 0,
            kept: 0,
            lanes: 0,
            strides,
            dense,
            rows,
        };
        for value in (operands..values).filter(|&value| !whole[value] && plan.rows.gathers(value).is_none()) {
            plan.before[known[value]].push(value);
        }
        let kept: Vec<Option<usize>> = (0..values)
            .map(|value| {
                let is_result = plan.rows.results.contains(&value);
                (whole[value] && value >= operands && computed[value].stays && !is_result).then(|| {
                    plan.kept += 1;
                    plan.kept - 1
                })
            })
            .collect();
        for phase in 0..phases {
            let tasks = plan.tasks(phase, &whole, &known, &computed, &kept);
            plan.during.push(tasks);
        }
        plan
    }

    /// What `phase` does, in order.
    fn tasks(
        &mut self,
        phase: usize,
        whole: &[bool],
        known: &[usize],
        computed: &[Computed],
        kept: &[Option<usize>],
    ) -> Vec<Task> {
        let operands = self.rows.operands.len();
        let is_due = |value: usize| match self.rows.steps.get(value.wrapping_sub(operands)) {
            _ if whole[value] && value < operands => {
                self.rows.operands[value].truths && computed[value].phases >> phase & 1 == 1
            }
            Some(Step::Reduce(_, of) | Step::Gather(_, of)) => known[*of] == phase,
            _ => whole[value] && computed[value].phases >> phase & 1 == 1,
        };
        let due: Vec<usize> = (0..whole.len()).filter(|&value| is_due(value)).collect();
        let reads = |value: usize| -> Vec<usize> {
            if value < operands { vec![] } else { self.rows.steps[value - operands].reads().collect() }
        };
        let mut last = vec![0; whole.len()];
        for &value in &due {
            reads(value).into_iter().for_each(|read| last[read] = value);
        }
        // Of what this phase made, which slot it is in.
        let mut slots: Vec<Option<usize>> = vec![None; whole.len()];
        let mut free: Vec<usize> = vec![];
        let (mut made, mut lanes) = (0, 0);
        let mut tasks = Vec::with_capacity(due.len());
        for &value in &due {
            let result = self.rows.results.iter().position(|&result| result == value);
            let read = reads(value);
            let overwritten = result.and_then(|result| self.rows.takes[result]);
            // Its memory may be written as soon as nobody reads it any more, by a step of one or two values even if that does.
            let is_loop = value >= operands && !matches!(self.step(value), Step::Select(..));
            let is_read_later = |operand: usize| last[operand] > value || last[operand] == value && !is_loop;
            let (late, result) = match overwritten {
                Some(operand) if is_read_later(operand) => (result, None),
                _ => (None, result),
            };
            let to = match (whole[value], result, kept[value]) {
                (false, Some(result), _) if self.rows.gathers(value).is_some() => {
                    To::Gathered(self.gathered.partition_point(|&(before, _)| before < result))
                }
                (false, ..) => {
                    lanes += 1;
                    To::Lanes(lanes - 1)
                }
                (true, Some(result), _) => To::Result(result),
                (true, None, Some(kept)) => To::Kept(kept),
                (true, None, None) => {
                    let slot = free.pop().unwrap_or(made);
                    made = made.max(slot + 1);
                    slots[value] = Some(slot);
                    if let Some(result) = late {
                        self.late.push((result, slot));
                        last[value] = usize::MAX; // the slot stays its own
                    }
                    To::Slot(slot)
                }
            };
            let place = |&read: &usize| match overwritten {
                Some(operand) if operand == read && late.is_none() => (read, Where::Own),
                _ => (read, self.place(read, whole, slots[read], kept[read])),
            };
            let at = read.iter().map(place).collect();
            let step = (value >= operands).then(|| self.rows.steps[value - operands]);
            tasks.push(Task { value, step, reads: at, to });
            let mut ended: Vec<usize> = read.into_iter().filter(|&read| last[read] == value).collect();
            ended.sort_unstable();
            ended.dedup();
            free.extend(ended.into_iter().filter_map(|read| slots[read]));
        }
        (self.slots, self.lanes) = (self.slots.max(made), self.lanes.max(lanes));
        tasks
    }

    /// Where `value` is to be read.
    fn place(&self, value: usize, whole: &[bool], slot: Option<usize>, kept: Option<usize>) -> Where {
        let operands = self.rows.operands.len();
        let result = self.rows.results.iter().position(|&result| result == value);
        match (slot, kept, result) {
            _ if !whole[value] => {
                let is_number = value >= operands && matches!(self.step(value), Step::Constant(_));
                if is_number { Where::Number } else { Where::Narrow }
            }
            (Some(slot), ..) => Where::Slot(slot),
            _ if value < operands => Where::Operand,
            (None, _, Some(result)) => Where::Result(result),
            (None, kept, None) => kept.map_or(Where::Operand, Where::Kept),
        }
    }

    /// Whether any columns may be computed by themselves: no row is needed whole.
    pub(super) fn is_of_places(&self) -> bool {
        let needs_rows = self.rows.steps.iter().any(|step| matches!(step, Step::Reduce(..)));
        !needs_rows && self.narrow_results.is_empty()
    }

    /// Whether all that is done is to combine rows of what is given, so that any number of them may be taken at once.
    pub(super) fn is_only_gathering(&self) -> bool {
        self.during.iter().flatten().all(|task| matches!(task.to, To::Gathered(_)))
    }

    pub(super) fn values(&self) -> usize {
        self.rows.operands.len() + self.rows.steps.len()
    }

    /// The step that makes `value`.
    pub(super) fn step(&self, value: usize) -> Step {
        self.rows.steps[value - self.rows.operands.len()]
    }

    /// Whether rows of an operand lie one after the other.
    pub(super) fn is_dense(&self, operand: usize) -> bool {
        self.dense[operand]
    }

    /// Where row `row` of an operand begins.
    pub(super) fn row(&self, operand: usize, mut row: usize) -> usize {
        let mut at = 0;
        for &(extent, stride) in &self.strides[operand] {
            at += row % extent * stride;
            row /= extent;
        }
        at
    }
}

/// In which phases a whole value is computed.
#[derive(Clone, Copy, Default)]
struct Computed {
    /// As bits.
    phases: u64,
    /// Whether it is computed once, and in memory for later phases.
    stays: bool,
}

fn computed_in(rows: &Rows, whole: &[bool], known: &[usize], keeps: bool) -> Vec<Computed> {
    let operands = rows.operands.len();
    let mut needed = vec![0u64; whole.len()];
    let mut computed = vec![Computed::default(); whole.len()];
    for value in (0..whole.len()).rev() {
        let Some(&step) = rows.steps.get(value.wrapping_sub(operands)).filter(|_| value >= operands) else {
            computed[value].phases = needed[value];
            continue;
        };
        let phases = if whole[value] {
            let own = 1 << known[value];
            let is_result = rows.results.contains(&value);
            let stays = is_result || (keeps && needed[value] & !own != 0 && !is_cheap(step));
            let phases = if stays { own } else { needed[value] };
            computed[value] = Computed { phases, stays };
            phases
        } else if let Step::Reduce(_, of) | Step::Gather(_, of) = step {
            1 << known[of]
        } else {
            continue;
        };
        step.reads().filter(|&read| whole[read]).for_each(|read| needed[read] |= phases);
    }
    computed
}

/// Whether a step is taken again as fast as its value is read.
fn is_cheap(step: Step) -> bool {
    match step {
        Step::One(of, _) => matches!(of, OfOne::Abs | OfOne::Negate),
        Step::Two(of, ..) => of != OfTwo::Divide,
        Step::Select(..) | Step::Constant(_) => true,
        Step::Reduce(..) | Step::Gather(..) => false,
    }
}

/// Extents and strides of the dimensions that count rows, the last first.
fn strides(rows: &Rows, operand: usize) -> Strides {
    let has = rows.operands[operand].has;
    let inner = (rows.outer..rows.extents.len()).filter(|d| has >> d & 1 == 1).map(|d| rows.extents[d]);
    let mut next = inner.product();
    let mut strides = Strides::new();
    for (d, &extent) in rows.extents[..rows.outer].iter().enumerate().rev() {
        let has = has >> d & 1 == 1;
        strides.push((extent.max(1), if has { next } else { 0 }));
        next *= if has { extent } else { 1 };
    }
    strides
}

/// Whether rows of an operand lie one after the other.
fn is_dense(rows: &Rows, operand: usize) -> bool {
    let has = rows.operands[operand].has;
    rows.extents.iter().enumerate().all(|(d, &extent)| extent == 1 || has >> d & 1 == 1)
}
