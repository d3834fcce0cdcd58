//! The closed set of core ops: functional, explicitly typed and explicitly broadcast, in the shape of StableHLO.
//!
//! An op here is plain data: hashable, comparable, printable. Operands and nested bodies belong to the [node]
//! (crate::graph::Node). An op is treated exhaustively in four places: [inference](crate::infer), the reference
//! evaluator, the e-graph and the emitter. PyTorch's promotion, broadcasting and naming stop at the aten table.

use crate::dtype::DType;
use crate::literal::{Literal, Number};
use crate::routine::Routine;
use crate::types::{Dims, Shape, TensorType};
use hostcall::{Combines, Function, Grouped, Lapack, Order};
use serde::{Deserialize, Serialize};

/// A core op with its attributes. Semantics are StableHLO's unless the variant says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Op {
    /// The `index`-th argument of the graph. Its type stands on the node.
    Input {
        /// Position in the graph's input list.
        index: usize,
    },
    /// A literal.
    Constant(Literal),
    /// `0, 1, 2, ...` along `dim`, the same in every other dimension.
    Iota {
        /// Element type of the result.
        dtype: DType,
        /// Extents of the result.
        shape: Shape,
        /// The dimension that counts.
        dim: usize,
    },
    /// One operand, elementwise.
    Unary(Unary),
    /// Two operands of the same type, elementwise.
    Binary(Binary),
    /// Two operands of the same type, elementwise, to `bool`. Any comparison with NaN is false, `ne` true.
    Compare(Comparison),
    /// `select(pred, on_true, on_false)`: all three of one shape, `pred` of `bool`.
    Select,
    /// Value conversion. Float to int truncates towards zero; out of range and NaN saturate as the target does.
    /// To `bool`: `x != 0`, NaN counts as true.
    Convert {
        /// Element type of the result.
        dtype: DType,
    },
    /// The same bits as another type. If that is narrower, the parts of an element run along a new last dimension, lowest
    /// first; if it is wider, the last dimension holds the parts of an element and goes.
    BitcastConvert {
        /// Element type of the result.
        dtype: DType,
    },
    /// Result dimension `dims[i]` runs over operand dimension `i`, whose extent is equal or 1.
    BroadcastInDim {
        /// Extents of the result.
        shape: Shape,
        /// For each operand dimension the result dimension it maps to, strictly rising.
        dims: Dims,
    },
    /// The same elements in row-major order under other extents.
    Reshape {
        /// Extents of the result.
        shape: Shape,
    },
    /// Result dimension `i` is operand dimension `permutation[i]`.
    Transpose {
        /// A permutation of the operand's dimensions.
        permutation: Dims,
    },
    /// Elements `start, start + stride, ...` below `limit`, per dimension.
    Slice {
        /// First index, per dimension.
        start: Dims,
        /// One past the last index, per dimension.
        limit: Dims,
        /// Step, at least 1, per dimension.
        stride: Dims,
    },
    /// `dynamic_slice(operand, i0, i1, ...)`: 0-d integer start indices, clamped so that the window fits.
    DynamicSlice {
        /// Extents of the result.
        sizes: Shape,
    },
    /// `dynamic_update_slice(operand, update, i0, i1, ...)`: start indices clamped so that the update fits.
    DynamicUpdateSlice,
    /// All operands, one after the other, along `dim`.
    Concatenate {
        /// The dimension that grows.
        dim: usize,
    },
    /// `pad(operand, value)`: negative `low` and `high` crop; `interior` goes between neighbours.
    Pad {
        /// Elements before, per dimension.
        low: SignedDims,
        /// Elements after, per dimension.
        high: SignedDims,
        /// Elements between, per dimension.
        interior: Dims,
    },
    /// Order of the elements reversed along `dims`.
    Reverse {
        /// Dimensions to reverse.
        dims: Dims,
    },
    /// `gather(operand, start_indices)`: out-of-range starts are clamped.
    Gather(Gather),
    /// `scatter(operand, indices, updates)`: windows that do not fit are skipped. The combiner is a [`Combiner`].
    Scatter(Scatter),
    /// `dot_general(lhs, rhs)`: result dimensions are batch, lhs free, rhs free.
    DotGeneral(DotGeneral),
    /// `convolution(input, kernel)`.
    Convolution(Convolution),
    /// A product or a convolution of the host's, finished before it leaves the cache: `finished(lhs, rhs, scale, bias, addend)`, the
    /// last three where there are any.
    Finished(Box<Finished>),
    /// Reduction of `dims` from the reducer's identity. `arg_max` and `arg_min` take (values, indices) and give a
    /// tuple of both.
    Reduce {
        /// How two elements combine.
        reducer: Reducer,
        /// The dimensions that go away.
        dims: Dims,
    },
    /// `fft`: the discrete Fourier transform over the last dimensions, of so many values each.
    Fft {
        /// From what to what.
        kind: FftKind,
        /// One to three extents: of what goes in, or, of `irfft`, of what comes out.
        lengths: Shape,
    },
    /// A reduction over sliding windows from the reducer's identity; operands and result as for [`Op::Reduce`].
    ReduceWindow {
        /// How two elements combine.
        reducer: Reducer,
        /// The windows.
        window: Window,
    },
    /// `select_and_scatter(operand, source)`: adds each element of `source` to zeros at the position of its window's
    /// maximum, the first one; the last NaN wins, as in PyTorch's pooling. No dilation.
    SelectAndScatter {
        /// The windows.
        window: Window,
    },
    /// Sorts all operands along `dim` by the first. NaN counts as greatest, `-0` equals `0`. One operand gives a
    /// tensor, more give a tuple.
    Sort {
        /// The dimension to sort along.
        dim: usize,
        /// Greatest first.
        descending: bool,
        /// Equal keys keep their order.
        stable: bool,
    },
    /// The `k` greatest of each row of an `f32` matrix, greatest first, and their columns as `i32`, as a tuple. In total order, in
    /// which `-0` is less than `0` and a NaN is beyond the infinity of its sign; of equal ones the first come first. XLA's CPU has
    /// a call of its own for it, which other platforms lack.
    TopK {
        /// How many.
        k: usize,
    },
    /// The operands as they are. What uses a result waits for all of them, and is never merged with what uses the operand
    /// itself. One operand gives a tensor, more give a tuple.
    OptimizationBarrier,
    /// The first operand as it is, in memory, once the others are there, too: the host is asked for it and does nothing
    /// ([`hostcall::BARRIER`]). XLA's CPU forgets the other barrier before it fuses loops. For a program that runs where host
    /// calls are offered.
    HostBarrier,
    /// An elementwise function of floats of 32 or 64 bits that the host computes ([`Unary::hosted`]): another way to the same result,
    /// for a program that runs where host calls are offered.
    HostUnary(Unary),
    /// Likewise of two operands ([`Binary::hosted`]), of which one may be a 0-d tensor, a number for all elements.
    HostBinary(Binary),
    /// Each element with all before it, or behind it, along a dimension, as the host combines them ([`Reducer::hosted`]):
    /// [`Op::ReduceWindow`] said otherwise, for a program that runs where host calls are offered.
    HostScan(Scan),
    /// A scatter that the host computes ([`Scatter::hosted`]), likewise.
    HostScatter(Scatter),
    /// A sort by the first operand that the host computes as far as it is wanted ([`SortedPart::hosted`]), likewise. Gives the keys,
    /// the places in their lanes that they come from if those are wanted, and the other operands.
    HostSort(SortedPart),
    /// What is computed of each row by itself, or of each place of one tensor or of several, which `bodies[0]` says in other ops and the
    /// host passes over once ([`crate::rows::hosted`]), likewise; but for rounding. Gives a tuple of the body's outputs, of which those
    /// that are the next values of inputs are in the memory of the operands.
    HostRows,
    /// What LAPACK has a routine for, which `bodies[0]` says in other ops: another way to the same results, but for rounding and for
    /// what a factorisation leaves open, such as signs. Gives a tuple of the body's outputs.
    Lapack {
        /// What is computed.
        of: Lapack,
        /// Left to the host, for a program that runs where host calls are offered.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        host: bool,
    },
    /// Products of groups of rows, `(x, other, ends)`, which `bodies[0]` says in other ops: another way to the same results, where
    /// each group ends within the rows, and not before it begins. Gives a tuple of the body's output.
    Grouped {
        /// What is multiplied.
        of: Grouped,
        /// Of the factors, as in [`DotGeneral`].
        precision: Precision,
        /// Left to the host, for a program that runs where host calls are offered.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        host: bool,
    },
    /// What a TPU's compiler has a routine for, which `bodies[0]` says in other ops; to a TPU another way to the same results, as
    /// [`Op::Lapack`] is to a host. Gives a tuple of the body's outputs.
    Routine(Routine),
    /// `rng_bit_generator(state)`: `state` is `u64[2]` (key, counter); gives (next state, bits). Threefry 2x32 as
    /// StableHLO's `THREE_FRY`, so that every plugin draws the same bits.
    RngBitGenerator {
        /// `u32` or `u64`.
        dtype: DType,
        /// Extents of the bits.
        shape: Shape,
    },
    /// Carries its operands through `bodies[1]` while `bodies[0]` (to `bool[]`) holds. Both bodies take all carried
    /// values. Gives a tuple of them (of one element, if there is one operand).
    While,
    /// `if(pred, operands...)`: `bodies[0]` when `pred` holds, else `bodies[1]`; both take the operands that follow
    /// `pred`. Gives a tuple of the body's outputs.
    If,
    /// Projects one tensor out of a tuple.
    GetTupleElement {
        /// Which one.
        index: usize,
    },
}

/// Signed counterparts of [`Dims`], for padding.
pub type SignedDims = smallvec::SmallVec<[i64; 6]>;

/// Elementwise ops of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // StableHLO's and CHLO's names
pub enum Unary {
    Abs,
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atanh,
    BesselI1e,
    Cbrt,
    Ceil,
    Cosh,
    Cosine,
    CountLeadingZeros,
    Digamma,
    Erf,
    ErfInv,
    Erfc,
    Exponential,
    ExponentialMinusOne,
    Floor,
    Imag,
    IsFinite,
    Lgamma,
    Log,
    LogPlusOne,
    Logistic,
    Negate,
    Not,
    Popcnt,
    Real,
    RoundNearestEven,
    Rsqrt,
    /// For NaN, NaN; for complex numbers `x / |x|`.
    Sign,
    Sine,
    Sinh,
    Sqrt,
    Tan,
    Tanh,
}

/// Elementwise ops of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Binary {
    Add,
    And,
    Atan2,
    /// Two real operands to one complex result.
    Complex,
    /// Integers truncate towards zero.
    Divide,
    /// NaN if either is NaN.
    Maximum,
    /// NaN if either is NaN.
    Minimum,
    Multiply,
    NextAfter,
    Or,
    Power,
    /// Sign of the dividend.
    Remainder,
    ShiftLeft,
    ShiftRightArithmetic,
    ShiftRightLogical,
    Subtract,
    Xor,
    Zeta,
}

impl Unary {
    /// The host's function, if it has one.
    pub fn hosted(self) -> Option<Function> {
        match self {
            Unary::Acos => Some(Function::Acos),
            Unary::Asin => Some(Function::Asin),
            Unary::Atanh => Some(Function::Atanh),
            Unary::Cosine => Some(Function::Cosine),
            Unary::Erf => Some(Function::Erf),
            Unary::Lgamma => Some(Function::Lgamma),
            Unary::LogPlusOne => Some(Function::LogPlusOne),
            Unary::Sine => Some(Function::Sine),
            Unary::Tan => Some(Function::Tan),
            _ => None,
        }
    }
}

impl Binary {
    /// The host's function, if it has one.
    pub fn hosted(self) -> Option<Function> {
        match self {
            Binary::Atan2 => Some(Function::Atan2),
            Binary::Power => Some(Function::Power),
            Binary::Remainder => Some(Function::Remainder),
            _ => None,
        }
    }
}

/// Comparison directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// Fourier transforms, as StableHLO has them: inverse ones are divided by the number of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FftKind {
    /// Complex to complex.
    Fft,
    /// Its inverse.
    Ifft,
    /// Real to complex: of the last of the dimensions only the first half, `n / 2 + 1` values; the others mirror it.
    Rfft,
    /// Its inverse. What a mirrored spectrum has no room for, such as an imaginary part of its first value, is left out.
    Irfft,
}

/// How two elements combine in a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reducer {
    /// Sum; identity 0.
    Add,
    /// Product; identity 1.
    Multiply,
    /// NaN wins; identity the least value of the type (`-inf` for floats, `false` for `bool`).
    Maximum,
    /// NaN wins; identity the greatest value of the type (`inf` for floats, `true` for `bool`).
    Minimum,
    /// Logical or bitwise and; identity all ones.
    And,
    /// Logical or bitwise or; identity 0.
    Or,
    /// Logical or bitwise exclusive or; identity 0.
    Xor,
    /// Greatest value with its index; NaN wins; among equals (two NaNs too) the smallest index. Identity: that of
    /// `maximum`, with the greatest index.
    ArgMax,
    /// Least value with its index; NaN wins; among equals the smallest index. Identity: that of `minimum`, with the
    /// greatest index.
    ArgMin,
}

/// How a scatter combines what is there with an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Combiner {
    /// The update replaces; among several to one place, one of them does.
    Set,
    Add,
    Multiply,
    Maximum,
    Minimum,
}

impl Combiner {
    /// How an update and what it meets combine; none if it takes the place of that.
    pub fn reducer(self) -> Option<Reducer> {
        match self {
            Combiner::Set => None,
            Combiner::Add => Some(Reducer::Add),
            Combiner::Multiply => Some(Reducer::Multiply),
            Combiner::Maximum => Some(Reducer::Maximum),
            Combiner::Minimum => Some(Reducer::Minimum),
        }
    }
}

/// Precision of `f32` contractions on hardware that has several; the CPU always gives full `f32`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// One bf16 pass on a TPU.
    Default,
    /// Three bf16 passes.
    High,
    /// Full `f32`.
    #[default]
    Highest,
}

/// Dimension numbers of a gather, as in StableHLO.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Gather {
    pub offset_dims: Dims,
    pub collapsed_slice_dims: Dims,
    pub operand_batching_dims: Dims,
    pub start_indices_batching_dims: Dims,
    pub start_index_map: Dims,
    pub index_vector_dim: usize,
    pub slice_sizes: Shape,
}

/// Dimension numbers of a scatter, as in StableHLO.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Scatter {
    pub combiner: Combiner,
    pub update_window_dims: Dims,
    pub inserted_window_dims: Dims,
    pub input_batching_dims: Dims,
    pub scatter_indices_batching_dims: Dims,
    pub scatter_dims_to_operand_dims: Dims,
    pub index_vector_dim: usize,
    /// The caller promises that no place is written twice.
    pub unique_indices: bool,
}

/// Reductions over all windows that end at an element, or begin there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Scan {
    /// How two elements combine.
    pub reducer: Reducer,
    /// Along which dimension.
    pub dim: usize,
    /// Whether the windows begin at the elements.
    pub backwards: bool,
}

impl Scan {
    /// The scan that reduces these windows over a tensor of these extents, if one does.
    pub fn of(reducer: Reducer, window: &Window, shape: &[usize]) -> Option<Scan> {
        let dim = window.size.iter().position(|&size| size > 1)?;
        [false, true].map(|backwards| Scan { reducer, dim, backwards }).into_iter().find(|s| s.window(shape) == *window)
    }

    /// The windows over a tensor of these extents.
    pub fn window(&self, shape: &[usize]) -> Window {
        let mut window = Window::trivial(shape.len());
        let reach = shape[self.dim] as i64 - 1;
        window.size[self.dim] = shape[self.dim];
        window.padding[self.dim] = if self.backwards { (0, reach) } else { (reach, 0) };
        window
    }

    /// As the host computes it of a tensor of this type, if it does: of some elements that it combines.
    pub fn hosted(&self, ty: &TensorType) -> Option<hostcall::Scan> {
        let known = matches!(ty.dtype, DType::F32 | DType::F64 | DType::I32 | DType::I64) && ty.numel() > 0;
        let (before, rest) = ty.shape.split_at_checked(self.dim)?;
        let (&length, behind) = rest.split_first()?;
        let [outer, inner] = [before, behind].map(|extents| extents.iter().product());
        let of = self.reducer.hosted().filter(|_| known)?;
        Some(hostcall::Scan { of, backwards: self.backwards, outer, length, inner })
    }
}

/// Some positions along a dimension of what a stable sort gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SortedPart {
    /// Along which dimension.
    pub dim: usize,
    /// From the greatest to the least, NaN first.
    pub descending: bool,
    /// Whether NaN comes first, too, where it rises.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nan_first: bool,
    /// The first position that is wanted.
    pub start: usize,
    /// The first position after it that is not.
    pub limit: usize,
    /// The type of the places that elements come from, if those are wanted.
    pub places: Option<DType>,
}

impl SortedPart {
    /// The extents of results, of operands of these extents.
    pub fn shape(&self, shape: &[usize]) -> Shape {
        let mut shape = Shape::from_slice(shape);
        shape[self.dim] = self.limit - self.start;
        shape
    }

    /// As the host computes it of tensors of these types, the keys first, if it does.
    pub fn hosted(&self, types: &[&TensorType]) -> Option<hostcall::Sort> {
        let &[keys, ref others @ ..] = types else { return None };
        let (before, rest) = keys.shape.split_at_checked(self.dim)?;
        let (&length, behind) = rest.split_first()?;
        let [outer, inner] = [before, behind].map(|extents| extents.iter().product());
        let known = |dtype| !matches!(dtype, DType::F8E4M3FN | DType::F8E5M2);
        let fits = !keys.dtype.is_complex()
            && types.iter().all(|ty| known(ty.dtype))
            && others.iter().all(|ty| ty.shape == keys.shape)
            && self.places.is_none_or(|dtype| matches!(dtype, DType::I32 | DType::I64))
            && self.start <= self.limit
            && self.limit <= length
            && i32::try_from(length).is_ok();
        let order = match (self.descending, self.nan_first) {
            (true, _) => Order::Falling,
            (false, true) => Order::RisingFromNan,
            (false, false) => Order::Rising,
        };
        let (places, start, limit) = (self.places.is_some(), self.start, self.limit);
        fits.then_some(hostcall::Sort { order, places, outer, length, inner, start, limit })
    }
}

/// Dimension numbers of a contraction.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct DotGeneral {
    pub lhs_batch: Dims,
    pub rhs_batch: Dims,
    pub lhs_contract: Dims,
    pub rhs_contract: Dims,
    pub precision: Precision,
    /// Element type of the result: that of the operands, or a wider accumulator.
    pub out: DType,
    /// Left to the host's BLAS, which must be able to read the operands as they lie ([`DotGeneral::strided`]): another way to
    /// the same result, for a program that runs where a BLAS is offered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub host: bool,
}

/// What the host computes, and what it does to each element of the result before it writes it ([`hostcall::Finish`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Finished {
    /// A [`DotGeneral`], or a [`Convolution`] of images.
    pub of: Op,
    /// Multiplies by a tensor that runs over the [`features`](Finished::features) of the result.
    pub scale: bool,
    /// Then adds one that does.
    pub bias: bool,
    /// Then adds a tensor of the result's type.
    pub addend: bool,
    /// Then takes the larger of that and zero; NaN stays.
    pub relu: bool,
}

impl Finished {
    /// Dimensions of a result of rank `rank` that a bias runs over: a product's free ones of the second operand, of rank `rhs`,
    /// a convolution's features.
    pub fn features(&self, rank: usize, rhs: usize) -> std::ops::Range<usize> {
        match &self.of {
            Op::DotGeneral(d) => rank + d.rhs_batch.len() + d.rhs_contract.len() - rhs..rank,
            Op::Convolution(c) => c.output_feature..c.output_feature + 1,
            _ => 0..0,
        }
    }
}

/// Attributes of a convolution, as in StableHLO. Per spatial dimension unless a scalar.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Convolution {
    pub strides: Dims,
    pub padding: smallvec::SmallVec<[(i64, i64); 3]>,
    pub lhs_dilation: Dims,
    pub rhs_dilation: Dims,
    pub input_batch: usize,
    pub input_feature: usize,
    pub input_spatial: Dims,
    pub kernel_input_feature: usize,
    pub kernel_output_feature: usize,
    pub kernel_spatial: Dims,
    pub output_batch: usize,
    pub output_feature: usize,
    pub output_spatial: Dims,
    pub feature_group_count: usize,
    pub batch_group_count: usize,
    /// Whether windows run backwards along every dimension: StableHLO's `window_reversal`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reversed: bool,
    pub precision: Precision,
    /// Element type of the result, as for [`DotGeneral::out`].
    pub out: DType,
    /// Whether the host computes it, as for [`DotGeneral::host`]: see [`Convolution::windows`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub host: bool,
}

/// Sliding windows, one entry per operand dimension.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Window {
    pub size: Dims,
    pub strides: Dims,
    pub padding: smallvec::SmallVec<[(i64, i64); 6]>,
    pub base_dilation: Dims,
    pub dilation: Dims,
}

impl Window {
    /// Windows of extent 1 everywhere: to be widened dimension by dimension.
    pub fn trivial(rank: usize) -> Window {
        let ones: Dims = std::iter::repeat_n(1, rank).collect();
        Window {
            size: ones.clone(),
            strides: ones.clone(),
            padding: std::iter::repeat_n((0, 0), rank).collect(),
            base_dilation: ones.clone(),
            dilation: ones,
        }
    }
}

impl Reducer {
    /// How the host combines two elements, if it does.
    pub fn hosted(self) -> Option<Combines> {
        match self {
            Reducer::Add => Some(Combines::Sum),
            Reducer::Multiply => Some(Combines::Product),
            Reducer::Maximum => Some(Combines::Greatest),
            Reducer::Minimum => Some(Combines::Least),
            _ => None,
        }
    }

    /// Whether it reduces (value, index) pairs.
    pub fn is_arg(self) -> bool {
        matches!(self, Reducer::ArgMax | Reducer::ArgMin)
    }

    /// What changes no element that it is combined with: of (value, index) pairs the value.
    pub fn identity(self, dtype: DType) -> Literal {
        let number = match self {
            Reducer::Add | Reducer::Or | Reducer::Xor => Number::Int(0),
            Reducer::Multiply => Number::Int(1),
            Reducer::And if dtype == DType::Bool => Number::Bool(true),
            Reducer::And => Number::Int(-1),
            Reducer::Maximum | Reducer::ArgMax => Number::least(dtype),
            Reducer::Minimum | Reducer::ArgMin => Number::greatest(dtype),
        };
        Literal::splat(number, dtype, [])
    }
}
