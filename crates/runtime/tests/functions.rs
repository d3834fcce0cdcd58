//! Programs that call the host's functions of each element.

#[path = "common/blas.rs"]
mod blas;
mod common;

use blas::blas;
use common::*;
use hostcall::Function;
use torchtpu_runtime::{Buffer, Client, ElementType, ExecuteOptions, TensorType};

/// What `text` gives on operands of `f64`, of which one that is marked is a 0-d tensor.
fn run(client: &Client, text: &str, operands: &[(Vec<f64>, bool)]) -> Result<Vec<f64>, String> {
    let executable = compile(client, text);
    let device = first_device(client);
    let upload = |(values, is_number): &(Vec<f64>, bool)| {
        let shape = if *is_number { vec![] } else { vec![values.len() as i64] };
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_ne_bytes()).collect();
        let ty = TensorType::new(ElementType::F64, &shape[..]);
        Buffer::from_host(&device, &bytes, ty).expect("uploads")
    };
    let arguments: Vec<Buffer> = operands.iter().map(upload).collect();
    let execution = executable.execute(&arguments, &ExecuteOptions::default()).map_err(|e| e.to_string())?;
    execution.done.wait().map_err(|e| e.to_string())?;
    let bytes = execution.outputs[0].to_host().map_err(|e| e.to_string())?;
    Ok(bytes.chunks_exact(8).map(|x| f64::from_ne_bytes(x.try_into().expect("eight bytes"))).collect())
}

fn expected(function: Function, x: f64, y: f64) -> f64 {
    match function {
        Function::Acos => x.acos(),
        Function::Asin => x.asin(),
        Function::Atanh => x.atanh(),
        Function::Cosine => x.cos(),
        Function::Erf => libm::erf(x),
        Function::Lgamma => libm::lgamma(x),
        Function::LogPlusOne => x.ln_1p(),
        Function::Sine => x.sin(),
        Function::Tan => x.tan(),
        Function::Atan2 => x.atan2(y),
        Function::Power => x.powf(y),
        Function::Remainder => x % y,
    }
}

/// `function` of operands that are so long, or one number for all.
fn check(client: &Client, function: Function, len: usize, numbers: [bool; 2]) {
    let values = |seed: usize| {
        let count = if numbers[seed] { 1 } else { len };
        (0..count).map(|i| ((i * 7 + 3 * seed) % 31) as f64 / 12.0 - 0.9).collect::<Vec<_>>()
    };
    let operands: Vec<_> = (0..function.operands()).map(|seed| (values(seed), numbers[seed])).collect();
    let whole = format!("tensor<{len}xf64>");
    let types: Vec<&str> = operands.iter().map(|(_, number)| if *number { "tensor<f64>" } else { &whole }).collect();
    let text = calling(Function::TARGET, &function.encode(), &types, &whole);
    let given = run(client, &text, &operands).expect("runs");
    let (x, y) = (&operands[0].0, &operands[operands.len() - 1].0);
    let wanted = |i: usize| expected(function, x[i.min(x.len() - 1)], y[i.min(y.len() - 1)]).to_bits();
    let is_right = given.len() == len && given.iter().enumerate().all(|(i, x)| x.to_bits() == wanted(i));
    assert!(is_right, "{function:?} of {len}, numbers: {numbers:?}");
}

#[test]
fn functions_are_computed_of_all_elements() {
    let client = client_asking(blas(0));
    for function in Function::ALL {
        for len in [0, 1, 7, 100_003] {
            check(&client, function, len, [false, false]);
        }
    }
    for function in [Function::Atan2, Function::Power, Function::Remainder] {
        for len in [0, 5, 100_003] {
            check(&client, function, len, [true, false]);
            check(&client, function, len, [false, true]);
        }
    }
}

#[test]
fn what_is_no_function_is_an_error() {
    let client = client_asking(blas(0));
    let (sine, power) = (Function::Sine.encode()[0], Function::Power.encode()[0]);
    let values = vec![0.5; 6];
    for (numbers, operands, out, why) in [
        (vec![12], 1, "tensor<6xf64>", "there is no such number"),
        (vec![-1], 1, "tensor<6xf64>", "nor this"),
        (vec![sine, 0], 1, "tensor<6xf64>", "one number too many"),
        (vec![sine], 2, "tensor<6xf64>", "an operand too many"),
        (vec![power], 1, "tensor<6xf64>", "an operand is missing"),
        (vec![sine], 1, "tensor<7xf64>", "there are fewer elements"),
        (vec![sine], 1, "tensor<6xf32>", "the result is narrower"),
        (vec![sine], 1, "tensor<6xi64>", "the result is no float"),
    ] {
        let text = calling(Function::TARGET, &numbers, &vec!["tensor<6xf64>"; operands], out);
        let error = run(&client, &text, &vec![(values.clone(), false); operands]).expect_err(why);
        assert!(error.contains("the call is none that torchtpu wrote"), "{why}: {error}");
    }
}
