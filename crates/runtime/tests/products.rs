//! Programs that call the host's matrix product.

#[path = "common/blas.rs"]
mod blas;
mod common;

use std::path::Path;

use blas::blas;
use common::*;
use product::{Batch, Product, Strides};
use torchtpu_runtime::{Client, ExecuteOptions};

/// A client whose programs may call products.
fn client_with_products(devices: i64) -> Client {
    let (_dir, library) = blas(0);
    assert!(plugin().offer_products(&library).expect("the plugin takes it"));
    client_of(devices)
}

fn dims(shape: &[usize]) -> String {
    shape.iter().map(|d| format!("{d}x")).collect()
}

/// A program that calls `numbers` as a product.
fn program(lhs: &[usize], rhs: &[usize], out: &[usize], numbers: &[usize], dtype: &str) -> String {
    let (lhs, rhs, out) = (dims(lhs) + dtype, dims(rhs) + dtype, dims(out) + dtype);
    let numbers = numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    format!(
        "func.func @main(%a: tensor<{lhs}>, %b: tensor<{rhs}>) -> tensor<{out}> {{
           %0 = stablehlo.custom_call @torchtpu.product(%a, %b) {{
             api_version = 4 : i32, backend_config = {{product = array<i64: {numbers}>}}
           }} : (tensor<{lhs}>, tensor<{rhs}>) -> tensor<{out}>
           return %0 : tensor<{out}>
         }}"
    )
}

/// Small whole numbers, whose products are exact.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7 + seed) % 11) as f32 - 5.0).collect()
}

/// `it` by the definition.
fn expected(it: &Product, lhs: &[f32], rhs: &[f32]) -> Vec<f32> {
    let mut out = vec![];
    let count: usize = it.batch.iter().map(|b| b.size).product();
    for index in 0..count {
        let (mut rest, mut l, mut r) = (index, 0, 0);
        for b in it.batch.iter().rev() {
            (l, r, rest) = (l + rest % b.size * b.lhs, r + rest % b.size * b.rhs, rest / b.size);
        }
        for (i, j) in (0..it.m).flat_map(|i| (0..it.n).map(move |j| (i, j))) {
            let term = |k| lhs[l + i * it.lhs.row + k * it.lhs.column] * rhs[r + k * it.rhs.row + j * it.rhs.column];
            out.push((0..it.k).map(term).sum());
        }
    }
    out
}

fn run(client: &Client, program: &str, lhs: (&[f32], &[usize]), rhs: (&[f32], &[usize])) -> Vec<f32> {
    let executable = compile(client, program);
    // What is kept on disk still finds the function.
    let kept = executable.serialize().expect("serializes");
    let executable = client.deserialize_and_load(&kept, None).expect("loads");
    let device = first_device(client);
    let signed = |shape: &[usize]| shape.iter().map(|&d| d as i64).collect::<Vec<_>>();
    let args = [upload(&device, lhs.0, &signed(lhs.1)), upload(&device, rhs.0, &signed(rhs.1))];
    download(&executable.execute(&args, &ExecuteOptions::default()).expect("runs").outputs[0])
}

fn rows(row: usize) -> Strides {
    Strides { row, column: 1 }
}

fn columns(column: usize) -> Strides {
    Strides { row: 1, column }
}

#[test]
fn matrices_are_multiplied_however_they_lie() {
    let client = client_with_products(4);
    for (m, n, k) in [(1, 1, 1), (3, 5, 7), (1, 40, 8), (130, 200, 90), (300, 17, 260)] {
        for (lhs, lhs_shape) in [(rows(k), [m, k]), (columns(m), [k, m])] {
            for (rhs, rhs_shape) in [(rows(n), [k, n]), (columns(k), [n, k])] {
                let it = Product { m, n, k, lhs, rhs, batch: vec![] };
                let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
                let text = program(&lhs_shape, &rhs_shape, &[m, n], &it.encode(), "f32");
                let out = run(&client, &text, (&a, &lhs_shape), (&b, &rhs_shape));
                assert!(out == expected(&it, &a, &b), "{it:?}");
            }
        }
    }
}

#[test]
fn batches_may_lie_between_rows_and_columns() {
    let client = client_with_products(4);
    // Attention: [batch, length, heads, depth] twice.
    let (b, s, t, h, d) = (3, 20, 30, 5, 16);
    let batch = vec![Batch { size: b, lhs: s * h * d, rhs: t * h * d }, Batch { size: h, lhs: d, rhs: d }];
    let it = Product { m: s, n: t, k: d, lhs: rows(h * d), rhs: columns(h * d), batch };
    let (q, k) = (numbers(b * s * h * d, 3), numbers(b * t * h * d, 4));
    let text = program(&[b, s, h, d], &[b, t, h, d], &[b, h, s, t], &it.encode(), "f32");
    assert!(run(&client, &text, (&q, &[b, s, h, d]), (&k, &[b, t, h, d])) == expected(&it, &q, &k));
}

#[test]
fn what_is_no_product_is_an_error() {
    let client = client_with_products(1);
    let good = [2, 4, 3, 3, 1, 4, 1];
    let wrong: [(&[usize], &[usize], &str); 5] = [
        (&[2, 4, 3, 4, 1, 4, 1], &[2, 4], "f32"), // reads beyond the first operand
        (&[2, 4, 3, 3, 1, 5, 1], &[2, 4], "f32"), // and beyond the second
        (&good, &[2, 5], "f32"),                  // a larger result
        (&good[..6], &[2, 4], "f32"),
        (&good, &[2, 4], "bf16"),
    ];
    for (numbers, out, dtype) in wrong {
        let executable = compile(&client, &program(&[2, 3], &[3, 4], out, numbers, dtype));
        let (device, signature) = (first_device(&client), executable.signature().clone());
        let zeros = |i: usize| {
            let ty = signature.inputs[i].clone();
            let size = ty.dims.iter().product::<i64>() as usize * if dtype == "f32" { 4 } else { 2 };
            torchtpu_runtime::Buffer::from_host(&device, &vec![0; size], (*ty).clone()).expect("uploads")
        };
        let run = executable.execute(&[zeros(0), zeros(1)], &ExecuteOptions::default());
        let error = run.and_then(|run| run.outputs[0].to_host()).expect_err("it is wrong");
        assert!(error.to_string().contains("the call is no product that torchtpu wrote"), "{error}");
    }
}

#[test]
fn only_a_library_that_multiplies_is_taken() {
    let offer = |path: &Path| plugin().offer_products(path).expect("no error");
    assert!(!offer(Path::new("/no/such/library.so")));
    assert!(!offer(&plugin_path()), "it has no BLAS");
    let (_dir, wrong) = blas(1);
    assert!(!offer(&wrong), "it errs");
    let (_dir, right) = blas(0);
    assert!(offer(&right));
    assert!(offer(&right), "and again");
}
