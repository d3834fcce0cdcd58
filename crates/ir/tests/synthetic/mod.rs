//! Traces of any length.

/// A chain of additions, products and views with the metadata a real trace has.
pub(crate) fn chain(nodes: usize) -> String {
    let meta = r#"{"dtype":7,"sizes":[{"as_int":8},{"as_int":16}],"strides":[{"as_int":16},{"as_int":1}],"storage_offset":{"as_int":0},"layout":7,"requires_grad":false,"device":{"type":"cpu","index":null}}"#;
    let tensor = |name: &str| format!(r#"{{"as_tensor":{{"name":"{name}"}}}}"#);
    let (mut list, mut values) = (vec![], vec![format!(r#""x":{meta}"#)]);
    let mut last = "x".to_owned();
    for i in 0..nodes {
        let name = format!("v{i}");
        let target = ["aten.add.Tensor", "aten.mul.Tensor", "aten.sub.Tensor"][i % 3];
        let inputs = [("self", &last), ("other", &last)];
        let inputs: Vec<String> =
            inputs.iter().map(|(n, v)| format!(r#"{{"name":"{n}","arg":{},"kind":1}}"#, tensor(v))).collect();
        let stack = format!(
            r#"File \"/home/user/model.py\", line {}, in forward\n    x = x + x\n  File \"/usr/lib/python3/site-packages/torch/nn/modules/linear.py\", line 134, in forward\n    return F.linear(input)"#,
            i % 500
        );
        list.push(format!(
            r#"{{"target":"torch.ops.{target}","inputs":[{}],"outputs":[{}],"metadata":{{"stack_trace":"{stack}","nn_module_stack":"L__self__,,m.Model;L__self__layers.{},layers.{},m.Layer"}},"is_hop_single_tensor_return":null,"name":"{name}"}}"#,
            inputs.join(","),
            tensor(&name),
            i / 100,
            i / 100
        ));
        values.push(format!(r#""{name}":{meta}"#));
        last = name;
    }
    format!(
        r#"{{"graph_module":{{"graph":{{"inputs":[{}],"outputs":[{}],"nodes":[{}],"tensor_values":{{{}}}}}}},"schema_version":{{"major":8,"minor":20}}}}"#,
        tensor("x"),
        tensor(&last),
        list.join(","),
        values.join(",")
    )
}

/// A chain of views and of writes to them: `x = x.t().mul_(0.5)`, over and over.
pub(crate) fn writes(nodes: usize) -> String {
    let node = |i: usize| {
        let (last, this) = (named(&format!("v{i}")), named(&format!("v{}", i + 1)));
        match i % 2 {
            0 => call("aten.t.default", &[("self", last)], &this),
            _ => call("aten.mul_.Scalar", &[("self", last), ("other", r#"{"as_float":0.5}"#.to_owned())], &this),
        }
    };
    let types = (0..=nodes).map(|i| match i.div_ceil(2) % 2 {
        0 => meta(7, &[8, 16], &[16, 1]),
        _ => meta(7, &[16, 8], &[1, 16]),
    });
    program(&(0..nodes).map(node).collect::<Vec<_>>(), types)
}

/// Parts of complex numbers, and complex numbers of these, over and over.
pub(crate) fn lenses(nodes: usize) -> String {
    let targets = ["aten.view_as_real.default", "aten.view_as_complex.default"];
    let node = |i: usize| {
        let (last, this) = (named(&format!("v{i}")), named(&format!("v{}", i + 1)));
        call(targets[i % 2], &[("self", last)], &this)
    };
    let types = (0..=nodes).map(|i| match i % 2 {
        0 => meta(10, &[4], &[1]),
        _ => meta(7, &[4, 2], &[2, 1]),
    });
    program(&(0..nodes).map(node).collect::<Vec<_>>(), types)
}

fn named(name: &str) -> String {
    format!(r#"{{"as_tensor":{{"name":"{name}"}}}}"#)
}

fn call(target: &str, inputs: &[(&str, String)], output: &str) -> String {
    let input = |(name, arg): &(&str, String)| format!(r#"{{"name":"{name}","arg":{arg},"kind":1}}"#);
    let inputs = inputs.iter().map(input).collect::<Vec<_>>().join(",");
    format!(r#"{{"target":"torch.ops.{target}","inputs":[{inputs}],"outputs":[{output}],"metadata":{{}}}}"#)
}

fn meta(dtype: usize, sizes: &[usize], strides: &[usize]) -> String {
    let ints = |list: &[usize]| list.iter().map(|n| format!(r#"{{"as_int":{n}}}"#)).collect::<Vec<_>>().join(",");
    let (sizes, strides) = (ints(sizes), ints(strides));
    format!(
        r#"{{"dtype":{dtype},"sizes":[{sizes}],"strides":[{strides}],"storage_offset":{{"as_int":0}},"layout":7,"requires_grad":false,"device":{{"type":"cpu","index":null}}}}"#
    )
}

/// From `v0` to the last of the values, whose types are given.
fn program(nodes: &[String], types: impl Iterator<Item = String>) -> String {
    let values: Vec<String> = types.enumerate().map(|(i, ty)| format!(r#""v{i}":{ty}"#)).collect();
    format!(
        r#"{{"graph_module":{{"graph":{{"inputs":[{}],"outputs":[{}],"nodes":[{}],"tensor_values":{{{}}}}}}},"schema_version":{{"major":8,"minor":20}}}}"#,
        named("v0"),
        named(&format!("v{}", nodes.len())),
        nodes.join(","),
        values.join(",")
    )
}
