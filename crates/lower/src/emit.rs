//! The one match from core ops to StableHLO.

use crate::attr::MESH;
use crate::chains;
use crate::constant::{filled, zeros};
use crate::scope::{Instruction, MlirType, Scope, V, Values, internal};
use crate::session::Session;
use hostcall::{Finish, Function, Grouped, Lapack, Product};
use ir::op::{Convolution, DotGeneral, Finished, Gather, Scan, Scatter, SortedPart, Window};
use ir::overwrite::may_read_overwritten;
use ir::sharding::Mesh;
use ir::{
    Binary, Comparison, DType, Error, Graph, Literal, LocId, Node, Number, Op, OutputKind, Precision, Reducer, Result,
    Routine, TensorType, Type,
};
use melior::ir::attribute::{BoolAttribute, StringAttribute, TypeAttribute};
use melior::ir::block::BlockLike;
use melior::ir::operation::{Operation, OperationBuilder, OperationMutLike};
use melior::ir::r#type::FunctionType;

use melior::ir::{Attribute, Block, Identifier, Location, Module, Region, RegionLike};
use smallvec::{SmallVec, smallvec};

/// What the host computes.
const CALL: &str = "stablehlo.custom_call";
/// What XLA's CPU compiler calls its own selection of the greatest.
const TOP_K: &str = "TopK";

/// How deep `while` and `if` may nest; emission and MLIR's own passes recurse by it.
const MAX_DEPTH: usize = 64;

/// `graph` as a module with one public function, `@main`.
///
/// `aliased[i]` is the result that takes argument `i`'s memory.
pub(crate) fn module<'c>(session: &Session<'c>, graph: &Graph, aliased: &[Option<usize>]) -> Result<Module<'c>> {
    let unknown = Location::unknown(session.context);
    let mut module = Module::new(unknown);
    if session.options.locations && !graph.name.is_empty() {
        let name = StringAttribute::new(session.context, &graph.name).into();
        module.as_operation_mut().set_attribute("sym_name", name);
    }
    let inputs = types(session, graph.input_types())?;
    let results = types(session, graph.output_types())?;
    let block = Block::new(&inputs.iter().map(|&t| (t, unknown)).collect::<Vec<_>>());
    let region = Region::new();
    let scope = Scope { session, block: region.append_block(block), location: unknown, depth: 0 };
    let outputs = scope.graph(graph, &scope.arguments(inputs.len())?)?;
    scope.push(Instruction::new("func.return").operands(&outputs), &[])?;

    if let Some(partition) = &session.options.partition {
        module.body().append_operation(mesh(session, partition.mesh())?);
    }
    let id = |name| Identifier::new(session.context, name);
    let signature = FunctionType::new(session.context, &inputs, &results).into();
    let mut attributes: Vec<(Identifier<'c>, Attribute<'c>)> = vec![
        (id("sym_name"), StringAttribute::new(session.context, "main").into()),
        (id("sym_visibility"), StringAttribute::new(session.context, "public").into()),
        (id("function_type"), TypeAttribute::new(signature).into()),
    ];
    attributes.extend(session.arguments(aliased)?.map(|all| (id("arg_attrs"), all)));
    attributes.extend(session.results()?.map(|all| (id("res_attrs"), all)));
    let function = OperationBuilder::new("func.func", unknown).add_attributes(&attributes).add_regions([region]);
    module.body().append_operation(function.build().map_err(internal)?);
    Ok(module)
}

/// The devices, as the shardings name them.
fn mesh<'c>(session: &Session<'c>, mesh: &Mesh) -> Result<Operation<'c>> {
    let id = |name| Identifier::new(session.context, name);
    let name = StringAttribute::new(session.context, MESH).into();
    OperationBuilder::new("sdy.mesh", Location::unknown(session.context))
        .add_attributes(&[(id("sym_name"), name), (id("mesh"), session.mesh(mesh)?)])
        .build()
        .map_err(internal)
}

/// For each input the output that is its next value.
pub(crate) fn next_values(graph: &Graph) -> Result<Vec<Option<usize>>> {
    let mut aliased = vec![None; graph.inputs.len()];
    for (i, output) in graph.outputs.iter().enumerate() {
        let OutputKind::Mutation(input) = output.kind else { continue };
        let Some(target) = graph.inputs.get(input) else {
            return Err(Error::internal(format!("output {} mutates input {input}, which is not there", output.name)));
        };
        if graph.ty(target.value) != graph.ty(output.value) {
            let (from, to) = (graph.ty(target.value), graph.ty(output.value));
            return Err(Error::internal(format!("{} turns from {from} into {to}", target.name)));
        }
        if aliased[input].replace(i).is_some() {
            return Err(Error::internal(format!("{} has two next values", target.name)));
        }
    }
    Ok(aliased)
}

fn types<'t, 'c>(session: &Session<'c>, types: impl Iterator<Item = &'t Type>) -> Result<Vec<MlirType<'c>>> {
    types.map(|t| session.tensor(tensor(t)?)).collect()
}

fn tensor(ty: &Type) -> Result<&TensorType> {
    ty.tensor().ok_or_else(|| Error::internal(format!("a tuple {ty} stands where a tensor belongs")))
}

/// The values of a graph's nodes: several for a tuple.
struct Emitted<'c> {
    values: Vec<V<'c>>,
    ends: Vec<usize>,
}

impl<'c> Emitted<'c> {
    fn of(&self, v: ir::ValueId) -> Result<&[V<'c>]> {
        let i = v.index();
        let Some(&end) = self.ends.get(i) else {
            return Err(Error::internal(format!("{v} is used before it is made")));
        };
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        Ok(&self.values[start..end])
    }

    fn one(&self, v: ir::ValueId) -> Result<V<'c>> {
        match self.of(v)? {
            [only] => Ok(*only),
            many => Err(Error::internal(format!("{v} is a tuple of {}", many.len()))),
        }
    }
}

/// The truth values that `v`, a float, is, converted by way of whatever type.
fn mask(graph: &Graph, v: ir::ValueId) -> Option<ir::ValueId> {
    let dtype = |v| graph.tensor_type(v).map(|t| t.dtype);
    let mut of = v;
    while dtype(of)? != DType::Bool {
        let node = graph.node(of);
        of = *node.operands.first().filter(|_| matches!(node.op, Op::Convert { .. }))?;
    }
    dtype(v)?.is_float().then_some(of)
}

impl<'s, 'c> Scope<'s, 'c> {
    /// Appends all nodes of `graph`, its inputs being `inputs`; the values of its outputs.
    fn graph(&self, graph: &Graph, inputs: &[V<'c>]) -> Result<Values<'c>> {
        if self.depth > MAX_DEPTH {
            return Err(Error::invalid(format!("bodies nest deeper than {MAX_DEPTH} levels")));
        }
        let locations: Vec<Location<'c>> = graph.locs.iter().map(|loc| self.session.location(loc, "")).collect();
        // Bodies of loops and branches are of no region of their own.
        let regions = if self.depth == 0 { &self.session.options.regions[..] } else { &[] };
        let nodes = graph.nodes();
        let hidden = chains::hidden(graph);
        let mut emitted = Emitted { values: Vec::with_capacity(nodes.len()), ends: Vec::with_capacity(nodes.len()) };
        for (i, node) in nodes.iter().enumerate() {
            let location = match regions.get(i) {
                Some(region) => self.session.location(graph.locs.get(node.loc), region),
                None => locations.get(node.loc.index()).copied().unwrap_or(self.location),
            };
            let scope = Scope { session: self.session, block: self.block, location, depth: self.depth };
            let results = scope.node(graph, node, hidden[i], inputs, &emitted).map_err(|e| {
                let loc = graph.locs.get(node.loc);
                if node.loc == LocId::UNKNOWN { e } else { e.at(&loc.op, loc) }
            })?;
            emitted.values.extend(results);
            emitted.ends.push(emitted.values.len());
        }
        graph.outputs.iter().map(|o| emitted.one(o.value)).collect()
    }

    /// The values of one node. The operand `hidden`, if one is, goes behind a barrier.
    fn node(
        &self,
        graph: &Graph,
        node: &Node,
        hidden: Option<usize>,
        inputs: &[V<'c>],
        emitted: &Emitted<'c>,
    ) -> Result<Values<'c>> {
        match node.op {
            Op::Input { index } => {
                let input = inputs.get(index).ok_or_else(|| Error::internal(format!("there is no input {index}")))?;
                return Ok(smallvec![*input]);
            }
            Op::GetTupleElement { index } => {
                let tuple = node.operands.first().ok_or_else(|| internal("get_tuple_element of nothing"))?;
                let part = emitted.of(*tuple)?.get(index).copied();
                return Ok(smallvec![part.ok_or_else(|| Error::internal(format!("{tuple} has no element {index}")))?]);
            }
            _ => {}
        }
        let mut operands: Values<'c> = node.operands.iter().map(|&v| emitted.one(v)).collect::<Result<_>>()?;
        let operand_types: SmallVec<[&TensorType; 4]> =
            node.operands.iter().map(|&v| tensor(graph.ty(v))).collect::<Result<_>>()?;
        if let Some(i) = hidden {
            operands[i] = self.elementwise("stablehlo.optimization_barrier", &[operands[i]], operand_types[i])?;
        }
        if node.op == Op::Binary(Binary::Multiply)
            && let Some((by, mask)) = node.operands.iter().enumerate().find_map(|(i, &v)| Some((i, mask(graph, v)?)))
        {
            return Ok(smallvec![self.masked(operands[1 - by], emitted.one(mask)?, operand_types[by])?]);
        }
        if node.op == Op::DynamicUpdateSlice && may_read_overwritten(graph, &node.operands) {
            return self.chosen_update(&operands, &operand_types);
        }
        self.op(node, &operands, &operand_types)
    }

    /// `dynamic_update_slice` as a choice between the new elements and the old ones, which are not written over then.
    fn chosen_update(&self, args: &[V<'c>], types: &[&TensorType]) -> Result<Values<'c>> {
        let ([base, v, starts @ ..], [whole, part, ..]) = (args, types) else {
            return Err(internal("takes two operands and positions"));
        };
        let placed = |number, ty: &TensorType, v| {
            let among = self.constant(&filled(number, ty))?;
            self.elementwise("stablehlo.dynamic_update_slice", &[&[among, v], starts].concat(), ty)
        };
        let of_truth = |ty: &TensorType| TensorType { dtype: DType::Bool, shape: ty.shape.clone() };
        let new = placed(Number::Int(0), whole, *v)?;
        let here = self.constant(&filled(Number::Bool(true), &of_truth(part)))?;
        let mask = placed(Number::Bool(false), &of_truth(whole), here)?;
        Ok(smallvec![self.elementwise("stablehlo.select", &[mask, new, *base], whole)?])
    }

    /// The match. Every op that has operands of its own kind is an [`Instruction`]; its results are typed by the node.
    fn op(&self, node: &Node, args: &[V<'c>], types: &[&TensorType]) -> Result<Values<'c>> {
        let s = self.session;
        let hlo = |name| Instruction::new(name).operands(args);
        let instruction = match &node.op {
            Op::Input { .. } | Op::GetTupleElement { .. } => return Err(internal("handled with the node")),
            Op::Constant(literal) => hlo("stablehlo.constant").with("value", s.dense(literal)?),
            Op::Iota { dim, .. } => hlo("stablehlo.iota").with("iota_dimension", s.index(*dim)?),
            Op::Unary(u) => {
                let ([x], [ty]) = (args, types) else { return Err(internal("takes one operand")) };
                return Ok(smallvec![self.unary(*u, *x, ty, tensor(&node.ty)?)?]);
            }
            Op::Binary(b) => {
                let ([x, y], [ty, _]) = (args, types) else { return Err(internal("takes two operands")) };
                return Ok(smallvec![self.binary(*b, *x, *y, ty, tensor(&node.ty)?)?]);
            }
            Op::Compare(c) => hlo("stablehlo.compare")
                .with("comparison_direction", s.comparison_direction(*c)?)
                .with("compare_type", s.comparison_type(first(types)?.dtype)?),
            Op::Select => hlo("stablehlo.select"),
            Op::Convert { dtype: DType::Bool } => return self.truth(args, types),
            Op::Convert { dtype: DType::F8E4M3FN } => {
                let ([x], [ty]) = (args, types) else { return Err(internal("takes one operand")) };
                return Ok(smallvec![self.saturated(*x, ty, tensor(&node.ty)?)?]);
            }
            Op::Convert { .. } => hlo("stablehlo.convert"),
            Op::BitcastConvert { .. } => hlo("stablehlo.bitcast_convert"),
            Op::BroadcastInDim { dims, .. } => {
                hlo("stablehlo.broadcast_in_dim").with("broadcast_dimensions", s.indices(dims)?)
            }
            Op::Reshape { .. } => hlo("stablehlo.reshape"),
            Op::Transpose { permutation } => hlo("stablehlo.transpose").with("permutation", s.indices(permutation)?),
            Op::Slice { start, limit, stride } => hlo("stablehlo.slice")
                .with("start_indices", s.indices(start)?)
                .with("limit_indices", s.indices(limit)?)
                .with("strides", s.indices(stride)?),
            Op::DynamicSlice { sizes } => hlo("stablehlo.dynamic_slice").with("slice_sizes", s.indices(sizes)?),
            Op::DynamicUpdateSlice => hlo("stablehlo.dynamic_update_slice"),
            Op::Concatenate { dim } => hlo("stablehlo.concatenate").with("dimension", s.index(*dim)?),
            Op::Pad { low, high, interior } => hlo("stablehlo.pad")
                .with("edge_padding_low", s.integers(low))
                .with("edge_padding_high", s.integers(high))
                .with("interior_padding", s.indices(interior)?),
            Op::Reverse { dims } => hlo("stablehlo.reverse").with("dimensions", s.indices(dims)?),
            Op::Gather(g) => self.gather(hlo("stablehlo.gather"), g)?,
            Op::Scatter(x) => self.scatter(hlo("stablehlo.scatter"), x, first(types)?.dtype)?,
            Op::DotGeneral(d) if d.host => self.host_product(hlo(CALL), d, types, Finish::default())?,
            Op::DotGeneral(d) => self.dot_general(hlo("stablehlo.dot_general"), d, first(types)?.dtype)?,
            Op::Convolution(c) if c.host => self.host_convolution(hlo(CALL), c, types, Finish::default())?,
            Op::Convolution(c) => self.convolution(hlo("stablehlo.convolution"), c, first(types)?.dtype)?,
            Op::Finished(f) => self.finished(hlo(CALL), f, types)?,
            Op::Reduce { reducer, dims } => {
                self.reduction("stablehlo.reduce", *reducer, args, types)?.with("dimensions", s.indices(dims)?)
            }
            Op::ReduceWindow { reducer, window } => {
                let reduction = self.reduction("stablehlo.reduce_window", *reducer, args, types)?;
                self.windowed(reduction, window)?
                    .with("base_dilations", s.indices(&window.base_dilation)?)
                    .with("window_dilations", s.indices(&window.dilation)?)
            }
            Op::SelectAndScatter { window } => return self.select_and_scatter(args, types, window),
            Op::Sort { dim, descending, stable } => self.sort(*dim, *descending, *stable, args, types)?,
            Op::Fft { kind, lengths } => {
                hlo("stablehlo.fft").with("fft_type", s.fft_type(*kind)?).with("fft_length", s.indices(lengths)?)
            }
            Op::TopK { .. } => hlo(CALL)
                .with("call_target_name", StringAttribute::new(s.context, TOP_K).into())
                .with("api_version", s.plain_call()?),
            Op::OptimizationBarrier => hlo("stablehlo.optimization_barrier"),
            Op::HostBarrier
            | Op::HostUnary(_)
            | Op::HostBinary(_)
            | Op::HostScan(_)
            | Op::HostScatter(_)
            | Op::HostSort(_) => self.asked_of_the_host(hlo(CALL), &node.op, types)?,
            Op::RngBitGenerator { .. } => hlo("stablehlo.rng_bit_generator").with("rng_algorithm", s.three_fry()?),
            Op::HostRows => self.host_rows(hlo(CALL), node, types)?,
            Op::Lapack { of, host: true } => {
                self.host_tuple(hlo(CALL), Lapack::TARGET, &of.encode(), types, &node.ty)?
            }
            Op::Grouped { of, host: true, .. } => {
                self.host_tuple(hlo(CALL), Grouped::TARGET, &of.encode(), types, &node.ty)?
            }
            Op::Lapack { .. } | Op::Grouped { .. } => return self.said_in_ops(node, args),
            Op::Routine(of) => self.routine(*of, args, types)?,
            Op::While => self.while_loop(node, args)?,
            Op::If => self.branch(node, args)?,
        };
        self.results(instruction, &node.ty)
    }

    /// Conversion to `bool`: `x != 0`.
    fn truth(&self, args: &[V<'c>], types: &[&TensorType]) -> Result<Values<'c>> {
        let ([x], [ty]) = (args, types) else { return Err(internal("takes one operand")) };
        let zero = self.constant(&zeros(ty))?;
        Ok(smallvec![self.compare(Comparison::Ne, ty, *x, zero)?])
    }

    fn gather(&self, i: Instruction<'c>, g: &Gather) -> Result<Instruction<'c>> {
        let s = self.session;
        Ok(i.with("dimension_numbers", s.gather(g)?)
            .with("slice_sizes", s.indices(&g.slice_sizes)?)
            .with("indices_are_sorted", s.boolean(false)))
    }

    fn scatter(&self, i: Instruction<'c>, x: &Scatter, dtype: DType) -> Result<Instruction<'c>> {
        let s = self.session;
        let body = self.scalar_region(&[dtype; 2], |body, args| match args {
            [old, update] => Ok(smallvec![body.combiner(x.combiner, dtype, *old, *update)?]),
            _ => Err(internal("a combiner takes two values")),
        })?;
        Ok(i.with("scatter_dimension_numbers", s.scatter(x)?)
            .with("indices_are_sorted", s.boolean(false))
            .with("unique_indices", s.boolean(x.unique_indices))
            .region(body))
    }

    fn dot_general(&self, i: Instruction<'c>, d: &DotGeneral, dtype: DType) -> Result<Instruction<'c>> {
        let s = self.session;
        Ok(i.with("dot_dimension_numbers", s.dot(d)?).with("precision_config", s.precision_config(d.precision, dtype)?))
    }

    fn finished(&self, i: Instruction<'c>, f: &Finished, types: &[&TensorType]) -> Result<Instruction<'c>> {
        let finish = Finish { scale: f.scale, bias: f.bias, addend: f.addend, relu: f.relu };
        match &f.of {
            Op::DotGeneral(d) => self.host_product(i, d, types, finish),
            Op::Convolution(c) => self.host_convolution(i, c, types, finish),
            of => Err(Error::internal(format!("the host has no {of:?}"))),
        }
    }

    fn host_product(
        &self,
        i: Instruction<'c>,
        d: &DotGeneral,
        types: &[&TensorType],
        finish: Finish,
    ) -> Result<Instruction<'c>> {
        let &[lhs, rhs, ..] = types else { return Err(internal("takes two operands")) };
        let product = d.strided(lhs, rhs).ok_or_else(|| internal("no BLAS takes it"))?;
        let out = lhs.rank() + rhs.rank() - d.lhs_batch.len() - 2 * d.lhs_contract.len();
        self.host_call(i, Product::TARGET, &finish.encode(product.encode()), types, &[out])
    }

    fn host_convolution(
        &self,
        i: Instruction<'c>,
        c: &Convolution,
        types: &[&TensorType],
        finish: Finish,
    ) -> Result<Instruction<'c>> {
        let &[x, kernel, ..] = types else { return Err(internal("takes two operands")) };
        let windows = c.windows(x, kernel).ok_or_else(|| internal("the host has no such convolution"))?;
        self.host_call(i, hostcall::Convolution::TARGET, &finish.encode(windows.encode()), types, &[x.rank()])
    }

    /// What no other op says. By itself, as bodies of loops nest by way of [`Scope::op`], whose frames are the larger the more it does.
    fn asked_of_the_host(&self, i: Instruction<'c>, op: &Op, types: &[&TensorType]) -> Result<Instruction<'c>> {
        match op {
            Op::HostUnary(u) => self.host_function(i, u.hosted(), types),
            Op::HostBinary(b) => self.host_function(i, b.hosted(), types),
            Op::HostScan(scan) => self.host_scan(i, *scan, types),
            Op::HostScatter(scatter) => self.host_scatter(i, scatter, types),
            Op::HostSort(part) => self.host_sort(i, part, types),
            _ => self.host_barrier(i, types),
        }
    }

    fn host_function(
        &self,
        i: Instruction<'c>,
        function: Option<Function>,
        types: &[&TensorType],
    ) -> Result<Instruction<'c>> {
        let function = function.ok_or_else(|| internal("the host has no such function"))?;
        let out = types.iter().map(|ty| ty.rank()).max().unwrap_or_default();
        self.host_call(i, Function::TARGET, &function.encode(), types, &[out])
    }

    fn host_scan(&self, i: Instruction<'c>, scan: Scan, types: &[&TensorType]) -> Result<Instruction<'c>> {
        let ty = first(types)?;
        let call = scan.hosted(ty).ok_or_else(|| internal("the host has no such scan"))?;
        self.host_call(i, hostcall::Scan::TARGET, &call.encode(), types, &[ty.rank()])
    }

    fn host_scatter(&self, i: Instruction<'c>, x: &Scatter, types: &[&TensorType]) -> Result<Instruction<'c>> {
        let &[a, indices, updates] = types else { return Err(internal("takes three operands")) };
        let call = x.hosted(a, indices, updates).ok_or_else(|| internal("the host has no such scatter"))?;
        let i = self.host_call(i, hostcall::Scatter::TARGET, &call.encode(), types, &[a.rank()])?;
        Ok(i.with("output_operand_aliases", self.session.whole_alias()?))
    }

    fn host_sort(&self, i: Instruction<'c>, part: &SortedPart, types: &[&TensorType]) -> Result<Instruction<'c>> {
        let call = part.hosted(types).ok_or_else(|| internal("the host has no such sort"))?;
        let ranks: SmallVec<[usize; 4]> = types.iter().map(|ty| ty.rank()).collect();
        let results = [&ranks[..1], &ranks[..usize::from(call.places)], &ranks[1..]].concat();
        self.host_call(i, hostcall::Sort::TARGET, &call.encode(), types, &results)
    }

    fn host_rows(&self, i: Instruction<'c>, node: &Node, types: &[&TensorType]) -> Result<Instruction<'c>> {
        let ([body], Type::Tuple(results)) = (&node.bodies[..], &node.ty) else {
            return Err(internal("rows are said by one body, and give a tuple"));
        };
        let calls = ir::rows::hosted(body).ok_or_else(|| internal("the host has no such rows"))?;
        let ranks: SmallVec<[usize; 4]> = results.iter().map(|t| t.rank()).collect();
        let numbers = hostcall::Rows::encode_all(&calls);
        let i = self.host_call(i, hostcall::Rows::TARGET, &numbers, types, &ranks)?;
        let takes = |(result, output): (usize, &ir::Output)| output.kind.mutated().map(|operand| (result, operand));
        let takes: Vec<(usize, usize)> = body.outputs.iter().enumerate().filter_map(takes).collect();
        Ok(if takes.is_empty() {
            i
        } else {
            i.with("output_operand_aliases", self.session.aliases(&takes, ranks.len())?)
        })
    }

    /// A call of the host that gives a tuple.
    fn host_tuple(
        &self,
        i: Instruction<'c>,
        target: &str,
        numbers: &[i64],
        types: &[&TensorType],
        ty: &Type,
    ) -> Result<Instruction<'c>> {
        let Type::Tuple(results) = ty else { return Err(internal("gives a tuple")) };
        let ranks: SmallVec<[usize; 4]> = results.iter().map(|t| t.rank()).collect();
        self.host_call(i, target, numbers, types, &ranks)
    }

    /// CHLO's `ragged_dot`.
    fn ragged_dot(
        &self,
        of: Grouped,
        precision: Precision,
        args: &[V<'c>],
        types: &[&TensorType],
    ) -> Result<Instruction<'c>> {
        let dtype = types.first().ok_or_else(|| internal("multiplies nothing"))?.dtype;
        let [numbers, precision] = self.session.ragged_dot(of, precision, dtype)?;
        Ok(Instruction::new("chlo.ragged_dot")
            .operands(args)
            .with("ragged_dot_dimension_numbers", numbers)
            .with("precision_config", precision))
    }

    /// What only a TPU's compiler knows, but for the two that StableHLO has.
    fn routine(&self, of: Routine, args: &[V<'c>], types: &[&TensorType]) -> Result<Instruction<'c>> {
        let s = self.session;
        let truth = |yes: bool| BoolAttribute::new(s.context, yes).into();
        let call = |name: &str| {
            let name = StringAttribute::new(s.context, name).into();
            Instruction::new(CALL).operands(args).with("call_target_name", name)
        };
        Ok(match of {
            Routine::Cholesky => Instruction::new("stablehlo.cholesky").operands(args).with("lower", truth(true)),
            Routine::TriangularSolve { upper, unit } => Instruction::new("stablehlo.triangular_solve")
                .operands(args)
                .with("left_side", truth(true))
                .with("lower", truth(!upper))
                .with("unit_diagonal", truth(unit))
                .with("transpose_a", s.as_it_is()?),
            Routine::Grouped { of, precision } => return self.ragged_dot(of, precision, args, types),
            Routine::Lu => call("LuDecomposition"),
            Routine::Qr => call("Qr"),
            Routine::Reflections => call("ProductOfElementaryHouseholderReflectors"),
            // Lower triangle, sorted, sweeps at most, and what is left beside the diagonal, as JAX asks for them.
            Routine::Eigh => {
                call("Eigh").with("backend_config", StringAttribute::new(s.context, "1,1,100,1e-6").into())
            }
        })
    }

    /// A call that gives back the memory it was given first.
    fn host_barrier(&self, i: Instruction<'c>, types: &[&TensorType]) -> Result<Instruction<'c>> {
        let s = self.session;
        let ranks: Vec<usize> = types.iter().map(|ty| ty.rank()).collect();
        Ok(i.with("call_target_name", StringAttribute::new(s.context, hostcall::BARRIER).into())
            .with("api_version", s.typed_call()?)
            .with("output_operand_aliases", s.whole_alias()?)
            .with("operand_layouts", s.in_rows(&ranks)?)
            .with("result_layouts", s.in_rows(&ranks[..1])?))
    }

    /// A call of what `runtime` registers, whose operands and results, which have the ranks `outs`, are in rows.
    fn host_call(
        &self,
        i: Instruction<'c>,
        target: &str,
        numbers: &[i64],
        types: &[&TensorType],
        outs: &[usize],
    ) -> Result<Instruction<'c>> {
        let s = self.session;
        let ranks: SmallVec<[usize; 4]> = types.iter().map(|t| t.rank()).collect();
        Ok(i.with("call_target_name", StringAttribute::new(s.context, target).into())
            .with("api_version", s.typed_call()?)
            .with("backend_config", s.named_integers(hostcall::ATTRIBUTE, numbers)?)
            .with("operand_layouts", s.in_rows(&ranks)?)
            .with("result_layouts", s.in_rows(outs)?))
    }

    fn convolution(&self, i: Instruction<'c>, c: &Convolution, dtype: DType) -> Result<Instruction<'c>> {
        let s = self.session;
        Ok(i.with("window_strides", s.indices(&c.strides)?)
            .with("padding", s.padding(&c.padding))
            .with("lhs_dilation", s.indices(&c.lhs_dilation)?)
            .with("rhs_dilation", s.indices(&c.rhs_dilation)?)
            .with("window_reversal", s.booleans(c.strides.len(), c.reversed)?)
            .with("dimension_numbers", s.conv(c)?)
            .with("feature_group_count", s.index(c.feature_group_count)?)
            .with("batch_group_count", s.index(c.batch_group_count)?)
            .with("precision_config", s.precision_config(c.precision, dtype)?))
    }

    fn reduction(
        &self,
        name: &'static str,
        reducer: Reducer,
        args: &[V<'c>],
        types: &[&TensorType],
    ) -> Result<Instruction<'c>> {
        let dtypes: SmallVec<[DType; 2]> = types.iter().map(|t| t.dtype).collect();
        let start = |(i, &dtype): (usize, &DType)| match i {
            0 => self.constant(&reducer.identity(dtype)),
            _ => self.constant(&Literal::splat(Number::greatest(dtype), dtype, [])),
        };
        let identities: Values<'c> = dtypes.iter().enumerate().map(start).collect::<Result<_>>()?;
        let pairs: Vec<DType> = [&dtypes[..], &dtypes[..]].concat();
        let body = self.scalar_region(&pairs, |body, args| {
            let (lhs, rhs) = args.split_at(dtypes.len());
            Ok(body.reducer(reducer, &dtypes, lhs, rhs)?.into())
        })?;
        Ok(Instruction::new(name).operands(args).operands(&identities).region(body))
    }

    fn windowed(&self, i: Instruction<'c>, window: &Window) -> Result<Instruction<'c>> {
        let s = self.session;
        Ok(i.with("window_dimensions", s.indices(&window.size)?)
            .with("window_strides", s.indices(&window.strides)?)
            .with("padding", s.padding(&window.padding)))
    }

    /// TPUs want two dimensions that the windows leave alone: leading ones of extent 1 stand in for those that lack.
    fn select_and_scatter(&self, args: &[V<'c>], types: &[&TensorType], window: &Window) -> Result<Values<'c>> {
        let (&[x, source], &[ty, source_ty]) = (args, types) else { return Err(internal("takes two operands")) };
        let rank = window.size.len();
        let idle = (0..rank).filter(|&d| window.size[d] == 1 && window.strides[d] == 1 && window.padding[d] == (0, 0));
        let lacking = 2usize.saturating_sub(idle.count());
        if lacking == 0 {
            return Ok(smallvec![self.scattered(x, source, ty, window)?]);
        }
        let with_ones = |t: &TensorType| {
            let shape = std::iter::repeat_n(1, lacking).chain(t.shape.iter().copied()).collect();
            TensorType { dtype: t.dtype, shape }
        };
        let mut wide = Window::trivial(lacking);
        wide.size.extend_from_slice(&window.size);
        wide.strides.extend_from_slice(&window.strides);
        wide.padding.extend_from_slice(&window.padding);
        let (wide_ty, wide_source) = (with_ones(ty), with_ones(source_ty));
        let x = self.elementwise("stablehlo.reshape", &[x], &wide_ty)?;
        let source = self.elementwise("stablehlo.reshape", &[source], &wide_source)?;
        let scattered = self.scattered(x, source, &wide_ty, &wide)?;
        Ok(smallvec![self.elementwise("stablehlo.reshape", &[scattered], ty)?])
    }

    fn scattered(&self, x: V<'c>, source: V<'c>, ty: &TensorType, window: &Window) -> Result<V<'c>> {
        let dtype = ty.dtype;
        let zero = self.constant(&zeros(&TensorType::new(dtype, [])))?;
        let select = self.scalar_region(&[dtype; 2], |body, args| match args {
            [best, candidate] => Ok(smallvec![body.keeps(dtype, *best, *candidate)?]),
            _ => Err(internal("a selection takes two values")),
        })?;
        let sum = self.scalar_region(&[dtype; 2], |body, args| {
            Ok(body.reducer(Reducer::Add, &[dtype], &args[..1], &args[1..])?.into())
        })?;
        let i = Instruction::new("stablehlo.select_and_scatter").operands(&[x, source, zero]);
        self.single(self.windowed(i, window)?.region(select).region(sum), ty)
    }

    fn sort(
        &self,
        dim: usize,
        descending: bool,
        stable: bool,
        args: &[V<'c>],
        types: &[&TensorType],
    ) -> Result<Instruction<'c>> {
        let s = self.session;
        let key = first(types)?.dtype;
        let pairs: Vec<DType> = types.iter().flat_map(|t| [t.dtype; 2]).collect();
        let comparator = self.scalar_region(&pairs, |body, args| match args {
            [a, b, ..] => Ok(smallvec![body.sorts_before(key, descending, *a, *b)?]),
            _ => Err(internal("a comparator takes two values")),
        })?;
        Ok(Instruction::new("stablehlo.sort")
            .operands(args)
            .with("dimension", s.index(dim)?)
            .with("is_stable", s.boolean(stable))
            .region(comparator))
    }

    /// The ops of a body that says what `node` is, in the place of the node.
    fn said_in_ops(&self, node: &Node, args: &[V<'c>]) -> Result<Values<'c>> {
        let [body] = &node.bodies[..] else { return Err(internal("takes one body")) };
        let inner = Scope { session: self.session, block: self.block, location: self.location, depth: self.depth + 1 };
        inner.graph(body, args)
    }

    fn while_loop(&self, node: &Node, args: &[V<'c>]) -> Result<Instruction<'c>> {
        let mut i = Instruction::new("stablehlo.while").operands(args);
        for body in &node.bodies {
            let inputs = types(self.session, body.input_types())?;
            i = i.region(self.region(&inputs, |scope, args| scope.graph(body, args))?);
        }
        Ok(i)
    }

    /// The regions of an `if` take no arguments: a body's inputs are the operands themselves, captured.
    fn branch(&self, node: &Node, args: &[V<'c>]) -> Result<Instruction<'c>> {
        let [pred, captured @ ..] = args else { return Err(internal("if takes a predicate")) };
        let mut i = Instruction::new("stablehlo.if").operands(&[*pred]);
        for body in &node.bodies {
            i = i.region(self.region(&[], |scope, _| scope.graph(body, captured))?);
        }
        Ok(i)
    }
}

fn first<'t>(types: &[&'t TensorType]) -> Result<&'t TensorType> {
    types.first().copied().ok_or_else(|| internal("the op has no operand"))
}
