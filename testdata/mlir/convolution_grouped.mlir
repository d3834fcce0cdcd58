module @convolution_grouped {
  func.func public @main(%arg0: tensor<2x4x6xf32>, %arg1: tensor<6x2x3xf32>, %arg2: tensor<4x3x6xf32>, %arg3: tensor<6x3x3xf32>) -> (tensor<2x6x3xf32>, tensor<2x6x3xf32>) {
    %0 = "stablehlo.convolution"(%arg0, %arg1) {batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, f, 0]x[o, i, 0]->[b, f, 0]>, feature_group_count = 2 : i64, lhs_dilation = array<i64: 1>, padding = dense<[[0, 1]]> : tensor<1x2xi64>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>], rhs_dilation = array<i64: 1>, window_reversal = array<i1: true>, window_strides = array<i64: 2>} : (tensor<2x4x6xf32>, tensor<6x2x3xf32>) -> tensor<2x6x3xf32>
    %1 = "stablehlo.convolution"(%arg2, %arg3) {batch_group_count = 2 : i64, dimension_numbers = #stablehlo.conv<[b, f, 0]x[o, i, 0]->[b, f, 0]>, feature_group_count = 1 : i64, lhs_dilation = array<i64: 1>, padding = dense<[[0, 1]]> : tensor<1x2xi64>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>], rhs_dilation = array<i64: 1>, window_reversal = array<i1: false>, window_strides = array<i64: 2>} : (tensor<4x3x6xf32>, tensor<6x3x3xf32>) -> tensor<2x6x3xf32>
    return %0, %1 : tensor<2x6x3xf32>, tensor<2x6x3xf32>
  }
}
