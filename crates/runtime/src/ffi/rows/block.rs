//! Some rows that one thread computes at once, phase by phase.

use std::ops::Range;
use std::{ptr, slice};

use hostcall::{Combines, Rows, Step};

use super::kernels::{self, Given, LANES, Real};
use super::plan::{Task, To, Where};
use super::{AT_ONCE, Asked};
use crate::ffi::functions::Denormals;

/// What is done by the instructions there are.
pub(super) enum Work {
    /// All there is to do for these rows.
    Rows(Range<usize>),
    /// What this phase does with the columns.
    Phase(usize),
    /// What is done before this phase with numbers of rows.
    Numbers(usize),
}

/// What is combined of rows, value by value an element for each of the columns.
pub(super) struct Gathering<'a, T> {
    /// Of the rows of a group so far.
    pub(super) group: &'a mut [T],
    /// Of the groups before it.
    pub(super) all: &'a mut [T],
    /// All these rows.
    pub(super) rows: Range<usize>,
}

impl<T> Gathering<'_, T> {
    pub(super) fn nothing() -> Self {
        Gathering { group: &mut [], all: &mut [], rows: 0..0 }
    }
}

/// Some rows that are computed at once.
pub(super) struct Block<'a, T> {
    pub(super) asked: &'a Asked<'a, T>,
    /// Values of a part of the rows, each of so many elements.
    pub(super) slots: *mut T,
    pub(super) slot: usize,
    /// Values of whole rows.
    pub(super) kept: *mut T,
    /// For each value that is one number of a row those of all rows, of which there may be so many.
    pub(super) narrow: &'a mut [T],
    pub(super) most: usize,
    /// Of each sum of a long row what its lanes have so far.
    pub(super) lanes: &'a mut [T],
    pub(super) gathering: Gathering<'a, T>,
    /// What is computed of the rows.
    pub(super) columns: Range<usize>,
    pub(super) first: usize,
    pub(super) count: usize,
}

impl<T: Real> Block<'_, T> {
    /// # Safety
    /// As [`super::computed`].
    pub(super) unsafe fn in_vectors(&mut self, work: Work) {
        let _kept = Denormals::kept();
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has them; the rest is forwarded to the caller.
            return unsafe { self.in_wide_vectors(work) };
        }
        // SAFETY: forwarded to the caller.
        unsafe { self.work::<false>(work) }
    }

    /// # Safety
    /// As [`super::computed`], on a processor with these features.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn in_wide_vectors(&mut self, work: Work) {
        // SAFETY: forwarded to the caller.
        unsafe { self.work::<true>(work) }
    }

    /// # Safety
    /// As [`super::computed`].
    #[inline(always)]
    unsafe fn work<const FUSED: bool>(&mut self, work: Work) {
        let (phases, rows) = match work {
            Work::Rows(rows) => (0..self.asked.plan.during.len() + 1, rows),
            Work::Phase(phase) => {
                // SAFETY: forwarded to the caller.
                return unsafe { self.phase::<FUSED>(phase) };
            }
            Work::Numbers(phase) => (phase..phase + 1, self.first..self.first + 1),
        };
        let all = phases.len() > 1;
        for first in rows.clone().step_by(self.most) {
            (self.first, self.count) = (first, self.most.min(rows.end - first));
            for phase in phases.clone() {
                // SAFETY: forwarded to the caller.
                unsafe {
                    self.numbers::<FUSED>(phase);
                    if all && phase < self.asked.plan.during.len() {
                        self.phase::<FUSED>(phase);
                    }
                }
            }
        }
    }

    /// What comes before `phase`, or behind the last: numbers of rows are read first, and written last.
    ///
    /// # Safety
    /// As [`super::computed`].
    #[inline(always)]
    unsafe fn numbers<const FUSED: bool>(&mut self, phase: usize) {
        let plan = self.asked.plan;
        for &operand in plan.narrow_operands.iter().filter(|_| phase == 0) {
            for i in 0..self.count {
                // SAFETY: forwarded to the caller.
                self.narrow[operand * self.most + i] = unsafe { self.number(operand, i) };
            }
        }
        self.narrow_steps::<FUSED>(&plan.before[phase]);
        for &(result, value) in plan.narrow_results.iter().filter(|_| phase == plan.during.len()) {
            let from = &self.narrow[value * self.most..][..self.count];
            // SAFETY: forwarded to the caller: this thread's rows.
            let to = unsafe { slice::from_raw_parts_mut(self.asked.at.results[result].add(self.first), self.count) };
            to.copy_from_slice(from);
        }
    }

    /// # Safety
    /// As [`super::computed`].
    #[inline(always)]
    unsafe fn phase<const FUSED: bool>(&mut self, phase: usize) {
        let (plan, mut from) = (self.asked.plan, self.columns.start);
        loop {
            let columns = from..self.columns.end.min(from + AT_ONCE);
            from = columns.end;
            for task in &plan.during[phase] {
                // SAFETY: forwarded to the caller.
                unsafe { self.task::<FUSED>(task, columns.clone()) };
            }
            // SAFETY: likewise.
            unsafe { self.write_late(columns) };
            if from == self.columns.end {
                return;
            }
        }
    }

    /// Writes what takes the memory of operands, of which nothing more is read in these columns.
    ///
    /// # Safety
    /// As [`super::computed`].
    #[inline(always)]
    unsafe fn write_late(&mut self, columns: Range<usize>) {
        let (length, width) = (self.asked.length, columns.len());
        for &(result, slot) in &self.asked.plan.late {
            for i in 0..self.count {
                // SAFETY: forwarded to the caller: results have these rows, and slots are this thread's own.
                unsafe {
                    let from = self.slots.add(slot * self.slot + i * width);
                    let to = self.asked.at.results[result].add((self.first + i) * length + columns.start);
                    ptr::copy_nonoverlapping(from, to, width);
                }
            }
        }
    }

    /// Steps that take and give one number of each row.
    #[inline(always)]
    fn narrow_steps<const FUSED: bool>(&mut self, steps: &[usize]) {
        for &value in steps {
            let (before, own) = self.narrow.split_at_mut(value * self.most);
            let own = &mut own[..self.count];
            let given = |of: usize| Given::Row(&before[of * self.most..][..own.len()]);
            match self.asked.plan.step(value) {
                Step::Constant(number) => own.fill(T::of(number)),
                Step::One(of, a) => {
                    let a = given(a);
                    kernels::one::<T, FUSED>(of, own, a);
                }
                Step::Two(of, a, b) => {
                    let (a, b) = (given(a), given(b));
                    kernels::two(of, own, a, b);
                }
                Step::Select(p, a, b) => {
                    let (p, a, b) = (given(p), given(a), given(b));
                    kernels::select(own, p, a, b);
                }
                Step::Reduce(..) | Step::Gather(..) => {}
            }
        }
    }

    /// # Safety
    /// As [`super::computed`].
    #[inline(always)]
    unsafe fn task<const FUSED: bool>(&mut self, task: &Task, columns: Range<usize>) {
        let (width, from) = (columns.len(), columns.start);
        // SAFETY: forwarded to the caller: results have these rows, and a value has room for all of them.
        unsafe {
            let out = match task.to {
                To::Lanes(lanes) => return self.reduce(task, lanes, columns),
                To::Gathered(which) => return self.gather(task, which, columns),
                To::Result(result) => self.asked.at.results[result].add(self.first * self.asked.length + from),
                To::Kept(kept) => self.kept.add(self.kept_start(kept) + from),
                To::Slot(slot) => self.slots.add(slot * self.slot),
            };
            let all = task.reads.iter().all(|&(value, place)| self.is_flat(value, place))
                && (task.step.is_some() || self.is_flat(task.value, Where::Operand));
            let (times, each) = if all { (1, self.count * width) } else { (self.count, width) };
            for i in 0..times {
                // Nothing that is read lies where this is written.
                let own = slice::from_raw_parts_mut(out.add(i * width), each);
                let given = |n: usize| self.given(task.reads[n], i, from, width, each);
                match task.step {
                    None => kernels::truths(own, self.truths(task.value, i, from, each)),
                    Some(Step::One(of, _)) => kernels::each::<T, FUSED>(of, own, given(0)),
                    Some(Step::Two(of, ..)) => kernels::two(of, own, given(0), given(1)),
                    Some(Step::Select(..)) => kernels::select(own, given(0), given(1), given(2)),
                    Some(Step::Constant(_) | Step::Reduce(..) | Step::Gather(..)) => {}
                }
            }
        }
    }

    /// # Safety
    /// As [`super::computed`].
    #[inline(always)]
    unsafe fn reduce(&mut self, task: &Task, lanes: usize, columns: Range<usize>) {
        let Some(Step::Reduce(of, _)) = task.step else { return };
        let (is_first, is_last) = (columns.start == self.columns.start, columns.end == self.columns.end);
        for i in 0..self.count {
            let mut own = [T::neutral(of); LANES];
            let kept = lanes * LANES..(lanes + 1) * LANES;
            if !is_first {
                own.copy_from_slice(&self.lanes[kept.clone()]);
            }
            // SAFETY: forwarded to the caller.
            let given = unsafe { self.given(task.reads[0], i, columns.start, columns.len(), columns.len()) };
            kernels::combine(of, &mut own, given, columns.len());
            if is_last {
                self.narrow[task.value * self.most + i] = kernels::combined(of, own);
            } else {
                self.lanes[kept].copy_from_slice(&own);
            }
        }
    }

    /// # Safety
    /// As [`super::computed`].
    #[inline(always)]
    unsafe fn gather(&mut self, task: &Task, which: usize, columns: Range<usize>) {
        let Some(Step::Gather(of, _)) = task.step else { return };
        let start = which * self.columns.len() + columns.start - self.columns.start;
        let own = start..start + columns.len();
        let gathering = std::mem::replace(&mut self.gathering, Gathering::nothing());
        let (of_group, mut i) = (Rows::group(), 0);
        while i < self.count {
            let row = self.first + i - gathering.rows.start;
            let some = i..self.count.min(i + of_group - row % of_group);
            let group = &mut gathering.group[own.clone()];
            if row.is_multiple_of(of_group) {
                group.fill(T::neutral(of));
            }
            // SAFETY: forwarded to the caller.
            unsafe { self.join(of, group, task.reads[0], some.clone(), columns.clone()) };
            let next = row + some.len();
            if next.is_multiple_of(of_group) || next == gathering.rows.len() {
                kernels::join(of, &mut gathering.all[own.clone()], Given::Row(group));
            }
            i = some.end;
        }
        self.gathering = gathering;
    }

    /// Combines a value's elements of `some` rows with `all`, one row after the other.
    ///
    /// # Safety
    /// As [`super::computed`].
    #[inline(always)]
    unsafe fn join(
        &self,
        of: Combines,
        all: &mut [T],
        (value, place): (usize, Where),
        some: Range<usize>,
        columns: Range<usize>,
    ) {
        let (from, width) = (columns.start, columns.len());
        let apart = match place {
            Where::Operand if self.asked.plan.is_dense(value) => self.asked.length,
            Where::Result(_) => self.asked.length,
            Where::Kept(_) | Where::Slot(_) => width,
            Where::Operand | Where::Narrow | Where::Number | Where::Own => {
                for i in some {
                    // SAFETY: forwarded to the caller.
                    kernels::join(of, all, unsafe { self.given((value, place), i, from, width, width) });
                }
                return;
            }
        };
        let elements = (some.len() - 1) * apart + width;
        // SAFETY: forwarded to the caller: rows begin so many elements after each other.
        if let Given::Row(rows) = unsafe { self.given((value, place), some.start, from, width, elements) } {
            kernels::join_rows(of, all, rows, apart);
        }
    }

    /// Whether all rows of a value lie one after the other, or it is the same number in all of them.
    #[inline(always)]
    fn is_flat(&self, value: usize, place: Where) -> bool {
        match place {
            Where::Operand => self.count == 1 || self.asked.plan.is_dense(value),
            Where::Narrow => self.count == 1,
            Where::Number | Where::Kept(_) | Where::Slot(_) | Where::Result(_) | Where::Own => true,
        }
    }

    /// A value's elements of the `i`-th row from column `from` on, `each` of them.
    ///
    /// # Safety
    /// As [`super::computed`].
    #[inline(always)]
    unsafe fn given(
        &self,
        (value, place): (usize, Where),
        i: usize,
        from: usize,
        width: usize,
        each: usize,
    ) -> Given<'_, T> {
        // SAFETY: forwarded to the caller: there are so many.
        unsafe {
            let at = match place {
                Where::Own => return Given::Own,
                Where::Narrow | Where::Number => return Given::One(self.narrow[value * self.most + i]),
                Where::Operand => {
                    self.asked.at.operands[value].cast::<T>().add(self.asked.plan.row(value, self.first + i) + from)
                }
                Where::Result(result) => {
                    self.asked.at.results[result].cast_const().add((self.first + i) * self.asked.length + from)
                }
                Where::Kept(kept) => self.kept.cast_const().add(self.kept_start(kept) + i * width + from),
                Where::Slot(slot) => self.slots.cast_const().add(slot * self.slot + i * width),
            };
            Given::Row(slice::from_raw_parts(at, each))
        }
    }

    /// Truth values of an operand, likewise.
    ///
    /// # Safety
    /// As [`super::computed`].
    #[inline(always)]
    unsafe fn truths(&self, operand: usize, i: usize, from: usize, each: usize) -> &[u8] {
        let at = self.asked.at.operands[operand].cast::<u8>();
        // SAFETY: forwarded to the caller.
        unsafe { slice::from_raw_parts(at.add(self.asked.plan.row(operand, self.first + i) + from), each) }
    }

    /// The number that an operand has for the `i`-th row.
    ///
    /// # Safety
    /// As [`super::computed`].
    #[inline(always)]
    unsafe fn number(&self, operand: usize, i: usize) -> T {
        let (at, asked) = (self.asked.at.operands[operand], self.asked.plan.rows.operands[operand]);
        let row = self.asked.places[operand] + self.asked.plan.row(operand, self.first + i);
        // SAFETY: forwarded to the caller.
        unsafe {
            match (asked.truths, asked.wide) {
                (true, _) => T::truth(*at.cast::<u8>().add(row) != 0),
                (false, true) => T::of(*at.cast::<f64>().add(row)),
                (false, false) => *at.cast::<T>().add(row),
            }
        }
    }

    fn kept_start(&self, kept: usize) -> usize {
        kept * self.most * self.asked.length
    }
}
