//! Calls in line on the CPU plugin: their order, what becomes of those that fail, and who starts them.

#![allow(clippy::unwrap_used)]

#[path = "../../runtime/tests/common/plugin.rs"]
pub(crate) mod plugin;

use crate::core::{Core, Expected, MOST_PASSING, Mode, Outcome, Request};
use crate::interpret::Families;
use crate::{registry, words};
use driver::Session;
use ir::DType;
use ir::alias::Layout;
use ir::eager::CellType;
use std::sync::{Arc, LazyLock};
use std::thread;

static CORE: LazyLock<Arc<Core>> = LazyLock::new(|| {
    let session = Session::new(plugin::path().to_str(), None).unwrap();
    bind();
    Core::new(Arc::new(session)).unwrap()
});

fn bind() {
    for name in ["aten::mul.Tensor", "aten::mul_.Tensor"] {
        registry::bind(registry::number(name).unwrap(), &["self", "other"]).unwrap();
    }
}

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
    call_on(&CORE, name, left, right, mode)
}

fn call_on(core: &Core, name: &str, left: u64, right: u64, mode: Mode) -> crate::Result<Option<u64>> {
    bind();
    let number = registry::number(name).unwrap();
    let cells: &[u64] = if left == right { &[left] } else { &[left, right] };
    let words = words::write(number, &[Some((0, &four())), Some((cells.len() - 1, &four()))]);
    let location = core.locate("model.py", 7, "forward");
    let (scalars, generator, device) = (&[], 0, core.lock().cells.get(left).unwrap().device);
    let expected = Some(Expected::Unknown);
    match core.dispatch(&Request { words: &words, cells, scalars, generator, device, location, mode, expected })? {
        Outcome::Done(made) => Ok(made.into_iter().flatten().next().map(|m| m.cell)),
        Outcome::NeedsResults | Outcome::NeedsChecks => panic!("asked again"),
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

/// Fused mode where nothing hangs on time.
const FUSED: Mode = Mode { debug: false, check_nan: false, fused: true, deterministic: true, at_once: false };

/// Runs `work` with a core of its own, so that regions of other tests do not count.
fn fused_alone(work: impl FnOnce(&Alone)) {
    let session = Session::new(plugin::path().to_str(), None).unwrap();
    work(&Alone(Core::new(Arc::new(session)).unwrap()));
}

struct Alone(Arc<Core>);

impl Alone {
    fn vector(&self, value: f32) -> u64 {
        let (cell, _) = self.0.cell_new(0, 16).unwrap();
        self.0.upload(cell, four(), &value.to_le_bytes().repeat(4), 0).unwrap();
        cell
    }
    fn read(&self, cell: u64) -> f32 {
        let mut bytes = [0; 16];
        assert!(self.0.download(cell, &four(), &mut bytes, 0).unwrap());
        f32::from_le_bytes(bytes[..4].try_into().unwrap())
    }
    fn multiply(&self, left: u64, right: u64) -> u64 {
        call_on(&self.0, "aten::mul.Tensor", left, right, FUSED).unwrap().unwrap()
    }
    fn multiply_in_place(&self, left: u64, right: u64) {
        assert!(call_on(&self.0, "aten::mul_.Tensor", left, right, FUSED).unwrap().is_none());
    }
}

#[test]
fn a_region_that_comes_again_runs_as_one_program() {
    fused_alone(|core| {
        let two = core.vector(2.0);
        for round in 0..6 {
            let x = core.vector(round as f32);
            let (square, product) = (core.multiply(x, x), core.multiply(x, two));
            core.multiply_in_place(x, two);
            let before = core.0.session().stats().compiles;
            assert_eq!(core.read(x), 2.0 * round as f32);
            assert_eq!((core.read(square), core.read(product)), ((round * round) as f32, 2.0 * round as f32));
            assert!(round != 4 || core.0.session().stats().compiles == before, "nothing is compiled once it is there");
            [x, square, product].into_iter().for_each(|cell| core.0.cell_drop(cell));
        }
        let told = core.0.explanation();
        assert_eq!((told.recorded, told.met), (18, 1));
        let region = &told.regions[0];
        assert_eq!((region.calls, region.occurrences, region.runs), (3, 6, 3), "the fourth is the first to run as one");
        assert_eq!(region.state, "compiled");
        assert_eq!(told.cuts.len(), 1);
    });
}

#[test]
fn what_nobody_holds_is_never_made() {
    fused_alone(|core| {
        let two = core.vector(2.0);
        core.0.reset_memory(0, true);
        let before = core.0.memory(0).0;
        for _ in 0..5 {
            let mut last = core.multiply(two, two);
            for _ in 0..9 {
                let next = core.multiply(last, two);
                core.0.cell_drop(last);
                last = next;
            }
            assert_eq!(core.read(last), 2048.0);
            core.0.cell_drop(last);
        }
        let region = &core.0.explanation().regions[0];
        assert_eq!((region.calls, region.runs), (10, 2));
        let executions = core.0.stats().executions;
        let held = core.multiply(two, two);
        core.0.cell_drop(held);
        assert_eq!(core.0.memory(0).0.now, before.now);
        assert_eq!(core.0.stats().executions, executions, "what nobody sees is not even computed");
    });
}

#[test]
fn a_key_tells_what_is_held() {
    fused_alone(|core| {
        let two = core.vector(2.0);
        for keeps in [false, true] {
            for _ in 0..5 {
                let four = core.multiply(two, two);
                let eight = core.multiply(four, two);
                if !keeps {
                    core.0.cell_drop(four);
                }
                assert_eq!(core.read(eight), 8.0);
                if keeps {
                    assert_eq!(core.read(four), 4.0);
                    core.0.cell_drop(four);
                }
                core.0.cell_drop(eight);
            }
        }
        let told = core.0.explanation();
        assert_eq!(told.met, 2);
        let second = told.regions.iter().find(|r| r.number == 2).unwrap();
        assert_eq!(second.instead_of, Some((1, "", String::new())), "the calls are the same");
    });
}

#[test]
fn a_stream_without_reads_is_cut_where_it_repeats() {
    fused_alone(|core| {
        let (x, one, two) = (core.vector(1.0), core.vector(1.0), core.vector(2.0));
        // A step of 301 calls, one of which is like no other; then of 31.
        for (calls, rounds) in [(300, 20), (30, 60)] {
            for _ in 0..rounds {
                for _ in 0..calls {
                    core.multiply_in_place(x, one);
                }
                let product = core.multiply(x, two);
                core.0.cell_drop(product);
            }
            assert_eq!(core.read(x), 1.0);
        }
        let told = core.0.explanation();
        let whole = |calls: usize| told.regions.iter().find(|r| r.calls == calls).unwrap();
        assert!(whole(301).runs >= 10, "most steps run as one program: {told:?}");
        assert!(whole(4 * 31).runs >= 6, "small steps run by the four: {told:?}");
        assert!(told.met <= 8, "{told:?}");
    });
}

#[test]
fn a_long_step_is_cut_at_the_same_places_in_every_round() {
    fused_alone(|core| {
        let (x, one, two) = (core.vector(1.0), core.vector(1.0), core.vector(2.0));
        for _ in 0..20 {
            // 1206 calls: nothing repeats within 512 but stretches of equal ones.
            for stretch in [300, 500, 400] {
                for i in 0..stretch {
                    core.multiply_in_place(x, if i % 2 == 0 && stretch == 400 { x } else { one });
                }
                for _ in 0..stretch / 200 {
                    let product = core.multiply(x, two);
                    core.0.cell_drop(product);
                }
            }
        }
        assert_eq!(core.read(x), 1.0);
        let told = core.0.explanation();
        assert!(told.met <= 30, "{} different regions of {}", told.met, told.recorded);
        let fused: u64 = told.regions.iter().map(|r| r.runs * r.calls as u64).sum();
        assert!(fused * 2 > told.recorded, "most run as one program: {fused} of {}", told.recorded);
    });
}

#[test]
fn a_failure_within_a_region_spares_what_does_not_need_it() {
    fused_alone(|core| {
        let two = core.vector(2.0);
        for round in 0..6 {
            let x = core.vector(3.0);
            if round == 5 {
                core.0.drain();
                let held = core.0.lock().cells.get(x).unwrap().value.clone().unwrap();
                held.buffer().unwrap().delete().unwrap();
            }
            let (broken, whole, kept) = (core.multiply(x, two), core.multiply(two, two), core.vector(5.0));
            core.multiply_in_place(kept, broken);
            if round < 5 {
                assert_eq!((core.read(broken), core.read(whole), core.read(kept)), (6.0, 4.0, 30.0));
            } else {
                let mut bytes = [0; 16];
                let error = core.0.download(broken, &four(), &mut bytes, 0).unwrap_err().message;
                assert!(error.contains("in aten::mul.Tensor, called at model.py:7"), "{error}");
                assert_eq!(core.read(whole), 4.0);
                assert_eq!(core.read(kept), 5.0, "a call that failed wrote nothing");
            }
            [x, broken, whole, kept].into_iter().for_each(|cell| core.0.cell_drop(cell));
        }
        assert_eq!(core.0.explanation().regions[0].runs, 3);
    });
}

#[test]
fn calls_without_a_program_are_computed_and_forgotten() {
    bind();
    let core = Core::new(Arc::new(Session::new(plugin::path().to_str(), None).unwrap())).unwrap();
    core.lock().families = Families::always();
    let most = MOST_PASSING + 20;
    for n in 1..=most {
        let vector = CellType { dtype: DType::F32, layout: Layout::contiguous([n].into_iter().collect::<ir::Shape>()) };
        let bytes = 3f32.to_le_bytes().repeat(n);
        let (cell, _) = core.cell_new(0, bytes.len() as u64).unwrap();
        core.upload(cell, vector.clone(), &bytes, 0).unwrap();
        let number = registry::number("aten::mul.Tensor").unwrap();
        let words = words::write(number, &[Some((0, &vector)), Some((0, &vector))]);
        let (cells, mode, expected) = (&[cell][..], Mode::default(), Some(Expected::Unknown));
        let request =
            Request { words: &words, cells, scalars: &[], generator: 0, device: 0, location: 0, mode, expected };
        let Outcome::Done(made) = core.dispatch(&request).unwrap() else { panic!("asked again") };
        let mut squares = vec![0; bytes.len()];
        let result = made[0].as_ref().unwrap().cell;
        assert!(core.download(result, &vector, &mut squares, 0).unwrap());
        assert_eq!(squares, 9f32.to_le_bytes().repeat(n));
        core.cell_drop(cell);
        core.cell_drop(result);
    }
    assert_eq!(core.stats().interpreted, most as u64);
    assert_eq!(core.session().stats().compiles, 0);
    assert_eq!(core.lock().known_plans(), (MOST_PASSING, MOST_PASSING));
}
