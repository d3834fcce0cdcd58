//! Sets of steps, and keys by which what is known of one is found again.

/// Steps, and the key that stands for them.
#[derive(Clone, Debug, Default)]
pub(super) struct Set {
    /// Ascending.
    pub(super) steps: Vec<u32>,
    pub(super) key: Key,
}

/// The sum of the numbers of its steps, which are as if drawn: that of two sets joined is the sum of theirs.
pub(super) type Key = u128;

impl Set {
    /// These, which ascend.
    pub(super) fn of(steps: Vec<u32>) -> Set {
        let key = steps.iter().fold(0, |sum: Key, &s| sum.wrapping_add(number(s)));
        Set { steps, key }
    }

    /// Both as one. They have nothing in common.
    pub(super) fn and(&self, other: &Set) -> Set {
        Set { steps: merged(&self.steps, &other.steps), key: self.key_with(other) }
    }

    /// The key of both as one.
    pub(super) fn key_with(&self, other: &Set) -> Key {
        self.key.wrapping_add(other.key)
    }
}

fn number(step: u32) -> Key {
    let half = |seed: u64| {
        // The finalizer of SplitMix64.
        let z = (u64::from(step) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ seed;
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    Key::from(half(0)) << 64 | Key::from(half(0xD1B5_4A32_D192_ED03))
}

/// Two ascending lists as one.
fn merged(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut all = Vec::with_capacity(a.len() + b.len());
    let mut rest = b;
    for &step in a {
        let before = rest.iter().take_while(|s| **s < step).count();
        all.extend_from_slice(&rest[..before]);
        all.push(step);
        rest = &rest[before..];
    }
    all.extend_from_slice(rest);
    all
}
