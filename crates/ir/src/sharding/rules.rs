//! Shardings by name: what a user writes, and what it means for a graph.

use super::names::{matches, nearest};
use super::{Axes, Mesh, Partition, Sharding};
use crate::error::{Error, Result};
use crate::graph::{Graph, Input, InputKind};
use crate::types::TensorType;
use rustc_hash::FxHashMap;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::str::FromStr;

/// For each dimension the names of the axes that split it, the coarsest first. Dimensions beyond the last are whole.
pub type Spec = Vec<Vec<String>>;

/// The sharding of the inputs, or results, whose names a pattern matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// A name with `*` for any characters and `?` for one. Inputs are called as in the trace, parameters and buffers by
    /// their qualified names, the results `output.0`, `output.1` and so on. Results are matched by patterns that begin
    /// with `output.` only.
    pub pattern: String,
    /// What is split by what.
    pub spec: Spec,
}

/// Rules in the order in which they are tried.
///
/// The first one that matches a name decides. A tensor that none matches is whole on every device; but how a result is
/// split is left to the partitioner. An input that is called after a parameter and shaped like it, such as
/// `optimizer.layers.0.weight.exp_avg`, is split as the parameter, unless the first pattern that matches it does not
/// match the parameter. A tensor of no dimensions cannot be split, and no pattern matches it; nor do patterns match
/// constants lifted out of the program and the random state. The next value of an input is where the input was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(pub Vec<Rule>);

/// For each output of a graph what it is to the caller: the position of a result, and for each dimension of the value the
/// dimension of the result that it is. `None` for the next value of an input.
pub type Results = Vec<Option<(usize, Vec<usize>)>>;

const RESULT: &str = "output.";

impl Rules {
    /// What the rules say for `graph`.
    ///
    /// # Errors
    /// `Invalid`: a rule names an axis that `mesh` does not have, or one twice, or does not fit a tensor that it matches;
    /// or a rule decides about nothing.
    pub fn resolve(&self, graph: &Graph, results: &Results, mesh: &Mesh) -> Result<Partition> {
        let mut tried = Tried { rules: self.bound(mesh)?, used: vec![false; self.0.len()] };
        let inputs = tried.inputs(graph)?;
        let mut outputs = vec![];
        for (output, result) in graph.outputs.iter().zip(results) {
            let Some((position, order)) = result else {
                outputs.push(None);
                continue;
            };
            let ty = super::tensor(graph, output.value)?;
            let mut logical = ty.clone();
            order.iter().zip(&ty.shape).for_each(|(&d, &extent)| logical.shape[d] = extent);
            let sharding = tried.decide(&format!("{RESULT}{position}"), &logical, true)?;
            outputs.push(sharding.map(|s| s.permuted(order)));
        }
        tried.all_used(graph, results)?;
        Partition::new(graph, mesh.clone(), inputs, outputs)
    }

    /// The rules with their axes looked up.
    fn bound(&self, mesh: &Mesh) -> Result<Vec<Bound<'_>>> {
        let bind = |rule: &Rule| {
            let dims = rule.spec.iter().map(|names| names.iter().map(|name| axis(mesh, name)).collect());
            let dims = dims.collect::<Result<Vec<Axes>>>().and_then(|dims| Sharding::new(mesh, dims));
            dims.map_err(|e| named(&rule.pattern, e))
        };
        self.0.iter().map(|rule| Ok(Bound { pattern: &rule.pattern, sharding: bind(rule)? })).collect()
    }
}

fn axis(mesh: &Mesh, name: &str) -> Result<usize> {
    mesh.position(name).ok_or_else(|| {
        let known: Vec<String> = mesh.axes().iter().map(|(name, _)| format!("`{name}`")).collect();
        Error::invalid(format!("the mesh has no axis `{name}`")).with_help(format!("its axes are {}", known.join(", ")))
    })
}

/// `error`, about the rule with `pattern`.
fn named(pattern: &str, error: Error) -> Error {
    let named = Error::new(error.kind(), format!("sharding `{pattern}`: {}", error.message()));
    match error.help() {
        Some(help) => named.with_help(help),
        None => named,
    }
}

struct Bound<'a> {
    pattern: &'a str,
    sharding: Sharding,
}

struct Tried<'a> {
    rules: Vec<Bound<'a>>,
    used: Vec<bool>,
}

impl Tried<'_> {
    /// The inputs' shardings.
    fn inputs(&mut self, graph: &Graph) -> Result<Vec<Sharding>> {
        let parameters = parameters(graph);
        let mut shardings: Vec<Option<Sharding>> = vec![None; graph.inputs.len()];
        let mut following = vec![];
        for (i, input) in graph.inputs.iter().enumerate().filter(|(_, input)| is_named(&input.kind)) {
            let ty = super::tensor(graph, input.value)?;
            match followed(graph, &parameters, &input.name, ty) {
                // A rule for the parameter too is not about its state in particular.
                Some(p) if self.first(&input.name, false).is_none_or(|r| self.speaks_of(r, &graph.inputs[p].name)) => {
                    following.push((i, p));
                }
                _ => shardings[i] = self.decide(&input.name, ty, false)?,
            }
        }
        for (i, parameter) in following {
            shardings[i] = shardings[parameter].clone();
        }
        let whole = |(input, sharding): (&Input, Option<Sharding>)| {
            sharding.unwrap_or_else(|| Sharding::replicated(graph.tensor_type(input.value).map_or(0, TensorType::rank)))
        };
        Ok(graph.inputs.iter().zip(shardings).map(whole).collect())
    }

    /// The first rule for the input, or result, called `name`.
    fn first(&self, name: &str, result: bool) -> Option<usize> {
        let applies = |rule: &Bound<'_>| rule.pattern.starts_with(RESULT) == result && matches(rule.pattern, name);
        self.rules.iter().position(applies)
    }

    fn speaks_of(&self, rule: usize, name: &str) -> bool {
        matches(self.rules[rule].pattern, name)
    }

    /// The sharding of the tensor called `name`, if a rule says.
    fn decide(&mut self, name: &str, ty: &TensorType, result: bool) -> Result<Option<Sharding>> {
        if ty.rank() == 0 {
            return Ok(None);
        }
        let Some(i) = self.first(name, result) else { return Ok(None) };
        self.used[i] = true;
        let Bound { pattern, sharding } = &self.rules[i];
        if sharding.dims.len() > ty.rank() {
            let message = format!(
                "sharding `{pattern}` is for {} dimensions, but `{name}`, which it matches, has {}: {ty}",
                sharding.dims.len(),
                ty.rank()
            );
            return Err(Error::invalid(message).with_help("put a pattern that matches it alone before this one"));
        }
        let mut sharding = sharding.clone();
        sharding.dims.resize(ty.rank(), Axes::new());
        Ok(Some(sharding))
    }

    /// Refuses a rule that decided about nothing: a misspelt name would go unnoticed.
    fn all_used(&self, graph: &Graph, results: &Results) -> Result<()> {
        let Some(i) = self.used.iter().position(|used| !used) else { return Ok(()) };
        let pattern = self.rules[i].pattern;
        let positions = results.iter().flatten().map(|(position, _)| format!("{RESULT}{position}"));
        let results: Vec<String> = positions.collect();
        let named_inputs = graph.inputs.iter().filter(|input| is_named(&input.kind));
        let names: Vec<&str> = match pattern.starts_with(RESULT) {
            true => results.iter().map(String::as_str).collect(),
            false => named_inputs.map(|input| input.name.as_str()).collect(),
        };
        let Some(&matched) = names.iter().find(|name| matches(pattern, name)) else {
            let near = nearest(pattern, &names, 3).into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
            let what = if pattern.starts_with(RESULT) { "result" } else { "input" };
            return Err(Error::invalid(format!("sharding `{pattern}` matches no {what} of the program"))
                .with_help(format!("the nearest names are {}", near.join(", "))));
        };
        let earlier = self.rules[..i].iter().find(|rule| matches(rule.pattern, matched));
        Err(match earlier {
            Some(first) => Error::invalid(format!(
                "sharding `{pattern}` decides nothing: `{}` comes before it and matches `{matched}` too",
                first.pattern
            ))
            .with_help("the first pattern that matches decides: put the more special one first"),
            None => Error::invalid(format!("sharding `{pattern}` decides nothing: `{matched}` has no dimensions")),
        })
    }
}

/// Whether users know an input by its name. Lifted constants, numbers and the random state are ours.
fn is_named(kind: &InputKind) -> bool {
    matches!(kind, InputKind::User | InputKind::Parameter | InputKind::Buffer)
}

/// Positions of the parameters, by name.
fn parameters(graph: &Graph) -> FxHashMap<&str, usize> {
    let of = |(i, input): (usize, &'_ Input)| (input.kind == InputKind::Parameter).then_some(i);
    let positions = graph.inputs.iter().enumerate().filter_map(of);
    positions.map(|i| (graph.inputs[i].name.as_str(), i)).collect()
}

/// The parameter that an input is called after and shaped like.
fn followed(graph: &Graph, parameters: &FxHashMap<&str, usize>, name: &str, ty: &TensorType) -> Option<usize> {
    let alike = |&p: &usize| graph.tensor_type(graph.inputs[p].value).is_some_and(|t| t.shape == ty.shape);
    dotted_parts(name).filter_map(|part| parameters.get(part).copied()).find(alike)
}

/// The runs of whole components in a dotted name, the longest first.
fn dotted_parts(name: &str) -> impl Iterator<Item = &str> {
    let starts: Vec<usize> = std::iter::once(0).chain(name.match_indices('.').map(|(i, _)| i + 1)).collect();
    let ends: Vec<usize> = name.match_indices('.').map(|(i, _)| i).chain([name.len()]).collect();
    let count = starts.len();
    (1..count).rev().flat_map(move |length| {
        let runs: Vec<(usize, usize)> = (0..=count - length).map(|i| (starts[i], ends[i + length - 1])).collect();
        runs.into_iter().map(move |(start, end)| &name[start..end])
    })
}

/// Reads `PATTERN=data,None`: an entry per dimension, `None` for a whole one, `data+model` for two axes.
impl FromStr for Rule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Rule> {
        let Some((pattern, spec)) = text.rsplit_once('=') else {
            return Err(Error::invalid(format!("`{text}` is no sharding")).with_help("write PATTERN=data,None"));
        };
        let dim = |entry: &str| match entry.trim() {
            "None" | "" => vec![],
            axes => axes.split('+').map(|axis| axis.trim().to_owned()).collect(),
        };
        let spec = if spec.trim().is_empty() { vec![] } else { spec.split(',').map(dim).collect() };
        Ok(Rule { pattern: pattern.trim().to_owned(), spec })
    }
}

/// One entry of a spec in JSON: `null`, an axis, or a list of axes.
#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    Whole(()),
    Axis(String),
    Axes(Vec<String>),
}

/// Reads an object of patterns and specs, in the order in which they stand: `{"*.q_proj.weight": ["model", null]}`.
impl<'de> Deserialize<'de> for Rules {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Rules, D::Error> {
        deserializer.deserialize_map(RulesVisitor)
    }
}

struct RulesVisitor;

impl<'de> Visitor<'de> for RulesVisitor {
    type Value = Rules;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of patterns and lists with an axis, a list of axes or null for each dimension")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Rules, A::Error> {
        let mut rules = vec![];
        while let Some((pattern, entries)) = map.next_entry::<String, Option<Vec<Entry>>>()? {
            let dim = |entry| match entry {
                Entry::Whole(()) => vec![],
                Entry::Axis(axis) => vec![axis],
                Entry::Axes(axes) => axes,
            };
            rules.push(Rule { pattern, spec: entries.unwrap_or_default().into_iter().map(dim).collect() });
        }
        Ok(Rules(rules))
    }
}
