module @reduce_arg {
  func.func public @main(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xi64>, %arg2: tensor<2x3xi32>, %arg3: tensor<2x3xi32>, %arg4: tensor<2x3xi1>, %arg5: tensor<2x3xui8>) -> (tensor<2xf32>, tensor<2xi64>, tensor<2xf32>, tensor<2xi64>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi1>, tensor<2xui8>, tensor<2xi1>, tensor<2xui8>) {
    %0 = "stablehlo.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
    %1 = "stablehlo.constant"() {value = dense<9223372036854775807> : tensor<i64>} : () -> tensor<i64>
    %2:2 = "stablehlo.reduce"(%arg0, %arg1, %0, %1) ({
    ^bb0(%arg6: tensor<f32>, %arg7: tensor<i64>, %arg8: tensor<f32>, %arg9: tensor<i64>):
      %18 = "stablehlo.compare"(%arg6, %arg8) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction GT>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %19 = "stablehlo.compare"(%arg6, %arg8) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %20 = "stablehlo.compare"(%arg6, %arg6) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %21 = "stablehlo.compare"(%arg8, %arg8) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %22 = "stablehlo.not"(%21) : (tensor<i1>) -> tensor<i1>
      %23 = "stablehlo.and"(%20, %22) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %24 = "stablehlo.and"(%20, %21) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %25 = "stablehlo.or"(%18, %23) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %26 = "stablehlo.or"(%19, %24) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %27 = "stablehlo.compare"(%arg7, %arg9) {compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<i64>, tensor<i64>) -> tensor<i1>
      %28 = "stablehlo.and"(%26, %27) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %29 = "stablehlo.or"(%25, %28) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %30 = "stablehlo.select"(%29, %arg6, %arg8) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      %31 = "stablehlo.select"(%29, %arg7, %arg9) : (tensor<i1>, tensor<i64>, tensor<i64>) -> tensor<i64>
      "stablehlo.return"(%30, %31) : (tensor<f32>, tensor<i64>) -> ()
    }) {dimensions = array<i64: 1>} : (tensor<2x3xf32>, tensor<2x3xi64>, tensor<f32>, tensor<i64>) -> (tensor<2xf32>, tensor<2xi64>)
    %3 = "stablehlo.constant"() {value = dense<0x7F800000> : tensor<f32>} : () -> tensor<f32>
    %4 = "stablehlo.constant"() {value = dense<9223372036854775807> : tensor<i64>} : () -> tensor<i64>
    %5:2 = "stablehlo.reduce"(%arg0, %arg1, %3, %4) ({
    ^bb0(%arg6: tensor<f32>, %arg7: tensor<i64>, %arg8: tensor<f32>, %arg9: tensor<i64>):
      %18 = "stablehlo.compare"(%arg6, %arg8) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %19 = "stablehlo.compare"(%arg6, %arg8) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %20 = "stablehlo.compare"(%arg6, %arg6) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %21 = "stablehlo.compare"(%arg8, %arg8) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %22 = "stablehlo.not"(%21) : (tensor<i1>) -> tensor<i1>
      %23 = "stablehlo.and"(%20, %22) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %24 = "stablehlo.and"(%20, %21) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %25 = "stablehlo.or"(%18, %23) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %26 = "stablehlo.or"(%19, %24) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %27 = "stablehlo.compare"(%arg7, %arg9) {compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<i64>, tensor<i64>) -> tensor<i1>
      %28 = "stablehlo.and"(%26, %27) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %29 = "stablehlo.or"(%25, %28) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %30 = "stablehlo.select"(%29, %arg6, %arg8) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      %31 = "stablehlo.select"(%29, %arg7, %arg9) : (tensor<i1>, tensor<i64>, tensor<i64>) -> tensor<i64>
      "stablehlo.return"(%30, %31) : (tensor<f32>, tensor<i64>) -> ()
    }) {dimensions = array<i64: 1>} : (tensor<2x3xf32>, tensor<2x3xi64>, tensor<f32>, tensor<i64>) -> (tensor<2xf32>, tensor<2xi64>)
    %6 = "stablehlo.constant"() {value = dense<-2147483648> : tensor<i32>} : () -> tensor<i32>
    %7 = "stablehlo.constant"() {value = dense<2147483647> : tensor<i32>} : () -> tensor<i32>
    %8:2 = "stablehlo.reduce"(%arg2, %arg3, %6, %7) ({
    ^bb0(%arg6: tensor<i32>, %arg7: tensor<i32>, %arg8: tensor<i32>, %arg9: tensor<i32>):
      %18 = "stablehlo.compare"(%arg6, %arg8) {compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction GT>} : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %19 = "stablehlo.compare"(%arg6, %arg8) {compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %20 = "stablehlo.compare"(%arg7, %arg9) {compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %21 = "stablehlo.and"(%19, %20) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %22 = "stablehlo.or"(%18, %21) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %23 = "stablehlo.select"(%22, %arg6, %arg8) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
      %24 = "stablehlo.select"(%22, %arg7, %arg9) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%23, %24) : (tensor<i32>, tensor<i32>) -> ()
    }) {dimensions = array<i64: 1>} : (tensor<2x3xi32>, tensor<2x3xi32>, tensor<i32>, tensor<i32>) -> (tensor<2xi32>, tensor<2xi32>)
    %9 = "stablehlo.constant"() {value = dense<2147483647> : tensor<i32>} : () -> tensor<i32>
    %10 = "stablehlo.constant"() {value = dense<2147483647> : tensor<i32>} : () -> tensor<i32>
    %11:2 = "stablehlo.reduce"(%arg2, %arg3, %9, %10) ({
    ^bb0(%arg6: tensor<i32>, %arg7: tensor<i32>, %arg8: tensor<i32>, %arg9: tensor<i32>):
      %18 = "stablehlo.compare"(%arg6, %arg8) {compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %19 = "stablehlo.compare"(%arg6, %arg8) {compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %20 = "stablehlo.compare"(%arg7, %arg9) {compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %21 = "stablehlo.and"(%19, %20) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %22 = "stablehlo.or"(%18, %21) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %23 = "stablehlo.select"(%22, %arg6, %arg8) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
      %24 = "stablehlo.select"(%22, %arg7, %arg9) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%23, %24) : (tensor<i32>, tensor<i32>) -> ()
    }) {dimensions = array<i64: 1>} : (tensor<2x3xi32>, tensor<2x3xi32>, tensor<i32>, tensor<i32>) -> (tensor<2xi32>, tensor<2xi32>)
    %12 = "stablehlo.constant"() {value = dense<false> : tensor<i1>} : () -> tensor<i1>
    %13 = "stablehlo.constant"() {value = dense<255> : tensor<ui8>} : () -> tensor<ui8>
    %14:2 = "stablehlo.reduce"(%arg4, %arg5, %12, %13) ({
    ^bb0(%arg6: tensor<i1>, %arg7: tensor<ui8>, %arg8: tensor<i1>, %arg9: tensor<ui8>):
      %18 = "stablehlo.compare"(%arg6, %arg8) {compare_type = #stablehlo<comparison_type UNSIGNED>, comparison_direction = #stablehlo<comparison_direction GT>} : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %19 = "stablehlo.compare"(%arg6, %arg8) {compare_type = #stablehlo<comparison_type UNSIGNED>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %20 = "stablehlo.compare"(%arg7, %arg9) {compare_type = #stablehlo<comparison_type UNSIGNED>, comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<ui8>, tensor<ui8>) -> tensor<i1>
      %21 = "stablehlo.and"(%19, %20) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %22 = "stablehlo.or"(%18, %21) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %23 = "stablehlo.select"(%22, %arg6, %arg8) : (tensor<i1>, tensor<i1>, tensor<i1>) -> tensor<i1>
      %24 = "stablehlo.select"(%22, %arg7, %arg9) : (tensor<i1>, tensor<ui8>, tensor<ui8>) -> tensor<ui8>
      "stablehlo.return"(%23, %24) : (tensor<i1>, tensor<ui8>) -> ()
    }) {dimensions = array<i64: 1>} : (tensor<2x3xi1>, tensor<2x3xui8>, tensor<i1>, tensor<ui8>) -> (tensor<2xi1>, tensor<2xui8>)
    %15 = "stablehlo.constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
    %16 = "stablehlo.constant"() {value = dense<255> : tensor<ui8>} : () -> tensor<ui8>
    %17:2 = "stablehlo.reduce"(%arg4, %arg5, %15, %16) ({
    ^bb0(%arg6: tensor<i1>, %arg7: tensor<ui8>, %arg8: tensor<i1>, %arg9: tensor<ui8>):
      %18 = "stablehlo.compare"(%arg6, %arg8) {compare_type = #stablehlo<comparison_type UNSIGNED>, comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %19 = "stablehlo.compare"(%arg6, %arg8) {compare_type = #stablehlo<comparison_type UNSIGNED>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %20 = "stablehlo.compare"(%arg7, %arg9) {compare_type = #stablehlo<comparison_type UNSIGNED>, comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<ui8>, tensor<ui8>) -> tensor<i1>
      %21 = "stablehlo.and"(%19, %20) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %22 = "stablehlo.or"(%18, %21) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %23 = "stablehlo.select"(%22, %arg6, %arg8) : (tensor<i1>, tensor<i1>, tensor<i1>) -> tensor<i1>
      %24 = "stablehlo.select"(%22, %arg7, %arg9) : (tensor<i1>, tensor<ui8>, tensor<ui8>) -> tensor<ui8>
      "stablehlo.return"(%23, %24) : (tensor<i1>, tensor<ui8>) -> ()
    }) {dimensions = array<i64: 1>} : (tensor<2x3xi1>, tensor<2x3xui8>, tensor<i1>, tensor<ui8>) -> (tensor<2xi1>, tensor<2xui8>)
    return %2#0, %2#1, %5#0, %5#1, %8#0, %8#1, %11#0, %11#1, %14#0, %14#1, %17#0, %17#1 : tensor<2xf32>, tensor<2xi64>, tensor<2xf32>, tensor<2xi64>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi1>, tensor<2xui8>, tensor<2xi1>, tensor<2xui8>
  }
}
