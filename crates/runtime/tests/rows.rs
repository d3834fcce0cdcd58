//! Programs that have the host compute something of each row.

#[path = "common/blas.rs"]
mod blas;
mod common;

use blas::blas;
use common::*;
use hostcall::{Combines, OfOne, OfTwo, Operand, Rows, Step};
use torchtpu_runtime::{Buffer, Client, ElementType, ExecuteOptions, TensorType};

fn run(client: &Client, text: &str, operand: &[f32]) -> Result<Vec<f32>, String> {
    run_of(client, text, &[operand])
}

fn run_of(client: &Client, text: &str, operands: &[&[f32]]) -> Result<Vec<f32>, String> {
    let (executable, device) = (compile(client, text), first_device(client));
    let arguments: Vec<Buffer> = operands.iter().map(|of| upload(&device, of, &[of.len() as i64])).collect();
    let execution = executable.execute(&arguments, &ExecuteOptions::default()).map_err(|e| e.to_string())?;
    execution.done.wait().map_err(|e| e.to_string())?;
    Ok(download(&execution.outputs[0]))
}

/// `e^(x - m)` over the sum of all in its row, `m` being the greatest there.
fn softmax(rows: usize, length: usize) -> Rows {
    Rows {
        extents: vec![rows, length],
        outer: 1,
        operands: vec![Operand::with(0b11, false)],
        steps: vec![
            Step::Reduce(Combines::Greatest, 0),
            Step::Two(OfTwo::Subtract, 0, 1),
            Step::One(OfOne::Exponential, 2),
            Step::Reduce(Combines::Sum, 3),
            Step::Two(OfTwo::Divide, 3, 4),
        ],
        results: vec![5],
        takes: vec![None],
    }
}

fn expected(x: &[f32], length: usize) -> Vec<f32> {
    let of = |row: &[f32]| {
        let most = row.iter().fold(f32::NEG_INFINITY, |m, &x| m.max(x));
        let all: Vec<f64> = row.iter().map(|&x| f64::from(x - most).exp()).collect();
        let sum: f64 = all.iter().sum();
        all.into_iter().map(|x| (x / sum) as f32).collect::<Vec<f32>>()
    };
    x.chunks(length).flat_map(of).collect()
}

#[test]
fn short_rows_long_ones_and_such_as_threads_share() {
    let client = client_asking(blas(0));
    for (rows, length) in [(700, 3), (65, 1000), (33, 1025), (17, 40_000), (15, 32_768), (3, 32_769), (1, 300_001)] {
        let x: Vec<f32> = (0..rows * length).map(|i| (i * 7919 % 1009) as f32 / 100.0 - 5.0).collect();
        let ty = format!("tensor<{}xf32>", x.len());
        let text = calling(Rows::TARGET, &Rows::encode_all(&[softmax(rows, length)]), &[&ty], &ty);
        let given = run(&client, &text, &x).expect("runs");
        for (i, (got, want)) in given.iter().zip(expected(&x, length)).enumerate() {
            assert!((got - want).abs() <= 4e-6 * want, "{rows}x{length} at {i}: {got}, not {want}");
        }
        assert_eq!(given, run(&client, &text, &x).expect("runs again"), "whichever threads came");
    }
}

/// What is summed of all rows: what is given, its squares, or what it is over the sum of its own row.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Summed {
    Given,
    Squares,
    OverOwn,
}

fn sums(rows: usize, length: usize, summed: Summed) -> Rows {
    let own = match summed {
        Summed::Given => vec![],
        Summed::Squares => vec![Step::Two(OfTwo::Multiply, 0, 0)],
        Summed::OverOwn => vec![Step::Reduce(Combines::Sum, 0), Step::Two(OfTwo::Divide, 0, 1)],
    };
    Rows {
        extents: vec![rows, length],
        outer: 1,
        operands: vec![Operand::with(0b11, false)],
        results: vec![1 + own.len()],
        takes: vec![None],
        steps: [own.clone(), vec![Step::Gather(Combines::Sum, own.len())]].concat(),
    }
}

fn summed(client: &Client, rows: &Rows, x: &[f32]) -> Vec<f32> {
    let [operand, result] = [x.len(), rows.length()].map(|n| format!("tensor<{n}xf32>"));
    run(client, &calling(Rows::TARGET, &Rows::encode_all(std::slice::from_ref(rows)), &[&operand], &result), x)
        .expect("runs")
}

#[test]
fn all_rows_are_summed_in_the_same_order_however_they_are_divided() {
    let client = client_asking(blas(0));
    let few = [(0, 5), (1, 40), (33, 3), (700, 64), (5000, 17), (300, 200), (40, 30_000), (3, 40_000)];
    // As many columns as threads divide, of rows of which several are taken at once.
    let wide = [(65, 1100), (128, 512), (64, 500), (300, 301), (256, 513)];
    for (rows, length) in few.into_iter().chain(wide) {
        let x: Vec<f32> = (0..rows * length).map(|i| (i * 7919 % 1009) as f32 / 100.0 + 0.1).collect();
        for what in [Summed::Given, Summed::Squares, Summed::OverOwn] {
            let given = summed(&client, &sums(rows, length, what), &x);
            let own: Vec<f64> = x.chunks(length).map(|row| row.iter().map(|&x| f64::from(x)).sum()).collect();
            for (at, &got) in given.iter().enumerate() {
                let element = |row: usize| {
                    let x = f64::from(x[row * length + at]);
                    match what {
                        Summed::Given => x,
                        Summed::Squares => x * x,
                        Summed::OverOwn => x / own[row],
                    }
                };
                let want: f64 = (0..rows).map(element).sum();
                let told = format!("{what:?} of {rows}x{length} at {at}: {got}, not {want}");
                assert!((f64::from(got) - want).abs() <= 2e-6 * want, "{told}");
            }
        }
        // Beside as many other columns more than rows, of which threads take some each.
        let wider = length + rows.max(300);
        let beside: Vec<f32> = (0..rows * wider)
            .map(|i| if i % wider < length { x[i / wider * length + i % wider] } else { 3.0 })
            .collect();
        let of_wider = summed(&client, &sums(rows, wider, Summed::Given), &beside);
        assert_eq!(summed(&client, &sums(rows, length, Summed::Given), &x), of_wider[..length], "{rows}x{length}");
    }
}

/// What a function is of numbers of 64 bits.
type Exact = fn(f64) -> f64;

/// A function of each element and its column's.
fn activated(rows: usize, length: usize, of: OfOne) -> Rows {
    Rows {
        extents: vec![rows, length],
        outer: 1,
        operands: vec![Operand::with(0b11, false), Operand::with(0b10, false)],
        steps: vec![Step::Two(OfTwo::Add, 0, 1), Step::One(of, 2)],
        results: vec![3],
        takes: vec![None],
    }
}

#[test]
fn functions_of_rows_that_nothing_is_combined_of() {
    let client = client_asking(blas(0));
    let functions: [(OfOne, Exact); 4] = [
        (OfOne::Erf, libm::erf),
        (OfOne::Exponential, f64::exp),
        (OfOne::Logistic, |x| 1.0 / (1.0 + (-x).exp())),
        (OfOne::Tanh, f64::tanh),
    ];
    for (rows, length) in [(1, 17), (5, 1000), (700, 300), (33, 5000), (0, 4)] {
        let x: Vec<f32> = (0..rows * length).map(|i| (i * 7919 % 1009) as f32 / 100.0 - 5.0).collect();
        let bias: Vec<f32> = (0..length).map(|i| (i % 7) as f32 - 3.0).collect();
        let [of_x, of_bias] = [x.len(), length].map(|n| format!("tensor<{n}xf32>"));
        for (of, exact) in functions {
            let numbers = Rows::encode_all(&[activated(rows, length, of)]);
            let text = calling(Rows::TARGET, &numbers, &[&of_x, &of_bias], &of_x);
            let given = run_of(&client, &text, &[&x, &bias]).expect("runs");
            assert_eq!(given.len(), x.len());
            for (i, got) in given.into_iter().enumerate() {
                let want = exact(f64::from(x[i] + bias[i % length]));
                assert!((f64::from(got) - want).abs() <= 1e-6 * want.abs(), "{of:?} at {i}: {got}, not {want}");
            }
        }
    }
}

/// Each of six elements and itself, in its own memory.
fn twice() -> Rows {
    Rows {
        extents: vec![6],
        outer: 0,
        operands: vec![Operand::with(1, false)],
        steps: vec![Step::Two(OfTwo::Add, 0, 0)],
        results: vec![1],
        takes: vec![Some(0)],
    }
}

#[test]
fn what_takes_an_operands_memory_is_written_there() {
    let client = client_asking(blas(0));
    let text = calling(Rows::TARGET, &Rows::encode_all(&[twice()]), &["tensor<6xf32>"], "tensor<6xf32>");
    let text = text.replace("api_version", &format!("{IN_PLACE}, api_version"));
    assert_eq!(run(&client, &text, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), Ok(vec![2.0, 4.0, 6.0, 8.0, 10.0, 12.0]));
}

#[test]
fn what_are_no_rows_is_an_error() {
    let client = client_asking(blas(0));
    let right = softmax(2, 3);
    let changed = |change: fn(&mut Rows)| {
        let mut rows = right.clone();
        change(&mut rows);
        Rows::encode_all(&[rows])
    };
    let ty = "tensor<6xf32>";
    for (numbers, operand, out, why) in [
        (Rows::encode_all(std::slice::from_ref(&right))[..20].to_vec(), ty, ty, "numbers are missing"),
        (changed(|r| r.extents[0] = 3), ty, ty, "there are fewer elements"),
        (changed(|r| r.outer = 2), ty, ty, "a row has no dimension"),
        (changed(|r| r.operands[0].has = 0b10), ty, ty, "the operand has one row"),
        (changed(|r| r.operands[0].truths = true), ty, ty, "there are no truth values"),
        (changed(|r| r.operands.clear()), ty, ty, "there is no operand"),
        (changed(|r| r.results = vec![4]), ty, ty, "the result is a number of each row"),
        (changed(|r| (r.results, r.takes) = (vec![5, 3], vec![None; 2])), ty, ty, "there are two results"),
        (changed(|r| r.steps[1] = Step::Two(OfTwo::Subtract, 0, 2)), ty, ty, "a step reads itself"),
        (changed(|r| r.steps[3] = Step::Gather(Combines::Sum, 3)), ty, ty, "what is of all rows is read"),
        (Rows::encode_all(&[sums(2, 3, Summed::Given)]), ty, ty, "the result is of all rows"),
        (Rows::encode_all(&[twice()]), ty, ty, "the result is not in the memory that it takes"),
        (Rows::encode_all(&[right.clone(), right.clone()]), ty, ty, "there is an operand for one of two"),
        (Rows::encode_all(std::slice::from_ref(&right)), ty, "tensor<7xf32>", "the result is longer"),
        (Rows::encode_all(std::slice::from_ref(&right)), ty, "tensor<6xf64>", "the result is wider"),
        (Rows::encode_all(std::slice::from_ref(&right)), "tensor<6xi1>", ty, "the operand holds truth values"),
    ] {
        let text = calling(Rows::TARGET, &numbers, &[operand], out);
        let given = if operand == ty { run(&client, &text, &[0.5; 6]) } else { of_truths(&client, &text) };
        let error = given.expect_err(why);
        assert!(error.contains("the call is none that torchtpu wrote"), "{why}: {error}");
    }
}

/// The same of six truth values.
fn of_truths(client: &Client, text: &str) -> Result<Vec<f32>, String> {
    let executable = compile(client, text);
    let ty = TensorType::new(ElementType::Pred, &[6][..]);
    let argument = Buffer::from_host(&first_device(client), &[0; 6], ty).expect("uploads");
    let execution = executable.execute(&[argument], &ExecuteOptions::default()).map_err(|e| e.to_string())?;
    execution.done.wait().map_err(|e| e.to_string())?;
    Ok(download(&execution.outputs[0]))
}
