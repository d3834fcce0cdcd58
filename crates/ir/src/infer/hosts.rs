//! Types of what the host is asked for that no other op has a type for.

use super::{arity, one_or_tuple, unary};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::Graph;
use crate::op::{Binary, Op, Scan, SortedPart, Unary};
use crate::types::{TensorType, Type};
use crate::{ensure, invalid};
use std::sync::Arc;

pub(super) fn infer(op: &Op, args: &[&TensorType]) -> Result<Type> {
    match op {
        Op::HostUnary(u) => function(*u, args),
        Op::HostBinary(b) => function_of_two(*b, args),
        Op::HostScan(s) => scan(s, args),
        Op::HostSort(s) => sort(s, args),
        _ => invalid!("{op:?} has its type elsewhere"),
    }
}

/// The type of what a body gives, if the host computes that.
pub(super) fn rows(gives: Type, bodies: &[Arc<Graph>]) -> Result<Type> {
    ensure!(bodies.first().is_some_and(|body| crate::rows::hosted(body).is_some()), "the host has no such rows");
    Ok(gives)
}

/// Whether the host computes functions of such elements.
fn is_hosts(ty: &TensorType) -> bool {
    matches!(ty.dtype, DType::F32 | DType::F64)
}

fn function(u: Unary, args: &[&TensorType]) -> Result<Type> {
    let [a]: [&TensorType; 1] = arity(args)?;
    ensure!(u.hosted().is_some() && is_hosts(a), "the host has no {u:?} of {a}");
    Ok(unary(u, a)?.into())
}

fn function_of_two(b: Binary, args: &[&TensorType]) -> Result<Type> {
    let [x, y]: [&TensorType; 2] = arity(args)?;
    ensure!(b.hosted().is_some() && is_hosts(x), "the host has no {b:?} of {x}");
    let whole = if x.rank() == 0 { y } else { x };
    let fits = |t: &TensorType| t == whole || (t.rank() == 0 && t.dtype == whole.dtype);
    ensure!(fits(x) && fits(y), "operands differ in type: {x} and {y}");
    Ok(whole.clone().into())
}

fn scan(s: &Scan, args: &[&TensorType]) -> Result<Type> {
    let [a]: [&TensorType; 1] = arity(args)?;
    ensure!(s.hosted(a).is_some(), "the host has no {:?} along dimension {} of {a}", s.reducer, s.dim);
    Ok(a.clone().into())
}

fn sort(s: &SortedPart, args: &[&TensorType]) -> Result<Type> {
    ensure!(s.hosted(args).is_some(), "the host has no such sort along dimension {}", s.dim);
    let part = |dtype| TensorType { dtype, shape: s.shape(&args[0].shape) };
    let dtypes = [Some(args[0].dtype), s.places].into_iter().flatten();
    let results: Vec<TensorType> = dtypes.chain(args[1..].iter().map(|ty| ty.dtype)).map(part).collect();
    Ok(one_or_tuple(&results.iter().collect::<Vec<_>>()))
}
