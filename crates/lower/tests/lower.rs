//! What holds for every module, and what goes wrong how.

mod programs;

use ir::{Builder, DType, Graph, InputKind, LocId, Node, Op, OutputKind, TensorType, Type, Unary, ValueId};
use torchtpu_lower::{LowerOptions, PathPrefixes, TextOptions, lower};

fn plain() -> LowerOptions {
    LowerOptions { locations: false, ..LowerOptions::default() }
}

#[test]
fn the_same_program_gives_the_same_bytes() {
    for (name, graph) in programs::all() {
        let first = lower(&graph, &LowerOptions::default()).unwrap();
        assert_eq!(first, lower(&graph, &LowerOptions::default()).unwrap(), "{name}");
    }
}

#[test]
fn without_locations_bytes_do_not_depend_on_them() {
    let mut graph = programs::located().unwrap();
    let located = lower(&graph, &plain()).unwrap();
    graph.name = "elsewhere".to_owned();
    let mut moved = Graph::new("moved");
    for node in graph.nodes() {
        moved.push(Node { loc: LocId::UNKNOWN, ..node.clone() });
    }
    (moved.inputs, moved.outputs) = (graph.inputs.clone(), graph.outputs.clone());
    assert_eq!(located, lower(&moved, &plain()).unwrap());
    assert_ne!(located, lower(&graph, &LowerOptions::default()).unwrap());
}

#[test]
fn locations_are_relative_to_the_project() {
    let graph = programs::located().unwrap();
    let at = |prefix: &str| {
        let path_prefixes = PathPrefixes::new([prefix]);
        let module = lower(&graph, &LowerOptions { path_prefixes, ..LowerOptions::default() }).unwrap();
        module.text_with(TextOptions { locations: true, elide: None }).unwrap()
    };
    let text = at("/home/me/project");
    assert!(text.contains(r#""layers.0.mlp/aten.tanh.default"(#"#), "{text}");
    assert!(text.contains(r#"loc("net.py":12:0)"#), "{text}");
    assert!(!text.contains("/home/me"), "{text}");
    assert!(at("/home/me").contains(r#"loc("project/net.py":12:0)"#));
}

#[test]
fn donation_is_an_option() {
    let (_, graph) = programs::all().into_iter().find(|(name, _)| *name == "donation").unwrap();
    let text = |donate| lower(&graph, &LowerOptions { donate, ..plain() }).unwrap().text().unwrap();
    assert!(text(true).contains("%arg1: tensor<2xf32> {tf.aliasing_output = 2 : i32}"), "{}", text(true));
    assert!(!text(false).contains("aliasing"), "{}", text(false));
}

#[test]
fn long_constants_can_be_left_out_of_text() {
    let b = Builder::new("long");
    let c = b.constant(ir::Literal::i64s(&(0..100).collect::<Vec<_>>())).unwrap();
    b.output("y", OutputKind::User, c);
    let module = lower(&b.finish(), &plain()).unwrap();
    assert!(module.text().unwrap().contains("dense<\"0x") || module.text().unwrap().contains("98, 99]"));
    let short = module.text_with(TextOptions { locations: false, elide: Some(16) }).unwrap();
    assert!(short.len() < 300 && !short.contains("98, 99"), "{short}");
}

#[test]
fn deep_nesting_is_an_error() {
    let ty = TensorType::new(DType::F32, [2]);
    let mut graph = {
        let b = Builder::new("innermost");
        let x = b.input("x", InputKind::User, ty.clone());
        b.output("y", OutputKind::User, x);
        b.finish()
    };
    let nest = |inner: Graph| {
        let b = Builder::new("nest");
        let x = b.input("x", InputKind::User, ty.clone());
        let pred = b.constant(ir::Literal::splat(ir::Number::Bool(true), DType::Bool, [])).unwrap();
        let y = b.if_then_else(pred, &[x], inner.clone(), inner).unwrap()[0];
        b.output("y", OutputKind::User, y);
        b.finish()
    };
    for _ in 0..8 {
        graph = nest(graph);
    }
    lower(&graph, &plain()).unwrap();
    let mut chain = Graph::new("innermost");
    std::mem::swap(&mut chain, &mut graph);
    // One branch per level, lest the number of nodes double with each.
    let mut deep = chain;
    for _ in 0..80 {
        let b = Builder::new("while");
        let x = b.input("x", InputKind::User, ty.clone());
        let cond = {
            let c = Builder::new("cond");
            c.input("x", InputKind::User, ty.clone());
            let no = c.constant(ir::Literal::splat(ir::Number::Bool(false), DType::Bool, [])).unwrap();
            c.output("no", OutputKind::User, no);
            c.finish()
        };
        let y = b.while_loop(&[x], cond, deep).unwrap()[0];
        b.output("y", OutputKind::User, y);
        deep = b.finish();
    }
    let error = lower(&deep, &plain()).unwrap_err();
    assert_eq!(error.to_string(), "bodies nest deeper than 64 levels");
}

/// A graph that no builder would give.
fn malformed(op: Op, operands: &[usize], output: usize) -> Graph {
    let mut graph = Graph::new("malformed");
    let ty: Type = TensorType::new(DType::F32, [2]).into();
    let operands = operands.iter().map(|&i| ValueId::new(i)).collect();
    graph.push(Node { op, operands, bodies: vec![], ty, loc: LocId::UNKNOWN });
    graph.outputs.push(ir::Output { name: "y".into(), kind: OutputKind::User, value: ValueId::new(output) });
    graph
}

#[test]
fn malformed_graphs_are_errors() {
    let message = |graph: &Graph| lower(graph, &plain()).unwrap_err().to_string();
    let tanh = || Op::Unary(Unary::Tanh);
    assert_eq!(message(&malformed(tanh(), &[0], 0)), "%0 is used before it is made");
    assert_eq!(message(&malformed(Op::Input { index: 3 }, &[], 0)), "there is no input 3");
    assert_eq!(message(&malformed(Op::GetTupleElement { index: 0 }, &[], 0)), "get_tuple_element of nothing");
    let short = ir::Literal { ty: TensorType::new(DType::F32, [2]), bytes: [0u8; 3][..].into() };
    assert_eq!(message(&malformed(Op::Constant(short), &[], 0)), "3 bytes are no constant of f32[2]");
    let mut mutated = malformed(Op::Iota { dtype: DType::F32, shape: [2][..].into(), dim: 0 }, &[], 0);
    mutated.outputs[0].kind = OutputKind::Mutation(1);
    assert_eq!(message(&mutated), "output y mutates input 1, which is not there");
}
