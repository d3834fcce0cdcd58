module @select_and_scatter {
  func.func public @main(%arg0: tensor<2x7x6xf32>, %arg1: tensor<2x4x3xf32>, %arg2: tensor<2x7x6xi32>, %arg3: tensor<2x4x3xi32>) -> (tensor<2x7x6xf32>, tensor<2x7x6xi32>) {
    %0 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %1 = "stablehlo.select_and_scatter"(%arg0, %arg1, %0) ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      %4 = "stablehlo.compare"(%arg4, %arg5) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction GE>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %5 = "stablehlo.compare"(%arg4, %arg4) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %6 = "stablehlo.or"(%4, %5) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      "stablehlo.return"(%6) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      %4 = "stablehlo.add"(%arg4, %arg5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%4) : (tensor<f32>) -> ()
    }) {padding = dense<[[0, 0], [1, 1], [0, 1]]> : tensor<3x2xi64>, window_dimensions = array<i64: 1, 3, 2>, window_strides = array<i64: 1, 2, 2>} : (tensor<2x7x6xf32>, tensor<2x4x3xf32>, tensor<f32>) -> tensor<2x7x6xf32>
    %2 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
    %3 = "stablehlo.select_and_scatter"(%arg2, %arg3, %2) ({
    ^bb0(%arg4: tensor<i32>, %arg5: tensor<i32>):
      %4 = "stablehlo.compare"(%arg4, %arg5) {compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction GE>} : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%4) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg4: tensor<i32>, %arg5: tensor<i32>):
      %4 = "stablehlo.add"(%arg4, %arg5) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%4) : (tensor<i32>) -> ()
    }) {padding = dense<[[0, 0], [1, 1], [0, 1]]> : tensor<3x2xi64>, window_dimensions = array<i64: 1, 3, 2>, window_strides = array<i64: 1, 2, 2>} : (tensor<2x7x6xi32>, tensor<2x4x3xi32>, tensor<i32>) -> tensor<2x7x6xi32>
    return %1, %3 : tensor<2x7x6xf32>, tensor<2x7x6xi32>
  }
}
