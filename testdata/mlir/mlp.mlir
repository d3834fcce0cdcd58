module @mlp {
  func.func public @main(%arg0: tensor<4x3xf32>, %arg1: tensor<3x8xf32>, %arg2: tensor<8xf32>, %arg3: tensor<8x2xf32>, %arg4: tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<f32>) {
    %0 = "stablehlo.dot_general"(%arg0, %arg1) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<4x3xf32>, tensor<3x8xf32>) -> tensor<4x8xf32>
    %1 = "stablehlo.broadcast_in_dim"(%arg2) {broadcast_dimensions = array<i64: 1>} : (tensor<8xf32>) -> tensor<4x8xf32>
    %2 = "stablehlo.add"(%0, %1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %3 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %4 = "stablehlo.broadcast_in_dim"(%3) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x8xf32>
    %5 = "stablehlo.maximum"(%2, %4) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %6 = "stablehlo.dot_general"(%5, %arg3) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    %7 = "stablehlo.subtract"(%6, %arg4) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %8 = "stablehlo.multiply"(%7, %7) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %9 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %10 = "stablehlo.reduce"(%8, %9) ({
    ^bb0(%arg5: tensor<f32>, %arg6: tensor<f32>):
      %13 = "stablehlo.add"(%arg5, %arg6) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%13) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 0, 1>} : (tensor<4x2xf32>, tensor<f32>) -> tensor<f32>
    %11 = "stablehlo.constant"() {value = dense<8.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %12 = "stablehlo.divide"(%10, %11) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %6, %12 : tensor<4x2xf32>, tensor<f32>
  }
}
