//! Memory that the CPU plugin gives back and asks for again in the next call.
//!
//! XLA's CPU client asks the C library for each result, and for all temporaries of a program at once, in every call. What
//! glibc then asks the system for, and what it had given back from its end, are pages that are new each time and cost more
//! than filling them. Here blocks are kept: as much as the plugin had in use at once, until nobody wanted them for some
//! seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_void};
use std::sync::Once;
use std::thread;
use std::time::{Duration, Instant};
use std::{mem, ptr};

use super::imports;
use super::locked::Locked;

/// Bytes from which on blocks are kept. Smaller ones the C library keeps itself, mostly.
const LEAST: usize = 1 << 15;
/// Blocks beyond which there are no more than the C library's: the system counts mappings, and lets a process have 65,530 by
/// default.
const MOST_BLOCKS: usize = 1 << 14;
/// What blocks and their sizes are multiples of.
const PAGE: usize = 4096;
/// Linux's large pages, by which large blocks are aligned.
const LARGE_PAGE: usize = 2 << 20;
/// Bytes that may be kept beyond what was in use at once, and an eighth of that.
const SPARE: usize = 32 << 20;
/// How long a block waits to be wanted again.
const PATIENCE: Duration = Duration::from_secs(10);

static POOL: Locked<Pool> = Locked::new(Pool::new());

/// Has the library that `inside` points into, a plugin for the CPU, take its memory from here. Whether it does.
pub(super) fn serve(inside: *const c_void) -> bool {
    static FORKS: Once = Once::new();
    // SAFETY: the handlers lock and unlock. Without them, which happens when memory is gone, a child may wait for ever.
    FORKS.call_once(|| _ = unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) });
    // `free` first: it takes all that there is, whoever it comes from.
    let free = (c"free", release as unsafe extern "C" fn(*mut c_void) as *const c_void);
    let allocate = allocate as unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int as *const c_void;
    // SAFETY: the loader has loaded the library, and the functions are what they replace.
    unsafe { imports::replace(inside, &[free, (c"posix_memalign", allocate)]) }
}

/// Memory that plugins took from the process's pool ([`Plugin::keep_memory`](crate::Plugin::keep_memory)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPool {
    /// Bytes in use.
    pub lent: usize,
    /// Bytes that wait to be used again.
    pub kept: usize,
}

/// How large the pool of the process is.
pub fn size() -> MemoryPool {
    POOL.with(|pool| MemoryPool { lent: pool.lent_bytes, kept: pool.kept.bytes })
}

/// Gives the system what the pool of the process keeps.
pub fn give_back() {
    unmap(POOL.with(|pool| pool.leave(|_| true)));
}

extern "C" fn before_fork() {
    POOL.lock();
}

extern "C" fn after_fork() {
    POOL.unlock();
}

extern "C" fn in_child() {
    POOL.unlock();
    // The thread that did is the parent's.
    POOL.with(|pool| pool.is_tended = false);
}

/// `posix_memalign`.
unsafe extern "C" fn allocate(out: *mut *mut c_void, alignment: usize, size: usize) -> c_int {
    let block = if size >= LEAST && alignment <= PAGE { take(size) } else { None };
    match block {
        // SAFETY: the caller's place for the address.
        Some(block) => unsafe { out.write(block as *mut c_void) },
        // SAFETY: as the caller has it.
        None => return unsafe { libc::posix_memalign(out, alignment, size) },
    }
    0
}

/// `free`.
unsafe extern "C" fn release(at: *mut c_void) {
    // Next to none of the C library's blocks begins with a page, so few are looked up.
    let maybe_ours = !at.is_null() && (at as usize).is_multiple_of(PAGE);
    if !maybe_ours || !give(at as usize) {
        // SAFETY: as the caller has it.
        unsafe { libc::free(at) };
    }
}

/// A block of so many bytes; none if the system has none, or there are too many.
fn take(size: usize) -> Option<usize> {
    let size = size.checked_next_multiple_of(PAGE)?;
    let found = POOL.with(|pool| pool.lend_kept(size).ok_or_else(|| (pool.make_room(size), pool.has_place())));
    let (left, has_place) = match found {
        Ok(block) => return Some(block),
        Err(missed) => missed,
    };
    unmap(left);
    let block = if has_place { map(size) } else { None }?;
    POOL.with(|pool| pool.lend(block, size));
    Some(block)
}

/// Takes a block back. Whether it is one.
fn give(block: usize) -> bool {
    let (is_ours, is_tended) = POOL.with(|pool| (pool.keep(block), mem::replace(&mut pool.is_tended, true)));
    if !is_tended && thread::Builder::new().name("torchtpu-memory".to_owned()).spawn(tend).is_err() {
        POOL.with(|pool| pool.is_tended = false);
    }
    is_ours
}

/// Gives the system what nobody wanted for a while, as long as anything is kept.
fn tend() {
    loop {
        thread::sleep(PATIENCE);
        let now = Instant::now();
        let (left, is_over) = POOL.with(|pool| {
            let left = pool.leave(|since| now.duration_since(since) >= PATIENCE);
            pool.forget_most();
            pool.is_tended = !pool.kept.by_age.is_empty();
            (left, !pool.is_tended)
        });
        unmap(left);
        if is_over {
            return;
        }
    }
}

/// Address and size of a block.
type Block = (usize, usize);

struct Pool {
    /// Sizes of blocks in use, by address.
    lent: BTreeMap<usize, usize>,
    kept: Kept,
    lent_bytes: usize,
    /// Most bytes in use at once lately, and in the time before.
    most: [usize; 2],
    /// Whether a thread looks after what is kept.
    is_tended: bool,
}

impl Pool {
    const fn new() -> Pool {
        Pool { lent: BTreeMap::new(), kept: Kept::new(), lent_bytes: 0, most: [0; 2], is_tended: false }
    }

    /// Whether there may be `more` bytes in blocks than there are.
    fn may_grow(&self, more: usize) -> bool {
        let most = self.most[0].max(self.most[1]).max(self.lent_bytes + more);
        self.lent_bytes + self.kept.bytes + more <= most + most / 8 + SPARE
    }

    /// A kept block of at least `size` bytes and not many more.
    fn lend_kept(&mut self, size: usize) -> Option<usize> {
        let most = if self.may_grow(size) { size + size / 8 } else { size.saturating_mul(2) };
        let (block, length) = self.kept.take(size, most)?;
        self.lend(block, length);
        Some(block)
    }

    fn lend(&mut self, block: usize, length: usize) {
        self.lent.insert(block, length);
        self.lent_bytes += length;
        self.most[0] = self.most[0].max(self.lent_bytes);
    }

    /// Takes a block back. Whether it was one of those in use.
    fn keep(&mut self, block: usize) -> bool {
        let Some(length) = self.lent.remove(&block) else { return false };
        self.lent_bytes -= length;
        self.kept.insert((block, length), Instant::now());
        true
    }

    /// Whether one more block may be mapped.
    fn has_place(&self) -> bool {
        self.lent.len() + self.kept.by_age.len() < MOST_BLOCKS
    }

    /// Kept blocks, the oldest first, to be given back before there is one of `size` bytes more.
    fn make_room(&mut self, size: usize) -> Vec<Block> {
        let mut left = Vec::new();
        while !(self.may_grow(size) && self.has_place())
            && let Some(block) = self.kept.take_oldest(|_| true)
        {
            left.push(block);
        }
        left
    }

    /// Those of the kept blocks that are to go, by since when they are there: the oldest.
    fn leave(&mut self, goes: impl Fn(Instant) -> bool) -> Vec<Block> {
        std::iter::from_fn(|| self.kept.take_oldest(&goes)).collect()
    }

    /// What was in use at once before the time before counts no more.
    fn forget_most(&mut self) {
        self.most = [self.lent_bytes, self.most[0]];
    }
}

/// Blocks that nobody uses.
struct Kept {
    /// Since when, by size and address.
    by_size: BTreeMap<(usize, usize), Instant>,
    /// The same by age, with size and address.
    by_age: BTreeSet<(Instant, usize, usize)>,
    bytes: usize,
}

impl Kept {
    const fn new() -> Kept {
        Kept { by_size: BTreeMap::new(), by_age: BTreeSet::new(), bytes: 0 }
    }

    fn insert(&mut self, (block, length): Block, since: Instant) {
        self.by_size.insert((length, block), since);
        self.by_age.insert((since, length, block));
        self.bytes += length;
    }

    /// The least block of at least `least` bytes, if it has at most `most`.
    fn take(&mut self, least: usize, most: usize) -> Option<Block> {
        let (&(length, block), &since) = self.by_size.range((least, 0)..).next()?;
        (length <= most).then(|| self.remove(since, length, block))
    }

    /// The block that is there longest, if it goes by since when.
    fn take_oldest(&mut self, goes: impl Fn(Instant) -> bool) -> Option<Block> {
        let &(since, length, block) = self.by_age.first()?;
        goes(since).then(|| self.remove(since, length, block))
    }

    fn remove(&mut self, since: Instant, length: usize, block: usize) -> Block {
        self.by_size.remove(&(length, block));
        self.by_age.remove(&(since, length, block));
        self.bytes -= length;
        (block, length)
    }
}

/// `size` bytes of the system's, zero; large pages where it has them for who asks.
fn map(size: usize) -> Option<usize> {
    let align = if size < LARGE_PAGE { PAGE } else { LARGE_PAGE };
    let whole = size.checked_add(align - PAGE)?;
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, wherever there is place.
    let at = unsafe { libc::mmap(ptr::null_mut(), whole, access, flags, -1, 0) };
    if at == libc::MAP_FAILED {
        return None;
    }
    let (start, end) = (at as usize, at as usize + whole);
    let block = start.next_multiple_of(align);
    unmap([(start, block - start), (block + size, end - block - size)]);
    if align == LARGE_PAGE {
        // SAFETY: advice on our own mapping, which the system may ignore.
        unsafe { libc::madvise(block as *mut c_void, size, libc::MADV_HUGEPAGE) };
    }
    Some(block)
}

fn unmap(blocks: impl IntoIterator<Item = Block>) {
    for (at, size) in blocks.into_iter().filter(|&(_, size)| size > 0) {
        // SAFETY: whole pages of our own mappings, which nobody uses any more.
        unsafe { libc::munmap(at as *mut c_void, size) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// A block that nothing is written to.
    fn lend_new(pool: &mut Pool, address: usize, size: usize) -> Vec<Block> {
        assert_eq!(pool.lend_kept(size), None);
        let left = pool.make_room(size);
        pool.lend(address, size);
        left
    }

    #[test]
    fn a_block_is_lent_again_to_who_wants_nearly_as_much() {
        let mut pool = Pool::new();
        lend_new(&mut pool, 1, 80 * MIB);
        assert!(!pool.keep(2), "never lent");
        assert!(pool.keep(1) && !pool.keep(1), "lent once");
        assert_eq!((pool.lent_bytes, pool.kept.bytes), (0, 80 * MIB));
        assert_eq!(pool.lend_kept(81 * MIB), None);
        assert_eq!(pool.lend_kept(8 * MIB), None);
        assert_eq!(pool.lend_kept(72 * MIB), Some(1));
        assert_eq!((pool.lent_bytes, pool.kept.bytes), (80 * MIB, 0));
    }

    #[test]
    fn the_least_block_that_fits_is_taken() {
        let mut pool = Pool::new();
        for (address, size) in [(1, 66), (2, 64), (3, 68)] {
            lend_new(&mut pool, address, size * MIB);
        }
        assert!([1, 2, 3].into_iter().all(|block| pool.keep(block)));
        assert_eq!(pool.lend_kept(65 * MIB), Some(1));
    }

    #[test]
    fn no_more_is_kept_than_was_in_use_at_once() {
        let mut pool = Pool::new();
        for i in 0..100 {
            let left = lend_new(&mut pool, i, (400 + i * 100) * MIB);
            let oldest_first: Vec<usize> = left.iter().map(|&(block, _)| block).collect();
            assert!(oldest_first.is_sorted());
            assert!(pool.lent_bytes + pool.kept.bytes <= (400 + i * 100) * MIB / 8 * 9 + SPARE);
            assert!(pool.keep(i));
        }
    }

    #[test]
    fn there_are_no_more_blocks_than_the_system_maps() {
        let mut pool = Pool::new();
        (0..MOST_BLOCKS).for_each(|block| pool.lend(block, LEAST));
        assert_eq!(pool.make_room(LEAST), []);
        assert!(!pool.has_place());
        assert!(pool.keep(7) && pool.keep(3));
        assert_eq!(pool.make_room(2 * LEAST), [(7, LEAST)], "the oldest makes room");
        assert!(pool.has_place());
    }

    #[test]
    fn where_no_more_may_be_kept_a_block_of_twice_the_size_will_do() {
        let mut pool = Pool::new();
        lend_new(&mut pool, 1, 1000 * MIB);
        assert!(pool.keep(1));
        assert_eq!(pool.lend_kept(400 * MIB), None);
        assert_eq!(pool.lend_kept(500 * MIB), Some(1));
    }

    #[test]
    fn what_nobody_wants_is_left_and_what_was_in_use_once_forgotten() {
        let mut pool = Pool::new();
        lend_new(&mut pool, 1, 64 * MIB);
        lend_new(&mut pool, 2, 320 * MIB);
        assert!(pool.keep(1));
        let between = Instant::now();
        assert!(pool.keep(2));
        assert_eq!(pool.leave(|since| since < between), [(1, 64 * MIB)]);
        assert_eq!(pool.kept.bytes, 320 * MIB);
        pool.forget_most();
        assert!(pool.may_grow(64 * MIB));
        pool.forget_most();
        assert!(!pool.may_grow(64 * MIB));
    }

    #[test]
    fn blocks_are_whole_pages_that_can_be_written() {
        for size in [PAGE, LEAST, LARGE_PAGE, 3 * LARGE_PAGE + PAGE] {
            let block = map(size).expect("memory");
            assert!(block.is_multiple_of(if size < LARGE_PAGE { PAGE } else { LARGE_PAGE }));
            for at in [block, block + size - 1] {
                // SAFETY: the block's first and last byte.
                unsafe { (at as *mut u8).write(1) };
            }
            unmap([(block, size)]);
        }
        assert_eq!(map(usize::MAX - PAGE), None);
    }

    #[test]
    fn allocating_and_freeing_are_as_the_c_librarys() {
        for (alignment, size) in [(64, 100), (64, LEAST), (64, 5 * MIB + 1), (2 * PAGE, 4 * MIB)] {
            let mut at = ptr::null_mut();
            // SAFETY: a place for an address.
            assert_eq!(unsafe { allocate(&mut at, alignment, size) }, 0);
            assert!((at as usize).is_multiple_of(alignment));
            // SAFETY: the block's last byte, and the block.
            unsafe {
                at.cast::<u8>().add(size - 1).write(1);
                release(at);
            }
        }
        let mut at = ptr::null_mut();
        // SAFETY: as above.
        assert_eq!(unsafe { allocate(&mut at, 64, usize::MAX / 2) }, libc::ENOMEM);
        // SAFETY: `free` takes null.
        unsafe { release(ptr::null_mut()) };
    }

    #[test]
    fn a_fork_finds_the_pool_open_and_whole() {
        // Of a library without them, none is replaced; the handlers are there.
        assert!(!serve(ptr::null()));
        let use_it = || {
            let mut at = ptr::null_mut();
            // SAFETY: a place for an address, and the block.
            unsafe {
                allocate(&mut at, 64, 2 * MIB);
                release(at);
            }
        };
        let over = std::sync::atomic::AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    use_it();
                }
            });
            for _ in 0..200 {
                // SAFETY: the child allocates and frees, which the C library can do in one, and ends.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    // SAFETY: if it waits for ever, it is killed, and fails.
                    unsafe { libc::alarm(20) };
                    use_it();
                    // SAFETY: ends the child without the parent's handlers.
                    unsafe { libc::_exit(0) };
                }
                let mut status = -1;
                // SAFETY: our child, and a place for how it ended.
                assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
                assert_eq!(status, 0);
            }
            over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
