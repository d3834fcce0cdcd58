//! Addresses for storages that have no memory of their own.
//!
//! PyTorch wants a data pointer for every storage, compares them, and computes with them. Values live in the plugin, so the
//! addresses handed out lie in a range of the process that is reserved and may never be touched. Blocks come in powers of
//! two, each power in a region of its own, so that an address inside a block leads back to its start.

use std::ptr;

/// The smallest block is `1 << LEAST` bytes.
const LEAST: u32 = 9;
/// The largest block.
const MOST: u32 = 40;
/// Bytes of a region; smaller where the system does not lend that much.
const REGION: [u32; 3] = [41, 38, 35];

/// A reserved range and which of its blocks are taken.
pub(crate) struct Space {
    base: usize,
    region: u32,
    classes: Vec<Class>,
}

#[derive(Default)]
struct Class {
    used: usize,
    free: Vec<usize>,
}

impl Space {
    /// Reserves the range. `None` if the system lends no addresses.
    pub(crate) fn reserve() -> Option<Space> {
        let classes = || (LEAST..=MOST).map(|_| Class::default()).collect::<Vec<_>>();
        REGION.iter().find_map(|&region| {
            let base = reserve(((MOST - LEAST + 1) as usize) << region)?;
            Some(Space { base, region, classes: classes() })
        })
    }

    /// The address of a block of at least `bytes`. `None` if there is none left.
    pub(crate) fn take(&mut self, bytes: u64) -> Option<usize> {
        let power = bytes.max(1).checked_next_power_of_two()?.trailing_zeros().max(LEAST);
        if power > MOST || power > self.region {
            return None;
        }
        let class = &mut self.classes[(power - LEAST) as usize];
        let block = match class.free.pop() {
            Some(block) => block,
            None => {
                let block = class.used;
                if block >= 1 << (self.region - power) {
                    return None;
                }
                class.used += 1;
                block
            }
        };
        Some(self.base + (((power - LEAST) as usize) << self.region) + (block << power))
    }

    /// Takes a block back.
    pub(crate) fn give(&mut self, start: usize) {
        if let Some((class, block)) = self.block(start) {
            self.classes[class].free.push(block);
        }
    }

    /// The start of the block around `address`.
    pub(crate) fn start(&self, address: usize) -> Option<usize> {
        let (class, block) = self.block(address)?;
        Some(self.base + (class << self.region) + (block << (class as u32 + LEAST)))
    }

    fn block(&self, address: usize) -> Option<(usize, usize)> {
        let offset = address.checked_sub(self.base)?;
        let class = offset >> self.region;
        let inside = offset & ((1 << self.region) - 1);
        (class < self.classes.len()).then(|| (class, inside >> (class as u32 + LEAST)))
    }
}

/// Addresses that nothing else gets and that fault when touched.
#[allow(unsafe_code)]
fn reserve(bytes: usize) -> Option<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh anonymous mapping without access; it lives as long as the process.
    let at = unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    (at != libc::MAP_FAILED).then_some(at as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_from_inside_and_used_again() {
        let mut space = Space::reserve().expect("addresses");
        let small = space.take(1).expect("a block");
        let large = space.take(1 << 20).expect("a block");
        assert_eq!(space.start(small + 511), Some(small));
        assert_eq!(space.start(large + (1 << 20) - 1), Some(large));
        assert_ne!(space.take(512), Some(small));
        space.give(small);
        assert_eq!(space.take(300), Some(small));
        assert_eq!(space.start(1), None);
        assert_eq!(space.take(u64::MAX), None);
    }
}
