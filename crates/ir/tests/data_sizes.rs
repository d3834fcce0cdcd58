//! Sizes and numbers that are data: extents that nothing binds, and truth values that choose.

use serde_json::{Value, json};
use torchtpu_ir::Op;
use torchtpu_ir::import::{ImportOptions, Imported, InputType, OutputMeta, bind, import};
use torchtpu_ir::trace::{self, Trace};

/// What stands for the truth value `p`, as the package's walker writes it.
const FLAG: &str = "Unequality(Symbol('p_value', integer=True), Integer(0))";

fn tensor(name: &str) -> Value {
    json!({"as_tensor": {"name": name}})
}

/// `f32` of one dimension: a number, or a symbol.
fn meta(extent: impl Into<Value>) -> Value {
    let size = match extent.into() {
        Value::String(symbol) => json!({"as_expr": {"expr_str": format!("Symbol('{symbol}', integer=True)")}}),
        known => json!({"as_int": known}),
    };
    json!({"dtype": 7, "sizes": [size], "strides": [{"as_int": 1}], "layout": 7})
}

fn node(target: &str, inputs: &[(&str, Value)], output: &str) -> Value {
    let inputs: Vec<Value> = inputs.iter().map(|(name, arg)| json!({"name": name, "arg": arg, "kind": 1})).collect();
    json!({"target": format!("torch.ops.{target}"), "inputs": inputs, "outputs": [tensor(output)], "metadata": {},
           "name": output})
}

fn read(graph: &Value) -> Trace {
    let trace = json!({"graph_module": {"graph": graph}, "schema_version": {"major": 8, "minor": 20}});
    trace::read_bytes(trace.to_string().into_bytes()).expect("reads")
}

fn import_with(trace: &Trace, dims: &[(&str, i64)]) -> Imported {
    let dims = dims.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    import(trace, &ImportOptions { dims, ..ImportOptions::default() }).expect("imports")
}

fn extents(imported: &Imported) -> Vec<usize> {
    let OutputMeta::Tensor(out) = &imported.outputs[0] else { panic!("a tensor") };
    out.shape.to_vec()
}

#[test]
fn an_extent_that_nothing_binds_is_that_of_the_result() {
    let pad = [("self", tensor("x")), ("pad", json!({"as_ints": [0, -1]}))];
    let trace = read(&json!({
        "inputs": [tensor("x")],
        "outputs": [tensor("y")],
        "nodes": [node("aten.constant_pad_nd.default", &pad, "y")],
        "tensor_values": {"x": meta("x_size_0"), "y": meta("u0")},
    }));
    assert_eq!(extents(&import_with(&trace, &[("x_size_0", 4)])), [3]);
}

/// `cond(p, x -> relu(x), x -> op(x), x)`, where `op` gives `extent` elements, and the node `given`.
fn choice(op: Value, extent: i64, given: impl Into<Value>) -> Trace {
    let branch = |node: Value, extent: i64| {
        json!({"as_graph": {"name": "branch", "graph": {
            "inputs": [tensor("a")],
            "outputs": [tensor("b")],
            "nodes": [node],
            "tensor_values": {"a": meta(3), "b": meta(extent)},
        }}})
    };
    let p = json!({"as_sym_bool": {"as_name": "p"}});
    let relu = node("aten.relu.default", &[("self", tensor("a"))], "b");
    let arguments = [("", p.clone()), ("", branch(relu, 3)), ("", branch(op, extent)), ("", tensor("x"))];
    read(&json!({
        "inputs": [p, tensor("x")],
        "outputs": [tensor("y")],
        "nodes": [node("higher_order.cond", &arguments, "y")],
        "tensor_values": {"x": meta(3), "y": meta(given)},
        "sym_bool_values": {"p": {"as_expr": {"expr_str": FLAG}}},
    }))
}

fn branches(imported: &Imported) -> usize {
    imported.graph.nodes().iter().filter(|n| matches!(n.op, Op::If)).count()
}

#[test]
fn a_truth_value_that_is_given_chooses_within_the_program() {
    let trace = choice(node("aten.neg.default", &[("self", tensor("a"))], "b"), 3, 3);
    for value in [0, 1] {
        let dims = bind(&trace, &[InputType::Int(value), InputType::Shape(&[3])]).expect("binds");
        assert_eq!(dims, [("p_value".to_owned(), value)].into());
        let imported = import_with(&trace, &[("p_value", value)]);
        assert_eq!((branches(&imported), imported.consulted.len()), (1, 0));
    }
}

#[test]
fn a_truth_value_decides_the_program_where_the_branches_give_other_lengths() {
    let cut = [("self", tensor("a")), ("pad", json!({"as_ints": [0, -2]}))];
    let trace = choice(node("aten.constant_pad_nd.default", &cut, "b"), 1, "u0");
    for (value, extent) in [(0, 1), (1, 3)] {
        let imported = import_with(&trace, &[("p_value", value)]);
        assert_eq!((branches(&imported), extents(&imported)), (0, vec![extent]));
        assert_eq!(imported.consulted, [("p_value".into(), value)].into());
    }
}

#[test]
fn a_truth_value_must_be_what_the_trace_says() {
    let mut graph = json!({
        "inputs": [{"as_sym_bool": {"as_name": "p"}}],
        "outputs": [],
        "nodes": [],
        "tensor_values": {},
        "sym_bool_values": {"p": {"as_bool": true}},
    });
    let bound = |graph: &Value, n| bind(&read(graph), &[InputType::Int(n)]).map_err(|e| e.to_string());
    assert_eq!(bound(&graph, 1), Ok([].into()));
    assert_eq!(bound(&graph, 0), Err("input `p` is 0, but the program was exported for 1".to_owned()));
    graph["sym_bool_values"]["p"] = json!({"as_expr": {"expr_str": FLAG}});
    assert_eq!(bound(&graph, 2), Err("input `p` is 2, which is not `Unequality(p_value, 0)`".to_owned()));
}
