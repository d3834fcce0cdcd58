//! The text form of a graph: printed for people, tests and cache keys, and parsed back.
//!
//! ```text
//! graph @main {
//!   %0: f32[2,3] = input 0 "x" user @1
//!   %1: f32[] = constant 2.5
//!   %2: f32[2,3] = broadcast_in_dim(shape:[2,3],dims:[]) %1
//!   %3: f32[2,3] = multiply %0, %2 @1
//!   return %3 "y"
//!   @1 = "model.py":12 in "forward" module "layers.0" op "aten.mul.Tensor"
//! }
//! ```
//!
//! Values are numbered by position. Elementwise ops stand by their own names (`tanh`, `add`, `compare_lt`); the
//! attributes of other ops are [RON](ron). A constant is one element that stands for all, or the list of all; what
//! decimal cannot say (NaN) is given as the bits in hexadecimal. `while` and `if` hold their bodies in braces. `//`
//! starts a comment.

mod element;
mod op;
mod parse;

pub use op::{elementwise, name};
pub use parse::parse;

use crate::graph::{Graph, Input, InputKind, Node, Output, OutputKind};
use crate::loc::{Loc, LocId};
use crate::op::Op;
use std::fmt::{self, Display, Write};

/// A graph about to be printed.
struct Printed<'a> {
    graph: &'a Graph,
    locations: bool,
}

/// `graph` in full. [`parse`] gives the same graph back.
pub fn print(graph: &Graph) -> String {
    Printed { graph, locations: true }.to_string()
}

/// `graph` without locations: equal programs print alike wherever they stand. Names are kept.
pub fn canonical(graph: &Graph) -> String {
    Printed { graph, locations: false }.to_string()
}

impl Display for Printed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}

impl Printed<'_> {
    fn write(&self, f: &mut dyn Write, indent: usize) -> fmt::Result {
        writeln!(f, "{:indent$}graph @{} {{", "", Name(&self.graph.name))?;
        for (i, node) in self.graph.nodes().iter().enumerate() {
            write!(f, "{:indent$}  %{i}: {} = ", "", node.ty)?;
            self.node(f, node, indent)?;
            f.write_char('\n')?;
        }
        write!(f, "{:indent$}  return", "")?;
        for (i, output) in self.graph.outputs.iter().enumerate() {
            f.write_str(if i == 0 { " " } else { ", " })?;
            write_output(f, output)?;
        }
        f.write_char('\n')?;
        if self.locations {
            for (i, loc) in self.graph.locs.iter().enumerate().skip(1) {
                write!(f, "{:indent$}  @{i} =", "")?;
                write_loc(f, loc)?;
            }
        }
        writeln!(f, "{:indent$}}}", "")
    }

    fn node(&self, f: &mut dyn Write, node: &Node, indent: usize) -> fmt::Result {
        match &node.op {
            Op::Input { index } => write_input(f, *index, self.graph.inputs.get(*index))?,
            Op::Constant(l) => {
                f.write_str("constant ")?;
                element::write_literal(f, l)?;
            }
            other => f.write_str(&op::spell(other))?,
        }
        for (i, v) in node.operands.iter().enumerate() {
            write!(f, "{}{v}", if i == 0 { " " } else { ", " })?;
        }
        if self.locations && node.loc != LocId::UNKNOWN {
            write!(f, " @{}", node.loc.index())?;
        }
        if node.bodies.is_empty() {
            return Ok(());
        }
        f.write_str(" {\n")?;
        for body in &node.bodies {
            Printed { graph: body, locations: self.locations }.write(f, indent + 4)?;
        }
        write!(f, "{:indent$}  }}", "")
    }
}

fn write_input(f: &mut dyn Write, index: usize, input: Option<&Input>) -> fmt::Result {
    write!(f, "input {index}")?;
    // A graph that holds no such input is not valid, but prints all the same.
    let Some(input) = input else { return Ok(()) };
    write!(f, " {} ", Quoted(&input.name))?;
    match &input.kind {
        InputKind::User => f.write_str("user"),
        InputKind::Parameter => f.write_str("parameter"),
        InputKind::Buffer => f.write_str("buffer"),
        InputKind::Constant => f.write_str("constant"),
        InputKind::Symbol(expr) => write!(f, "symbol {}", Quoted(expr)),
        InputKind::Position(position) => write!(f, "position {position}"),
        InputKind::RngState => f.write_str("rng_state"),
    }
}

fn write_output(f: &mut dyn Write, output: &Output) -> fmt::Result {
    write!(f, "{} {}", output.value, Quoted(&output.name))?;
    match output.kind {
        OutputKind::User => Ok(()),
        OutputKind::Mutation(input) => write!(f, " mutates {input}"),
    }
}

fn write_loc(f: &mut dyn Write, loc: &Loc) -> fmt::Result {
    write!(f, " {}:{}", Quoted(&loc.file), loc.line)?;
    for (word, text) in [("in", &loc.function), ("module", &loc.module), ("op", &loc.op)] {
        if !text.is_empty() {
            write!(f, " {word} {}", Quoted(text))?;
        }
    }
    f.write_char('\n')
}

/// A string as JSON quotes it.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self.0).map_err(|_| fmt::Error)?)
    }
}

/// A name, quoted unless it is an identifier.
struct Name<'a>(&'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bare = !self.0.is_empty() && self.0.chars().all(parse::is_word);
        if bare { f.write_str(self.0) } else { Quoted(self.0).fmt(f) }
    }
}

#[cfg(test)]
mod tests;
