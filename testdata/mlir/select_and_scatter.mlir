module @select_and_scatter {
  func.func public @main(%arg0: tensor<2x7x6xf32>, %arg1: tensor<2x4x3xf32>, %arg2: tensor<2x7x6xi32>, %arg3: tensor<2x4x3xi32>) -> (tensor<2x7x6xf32>, tensor<2x7x6xi32>) {
    %0 = "stablehlo.reshape"(%arg0) : (tensor<2x7x6xf32>) -> tensor<1x2x7x6xf32>
    %1 = "stablehlo.reshape"(%arg1) : (tensor<2x4x3xf32>) -> tensor<1x2x4x3xf32>
    %2 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %3 = "stablehlo.select_and_scatter"(%0, %1, %2) ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      %10 = "stablehlo.compare"(%arg4, %arg5) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction GE>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %11 = "stablehlo.compare"(%arg5, %arg5) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %12 = "stablehlo.compare"(%arg4, %arg4) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %13 = "stablehlo.and"(%12, %11) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %14 = "stablehlo.or"(%10, %13) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      "stablehlo.return"(%14) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      %10 = "stablehlo.add"(%arg4, %arg5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%10) : (tensor<f32>) -> ()
    }) {padding = dense<[[0, 0], [0, 0], [1, 1], [0, 1]]> : tensor<4x2xi64>, window_dimensions = array<i64: 1, 1, 3, 2>, window_strides = array<i64: 1, 1, 2, 2>} : (tensor<1x2x7x6xf32>, tensor<1x2x4x3xf32>, tensor<f32>) -> tensor<1x2x7x6xf32>
    %4 = "stablehlo.reshape"(%3) : (tensor<1x2x7x6xf32>) -> tensor<2x7x6xf32>
    %5 = "stablehlo.reshape"(%arg2) : (tensor<2x7x6xi32>) -> tensor<1x2x7x6xi32>
    %6 = "stablehlo.reshape"(%arg3) : (tensor<2x4x3xi32>) -> tensor<1x2x4x3xi32>
    %7 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
    %8 = "stablehlo.select_and_scatter"(%5, %6, %7) ({
    ^bb0(%arg4: tensor<i32>, %arg5: tensor<i32>):
      %10 = "stablehlo.compare"(%arg4, %arg5) {compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction GE>} : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%10) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg4: tensor<i32>, %arg5: tensor<i32>):
      %10 = "stablehlo.add"(%arg4, %arg5) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%10) : (tensor<i32>) -> ()
    }) {padding = dense<[[0, 0], [0, 0], [1, 1], [0, 1]]> : tensor<4x2xi64>, window_dimensions = array<i64: 1, 1, 3, 2>, window_strides = array<i64: 1, 1, 2, 2>} : (tensor<1x2x7x6xi32>, tensor<1x2x4x3xi32>, tensor<i32>) -> tensor<1x2x7x6xi32>
    %9 = "stablehlo.reshape"(%8) : (tensor<1x2x7x6xi32>) -> tensor<2x7x6xi32>
    return %4, %9 : tensor<2x7x6xf32>, tensor<2x7x6xi32>
  }
}
