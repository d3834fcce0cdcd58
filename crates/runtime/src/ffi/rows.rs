//! What is computed of each row by itself: some rows at once, or parts of a long one, while they are in the nearest cache; and what is
//! combined of all rows on the way.

mod block;
mod kernels;
mod plan;

use std::cell::RefCell;
use std::ffi::c_void;
use std::ops::Range;
use std::rc::Rc;
use std::sync::OnceLock;
use std::{ptr, slice};

use hostcall::{Rows, Step};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use self::block::{Block, Gathering, Work};
pub(super) use self::kernels::Real;
use self::kernels::{Given, LANES};
pub(super) use self::plan::{Holds, Plans};
use self::plan::{Own, Plan};
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

/// Where rows of an operand begin: the elements from one index of each dimension that counts rows to the next.
type Strides = SmallVec<[(usize, usize); 4]>;
