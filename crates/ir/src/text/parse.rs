//! The parser. Refuses whatever the verifier would; never panics, whatever the text.

use super::{element, op};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::{Graph, Input, InputKind, Node, Operands, Output, OutputKind, ValueId};
use crate::literal::Literal;
use crate::loc::{Loc, LocId};
use crate::op::Op;
use crate::types::{Shape, TensorType, Type};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Bodies within bodies.
const MAX_DEPTH: usize = 32;
/// Dimensions of a tensor.
const MAX_RANK: usize = 64;

/// The graph that `text` spells, every node inferred again.
///
/// # Errors
/// `Invalid`, with the line, if the text is ill-formed, a declared type is not what inference gives, or the graph does
/// not [verify](crate::verify()).
pub fn parse(text: &str) -> Result<Graph> {
    let mut p = Parser { text, pos: 0 };
    let graph = p.graph(0)?;
    p.space();
    match p.rest() {
        "" => {}
        _ => return p.fail("text follows the graph"),
    }
    crate::verify::verify(&graph)?;
    Ok(graph)
}

/// What names hold.
pub(super) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '.'
}

struct Parser<'a> {
    text: &'a str,
    pos: usize,
}

/// A graph while it is read: locations and inputs are known at the end only.
#[derive(Default)]
struct Partial {
    /// Per node the number behind `@`.
    locs: Vec<usize>,
    inputs: Vec<(usize, Input)>,
}

impl<'a> Parser<'a> {
    // Words and marks.

    fn rest(&self) -> &'a str {
        &self.text[self.pos..]
    }

    fn fail<T>(&self, message: impl std::fmt::Display) -> Result<T> {
        let line = 1 + self.text[..self.pos].matches('\n').count();
        Err(Error::invalid(format!("line {line}: {message}")))
    }

    fn space(&mut self) {
        loop {
            let rest = self.rest().trim_start();
            self.pos = self.text.len() - rest.len();
            if !rest.starts_with("//") {
                return;
            }
            self.pos += rest.find('\n').unwrap_or(rest.len());
        }
    }

    fn eat(&mut self, mark: &str) -> bool {
        self.space();
        let there = self.rest().starts_with(mark);
        self.pos += if there { mark.len() } else { 0 };
        there
    }

    fn expect(&mut self, mark: &str) -> Result<()> {
        if self.eat(mark) { Ok(()) } else { self.fail(format_args!("expected `{mark}`{}", self.found())) }
    }

    fn found(&self) -> String {
        let shown: String = self.rest().chars().take_while(|c| !c.is_whitespace()).take(24).collect();
        if shown.is_empty() { String::new() } else { format!(", found `{shown}`") }
    }

    /// The longest run of characters that `wanted` holds of.
    fn run(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        self.space();
        let rest = self.rest();
        let run = &rest[..rest.find(|c| !wanted(c)).unwrap_or(rest.len())];
        self.pos += run.len();
        run
    }

    fn word(&mut self) -> &'a str {
        self.run(is_word)
    }

    fn number<T: std::str::FromStr>(&mut self) -> Result<T> {
        let digits = self.run(|c| c.is_ascii_digit());
        digits.parse().or_else(|_| self.fail(format_args!("expected a number{}", self.found())))
    }

    fn string(&mut self) -> Result<String> {
        self.space();
        let mut strings = serde_json::Deserializer::from_str(self.rest()).into_iter::<String>();
        match strings.next() {
            Some(Ok(s)) => {
                self.pos += strings.byte_offset();
                Ok(s)
            }
            _ => self.fail(format_args!("expected a quoted string{}", self.found())),
        }
    }

    fn name(&mut self) -> Result<String> {
        match self.word() {
            "" => self.string(),
            word => Ok(word.to_owned()),
        }
    }

    fn value(&mut self) -> Result<usize> {
        self.expect("%")?;
        self.number()
    }

    // Graphs.

    fn graph(&mut self, depth: usize) -> Result<Graph> {
        if depth > MAX_DEPTH {
            return self.fail(format_args!("bodies nest deeper than {MAX_DEPTH}"));
        }
        self.expect("graph")?;
        self.expect("@")?;
        let name = self.name()?;
        self.expect("{")?;
        let mut partial = Partial::default();
        let mut graph = Graph::new(name);
        while !self.eat("return") {
            self.node(&mut graph, &mut partial, depth)?;
        }
        self.outputs(&mut graph)?;
        self.locations(graph, partial)
    }

    fn node(&mut self, graph: &mut Graph, partial: &mut Partial, depth: usize) -> Result<()> {
        let (index, line) = (self.value()?, self.pos);
        if index != graph.nodes().len() {
            return self.fail(format_args!("%{index} stands where %{} belongs", graph.nodes().len()));
        }
        self.expect(":")?;
        let declared = self.ty()?;
        self.expect("=")?;
        let op = self.op(index, &declared, partial)?;
        let operands = self.operands(index)?;
        let loc = if self.eat("@") { self.number()? } else { 0 };
        let bodies = self.bodies(depth)?;
        let ty = self.infer(graph, &op, &operands, &bodies, &declared, line)?;
        let node = Node { op, operands, bodies, ty, loc: LocId::UNKNOWN };
        graph.push(node);
        partial.locs.push(loc);
        Ok(())
    }

    fn infer(
        &mut self,
        graph: &Graph,
        op: &Op,
        operands: &[ValueId],
        bodies: &[Arc<Graph>],
        declared: &Type,
        line: usize,
    ) -> Result<Type> {
        if let Op::Input { .. } = op {
            return Ok(declared.clone());
        }
        let types: Vec<&Type> = operands.iter().map(|&v| graph.ty(v)).collect();
        let inferred = crate::infer::infer(op, &types, bodies);
        self.pos = if matches!(&inferred, Ok(t) if t == declared) { self.pos } else { line };
        match inferred {
            Ok(ty) if ty == *declared => Ok(ty),
            Ok(ty) => self.fail(format_args!("declared {declared}, but the op gives {ty}")),
            Err(e) => self.fail(e.message()),
        }
    }

    fn op(&mut self, node: usize, ty: &Type, partial: &mut Partial) -> Result<Op> {
        let name = self.word();
        match name {
            "" => self.fail(format_args!("expected an op{}", self.found())),
            "input" => self.input(node, partial),
            "constant" => self.constant(ty),
            _ => {
                let start = self.pos - name.len();
                self.skip_attributes()?;
                op::read(&self.text[start..self.pos]).or_else(|e| self.fail(e))
            }
        }
    }

    /// Moves behind a balanced pair of parentheses, if one opens here.
    fn skip_attributes(&mut self) -> Result<()> {
        let mut depth = 0usize;
        for (i, c) in self.rest().char_indices() {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                self.pos += i + usize::from(c == ')');
                return Ok(());
            }
        }
        if depth == 0 { Ok(()) } else { self.fail("a parenthesis is not closed") }
    }

    fn input(&mut self, node: usize, partial: &mut Partial) -> Result<Op> {
        let index = self.number()?;
        let name = self.string()?;
        let kind = match self.word() {
            "user" => InputKind::User,
            "parameter" => InputKind::Parameter,
            "buffer" => InputKind::Buffer,
            "constant" => InputKind::Constant,
            "symbol" => InputKind::Symbol(self.string()?),
            "position" => InputKind::Position(self.number()?),
            "rng_state" => InputKind::RngState,
            other => return self.fail(format_args!("`{other}` is no kind of input")),
        };
        partial.inputs.push((index, Input { name, kind, value: ValueId::new(node) }));
        Ok(Op::Input { index })
    }

    fn constant(&mut self, ty: &Type) -> Result<Op> {
        let Some(ty) = ty.tensor() else { return self.fail("a constant is a tensor") };
        let mut bytes = vec![];
        if !self.eat("[") {
            self.element(ty.dtype, &mut bytes)?;
            return Ok(Op::Constant(Literal { ty: ty.clone(), bytes: bytes.into() }));
        }
        while !self.eat("]") {
            if !bytes.is_empty() {
                self.expect(",")?;
            }
            self.element(ty.dtype, &mut bytes)?;
        }
        match Literal::dense(ty.clone(), bytes) {
            Some(literal) => Ok(Op::Constant(literal)),
            None => self.fail(format_args!("the list does not hold the elements of {ty}")),
        }
    }

    fn element(&mut self, dtype: DType, out: &mut Vec<u8>) -> Result<()> {
        if !dtype.is_complex() {
            return self.real(dtype, out);
        }
        self.expect("(")?;
        self.real(dtype.real(), out)?;
        self.expect(",")?;
        self.real(dtype.real(), out)?;
        self.expect(")")
    }

    fn real(&mut self, dtype: DType, out: &mut Vec<u8>) -> Result<()> {
        let text = self.run(|c| is_word(c) || c == '-' || c == '+');
        match element::read_real(text, dtype, out) {
            Some(()) => Ok(()),
            None => self.fail(format_args!("`{text}` is no element of {dtype}")),
        }
    }

    fn operands(&mut self, node: usize) -> Result<Operands> {
        let mut operands = Operands::new();
        self.space();
        if !self.rest().starts_with('%') || self.at_definition() {
            return Ok(operands);
        }
        loop {
            let v = self.value()?;
            if v >= node {
                return self.fail(format_args!("%{v} is not computed before %{node}"));
            }
            operands.push(ValueId::new(v));
            if !self.eat(",") {
                return Ok(operands);
            }
        }
    }

    /// Whether `%n:` follows, the head of another node.
    fn at_definition(&self) -> bool {
        let behind = self.rest().strip_prefix('%').map(|r| r.trim_start_matches(|c: char| c.is_ascii_digit()));
        behind.is_some_and(|r| r.trim_start().starts_with(':'))
    }

    fn bodies(&mut self, depth: usize) -> Result<Vec<Arc<Graph>>> {
        let mut bodies = vec![];
        if self.eat("{") {
            while !self.eat("}") {
                bodies.push(Arc::new(self.graph(depth + 1)?));
            }
        }
        Ok(bodies)
    }

    // Types.

    fn ty(&mut self) -> Result<Type> {
        if !self.eat("(") {
            return self.tensor_type().map(Type::Tensor);
        }
        let mut parts = vec![];
        while !self.eat(")") {
            if !parts.is_empty() {
                self.expect(",")?;
            }
            parts.push(self.tensor_type()?);
        }
        Ok(Type::Tuple(parts))
    }

    fn tensor_type(&mut self) -> Result<TensorType> {
        let dtype = self.word().parse::<DType>().or_else(|e| self.fail(e))?;
        self.expect("[")?;
        let mut shape = Shape::new();
        while !self.eat("]") {
            if !shape.is_empty() {
                self.expect(",")?;
            }
            shape.push(self.number()?);
            if shape.len() > MAX_RANK {
                return self.fail(format_args!("a tensor of more than {MAX_RANK} dimensions"));
            }
        }
        Ok(TensorType { dtype, shape })
    }

    // What stands at the end.

    fn outputs(&mut self, graph: &mut Graph) -> Result<()> {
        self.space();
        let mut more = self.rest().starts_with('%');
        while more {
            let value = self.value()?;
            if value >= graph.nodes().len() {
                return self.fail(format_args!("%{value} is returned but not computed"));
            }
            let name = self.string()?;
            let kind = if self.eat("mutates") { OutputKind::Mutation(self.number()?) } else { OutputKind::User };
            graph.outputs.push(Output { name, kind, value: ValueId::new(value) });
            more = self.eat(",");
        }
        Ok(())
    }

    /// Reads the table of locations and the closing brace, and completes the graph.
    fn locations(&mut self, mut graph: Graph, mut partial: Partial) -> Result<Graph> {
        let mut ids: FxHashMap<usize, LocId> = FxHashMap::from_iter([(0, LocId::UNKNOWN)]);
        while self.eat("@") {
            let number = self.number()?;
            self.expect("=")?;
            let loc = self.loc()?;
            ids.insert(number, graph.locs.intern(&loc));
        }
        self.expect("}")?;
        partial.inputs.sort_by_key(|(index, _)| *index);
        graph.inputs = partial.inputs.into_iter().map(|(_, input)| input).collect();
        for (node, number) in partial.locs.into_iter().enumerate() {
            match ids.get(&number) {
                Some(&id) => graph.set_loc(ValueId::new(node), id),
                None => return self.fail(format_args!("@{number} of %{node} is not in the table")),
            }
        }
        Ok(graph)
    }

    fn loc(&mut self) -> Result<Loc> {
        let file = self.string()?.into();
        self.expect(":")?;
        let mut loc = Loc { file, line: self.number()?, ..Loc::default() };
        for (word, slot) in [("in", &mut loc.function), ("module", &mut loc.module), ("op", &mut loc.op)] {
            if self.eat(word) {
                *slot = self.string()?.into();
            }
        }
        Ok(loc)
    }
}
