//! The search beside the exact optimum: an integer program, of e-graphs small enough for its solver.

use super::{Candidate, Extractor, Search, Walk, readers};
use crate::analysis::encode;
use crate::change::{Class, Platform};
use crate::saturate::saturate;
use crate::window;
use egg::Id;
use good_lp::{Expression, ProblemVariables, Solution, SolverModel, Variable, constraint, microlp, variable};
use ir::Graph;
use std::path::Path;

/// E-nodes that the solver may choose from.
const MOST: usize = 200;

/// The least that a choice costs, by an integer program: each root has one e-node, each e-node that is chosen has one of
/// each of its operands, and levels forbid circles. In units of `scale`.
fn exact(of: &Extractor, scale: f64) -> f64 {
    let reachable = reachable(of);
    let mut vars = ProblemVariables::new();
    let count = reachable.iter().filter(|&&r| r).count() as f64;
    let chosen: Vec<Vec<Variable>> = of
        .nodes
        .iter()
        .zip(&reachable)
        .map(|(nodes, &r)| if r { nodes.iter().map(|_| vars.add(variable().binary())).collect() } else { vec![] })
        .collect();
    let level: Vec<Variable> = of.nodes.iter().map(|_| vars.add(variable().min(0).max(count))).collect();
    let mut cost = Expression::from(0);
    for (nodes, xs) in of.nodes.iter().zip(&chosen) {
        xs.iter().zip(nodes).for_each(|(&x, node)| cost += (node.cost as f64 / scale) * x);
    }
    let any = |class: usize| chosen[class].iter().copied().sum::<Expression>();
    let mut problem = vars.minimise(cost.clone()).using(microlp);
    for &root in &of.roots {
        problem.add_constraint(constraint!(any(root) == 1));
    }
    for (class, xs) in chosen.iter().enumerate() {
        for (&x, node) in xs.iter().zip(&of.nodes[class]) {
            for &operand in &node.operands {
                problem.add_constraint(constraint!(any(operand) >= x));
                let apart = level[class] - level[operand];
                problem.add_constraint(constraint!(apart >= 1.0 - (count + 1.0) * (1.0 - x)));
            }
        }
    }
    problem.solve().expect("a choice").eval(cost)
}

/// The e-classes that any choice may need.
fn reachable(of: &Extractor) -> Vec<bool> {
    let mut seen = vec![false; of.nodes.len()];
    let mut open = of.roots.clone();
    while let Some(class) = open.pop() {
        if !std::mem::replace(&mut seen[class], true) {
            open.extend(of.nodes[class].iter().flat_map(|n| n.operands.iter().copied()));
        }
    }
    seen
}

/// What the program costs as the search leaves it, and at its least if it is small enough.
fn costs(graph: &Graph, platform: Platform) -> (u64, Option<f64>) {
    let (mut egraph, ids) = encode(graph, platform);
    let steps = saturate(&mut egraph, crate::rules::ready(), Class::Reassociating, usize::MAX);
    let roots: Vec<_> = graph.outputs.iter().map(|o| egraph.find(ids[o.value.index()])).collect();
    let extractor = Extractor::new(&egraph, &roots, platform);
    let places = window::Places::new(&egraph);
    let first = window::original(&places, &ids);
    let found = extractor.best(&first, &window::moves(&places, &steps));
    let total = |c| Walk::new(extractor.ids.len()).run(&extractor, &extractor.picks(c)).expect("a choice");
    let (before, after) = (total(&first), total(&found));
    let choices: usize =
        reachable(&extractor).iter().zip(&extractor.nodes).filter(|(r, _)| **r).map(|(_, n)| n.len()).sum();
    let least = (choices <= MOST).then(|| exact(&extractor, before as f64) * before as f64);
    (after, least)
}

#[test]
fn the_choice_costs_next_to_the_least() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/patterns");
    let mut files: Vec<_> = std::fs::read_dir(folder).expect("the folder").map(|f| f.expect("a file").path()).collect();
    files.sort_unstable();
    let mut solved = 0;
    for path in &files {
        let graph = ir::text::parse(&std::fs::read_to_string(path).expect("a file")).expect("a program");
        for platform in [Platform::Cpu, Platform::Tpu] {
            let (after, least) = costs(&graph, platform);
            if let Some(least) = least {
                solved += 1;
                assert!(after as f64 <= 1.01 * least, "{} on {platform:?}: {after} ps, not {least}", path.display());
            }
        }
    }
    assert!(solved >= files.len(), "{solved} were small enough");
}

/// How many products and transposes a window becomes on a TPU.
fn products_and_transposes(text: &str) -> (usize, usize) {
    let graph = ir::text::parse(text).expect("a program");
    let options = crate::Options::new(Class::Reassociating, Platform::Tpu);
    let made = window::optimize(&graph, crate::rules::ready(), options, usize::MAX).expect("a program").graph;
    let count = |of: fn(&ir::Op) -> bool| made.nodes().iter().filter(|node| of(&node.op)).count();
    (count(|op| matches!(op, ir::Op::DotGeneral(_))), count(|op| matches!(op, ir::Op::Transpose { .. })))
}

#[test]
fn parts_of_a_product_are_given_up_together() {
    let mut text = String::from(
        "graph @qkv {\n  %0: bf16[64,256] = input 0 \"x\" user\n  %1: bf16[768,256] = input 1 \"w\" user\n  \
         %2: bf16[256,768] = transpose(permutation:[1,0]) %1\n  %3: f32[64,768] = \
         dot_general(lhs_batch:[],rhs_batch:[],lhs_contract:[1],rhs_contract:[0],precision:default,out:f32) %0, %2\n",
    );
    for part in 0..3 {
        let (start, limit) = (256 * part, 256 * (part + 1));
        text +=
            &format!("  %{}: f32[64,256] = slice(start:[0,{start}],limit:[64,{limit}],stride:[1,1]) %3\n", 4 + part);
    }
    text += "  return %4 \"q\", %5 \"k\", %6 \"v\"\n}\n";
    assert_eq!(products_and_transposes(&text), (1, 0), "the transpose goes, the product stays whole");
}

/// Candidates of an e-class, each a price and its operands.
type Priced<'a> = [(u64, &'a [usize])];

/// The least that is found of e-classes with these candidates, from the first of each.
fn least(classes: &[&Priced<'_>], roots: &[usize]) -> u64 {
    let candidate =
        |&(cost, operands): &(u64, &[usize])| Candidate { cost, operands: operands.iter().copied().collect() };
    let nodes: Vec<Vec<Candidate>> = classes.iter().map(|class| class.iter().map(candidate).collect()).collect();
    let ids: Vec<Id> = (0..nodes.len()).map(Id::from).collect();
    let place = ids.iter().enumerate().map(|(i, &id)| (id, i)).collect();
    let of = Extractor { readers: readers(&nodes), ids, place, nodes, roots: roots.to_vec() };
    let mut search = Search::new(&of, vec![0; classes.len()]).expect("a choice");
    search.run(&[]);
    search.least
}

#[test]
fn a_whole_is_given_up_for_its_parts_together() {
    // Parts 1 and 2 are read off a whole of 100, or made for 40 each; 4 and 5 are better read off their whole of 45. The
    // bottom-up pass makes all four by themselves, which is worse than the first choice, and leaving 0 takes both parts.
    let (whole, of_whole): (&Priced, &Priced) = (&[(100, &[])], &[(1, &[0]), (40, &[])]);
    let (other, of_other): (&Priced, &Priced) = (&[(45, &[])], &[(1, &[3]), (40, &[])]);
    let found = least(&[whole, of_whole, of_whole, other, of_other, of_other], &[1, 2, 4, 5]);
    assert_eq!(found, 2 * 40 + 45 + 2);
}
