//! The CPU plugin takes every program, as bytecode and as the blessed text, and sees what we wrote into it.

#![allow(clippy::unwrap_used)]

mod machine;
mod programs;

use ir::{DType, Literal, Number};
use machine::Machine;
use torchtpu_lower::{LowerOptions, PathPrefixes, lower};

#[test]
fn every_program_compiles() {
    let machine = Machine::new();
    for (name, graph) in programs::all() {
        let module = lower(&graph, &LowerOptions::default()).unwrap();
        machine.compile_module(&graph, &module).unwrap_or_else(|e| panic!("{name}: {e}"));
        let path = format!("{}/../../testdata/mlir/{name}.mlir", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read(path).unwrap();
        machine.compile(&text).unwrap_or_else(|e| panic!("{name} as text: {e}"));
    }
}

#[test]
fn locations_reach_the_optimised_program() {
    let graph = programs::located().unwrap();
    let path_prefixes = PathPrefixes::new(["/home/me/project"]);
    let module = lower(&graph, &LowerOptions { path_prefixes, ..LowerOptions::default() }).unwrap();
    let program = Machine::new().compile_module(&graph, &module).unwrap().optimized_program().unwrap();
    let text = program.to_text().unwrap();
    assert!(text.starts_with("HloModule located"), "{text}");
    assert!(text.contains(r#"op_name="layers.0.mlp/aten.tanh.default""#), "{text}");
    assert!(text.contains(r#"source_file="net.py" source_line=12"#), "{text}");
}

#[test]
fn regions_reach_the_optimised_program() {
    let graph = programs::located().unwrap();
    let regions = vec!["0#tanh".into(); graph.nodes().len()];
    let module = lower(&graph, &LowerOptions { regions, ..LowerOptions::default() }).unwrap();
    let program = Machine::new().compile_module(&graph, &module).unwrap().optimized_program().unwrap();
    let text = program.to_text().unwrap();
    assert!(text.contains(r#"op_name="layers.0.mlp/0#tanh/aten.tanh.default""#), "{text}");
}

#[test]
fn mutated_inputs_are_donated() {
    let machine = Machine::new();
    let (_, graph) = programs::all().into_iter().find(|(name, _)| *name == "donation").unwrap();
    let module = lower(&graph, &LowerOptions::default()).unwrap();
    assert_eq!(module.donated(), [1, 2]);
    let executable = machine.compile_module(&graph, &module).unwrap();
    let value = |x| machine.upload(&Literal::splat(Number::Float(x), DType::F32, [2]));
    let inputs = [value(1.0), value(2.0), value(10.0)];
    let outputs = executable.execute(&inputs, &Default::default()).unwrap().outputs;
    assert_eq!(inputs.each_ref().map(runtime::Buffer::is_gone), [false, true, true]);
    let ty = ir::TensorType::new(DType::F32, [2]);
    let twos = |x| Some(Literal::splat(Number::Float(x), DType::F32, [2]).dense_bytes());
    let got = outputs.iter().map(|o| machine::download(o, &ty).ok().map(|l| l.dense_bytes()));
    assert_eq!(got.collect::<Vec<_>>(), [twos(3.0), twos(30.0), twos(3.0)]);
}
