module @reduce_window {
  func.func public @main(%arg0: tensor<2x9x7xf32>) -> (tensor<2x4x5xf32>, tensor<2x4x5xf32>, tensor<2x4x5xf32>, tensor<2x4x5xf32>, tensor<2x4x5xi32>) {
    %0 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %1 = "stablehlo.reduce_window"(%arg0, %0) ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %10 = "stablehlo.add"(%arg1, %arg2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%10) : (tensor<f32>) -> ()
    }) {base_dilations = array<i64: 1, 1, 2>, padding = dense<[[0, 0], [1, 2], [2, 0]]> : tensor<3x2xi64>, window_dilations = array<i64: 1, 2, 1>, window_dimensions = array<i64: 1, 3, 2>, window_strides = array<i64: 1, 2, 3>} : (tensor<2x9x7xf32>, tensor<f32>) -> tensor<2x4x5xf32>
    %2 = "stablehlo.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
    %3 = "stablehlo.reduce_window"(%arg0, %2) ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %10 = "stablehlo.maximum"(%arg1, %arg2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%10) : (tensor<f32>) -> ()
    }) {base_dilations = array<i64: 1, 1, 2>, padding = dense<[[0, 0], [1, 2], [2, 0]]> : tensor<3x2xi64>, window_dilations = array<i64: 1, 2, 1>, window_dimensions = array<i64: 1, 3, 2>, window_strides = array<i64: 1, 2, 3>} : (tensor<2x9x7xf32>, tensor<f32>) -> tensor<2x4x5xf32>
    %4 = "stablehlo.constant"() {value = dense<0x7F800000> : tensor<f32>} : () -> tensor<f32>
    %5 = "stablehlo.reduce_window"(%arg0, %4) ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %10 = "stablehlo.minimum"(%arg1, %arg2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%10) : (tensor<f32>) -> ()
    }) {base_dilations = array<i64: 1, 1, 2>, padding = dense<[[0, 0], [1, 2], [2, 0]]> : tensor<3x2xi64>, window_dilations = array<i64: 1, 2, 1>, window_dimensions = array<i64: 1, 3, 2>, window_strides = array<i64: 1, 2, 3>} : (tensor<2x9x7xf32>, tensor<f32>) -> tensor<2x4x5xf32>
    %6 = "stablehlo.iota"() {iota_dimension = 1 : i64} : () -> tensor<2x9x7xi32>
    %7 = "stablehlo.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
    %8 = "stablehlo.constant"() {value = dense<2147483647> : tensor<i32>} : () -> tensor<i32>
    %9:2 = "stablehlo.reduce_window"(%arg0, %6, %7, %8) ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<i32>, %arg3: tensor<f32>, %arg4: tensor<i32>):
      %10 = "stablehlo.compare"(%arg1, %arg3) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction GT>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %11 = "stablehlo.compare"(%arg1, %arg3) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %12 = "stablehlo.compare"(%arg1, %arg1) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %13 = "stablehlo.compare"(%arg3, %arg3) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %14 = "stablehlo.not"(%13) : (tensor<i1>) -> tensor<i1>
      %15 = "stablehlo.and"(%12, %14) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %16 = "stablehlo.and"(%12, %13) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %17 = "stablehlo.or"(%10, %15) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %18 = "stablehlo.or"(%11, %16) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %19 = "stablehlo.compare"(%arg2, %arg4) {compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %20 = "stablehlo.and"(%18, %19) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %21 = "stablehlo.or"(%17, %20) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %22 = "stablehlo.select"(%21, %arg1, %arg3) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      %23 = "stablehlo.select"(%21, %arg2, %arg4) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%22, %23) : (tensor<f32>, tensor<i32>) -> ()
    }) {base_dilations = array<i64: 1, 1, 2>, padding = dense<[[0, 0], [1, 2], [2, 0]]> : tensor<3x2xi64>, window_dilations = array<i64: 1, 2, 1>, window_dimensions = array<i64: 1, 3, 2>, window_strides = array<i64: 1, 2, 3>} : (tensor<2x9x7xf32>, tensor<2x9x7xi32>, tensor<f32>, tensor<i32>) -> (tensor<2x4x5xf32>, tensor<2x4x5xi32>)
    return %1, %3, %5, %9#0, %9#1 : tensor<2x4x5xf32>, tensor<2x4x5xf32>, tensor<2x4x5xf32>, tensor<2x4x5xf32>, tensor<2x4x5xi32>
  }
}
