module @gather {
  func.func public @main(%arg0: tensor<5x3xf32>, %arg1: tensor<2x2xi64>, %arg2: tensor<4x3x5xf32>, %arg3: tensor<3x2x4xi64>) -> (tensor<2x2x3xf32>, tensor<3x2x4xf32>) {
    %0 = "stablehlo.gather"(%arg0, %arg1) {dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 3>} : (tensor<5x3xf32>, tensor<2x2xi64>) -> tensor<2x2x3xf32>
    %1 = "stablehlo.gather"(%arg2, %arg3) {dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [2], operand_batching_dims = [0], start_indices_batching_dims = [2], start_index_map = [2, 1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 2, 1>} : (tensor<4x3x5xf32>, tensor<3x2x4xi64>) -> tensor<3x2x4xf32>
    return %0, %1 : tensor<2x2x3xf32>, tensor<3x2x4xf32>
  }
}
