module @dynamic_slice {
  func.func public @main(%arg0: tensor<5x7xf32>, %arg1: tensor<i64>, %arg2: tensor<i64>) -> (tensor<2x3xf32>, tensor<5x7xf32>) {
    %0 = "stablehlo.dynamic_slice"(%arg0, %arg1, %arg2) {slice_sizes = array<i64: 2, 3>} : (tensor<5x7xf32>, tensor<i64>, tensor<i64>) -> tensor<2x3xf32>
    %1 = "stablehlo.dynamic_update_slice"(%arg0, %0, %arg2, %arg1) : (tensor<5x7xf32>, tensor<2x3xf32>, tensor<i64>, tensor<i64>) -> tensor<5x7xf32>
    return %0, %1 : tensor<2x3xf32>, tensor<5x7xf32>
  }
}
