//! Which dimensions a reshape makes of which.

use std::ops::Range;

/// Runs of dimensions that a reshape makes of each other.
pub type Groups = Vec<(Range<usize>, Range<usize>)>;

/// The finest runs of dimensions of `from` and `to` with as many elements each; `None` if there are no elements.
pub fn groups(from: &[usize], to: &[usize]) -> Option<Groups> {
    if from.iter().chain(to).any(|&n| n == 0) {
        return None;
    }
    let (mut made, mut i, mut j) = (Groups::new(), 0, 0);
    while i < from.len() || j < to.len() {
        let (start, begin) = (i, j);
        let (mut left, mut right) = (1, 1);
        let dropped = from.get(i) == Some(&1) && to.get(j) != Some(&1);
        let added = to.get(j) == Some(&1) && from.get(i) != Some(&1);
        if !added {
            left *= *from.get(i)?;
            i += 1;
        }
        if !dropped {
            right *= *to.get(j)?;
            j += 1;
        }
        while left != right {
            let (n, k, of) = if left < right { (&mut left, &mut i, from) } else { (&mut right, &mut j, to) };
            *n *= *of.get(*k)?;
            *k += 1;
        }
        made.push((start..i, begin..j));
    }
    Some(made)
}
