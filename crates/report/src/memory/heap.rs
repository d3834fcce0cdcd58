//! Traces of heaps, replayed: in which order the compiler put values there and took them out.

use std::collections::{BTreeMap, HashMap};

use hlo::proto::{BufferAllocationProto, HeapEvent, HeapSimulatorTrace};

use super::bytes;

/// Kinds of events in a heap's trace.
pub(super) const ALLOCATE: i32 = 0;
pub(super) const FREE: i32 = 1;

/// The worst moment of a heap.
pub(super) struct Replay {
    /// Bytes in use then.
    pub(super) most: u64,
    /// How many changes have happened by then.
    events: usize,
}

impl Replay {
    pub(super) fn of(trace: &HeapSimulatorTrace, sizes: &HashMap<i64, u64>) -> Replay {
        let (mut in_use, mut worst) = (0i128, Replay { most: 0, events: 0 });
        for (number, (_, delta)) in changes(trace, sizes).into_iter().enumerate() {
            in_use += delta;
            let now = u64::try_from(in_use).unwrap_or(0);
            if now > worst.most {
                worst = Replay { most: now, events: number + 1 };
            }
        }
        worst
    }

    /// The values in use at that moment, in the order in which they came.
    pub(super) fn live(&self, trace: &HeapSimulatorTrace, sizes: &HashMap<i64, u64>) -> Vec<(i64, u64)> {
        let mut came: Vec<(i64, u64)> = Vec::new();
        let mut places: HashMap<i64, usize> = HashMap::new();
        for (event, delta) in changes(trace, sizes).into_iter().take(self.events) {
            if let Ok(size) = u64::try_from(delta) {
                places.insert(event.buffer_id, came.len());
                came.push((event.buffer_id, size));
            } else if let Some(place) = places.remove(&event.buffer_id) {
                came[place].1 = 0;
            }
        }
        came.into_iter().filter(|&(_, size)| size > 0).collect()
    }
}

/// What each event of a trace changes: bytes come with the buffer that allocates them and go, under the same buffer's
/// id, when the last one is freed that shares them. Events that change nothing are left out.
pub(super) fn changes<'a>(trace: &'a HeapSimulatorTrace, sizes: &HashMap<i64, u64>) -> Vec<(&'a HeapEvent, i128)> {
    let mut changes = Vec::new();
    let mut owners: HashMap<i64, &HeapEvent> = HashMap::new();
    let mut sharers: HashMap<i64, usize> = HashMap::new();
    let size = |id: i64| i128::from(sizes.get(&id).copied().unwrap_or(0));
    for event in &trace.events {
        match event.kind {
            ALLOCATE if !owners.contains_key(&event.buffer_id) => {
                owners.insert(event.buffer_id, event);
                sharers.insert(event.buffer_id, 1);
                changes.push((event, size(event.buffer_id)));
            }
            FREE => {
                let Some(owner) = owners.remove(&event.buffer_id) else { continue };
                let left = sharers.entry(owner.buffer_id).or_insert(1);
                *left = left.saturating_sub(1);
                if *left == 0 {
                    changes.push((owner, -size(owner.buffer_id)));
                }
            }
            ALLOCATE => {}
            _ => {
                let Some(&owner) = owners.get(&event.share_with_canonical_id) else { continue };
                if owners.insert(event.buffer_id, owner).is_none() {
                    *sharers.entry(owner.buffer_id).or_insert(0) += 1;
                }
            }
        }
    }
    changes.retain(|change| change.1 != 0);
    changes
}

/// The most that values cover of an allocation at once. A value may be put where others still are: pieces that were fetched
/// one by one and the whole that they make, or a result that takes its operand's place.
pub(super) fn most_covered(allocation: &BufferAllocationProto, trace: &HeapSimulatorTrace) -> u64 {
    let place = |it: &hlo::proto::AssignedBuffer| (it.logical_buffer_id, (bytes(it.offset), bytes(it.size)));
    let places: HashMap<i64, (u64, u64)> = allocation.assigned.iter().map(place).collect();
    let mut live: BTreeMap<(u64, i64), u64> = BTreeMap::new();
    let (mut sum, mut most) = (0u64, 0u64);
    for event in &trace.events {
        let Some(&(offset, size)) = places.get(&event.buffer_id) else { continue };
        let key = (offset, event.buffer_id);
        if event.kind == FREE {
            sum = sum.saturating_sub(live.remove(&key).unwrap_or(0));
            continue;
        }
        if live.insert(key, size).is_none() {
            sum = sum.saturating_add(size);
        }
        // What values cover is no more than they add up to, which is quickly known.
        if sum > most {
            most = most.max(covered(&live));
        }
    }
    most
}

/// Bytes that values cover, by their offsets.
fn covered(live: &BTreeMap<(u64, i64), u64>) -> u64 {
    let (mut bytes, mut end) = (0u64, 0u64);
    for (&(offset, _), &size) in live {
        let (start, stop) = (offset.max(end), offset.saturating_add(size));
        bytes = bytes.saturating_add(stop.saturating_sub(start));
        end = end.max(stop);
    }
    bytes
}
