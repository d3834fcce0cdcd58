//! Programs that ask the host for products of groups of rows, and for what is none.

#[path = "common/blas.rs"]
mod blas;
mod common;

use blas::blas;
use common::*;
use hostcall::Grouped;
use torchtpu_runtime::{Buffer, Client, Device, ElementType, ExecuteOptions, TensorType};

const ROWS: Grouped = Grouped::Rows { turned: false };

/// Numbers, the types of operands and the operands of a call, the type of its result, and what is wrong with it.
type Wrong<'a> = (&'a [i64], [&'a str; 3], [Buffer; 3], &'a str, &'a str);

/// What a call of `numbers` gives, or its error.
fn run(client: &Client, numbers: &[i64], types: &[&str], arguments: &[Buffer], out: &str) -> Result<Vec<f32>, String> {
    let executable = compile(client, &calling(Grouped::TARGET, numbers, types, out));
    let execution = executable.execute(arguments, &ExecuteOptions::default()).map_err(|e| e.to_string())?;
    execution.done.wait().map_err(|e| e.to_string())?;
    Ok(download(&execution.outputs[0]))
}

fn ends(device: &Device, ends: &[i32]) -> Buffer {
    let bytes: Vec<u8> = ends.iter().flat_map(|end| end.to_ne_bytes()).collect();
    Buffer::from_host(device, &bytes, TensorType::new(ElementType::S32, [ends.len() as i64])).expect("uploads")
}

#[test]
fn each_row_is_multiplied_by_the_matrix_of_its_group() {
    let client = client_asking(blas(0));
    let device = first_device(&client);
    let types = ["tensor<4x1xf32>", "tensor<3x1x1xf32>", "tensor<3xi32>"];
    // Groups without rows, rows of no group, and ends that fall or lie behind the rows.
    for (at, wanted) in [
        ([1, 1, 4], [10.0, 60.0, 90.0, 120.0]),
        ([1, 2, 3], [10.0, 40.0, 90.0, 0.0]),
        ([0, 0, 0], [0.0; 4]),
        ([2, 1, 3], [10.0, 20.0, 90.0, 0.0]),
        ([9, 1, 3], [10.0, 20.0, 30.0, 40.0]),
    ] {
        let (x, w) =
            (upload(&device, &[1.0, 2.0, 3.0, 4.0], &[4, 1]), upload(&device, &[10.0, 20.0, 30.0], &[3, 1, 1]));
        let arguments = [x, w, ends(&device, &at)];
        assert_eq!(run(&client, &ROWS.encode(), &types, &arguments, "tensor<4x1xf32>"), Ok(wanted.to_vec()), "{at:?}");
    }
}

#[test]
fn groups_without_rows_have_matrices_of_zeros() {
    let client = client_asking(blas(0));
    let device = first_device(&client);
    let (x, y) = (upload(&device, &[1.0, 2.0, 3.0], &[3, 1]), upload(&device, &[1.0, 10.0, 100.0], &[3, 1]));
    let types = ["tensor<3x1xf32>", "tensor<3x1xf32>", "tensor<3xi32>"];
    let given =
        run(&client, &Grouped::Matrices.encode(), &types, &[x, y, ends(&device, &[2, 2, 3])], "tensor<3x1x1xf32>");
    assert_eq!(given, Ok(vec![21.0, 0.0, 300.0]));
}

#[test]
fn what_is_no_such_call_is_an_error() {
    let client = client_asking(blas(0));
    let device = first_device(&client);
    let zeros = |dims: &[i64]| upload(&device, &vec![0.0; dims.iter().product::<i64>() as usize], dims);
    let (x, w) = ("tensor<4x2xf32>", "tensor<3x2x5xf32>");
    let operands = || [zeros(&[4, 2]), zeros(&[3, 2, 5]), ends(&device, &[1, 2, 4])];
    let (i32s, out) = ("tensor<3xi32>", "tensor<4x5xf32>");
    assert!(run(&client, &[0], &[x, w, i32s], &operands(), out).is_ok());
    let with = |i: usize, other: Buffer| {
        let mut all = operands();
        all[i] = other;
        all
    };
    let wrong: [Wrong<'_>; 6] = [
        (&[3], [x, w, i32s], operands(), out, "there is no such number"),
        (&[1], [x, w, i32s], operands(), out, "the matrices lie otherwise"),
        (&[0], [x, w, i32s], operands(), "tensor<5x4xf32>", "the result has other extents"),
        (&[0], [x, "tensor<2x2x5xf32>", i32s], with(1, zeros(&[2, 2, 5])), out, "there are fewer matrices"),
        (&[0], [x, w, "tensor<3xf32>"], with(2, zeros(&[3])), out, "ends are no integers"),
        (&[0], [x, w, i32s], with(2, ends(&device, &[1, -2, 4])), out, "a group ends before the first row"),
    ];
    for (numbers, types, arguments, out, why) in wrong {
        let error = run(&client, numbers, &types, &arguments, out).expect_err(why);
        assert!(error.contains("the call is none that torchtpu wrote"), "{why}: {error}");
    }
}
