module @main {
  func.func public @main(%arg0: tensor<4x3xf32>, %arg1: tensor<4xf32>, %arg2: tensor<4xf32>, %arg3: tensor<4xf32>, %arg4: tensor<2x4xf32>, %arg5: tensor<2xf32>, %arg6: tensor<4xf32> {tf.aliasing_output = 1 : i32}, %arg7: tensor<4xf32> {tf.aliasing_output = 2 : i32}, %arg8: tensor<i64> {tf.aliasing_output = 3 : i32}, %arg9: tensor<5x3xf32>) -> (tensor<5x2xf32>, tensor<4xf32>, tensor<4xf32>, tensor<i64>) {
    %0 = "stablehlo.dot_general"(%arg9, %arg0) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<5x3xf32>, tensor<4x3xf32>) -> tensor<5x4xf32>
    %1 = "stablehlo.broadcast_in_dim"(%arg1) {broadcast_dimensions = array<i64: 1>} : (tensor<4xf32>) -> tensor<5x4xf32>
    %2 = "stablehlo.add"(%0, %1) : (tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
    %3 = "stablehlo.constant"() {value = dense<1> : tensor<i64>} : () -> tensor<i64>
    %4 = "stablehlo.add"(%arg8, %3) : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %5 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %6 = "stablehlo.reduce"(%2, %5) ({
    ^bb0(%arg10: tensor<f32>, %arg11: tensor<f32>):
      %57 = "stablehlo.add"(%arg10, %arg11) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%57) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 0>} : (tensor<5x4xf32>, tensor<f32>) -> tensor<4xf32>
    %7 = "stablehlo.constant"() {value = dense<5.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %8 = "stablehlo.broadcast_in_dim"(%7) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32>
    %9 = "stablehlo.divide"(%6, %8) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %10 = "stablehlo.broadcast_in_dim"(%9) {broadcast_dimensions = array<i64: 1>} : (tensor<4xf32>) -> tensor<5x4xf32>
    %11 = "stablehlo.subtract"(%2, %10) : (tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
    %12 = "stablehlo.multiply"(%11, %11) : (tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
    %13 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %14 = "stablehlo.reduce"(%12, %13) ({
    ^bb0(%arg10: tensor<f32>, %arg11: tensor<f32>):
      %57 = "stablehlo.add"(%arg10, %arg11) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%57) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 0>} : (tensor<5x4xf32>, tensor<f32>) -> tensor<4xf32>
    %15 = "stablehlo.divide"(%14, %8) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %16 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %17 = "stablehlo.reduce"(%11, %16) ({
    ^bb0(%arg10: tensor<f32>, %arg11: tensor<f32>):
      %57 = "stablehlo.add"(%arg10, %arg11) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%57) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 0>} : (tensor<5x4xf32>, tensor<f32>) -> tensor<4xf32>
    %18 = "stablehlo.divide"(%17, %8) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %19 = "stablehlo.add"(%9, %18) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %20 = "stablehlo.multiply"(%18, %18) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %21 = "stablehlo.subtract"(%15, %20) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %22 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %23 = "stablehlo.broadcast_in_dim"(%22) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32>
    %24 = "stablehlo.maximum"(%21, %23) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %25 = "stablehlo.constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
    %26 = "stablehlo.broadcast_in_dim"(%25) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32>
    %27 = "stablehlo.add"(%24, %26) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %28 = "stablehlo.rsqrt"(%27) : (tensor<4xf32>) -> tensor<4xf32>
    %29 = "stablehlo.broadcast_in_dim"(%19) {broadcast_dimensions = array<i64: 1>} : (tensor<4xf32>) -> tensor<5x4xf32>
    %30 = "stablehlo.broadcast_in_dim"(%28) {broadcast_dimensions = array<i64: 1>} : (tensor<4xf32>) -> tensor<5x4xf32>
    %31 = "stablehlo.subtract"(%2, %29) : (tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
    %32 = "stablehlo.multiply"(%31, %30) : (tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
    %33 = "stablehlo.broadcast_in_dim"(%arg2) {broadcast_dimensions = array<i64: 1>} : (tensor<4xf32>) -> tensor<5x4xf32>
    %34 = "stablehlo.multiply"(%32, %33) : (tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
    %35 = "stablehlo.broadcast_in_dim"(%arg3) {broadcast_dimensions = array<i64: 1>} : (tensor<4xf32>) -> tensor<5x4xf32>
    %36 = "stablehlo.add"(%34, %35) : (tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
    %37 = "stablehlo.constant"() {value = dense<1.000000e-01> : tensor<f32>} : () -> tensor<f32>
    %38 = "stablehlo.broadcast_in_dim"(%37) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32>
    %39 = "stablehlo.constant"() {value = dense<1.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %40 = "stablehlo.broadcast_in_dim"(%39) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32>
    %41 = "stablehlo.subtract"(%40, %38) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %42 = "stablehlo.multiply"(%arg6, %41) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %43 = "stablehlo.multiply"(%19, %38) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %44 = "stablehlo.add"(%42, %43) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %45 = "stablehlo.multiply"(%24, %8) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %46 = "stablehlo.constant"() {value = dense<4.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %47 = "stablehlo.broadcast_in_dim"(%46) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32>
    %48 = "stablehlo.divide"(%45, %47) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %49 = "stablehlo.multiply"(%arg7, %41) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %50 = "stablehlo.multiply"(%48, %38) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %51 = "stablehlo.add"(%49, %50) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %52 = "stablehlo.broadcast_in_dim"(%22) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<5x4xf32>
    %53 = "stablehlo.maximum"(%36, %52) : (tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
    %54 = "stablehlo.dot_general"(%53, %arg4) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<5x4xf32>, tensor<2x4xf32>) -> tensor<5x2xf32>
    %55 = "stablehlo.broadcast_in_dim"(%arg5) {broadcast_dimensions = array<i64: 1>} : (tensor<2xf32>) -> tensor<5x2xf32>
    %56 = "stablehlo.add"(%54, %55) : (tensor<5x2xf32>, tensor<5x2xf32>) -> tensor<5x2xf32>
    return %56, %44, %51, %4 : tensor<5x2xf32>, tensor<4xf32>, tensor<4xf32>, tensor<i64>
  }
}
