module @shape {
  func.func public @main(%arg0: tensor<2x1x3xf32>, %arg1: tensor<i1>) -> (tensor<8x15xf32>, tensor<0x2xi1>) {
    %0 = "stablehlo.broadcast_in_dim"(%arg0) {broadcast_dimensions = array<i64: 0, 2, 3>} : (tensor<2x1x3xf32>) -> tensor<2x5x4x3xf32>
    %1 = "stablehlo.transpose"(%0) {permutation = array<i64: 2, 0, 3, 1>} : (tensor<2x5x4x3xf32>) -> tensor<4x2x3x5xf32>
    %2 = "stablehlo.reshape"(%1) : (tensor<4x2x3x5xf32>) -> tensor<8x15xf32>
    %3 = "stablehlo.broadcast_in_dim"(%arg1) {broadcast_dimensions = array<i64>} : (tensor<i1>) -> tensor<0x2xi1>
    return %2, %3 : tensor<8x15xf32>, tensor<0x2xi1>
  }
}
