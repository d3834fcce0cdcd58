//! Random convolutions and nets of them, and the check that formulating keeps what they compute.

mod finishing;

pub(super) use finishing::Finishing;

use super::formulate;
use crate::rules::tests::same;
use crate::{Change, Changes, Class, Options, Platform};
use ir::op::{Convolution, Window};
use ir::ops::sample::data::SplitMix;
use ir::{
    Binary, Builder, DType, Dims, Graph, InputKind, Literal, Loc, Number, Op, OutputKind, Precision, Reducer, Shape,
    TensorType, Unary, ValueId, eval, verify,
};

/// Random choices, told by their seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn bits(&mut self) -> u64 {
        let mut generator = SplitMix(self.0);
        let bits = generator.bits();
        self.0 = generator.0;
        bits
    }
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }
    /// `low..=high`.
    pub(crate) fn within(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }
    pub(crate) fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
    fn permutation(&mut self, n: usize) -> Dims {
        let mut dims: Dims = (0..n).collect();
        (1..n).rev().for_each(|i| dims.swap(i, self.below(i + 1)));
        dims
    }
    fn number(&mut self, special: bool) -> Number {
        match self.below(16) {
            0 if special => Number::Float(f64::NAN),
            1 if special => Number::Float(f64::INFINITY),
            2 if special => Number::Float(f64::NEG_INFINITY),
            3 => Number::Float(-0.0),
            4 => Number::Float(0.0),
            _ => Number::Float(self.below(1 << 16) as f64 / 16384.0 - 2.0),
        }
    }
    /// Values for the inputs of `graph`, NaN and infinities among them if `special`.
    pub(super) fn inputs(&mut self, graph: &Graph, special: bool) -> Vec<Literal> {
        let types: Vec<TensorType> = graph.input_types().map(|t| t.tensor().unwrap().clone()).collect();
        let literal = |t: &TensorType| {
            let bytes: Vec<u8> = (0..t.numel()).flat_map(|_| self.number(special).to_bytes(t.dtype)).collect();
            Literal::dense(t.clone(), bytes).unwrap()
        };
        types.iter().map(literal).collect()
    }
}

/// `graph` formulated, with rewrites of `most` at most; it verifies, and takes and gives what it did.
pub(super) fn formulated(graph: &Graph, most: Class, limit: Option<usize>) -> (Graph, Vec<Change>) {
    formulated_for(Platform::Cpu, graph, most, limit)
}

/// What the host is asked for in calls of rows.
pub(super) fn calls_of_rows(graph: &Graph) -> Vec<&Graph> {
    graph.nodes().iter().filter(|node| node.op == Op::HostRows).map(|node| &*node.bodies[0]).collect()
}

/// As [`formulated`], for a platform.
pub(super) fn formulated_for(
    platform: Platform,
    graph: &Graph,
    most: Class,
    limit: Option<usize>,
) -> (Graph, Vec<Change>) {
    let mut changes = Changes::new(Options { limit, ..Options::new(most, platform) });
    let after = formulate(graph, &mut changes).unwrap();
    verify(&after).unwrap_or_else(|e| panic!("{e:?}\n{}\n{}", ir::text::print(graph), ir::text::print(&after)));
    let faces = |g: &Graph| {
        let inputs: Vec<_> = g.inputs.iter().map(|i| (i.name.clone(), i.kind.clone(), g.ty(i.value).clone())).collect();
        let outputs: Vec<_> =
            g.outputs.iter().map(|o| (o.name.clone(), o.kind.clone(), g.ty(o.value).clone())).collect();
        (g.name.clone(), inputs, outputs)
    };
    assert_eq!(faces(&after), faces(graph));
    (after, changes.into_vec())
}

/// Asserts that both graphs compute the same bits. A NaN is a NaN: which one arithmetic gives is up to the compiler.
#[track_caller]
pub(super) fn assert_same_bits(before: &Graph, after: &Graph, inputs: &[Literal]) {
    for (a, b) in eval(before, inputs).unwrap().iter().zip(&eval(after, inputs).unwrap()) {
        let alike = same(a, b, Class::Exact);
        assert!(alike.is_ok(), "{alike:?}\n{}\n{}", ir::text::print(before), ir::text::print(after));
    }
}

/// Asserts that 500 random graphs compute the same bits formulated for a TPU, of which more than `least` are changed.
#[track_caller]
pub(super) fn keeps_bits_on_a_tpu(graph: impl Fn(&mut Random) -> Graph, least: usize) {
    let mut changed = 0;
    for seed in 0..500 {
        let mut r = Random(seed);
        let graph = graph(&mut r);
        let (after, changes) = formulated_for(Platform::Tpu, &graph, Class::Exact, None);
        changed += usize::from(!changes.is_empty());
        assert_same_bits(&graph, &after, &r.inputs(&graph, true));
    }
    assert!(changed > least, "{changed}");
}

/// Asserts that both graphs compute the same but for rounding: to 1e-5 of the largest value, or 1e-12 for `f64`.
#[track_caller]
pub(super) fn assert_close(before: &Graph, after: &Graph, inputs: &[Literal]) {
    for (a, b) in eval(before, inputs).unwrap().iter().zip(&eval(after, inputs).unwrap()) {
        assert_eq!(a.ty, b.ty);
        let (x, y) = (floats(a), floats(b));
        let largest = x.iter().fold(1.0, |m: f64, v| m.max(v.abs()));
        let within = match a.ty.dtype {
            DType::F64 => 1e-12,
            DType::F32 => 1e-5,
            _ => 1e-2,
        };
        let near = x.iter().zip(&y).all(|(x, y)| (x - y).abs() <= within * largest);
        assert!(near, "{x:?}\n{y:?}\n{}\n{}", ir::text::print(before), ir::text::print(after));
    }
}

fn floats(l: &Literal) -> Vec<f64> {
    let b = Builder::new("widen");
    let v = b.constant(l.clone()).unwrap();
    b.output("y", OutputKind::User, b.convert(v, DType::F64).unwrap());
    let wide = eval(&b.finish(), &[]).unwrap();
    let bytes = wide[0].dense_bytes();
    bytes.as_chunks::<8>().0.iter().map(|c| f64::from_le_bytes(*c)).collect()
}

pub(super) fn at(b: &Builder, line: u32) {
    b.set_loc(&Loc { file: "net.py".into(), line, ..Loc::default() });
}

/// What a random convolution is to be.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Groups {
    None,
    Features(usize),
    /// Few input features in each group, most often one.
    Depthwise,
    Batch(usize),
    /// Few images and output features in each batch group, as in the gradient of a depthwise kernel.
    DepthwiseKernel,
    /// One group, and one window that is as large as the input.
    OneWindow,
}

/// A graph of one convolution with random numbers, windows and types.
pub(super) fn convolution(r: &mut Random, groups: Groups) -> Graph {
    loop {
        if let Some(graph) = try_convolution(r, groups) {
            return graph;
        }
    }
}

fn try_convolution(r: &mut Random, groups: Groups) -> Option<Graph> {
    let n = r.within(1, 3);
    let (batch, per_group, outs) = (r.within(1, 3), r.within(1, 3), r.within(1, 3));
    let (feature_groups, batch_groups, batch, features) = match groups {
        Groups::None | Groups::OneWindow => (1, 1, batch, per_group),
        Groups::Features(g) => (g, 1, batch, g * (per_group + 1)),
        Groups::Depthwise => {
            let g = r.within(2, 4);
            (g, 1, batch, g * r.one_of(&[1, 1, 2, 3]))
        }
        Groups::Batch(g) => (1, g, g * batch, per_group),
        Groups::DepthwiseKernel => {
            let g = r.within(2, 4);
            (1, g, g * r.one_of(&[1, 1, 2, 3]), per_group)
        }
    };
    let outs = outs * feature_groups * batch_groups;
    let (numbers, kernel_numbers, output) = (r.permutation(n + 2), r.permutation(n + 2), r.permutation(n + 2));
    let some = |r: &mut Random, low, high| -> Dims { (0..n).map(|_| r.within(low, high)).collect() };
    let (extents, window) = match groups {
        // As large as the input, in more and fewer than the most parts.
        Groups::DepthwiseKernel => {
            let extents = some(r, 1, if n == 1 { 40 } else { 6 });
            (extents.clone(), extents.iter().map(|&e| r.within(1, e)).collect())
        }
        _ => (some(r, 1, 5), some(r, 1, 3)),
    };
    let c = Convolution {
        strides: some(r, 1, 3),
        padding: (0..n).map(|_| (r.below(4) as i64 - 1, r.below(4) as i64 - 1)).collect(),
        lhs_dilation: some(r, 1, 2),
        rhs_dilation: some(r, 1, 2),
        input_batch: numbers[0],
        input_feature: numbers[1],
        input_spatial: numbers[2..].into(),
        kernel_input_feature: kernel_numbers[0],
        kernel_output_feature: kernel_numbers[1],
        kernel_spatial: kernel_numbers[2..].into(),
        output_batch: output[0],
        output_feature: output[1],
        output_spatial: output[2..].into(),
        feature_group_count: feature_groups,
        batch_group_count: batch_groups,
        reversed: r.below(4) == 0,
        precision: Precision::Default,
        out: DType::F32,
        host: false,
    };
    let dtype = r.one_of(&[DType::F32, DType::F64, DType::BF16, DType::F16]);
    let (c, window) = match groups {
        Groups::OneWindow => over_all(r, c, &extents),
        _ => (c, window),
    };
    let c = Convolution { out: r.one_of(&[dtype.accumulator(), dtype]), ..c };
    let b = Builder::new("convolution");
    at(&b, 7);
    let input = TensorType { dtype, shape: place(&numbers, batch, features, &extents) };
    let kernel = TensorType { dtype, shape: place(&kernel_numbers, features / feature_groups, outs, &window) };
    let x = b.input("x", InputKind::User, input);
    let k = b.input("k", InputKind::Parameter, kernel);
    let y = b.convolution(x, k, c).ok()?;
    b.output("y", OutputKind::User, y);
    Some(b.finish())
}

/// Extents by role, the two that are not in space first, where `numbers` says.
fn place(numbers: &Dims, first: usize, second: usize, space: &[usize]) -> Shape {
    let mut shape: Shape = numbers.iter().map(|_| 0).collect();
    (shape[numbers[0]], shape[numbers[1]]) = (first, second);
    numbers[2..].iter().zip(space).for_each(|(&d, &e)| shape[d] = e);
    shape
}

/// `c` with one window over all of `extents`, and the window's extents.
fn over_all(r: &mut Random, c: Convolution, extents: &Dims) -> (Convolution, Dims) {
    let window: Dims = extents.iter().zip(&c.rhs_dilation).map(|(&e, &d)| (e - 1) / d + 1).collect();
    let ends = (0..extents.len()).map(|i| (window[i] - 1) * c.rhs_dilation[i] + 1);
    let padding = ends.enumerate().map(|(i, end)| (0, end as i64 - extents[i] as i64 + r.below(c.strides[i]) as i64));
    (Convolution { padding: padding.collect(), lhs_dilation: extents.iter().map(|_| 1).collect(), ..c.clone() }, window)
}

/// A graph of one product of tensors of random ranks, contracted over one or two dimensions anywhere.
pub(super) fn product(r: &mut Random) -> Graph {
    let b = Builder::new("product");
    at(&b, 7);
    let dtype = r.one_of(&[DType::F32, DType::F64]);
    let extent = |r: &mut Random, most: usize| if r.below(20) == 0 { r.below(2) } else { r.within(2, most) };
    let contracted: Vec<usize> = (0..r.within(1, 2)).map(|_| extent(r, 8)).collect();
    let operand = |r: &mut Random, name: &str, most: usize| {
        let free: Vec<usize> = (0..r.within(0, 2)).map(|_| extent(r, most)).collect();
        let order = r.permutation(free.len() + contracted.len());
        let extents: Vec<usize> = contracted.iter().chain(&free).copied().collect();
        let shape: Shape = order.iter().map(|&d| extents[d]).collect();
        let places: Vec<usize> = (0..contracted.len()).filter_map(|d| order.iter().position(|&o| o == d)).collect();
        let input = b.input(name, InputKind::User, TensorType { dtype, shape });
        if r.below(3) > 0 || order.len() != 2 {
            return (input, places);
        }
        (b.transpose(input, &[1, 0]).unwrap(), places.into_iter().map(|d| 1 - d).collect())
    };
    let (most_x, most_w) = if r.below(2) == 0 { (2, 16) } else { (16, 2) };
    let (x, over_x) = operand(r, "x", most_x);
    let (w, over_w) = operand(r, "w", most_w);
    b.output("y", OutputKind::User, dot(&b, x, w, &over_x, &over_w));
    b.finish()
}

/// A graph of one product with two batch dimensions, as attention has them, its operands' dimensions in any order and
/// transposed or not.
pub(super) fn batched_product(r: &mut Random) -> Graph {
    let b = Builder::new("attention");
    at(&b, 7);
    let dtype = r.one_of(&[DType::F32, DType::F64]);
    let (batch, heads, depth) = (r.within(1, 3), r.within(1, 3), r.within(4, 24));
    let operand = |r: &mut Random, name: &str| {
        let extents = [batch, heads, depth, r.within(1, 40)];
        let order = r.permutation(4);
        let shape: Shape = order.iter().map(|&d| extents[d]).collect();
        let input = b.input(name, InputKind::User, TensorType { dtype, shape });
        let turn = if r.below(2) == 0 { r.permutation(4) } else { (0..4).collect() };
        let place = |d| turn.iter().position(|&from| order[from] == d).expect("a permutation");
        let turned = b.transpose(input, &turn).unwrap();
        let scaled = |v| b.multiply(v, b.full_like(v, ir::Number::Float(0.37)).unwrap()).unwrap();
        (if r.below(3) == 0 { scaled(turned) } else { turned }, [0, 1, 2].map(place))
    };
    let ((q, over_q), (k, over_k)) = (operand(r, "q"), operand(r, "k"));
    let y = batched_dot(&b, [q, k], [&over_q[..2], &over_k[..2]], [&over_q[2..], &over_k[2..]]);
    b.output("y", OutputKind::User, y);
    b.finish()
}

/// A graph of one convolution whose windows have one element, of images with features last.
pub(super) fn pointwise(r: &mut Random) -> Graph {
    let b = Builder::new("pointwise");
    at(&b, 7);
    let (dtype, n) = (r.one_of(&[DType::F32, DType::F64]), r.within(1, 3));
    let (features, outs, kernel_numbers) = (r.within(8, 24), r.within(8, 24), r.permutation(n + 2));
    let numbers: Dims =
        if r.below(4) == 0 { r.permutation(n + 2) } else { [0, n + 1].into_iter().chain(1..=n).collect() };
    let space: Dims = (0..n).map(|_| r.within(1, 9)).collect();
    let kernel = TensorType { dtype, shape: place(&kernel_numbers, features, outs, &[1, 1, 1][..n]) };
    let input = TensorType { dtype, shape: place(&numbers, r.within(1, 3), features, &space) };
    let gaps = r.below(2) == 0;
    let c = Convolution {
        strides: (0..n).map(|_| if gaps { 1 } else { r.within(1, 2) }).collect(),
        padding: (0..n).map(|_| if gaps { (r.below(4) as i64 - 1, r.below(3) as i64) } else { (0, 0) }).collect(),
        lhs_dilation: (0..n).map(|_| if gaps { r.within(1, 2) } else { 1 }).collect(),
        rhs_dilation: (0..n).map(|_| r.within(1, 2)).collect(),
        input_batch: numbers[0],
        input_feature: numbers[1],
        input_spatial: numbers[2..].into(),
        kernel_input_feature: kernel_numbers[0],
        kernel_output_feature: kernel_numbers[1],
        kernel_spatial: kernel_numbers[2..].into(),
        output_batch: numbers[0],
        output_feature: numbers[1],
        output_spatial: numbers[2..].into(),
        feature_group_count: 1,
        batch_group_count: 1,
        reversed: r.below(4) == 0,
        precision: Precision::Default,
        out: dtype,
        host: false,
    };
    let (x, k) = (b.input("x", InputKind::User, input), b.input("k", InputKind::Parameter, kernel));
    b.output("y", OutputKind::User, b.convolution(x, k, c).unwrap());
    b.finish()
}

/// A graph of one convolution of images with features before space, or of one of its gradients.
pub(super) fn of_images(r: &mut Random) -> Graph {
    loop {
        let (form, n, groups) = (r.below(3), r.within(1, 3), r.one_of(&[1, 1, 2]));
        let (images, channels, features) = (r.within(1, 3), r.within(1, 9), r.within(1, 9));
        let some = |r: &mut Random, low, high| -> Dims { (0..n).map(|_| r.within(low, high)).collect() };
        let (image, window) = (some(r, 1, 9), some(r, 1, 4));
        let dtype = r.one_of(&[DType::F32, DType::F64, DType::F32, DType::F64, DType::BF16, DType::F16]);
        let c = Convolution {
            strides: if form == 1 { some(r, 1, 1) } else { some(r, 1, 3) },
            lhs_dilation: if form == 1 { some(r, 1, 3) } else { some(r, 1, 1) },
            rhs_dilation: some(r, 1, 2),
            padding: (0..n).map(|_| (r.below(6) as i64 - 1, r.below(6) as i64 - 1)).collect(),
            feature_group_count: if form == 2 { 1 } else { groups },
            batch_group_count: if form == 2 { groups } else { 1 },
            ..of_form(form, n, r.one_of(&[dtype, dtype.accumulator()]))
        };
        let first = |dims: [usize; 2], space: &Dims| dims.into_iter().chain(space.iter().copied()).collect::<Shape>();
        let (x, kernel) = match form {
            0 => (first([images, groups * channels], &image), first([groups * features, channels], &window)),
            1 => (first([images, groups * features], &image), first([features, groups * channels], &window)),
            _ => (first([images, groups * channels], &image), first([images, groups * features], &window)),
        };
        let b = Builder::new("of_images");
        at(&b, 7);
        let x = b.input("x", InputKind::User, TensorType { dtype, shape: x });
        let k = b.input("k", InputKind::Parameter, TensorType { dtype, shape: kernel });
        let space: Dims = (2..n + 2).collect();
        let k = if form == 1 && r.below(3) > 0 { b.reverse(k, &space).unwrap() } else { k };
        if let Ok(y) = b.convolution(x, k, c) {
            b.output("y", OutputKind::User, y);
            return b.finish();
        }
    }
}

/// A convolution, the gradient of its input, or of its kernel, over `n` dimensions.
fn of_form(form: usize, n: usize, dtype: DType) -> Convolution {
    let (ones, space): (Dims, Dims) = ((0..n).map(|_| 1).collect(), (2..n + 2).collect());
    let numbers = [[[0, 1], [1, 0], [0, 1]], [[0, 1], [0, 1], [0, 1]], [[1, 0], [0, 1], [1, 0]]];
    let [input, kernel, output] = numbers[form];
    Convolution {
        strides: ones.clone(),
        padding: (0..n).map(|_| (0, 0)).collect(),
        lhs_dilation: ones.clone(),
        rhs_dilation: ones,
        input_batch: input[0],
        input_feature: input[1],
        input_spatial: space.clone(),
        kernel_input_feature: kernel[0],
        kernel_output_feature: kernel[1],
        kernel_spatial: space.clone(),
        output_batch: output[0],
        output_feature: output[1],
        output_spatial: space,
        feature_group_count: 1,
        batch_group_count: 1,
        reversed: false,
        precision: Precision::Default,
        out: dtype,
        host: false,
    }
}

/// A graph of one reduction of a few thousand elements over any dimensions.
pub(super) fn reduction(r: &mut Random) -> Graph {
    let b = Builder::new("reduction");
    at(&b, 7);
    let shape: Shape = (0..r.within(2, 5)).map(|_| r.one_of(&[1, 2, 5, 8, 16, 17])).collect();
    let dims: Dims = (0..shape.len()).filter(|_| r.below(2) == 0).collect();
    let dtype = r.one_of(&[DType::F32, DType::F64, DType::I32, DType::Bool]);
    let reducer = match dtype {
        DType::Bool => r.one_of(&[Reducer::And, Reducer::Or]),
        _ => r.one_of(&[Reducer::Add, Reducer::Multiply, Reducer::Maximum, Reducer::Minimum]),
    };
    let x = b.input("x", InputKind::User, TensorType { dtype, shape });
    b.output("y", OutputKind::User, b.reduce(x, reducer, &dims).unwrap());
    b.finish()
}

/// `l` with its elements repeated, so that many are equal.
pub(super) fn few_kinds(l: &Literal) -> Literal {
    let (bytes, size) = (l.dense_bytes(), l.ty.dtype.size());
    let kinds = (bytes.len() / size).clamp(1, 5) * size;
    let repeated: Vec<u8> = (0..bytes.len()).map(|i| bytes[i % kinds]).collect();
    Literal::dense(l.ty.clone(), repeated).unwrap()
}

/// Asserts that as many random sorts as `seeds` compute the same bits formulated, of few kinds of keys every third time; gives how many
/// `rule` changed.
#[track_caller]
pub(super) fn sorts_keep_bits(seeds: std::ops::Range<u64>, rule: &str, graph: impl Fn(&mut Random) -> Graph) -> usize {
    sorts_keep_bits_for(Platform::Cpu, seeds, rule, graph)
}

/// As [`sorts_keep_bits`], for a platform.
#[track_caller]
pub(super) fn sorts_keep_bits_for(
    platform: Platform,
    seeds: std::ops::Range<u64>,
    rule: &str,
    graph: impl Fn(&mut Random) -> Graph,
) -> usize {
    let mut changed = 0;
    for seed in seeds {
        let mut r = Random(seed);
        let graph = graph(&mut r);
        let (after, changes) = formulated_for(platform, &graph, Class::Exact, None);
        changed += usize::from(changes.iter().any(|change| change.rule == rule));
        let mut inputs = r.inputs(&graph, seed % 2 == 0);
        if seed % 3 == 0 {
            inputs[0] = few_kinds(&inputs[0]);
        }
        assert_same_bits(&graph, &after, &inputs);
    }
    changed
}

/// A graph of one stable sort of random keys along with their positions, or of what only looks like it.
pub(super) fn sort(r: &mut Random) -> Graph {
    sort_of(r, &[1, 8, 17, 40])
}

/// The same, with such extents.
pub(super) fn sort_of(r: &mut Random, extents: &[usize]) -> Graph {
    let b = Builder::new("sort");
    at(&b, 7);
    let shape: Shape = (0..r.within(1, 3)).map(|_| r.one_of(extents)).collect();
    let dim = r.below(shape.len());
    let dtypes =
        [DType::F32, DType::F32, DType::F64, DType::F16, DType::BF16, DType::I32, DType::I8, DType::U8, DType::Bool];
    let keys = TensorType { dtype: r.one_of(&dtypes), shape: shape.clone() };
    let keys = b.input("keys", InputKind::User, keys);
    let along = if r.below(8) == 0 { r.below(shape.len()) } else { dim };
    let places = b.iota(r.one_of(&[DType::I32, DType::I64]), &shape, along).unwrap();
    for (i, &v) in b.sort(&[keys, places], dim, r.below(2) == 0, true).unwrap().iter().enumerate() {
        b.output(format!("y{i}"), OutputKind::User, v);
    }
    b.finish()
}

/// A stable sort of random keys along with their positions, of which a few first ones are read, and of few of them all.
pub(super) fn few_of_a_sort(r: &mut Random) -> Graph {
    let whole = sort_of(r, &[3, 8, 64]);
    let (b, mut at) = (Builder::new("few"), vec![]);
    for node in whole.nodes() {
        at.push(match node.op {
            Op::Input { .. } => b.input("keys", InputKind::User, node.ty.tensor().unwrap().clone()),
            _ => {
                let operands: Vec<ValueId> = node.operands.iter().map(|v| at[v.index()]).collect();
                b.push(node.op.clone(), &operands, vec![]).unwrap()
            }
        });
    }
    let Some(Op::Sort { dim, .. }) = whole.nodes().iter().map(|n| &n.op).find(|op| matches!(op, Op::Sort { .. }))
    else {
        panic!("no sort")
    };
    for (i, output) in whole.outputs.iter().enumerate() {
        let v = at[output.value.index()];
        let v = if r.below(2) == 0 { v } else { b.convert(v, DType::F64).unwrap() };
        let extent = b.shape(v)[*dim];
        let limit = if r.below(10) == 0 { extent } else { 1 + r.below((extent / 8).max(1)) };
        let stride = r.one_of(&[1, 1, 2]);
        let part = b.slice_dim(v, *dim, r.below(limit), limit, stride).unwrap();
        b.output(format!("y{i}"), OutputKind::User, part);
    }
    b.finish()
}

/// A graph of one reduction over the last dimensions, and perhaps others.
pub(super) fn rows(r: &mut Random, reducer: Reducer) -> Graph {
    let b = Builder::new("rows");
    at(&b, 7);
    let length = r.one_of(&[67, 131, 1030]);
    let shape: Shape = match r.below(8) {
        0 => [1 << 16].into_iter().collect(),
        _ => (0..r.within(1, 3)).map(|_| r.one_of(&[1, 3, 8])).chain([length]).collect(),
    };
    let dims: Dims = (0..shape.len()).filter(|&d| d + 1 == shape.len() || r.below(3) == 0).collect();
    let dtype = r.one_of(&[DType::F32, DType::F64]);
    let x = b.input("x", InputKind::User, TensorType { dtype, shape });
    b.output("y", OutputKind::User, b.reduce(x, reducer, &dims).unwrap());
    b.finish()
}

/// The product of `x` and `w` over these dimensions.
pub(super) fn dot(b: &Builder, x: ValueId, w: ValueId, over_x: &[usize], over_w: &[usize]) -> ValueId {
    batched_dot(b, [x, w], [&[], &[]], [over_x, over_w])
}

/// The products of both operands over these dimensions, for each place in those of the batch.
pub(super) fn batched_dot(b: &Builder, [x, y]: [ValueId; 2], batch: [&[usize]; 2], over: [&[usize]; 2]) -> ValueId {
    let [lhs_batch, rhs_batch, lhs_contract, rhs_contract] =
        [batch[0], batch[1], over[0], over[1]].map(Dims::from_slice);
    let (precision, out, host) = (Precision::Default, b.dtype(x), false);
    let numbers = ir::op::DotGeneral { lhs_batch, rhs_batch, lhs_contract, rhs_contract, precision, out, host };
    b.dot_general(x, y, numbers).unwrap()
}

/// 2-d, batch first, features second, `same` padding where the window is odd.
pub(super) fn plain(b: &Builder, x: ValueId, outs: usize, window: usize, stride: usize, groups: usize) -> ValueId {
    let t = b.ty(x).unwrap();
    let kernel = TensorType::new(t.dtype, [outs, t.shape[1] / groups, window, window]);
    let k = b.input(format!("w{}", b.input_count()), InputKind::Parameter, kernel);
    b.convolution(x, k, numbers(window, stride, groups, t.dtype)).unwrap()
}

pub(super) fn numbers(window: usize, stride: usize, groups: usize, dtype: DType) -> Convolution {
    let two = |n: usize| -> Dims { [n, n].into_iter().collect() };
    let side = window as i64 / 2;
    Convolution {
        strides: two(stride),
        padding: [(side, side), (side, side)].into_iter().collect(),
        feature_group_count: groups,
        ..of_form(0, 2, dtype)
    }
}

/// A random net of convolutions and what stands between them.
pub(super) fn net(r: &mut Random) -> Graph {
    let b = Builder::new("net");
    let dtype = r.one_of(&[DType::F32, DType::F64]);
    at(&b, 1);
    let x = b.input("x", InputKind::User, TensorType::new(dtype, [2, 3, r.within(3, 5), 4]));
    let mut values = vec![plain(&b, x, 4, 3, 1, 1), x];
    for line in 2..r.within(4, 14) as u32 {
        at(&b, line);
        let x = values[r.below(values.len())];
        let more = step(r, &b, x, &values);
        values.push(more);
    }
    let last = plain(&b, values[0], 2, 1, 1, 1);
    for (i, &v) in values.iter().enumerate().filter(|_| r.below(3) == 0) {
        b.output(format!("y{i}"), OutputKind::User, v);
    }
    b.output("last", OutputKind::User, last);
    b.output("end", OutputKind::User, values[values.len() - 1]);
    b.finish()
}

fn step(r: &mut Random, b: &Builder, x: ValueId, values: &[ValueId]) -> ValueId {
    let t = b.ty(x).unwrap();
    let like = |r: &mut Random| {
        let alike: Vec<ValueId> = values.iter().copied().filter(|&v| b.ty(v).unwrap() == t).collect();
        alike[r.below(alike.len())]
    };
    let done = match r.below(17) {
        0 => Ok(plain(b, x, r.within(1, 4), r.one_of(&[1, 3]), r.within(1, 2), 1)),
        1 => b.unary(Unary::Tanh, x),
        2 => b.add(x, like(r)),
        3 => b.full(Number::Float(0.5), t.dtype, &t.shape).and_then(|half| b.maximum(x, half)),
        4 => b
            .reduce(x, Reducer::Add, &[0, 2, 3])
            .and_then(|sums| b.broadcast_in_dim(sums, &t.shape, &[1]))
            .and_then(|s| b.multiply(x, s)),
        5 => b
            .reduce(x, r.one_of(&[Reducer::Add, Reducer::Maximum]), &[1])
            .and_then(|m| b.broadcast_in_dim(m, &t.shape, &[0, 2, 3])),
        6 => b.reduce(x, Reducer::Add, &[1, 2, 3]).and_then(|m| b.broadcast_in_dim(m, &t.shape, &[0])),
        7 => b.transpose(x, &r.permutation(4)),
        8 => b.concatenate(&[x, like(r)], r.below(4)),
        9 => b.reverse(x, &[r.below(2), r.within(2, 3)]),
        10 => pad(r, b, x),
        11 => b.slice_dim(x, r.below(4), 0, 1, 1),
        12 => reduce_window(r, b, x),
        13 => b.compare(ir::Comparison::Lt, x, like(r)).and_then(|p| b.select(p, x, like(r))),
        14 => b
            .iota(DType::I64, &t.shape, r.below(4))
            .and_then(|i| b.convert(i, t.dtype))
            .and_then(|i| b.binary(Binary::Subtract, x, i)),
        15 => contraction(r, b, x),
        _ => b
            .reshape(x, &[t.shape[0] * t.shape[1], t.shape[2], t.shape[3]])
            .and_then(|f| b.unary(Unary::Abs, f))
            .and_then(|f| b.reshape(f, &t.shape)),
    };
    done.unwrap()
}

fn pad(r: &mut Random, b: &Builder, x: ValueId) -> ir::Result<ValueId> {
    let value = b.scalar(Number::Float(0.25), b.dtype(x))?;
    let some = |r: &mut Random| -> Vec<i64> { (0..4).map(|_| r.below(2) as i64).collect() };
    let interior: Vec<usize> = (0..4).map(|_| r.below(2)).collect();
    b.pad(x, value, &some(r), &some(r), &interior)
}

fn reduce_window(r: &mut Random, b: &Builder, x: ValueId) -> ir::Result<ValueId> {
    let mut window = Window::trivial(4);
    let d = r.below(4);
    (window.size[d], window.size[3], window.strides[2]) = (2, 2, 2);
    (window.padding[d], window.padding[3]) = ((1, 0), (0, 1));
    match r.below(3) {
        0 => b.reduce_window(x, Reducer::Add, window),
        1 => b.reduce_window(x, Reducer::Maximum, window),
        _ => {
            let places = b.iota(DType::I64, &b.shape(x), 3)?;
            let op = ir::Op::ReduceWindow { reducer: Reducer::ArgMax, window: window.clone() };
            let both = b.push(op, &[x, places], vec![])?;
            let (most, place) = (b.element(both, 0)?, b.convert(b.element(both, 1)?, b.dtype(x))?);
            window.padding.iter_mut().for_each(|p| *p = (0, 0));
            (window.size[d], window.size[3], window.strides[2]) = (1, 1, 1);
            let scattered = b.push(ir::Op::SelectAndScatter { window }, &[most, place], vec![])?;
            b.add(scattered, most)
        }
    }
}

fn contraction(r: &mut Random, b: &Builder, x: ValueId) -> ir::Result<ValueId> {
    let shape = b.shape(x);
    let batch = r.below(4);
    let contract: Dims = (0..4).filter(|&d| d != batch).skip(r.below(2)).step_by(2).collect();
    let y = b.transpose(x, &[3, 2, 1, 0])?;
    let numbers = ir::op::DotGeneral {
        lhs_batch: [batch].into_iter().collect(),
        rhs_batch: [3 - batch].into_iter().collect(),
        lhs_contract: contract.clone(),
        rhs_contract: contract.iter().map(|&d| 3 - d).collect(),
        precision: Precision::Default,
        out: b.dtype(x),
        host: false,
    };
    let product = b.dot_general(x, y, numbers)?;
    let rest: Dims = (1..b.rank(product)).collect();
    let sums = b.reduce(product, Reducer::Maximum, &rest)?;
    b.broadcast_in_dim(sums, &shape, &[batch])
}
