//! Every attribute of a StableHLO op, spelled from Rust types. Nothing else writes `#stablehlo` and `#sdy`: a plugin takes
//! a misspelt optional attribute in silence.

use crate::session::Session;
use hostcall::Grouped;
use ir::op::{Convolution, DotGeneral, Gather, Scatter};
use ir::sharding::{Axes, Mesh, Sharding};
use ir::{Comparison, DType, Error, FftKind, Precision, Result};
use melior::ir::attribute::{BoolAttribute, DenseElementsAttribute, DenseI64ArrayAttribute, IntegerAttribute};
use melior::ir::r#type::{IntegerType, RankedTensorType};
use melior::ir::{Attribute, Type};
use smallvec::SmallVec;
use std::fmt::Write;

/// What the module calls its mesh.
pub(crate) const MESH: &str = "mesh";

/// A number as MLIR's `i64` has it.
pub(crate) fn signed(x: usize) -> Result<i64> {
    i64::try_from(x).map_err(|_| Error::internal(format!("the attribute {x} does not fit i64")))
}

impl<'c> Session<'c> {
    /// `2 : i64`
    pub(crate) fn index(&self, x: usize) -> Result<Attribute<'c>> {
        Ok(IntegerAttribute::new(self.i64(), signed(x)?).into())
    }

    /// `array<i64: 1, 2>`
    pub(crate) fn indices(&self, xs: &[usize]) -> Result<Attribute<'c>> {
        let xs: SmallVec<[i64; 6]> = xs.iter().map(|&x| signed(x)).collect::<Result<_>>()?;
        Ok(self.integers(&xs))
    }

    /// `array<i64: -1, 2>`
    pub(crate) fn integers(&self, xs: &[i64]) -> Attribute<'c> {
        DenseI64ArrayAttribute::new(self.context, xs).into()
    }

    /// `true`
    pub(crate) fn boolean(&self, x: bool) -> Attribute<'c> {
        BoolAttribute::new(self.context, x).into()
    }

    /// `array<i1: false, false>`: the same for each dimension.
    pub(crate) fn booleans(&self, count: usize, all: bool) -> Result<Attribute<'c>> {
        match count {
            0 => self.parse("array<i1>".to_owned()),
            n => self.parse(format!("array<i1: {}>", vec![all.to_string(); n].join(", "))),
        }
    }

    /// `1 : i32`: calls that XLA itself knows.
    pub(crate) fn plain_call(&self) -> Result<Attribute<'c>> {
        self.parse("1 : i32".to_owned())
    }

    /// `4 : i32`: calls whose attributes are typed.
    pub(crate) fn typed_call(&self) -> Result<Attribute<'c>> {
        self.parse("4 : i32".to_owned())
    }

    /// That the one result is the first operand's memory.
    pub(crate) fn whole_alias(&self) -> Result<Attribute<'c>> {
        self.aliases(&[(0, 0)], 1)
    }

    /// Which of a call's so many results are which operands' memory.
    pub(crate) fn aliases(&self, pairs: &[(usize, usize)], results: usize) -> Result<Attribute<'c>> {
        let alias = |&(result, operand): &(usize, usize)| {
            let result = if results == 1 { String::new() } else { result.to_string() };
            format!(
                "#stablehlo.output_operand_alias<output_tuple_indices = [{result}], operand_index = {operand}, \
                 operand_tuple_indices = []>"
            )
        };
        self.parse(format!("[{}]", pairs.iter().map(alias).collect::<Vec<_>>().join(", ")))
    }

    /// `{name = array<i64: 1, 2>}`
    pub(crate) fn named_integers(&self, name: &str, xs: &[i64]) -> Result<Attribute<'c>> {
        let xs: Vec<String> = xs.iter().map(i64::to_string).collect();
        self.parse(format!("{{{name} = array<i64: {}>}}", xs.join(", ")))
    }

    /// `[dense<[1, 0]> : tensor<2xindex>, ...]`: tensors of these ranks, whose last dimension lies side by side.
    pub(crate) fn in_rows(&self, ranks: &[usize]) -> Result<Attribute<'c>> {
        let one = |&rank: &usize| {
            let dims: Vec<String> = (0..rank).rev().map(|i| i.to_string()).collect();
            format!("dense<[{}]> : tensor<{rank}xindex>", dims.join(", "))
        };
        self.parse(format!("[{}]", ranks.iter().map(one).collect::<Vec<_>>().join(", ")))
    }

    /// `dense<[[low, high], ...]> : tensor<Nx2xi64>`
    pub(crate) fn padding(&self, pairs: &[(i64, i64)]) -> Attribute<'c> {
        let ty = RankedTensorType::new(&[pairs.len() as u64, 2], self.i64(), None);
        let flat: SmallVec<[i64; 12]> = pairs.iter().flat_map(|&(low, high)| [low, high]).collect();
        DenseElementsAttribute::i64_values(ty.into(), &flat).into()
    }

    pub(crate) fn comparison_direction(&self, c: Comparison) -> Result<Attribute<'c>> {
        let direction = match c {
            Comparison::Eq => "EQ",
            Comparison::Ne => "NE",
            Comparison::Lt => "LT",
            Comparison::Le => "LE",
            Comparison::Gt => "GT",
            Comparison::Ge => "GE",
        };
        self.parse(format!("#stablehlo<comparison_direction {direction}>"))
    }

    pub(crate) fn fft_type(&self, kind: FftKind) -> Result<Attribute<'c>> {
        let kind = match kind {
            FftKind::Fft => "FFT",
            FftKind::Ifft => "IFFT",
            FftKind::Rfft => "RFFT",
            FftKind::Irfft => "IRFFT",
        };
        self.parse(format!("#stablehlo<fft_type {kind}>"))
    }

    /// IEEE for floats: NaN compares unequal, `-0` equals `0`. (`TOTALORDER` is nobody's wish here.)
    pub(crate) fn comparison_type(&self, dtype: DType) -> Result<Attribute<'c>> {
        let kind = match dtype {
            d if d.is_float() || d.is_complex() => "FLOAT",
            d if d.is_unsigned() || d == DType::Bool => "UNSIGNED",
            _ => "SIGNED",
        };
        self.parse(format!("#stablehlo<comparison_type {kind}>"))
    }

    /// For both operands of a contraction of `dtype`. Narrow floats and integers have one precision only.
    pub(crate) fn precision_config(&self, precision: Precision, dtype: DType) -> Result<Attribute<'c>> {
        self.precisions("stablehlo", precision, dtype)
    }

    fn precisions(&self, dialect: &str, precision: Precision, dtype: DType) -> Result<Attribute<'c>> {
        let wide = matches!(dtype, DType::F32 | DType::F64 | DType::C64 | DType::C128);
        let p = match precision {
            Precision::High if wide => "HIGH",
            Precision::Highest if wide => "HIGHEST",
            Precision::Default | Precision::High | Precision::Highest => "DEFAULT",
        };
        self.parse(format!("[#{dialect}<precision {p}>, #{dialect}<precision {p}>]"))
    }

    /// CHLO's attributes of a `ragged_dot`: dimension numbers and precision.
    pub(crate) fn ragged_dot(&self, of: Grouped, precision: Precision, dtype: DType) -> Result<[Attribute<'c>; 2]> {
        let (contracting, groups) = match of {
            Grouped::Rows { turned } => ([1, 1 + usize::from(turned)], "0"),
            Grouped::Matrices => ([0, 0], ""),
        };
        let [lhs, rhs] = contracting;
        let numbers = self.parse(format!(
            "#chlo.ragged_dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], \
             lhs_contracting_dimensions = [{lhs}], rhs_contracting_dimensions = [{rhs}], \
             lhs_ragged_dimensions = [0], rhs_group_dimensions = [{groups}]>"
        ))?;
        Ok([numbers, self.precisions("chlo", precision, dtype)?])
    }

    /// A matrix as it is given, neither transposed nor conjugated.
    pub(crate) fn as_it_is(&self) -> Result<Attribute<'c>> {
        self.parse("#stablehlo<transpose NO_TRANSPOSE>".to_owned())
    }

    pub(crate) fn three_fry(&self) -> Result<Attribute<'c>> {
        self.parse("#stablehlo<rng_algorithm THREE_FRY>".to_owned())
    }

    pub(crate) fn gather(&self, g: &Gather) -> Result<Attribute<'c>> {
        self.dimension_numbers(
            "gather",
            &[
                ("offset_dims", &g.offset_dims),
                ("collapsed_slice_dims", &g.collapsed_slice_dims),
                ("operand_batching_dims", &g.operand_batching_dims),
                ("start_indices_batching_dims", &g.start_indices_batching_dims),
                ("start_index_map", &g.start_index_map),
            ],
            Some(g.index_vector_dim),
        )
    }

    pub(crate) fn scatter(&self, s: &Scatter) -> Result<Attribute<'c>> {
        self.dimension_numbers(
            "scatter",
            &[
                ("update_window_dims", &s.update_window_dims),
                ("inserted_window_dims", &s.inserted_window_dims),
                ("input_batching_dims", &s.input_batching_dims),
                ("scatter_indices_batching_dims", &s.scatter_indices_batching_dims),
                ("scatter_dims_to_operand_dims", &s.scatter_dims_to_operand_dims),
            ],
            Some(s.index_vector_dim),
        )
    }

    pub(crate) fn dot(&self, d: &DotGeneral) -> Result<Attribute<'c>> {
        self.dimension_numbers(
            "dot",
            &[
                ("lhs_batching_dimensions", &d.lhs_batch),
                ("rhs_batching_dimensions", &d.rhs_batch),
                ("lhs_contracting_dimensions", &d.lhs_contract),
                ("rhs_contracting_dimensions", &d.rhs_contract),
            ],
            None,
        )
    }

    /// `#stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>`
    pub(crate) fn conv(&self, c: &Convolution) -> Result<Attribute<'c>> {
        let input = layout(&[("b", c.input_batch), ("f", c.input_feature)], &c.input_spatial)?;
        let kernel = layout(&[("i", c.kernel_input_feature), ("o", c.kernel_output_feature)], &c.kernel_spatial)?;
        let output = layout(&[("b", c.output_batch), ("f", c.output_feature)], &c.output_spatial)?;
        self.parse(format!("#stablehlo.conv<[{input}]x[{kernel}]->[{output}]>"))
    }

    /// The attributes of `@main`'s arguments: `aliased[i]` is the result that may take argument `i`'s memory.
    pub(crate) fn arguments(&self, aliased: &[Option<usize>]) -> Result<Option<Attribute<'c>>> {
        let partition = self.options.partition.as_ref();
        let dictionary = |(i, result): (usize, &Option<usize>)| {
            let sharding = partition.and_then(|p| Some(sharded(p.mesh(), p.inputs().get(i)?)));
            let alias = result.map(|result| format!("tf.aliasing_output = {result} : i32"));
            sharding.into_iter().chain(alias).collect()
        };
        self.dictionaries(aliased.iter().enumerate().map(dictionary).collect())
    }

    /// The attributes of `@main`'s results.
    pub(crate) fn results(&self) -> Result<Option<Attribute<'c>>> {
        let Some(partition) = &self.options.partition else { return Ok(None) };
        let mark = |s: &Option<Sharding>| s.iter().map(|s| sharded(partition.mesh(), s)).collect();
        self.dictionaries(partition.outputs().iter().map(mark).collect())
    }

    /// `[{a = 1, b = 2}, {}]`, unless all are empty.
    fn dictionaries(&self, all: Vec<Vec<String>>) -> Result<Option<Attribute<'c>>> {
        if all.iter().all(Vec::is_empty) {
            return Ok(None);
        }
        let all: Vec<String> = all.into_iter().map(|entries| format!("{{{}}}", entries.join(", "))).collect();
        self.parse(format!("[{}]", all.join(", "))).map(Some)
    }

    /// `#sdy.mesh<["data"=4, "model"=2]>`
    pub(crate) fn mesh(&self, mesh: &Mesh) -> Result<Attribute<'c>> {
        let axes: Vec<String> = mesh.axes().iter().map(|(name, size)| format!("{name:?}={size}")).collect();
        self.parse(format!("#sdy.mesh<[{}]>", axes.join(", ")))
    }

    /// Absent lists are empty, as StableHLO prints them.
    fn dimension_numbers(
        &self,
        name: &str,
        lists: &[(&str, &[usize])],
        vector: Option<usize>,
    ) -> Result<Attribute<'c>> {
        let mut fields: Vec<String> = vec![];
        for (key, dims) in lists.iter().filter(|(_, dims)| !dims.is_empty()) {
            fields.push(format!("{key} = {dims:?}"));
        }
        fields.extend(vector.map(|dim| format!("index_vector_dim = {dim}")));
        self.parse(format!("#stablehlo.{name}<{}>", fields.join(", ")))
    }

    fn i64(&self) -> Type<'c> {
        IntegerType::new(self.context, 64).into()
    }
}

/// `sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>`. The dimensions are closed: no partitioner splits them further.
fn sharded(mesh: &Mesh, sharding: &Sharding) -> String {
    let quoted = |&axis: &usize| format!("{:?}", mesh.axes()[axis].0);
    let dim = |axes: &Axes| format!("{{{}}}", axes.iter().map(quoted).collect::<Vec<_>>().join(", "));
    let dims: Vec<String> = sharding.dims().iter().map(dim).collect();
    format!("sdy.sharding = #sdy.sharding<@{MESH}, [{}]>", dims.join(", "))
}

/// `b, f, 0, 1`: what each dimension is.
fn layout(named: &[(&str, usize)], spatial: &[usize]) -> Result<String> {
    let role = |dim: usize| {
        let name = named.iter().find(|(_, d)| *d == dim).map(|(name, _)| (*name).to_owned());
        name.or_else(|| spatial.iter().position(|&d| d == dim).map(|i| i.to_string()))
    };
    let mut text = String::new();
    for dim in 0..named.len() + spatial.len() {
        let Some(role) = role(dim) else {
            return Err(Error::internal(format!("dimension {dim} of a convolution has no role")));
        };
        let comma = if dim == 0 { "" } else { ", " };
        // Writing to a string does not fail.
        let _ = write!(text, "{comma}{role}");
    }
    Ok(text)
}
