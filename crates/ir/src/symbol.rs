//! Symbolic integers of a trace and what is known of them when a program is specialised.
//!
//! A trace may hold sizes that are symbols. Importing one binds every symbol to a number. A symbol that shapes a tensor or
//! decides an expansion is *consulted*: the resulting program holds for that number only. A symbol that is only computed
//! with (a position, a scale) becomes a hidden input, and the program serves every value of it.
//!
//! [`Expr`] is what a trace computes from symbols, in SymPy's two notations.

mod evaluate;
mod expr;
mod parse;
#[cfg(test)]
mod tests;

pub use expr::{Expr, Func};

use crate::literal::Number;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A number that depends on symbols, with the value it has under the present bindings.
#[derive(Clone, Debug, PartialEq)]
pub struct Sym {
    /// The expression, as the trace spells it; [`Expr::parse`] reads it.
    pub expr: Arc<str>,
    /// The symbols in it.
    pub free: Arc<[Arc<str>]>,
    /// Its value now.
    pub value: Number,
}

/// The bindings a program is specialised under, and which of them it turned out to depend on.
#[derive(Debug, Default)]
pub struct Symbols {
    values: BTreeMap<Arc<str>, i64>,
    /// What sizes that are data came out as: they follow from the bindings, so the program does not depend on them.
    learned: RefCell<BTreeMap<Arc<str>, i64>>,
    consulted: RefCell<BTreeSet<Arc<str>>>,
}

impl Symbols {
    /// With these values.
    pub fn new(values: BTreeMap<Arc<str>, i64>) -> Symbols {
        Symbols { values, ..Symbols::default() }
    }
    /// The value of symbol `name`.
    pub fn get(&self, name: &str) -> Option<i64> {
        self.values.get(name).copied().or_else(|| self.learned.borrow().get(name).copied())
    }
    /// Binds a symbol that has no value to what it came out as.
    pub fn learn(&self, name: Arc<str>, value: i64) {
        if !self.values.contains_key(&name) {
            self.learned.borrow_mut().entry(name).or_insert(value);
        }
    }
    /// Whether the value of `name` came out of the program itself.
    pub fn is_learned(&self, name: &str) -> bool {
        self.learned.borrow().contains_key(name)
    }
    /// The value of `sym`, on which the program from now on depends.
    pub fn consult(&self, sym: &Sym) -> Number {
        self.consulted.borrow_mut().extend(sym.free.iter().cloned());
        sym.value
    }
    /// The same bindings, of which none was consulted.
    pub fn unconsulted(&self) -> Symbols {
        Symbols { learned: self.learned.clone(), ..Symbols::new(self.values.clone()) }
    }
    /// Whether the program depends on all that `sym` is computed from, and so on it.
    pub fn is_decided(&self, sym: &Sym) -> bool {
        let consulted = self.consulted.borrow();
        sym.free.iter().all(|s| consulted.contains(s))
    }
    /// The program from now on depends on what `other`'s does.
    pub fn consult_too(&self, other: &Symbols) {
        self.consulted.borrow_mut().extend(other.consulted_names());
    }
    /// The symbols the program depends on.
    pub fn consulted_names(&self) -> BTreeSet<Arc<str>> {
        self.consulted.borrow().clone()
    }
    /// The bindings the program depends on, by name.
    pub fn consulted(&self) -> BTreeMap<Arc<str>, i64> {
        let known = |s: &Arc<str>| self.get(s).map(|v| (s.clone(), v));
        self.consulted.borrow().iter().filter_map(known).collect()
    }
}
