//! Distributes devices over groups so that each group has as few as possible from one shelf.
//!
//! Invariants:
//!   * a group has at most one device more from a shelf than it must
//!   * each device is used once

use std::collections::BTreeMap;

/// Members of each group, by index among the candidates.
pub struct Dealt {
    pub groups: Vec<Vec<usize>>,
    pub spares: Vec<usize>,
    pub unused: Vec<usize>,
}

/// Makes as many groups of `width` as the devices without `spares` allow. `shelf_of` holds the
/// shelf of each device. Returns `None` if there is not even one group.
pub fn deal(shelf_of: &[Option<&str>], width: usize, spares: usize) -> Option<Dealt> {
    let count = shelf_of.len().checked_sub(spares)? / width;
    if count == 0 {
        return None;
    }
    let mut shelves: BTreeMap<Option<&str>, Vec<usize>> = BTreeMap::new();
    for (at, shelf) in shelf_of.iter().enumerate() {
        shelves.entry(*shelf).or_default().push(at);
    }
    // Reversed, since devices are popped from the end.
    let mut shelves: Vec<Vec<usize>> = shelves.into_values().map(|all| all.into_iter().rev().collect()).collect();
    let mut groups = vec![Vec::new(); count];
    for group in &mut groups {
        // Devices taken from each shelf: the next one comes from the shelf with the fewest, and
        // among these from the one with the most left.
        let mut had = vec![0usize; shelves.len()];
        while group.len() < width {
            let next = (0..shelves.len()).filter(|s| !shelves[*s].is_empty());
            let next = next.min_by_key(|s| (had[*s], std::cmp::Reverse(shelves[*s].len())))?;
            had[next] += 1;
            group.extend(shelves[next].pop());
        }
    }
    let mut rest: Vec<usize> = shelves.into_iter().flatten().collect();
    rest.sort_unstable();
    // Devices that fit into no group can be spares for any.
    let kept = if spares == 0 { 0 } else { rest.len() };
    let unused = rest.split_off(kept);
    Some(Dealt { groups, spares: rest, unused })
}
