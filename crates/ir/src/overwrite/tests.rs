use super::*;
use crate::builder::Builder;
use crate::dtype::DType;
use crate::graph::{InputKind, OutputKind};
use crate::literal::Number;
use crate::op::Reducer;
use crate::types::TensorType;

/// Whether a write of `new` over a row of `base` may read what is overwritten. `new` gets the base and the row before.
fn may_read(base: impl Fn(&Builder) -> ValueId, new: impl Fn(&Builder, ValueId, ValueId) -> ValueId) -> bool {
    told(may_read_overwritten, base, new)
}

fn told(
    tell: fn(&Graph, &[ValueId]) -> bool,
    base: impl Fn(&Builder) -> ValueId,
    new: impl Fn(&Builder, ValueId, ValueId) -> ValueId,
) -> bool {
    let b = Builder::new("update");
    let base = base(&b);
    let [before, at] = ["before", "at"].map(|name| b.input(name, InputKind::User, TensorType::new(DType::I64, [])));
    let zero = b.scalar(Number::Int(0), DType::I64).unwrap();
    let row = b.push(Op::DynamicSlice { sizes: [1, 3].as_slice().into() }, &[base, before, zero], vec![]).unwrap();
    let operands = [base, new(&b, base, row), at, zero];
    b.output("y", OutputKind::User, b.push(Op::DynamicUpdateSlice, &operands, vec![]).unwrap());
    tell(&b.graph(), &operands)
}

fn given(b: &Builder) -> ValueId {
    b.input("x", InputKind::User, TensorType::new(DType::F32, [4, 3]))
}

/// An input, seen in another shape on its way.
fn cast(b: &Builder) -> ValueId {
    b.reshape(given(b), &[2, 6]).and_then(|v| b.reshape(b.negate(v)?, &[4, 3])).unwrap()
}

fn negated(b: &Builder, _: ValueId, row: ValueId) -> ValueId {
    b.negate(row).unwrap()
}

fn ones(b: &Builder, shape: &[usize]) -> ValueId {
    b.full(Number::Float(1.0), DType::F32, shape).unwrap()
}

#[test]
fn what_is_read_through_a_bitcast_may_be_overwritten() {
    assert!(may_read(cast, negated));
    assert!(may_read(|b| b.add(cast(b), cast(b)).unwrap(), negated));
    assert!(!may_read(cast, |b, _, _| ones(b, &[1, 3])), "nothing is read");
}

#[test]
fn xla_sees_what_reads_an_input() {
    assert!(!may_read(given, negated));
    assert!(told(reads_what_it_overwrites, given, negated));
    assert!(!told(reads_what_it_overwrites, given, |b, _, _| ones(b, &[1, 3])));
    let written = |b: &Builder| {
        let zero = b.scalar(Number::Int(0), DType::I64).unwrap();
        b.push(Op::DynamicUpdateSlice, &[given(b), ones(b, &[1, 3]), zero, zero], vec![]).unwrap()
    };
    assert!(!may_read(written, negated));
    assert!(may_read(given, |b, x, _| {
        let column = b.reshape(x, &[12]).and_then(|v| b.slice_dim(v, 0, 2, 5, 1));
        column.and_then(|v| b.reshape(v, &[1, 3])).unwrap()
    }));
    assert!(may_read(given, |b, x, _| b.reduce(x, Reducer::Add, &[0]).and_then(|v| b.reshape(v, &[1, 3])).unwrap()));
}

#[test]
fn elements_may_be_computed_from_themselves() {
    let row = |start: i64| {
        move |b: &Builder| {
            let base = cast(b);
            let [at, zero] = [start, 0].map(|i| b.scalar(Number::Int(i), DType::I64).unwrap());
            (base, at, zero)
        }
    };
    let write = |from: usize, turned: bool| {
        let b = Builder::new("update");
        let (base, at, zero) = row(2)(&b);
        let own = b.slice(base, &[from, 0], &[from + 1, 3], &[1, 1]).unwrap();
        let new =
            if turned { b.push(Op::Reverse { dims: [1].as_slice().into() }, &[own], vec![]) } else { b.negate(own) };
        may_read_overwritten(&b.graph(), &[base, new.unwrap(), at, zero])
    };
    assert!(!write(2, false));
    assert!(write(1, false), "another row");
    assert!(write(2, true), "in another order");
}

#[test]
fn parts_of_one_value_may_be_one_slice() {
    let b = Builder::new("update");
    let whole = b.negate(given(&b)).unwrap();
    let [upper, lower] = [0, 1].map(|start| b.slice_dim(whole, 0, start, start + 3, 1).unwrap());
    let zero = b.scalar(Number::Int(0), DType::I64).unwrap();
    assert!(may_read_overwritten(&b.graph(), &[upper, lower, zero, zero]));
}

#[test]
fn of_many_writes_not_all_are_looked_at() {
    let written = |writes: usize| {
        let b = Builder::new("update");
        let zero = b.scalar(Number::Int(0), DType::I64).unwrap();
        let (mut base, row) = (given(&b), ones(&b, &[1, 3]));
        for i in 0..writes {
            let at = b.scalar(Number::Int(i as i64), DType::I64).unwrap();
            base = b.push(Op::DynamicUpdateSlice, &[base, row, at, zero], vec![]).unwrap();
        }
        may_read_overwritten(&b.graph(), &[base, row, zero, zero])
    };
    assert!(!written(MOST - 1));
    assert!(written(MOST));
}

#[test]
fn what_a_host_computes_apart_is_not_read() {
    assert!(!may_read(cast, |b, base, row| b.push(Op::HostBarrier, &[negated(b, base, row)], vec![]).unwrap()));
}
