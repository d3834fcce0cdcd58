//! Runs the rules on an e-graph until nothing new comes of it or a limit is reached.
//!
//! The limits are counts, never times, and rules run in the order of the table, so the same graph gives the same e-graph.

use crate::analysis::EGraph;
use crate::change::Class;
use crate::rule::{Member, Ready};
use egg::{Id, Language, Searcher};

/// Rounds over all rules at most.
const ITERATIONS: usize = 6;
/// E-nodes at most, as a multiple of those of the graph, and a few more.
const GROWTH: usize = 8;
const SLACK: usize = 2000;
/// How far beyond that one rule may go, as a multiple.
const OVERSHOOT: usize = 2;

/// One use of a rule.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// The position of the rule among those that were run.
    pub(crate) rule: usize,
    /// The e-class that was rewritten, one of them if it was several.
    pub(crate) root: Id,
    /// The first e-node that was added for it, and one past the last, as egg numbers them.
    pub(crate) nodes: (usize, usize),
}

/// What ends a run.
#[derive(Clone, Copy)]
struct Limits {
    steps: usize,
    nodes: usize,
}

impl Limits {
    fn reached(self, egraph: &EGraph, steps: &[Step]) -> bool {
        steps.len() >= self.steps || egraph.total_size() > self.nodes
    }

    /// Those within one rule, which may end what it began but can find tens of thousands of places.
    fn of_one_rule(self) -> Limits {
        Limits { nodes: OVERSHOOT * self.nodes, ..self }
    }
}

/// Applies `rules` of at most class `class` to `egraph` until it took `most` steps; gives the steps, in order.
pub(crate) fn saturate(egraph: &mut EGraph, rules: &[Ready], class: Class, most: usize) -> Vec<Step> {
    let limits = Limits { steps: most, nodes: egraph.total_size() * GROWTH + SLACK };
    let mut steps = vec![];
    for _ in 0..ITERATIONS {
        let before = steps.len();
        for (number, ready) in rules.iter().enumerate().filter(|(_, r)| r.rule.class <= class) {
            if limits.reached(egraph, &steps) {
                return steps;
            }
            run(egraph, number, ready, limits.of_one_rule(), &mut steps);
        }
        if steps.len() == before {
            break;
        }
    }
    steps
}

fn run(egraph: &mut EGraph, number: usize, ready: &Ready, limits: Limits, steps: &mut Vec<Step>) {
    for member in &ready.members {
        run_member(egraph, number, ready, member, limits, steps);
    }
}

fn run_member(
    egraph: &mut EGraph,
    number: usize,
    ready: &Ready,
    member: &Member,
    limits: Limits,
    steps: &mut Vec<Step>,
) {
    for found in member.left.search(egraph) {
        for subst in &found.substs {
            if limits.reached(egraph, steps) {
                break;
            }
            let root = egraph.find(found.eclass);
            let start = egraph.nodes().len();
            egraph.analysis.loc = egraph[root].data.loc;
            let equal = ready.apply(member, egraph, root, subst);
            let nodes = (start, egraph.nodes().len());
            let mut news = false;
            for (left, right) in equal {
                let same = egraph[left].data.ty == egraph[right].data.ty;
                debug_assert!(same, "rule {} changes a type", ready.rule.name);
                news |= same && egraph.union(left, right);
            }
            if news {
                steps.push(Step { rule: number, root, nodes });
            }
        }
    }
    if !egraph.clean {
        egraph.rebuild(); // a match that was declined may have added nodes too
    }
}

/// The step that made each e-node, by what the e-node is now; `None` for those of the program.
pub(crate) struct Makers {
    known: rustc_hash::FxHashMap<crate::language::Node, Option<usize>>,
}

impl Makers {
    pub(crate) fn new(egraph: &EGraph, steps: &[Step]) -> Makers {
        let mut known = rustc_hash::FxHashMap::default();
        let mut next = 0;
        for (id, node) in egraph.nodes().iter().enumerate() {
            while next < steps.len() && steps[next].nodes.1 <= id {
                next += 1;
            }
            let maker = steps.get(next).filter(|s| s.nodes.0 <= id).map(|_| next);
            let now = node.clone().map_children(|c| egraph.find(c));
            known.entry(now).or_insert(maker);
        }
        Makers { known }
    }
    /// The step that first made `node`, whose children are canonical.
    pub(crate) fn of(&self, node: &crate::language::Node) -> Option<usize> {
        self.known.get(node).copied().flatten()
    }
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::*;
    use crate::analysis::encode;
    use crate::change::Platform;
    use crate::formulate::testing::Random;
    use crate::rule::{Right, Rule};
    use ir::{Binary, Builder, Comparison, DType, Graph, InputKind, Number, OutputKind, TensorType, Unary};
    use std::fmt::Write;

    fn saturated(text: &str, rules: &[Ready]) -> (EGraph, usize, Vec<Step>) {
        let graph = ir::text::parse(text).expect("a program");
        let (mut egraph, _) = encode(&graph, Platform::Tpu);
        let before = egraph.total_size();
        let steps = saturate(&mut egraph, rules, Class::Reassociating, usize::MAX);
        (egraph, before, steps)
    }

    /// `x` is a choice among itself, again and again, and so is every choice that masks are joined for.
    #[test]
    fn a_choice_between_one_value_and_itself_is_soon_done() {
        let text = "graph @g {
  %0: f32[8] = input 0 \"x\" user
  %1: bool[8] = compare_lt %0, %0
  %2: f32[8] = select %1, %0, %0
  %3: f32[8] = abs %2
  return %3 \"y\"
}";
        let (egraph, before, steps) = saturated(text, crate::rules::ready());
        assert!(steps.len() < 10 && egraph.total_size() < 2 * before, "{} steps", steps.len());
    }

    static MANY: Rule = Rule {
        name: "many-negations",
        class: Class::Exact,
        why: "for each match as many e-nodes as it takes",
        left: "(abs ?x)",
        right: Right::Build("a hundred negations", |e| {
            (0..100).try_fold(e.root(), |value, _| e.unary(Unary::Negate, value))
        }),
    };

    /// A rule that finds many places stops at the limit, not when it has been everywhere.
    #[test]
    fn the_limit_holds_within_a_rule() {
        let mut text = String::from("graph @g {\n");
        for i in 0..1000 {
            writeln!(text, "  %{}: f32[8] = input {i} \"x{i}\" user", 2 * i).expect("a string");
            writeln!(text, "  %{}: f32[8] = abs %{}", 2 * i + 1, 2 * i).expect("a string");
        }
        let outputs: Vec<String> = (0..1000).map(|i| format!("%{} \"y{i}\"", 2 * i + 1)).collect();
        writeln!(text, "  return {}\n}}", outputs.join(", ")).expect("a string");
        let (egraph, before, steps) = saturated(&text, &[Ready::new(&MANY)]);
        let most = OVERSHOOT * (GROWTH * before + SLACK) + 101;
        assert!(egraph.total_size() <= most, "{} e-nodes, not {most}", egraph.total_size());
        assert!(!steps.is_empty());
    }

    /// Programs of few values that meet themselves and constants again and again: what rules simplify, and what could feed
    /// them with their own results.
    fn degenerate(r: &mut Random) -> Graph {
        let b = Builder::new("degenerate");
        let shape = [4, 8];
        let kinds = |dtype: DType| TensorType::new(dtype, shape);
        let mut floats = vec![
            b.input("x", InputKind::User, kinds(DType::F32)),
            b.full(Number::Float(r.one_of(&[0.0, 1.0, 2.0])), DType::F32, &shape).expect("a constant"),
        ];
        let mut bools = vec![
            b.input("p", InputKind::User, kinds(DType::Bool)),
            b.full(Number::Bool(r.below(2) == 0), DType::Bool, &shape).expect("a constant"),
        ];
        for _ in 0..r.within(4, 14) {
            let [x, y] = [r.one_of(&floats), r.one_of(&floats)];
            let [p, q] = [r.one_of(&bools), r.one_of(&bools)];
            let arithmetic = [Binary::Add, Binary::Subtract, Binary::Multiply, Binary::Divide, Binary::Maximum];
            let made = match r.below(9) {
                0 | 1 => b.select(p, x, y),
                2 | 3 => b.binary(r.one_of(&arithmetic), x, y),
                4 => b.unary(r.one_of(&[Unary::Negate, Unary::Abs]), x),
                5 => b.compare(r.one_of(&[Comparison::Lt, Comparison::Eq]), x, y),
                6 => b.binary(r.one_of(&[Binary::And, Binary::Or]), p, q),
                7 => b.unary(Unary::Not, p),
                _ => b.select(p, q, r.one_of(&bools)),
            }
            .expect("an op");
            if b.dtype(made) == DType::Bool { bools.push(made) } else { floats.push(made) }
        }
        b.output("y", OutputKind::User, floats[floats.len() - 1]);
        b.output("q", OutputKind::User, bools[bools.len() - 1]);
        b.finish()
    }

    #[test]
    fn rules_do_not_feed_on_themselves() {
        let mut worst = (0, 0);
        for seed in 0..500 {
            let graph = degenerate(&mut Random(seed));
            let (mut egraph, _) = encode(&graph, Platform::Tpu);
            let before = egraph.total_size();
            saturate(&mut egraph, crate::rules::ready(), Class::PrecisionChanging, usize::MAX);
            worst = worst.max((egraph.total_size() / before, seed));
        }
        assert!(worst.0 <= 12, "seed {} grows {}-fold", worst.1, worst.0);
    }
}
