//! Every trace of testdata/traces is imported, evaluated and compared with what PyTorch computed: results, their strides,
//! and what inputs became.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use torchtpu_ir::import::{ImportOptions, Imported, InputType, InputValue, OutputMeta, OutputTensor, bind, import};
use torchtpu_ir::{DType, Graph, Literal, Number, OutputKind, TensorType, eval, trace, verify};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces")
}

fn number(v: &Value) -> f64 {
    match v {
        Value::Number(n) => n.as_f64().expect("a number"),
        Value::Bool(b) => f64::from(u8::from(*b)),
        Value::String(s) if s == "Infinity" => f64::INFINITY,
        Value::String(s) if s == "-Infinity" => f64::NEG_INFINITY,
        _ => f64::NAN,
    }
}

fn numbers(v: &Value) -> Vec<f64> {
    v.as_array().expect("a list").iter().map(number).collect()
}

fn literal(ty: &TensorType, values: &[f64]) -> Literal {
    let exact = |x: &f64| if ty.dtype.is_int() { Number::Int(*x as i64) } else { Number::Float(*x) };
    let bytes: Vec<u8> = values.iter().flat_map(|x| exact(x).to_bytes(ty.dtype)).collect();
    Literal::dense(ty.clone(), bytes).expect("as many elements as the type has")
}

fn values(l: &Literal) -> Vec<f64> {
    let size = l.ty.dtype.size();
    let one = |c: &[u8]| match l.ty.dtype {
        DType::F32 => f64::from(f32::from_le_bytes(c.try_into().expect("4 bytes"))),
        DType::BF16 => f64::from(half::bf16::from_le_bytes(c.try_into().expect("2 bytes")).to_f32()),
        DType::F64 => f64::from_le_bytes(c.try_into().expect("8 bytes")),
        DType::I64 => i64::from_le_bytes(c.try_into().expect("8 bytes")) as f64,
        DType::Bool => f64::from(c[0]),
        other => panic!("no values of {other} here"),
    };
    l.dense_bytes().chunks(size).map(one).collect()
}

/// The elements in logical row-major order.
fn logical(value: &[f64], out: &OutputTensor) -> Vec<f64> {
    let mut places = vec![0];
    for (&n, &s) in out.shape.iter().zip(&out.strides) {
        places = places.iter().flat_map(|&p| (0..n).map(move |i| p + i * s)).collect();
    }
    places.into_iter().map(|p| value[p]).collect()
}

fn assert_close(got: &[f64], want: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let close = g == w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= tolerance * (1.0 + w.abs());
        assert!(close, "{what}, element {i}: {g}, PyTorch has {w}");
    }
}

fn load(name: &str) -> (trace::Trace, Value) {
    let trace = trace::read(&folder().join(format!("{name}.json"))).expect("reads");
    let text = std::fs::read_to_string(folder().join(format!("{name}.values.json"))).expect("values");
    (trace, serde_json::from_str(&text).expect("JSON"))
}

fn dims(expected: &Value) -> BTreeMap<String, i64> {
    let dims = expected["dims"].as_object().expect("dims");
    dims.iter().map(|(k, v)| (k.clone(), v.as_i64().expect("an integer"))).collect()
}

fn run(imported: &Imported, expected: &Value) -> Vec<Literal> {
    let graph: &Graph = &imported.graph;
    verify(graph).expect("verifies");
    let inputs = imported.inputs.iter().filter_map(|i| match &i.value {
        InputValue::Tensor { ty, .. } => Some(literal(ty, &numbers(&expected["inputs"][&i.name]))),
        _ => None,
    });
    let mut inputs: Vec<Literal> = inputs.collect();
    let lookup = |name: &str| expected["dims"][name].as_i64();
    for hidden in &graph.inputs[inputs.len()..] {
        let ty = graph.tensor_type(hidden.value).expect("a tensor");
        let expr = torchtpu_ir::symbol::Expr::parse(&hidden.name).expect("an expression");
        inputs.push(Literal::splat(expr.evaluate(&lookup).expect("a number"), ty.dtype, []));
    }
    eval(graph, &inputs).expect("evaluates")
}

fn check(name: &str) -> Imported {
    let (trace, expected) = load(name);
    let options = ImportOptions { dims: dims(&expected), ..ImportOptions::default() };
    let imported = import(&trace, &options).unwrap_or_else(|e| panic!("{name}: {e}"));
    let results = run(&imported, &expected);
    let wanted = expected["outputs"].as_array().expect("outputs");
    assert_eq!(imported.outputs.len(), wanted.len(), "{name}");
    for (i, (meta, want)) in imported.outputs.iter().zip(wanted).enumerate() {
        let what = format!("{name}, output {i}");
        match meta {
            OutputMeta::Tensor(out) => {
                let value = &results[out.position];
                let tolerance = if value.ty.dtype == DType::BF16 { 1e-2 } else { 1e-5 };
                assert_close(&logical(&values(value), out), &numbers(&want["values"]), tolerance, &what);
                assert_eq!(serde_json::json!(out.shape[..]), want["shape"], "{what}");
            }
            OutputMeta::Number(n) => {
                let value = match n {
                    torchtpu_ir::ops::Scalar::Known(n) => n.as_f64(),
                    torchtpu_ir::ops::Scalar::Symbolic(s) => s.value.as_f64(),
                };
                assert_eq!(value, number(want), "{what}");
            }
            OutputMeta::None => assert!(want.is_null(), "{what}"),
            OutputMeta::Str(s) => assert_eq!(want, &**s, "{what}"),
        }
    }
    let mut mutated = BTreeMap::new();
    for (output, value) in imported.graph.outputs.iter().zip(&results) {
        if let OutputKind::Mutation(_) = output.kind {
            mutated.insert(output.name.clone(), values(value));
        }
    }
    let wanted = expected["mutations"].as_object().expect("mutations");
    assert_eq!(mutated.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>(), "{name}");
    for (input, got) in mutated {
        assert_close(&got, &numbers(&wanted[&input]), 1e-5, &format!("{name}, next value of {input}"));
    }
    imported
}

#[test]
fn batch_norm_in_training_writes_its_statistics() {
    check("mlp");
}

#[test]
fn writes_through_views_land_in_the_storage() {
    let imported = check("views");
    let gathers = imported.graph.nodes().iter().filter(|n| matches!(n.op, torchtpu_ir::Op::Gather(_)));
    assert_eq!(gathers.count(), 0);
}

#[test]
fn buffers_and_arguments_are_mutated_and_returned() {
    let imported = check("mutation");
    let alias = |i: usize| match &imported.outputs[i] {
        OutputMeta::Tensor(t) => t.alias,
        _ => None,
    };
    assert_eq!([alias(0), alias(1), alias(2)], [Some(1), Some(0), None]);
}

#[test]
fn a_symbolic_trace_is_specialised() {
    let imported = check("dynamic");
    let consulted: Vec<(&str, i64)> = imported.consulted.iter().map(|(k, v)| (&**k, *v)).collect();
    assert_eq!(consulted, [("s17", 5), ("s77", 4)]);
    let (trace, expected) = load("dynamic");
    let given = [InputType::Shape(&[4, 6]), InputType::Shape(&[5, 6])];
    assert_eq!(bind(&trace, &given).expect("binds"), dims(&expected));
}

#[test]
fn symbols_are_bound_within_their_ranges() {
    let (trace, _) = load("dynamic");
    let message = |a: &[usize], b: &[usize]| {
        bind(&trace, &[InputType::Shape(a), InputType::Shape(b)]).expect_err("refused").to_string()
    };
    assert_eq!(
        message(&[99, 6], &[5, 6]),
        "dimension 0 of input `x` makes `s77` 99, outside the range 3..=64 it was exported for"
    );
    assert_eq!(message(&[4, 7], &[5, 6]), "dimension 1 of input `x` is 7, but the program was exported for 6");
    assert_eq!(message(&[4], &[5, 6]), "input `x` has 1 dimensions, not 2");
    let import_with = |dims: &[(&str, i64)]| {
        let dims = dims.iter().map(|(k, v)| (k.to_string(), *v)).collect();
        import(&trace, &ImportOptions { dims, ..ImportOptions::default() }).expect_err("refused")
    };
    assert_eq!(
        import_with(&[("s77", 2), ("s17", 5)]).to_string(),
        "`s77` (dimension 0 of `x`) is 2, outside the range 3..=64 it was exported for"
    );
    let unbound = import_with(&[("s17", 5)]);
    assert_eq!(unbound.to_string(), "input `x`: symbol `s77` has no value");
    assert!(unbound.help().is_some_and(|h| h.contains("--dim s77=8")));
}

#[test]
fn graphs_in_graphs_are_inlined() {
    check("regions");
}

#[test]
fn lists_constants_and_none_pass_through() {
    check("lists");
}

#[test]
fn results_keep_their_strides() {
    let imported = check("channels_last");
    let (_, expected) = load("channels_last");
    let OutputMeta::Tensor(out) = &imported.outputs[0] else { panic!("a tensor") };
    assert_eq!(serde_json::json!(out.strides[..]), expected["outputs"][0]["stride"]);
}
