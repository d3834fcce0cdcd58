//! CPU ops' threads that look for more work sleep while a program takes long.

#[path = "common/blas.rs"]
mod blas;
mod common;

use blas::blas;
use common::*;
use std::time::Duration;
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
fn threads_sleep_while_something_takes_long() {
    let (_dir, library) = blas(0);
    plugin().offer_products(&library).expect("the plugin takes it");
    let openmp = OpenMp::of(&library);
    let client = client();
    let device = first_device(&client);
    let run = |program: &Executable, to: f32| {
        let given = [upload(&device, &[to], &[])];
        let (execution, time) = program.run(&given, &ExecuteOptions::default()).expect("runs");
        assert_eq!(download(&execution.outputs[0]), [to]);
        time
    };
    let (short, long) = (compile(&client, COUNT), compile(&client, COUNT));
    // Some may be long where other work on the machine comes between.
    for _ in 0..100 {
        run(&short, 2.0);
    }
    let by_short = openmp.regions();
    assert!(by_short < 50, "{by_short} regions in a hundred short runs");
    run(&long, 1e7); // to learn that it is
    let (before, began) = (openmp.looked(), openmp.regions());
    let took: Duration = (0..50).map(|_| run(&long, 1e7)).sum();
    let (looked, by_long) = (openmp.looked() - before, openmp.regions() - began);
    // Now and then it is left to them whether they fall asleep.
    assert!(by_long >= 25, "{by_long} regions in fifty long runs");
    assert!(looked < took.as_secs_f64() * 0.7, "the other thread looked for work for {looked} s of {took:?}");
}

/// What the library tells of its OpenMP.
struct OpenMp(libloading::Library);

#[allow(unsafe_code)] // its functions are ours
impl OpenMp {
    fn of(library: &std::path::Path) -> OpenMp {
        // SAFETY: it is loaded already.
        OpenMp(unsafe { libloading::Library::new(library) }.expect("ours"))
    }

    fn regions(&self) -> i32 {
        // SAFETY: it has this function.
        unsafe { self.0.get::<extern "C" fn() -> i32>(b"regions_so_far\0").expect("ours")() }
    }

    /// Seconds of a processor that its other thread has had.
    fn looked(&self) -> f64 {
        // SAFETY: it has this function.
        unsafe { self.0.get::<extern "C" fn() -> f64>(b"looked\0").expect("ours")() }
    }
}
