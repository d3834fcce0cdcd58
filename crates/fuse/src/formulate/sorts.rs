//! Which elements of sorts are read.

use ir::{Graph, Op, ValueId};
use std::ops::Range;

/// Of each value, the sort that it is a result of, converted or not.
pub(super) fn sorts(graph: &Graph) -> Vec<Option<ValueId>> {
    let mut sorts: Vec<Option<ValueId>> = Vec::with_capacity(graph.nodes().len());
    for (i, node) in graph.nodes().iter().enumerate() {
        sorts.push(match (&node.op, node.operands.first()) {
            (Op::Sort { .. }, _) if node.operands.len() == 1 => Some(ValueId::new(i)),
            (Op::GetTupleElement { .. }, Some(&of)) if matches!(graph.node(of).op, Op::Sort { .. }) => Some(of),
            (Op::Convert { .. }, Some(of)) => sorts[of.index()],
            _ => None,
        });
    }
    sorts
}

/// Of each sort, the positions along its dimension from the first to the last that is read.
pub(super) fn read_along(graph: &Graph, sorts: &[Option<ValueId>]) -> Vec<Range<usize>> {
    let mut read = vec![0..0; graph.nodes().len()];
    let mut reads = |sort: ValueId, range: Range<usize>| {
        let all = &mut read[sort.index()];
        *all = if all.end == 0 { range } else { all.start.min(range.start)..all.end.max(range.end) };
    };
    for (node, by) in graph.nodes().iter().zip(sorts) {
        for sort in node.operands.iter().filter_map(|v| sorts[v.index()]) {
            match (&node.op, &graph.node(sort).op) {
                (Op::Convert { .. }, _) if *by == Some(sort) => {}
                (Op::Slice { start, limit, .. }, Op::Sort { dim, .. }) if start[*dim] < limit[*dim] => {
                    reads(sort, start[*dim]..limit[*dim]);
                }
                _ => reads(sort, 0..usize::MAX),
            }
        }
    }
    graph.outputs.iter().filter_map(|output| sorts[output.value.index()]).for_each(|sort| reads(sort, 0..usize::MAX));
    read
}
