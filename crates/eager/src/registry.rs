//! The overloads that the device runs: the op table, numbered, with the names that PyTorch gives their arguments.

use crate::error::{Error, Result};
use ir::ops::{Entry, Manner, Rule, Strides, Variant};
use std::sync::{LazyLock, OnceLock};

/// An overload of the table.
pub(crate) struct Op {
    pub(crate) name: &'static str,
    pub(crate) entry: Entry,
    places: OnceLock<Vec<Option<usize>>>,
}

impl Op {
    /// For each argument of the overload its place in the functional schema; `None` for an output.
    pub(crate) fn places(&self) -> Result<&[Option<usize>]> {
        self.places.get().map(Vec::as_slice).ok_or_else(|| Error::internal(format!("{} was not bound", self.name)))
    }
}

/// Everything in the table that computes; views are PyTorch's own business.
static OPS: LazyLock<Vec<Op>> = LazyLock::new(|| {
    let runnable = ir::ops::names().into_iter().filter_map(|name| {
        let entry = ir::ops::find(name)?;
        entry.def.rule.computes().then(|| Op { name, entry, places: OnceLock::new() })
    });
    runnable.collect()
});

/// The overload of a number.
pub(crate) fn op(number: u32) -> Option<&'static Op> {
    OPS.get(number as usize)
}

/// The number of an overload.
pub(crate) fn number(name: &str) -> Option<u32> {
    OPS.binary_search_by(|op| op.name.cmp(name)).ok().map(|i| i as u32)
}

/// By number, the name of each overload and that of the one that gives new tensors, but for those whose results are new
/// whatever they are given.
pub(crate) fn names() -> impl Iterator<Item = [&'static str; 2]> {
    let functional = |op: &'static Op| match op.entry.def.rule {
        Rule::Bounded(_) => "",
        _ => op.entry.schema.name.as_str(),
    };
    OPS.iter().map(move |op| [op.name, functional(op)])
}

/// How the CPU lays out the first result of an overload, and the place of the argument that decides.
pub(crate) fn strides(number: u32) -> (Strides, usize) {
    op(number).map_or((Strides::Meta, 0), |op| op.entry.strides())
}

/// What calls of an overload need.
pub(crate) fn manner(number: u32) -> Manner {
    op(number).map_or(Manner::Plain, |op| op.entry.manner())
}

/// Binds the overloads that copies on the device go through, whoever else does.
pub(crate) fn bind_copies() -> Result<()> {
    for (name, arguments) in
        [(ir::ops::CLONE, &["self", "memory_format"][..]), (ir::ops::COPY, &["self", "src", "non_blocking"])]
    {
        bind(number(name).ok_or_else(|| Error::internal(format!("{name} is not in the table")))?, arguments)?;
    }
    Ok(())
}

/// Says how an overload's arguments are called, before it is first run.
pub(crate) fn bind(number: u32, names: &[&str]) -> Result<()> {
    let op = op(number).ok_or_else(|| Error::internal("no such op"))?;
    let place = |(i, name): (usize, &&str)| match op.entry.schema.position(name) {
        Some(place) => Ok(Some(place)),
        // Some functional overloads call their first argument otherwise.
        None if i == 0 && op.entry.variant == Variant::InPlace => Ok(Some(0)),
        None if op.entry.variant == Variant::Out => Ok(None),
        None => Err(Error::internal(format!("{} has no argument `{name}`", op.entry.schema.name))),
    };
    let places = names.iter().enumerate().map(place).collect::<Result<_>>()?;
    let _ = op.places.set(places);
    Ok(())
}
