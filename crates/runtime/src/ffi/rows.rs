//! What is computed of each row by itself: some rows at once, or parts of a long one, while they are in the nearest cache; and what is
//! combined of all rows on the way.

mod kernels;
mod plan;

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use std::cell::RefCell;
use std::ffi::c_void;
use std::ops::Range;
use std::rc::Rc;
use std::sync::OnceLock;
use std::{ptr, slice};

use hostcall::{Combines, Rows, Step};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

pub(super) use self::kernels::Real;
use self::kernels::{Given, LANES};
pub(super) use self::plan::{Holds, Plans};
use self::plan::{Own, Plan, Task, To, Where};
use super::functions::Denormals;
use super::scratch::with_scratch;
use super::team::{self, Threads};

/// Elements that are computed at once, a multiple of the lanes of a sum: few enough for a dozen values of them to stay in the
/// nearest caches.
const AT_ONCE: usize = 1 << 10;

/// Fewer rows than this are shared by threads, each in parts of so many elements.
const FEW: usize = 16;
const SHARE: usize = 32 * AT_ONCE;

/// Columns that are worth a task of their own are at least so many, and a multiple of that.
const PLACES: usize = 256;

/// Bytes that memory brings at once.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Where operands and results are.
#[derive(Clone, Copy)]
pub(super) struct Places<'a, T> {
    pub(super) operands: &'a [*const c_void],
    pub(super) results: &'a [*mut T],
}

// SAFETY: whoever makes one vouches that operands are only read, but by whom they are overwritten, and rows of results are written by
// one thread each.
unsafe impl<T> Sync for Places<'_, T> {}

/// Plans, and the numbers they were made of, by where those are.
type Made = FxHashMap<*const i64, (Box<[i64]>, Rc<Plans>)>;

thread_local! {
    /// What this thread made: a program calls with the same numbers again.
    static MADE: RefCell<Made> = RefCell::default();
}

/// Plans that are kept, as long as there are no more.
const MOST_KEPT: usize = 1 << 12;

/// Elements of a row of which each thread keeps values for later: a megabyte or four, as long as the caches hold some of it.
const MOST_KEPT_OF_A_ROW: usize = 1 << 20;

/// How what `numbers` ask for is computed; `None` if they are none of [`Rows`].
pub(super) fn planned(numbers: &[i64]) -> Option<Rc<Plans>> {
    MADE.with_borrow_mut(|made| {
        if let Some((_, plans)) = made.get(&numbers.as_ptr()).filter(|(of, _)| **of == *numbers) {
            return Some(plans.clone());
        }
        let keeps = |rows: &Rows| !are_shared(rows) && rows.length() <= MOST_KEPT_OF_A_ROW;
        let plans = Rc::new(Plans::of(Rows::decode_all(numbers)?, keeps));
        if made.len() == MOST_KEPT {
            made.clear();
        }
        made.insert(numbers.as_ptr(), (numbers.into(), plans.clone()));
        Some(plans)
    })
}

/// Whether threads share each row.
fn are_shared(rows: &Rows) -> bool {
    rows.rows() < FEW && rows.length() > SHARE && !rows.is_gathering()
}

/// Computes all `plans`, which have the places one after the other, on the threads of `pool`, of which there are so many.
///
/// # Safety
/// All places have the elements that the plans count, and nobody else touches the results meanwhile. A result that takes an operand's
/// memory may be that, which nobody else reads; all else is apart.
pub(super) unsafe fn computed<T: Real>(plans: &Plans, at: Places<'_, T>, pool: &dyn Threads, threads: usize) {
    let (mut first, mut result) = (0, 0);
    let each = plans.each.iter().map(|&Own { plan, length }| {
        let plan = &plans.plans[plan];
        let (operands, results) = (first..first + plan.rows.operands.len(), result..result + plan.rows.results.len());
        (first, result) = (operands.end, results.end);
        let at = Places { operands: &at.operands[operands.clone()], results: &at.results[results] };
        Asked { plan, length, places: &plans.places[operands], at }
    });
    let each: Vec<Asked<'_, T>> = each.collect();
    if plans.plans.iter().all(|plan| plan.rows.is_elementwise()) {
        let parts = Rows::parts_of(each.iter().map(|asked| (&asked.plan.rows, asked.length)), threads);
        // SAFETY: forwarded to the caller.
        return unsafe { elements(&each, pool, threads.min(parts)) };
    }
    for asked in &each {
        // SAFETY: forwarded to the caller.
        unsafe { one(asked, pool, threads) };
    }
}

/// What is computed by a plan.
struct Asked<'a, T> {
    plan: &'a Plan,
    /// Elements of a row.
    length: usize,
    /// For each operand that is one of several numbers, which.
    places: &'a [usize],
    at: Places<'a, T>,
}

/// Computes each place by itself, in pieces that are worth a thread's attention: small tensors are taken together, large ones in parts.
///
/// # Safety
/// As [`computed`].
unsafe fn elements<T: Real>(each: &[Asked<'_, T>], pool: &dyn Threads, threads: usize) {
    // Each piece begins somewhere in a tensor, and goes on in those behind.
    let (mut pieces, mut room) = (vec![], 0);
    for (i, asked) in each.iter().enumerate() {
        let mut from = 0;
        while from < asked.length {
            if room == 0 {
                pieces.push((i, from));
                room = SHARE;
            }
            let taken = room.min(asked.length - from);
            (from, room) = (from + taken, room - taken);
        }
    }
    team::run(pool, threads, pieces.len(), &|i| {
        let ((mut which, mut from), mut room) = (pieces[i], SHARE);
        while room > 0 && which < each.len() {
            let columns = from..each[which].length.min(from + room);
            room -= columns.len();
            // SAFETY: forwarded to the caller; each place is one thread's.
            unsafe { part(&each[which], 0..1, columns, &mut []) };
            (which, from) = (which + 1, 0);
        }
    });
}

/// Computes one plan's rows.
///
/// # Safety
/// As [`computed`].
unsafe fn one<T: Real>(asked: &Asked<'_, T>, pool: &dyn Threads, threads: usize) {
    let rows = &asked.plan.rows;
    if are_shared(rows) {
        // SAFETY: forwarded to the caller.
        return unsafe { shared(asked, pool, threads) };
    }
    if rows.is_gathering() && rows.length() > 0 {
        // SAFETY: forwarded to the caller.
        return unsafe { gathered(asked, pool, threads) };
    }
    let parts: Vec<Range<usize>> = rows.cut(threads).collect();
    team::run(pool, threads, parts.len(), &|i| {
        // SAFETY: forwarded to the caller; each row is one thread's.
        unsafe { part(asked, parts[i].clone(), 0..rows.length(), &mut []) };
    });
}

/// Computes `rows`, of all of which something is combined: in parts that do not hang on how many threads there are, or, where there are
/// more columns than rows, some columns of all parts after the other.
///
/// # Safety
/// As [`computed`].
unsafe fn gathered<T: Real>(asked: &Asked<'_, T>, pool: &dyn Threads, threads: usize) {
    let (plan, at, rows, length) = (asked.plan, asked.at, &asked.plan.rows, asked.length);
    let wanted = rows.parts(threads);
    let mut parts: Vec<Range<usize>> = rows.combined_parts().collect();
    if parts.is_empty() {
        parts.push(0..0); // no rows make something, too
    }
    let made_of = |part: &Range<usize>, columns: Range<usize>| {
        let neutral = plan.gathered.iter().flat_map(|&(_, of)| std::iter::repeat_n(T::neutral(of), columns.len()));
        let mut made: Vec<T> = neutral.collect();
        // SAFETY: forwarded to the caller; each part's rows, or each range of columns, is one thread's.
        unsafe { self::part(asked, part.clone(), columns, &mut made) };
        made
    };
    if plan.is_of_places() && length > rows.rows() || parts.len() < 2 {
        let wanted = if plan.is_of_places() { wanted } else { 1 };
        let each = length.div_ceil(wanted).next_multiple_of(PLACES);
        return team::run(pool, threads, length.div_ceil(each), &|i| {
            let columns = i * each..length.min((i + 1) * each);
            let made = parts.iter().map(|part| made_of(part, columns.clone()));
            // SAFETY: as above.
            unsafe { combine_parts(plan, at, columns.clone(), made) };
        });
    }
    let made: Vec<OnceLock<Vec<T>>> = parts.iter().map(|_| OnceLock::new()).collect();
    team::run(pool, threads.min(wanted), parts.len(), &|i| {
        made[i].get_or_init(|| made_of(&parts[i], 0..length));
    });
    // SAFETY: as above, and all threads are done.
    unsafe { combine_parts(plan, at, 0..length, made.into_iter().filter_map(OnceLock::into_inner)) };
}

/// Writes what parts of the rows make together of some columns.
///
/// # Safety
/// As [`computed`].
unsafe fn combine_parts<T: Real>(
    plan: &Plan,
    at: Places<'_, T>,
    columns: Range<usize>,
    parts: impl Iterator<Item = Vec<T>>,
) {
    for (i, part) in parts.enumerate() {
        for (&(result, of), part) in plan.gathered.iter().zip(part.chunks_exact(columns.len())) {
            // SAFETY: forwarded to the caller.
            let own = unsafe { slice::from_raw_parts_mut(at.results[result].add(columns.start), columns.len()) };
            if i == 0 {
                own.copy_from_slice(part);
            } else {
                kernels::join(of, own, Given::Row(part));
            }
        }
    }
}

/// Computes some columns of some rows, and combines with `gathered` what these rows have for it.
///
/// # Safety
/// As [`computed`].
unsafe fn part<T: Real>(asked: &Asked<'_, T>, rows: Range<usize>, columns: Range<usize>, gathered: &mut [T]) {
    let (plan, length) = (asked.plan, asked.length);
    let least = if plan.is_only_gathering() { Rows::group() } else { 1 };
    // Of parts of rows, which do not lie one after the other, one at a time.
    let most = if columns.len() == length { AT_ONCE / length.max(1) } else { 1 }.max(least);
    let slot = most * length.min(AT_ONCE);
    let sizes =
        [plan.slots * slot, plan.kept * most * length, plan.values() * most, plan.lanes * LANES, gathered.len()];
    with_scratch(sizes, |[slots, kept, narrow, lanes, group]: [&mut [T]; 5]| {
        let (slots, kept, start) = (slots.as_mut_ptr(), kept.as_mut_ptr(), rows.start);
        let gathering = Gathering { group, all: gathered, rows: rows.clone() };
        let (first, count) = (start, 0);
        let mut block = Block { asked, slots, slot, kept, narrow, most, lanes, gathering, columns, first, count };
        // SAFETY: forwarded to the caller.
        unsafe { block.in_vectors(Work::Rows(rows)) };
    });
}

/// Computes few rows that are so long that threads share each of them: phase by phase, of which each leaves what parts of a row
/// make to be combined, in order.
///
/// # Safety
/// As [`computed`]; the plan keeps no whole rows.
unsafe fn shared<T: Real>(asked: &Asked<'_, T>, pool: &dyn Threads, threads: usize) {
    let (plan, length) = (asked.plan, asked.length);
    let (rows, values, parts) = (plan.rows.rows(), plan.values(), length.div_ceil(SHARE));
    let mut numbers = vec![T::of(0.0); rows * values];
    for phase in 0..=plan.during.len() {
        for (row, own) in numbers.chunks_exact_mut(values).enumerate() {
            // SAFETY: forwarded to the caller.
            unsafe { of_a_share(asked, own, row, 0..0, Work::Numbers(phase)) };
        }
        if phase == plan.during.len() {
            break;
        }
        let made: Vec<OnceLock<Vec<T>>> = (0..rows * parts).map(|_| OnceLock::new()).collect();
        team::run(pool, threads, rows * parts, &|i| {
            let (row, from) = (i / parts, i % parts * SHARE);
            let mut own = numbers[row * values..(row + 1) * values].to_vec();
            let columns = from..length.min(from + SHARE);
            // SAFETY: forwarded to the caller; each part of a row is one thread's.
            unsafe { of_a_share(asked, &mut own, row, columns, Work::Phase(phase)) };
            made[i].get_or_init(|| own);
        });
        for (i, part) in made.iter().enumerate() {
            let (own, Some(part)) = (&mut numbers[i / parts * values..], part.get()) else { continue };
            for task in &plan.during[phase] {
                if let Some(Step::Reduce(of, _)) = task.step {
                    let before = if i % parts == 0 { T::neutral(of) } else { own[task.value] };
                    own[task.value] = kernels::pair(of, before, part[task.value]);
                }
            }
        }
    }
}

/// Does some work on a part of a row, whose numbers are `narrow`.
///
/// # Safety
/// As [`computed`].
unsafe fn of_a_share<T: Real>(asked: &Asked<'_, T>, narrow: &mut [T], row: usize, columns: Range<usize>, work: Work) {
    with_scratch([asked.plan.slots * AT_ONCE, asked.plan.lanes * LANES], |[slots, lanes]: [&mut [T]; 2]| {
        let (slots, slot, kept) = (slots.as_mut_ptr(), AT_ONCE, ptr::null_mut());
        let (gathering, most, first, count) = (Gathering::nothing(), 1, row, 1);
        let mut block = Block { asked, slots, slot, kept, narrow, most, lanes, gathering, columns, first, count };
        // SAFETY: forwarded to the caller.
        unsafe { block.in_vectors(work) };
    });
}

/// What is done by the instructions there are.
enum Work {
    /// All there is to do for these rows.
    Rows(Range<usize>),
    /// What this phase does with the columns.
    Phase(usize),
    /// What is done before this phase with numbers of rows.
    Numbers(usize),
}

/// What is combined of rows, value by value an element for each of the columns.
struct Gathering<'a, T> {
    /// Of the rows of a group so far.
    group: &'a mut [T],
    /// Of the groups before it.
    all: &'a mut [T],
    /// All these rows.
    rows: Range<usize>,
}

impl<T> Gathering<'_, T> {
    fn nothing() -> Self {
        Gathering { group: &mut [], all: &mut [], rows: 0..0 }
    }
}

/// Some rows that are computed at once.
struct Block<'a, T> {
    asked: &'a Asked<'a, T>,
    /// Values of a part of the rows, each of so many elements.
    slots: *mut T,
    slot: usize,
    /// Values of whole rows.
    kept: *mut T,
    /// For each value that is one number of a row those of all rows, of which there may be so many.
    narrow: &'a mut [T],
    most: usize,
    /// Of each sum of a long row what its lanes have so far.
    lanes: &'a mut [T],
    gathering: Gathering<'a, T>,
    /// What is computed of the rows.
    columns: Range<usize>,
    first: usize,
    count: usize,
}

impl<T: Real> Block<'_, T> {
    /// # Safety
    /// As [`computed`].
    unsafe fn in_vectors(&mut self, work: Work) {
        let _kept = Denormals::kept();
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
        {
            // SAFETY: the processor has them; the rest is forwarded to the caller.
            return unsafe { self.in_wider_vectors(work) };
        }
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has them; the rest is forwarded to the caller.
            return unsafe { self.in_wide_vectors(work) };
        }
        // SAFETY: forwarded to the caller.
        unsafe { self.work::<false>(work) }
    }

    /// # Safety
    /// As [`computed`], on a processor with these features.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx2,fma")]
    unsafe fn in_wider_vectors(&mut self, work: Work) {
        // SAFETY: forwarded to the caller.
        unsafe { self.work::<true>(work) }
    }

    /// # Safety
    /// As [`computed`], on a processor with these features.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn in_wide_vectors(&mut self, work: Work) {
        // SAFETY: forwarded to the caller.
        unsafe { self.work::<true>(work) }
    }

    /// # Safety
    /// As [`computed`].
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
    /// As [`computed`].
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
    /// As [`computed`].
    #[inline(always)]
    unsafe fn phase<const FUSED: bool>(&mut self, phase: usize) {
        let (plan, mut from) = (self.asked.plan, self.columns.start);
        loop {
            let columns = from..self.columns.end.min(from + AT_ONCE);
            from = columns.end;
            self.fetch(from..self.columns.end.min(from + AT_ONCE));
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

    /// Has memory bring what comes next of a long row, as the processor sees no further than to the end of a page.
    #[inline(always)]
    fn fetch(&self, columns: Range<usize>) {
        #[cfg(target_arch = "x86_64")]
        for (operand, &at) in self.asked.at.operands.iter().enumerate() {
            if self.count > 1 || !self.asked.plan.is_read_in_rows(operand) {
                continue;
            }
            let start = self.asked.plan.row(operand, self.first) + columns.start;
            for element in (0..columns.len()).step_by(LINE / size_of::<T>()) {
                let line = at.cast::<T>().wrapping_add(start + element);
                // SAFETY: to ask for memory reads none of it.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
            }
        }
    }

    /// Writes what takes the memory of operands, of which nothing more is read in these columns.
    ///
    /// # Safety
    /// As [`computed`].
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
    /// As [`computed`].
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
                    Some(Step::One(of, _)) => kernels::one::<T, FUSED>(of, own, given(0)),
                    Some(Step::Two(of, ..)) => kernels::two(of, own, given(0), given(1)),
                    Some(Step::Select(..)) => kernels::select(own, given(0), given(1), given(2)),
                    Some(Step::Constant(_) | Step::Reduce(..) | Step::Gather(..)) => {}
                }
            }
        }
    }

    /// # Safety
    /// As [`computed`].
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
    /// As [`computed`].
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
    /// As [`computed`].
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
    /// As [`computed`].
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
    /// As [`computed`].
    #[inline(always)]
    unsafe fn truths(&self, operand: usize, i: usize, from: usize, each: usize) -> &[u8] {
        let at = self.asked.at.operands[operand].cast::<u8>();
        // SAFETY: forwarded to the caller.
        unsafe { slice::from_raw_parts(at.add(self.asked.plan.row(operand, self.first + i) + from), each) }
    }

    /// The number that an operand has for the `i`-th row.
    ///
    /// # Safety
    /// As [`computed`].
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

/// Where rows of an operand begin: the elements from one index of each dimension that counts rows to the next.
type Strides = SmallVec<[(usize, usize); 4]>;
