//! Programs that ask the host for factorisations that it cannot give; `lower` tests those that it can.

#[path = "common/blas.rs"]
mod blas;
mod common;

use blas::blas;
use common::*;
use hostcall::Lapack;
use torchtpu_runtime::{Buffer, Client, ElementType, ExecuteOptions, TensorType};

/// An operand's type and extents.
type Operand<'a> = (ElementType, &'a [i64]);

/// What becomes of a call of `numbers` with zeros for operands.
fn run(client: &Client, numbers: &[i64], operands: &[Operand<'_>], out: &str) -> Result<(), String> {
    let word = |ty: ElementType| if ty == ElementType::S32 { "i32" } else { "f64" };
    let spelled = |(ty, dims): &Operand<'_>| {
        format!("tensor<{}{}>", dims.iter().map(|d| format!("{d}x")).collect::<String>(), word(*ty))
    };
    let text = calling(Lapack::TARGET, numbers, &operands.iter().map(spelled).collect::<Vec<_>>(), out);
    let executable = compile(client, &text);
    let device = first_device(client);
    let upload = |(ty, dims): &Operand<'_>| {
        let bytes = vec![0; dims.iter().product::<i64>() as usize * if *ty == ElementType::S32 { 4 } else { 8 }];
        Buffer::from_host(&device, &bytes, TensorType::new(*ty, *dims)).expect("uploads")
    };
    let arguments: Vec<Buffer> = operands.iter().map(upload).collect();
    let execution = executable.execute(&arguments, &ExecuteOptions::default()).map_err(|e| e.to_string())?;
    execution.done.wait().map_err(|e| e.to_string())
}

#[test]
fn what_is_no_factorisation_is_an_error() {
    let (_dir, library) = blas(0);
    plugin().offer_products(&library).expect("the plugin takes it");
    let client = client();
    let (f64s, i32s) = (ElementType::F64, ElementType::S32);
    let triangular = Lapack::Triangular { upper: true, unit: false }.encode();
    let order = Lapack::Order.encode();
    let system: &[Operand<'_>] = &[(f64s, &[2, 3, 3]), (f64s, &[2, 3, 4])];
    assert_eq!(run(&client, &triangular, system, "tensor<2x3x4xf64>"), Ok(()));
    assert_eq!(
        run(&client, &order, &[(i32s, &[2, 3])], "tensor<2x5xi32>"),
        Ok(()),
        "pivots that are no rows swap nothing"
    );
    let wrong: &[(&[i64], &[Operand<'_>], &str, &str)] = &[
        (&[12, 0, 0], system, "tensor<2x3x4xf64>", "there is no such number"),
        (&[5, 1], system, "tensor<2x3x4xf64>", "a number is missing"),
        (&[5, 2, 0], system, "tensor<2x3x4xf64>", "a flag is none"),
        (&triangular, &system[..1], "tensor<2x3x3xf64>", "an operand is missing"),
        (&triangular, &[system[0], system[1], system[1]], "tensor<2x3x4xf64>", "an operand too many"),
        (&triangular, system, "tensor<2x3x5xf64>", "the result has other extents"),
        (&triangular, system, "tensor<24xf64>", "the result has another rank"),
        (&triangular, system, "tensor<2x3x4xf32>", "the result is narrower"),
        (&triangular, &[(f64s, &[2, 3, 4]), system[1]], "tensor<2x3x4xf64>", "the matrices are not square"),
        (&triangular, &[(f64s, &[1, 3, 3]), system[1]], "tensor<2x3x4xf64>", "another batch"),
        (&triangular, &[system[0], (f64s, &[2, 4, 4])], "tensor<2x4x4xf64>", "the system has fewer rows"),
        (&order, &[(i32s, &[2, 3])], "tensor<2x2xi32>", "fewer rows than pivots"),
        (&order, &[(f64s, &[2, 3])], "tensor<2x3xi32>", "pivots that are no integers"),
        (&Lapack::SingularValues.encode(), &[(i32s, &[2, 3, 3])], "tensor<2x3xi32>", "matrices of integers"),
        (&Lapack::Lu.encode(), &system[..1], "tensor<2x3x3xf64>", "results are missing"),
    ];
    for (numbers, operands, out, why) in wrong {
        let error = run(&client, numbers, operands, out).expect_err(why);
        assert!(error.contains("the call is none that torchtpu wrote"), "{why}: {error}");
    }
}
