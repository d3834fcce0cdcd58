//! Programs that have the host combine each element with those before it.

#[path = "common/blas.rs"]
mod blas;
mod common;

use blas::blas;
use common::*;
use hostcall::{Combines, Scan};
use torchtpu_runtime::{Buffer, Client, ElementType, ExecuteOptions, TensorType};

/// A type of elements, as programs name it.
trait Scanned: Copy + PartialEq + std::fmt::Debug {
    const NAME: &str;
    const TYPE: ElementType;

    fn bytes(self) -> [u8; 8];
    fn read(bytes: &[u8]) -> Self;
    fn of(number: i64) -> Self;
    /// What two make, of `f32` not yet rounded.
    fn combined(of: Combines, kept: f64, with: Self) -> f64;
    fn rounded(kept: f64) -> Self;
}

macro_rules! scanned {
    ($T:ident, $name:literal, $TYPE:ident) => {
        impl Scanned for $T {
            const NAME: &str = $name;
            const TYPE: ElementType = ElementType::$TYPE;

            fn bytes(self) -> [u8; 8] {
                let mut bytes = [0; 8];
                bytes[..size_of::<$T>()].copy_from_slice(&self.to_ne_bytes());
                bytes
            }
            fn read(bytes: &[u8]) -> $T {
                $T::from_ne_bytes(bytes.try_into().expect("so many bytes"))
            }
            fn of(number: i64) -> $T {
                number as $T
            }
            fn combined(of: Combines, kept: f64, with: $T) -> f64 {
                match of {
                    Combines::Sum => kept + with as f64,
                    Combines::Product => kept * with as f64,
                    Combines::Greatest => kept.max(with as f64),
                    Combines::Least => kept.min(with as f64),
                }
            }
            fn rounded(kept: f64) -> $T {
                kept as $T
            }
        }
    };
}

scanned!(f32, "f32", F32);
scanned!(f64, "f64", F64);
scanned!(i32, "i32", S32);
scanned!(i64, "i64", S64);

/// What `text` gives on one operand.
fn run<T: Scanned>(client: &Client, text: &str, operand: &[T]) -> Result<Vec<T>, String> {
    let executable = compile(client, text);
    let width = size_of::<T>();
    let bytes: Vec<u8> = operand.iter().flat_map(|x| x.bytes()[..width].to_vec()).collect();
    let ty = TensorType::new(T::TYPE, &[operand.len() as i64][..]);
    let argument = Buffer::from_host(&first_device(client), &bytes, ty).expect("uploads");
    let execution = executable.execute(&[argument], &ExecuteOptions::default()).map_err(|e| e.to_string())?;
    execution.done.wait().map_err(|e| e.to_string())?;
    let bytes = execution.outputs[0].to_host().map_err(|e| e.to_string())?;
    Ok(bytes.chunks_exact(width).map(T::read).collect())
}

fn text(numbers: &[i64], operand: &str, out: &str) -> String {
    calling(Scan::TARGET, numbers, &[operand], out)
}

/// One lane after the other, an element at a time.
fn expected<T: Scanned>(scan: &Scan, operand: &[T]) -> Vec<T> {
    let mut out = operand.to_vec();
    for lane in 0..scan.outer * scan.inner {
        let first = lane / scan.inner * scan.length * scan.inner + lane % scan.inner;
        let mut kept = match scan.of {
            Combines::Sum => 0.0,
            Combines::Product => 1.0,
            Combines::Greatest => f64::NEG_INFINITY,
            Combines::Least => f64::INFINITY,
        };
        for i in 0..scan.length {
            let i = if scan.backwards { scan.length - 1 - i } else { i };
            let at = first + i * scan.inner;
            kept = T::combined(scan.of, kept, operand[at]);
            out[at] = T::rounded(kept);
        }
    }
    out
}

fn check<T: Scanned>(client: &Client, scan: Scan) {
    let count = scan.elements().expect("few");
    // Of a product, ones and zeros and twos, so that it stays small.
    let number = |i: usize| match scan.of {
        Combines::Product => [1, 1, -1, 1, 1, 1][i % 6] * if i % 97 == 3 { 2 } else { 1 },
        _ => (i * 7919 % 1009) as i64 - 500,
    };
    let operand: Vec<T> = (0..count).map(|i| T::of(number(i))).collect();
    let ty = format!("tensor<{count}x{}>", T::NAME);
    let given = run(client, &text(&scan.encode(), &ty, &ty), &operand).expect("runs");
    assert_eq!(given, expected(&scan, &operand), "{scan:?} of {}", T::NAME);
}

#[test]
fn every_lane_is_scanned() {
    let client = client_asking(blas(0));
    for of in [Combines::Sum, Combines::Product, Combines::Greatest, Combines::Least] {
        for backwards in [false, true] {
            for (outer, length, inner) in
                [(0, 3, 2), (1, 1, 1), (1, 700, 1), (7, 33, 1), (3, 5, 300), (2, 40, 256), (9, 300, 17), (64, 2048, 2)]
            {
                let scan = Scan { of, backwards, outer, length, inner };
                check::<f32>(&client, scan);
                check::<f64>(&client, scan);
                check::<i32>(&client, scan);
                check::<i64>(&client, scan);
            }
        }
    }
}

#[test]
fn sums_are_rounded_once_and_nan_stays() {
    let client = client_asking(blas(0));
    let scan = |of, length| Scan { of, backwards: false, outer: 1, length, inner: 1 };
    let run = |of, values: &[f32]| {
        let ty = format!("tensor<{}xf32>", values.len());
        run(&client, &text(&scan(of, values.len()).encode(), &ty, &ty), values).expect("runs")
    };
    assert_eq!(run(Combines::Sum, &[1e8, 1.0, -1e8, 1e-40])[2..], [1.0, 1.0]);
    assert_eq!(run(Combines::Sum, &[1e-40, 1e-40])[1].to_bits(), (1e-40f32 + 1e-40).to_bits(), "small numbers count");
    for of in [Combines::Greatest, Combines::Least] {
        let given = run(of, &[1.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY]);
        assert!(given[0] == 1.0 && given[1..].iter().all(|x| x.is_nan()), "{given:?}");
    }
    let signs = |values: Vec<f32>| values.iter().map(|x| x.is_sign_negative()).collect::<Vec<_>>();
    assert_eq!(signs(run(Combines::Greatest, &[-0.0, 0.0, -0.0])), [true, false, false]);
    assert_eq!(signs(run(Combines::Least, &[0.0, -0.0, 0.0])), [false, true, true]);
}

#[test]
fn what_is_no_scan_is_an_error() {
    let client = client_asking(blas(0));
    for (numbers, out, why) in [
        (vec![4, 0, 1, 6, 1], "tensor<6xf64>", "there is no such number"),
        (vec![0, 2, 1, 6, 1], "tensor<6xf64>", "nor such a direction"),
        (vec![0, 0, 1, 7, 1], "tensor<6xf64>", "there are fewer elements"),
        (vec![0, 0, 1, -6, -1], "tensor<6xf64>", "no extent is negative"),
        (vec![0, 0, 1, i64::MAX, i64::MAX], "tensor<6xf64>", "they cannot be counted"),
        (vec![0, 0, 1, 6], "tensor<6xf64>", "a number is missing"),
        (vec![0, 0, 1, 6, 1], "tensor<7xf64>", "the result is longer"),
        (vec![0, 0, 1, 6, 1], "tensor<6xf32>", "the result is narrower"),
    ] {
        let error = run(&client, &text(&numbers, "tensor<6xf64>", out), &[0.5; 6]).expect_err(why);
        assert!(error.contains("the call is none that torchtpu wrote"), "{why}: {error}");
    }
    let flags = text(&[0, 0, 1, 6, 1], "tensor<6xf16>", "tensor<6xf16>");
    let error = execute_f16(&client, &flags);
    assert!(error.contains("the call is none that torchtpu wrote"), "{error}");
}

/// The error of a program on six halves.
fn execute_f16(client: &Client, text: &str) -> String {
    let executable = compile(client, text);
    let ty = TensorType::new(ElementType::F16, &[6][..]);
    let argument = Buffer::from_host(&first_device(client), &[0; 12], ty).expect("uploads");
    let execution = executable.execute(&[argument], &ExecuteOptions::default());
    execution.and_then(|e| e.done.wait()).expect_err("no half is scanned").to_string()
}
