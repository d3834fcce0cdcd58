//! The aten op table: one entry an op, and everything else derived from it.
//!
//! An entry holds the op's schema, the in-place and `out=` overloads that share its meaning, its rule, and samples of
//! good and bad use. The importer, the decomposition list for AOTAutograd, eager registration, `tputc ops`, docs/ops.md
//! and the generated tests all read this table. No aten name appears outside this folder.
//!
//! To add an op, write its entry into the family it belongs to; see docs/adding-an-op.md.

pub mod bounded;
mod call;
mod defaults;
pub mod eager;
pub mod expr;
pub mod linalg;
pub mod loops;
mod outs;
pub mod pool;
mod resample;
pub mod sample;
mod schema;
pub mod support;

mod activation;
mod activation_backward;
mod adaptive_pool;
mod addmm;
mod aliases;
mod arithmetic;
mod attention;
mod avg_pool;
mod batch_norm;
mod binary;
mod bits;
mod boxes;
mod cells;
mod choice;
mod compare;
mod complex;
mod complex_functions;
mod composite;
mod condition;
mod convolution;
mod copy;
mod creation;
mod ctc;
mod deform;
mod distance;
mod division;
mod effects;
mod einsum;
mod fake_quantize;
mod foreach;
mod fourier;
mod grad_scaler;
mod grouped_mm;
mod histogram;
mod index;
mod jagged;
mod join;
mod logic;
mod loss;
mod margin_loss;
mod matmul;
mod normalization;
mod optimizer;
mod patches;
mod pointwise;
mod polynomials;
mod positions;
mod power;
mod products;
mod random;
mod ranges;
mod reduce;
mod region_pool;
mod regions;
mod regression_loss;
mod rnn;
mod rounding;
mod scan;
mod search;
mod segments;
mod softmax;
mod sort;
mod special;
mod unique;
mod unpool;
mod upsample;
mod views;

pub use bounded::{Bounded, BoundedFn, Cut};
pub use call::{Arg, Call, Context, MemoryFormat, Outs, Scalar, TensorArg, many, one};
pub use condition::Condition;
pub use defaults::parse_default;
pub use eager::{Manner, Strides};
pub use outs::OutWords;
pub use sample::{Sample, err, ok};
pub use schema::{Param, ParamType, Schema};

use crate::DType;
use crate::alias::{Layout, Lens};
use crate::builder::Builder;
use crate::error::{Error, Result};
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// A tensor's copy: the eager device makes copies for itself.
pub const CLONE: &str = "aten::clone.default";
/// A write of one tensor's elements to another's: likewise.
pub const COPY: &str = "aten::copy_.default";

/// Appends the core ops that compute a call's results.
pub type ExpandFn = fn(&Call<'_>, &Builder) -> Result<Outs>;
/// The layouts of the results over the storage of `self`, whose layout is given; `None` where PyTorch would copy.
pub type ViewFn = fn(&Call<'_>, &Layout) -> Result<Option<Vec<Layout>>>;
/// How a call's result sees the storage of its first argument.
pub type LensFn = fn(&Call<'_>) -> Result<Lens>;
/// A number computed from an argument's type alone.
pub type NumberFn = fn(&Call<'_>) -> Result<Scalar>;

/// What an op does.
#[derive(Clone, Copy)]
pub enum Rule {
    /// Computes new tensors. Where the schema marks arguments of a functional overload as written, such as
    /// `Tensor(a!)? running_mean`, their next values follow the schema's returns, one each and in order; `None` leaves
    /// one as it is.
    Expand(ExpandFn),
    /// Computes new tensors, of which some extents may be data.
    Bounded(BoundedFn),
    /// Gives other views of the storage of its first argument; the expansion serves where PyTorch would copy.
    View(ViewFn, Option<ExpandFn>),
    /// Gives a number known while tracing.
    Number(NumberFn),
}

/// An entry of the table.
pub struct OpDef {
    /// PyTorch's schema of the functional overload.
    pub schema: &'static str,
    /// Overloads that write this op's result into their first argument (`add_.Tensor`) or into their `out` arguments
    /// (`add.out`), without the namespace.
    pub variants: &'static [&'static str],
    /// Whether an `out=` overload whose `dtype` is left out computes in the type of `out`.
    pub typed_by_out: bool,
    /// Whether numbers may stand in the place of its tensors as they are, and count as numbers where types are promoted.
    pub takes_numbers: bool,
    /// How a copy that the rule makes still sees the storage of the first argument, in PyTorch.
    pub lens: Option<LensFn>,
    /// How its `out=` overloads refuse tensors of another element type than the result; `None` where they convert.
    pub outs: Option<OutWords>,
    /// How the CPU lays out its first result.
    pub strides: Strides,
    /// What its calls need.
    pub manner: Manner,
    /// Whether the rule is not enough to know what a call gives whose tensors all lie in rows, as it is where results lie in rows, too:
    /// PyTorch's meta kernel is asked then, as it is of other calls, unless they give rows of anything ([`Strides::Rows`]). Many of
    /// these are Python, which takes longer than all the rest of a call.
    pub asked: bool,
    /// What it does.
    pub rule: Rule,
    /// Good and bad calls, each of them a test.
    pub samples: &'static [Sample],
}

impl OpDef {
    const fn with_rule(schema: &'static str, rule: Rule, samples: &'static [Sample]) -> OpDef {
        OpDef {
            schema,
            variants: &[],
            typed_by_out: false,
            takes_numbers: false,
            lens: None,
            outs: None,
            strides: Strides::Meta,
            manner: Manner::Plain,
            asked: false,
            rule,
            samples,
        }
    }
    /// An op that computes new tensors.
    pub const fn new(schema: &'static str, expand: ExpandFn, samples: &'static [Sample]) -> OpDef {
        OpDef::with_rule(schema, Rule::Expand(expand), samples)
    }
    /// An op that computes new tensors whose extents may be data.
    pub const fn bounded(schema: &'static str, expand: BoundedFn, samples: &'static [Sample]) -> OpDef {
        OpDef::with_rule(schema, Rule::Bounded(expand), samples)
    }
    /// An op that always gives views.
    pub const fn view(schema: &'static str, view: ViewFn, samples: &'static [Sample]) -> OpDef {
        OpDef::with_rule(schema, Rule::View(view, None), samples)
    }
    /// An op that gives a view where it can and a copy elsewhere.
    pub const fn maybe_view(schema: &'static str, view: ViewFn, copy: ExpandFn, samples: &'static [Sample]) -> OpDef {
        OpDef::with_rule(schema, Rule::View(view, Some(copy)), samples)
    }
    /// An op that gives a number.
    pub const fn number(schema: &'static str, number: NumberFn, samples: &'static [Sample]) -> OpDef {
        OpDef::with_rule(schema, Rule::Number(number), samples)
    }
    /// With in-place and `out=` overloads.
    pub const fn variants(mut self, variants: &'static [&'static str]) -> OpDef {
        self.variants = variants;
        self
    }
    /// Whose result is its first argument seen through a lens, where the rule makes a copy.
    pub const fn seen_through(mut self, lens: LensFn) -> OpDef {
        self.lens = Some(lens);
        self
    }
    /// Whose `out=` overloads take no tensors of other element types than the results.
    pub const fn typed_outs(mut self, words: OutWords) -> OpDef {
        self.outs = Some(words);
        self
    }
    /// In the place of whose tensors numbers may stand.
    pub const fn takes_numbers(mut self) -> OpDef {
        self.takes_numbers = true;
        self
    }
    /// Whose `out=` overloads compute in the type of `out`, unless `dtype` says otherwise.
    pub const fn typed_by_out(mut self) -> OpDef {
        self.typed_by_out = true;
        self
    }
    /// Whose first result the CPU lays out otherwise than PyTorch's meta kernel says.
    pub const fn laid_out(mut self, strides: Strides) -> OpDef {
        self.strides = strides;
        self
    }
    /// Whose rule does not say all about its results: see [`OpDef::asked`].
    pub const fn asked(mut self) -> OpDef {
        self.asked = true;
        self
    }
    /// Whose calls need more than to be handed on.
    pub const fn called(mut self, manner: Manner) -> OpDef {
        self.manner = manner;
        self
    }
}

/// Where an overload's results go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// New tensors (or views).
    Functional,
    /// Written into the first argument, converted to its element type.
    InPlace,
    /// Written into the keyword arguments behind the functional ones.
    Out,
}

/// An overload found in the table.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The definition.
    pub def: &'static OpDef,
    /// Its parsed schema (of the functional overload).
    pub schema: &'static Schema,
    /// Where this overload's results go.
    pub variant: Variant,
}

impl Entry {
    /// Where the argument is that, left out, is the element type of `out`.
    pub fn slot_typed_by_out(&self) -> Option<usize> {
        let applies = self.variant == Variant::Out && self.def.typed_by_out;
        applies.then(|| self.schema.args.iter().position(|p| p.name == "dtype")).flatten()
    }

    /// Whether it writes one tensor to another, as it is.
    pub fn is_copy(&self) -> bool {
        self.variant == Variant::InPlace && self.schema.name == copy::NAME
    }

    /// Refuses an `out` tensor of element type `have` for the result at `place`, of type `want`, where PyTorch does.
    ///
    /// # Errors
    /// In PyTorch's words.
    pub fn check_out(&self, place: usize, want: DType, have: DType) -> Result<()> {
        match self.def.outs {
            Some(words) if want != have => Err(Error::invalid(words(place, want, have))),
            _ => Ok(()),
        }
    }
}

/// Every family, in the order docs/ops.md lists them.
static FAMILIES: &[(&str, &[OpDef])] = &[
    ("activation", activation::OPS),
    ("activation_backward", activation_backward::OPS),
    ("adaptive_pool", adaptive_pool::OPS),
    ("addmm", addmm::OPS),
    ("aliases", aliases::OPS),
    ("arithmetic", arithmetic::OPS),
    ("attention", attention::OPS),
    ("avg_pool", avg_pool::OPS),
    ("batch_norm", batch_norm::OPS),
    ("bessel", special::BESSEL),
    ("binary", binary::OPS),
    ("bits", bits::OPS),
    ("boxes", boxes::OPS),
    ("cells", cells::OPS),
    ("choice", choice::OPS),
    ("compare", compare::OPS),
    ("complex", complex::OPS),
    ("composite_losses", composite::losses::OPS),
    ("convolution", convolution::OPS),
    ("copy", copy::OPS),
    ("creation", creation::OPS),
    ("ctc", ctc::OPS),
    ("deform", deform::OPS),
    ("differences", composite::differences::OPS),
    ("distance", distance::OPS),
    ("division", division::OPS),
    ("dropout", random::dropout::OPS),
    ("edge_pad", join::pad::EDGE_OPS),
    ("effects", effects::OPS),
    ("einsum", einsum::OPS),
    ("eig", linalg::EIG),
    ("eigh", linalg::EIGH),
    ("embedding", index::embedding::OPS),
    ("embedding_bag", index::bags::OPS),
    ("extremes", reduce::extremes::OPS),
    ("fake_quantize", fake_quantize::OPS),
    ("fft", composite::fft::OPS),
    ("foreach", foreach::OPS),
    ("fourier", fourier::OPS),
    ("gamma", special::GAMMA),
    ("grad_scaler", grad_scaler::OPS),
    ("grouped_mm", grouped_mm::OPS),
    ("histogram", histogram::OPS),
    ("index", index::OPS),
    ("index_slices", index::slices::OPS),
    ("jagged", jagged::OPS),
    ("join", join::OPS),
    ("ldl", linalg::LDL),
    ("least_squares", linalg::LEAST_SQUARES),
    ("linalg", composite::linalg::OPS),
    ("linalg_products", composite::products::OPS),
    ("logic", logic::OPS),
    ("loss", loss::OPS),
    ("lu", linalg::LU),
    ("margin_loss", margin_loss::OPS),
    ("masked", index::masked::OPS),
    ("matmul", matmul::OPS),
    ("matrix_norms", composite::norms::OPS),
    ("matrix_exponential", linalg::EXPONENTIAL),
    ("moments", reduce::moments::OPS),
    ("normalization", normalization::OPS),
    ("norms", reduce::norms::OPS),
    ("numeric", composite::numeric::OPS),
    ("optimizer", optimizer::OPS),
    ("pad", join::pad::OPS),
    ("patches", patches::OPS),
    ("place", join::place::OPS),
    ("pointwise", pointwise::OPS),
    ("polynomials", polynomials::OPS),
    ("pool", pool::OPS),
    ("power", power::OPS),
    ("qr", linalg::QR),
    ("random_fill", random::fill::OPS),
    ("random_gradients", random::gradients::OPS),
    ("random_new", random::new::OPS),
    ("random_rejection", random::rejection::OPS),
    ("ranges", ranges::OPS),
    ("products", products::OPS),
    ("reduce", reduce::OPS),
    ("region_pool", region_pool::OPS),
    ("regions", regions::OPS),
    ("regression_loss", regression_loss::OPS),
    ("repeat", join::repeat::OPS),
    ("rnn", rnn::OPS),
    ("rounding", rounding::OPS),
    ("scan", scan::OPS),
    ("scatter", index::scatter::OPS),
    ("search", search::OPS),
    ("segments", segments::OPS),
    ("signal", composite::signal::OPS),
    ("sizes", views::numbers::OPS),
    ("softmax", softmax::OPS),
    ("sort", sort::OPS),
    ("special", special::OPS),
    ("splits", views::split::OPS),
    ("svd", linalg::SVD),
    ("triangular", linalg::TRIANGULAR),
    ("unique", unique::OPS),
    ("unpool", unpool::OPS),
    ("upsample", upsample::OPS),
    ("view_copies", views::copies::OPS),
    ("views", views::OPS),
];

static TABLE: LazyLock<FxHashMap<String, Entry>> = LazyLock::new(|| {
    let mut table = FxHashMap::default();
    for def in all() {
        // A schema that does not parse is left out here and fails `every_schema_parses`.
        let Ok(schema) = Schema::parse(def.schema) else { continue };
        let schema: &'static Schema = Box::leak(Box::new(schema));
        let namespace = schema.name.split("::").next().unwrap_or("aten");
        for variant in def.variants {
            let base = variant.split('.').next().unwrap_or(variant);
            let overload = if base == *variant { ".default" } else { "" };
            let in_place = base.starts_with("__i") || (base.ends_with('_') && !base.ends_with("__"));
            let kind = if in_place { Variant::InPlace } else { Variant::Out };
            table.insert(format!("{namespace}::{variant}{overload}"), Entry { def, schema, variant: kind });
        }
        table.insert(schema.name.clone(), Entry { def, schema, variant: Variant::Functional });
    }
    table
});

/// Every definition, family by family.
pub fn all() -> impl Iterator<Item = &'static OpDef> {
    FAMILIES.iter().flat_map(|(_, ops)| ops.iter())
}

/// Families with their names.
pub fn families() -> &'static [(&'static str, &'static [OpDef])] {
    FAMILIES
}

/// The entry of an overload, such as `aten::add.Tensor` or `aten::relu.default`.
pub fn find(name: &str) -> Option<Entry> {
    TABLE.get(name).copied()
}

/// Names of all overloads in the table, sorted.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = TABLE.keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_parses_and_is_listed_once() {
        let mut seen = std::collections::BTreeSet::new();
        for def in all() {
            let schema = Schema::parse(def.schema).expect("schema");
            assert!(seen.insert(schema.name.clone()), "{} is listed twice", schema.name);
            for v in def.variants {
                assert!(seen.insert(format!("aten::{v}")), "{v} is listed twice");
            }
            assert!(!def.samples.is_empty(), "{} has no samples", schema.name);
        }
    }
}
