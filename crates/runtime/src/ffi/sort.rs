//! Sorts and selections, lane by lane: a key and the place that it comes from make one number, whose order is that of a stable sort.

use std::ops::Range;

use hostcall::{Order, Sort};

use super::scratch::with_scratch;
use super::team::{self, Threads};

mod key;

use key::{Entry, LEADING, PLACE};
pub(super) use key::{Float, Key, Signed, Unsigned};

/// Lanes beside each other that are copied to rows at once: what a line of the cache holds of 4 bytes.
const LANES: usize = 16;

/// Entries from which passes over digits are faster than comparisons.
const LONG: usize = 512;

/// Keys whose least rank is found at once.
const BLOCK: usize = 256;

/// Keys that are passed over at once if none is among the first so far.
const SHORT_BLOCK: usize = 64;

/// How many times as many keys as are wanted make it likely that most blocks are passed over.
const MANY: usize = 64;

/// What goes where the keys go.
#[derive(Clone, Copy)]
pub(super) struct Other {
    pub(super) from: *const u8,
    pub(super) to: *mut u8,
    /// Bytes of an element.
    pub(super) width: usize,
}

/// Where places are written.
#[derive(Clone, Copy)]
pub(super) enum Places {
    None,
    I32(*mut i32),
    I64(*mut i64),
}

/// Where a sort reads and writes.
pub(super) struct Tensors<'a, R> {
    pub(super) from: *const R,
    pub(super) to: *mut R,
    pub(super) places: Places,
    pub(super) others: &'a [Other],
}

// SAFETY: whoever makes one vouches that what is read is only read, and lanes of the results are written by one thread each.
unsafe impl<R> Sync for Tensors<'_, R> {}

/// Computes `sort` on the threads of `pool`, of which there are so many.
///
/// # Safety
/// All tensors have its elements or its results, and nobody else touches the results meanwhile.
pub(super) unsafe fn sorted<K: Key>(sort: &Sort, at: Tensors<'_, K::Raw>, pool: &dyn Threads, threads: usize) {
    let parts: Vec<Range<usize>> = sort.parts(threads).collect();
    let at = &at; // whole, as it may be shared
    team::run(pool, threads, parts.len(), &|i| {
        with_scratch([Way::of(sort).room(sort), sort.asked_for()], |[entries, spare]| {
            // SAFETY: forwarded to the caller; each lane is one thread's.
            unsafe { sort_lanes::<K>(sort, at, parts[i].clone(), entries, spare) };
        });
    });
}

/// How the entries are found among which those wanted are.
enum Way {
    /// There is one, the least.
    Least,
    /// They are all wanted, or many, or few to begin with.
    All,
    /// By what was among the first so far ([`front`]).
    Front,
    /// By their leading bits ([`candidates`]).
    Leading,
}

impl Way {
    fn of(sort: &Sort) -> Way {
        match sort.asked_for() {
            1 if sort.start == 0 => Way::Least,
            count if sort.length < LONG || count >= sort.length / 2 => Way::All,
            count if sort.start == 0 && count > 0 && count * MANY <= sort.length => Way::Front,
            _ => Way::Leading,
        }
    }

    /// The entries that there must be room for.
    fn room(&self, sort: &Sort) -> usize {
        match self {
            Way::Least => 1,
            Way::Front => most(sort.asked_for()) + SHORT_BLOCK,
            Way::All | Way::Leading => sort.length,
        }
    }
}

/// How many entries [`front`] lets gather of which so many are wanted.
fn most(wanted: usize) -> usize {
    2 * wanted + SHORT_BLOCK
}

/// Sorts some lanes.
///
/// # Safety
/// As [`sorted`].
unsafe fn sort_lanes<K: Key>(
    sort: &Sort,
    at: &Tensors<'_, K::Raw>,
    mut lanes: Range<usize>,
    entries: &mut [K::Entry],
    spare: &mut [K::Entry],
) {
    if sort.inner == 1 {
        for lane in lanes {
            // SAFETY: a lane of the operand.
            let keys = unsafe { std::slice::from_raw_parts(at.from.add(lane * sort.length), sort.length) };
            // SAFETY: forwarded to the caller.
            unsafe { written(sort, at, lane, in_order::<K>(sort, keys, entries, spare)) };
        }
        return;
    }
    while !lanes.is_empty() {
        let left = sort.inner - lanes.start % sort.inner;
        let count = lanes.len().min(left).min(LANES);
        with_scratch([count * sort.length], |[rows]: [&mut [K::Raw]; 1]| {
            // SAFETY: these lanes lie beside each other.
            unsafe { to_rows(sort, at.from, lanes.start, count, rows) };
            for (i, keys) in rows.chunks_exact(sort.length.max(1)).enumerate() {
                // SAFETY: forwarded to the caller.
                unsafe { written(sort, at, lanes.start + i, in_order::<K>(sort, keys, entries, spare)) };
            }
        });
        lanes.start += count;
    }
}

/// How far from the first element of `rows` rows' lanes that of `lane` is.
fn first(sort: &Sort, lane: usize, rows: usize) -> usize {
    lane / sort.inner * rows * sort.inner + lane % sort.inner
}

/// Copies so many lanes from `lane` on, which lie beside each other, to a row each.
///
/// # Safety
/// They are lanes of `from`.
unsafe fn to_rows<R: Copy>(sort: &Sort, from: *const R, lane: usize, count: usize, rows: &mut [R]) {
    let begin = first(sort, lane, sort.length);
    for place in 0..sort.length {
        // SAFETY: forwarded to the caller.
        let beside = unsafe { std::slice::from_raw_parts(from.add(begin + place * sort.inner), count) };
        beside.iter().enumerate().for_each(|(i, &key)| rows[i * sort.length + place] = key);
    }
}

/// The entries of `keys` that are asked for, in order.
fn in_order<'a, K: Key>(
    sort: &Sort,
    keys: &[K::Raw],
    entries: &'a mut [K::Entry],
    spare: &mut [K::Entry],
) -> &'a [K::Entry] {
    match sort.order {
        Order::Rising => ranked(sort, keys, K::rank, entries, spare),
        Order::Falling => ranked(sort, keys, |key| K::Entry::reversed(K::rank(key)), entries, spare),
        Order::RisingFromNan => ranked(sort, keys, K::rank_behind_nan, entries, spare),
    }
}

/// As [`in_order`], by these ranks.
fn ranked<'a, R: Copy, E: Entry>(
    sort: &Sort,
    keys: &[R],
    rank: impl Fn(R) -> E::Rank,
    entries: &'a mut [E],
    spare: &mut [E],
) -> &'a [E] {
    let wanted = sort.start..sort.limit;
    let left = match Way::of(sort) {
        Way::Least => {
            entries[0] = least(keys, rank);
            return &entries[..1];
        }
        Way::All => all(keys, rank, entries),
        Way::Front => front(keys, rank, wanted.len(), entries),
        Way::Leading => candidates(keys, rank, &wanted, entries),
    };
    let wanted = wanted.start - left.before..wanted.end - left.before;
    select(&mut entries[..left.count], spare, wanted.clone(), left.by_place);
    &entries[wanted]
}

/// The entry of least rank, the first of several.
fn least<R: Copy, E: Entry>(keys: &[R], rank: impl Fn(R) -> E::Rank) -> E {
    let mut found = (0, least_rank(&keys[..keys.len().min(BLOCK)], &rank));
    for (i, block) in keys.chunks(BLOCK).enumerate().skip(1) {
        let least = least_rank(block, &rank);
        if least < found.1 {
            found = (i * BLOCK, least);
        }
    }
    let (first, least) = found;
    let within = keys[first..].iter().position(|&key| rank(key) == least);
    E::new(least, first + within.unwrap_or_default())
}

/// The least rank of a block. Places would keep the compiler from using vectors.
#[inline(always)]
fn least_rank<R: Copy, T: Copy + Ord>(block: &[R], rank: impl Fn(R) -> T) -> T {
    block[1..].iter().fold(rank(block[0]), |least, &key| least.min(rank(key)))
}

/// What is left of a lane.
struct Candidates {
    /// Entries that come before all of them.
    before: usize,
    count: usize,
    /// Whether they come by their places.
    by_place: bool,
}

/// All entries of `keys`.
fn all<R: Copy, E: Entry>(keys: &[R], rank: impl Fn(R) -> E::Rank, entries: &mut [E]) -> Candidates {
    entries.iter_mut().zip(keys).enumerate().for_each(|(i, (entry, &key))| *entry = E::new(rank(key), i));
    Candidates { before: 0, count: keys.len(), by_place: true }
}

/// Entries of `keys` among which the `wanted` first are, at the beginning of `entries`: those that were among them when they came.
fn front<R: Copy, E: Entry>(keys: &[R], rank: impl Fn(R) -> E::Rank, wanted: usize, entries: &mut [E]) -> Candidates {
    let (mut count, mut bar) = (0, None);
    for (i, block) in keys.chunks(SHORT_BLOCK).enumerate() {
        // Of equals those that come later are not among the first.
        if bar.is_some_and(|bar| least_rank(block, &rank) >= bar) {
            continue;
        }
        for (j, &key) in block.iter().enumerate() {
            let rank = rank(key);
            entries[count] = E::new(rank, i * SHORT_BLOCK + j);
            count += usize::from(bar.is_none_or(|bar| rank < bar));
        }
        if count >= most(wanted) {
            let (_, last, _) = entries[..count].select_nth_unstable(wanted - 1);
            (bar, count) = (Some(last.rank()), wanted);
        }
    }
    Candidates { before: 0, count, by_place: false }
}

/// The entries of `keys` among which those wanted are, by the leading bits of their ranks, at the beginning of `entries`.
fn candidates<R: Copy, E: Entry>(
    keys: &[R],
    rank: impl Fn(R) -> E::Rank,
    wanted: &Range<usize>,
    entries: &mut [E],
) -> Candidates {
    let mut counts = [0u32; 1 << LEADING];
    keys.iter().for_each(|&key| counts[E::leading(rank(key))] += 1);
    // The group that holds a position, and how many come before the group.
    let group_of = |position: usize| {
        let mut before = 0;
        for (group, &count) in counts.iter().enumerate() {
            if position < before + count as usize {
                return (group, before);
            }
            before += count as usize;
        }
        (counts.len(), before)
    };
    let (least, before) = group_of(wanted.start);
    let most = wanted.end.checked_sub(1).map_or(0, |last| group_of(last).0);
    let mut count = 0;
    for (place, &key) in keys.iter().enumerate() {
        let rank = rank(key);
        // Written whether it is one or not: a branch would be foretold badly.
        entries[count] = E::new(rank, place);
        count += usize::from((least..=most).contains(&E::leading(rank)));
    }
    Candidates { before, count, by_place: true }
}

/// Puts in order those entries that belong to `wanted`.
fn select<E: Entry>(entries: &mut [E], spare: &mut [E], wanted: Range<usize>, by_place: bool) {
    if wanted.is_empty() {
        return;
    }
    let Range { start, end } = wanted.clone();
    // Selections mix them.
    let first = if by_place && wanted.len() == entries.len() { PLACE } else { 0 };
    if end < entries.len() {
        entries.select_nth_unstable(end - 1);
    }
    if start > 0 {
        entries[..end].select_nth_unstable(start);
    }
    order(&mut entries[start..end], spare, first);
}

/// Puts entries in order that are already by the digits before `first`.
fn order<E: Entry>(entries: &mut [E], spare: &mut [E], first: usize) {
    if entries.len() < LONG {
        return entries.sort_unstable();
    }
    let spare = &mut spare[..entries.len()];
    let mut counts = [[0u32; 256]; PLACE + 8];
    for &entry in entries.iter() {
        (first..E::DIGITS).for_each(|which| counts[which][entry.digit(which)] += 1);
    }
    let all = entries.len() as u32;
    let differing = (first..E::DIGITS).filter(|&which| !counts[which].contains(&all));
    let (mut from, mut to, mut passes) = (&mut *entries, spare, 0);
    for which in differing {
        by_digit(from, to, which, &counts[which]);
        std::mem::swap(&mut from, &mut to);
        passes += 1;
    }
    if passes % 2 == 1 {
        to.copy_from_slice(from);
    }
}

/// Writes `from` into `to` by one digit; equals keep their order. `counts` says how many there are of each digit.
fn by_digit<E: Entry>(from: &[E], to: &mut [E], which: usize, counts: &[u32; 256]) {
    let mut next = 0;
    let mut places = counts.map(|count| {
        next += count;
        next - count
    });
    for &entry in from {
        let place = &mut places[entry.digit(which)];
        to[*place as usize] = entry;
        *place += 1;
    }
}

/// Writes the results of `lane`, of which these are the entries.
///
/// # Safety
/// As [`sorted`].
unsafe fn written<R: Copy, E: Entry>(sort: &Sort, at: &Tensors<'_, R>, lane: usize, entries: &[E]) {
    let (from, to) = (first(sort, lane, sort.length), first(sort, lane, sort.asked_for()));
    // SAFETY: forwarded to the caller; a place is one in its lane.
    unsafe {
        moved(sort, at.from.add(from), at.to.add(to), entries);
        match at.places {
            Places::None => {}
            Places::I32(places) => placed(sort, places.add(to), entries, |place| place as i32),
            Places::I64(places) => placed(sort, places.add(to), entries, |place| place as i64),
        }
        for other in at.others {
            let (from, to) = (other.from.add(from * other.width), other.to.add(to * other.width));
            match other.width {
                1 => moved(sort, from, to, entries),
                2 => moved::<[u8; 2], E>(sort, from.cast(), to.cast(), entries),
                4 => moved::<[u8; 4], E>(sort, from.cast(), to.cast(), entries),
                8 => moved::<[u8; 8], E>(sort, from.cast(), to.cast(), entries),
                _ => moved::<[u8; 16], E>(sort, from.cast(), to.cast(), entries),
            }
        }
    }
}

/// Writes the elements of a lane that these entries stand for.
///
/// # Safety
/// As [`sorted`], of the first of them.
unsafe fn moved<T: Copy, E: Entry>(sort: &Sort, from: *const T, to: *mut T, entries: &[E]) {
    for (i, entry) in entries.iter().enumerate() {
        // SAFETY: forwarded to the caller.
        unsafe { to.add(i * sort.inner).write(*from.add(entry.place() * sort.inner)) };
    }
}

/// Writes the places in their lane of these entries.
///
/// # Safety
/// As [`moved`].
unsafe fn placed<T, E: Entry>(sort: &Sort, to: *mut T, entries: &[E], number: impl Fn(usize) -> T) {
    for (i, entry) in entries.iter().enumerate() {
        // SAFETY: forwarded to the caller.
        unsafe { to.add(i * sort.inner).write(number(entry.place())) };
    }
}
