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
