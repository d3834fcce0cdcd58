//! Nodes of a graph that have to do with each other.

use crate::graph::Graph;

/// The nodes of `graph` that are of a `kind`, apart: of each part, in order, every node reads another or is read by one, all of a kind.
/// Takes nearly linear time.
pub fn parts<K: PartialEq>(graph: &Graph, kind: impl Fn(usize) -> Option<K>) -> Vec<Vec<usize>> {
    // Of each node one before it that it has to do with, or itself.
    let mut before: Vec<usize> = (0..graph.nodes().len()).collect();
    let counted = |&i: &usize| kind(i).is_some();
    for (i, node) in graph.nodes().iter().enumerate().filter(|(i, _)| counted(i)) {
        for operand in node.operands.iter().map(|v| v.index()).filter(|&operand| kind(operand) == kind(i)) {
            let (one, other) = (first(&mut before, i), first(&mut before, operand));
            before[one.max(other)] = one.min(other);
        }
    }
    let mut part_of: Vec<usize> = vec![0; before.len()];
    let mut parts: Vec<Vec<usize>> = vec![];
    for i in (0..before.len()).filter(counted) {
        let first = first(&mut before, i);
        if first == i {
            part_of[i] = parts.len();
            parts.push(vec![]);
        }
        parts[part_of[first]].push(i);
    }
    parts
}

fn first(before: &mut [usize], mut node: usize) -> usize {
    while before[node] != node {
        before[node] = before[before[node]];
        node = before[node];
    }
    node
}

#[cfg(test)]
mod tests {
    use super::parts;
    use crate::{Builder, DType, InputKind, OutputKind, TensorType};

    #[test]
    fn what_reads_the_same_is_one_part() {
        let b = Builder::new("parts");
        let [x, y, z] = ["x", "y", "z"].map(|name| b.input(name, InputKind::User, TensorType::new(DType::F32, [2])));
        let (of_y, of_z) = (b.add(y, y).unwrap(), b.add(z, z).unwrap());
        let both = b.multiply(of_z, x).unwrap();
        [of_y, both].into_iter().enumerate().for_each(|(i, v)| b.output(format!("{i}"), OutputKind::User, v));
        let graph = b.finish();
        assert_eq!(parts(&graph, |_| Some(())), [vec![0, 2, 4, 5], vec![1, 3]]);
        assert_eq!(parts(&graph, |i| (i > 2).then_some(())), [vec![3], vec![4, 5]]);
        assert_eq!(parts(&graph, |i| (i != 4).then_some(())), [vec![0, 5], vec![1, 3], vec![2]]);
        assert_eq!(parts(&graph, |i| Some(i > 4)), [vec![0], vec![1, 3], vec![2, 4], vec![5]]);
    }
}
