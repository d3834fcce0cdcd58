//! The chosen partition against the best there is.
//!
//! Any partition into regions that can run one after the other is a chain of growing sets, each closed under what its
//! steps read. So the best way to each closed set is the best way to a smaller one and the region in between: all of them
//! are tried.

use super::random::{machine, program};
use crate::formulate::testing::Random;
use crate::regions::candidate::Candidates;
use crate::regions::steps::Steps;
use crate::regions::{Machine, regions};
use ir::Graph;
use std::collections::BTreeMap;

/// Windows that are tried.
const WINDOWS: u64 = 300;
/// Nodes of each, at most.
const NODES: usize = 16;

/// The least time that regions of `graph` can take.
fn optimum(graph: &Graph, machine: Machine) -> u64 {
    let steps = Steps::new(graph, machine);
    let mut candidates = Candidates::new(&steps);
    let count = steps.all.len();
    let needs: Vec<u32> =
        steps.all.iter().map(|s| s.reads.iter().filter_map(|r| steps.of(r.value)).fold(0, |m, s| m | 1 << s)).collect();
    let mut known: BTreeMap<u32, Option<u64>> = BTreeMap::new();
    let mut best: BTreeMap<u32, u64> = BTreeMap::from([(0, 0)]);
    // Supersets are greater numbers, so that every set is done when its turn comes.
    while let Some((set, time)) = best.pop_first() {
        if set.count_ones() as usize == count {
            return time;
        }
        let mut grown = vec![set];
        let mut at = 0;
        while at < grown.len() {
            let from = grown[at];
            at += 1;
            let after = 32 - (from ^ set).leading_zeros();
            for next in after..count as u32 {
                if needs[next as usize] & !from == 0 && from & (1 << next) == 0 {
                    grown.push(from | 1 << next);
                }
            }
        }
        for &larger in &grown[1..] {
            let region = larger ^ set;
            let figures = known.entry(region).or_insert_with(|| {
                let members: Vec<u32> = (0..count as u32).filter(|m| region & (1 << m) != 0).collect();
                candidates.figures(&members).ok().map(|f| f.time)
            });
            if let Some(more) = figures {
                let total = best.entry(larger).or_insert(u64::MAX);
                *total = (*total).min(time + *more);
            }
        }
    }
    0
}

/// The windows that are tried, for what holds their bytes against libtpu's (`crates/driver/examples/regions.rs`). It stands
/// among the tests because what draws the windows does, and is ignored because it is none.
#[test]
#[ignore = "writes files into the folder that WINDOWS names; nothing is tested"]
fn windows_as_text() {
    let folder = std::path::PathBuf::from(std::env::var("WINDOWS").expect("WINDOWS=folder"));
    for seed in 0..WINDOWS {
        let (_, graph) = window(seed);
        std::fs::write(folder.join(format!("window-{seed:03}.txt")), ir::text::print(&graph))
            .expect("a folder to write to");
    }
}

fn window(seed: u64) -> (Machine, Graph) {
    let mut r = Random(1000 + seed);
    (machine(&mut r), program(&mut r, NODES))
}

#[test]
fn regions_cost_within_a_twentieth_of_the_optimum() {
    let (mut worst, mut sum, mut optimal) = ((0.0, 0), 0.0, 0);
    for seed in 0..WINDOWS {
        let (machine, graph) = window(seed);
        let computed = graph.nodes().len() - graph.inputs.len();
        assert!(computed <= NODES, "{computed} nodes");
        let chosen: u64 = regions(&graph, &machine).iter().map(|r| r.picoseconds).sum();
        let best = optimum(&graph, machine);
        assert!(chosen >= best, "{chosen} is less than the optimum {best}\n{}", ir::text::print(&graph));
        let gap = chosen as f64 / best as f64 - 1.0;
        sum += gap;
        optimal += u64::from(chosen == best);
        if gap > worst.0 {
            worst = (gap, seed);
        }
    }
    println!(
        "worst {:.2}% (seed {}), mean {:.3}%, optimal {optimal} of {WINDOWS}",
        100.0 * worst.0,
        worst.1,
        100.0 * sum / WINDOWS as f64
    );
    assert!(worst.0 <= 0.05, "seed {} costs {:.1}% more than it need", worst.1, 100.0 * worst.0);
}
