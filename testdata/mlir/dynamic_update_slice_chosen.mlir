module @dynamic_update_slice_chosen {
  func.func public @main(%arg0: tensor<5x8xf32>, %arg1: tensor<i64>, %arg2: tensor<i64>) -> tensor<4x10xf32> {
    %0 = "stablehlo.reshape"(%arg0) : (tensor<5x8xf32>) -> tensor<4x10xf32>
    %1 = "stablehlo.negate"(%0) : (tensor<4x10xf32>) -> tensor<4x10xf32>
    %2 = "stablehlo.dynamic_slice"(%1, %arg1, %arg2) {slice_sizes = array<i64: 3, 9>} : (tensor<4x10xf32>, tensor<i64>, tensor<i64>) -> tensor<3x9xf32>
    %3 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<4x10xf32>} : () -> tensor<4x10xf32>
    %4 = "stablehlo.dynamic_update_slice"(%3, %2, %arg2, %arg1) : (tensor<4x10xf32>, tensor<3x9xf32>, tensor<i64>, tensor<i64>) -> tensor<4x10xf32>
    %5 = "stablehlo.constant"() {value = dense<true> : tensor<3x9xi1>} : () -> tensor<3x9xi1>
    %6 = "stablehlo.constant"() {value = dense<false> : tensor<4x10xi1>} : () -> tensor<4x10xi1>
    %7 = "stablehlo.dynamic_update_slice"(%6, %5, %arg2, %arg1) : (tensor<4x10xi1>, tensor<3x9xi1>, tensor<i64>, tensor<i64>) -> tensor<4x10xi1>
    %8 = "stablehlo.select"(%7, %4, %1) : (tensor<4x10xi1>, tensor<4x10xf32>, tensor<4x10xf32>) -> tensor<4x10xf32>
    return %8 : tensor<4x10xf32>
  }
}
