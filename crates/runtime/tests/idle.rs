//! CPU ops' threads that look for more work are let go where a program takes long.

#[path = "common/blas.rs"]
mod blas;
mod common;

use blas::blas;
use common::*;
use torchtpu_runtime::{Executable, ExecuteOptions};

/// Counts to `%n`, a nanosecond or so each.
const COUNT: &str = "
func.func @main(%n: tensor<f32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.while(%i = %zero) : tensor<f32>
    cond {
      %1 = stablehlo.compare LT, %i, %n : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1.0> : tensor<f32>
      %1 = stablehlo.add %i, %one : tensor<f32>
      stablehlo.return %1 : tensor<f32>
    }
  return %0 : tensor<f32>
}";

#[test]
fn threads_are_let_go_before_what_takes_long() {
    let (_dir, library) = blas(0);
    plugin().offer_products(&library).expect("the plugin takes it");
    let client = client();
    let device = first_device(&client);
    let run = |program: &Executable, to: f32| {
        let execution = program.execute(&[upload(&device, &[to], &[])], &ExecuteOptions::default()).expect("starts");
        execution.done.wait().expect("ends");
        assert_eq!(download(&execution.outputs[0]), [to]);
    };
    let (short, long) = (compile(&client, COUNT), compile(&client, COUNT));
    // Some may be long where other work on the machine comes between.
    (0..100).for_each(|_| run(&short, 2.0));
    let by_short = paused(&library);
    assert!(by_short < 50, "{by_short} times in a hundred short runs");
    (0..50).for_each(|_| run(&long, 1e7));
    let by_long = paused(&library) - by_short;
    assert!(by_long >= 49, "{by_long} times in fifty long runs");
}

/// How often the library's OpenMP was asked for it.
#[allow(unsafe_code)] // its functions are ours
fn paused(library: &std::path::Path) -> i32 {
    // SAFETY: it is loaded already, and has this function.
    unsafe { libloading::Library::new(library).and_then(|l| Ok(l.get::<extern "C" fn() -> i32>(b"paused\0")?())) }
        .expect("ours")
}
