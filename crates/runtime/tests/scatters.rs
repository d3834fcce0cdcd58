//! Programs that have the host combine updates with elements that indices name.

#[path = "common/blas.rs"]
mod blas;
mod common;

use blas::blas;
use common::*;
use hostcall::{Combines, Places, Scatter};
use torchtpu_runtime::{Buffer, Client, ElementType, ExecuteOptions, TensorType};

/// A program that scatters `updates` at `indices` into `operand`, of so many elements and these types.
struct Called<'a> {
    numbers: Vec<i64>,
    operand: (usize, &'a str),
    indices: (usize, &'a str),
    updates: (usize, &'a str),
    aliases: &'a str,
}

impl Called<'_> {
    fn text(&self) -> String {
        let ty = |(len, name): (usize, &str)| format!("tensor<{len}x{name}>");
        let [a, i, u] = [self.operand, self.indices, self.updates].map(ty);
        let numbers = self.numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        format!(
            "func.func @main(%a: {a}, %i: {i}, %u: {u}) -> {a} {{
               %0 = stablehlo.custom_call @{}(%a, %i, %u) {{
                 api_version = 4 : i32, backend_config = {{numbers = array<i64: {numbers}>}}, {}
               }} : ({a}, {i}, {u}) -> {a}
               return %0 : {a}
             }}",
            Scatter::TARGET,
            self.aliases
        )
    }

    fn run(&self, client: &Client, operands: [Vec<u8>; 3]) -> Result<Vec<u8>, String> {
        let executable = compile(client, &self.text());
        let types = [self.operand, self.indices, self.updates].map(|(len, name)| {
            let ty = match name {
                "f32" => ElementType::F32,
                "i32" => ElementType::S32,
                "i64" => ElementType::S64,
                "ui32" => ElementType::U32,
                "bf16" => ElementType::Bf16,
                _ => panic!("{name}"),
            };
            TensorType::new(ty, &[len as i64][..])
        });
        let upload =
            |(bytes, ty): (Vec<u8>, TensorType)| Buffer::from_host(&first_device(client), &bytes, ty).expect("uploads");
        let arguments: Vec<Buffer> = operands.into_iter().zip(types).map(upload).collect();
        let execution = executable.execute(&arguments, &ExecuteOptions::default()).map_err(|e| e.to_string())?;
        execution.done.wait().map_err(|e| e.to_string())?;
        Ok(execution.outputs[0].to_host().map_err(|e| e.to_string())?.to_vec())
    }
}

/// So many updates of each of `batch` rows, or columns, of nine.
fn scatter(of: Option<Combines>, batch: usize, updates: usize, in_columns: bool) -> Scatter {
    let (batches, within) = if in_columns { ((1, 1), (batch, batch)) } else { ((updates, 9), (1, 1)) };
    let of_batch = Places { size: batch, updates: batches.0, indices: batches.0, operand: batches.1 };
    let of_updates = Places { size: updates, updates: within.0, indices: within.0, operand: 0 };
    let places = if in_columns { vec![of_updates, of_batch] } else { vec![of_batch, of_updates] };
    Scatter { of, stride: within.1, count: 9, places }
}

#[test]
fn updates_are_combined_in_order() {
    let client = client_asking(blas(0));
    for of in [None].into_iter().chain(Combines::ALL.map(Some)) {
        for (batch, updates) in [(1, 7), (5, 4), (7, 3000)] {
            for in_columns in [false, true] {
                let asked = scatter(of, batch, updates, in_columns);
                let numbers = asked.encode();
                let (own, all) = (9 * batch, updates * batch);
                let called = Called {
                    numbers,
                    operand: (own, "f32"),
                    indices: (all, "i32"),
                    updates: (all, "f32"),
                    aliases: IN_PLACE,
                };
                // One before, and two behind, those that there are.
                let indices: Vec<i32> = (0..all as i32).map(|i| i * 7 % 12 - 1).collect();
                let values = |n: usize| (0..n).map(|i| (i * 31 % 17) as f32 / 8.0 - 1.0).collect::<Vec<f32>>();
                let (mut wanted, new) = (values(own), values(all));
                let of_indices: Vec<u8> = indices.iter().flat_map(|i| i.to_ne_bytes()).collect();
                let given = called.run(&client, [bytes(&wanted), of_indices, bytes(&new)]).expect("runs");
                for b in 0..batch {
                    for u in 0..updates {
                        let at = if in_columns { u * batch + b } else { b * updates + u };
                        let Some(index) = usize::try_from(indices[at]).ok().filter(|&i| i < 9) else { continue };
                        let element = &mut wanted[if in_columns { index * batch + b } else { b * 9 + index }];
                        *element = match of {
                            None => new[at],
                            Some(Combines::Sum) => *element + new[at],
                            Some(Combines::Product) => *element * new[at],
                            Some(Combines::Greatest) => element.max(new[at]),
                            Some(Combines::Least) => element.min(new[at]),
                        };
                    }
                }
                assert_eq!(floats(&given), wanted, "{of:?}, {batch} by {updates}, columns: {in_columns}");
            }
        }
    }
}

#[test]
fn other_types_are_moved_and_counted() {
    let client = client_asking(blas(0));
    let numbers = scatter(None, 2, 2, false).encode();
    let called =
        Called { numbers, operand: (18, "bf16"), indices: (4, "i64"), updates: (4, "bf16"), aliases: IN_PLACE };
    let indices: Vec<u8> = [8i64, -1, 0, i64::MIN].into_iter().flat_map(i64::to_ne_bytes).collect();
    let given = called.run(&client, [vec![0; 36], indices, vec![1, 1, 2, 2, 3, 3, 4, 4]]).expect("runs");
    let mut wanted = vec![0; 36];
    (wanted[16], wanted[17], wanted[18], wanted[19]) = (1, 1, 3, 3);
    assert_eq!(given, wanted);
}

#[test]
fn what_is_no_scatter_is_an_error() {
    let client = client_asking(blas(0));
    let right = || Called {
        numbers: scatter(Some(Combines::Sum), 2, 3, false).encode(),
        operand: (18, "f32"),
        indices: (6, "i32"),
        updates: (6, "f32"),
        aliases: IN_PLACE,
    };
    let run = |called: &Called<'_>| {
        let bytes = |(len, name): (usize, &str)| vec![0; len * if name == "bf16" { 2 } else { 4 }];
        called.run(&client, [bytes(called.operand), bytes(called.indices), bytes(called.updates)])
    };
    run(&right()).expect("it is one");
    let numbers = |at: usize, number: i64| {
        let mut numbers = right().numbers;
        numbers[at] = number;
        Called { numbers, ..right() }
    };
    for (called, why) in [
        (Called { aliases: "has_side_effect = false", ..right() }, "not in the operand's memory"),
        (Called { operand: (17, "f32"), ..right() }, "an element is missing"),
        (Called { indices: (5, "i32"), ..right() }, "an index is missing"),
        (Called { updates: (5, "f32"), ..right() }, "an update is missing"),
        (Called { indices: (6, "ui32"), ..right() }, "indices are unsigned"),
        (Called { updates: (6, "i32"), ..right() }, "updates are no floats"),
        (Called { operand: (18, "bf16"), updates: (6, "bf16"), ..right() }, "they are not added"),
        (Called { numbers: right().numbers[..6].to_vec(), ..right() }, "numbers are missing"),
        (numbers(0, 9), "there is no such combination"),
        (numbers(2, 10), "it counts beyond the last row"),
        (numbers(3, -1), "less than nothing"),
        (numbers(6, i64::MAX), "cannot be counted"),
    ] {
        let error = run(&called).expect_err(why);
        assert!(error.contains("the call is none that torchtpu wrote"), "{why}: {error}");
    }
}
