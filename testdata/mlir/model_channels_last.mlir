module @main {
  func.func public @main(%arg0: tensor<2x3x2x2xf32>) -> (tensor<2x2x2x3xf32>, tensor<24xf32>) {
    %0 = "stablehlo.constant"() {value = dense<2.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %1 = "stablehlo.broadcast_in_dim"(%0) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<2x3x2x2xf32>
    %2 = "stablehlo.multiply"(%arg0, %1) : (tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>) -> tensor<2x3x2x2xf32>
    %3 = "stablehlo.transpose"(%2) {permutation = array<i64: 0, 2, 3, 1>} : (tensor<2x3x2x2xf32>) -> tensor<2x2x2x3xf32>
    %4 = "stablehlo.reshape"(%3) : (tensor<2x2x2x3xf32>) -> tensor<24xf32>
    return %3, %4 : tensor<2x2x2x3xf32>, tensor<24xf32>
  }
}
