//! Calls in line on the CPU plugin: their order, what becomes of those that fail, and who starts them.

#![allow(clippy::unwrap_used)]

#[path = "../../runtime/tests/common/plugin.rs"]
mod plugin;

use crate::core::{Core, Expected, Mode, Outcome, Request};
use crate::{registry, words};
use driver::Session;
use ir::DType;
use ir::alias::Layout;
use ir::eager::CellType;
use std::sync::{Arc, LazyLock};
use std::thread;

static CORE: LazyLock<Arc<Core>> = LazyLock::new(|| {
    let session = Session::new(plugin::path().to_str(), None).unwrap();
    for name in ["aten::mul.Tensor", "aten::mul_.Tensor"] {
        registry::bind(registry::number(name).unwrap(), &["self", "other"]).unwrap();
    }
    Core::new(Arc::new(session)).unwrap()
});

/// The type of a vector of four.
fn four() -> CellType {
    CellType { dtype: DType::F32, layout: Layout::contiguous([4].into_iter().collect::<ir::Shape>()) }
}

fn vector(device: usize, value: f32) -> u64 {
    let (cell, _) = CORE.cell_new(device, 16).unwrap();
    CORE.upload(cell, four(), &value.to_le_bytes().repeat(4), 0).unwrap();
    cell
}

fn read(cell: u64) -> crate::Result<f32> {
    let mut bytes = [0; 16];
    assert!(CORE.download(cell, &four(), &mut bytes, 0)?);
    Ok(f32::from_le_bytes(bytes[..4].try_into().unwrap()))
}

/// Runs `name` on two vectors; gives the new one, if there is one.
fn call(name: &str, left: u64, right: u64, mode: Mode) -> crate::Result<Option<u64>> {
    let number = registry::number(name).unwrap();
    let cells: &[u64] = if left == right { &[left] } else { &[left, right] };
    let words = words::write(number, &[Some((0, &four())), Some((cells.len() - 1, &four()))]);
    let location = CORE.locate("model.py", 7, "forward");
    let (scalars, generator, device) = (&[], 0, CORE.lock().cells.get(left).unwrap().device);
    let expected = Some(Expected::Unknown);
    match CORE.dispatch(&Request { words: &words, cells, scalars, generator, device, location, mode, expected })? {
        Outcome::Done(made) => Ok(made.into_iter().flatten().next().map(|m| m.cell)),
        Outcome::NeedsResults => panic!("asked again"),
    }
}

fn multiply(left: u64, right: u64) -> u64 {
    call("aten::mul.Tensor", left, right, Mode::default()).unwrap().unwrap()
}

fn multiply_in_place(left: u64, right: u64) {
    assert!(call("aten::mul_.Tensor", left, right, Mode::default()).unwrap().is_none());
}

/// Takes the value of a storage away, so that calls that read it fail when they are started.
fn break_value(cell: u64) {
    CORE.drain();
    let held = CORE.lock().cells.get(cell).unwrap().value.clone().unwrap();
    held.buffer().unwrap().delete().unwrap();
}

#[test]
fn calls_run_in_the_order_they_came() {
    let (x, two) = (vector(0, 1.0), vector(0, 2.0));
    let mut last = x;
    for _ in 0..20 {
        last = multiply(last, two);
        multiply_in_place(x, two);
    }
    assert_eq!((read(last).unwrap(), read(x).unwrap()), (1048576.0, 1048576.0));
}

#[test]
fn a_value_that_others_hold_is_not_taken_over() {
    let (x, two) = (vector(0, 3.0), vector(0, 2.0));
    let square = multiply(x, x);
    multiply_in_place(x, two);
    multiply_in_place(x, x);
    assert_eq!((read(square).unwrap(), read(x).unwrap()), (9.0, 36.0));
}

#[test]
fn threads_keep_their_own_order() {
    let work = |i: u8| {
        let (x, factor) = (vector(0, 1.0), vector(0, 1.0 + f32::from(i)));
        for _ in 0..100 {
            multiply_in_place(x, factor);
            multiply_in_place(x, vector(0, 1.0 / (1.0 + f32::from(i))));
        }
        (read(x).unwrap() - 1.0).abs() < 1e-3
    };
    let threads: Vec<_> = (0..4).map(|i| thread::spawn(move || work(i))).collect();
    assert!(threads.into_iter().all(|t| t.join().unwrap()));
}

#[test]
fn a_failure_comes_with_the_next_wait_names_its_line_and_leaves_what_was() {
    let (x, y, broken) = (vector(2, 3.0), vector(2, 5.0), vector(2, 2.0));
    break_value(broken);
    let product = multiply(x, broken);
    multiply_in_place(y, broken); // fails as well
    multiply_in_place(x, product); // cannot start, for want of the product
    let error = read(product).unwrap_err().message;
    assert!(error.contains("in aten::mul.Tensor, called at model.py:7"), "{error}");
    assert_eq!(read(x).unwrap(), 3.0, "a call that failed wrote nothing");
    assert_eq!(read(y).unwrap(), 5.0, "a call that failed wrote nothing");
    CORE.synchronize(2).unwrap();
    let error = read(product).unwrap_err().message;
    assert!(error.contains("called at model.py:7"), "what is not there stays so: {error}");

    let debug = Mode { debug: true, ..Mode::default() };
    let error = call("aten::mul_.Tensor", y, broken, debug).unwrap_err().message;
    assert!(error.contains("called at model.py:7"), "{error}");
    assert_eq!(read(y).unwrap(), 5.0);
    CORE.synchronize(2).unwrap();
}

#[test]
fn memory_goes_with_the_last_call_that_reads_it() {
    let before = CORE.memory(1).0.now;
    let (cell, _) = CORE.cell_new(1, 16).unwrap();
    CORE.upload(cell, four(), &[0; 16], 0).unwrap();
    assert_eq!(CORE.memory(1).0.now, before + 16);
    CORE.cell_drop(cell);
    assert_eq!(CORE.memory(1).0.now, before);
}

/// Large calls are waited for by their callers; what other threads make of their promises stands behind them in line.
#[test]
fn threads_share_a_large_value() {
    const COUNT: usize = 1 << 18;
    let ty = CellType { dtype: DType::F32, layout: Layout::contiguous([COUNT].into_iter().collect::<ir::Shape>()) };
    let (cell, _) = CORE.cell_new(3, 4 * COUNT as u64).unwrap();
    CORE.upload(cell, ty.clone(), &1f32.to_le_bytes().repeat(COUNT), 0).unwrap();
    let number = registry::number("aten::mul_.Tensor").unwrap();
    let words = words::write(number, &[Some((0, &ty)), Some((0, &ty))]);
    let square = || {
        for _ in 0..50 {
            let (cells, scalars, expected) = (&[cell][..], &[][..], Some(Expected::Unknown));
            let (generator, device, location, mode) = (0, 3, 0, Mode::default());
            let request = Request { words: &words, cells, scalars, generator, device, location, mode, expected };
            CORE.dispatch(&request).unwrap();
        }
    };
    thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(square))));
    CORE.synchronize(3).unwrap();
    let mut bytes = vec![0; 4 * COUNT];
    assert!(CORE.download(cell, &ty, &mut bytes, 0).unwrap());
    assert_eq!(bytes, 1f32.to_le_bytes().repeat(COUNT));
}
