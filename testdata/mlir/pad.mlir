module @pad {
  func.func public @main(%arg0: tensor<3x4xf32>, %arg1: tensor<f32>) -> tensor<5x7xf32> {
    %0 = "stablehlo.pad"(%arg0, %arg1) {edge_padding_high = array<i64: 3, -2>, edge_padding_low = array<i64: -1, 2>, interior_padding = array<i64: 0, 1>} : (tensor<3x4xf32>, tensor<f32>) -> tensor<5x7xf32>
    return %0 : tensor<5x7xf32>
  }
}
