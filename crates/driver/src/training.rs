//! What a program trains: the gradients that slices would have to exchange.

use ir::sharding::Partition;
use ir::{Graph, InputKind, TensorType};
use report::Training;
use rustc_hash::FxHashSet;

/// What one slice trains with the program: the parameters that it updates in place, on one device or over a partition.
pub(crate) fn of(graph: &Graph, partition: Option<&Partition>) -> Training {
    let updated: FxHashSet<usize> = graph.mutated_inputs().into_iter().collect();
    let mut training = Training { batch: batch(graph), ..Training::default() };
    for (number, input) in graph.inputs.iter().enumerate() {
        let Some(ty) = graph.tensor_type(input.value) else { continue };
        if input.kind != InputKind::Parameter || !updated.contains(&number) || !ty.dtype.is_float() {
            continue;
        }
        let sharding = partition.and_then(|it| Some((it.mesh(), it.inputs().get(number)?)));
        let shape = sharding.map_or_else(|| ty.shape.clone(), |(mesh, it)| it.shard_shape(mesh, &ty.shape));
        training.parameters += 1;
        training.gradient_bytes += ty.size_in_bytes() as u64;
        training.device_gradient_bytes += TensorType { dtype: ty.dtype, shape }.size_in_bytes() as u64;
    }
    training
}

/// The first extent of the user's tensors, if it is the same for all.
fn batch(graph: &Graph) -> Option<u64> {
    let given = graph.inputs.iter().filter(|input| input.kind == InputKind::User);
    let mut extents = given.filter_map(|input| graph.tensor_type(input.value)?.shape.first().copied());
    let first = extents.next()?;
    extents.all(|extent| extent == first).then_some(first as u64)
}
