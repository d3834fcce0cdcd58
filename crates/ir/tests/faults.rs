//! Every fault of a trace or an archive, with the whole message it gives.

mod archive;

use archive::stored_zip;
use serde_json::{Value, json};
use std::fmt::Write;
use torchtpu_ir::import::{ImportOptions, import};
use torchtpu_ir::{diag, trace};

/// `f32` of these extents, row-major.
fn meta(sizes: &[i64]) -> Value {
    let strides: Vec<i64> =
        (0..sizes.len()).map(|i| sizes[i + 1..].iter().fold(1i64, |n, &s| n.wrapping_mul(s))).collect();
    let ints = |list: &[i64]| list.iter().map(|i| json!({"as_int": i})).collect::<Vec<_>>();
    json!({"dtype": 7, "sizes": ints(sizes), "strides": ints(&strides), "layout": 7})
}

fn tensor(name: &str) -> Value {
    json!({"as_tensor": {"name": name}})
}

fn node(target: &str, inputs: &[(&str, Value)], output: &str) -> Value {
    let inputs: Vec<Value> = inputs.iter().map(|(name, arg)| json!({"name": name, "arg": arg, "kind": 1})).collect();
    let stack = "File \"model.py\", line 7, in forward\n    y = f(x)\n  \
                 File \"/usr/lib/python3/dist-packages/torch/nn/functional.py\", line 1, in f\n    return g(x)";
    json!({
        "target": format!("torch.ops.{target}"),
        "inputs": inputs,
        "outputs": [tensor(output)],
        "metadata": {"stack_trace": stack, "nn_module_stack": "L__self__,,m.Net;L__self__l,layers.0,m.Layer"},
        "name": output,
    })
}

fn relu(from: &str, to: &str) -> Value {
    node("aten.relu.default", &[("self", tensor(from))], to)
}

/// `y = relu(x)`.
fn good() -> Value {
    json!({
        "graph_module": {"graph": {
            "inputs": [tensor("x")],
            "outputs": [tensor("y")],
            "nodes": [relu("x", "y")],
            "tensor_values": {"x": meta(&[2, 3]), "y": meta(&[2, 3])},
        }},
        "schema_version": {"major": 8, "minor": 20},
    })
}

/// The good trace with something changed.
fn with(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut trace = good();
    change(&mut trace);
    trace.to_string().into_bytes()
}

fn with_graph(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    with(|t| change(&mut t["graph_module"]["graph"]))
}

/// The good trace with another node.
fn with_node(node: Value) -> Vec<u8> {
    with_graph(|g| g["nodes"] = json!([node]))
}

fn message(bytes: Vec<u8>) -> String {
    let imported = trace::read_bytes(bytes).and_then(|t| import(&t, &ImportOptions::default()));
    match imported {
        Ok(_) => "no fault\n".to_owned(),
        Err(e) => diag::render(&e, false) + "\n",
    }
}

fn check(name: &str, faults: Vec<(&str, Vec<u8>)>) {
    let mut all = String::new();
    for (what, bytes) in faults {
        writeln!(all, "## {what}\n{}", message(bytes)).expect("writes to a string");
    }
    insta::assert_snapshot!(name, all);
}

#[test]
fn the_good_trace_is_good() {
    assert_eq!(message(with(|_| {})), "no fault\n");
}

#[test]
fn files() {
    let mut truncated = with(|_| {});
    truncated.truncate(200);
    let twice = String::from_utf8(with(|_| {})).expect("text").replacen("\"y\":{", "\"x\":{", 1).into_bytes();
    check(
        "files",
        vec![
            ("an empty file", vec![]),
            ("truncated JSON", truncated),
            ("bad JSON on the second line", b"{\"graph\":\n  nodes}".to_vec()),
            ("an executable", b"TPUX\xff\xfe".to_vec()),
            ("another kind of JSON", b"{\"a\": 1}".to_vec()),
            ("a list", b"[1, 2]".to_vec()),
            ("another major version", with(|t| t["schema_version"]["major"] = json!(9))),
            (
                "another major version, otherwise unreadable",
                with(|t| {
                    t["schema_version"]["major"] = json!(9);
                    t["graph_module"]["graph"]["nodes"] = json!("packed");
                }),
            ),
            ("a type given twice", twice),
            ("deep nesting", b"[".repeat(100_000)),
        ],
    );
}

#[test]
fn names() {
    check(
        "names",
        vec![
            ("a dangling name", with_node(relu("z", "y"))),
            ("a cycle", with_graph(|g| g["nodes"] = json!([relu("z", "y"), relu("y", "z")]))),
            ("a node that uses itself", with_node(relu("y", "y"))),
            ("a second definition", with_graph(|g| g["nodes"] = json!([relu("x", "y"), relu("x", "y")]))),
            ("a definition of an input", with_node(relu("x", "x"))),
            ("two inputs of one name", with_graph(|g| g["inputs"] = json!([tensor("x"), tensor("x")]))),
            ("an output that nothing defines", with_graph(|g| g["outputs"] = json!([tensor("z")]))),
            ("an input without a type", with_graph(|g| g["tensor_values"] = json!({"y": meta(&[2, 3])}))),
            ("a result without a type", with_graph(|g| g["tensor_values"] = json!({"x": meta(&[2, 3])}))),
            (
                "a signature of another length",
                with(|t| {
                    let input = json!({"user_input": {"arg": tensor("x")}});
                    t["graph_module"]["signature"] = json!({"input_specs": [input, input], "output_specs": []});
                }),
            ),
            (
                "a signature with other names",
                with(|t| {
                    let input = json!({"parameter": {"arg": {"name": "w"}, "parameter_name": "l.w"}});
                    t["graph_module"]["signature"] = json!({"input_specs": [input], "output_specs": []});
                }),
            ),
            (
                "a mutation of nothing",
                with(|t| {
                    let output = json!({"buffer_mutation": {"arg": {"name": "y"}, "buffer_name": "n"}});
                    t["graph_module"]["signature"] = json!({"input_specs": [], "output_specs": [output]});
                }),
            ),
        ],
    );
}

#[test]
fn schema() {
    let argument = |arg: Value| with_node(node("aten.relu.default", &[("self", arg)], "y"));
    check(
        "schema",
        vec![
            ("an unknown variant", argument(json!({"as_frobnicated": 1}))),
            ("two variants", argument(json!({"as_int": 1, "as_bool": true}))),
            ("no variant", argument(json!({}))),
            ("a variant of another type", argument(json!({"as_int": "one"}))),
            ("an integer too large", argument(json!({"as_int": 1e30}))),
            ("a float by an unknown name", argument(json!({"as_float": "Huge"}))),
            ("a node that is no object", with_node(json!("relu"))),
            ("a bad type", with_graph(|g| g["tensor_values"]["x"]["sizes"] = json!(3))),
            ("a bad output", with_graph(|g| g["outputs"] = json!([{"as_nothing": true}]))),
            (
                "a bad specification",
                with(|t| {
                    t["graph_module"]["signature"] = json!({"input_specs": [{"secret_input": {}}], "output_specs": []});
                }),
            ),
            (
                "a bad node in a graph in a graph",
                with_node(node(
                    "higher_order.wrap",
                    &[(
                        "",
                        json!({"as_graph": {"name": "g", "graph": {"nodes": [
                            node("aten.relu.default", &[("self", json!({"as_secret": 1}))], "y"),
                        ]}}}),
                    )],
                    "y",
                )),
            ),
        ],
    );
}

#[test]
fn sizes() {
    let input = |change: &dyn Fn(&mut Value)| with_graph(|g| change(&mut g["tensor_values"]["x"]));
    let sized = |sizes: &[i64]| with_graph(|g| g["tensor_values"]["x"] = meta(sizes));
    let expr = |text: &str| json!([{"as_expr": {"expr_str": text, "hint": null}}]);
    check(
        "sizes",
        vec![
            ("too many elements", sized(&[1 << 62, 1 << 62])),
            ("too many bytes", sized(&[1 << 61])),
            ("a negative extent", sized(&[-1])),
            ("too many dimensions", sized(&[1; 100])),
            ("an unknown element type", input(&|m| m["dtype"] = json!(99))),
            ("an element type without a counterpart", input(&|m| m["dtype"] = json!(9))),
            ("a sparse tensor", input(&|m| m["layout"] = json!(1))),
            ("a symbol without a value", input(&|m| m["sizes"] = expr("Symbol('s0', integer=True)"))),
            ("a size that depends on data", input(&|m| m["sizes"] = expr("Symbol('u0', integer=True)"))),
            ("an unknown function", input(&|m| m["sizes"] = expr("Frobnicate(Integer(2))"))),
            ("an overflow", input(&|m| m["sizes"] = expr("Pow(Integer(10), Integer(30))"))),
            ("half a size", input(&|m| m["sizes"] = expr("Rational(1, 2)"))),
        ],
    );
}

#[test]
fn calls() {
    let x = || ("self", tensor("x"));
    let relu = |inputs: &[(&str, Value)]| with_node(node("aten.relu.default", inputs, "y"));
    let shaped = |node: Value, sizes: &[i64]| {
        with_graph(|g| {
            g["nodes"] = json!([node]);
            g["tensor_values"]["y"] = meta(sizes);
        })
    };
    let integers = |node: Value| {
        with_graph(|g| {
            g["nodes"] = json!([node]);
            g["tensor_values"]["x"]["dtype"] = json!(5);
            g["tensor_values"]["y"]["dtype"] = json!(5);
        })
    };
    let expand = node("aten.expand.default", &[x(), ("size", json!({"as_ints": [4, 2, 3]}))], "e");
    let fill = node("aten.fill_.Scalar", &[("self", tensor("e")), ("value", json!({"as_int": 1}))], "y");
    check(
        "calls",
        vec![
            ("an unknown op", with_node(node("aten.frobnicate.default", &[x()], "y"))),
            ("an op of another library", with_node(node("mylib.norm.default", &[x()], "y"))),
            (
                "a call of vmap's",
                with_node(
                    json!({"target": "torch._functorch.predispatch._vmap_increment_nesting", "inputs": [], "outputs": [tensor("y")]}),
                ),
            ),
            ("no op", with_node(json!({"target": "builtins.print", "inputs": [], "outputs": [tensor("y")]}))),
            ("an unknown argument", relu(&[x(), ("slope", json!({"as_float": 0.1}))])),
            ("an argument given twice", relu(&[x(), x()])),
            ("a missing argument", relu(&[])),
            ("a string for a tensor", relu(&[("self", json!({"as_string": "x"}))])),
            ("another type than recorded", with_graph(|g| g["tensor_values"]["y"]["dtype"] = json!(5))),
            ("other extents than recorded", with_graph(|g| g["tensor_values"]["y"] = meta(&[3, 2]))),
            (
                "operands that do not broadcast",
                with_graph(|g| {
                    g["inputs"] = json!([tensor("x"), tensor("z")]);
                    g["tensor_values"]["z"] = meta(&[4]);
                    g["nodes"] = json!([node("aten.add.Tensor", &[x(), ("other", tensor("z"))], "y")]);
                }),
            ),
            (
                "a view of another size",
                shaped(node("aten.view.default", &[x(), ("size", json!({"as_ints": [4]}))], "y"), &[4]),
            ),
            (
                "a float written into integers",
                integers(node("aten.mul_.Tensor", &[x(), ("other", json!({"as_float": 0.5}))], "y")),
            ),
            (
                "a result larger than its target",
                with_graph(|g| {
                    g["inputs"] = json!([tensor("x"), tensor("z")]);
                    g["tensor_values"]["z"] = meta(&[4, 2, 3]);
                    g["nodes"] = json!([node("aten.add_.Tensor", &[x(), ("other", tensor("z"))], "y")]);
                }),
            ),
            (
                "a write into repeated elements",
                with_graph(|g| {
                    g["nodes"] = json!([expand, fill]);
                    g["tensor_values"]["e"] = meta(&[4, 2, 3]);
                    g["tensor_values"]["y"] = meta(&[4, 2, 3]);
                }),
            ),
            (
                "an object as input",
                with(|t| {
                    let spec =
                        json!({"custom_obj": {"arg": {"name": "x", "class_fqn": "m.Queue"}, "custom_obj_name": "q"}});
                    t["graph_module"]["signature"] = json!({"input_specs": [spec], "output_specs": []});
                }),
            ),
            (
                "operands for a graph that takes none",
                with_node(node(
                    "higher_order.wrap",
                    &[("", json!({"as_graph": {"name": "g", "graph": {"outputs": []}}})), ("", tensor("x"))],
                    "y",
                )),
            ),
        ],
    );
}

#[test]
fn archives() {
    let json = with(|_| {});
    let weight = |meta: Value, path: &str| json!({"config": {"w": {"path_name": path, "is_param": true, "use_pickle": false, "tensor_meta": meta}}});
    let zip = |extra: &[(&str, &[u8])]| {
        let mut entries = vec![("net/models/model.json", &json[..])];
        entries.extend(extra);
        stored_zip(&entries)
    };
    let config = |config: Value| {
        let config = config.to_string();
        zip(&[
            ("net/data/weights/model_weights_config.json", config.as_bytes()),
            ("net/data/weights/weight_0", &[0; 24]),
        ])
    };
    let mut offset = meta(&[2, 3]);
    offset["storage_offset"] = json!({"as_int": 1});
    let mut no_end = zip(&[]);
    no_end.truncate(no_end.len() - 30);
    let mut no_start = zip(&[]);
    no_start.drain(..40);
    let mut packed = zip(&[]);
    let directory = packed.windows(4).position(|w| w == b"PK\x01\x02").expect("a directory");
    packed[directory + 10] = 8;
    assert_eq!(message(config(weight(meta(&[2, 3]), "weight_0"))), "no fault\n");
    check(
        "archives",
        vec![
            ("only a beginning", b"PK\x03\x04".to_vec()),
            ("the end cut off", no_end),
            ("the beginning cut off", no_start),
            ("no model", stored_zip(&[("net/version", b"1")])),
            ("two models", zip(&[("net/models/a.json", b"{}"), ("net/models/b.json", b"{}")])[..].to_vec()),
            ("two entries of one name", zip(&[("net/models/model.json", b"{}")])),
            ("a compressed model", packed),
            ("big-endian weights", zip(&[("net/byteorder", b"big")])),
            ("a bad table of weights", config(json!({"config": 3}))),
            ("a weight without data", config(weight(meta(&[2, 3]), "weight_7"))),
            ("a weight beyond its data", config(weight(offset, "weight_0"))),
            ("a weight of impossible extents", config(weight(meta(&[1 << 62, 8]), "weight_0"))),
        ],
    );
}
