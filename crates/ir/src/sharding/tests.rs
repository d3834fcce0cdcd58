#![allow(clippy::unwrap_used)]

use super::*;

fn mesh() -> Mesh {
    "data=4,model=2".parse().unwrap()
}

fn rules(json: &str) -> Rules {
    serde_json::from_str(json).unwrap()
}

/// A step that updates a weight and returns a loss and what the weight gave.
fn graph() -> Graph {
    let mut graph = Graph::new("step");
    let names = ["layers.0.q.weight", "layers.0.q.bias", "optimizer.layers.0.q.weight.momentum", "step", "x"];
    let shapes: [&[usize]; 5] = [&[16, 6], &[16], &[16, 6], &[], &[8, 6]];
    for (index, (name, shape)) in names.into_iter().zip(shapes).enumerate() {
        let ty = TensorType::new(crate::DType::F32, shape.iter().copied()).into();
        let op = crate::Op::Input { index };
        let value = graph.push(crate::Node {
            op,
            operands: Default::default(),
            bodies: vec![],
            ty,
            loc: crate::LocId::UNKNOWN,
        });
        let kind = if index < 2 { crate::InputKind::Parameter } else { crate::InputKind::User };
        graph.inputs.push(crate::Input { name: name.to_owned(), kind, value });
    }
    let output = |kind, i: usize| crate::Output { name: format!("out_{i}"), kind, value: graph.inputs[i].value };
    graph.outputs = vec![output(OutputKind::User, 3), output(OutputKind::User, 4), output(OutputKind::Mutation(0), 2)];
    graph
}

fn results() -> Results {
    vec![Some((0, vec![])), Some((1, vec![0, 1])), None]
}

fn resolve(json: &str) -> Result<Partition> {
    rules(json).resolve(&graph(), &results(), &mesh())
}

fn shown(partition: &Partition) -> Vec<String> {
    let mesh = partition.mesh();
    let outputs = partition.outputs().iter().map(|s| s.as_ref().map_or("?".to_owned(), |s| s.on(mesh).to_string()));
    partition.inputs().iter().map(|s| s.on(mesh).to_string()).chain(outputs).collect()
}

#[test]
fn the_first_pattern_that_matches_decides_and_state_follows_its_parameter() {
    let partition = resolve(r#"{"*.q.weight": [["data", "model"], null], "*": ["data"], "output.1": [null, "model"]}"#);
    let pair = r#"(("data", "model"), None)"#;
    let data = r#"("data", None)"#;
    assert_eq!(shown(&partition.unwrap()), [pair, r#"("data",)"#, pair, "()", data, "?", r#"(None, "model")"#, pair]);
    let partition = resolve(r#"{"*.q.weight": [["data", "model"]]}"#).unwrap();
    assert_eq!(shown(&partition), [pair, "(None,)", pair, "()", "(None, None)", "?", "?", pair]);
    assert_eq!(partition.mesh().num_devices(), 8);
    // What is said of the momentum alone holds for it.
    let partition = resolve(r#"{"optimizer.*": ["data"], "*.q.weight": ["model"]}"#).unwrap();
    assert_eq!(shown(&partition)[..3], [r#"("model", None)"#, "(None,)", data]);
}

#[test]
fn results_are_sharded_by_their_logical_dimensions() {
    let results = vec![Some((0, vec![])), Some((1, vec![1, 0])), None];
    let partition = rules(r#"{"output.1": ["model", "data"]}"#).resolve(&graph(), &results, &mesh()).unwrap();
    assert_eq!(shown(&partition)[6], r#"("data", "model")"#);
}

#[test]
fn devices_stand_in_row_major_order() {
    let mesh = mesh();
    let of = |dims: [&[usize]; 2]| Sharding::new(&mesh, dims.map(Axes::from_slice)).unwrap();
    let starts = |s: &Sharding| (0..8).map(|d| s.shard_start(&mesh, &[16, 6], d).to_vec()).collect::<Vec<_>>();
    let rows = of([&[0], &[1]]);
    assert_eq!(rows.shard_shape(&mesh, &[16, 6])[..], [4, 3]);
    assert_eq!(starts(&rows)[..4], [[0, 0], [0, 3], [4, 0], [4, 3]]);
    let both = of([&[1, 0], &[]]);
    let first: Vec<usize> = starts(&both).iter().map(|s| s[0]).collect();
    assert_eq!(first, [0, 8, 2, 10, 4, 12, 6, 14], "the coarsest axis is named first");
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let refused = |json: &str| {
        let error = resolve(json).unwrap_err();
        format!("{} ({})", error.message(), error.help().unwrap_or_default())
    };
    for (json, wanted) in [
        (
            r#"{"x": [null, "data"]}"#,
            "dimension 1 of input `x`, a f32[8,6], has 6 elements, which `data`=4 do not divide (6 can be split into \
             2, 3 parts; or leave the dimension whole)",
        ),
        (r#"{"x": ["rows"]}"#, "sharding `x`: the mesh has no axis `rows` (its axes are `data`, `model`)"),
        (
            r#"{"x": ["data", "data"]}"#,
            "sharding `x`: axis `data` is used twice in one sharding (a mesh axis can split one dimension of a tensor \
             only, and once)",
        ),
        (
            r#"{"*.q.*": [null, "model"]}"#,
            "sharding `*.q.*` is for 2 dimensions, but `layers.0.q.bias`, which it matches, has 1: f32[16] (put a \
             pattern that matches it alone before this one)",
        ),
        (
            r#"{"*.k.weight": ["data"]}"#,
            "sharding `*.k.weight` matches no input of the program (the nearest names are `layers.0.q.weight`, \
             `layers.0.q.bias`, `optimizer.layers.0.q.weight.momentum`)",
        ),
        (
            r#"{"output.7": ["data"]}"#,
            "sharding `output.7` matches no result of the program (the nearest names are `output.0`, `output.1`)",
        ),
        (
            r#"{"*": ["data"], "x": []}"#,
            "sharding `x` decides nothing: `*` comes before it and matches `x` too (the first pattern that matches \
             decides: put the more special one first)",
        ),
        (r#"{"step": ["data"]}"#, "sharding `step` decides nothing: `step` has no dimensions ()"),
    ] {
        assert_eq!(refused(json), wanted);
    }
}

#[test]
fn meshes_read_as_they_are_written() {
    assert_eq!(mesh().to_string(), "data=4,model=2");
    let error = |text: &str| text.parse::<Mesh>().unwrap_err().message().to_owned();
    assert_eq!(error("data=0"), "mesh axis `data` has size 0: the mesh holds no device");
    assert_eq!(error("data=2,data=2"), "the mesh has two axes `data`");
    assert_eq!(error("data"), "`data` is no mesh axis");
    assert_eq!(error("1d=2"), "`1d` cannot name a mesh axis");
    assert_eq!(error("a=65536,b=65536"), "the mesh holds more devices than a program can be partitioned for");
    assert_eq!(Mesh::new([]).unwrap_err().message(), "the mesh has no axes");
}

#[test]
fn rules_read_from_a_command_line() {
    let rule: Rule = "*.q.weight=data+model,None".parse().unwrap();
    assert_eq!(rules(r#"{"*.q.weight": [["data", "model"], null]}"#).0, [rule]);
    assert_eq!("x=".parse::<Rule>().unwrap().spec, Spec::new());
    assert!("x".parse::<Rule>().is_err());
    assert_eq!(rules(r#"{"b": null, "a": []}"#).0.iter().map(|r| &r.pattern[..]).collect::<String>(), "ba");
}
