use super::schema::{Metadata, Node};
use super::*;

fn loc(stack: &str, modules: &str) -> crate::Loc {
    let metadata = Metadata { stack_trace: Some(stack.to_owned()), nn_module_stack: Some(modules.to_owned()) };
    let target = "torch.ops.aten.mm.default".to_owned();
    let node = Node { target, inputs: vec![], outputs: vec![], metadata, name: None };
    Locator::default().loc(&node)
}

#[test]
fn the_innermost_user_frame_is_the_place() {
    let stack = "File \"/home/u/train.py\", line 90, in main\n    model(x)\n  File \"/home/u/net.py\", line 7, in forward\n    \
                 y = self.l(x)\n  File \"/v/lib/site-packages/torch/nn/modules/linear.py\", line 134, in forward\n    \
                 return F.linear(input)\n  File \"<eval_with_key>.5\", line 3, in forward";
    let loc = loc(stack, "");
    assert_eq!((&*loc.file, loc.line, &*loc.function), ("/home/u/net.py", 7, "forward"));
    assert_eq!(&*loc.op, "aten.mm.default");
}

#[test]
fn without_user_frames_there_is_no_place() {
    for stack in
        ["", "nonsense", "File \"torch/fx/passes/runtime_assert.py\", line 24, in f", "File \"x.py\", line zero"]
    {
        assert_eq!((&*loc(stack, "").file, loc(stack, "").line), ("", 0), "{stack}");
    }
}

#[test]
fn modules_are_named_as_named_modules_does() {
    for (stack, want) in [
        ("", ""),
        ("L__self__,,m.Net", ""),
        ("L__self__,,m.Net;L__self__net.0,net.0,torch.nn.modules.linear.Linear", "net.0"),
        ("L['self'],L['self'],m.Net", ""),
        ("k,L['self'].layers[3].mlp,m.Mlp", "layers.3.mlp"),
        ("k,L['self']._modules['layers']._modules['3'],m.Layer", "layers.3"),
        ("k,L['fn'].layers[3],m.Layer", "layers.3"),
        ("k,G['model'].layers[3],m.Layer", "model.layers.3"),
        ("k,L['net'],m.Layer", "net"),
        ("no commas", ""),
    ] {
        assert_eq!(&*loc("", stack).module, want, "{stack}");
    }
}

#[test]
fn strided_weights_come_out_row_major() {
    let bytes: Vec<u8> = (0..24).collect();
    let source = archive::Source::bytes(bytes);
    let weight = |shape: &[usize], strides: &[usize], offset| {
        let ty = crate::TensorType::new(crate::DType::I16, shape.iter().copied());
        let weight = Weight { ty, strides: strides.to_vec(), offset, storage: 0..24 };
        let entry = archive::Entry::unchecked(0..24);
        Weights::new(source.clone(), [("w".to_owned(), (weight, entry))].into()).read("w").expect("reads")
    };
    assert_eq!(weight(&[2, 3], &[3, 1], 1), (2..14).collect::<Vec<u8>>());
    assert_eq!(weight(&[2, 2], &[1, 4], 1), [2, 3, 10, 11, 4, 5, 12, 13]);
    assert_eq!(weight(&[2, 2], &[0, 1], 0), [0, 1, 2, 3, 0, 1, 2, 3]);
    assert!(weight(&[0, 2], &[2, 1], 0).is_empty());
    assert_eq!(weight(&[], &[], 3), [6, 7]);
}
