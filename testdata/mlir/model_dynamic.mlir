module @main {
  func.func public @main(%arg0: tensor<4x6xf32>, %arg1: tensor<5x6xf32>, %arg2: tensor<i64>) -> (tensor<9x6xf32>, tensor<3x6xf32>) {
    %0 = "stablehlo.concatenate"(%arg0, %arg1) {dimension = 0 : i64} : (tensor<4x6xf32>, tensor<5x6xf32>) -> tensor<9x6xf32>
    %1 = "stablehlo.convert"(%arg2) : (tensor<i64>) -> tensor<f32>
    %2 = "stablehlo.broadcast_in_dim"(%1) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<9x6xf32>
    %3 = "stablehlo.multiply"(%0, %2) : (tensor<9x6xf32>, tensor<9x6xf32>) -> tensor<9x6xf32>
    %4 = "stablehlo.slice"(%0) {limit_indices = array<i64: 3, 6>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<9x6xf32>) -> tensor<3x6xf32>
    return %3, %4 : tensor<9x6xf32>, tensor<3x6xf32>
  }
}
