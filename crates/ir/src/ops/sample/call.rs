//! A sample as a call: its tensors become inputs of a graph of its own.

use super::parse::{SampleArg, SampleTensor, bind};
use crate::alias::Layout;
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::{Graph, InputKind, OutputKind, ValueId};
use crate::literal::Literal;
use crate::literal::Number;
use crate::ops::{Arg, Bounded, Call, Context, Entry, Outs, Rule, Scalar, TensorArg, Variant, bounded, parse_default};

/// What a sample comes to.
pub struct Expansion {
    /// Takes the sample's tensors in order, then the generator's state if the op draws random numbers.
    pub graph: Graph,
    /// Where the results are found.
    pub results: Results,
}

/// The results of an expanded sample.
#[derive(Clone, Debug, PartialEq)]
pub enum Results {
    /// Outputs of the graph; `false` stands for an undefined tensor, which has no output.
    Outputs(Vec<bool>),
    /// The same, padded: `(result, dimension)` of each cut, whose count is an output behind the results.
    Padded(Vec<bool>, Vec<(usize, usize)>),
    /// One output: a bound of the results' extents, which the data decides.
    Bound,
    /// Views of the first tensor's storage.
    Views(Vec<Layout>),
    /// A number.
    Number(Number),
}

/// The tensors of `args` in order.
pub(super) fn tensors(args: &[Option<SampleArg>]) -> Vec<&SampleTensor> {
    fn walk<'a>(arg: &'a SampleArg, out: &mut Vec<&'a SampleTensor>) {
        match arg {
            SampleArg::Tensor(t) => out.push(t),
            SampleArg::List(items) => items.iter().for_each(|i| walk(i, out)),
            _ => {}
        }
    }
    let mut out = vec![];
    args.iter().flatten().for_each(|a| walk(a, &mut out));
    out
}

/// Runs the rule of `entry` on `args`, which [`bind`](super::bind) gave.
///
/// # Errors
/// The op's own.
pub fn expand(entry: &Entry, args: &[Option<SampleArg>]) -> Result<Expansion> {
    expand_within(entry, args, None)
}

/// The expansions of all samples in the op table that expand without data, each op's functional overload only.
pub fn expansions() -> impl Iterator<Item = (&'static str, Expansion)> {
    crate::ops::names().into_iter().filter_map(|name| Some((name, crate::ops::find(name)?))).flat_map(
        |(name, entry)| {
            let once = entry.variant == Variant::Functional;
            let samples = entry.def.samples.iter().filter(move |s| once && s.error.is_none());
            samples.filter_map(move |s| Some((name, expand(&entry, &bind(entry.schema, s.args).ok()?).ok()?)))
        },
    )
}

/// [`expand`] for these values of the sample's tensors: a bound that they decide is computed.
///
/// # Errors
/// The op's own.
pub fn expand_for(entry: &Entry, args: &[Option<SampleArg>], values: &[Literal]) -> Result<Expansion> {
    let expansion = expand(entry, args)?;
    if expansion.results != Results::Bound {
        return Ok(expansion);
    }
    let bound = crate::eval(&expansion.graph, values)?.first().map_or(Ok(0), extent)?;
    expand_within(entry, args, Some(bounded::loose(bound)))
}

/// The extent that an `i64[]` says.
///
/// # Errors
/// When it is of another type.
pub fn extent(count: &Literal) -> Result<i64> {
    let bytes = <[u8; 8]>::try_from(&count.dense_bytes()[..]).map_err(|_| Error::internal("an extent is no i64"))?;
    Ok(i64::from_le_bytes(bytes))
}

fn expand_within(entry: &Entry, args: &[Option<SampleArg>], bound: Option<i64>) -> Result<Expansion> {
    let b = Builder::new("sample");
    let inputs: Vec<InputTensor> = tensors(args).into_iter().enumerate().map(|(i, t)| input(&b, i, t)).collect();
    let mut next = inputs.iter();
    let given = args.iter().zip(&entry.schema.args).map(|(arg, param)| match arg {
        Some(arg) => argument(arg, &mut next),
        None => parse_default(param),
    });
    let args = given.collect::<Result<Vec<_>>>()?;
    let context = Context { bound, ..Context::default() };
    let call = Call { schema: entry.schema, args, context: &context, recorded: vec![] };
    let results = match entry.def.rule {
        Rule::Expand(expand) => outputs(&b, expand(&call, &b)?),
        Rule::Bounded(expand) => match expand(&call, &b)? {
            Bounded::Bound(bound) => {
                b.output("bound", OutputKind::User, bound);
                Results::Bound
            }
            Bounded::Results { padded, cuts, .. } => {
                let Results::Outputs(present) = outputs(&b, padded) else {
                    return Err(Error::internal("outputs that are none"));
                };
                cuts.iter().for_each(|cut| b.output("count", OutputKind::User, cut.count));
                match cuts.is_empty() {
                    true => Results::Outputs(present),
                    false => Results::Padded(present, cuts.iter().map(|cut| (cut.result, cut.dim)).collect()),
                }
            }
        },
        Rule::Number(number) => Results::Number(call.number(&number(&call)?)),
        Rule::View(view, copy) => {
            let Some(first) = inputs.first() else { return Err(Error::internal("a view of no tensor")) };
            match (view(&call, &first.layout)?, copy) {
                (Some(layouts), _) => Results::Views(layouts),
                (None, Some(copy)) => outputs(&b, copy(&call, &b)?),
                (None, None) => return Err(Error::internal("neither a view nor a copy")),
            }
        }
    };
    Ok(Expansion { graph: b.finish(), results })
}

fn outputs(b: &Builder, outs: Outs) -> Results {
    for (i, v) in outs.iter().enumerate() {
        v.iter().for_each(|&v| b.output(format!("out{i}"), OutputKind::User, v));
    }
    Results::Outputs(outs.iter().map(Option::is_some).collect())
}

struct InputTensor {
    value: ValueId,
    dtype: DType,
    layout: Layout,
}

fn input(b: &Builder, index: usize, t: &SampleTensor) -> InputTensor {
    let value = b.input(format!("arg{index}"), InputKind::User, t.ty.clone());
    InputTensor { value, dtype: t.ty.dtype, layout: t.layout.clone() }
}

impl TensorArg for InputTensor {
    fn read(&self, _: &Builder) -> Result<ValueId> {
        Ok(self.value)
    }
    fn layout(&self) -> Layout {
        self.layout.clone()
    }
    fn dtype(&self) -> DType {
        self.dtype
    }
}

/// `arg` as the call takes it; its tensors are the next ones of `inputs`.
fn argument<'a>(arg: &SampleArg, inputs: &mut impl Iterator<Item = &'a InputTensor>) -> Result<Arg<'a>> {
    let lost = || Error::internal("a sample's tensor has no input");
    Ok(match arg {
        SampleArg::None => Arg::None,
        SampleArg::Tensor(_) => Arg::Tensor(inputs.next().ok_or_else(lost)?),
        SampleArg::Number(n) => Arg::Scalar(Scalar::Known(*n)),
        SampleArg::Str(s) => Arg::Str(s.as_str().into()),
        SampleArg::DType(d) => Arg::DType(*d),
        SampleArg::MemoryFormat(m) => Arg::MemoryFormat(*m),
        SampleArg::Device(d) => Arg::Device(d.as_str().into()),
        SampleArg::Strided => Arg::Strided,
        SampleArg::List(items) => {
            let items = items.iter().map(|i| argument(i, inputs)).collect::<Result<Vec<_>>>()?;
            return list(items);
        }
    })
}

fn list(items: Vec<Arg<'_>>) -> Result<Arg<'_>> {
    let number = |a: &Arg<'_>| match a {
        Arg::Scalar(s) => Some(s.clone()),
        _ => None,
    };
    if let Some(numbers) = items.iter().map(number).collect() {
        return Ok(Arg::Scalars(numbers));
    }
    let tensor = |a| match a {
        Arg::Tensor(t) => Ok(Some(t)),
        Arg::None => Ok(None),
        _ => Err(Error::invalid("a list holds numbers or tensors")),
    };
    items.into_iter().map(tensor).collect::<Result<_>>().map(Arg::Tensors)
}
