//! Every rule against the reference evaluator, on random programs that its left side matches.

use super::{THEMES, all};
use crate::analysis::{EGraph, encode};
use crate::change::{Change, Changes, Class, Options, Platform};
use crate::extract::{Choice, op_of};
use crate::language::Node;
use crate::rule::{Member, Ready, Right, Rule};
use crate::windows;
use draw::{Draw, program};
use egg::{Id, Searcher};
use ir::{DType, Graph, InputKind, Literal, Operands, Output, OutputKind, ValueId};
use rustc_hash::FxHashMap;

mod draw;
mod picked;
mod rows;
mod scores;

/// Programs that a rule has to hold on; `make test-all` takes 500.
const CASES: usize = 40;
/// Programs that are drawn for each of them at most.
const ATTEMPTS: usize = 4000;

/// `graph` as the rules of these themes alone make it, and the changes: rules of others would hide what a row is about.
fn rewritten(graph: &Graph, options: Options, rules: &[Ready]) -> (Graph, Vec<Change>) {
    let mut changes = Changes::new(options);
    let made = windows::optimize(graph, rules, None, &mut changes).expect("a program");
    (made, changes.into_vec())
}

fn themes(names: &[&str]) -> Vec<Ready> {
    let named = THEMES.iter().filter(|(theme, _)| names.contains(theme));
    named.flat_map(|(_, rules)| rules.iter()).map(Ready::new).collect()
}

#[test]
fn every_rule_holds() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    // `CASES=50` checks fewer programs; `RULE=name` checks only the theme of this name, or the rules that have it in theirs.
    let only = std::env::var("RULE").unwrap_or_default();
    let cases = std::env::var("CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(CASES);
    let wanted = |theme: &str, r: &&Rule| theme == only || r.name.contains(&only);
    let of = |&(theme, rules): &(&'static str, &'static [Rule])| rules.iter().filter(move |r| wanted(theme, r));
    let rules: Vec<&'static Rule> = THEMES.iter().flat_map(of).collect();
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let run = |i: usize| rules.iter().skip(i).step_by(threads).filter_map(|r| check(r, cases).err()).collect();
        let workers: Vec<_> = (0..threads).map(|i| scope.spawn(move || -> Vec<String> { run(i) })).collect();
        workers.into_iter().flat_map(|w| w.join().expect("a worker")).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn names_are_told_apart_and_reasons_given() {
    let mut names: Vec<&str> = all().map(|r| r.name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|w| w[0] != w[1]));
    for rule in all() {
        assert!(rule.name.chars().all(|c| c.is_ascii_lowercase() || c == '-' || c.is_ascii_digit()), "{}", rule.name);
        assert!(!rule.why.is_empty() && !rule.right.text().is_empty(), "{}", rule.name);
    }
    assert!(THEMES.iter().all(|(_, rules)| !rules.is_empty()));
}

static SWAPPED: Rule = Rule {
    name: "wrong",
    class: Class::Exact,
    why: "a difference is not its negative",
    left: "(subtract ?x ?y)",
    right: Right::Pattern("(subtract ?y ?x)"),
};

static ROUNDED: Rule = Rule {
    name: "not-exact",
    class: Class::Exact,
    why: "sums in another order round elsewhere",
    left: "(add (add ?x ?y) ?z)",
    right: Right::Pattern("(add ?x (add ?y ?z))"),
};

#[test]
fn a_wrong_rule_is_found() {
    assert!(check(&SWAPPED, 50).is_err());
    assert!(check(&ROUNDED, 500).is_err());
}

/// Draws programs until the rule held on `cases`.
fn check(rule: &'static Rule, cases: usize) -> Result<(), String> {
    let ready = Ready::new(rule);
    let mut draw = Draw::new(rule.name);
    let mut held = 0;
    for attempt in 0..cases * ATTEMPTS {
        let platform = [Platform::Cpu, Platform::Tpu][attempt % 2];
        let member = &ready.members[draw.member(ready.members.len())];
        let Some(graph) = program(&mut draw, &member.left.ast) else { continue };
        let Some(both) = both_sides(&graph, &ready, member, platform) else { continue };
        let inputs: Vec<Literal> =
            graph.inputs.iter().map(|i| draw.tensor(graph.tensor_type(i.value).expect("tensor"), rule.class)).collect();
        let Ok(values) = ir::eval(&both, &inputs) else { continue };
        let (left, right) = values.split_at(values.len() / 2);
        for (l, r) in left.iter().zip(right) {
            same(l, r, rule.class)
                .map_err(|e| format!("{}: {e}\n{}\n{inputs:?}", rule.name, ir::text::canonical(&both)))?;
        }
        held += 1;
        if held == cases {
            return Ok(());
        }
    }
    Err(format!("{} was used on {held} of {} programs only", rule.name, cases * ATTEMPTS))
}

/// A program that gives, for every e-class that the rule rewrites in `graph`, the left sides and then the right sides.
fn both_sides(graph: &Graph, ready: &Ready, member: &Member, platform: Platform) -> Option<Graph> {
    let (mut egraph, ids) = encode(graph, platform);
    let root = egraph.find(ids[graph.outputs[0].value.index()]);
    let found = member.left.search_eclass(&egraph, root)?;
    let equal = found.substs.iter().map(|s| ready.apply(member, &mut egraph, root, s)).find(|e| !e.is_empty())?;
    let (left, right): (Vec<Id>, Vec<Id>) = equal.into_iter().unzip();
    // Nothing was united, so every e-class has one e-node.
    let choice: Choice = egraph.classes().map(|c| (c.id, 0)).collect();
    Some(written(&egraph, graph, &ids, &choice, left.into_iter().chain(right)))
}

fn written(egraph: &EGraph, graph: &Graph, ids: &[Id], choice: &Choice, roots: impl Iterator<Item = Id>) -> Graph {
    let mut made = Graph::new("both");
    let mut values: FxHashMap<Id, ValueId> = FxHashMap::default();
    for input in &graph.inputs {
        let value = made.push(graph.node(input.value).clone());
        made.inputs.push(ir::Input { name: String::new(), kind: InputKind::User, value });
        values.insert(egraph.find(ids[input.value.index()]), value);
    }
    for root in roots {
        let value = write(egraph, choice, egraph.find(root), &mut made, &mut values);
        made.outputs.push(Output { name: String::new(), kind: OutputKind::User, value });
    }
    made
}

fn write(egraph: &EGraph, choice: &Choice, id: Id, to: &mut Graph, values: &mut FxHashMap<Id, ValueId>) -> ValueId {
    if let Some(&known) = values.get(&id) {
        return known;
    }
    let node: &Node = &egraph[id].nodes[choice[&id]];
    let operands: Operands =
        node.operands().iter().map(|&c| write(egraph, choice, egraph.find(c), to, values)).collect();
    let (op, bodies) = op_of(egraph, node).expect("an op");
    let (ty, loc) = (egraph[id].data.ty.clone(), ir::LocId::UNKNOWN);
    let value = to.push(ir::Node { op: (*op).clone(), operands, bodies, ty, loc });
    values.insert(id, value);
    value
}

/// Whether two results are as alike as the class of a rule promises.
pub(crate) fn same(left: &Literal, right: &Literal, class: Class) -> Result<(), String> {
    if left.ty != right.ty {
        return Err(format!("{} became {}", left.ty, right.ty));
    }
    let (l, r) = (numbers(left), numbers(right));
    let exact = class == Class::Exact || !left.ty.dtype.is_float();
    let size = l.iter().map(|x| x.abs()).filter(|x| x.is_finite()).fold(1.0, f64::max);
    let narrow = if class == Class::PrecisionChanging { DType::BF16 } else { left.ty.dtype };
    let slack = if exact { 0.0 } else { size * slack(narrow) };
    for (i, (a, b)) in l.iter().zip(&r).enumerate() {
        let equal = a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()) || (!exact && (a - b).abs() <= slack);
        if !equal {
            return Err(format!("element {i} is {a:?} before and {b:?} after"));
        }
    }
    Ok(())
}

fn slack(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-10,
        DType::F32 => 2e-5,
        DType::F16 => 1e-2,
        _ => 6e-2,
    }
}

/// The elements as numbers that tell every value of the type apart.
fn numbers(l: &Literal) -> Vec<f64> {
    let bytes = l.dense_bytes();
    let chunk = |n: usize| bytes.chunks_exact(n).map(|c| c.to_vec());
    match l.ty.dtype {
        DType::F32 => chunk(4).map(|c| f32::from_le_bytes(c.try_into().expect("4")).into()).collect(),
        DType::F64 => chunk(8).map(|c| f64::from_le_bytes(c.try_into().expect("8"))).collect(),
        DType::BF16 => chunk(2).map(|c| half::bf16::from_le_bytes(c.try_into().expect("2")).to_f64()).collect(),
        DType::F16 => chunk(2).map(|c| half::f16::from_le_bytes(c.try_into().expect("2")).to_f64()).collect(),
        DType::I64 | DType::U64 => {
            chunk(8).map(|c| f64::from_bits(u64::from_le_bytes(c.try_into().expect("8")) ^ (1 << 62))).collect()
        }
        other => chunk(other.size()).map(|c| c.iter().rev().fold(0.0, |n, &b| n * 256.0 + f64::from(b))).collect(),
    }
}
