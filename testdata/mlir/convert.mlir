module @convert {
  func.func public @main(%arg0: tensor<2xf32>) -> (tensor<2xi1>, tensor<2xi1>, tensor<2xi8>, tensor<2xi1>, tensor<2xi16>, tensor<2xi1>, tensor<2xi32>, tensor<2xi1>, tensor<2xi64>, tensor<2xi1>, tensor<2xui8>, tensor<2xi1>, tensor<2xui16>, tensor<2xi1>, tensor<2xui32>, tensor<2xi1>, tensor<2xui64>, tensor<2xi1>, tensor<2xf8E4M3FN>, tensor<2xi1>, tensor<2xf8E5M2>, tensor<2xi1>, tensor<2xbf16>, tensor<2xi1>, tensor<2xf16>, tensor<2xi1>, tensor<2xf32>, tensor<2xi1>, tensor<2xf64>, tensor<2xi1>, tensor<2xcomplex<f32>>, tensor<2xi1>, tensor<2xcomplex<f64>>, tensor<2xi1>) {
    %0 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<2xf32>} : () -> tensor<2xf32>
    %1 = "stablehlo.compare"(%arg0, %0) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
    %2 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xi8>
    %3 = "stablehlo.constant"() {value = dense<0> : tensor<2xi8>} : () -> tensor<2xi8>
    %4 = "stablehlo.compare"(%2, %3) {compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<2xi8>, tensor<2xi8>) -> tensor<2xi1>
    %5 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xi16>
    %6 = "stablehlo.constant"() {value = dense<0> : tensor<2xi16>} : () -> tensor<2xi16>
    %7 = "stablehlo.compare"(%5, %6) {compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<2xi16>, tensor<2xi16>) -> tensor<2xi1>
    %8 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xi32>
    %9 = "stablehlo.constant"() {value = dense<0> : tensor<2xi32>} : () -> tensor<2xi32>
    %10 = "stablehlo.compare"(%8, %9) {compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %11 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xi64>
    %12 = "stablehlo.constant"() {value = dense<0> : tensor<2xi64>} : () -> tensor<2xi64>
    %13 = "stablehlo.compare"(%11, %12) {compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi1>
    %14 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xui8>
    %15 = "stablehlo.constant"() {value = dense<0> : tensor<2xui8>} : () -> tensor<2xui8>
    %16 = "stablehlo.compare"(%14, %15) {compare_type = #stablehlo<comparison_type UNSIGNED>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<2xui8>, tensor<2xui8>) -> tensor<2xi1>
    %17 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xui16>
    %18 = "stablehlo.constant"() {value = dense<0> : tensor<2xui16>} : () -> tensor<2xui16>
    %19 = "stablehlo.compare"(%17, %18) {compare_type = #stablehlo<comparison_type UNSIGNED>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<2xui16>, tensor<2xui16>) -> tensor<2xi1>
    %20 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xui32>
    %21 = "stablehlo.constant"() {value = dense<0> : tensor<2xui32>} : () -> tensor<2xui32>
    %22 = "stablehlo.compare"(%20, %21) {compare_type = #stablehlo<comparison_type UNSIGNED>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<2xui32>, tensor<2xui32>) -> tensor<2xi1>
    %23 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xui64>
    %24 = "stablehlo.constant"() {value = dense<0> : tensor<2xui64>} : () -> tensor<2xui64>
    %25 = "stablehlo.compare"(%23, %24) {compare_type = #stablehlo<comparison_type UNSIGNED>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<2xui64>, tensor<2xui64>) -> tensor<2xi1>
    %26 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xf8E4M3FN>
    %27 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<2xf8E4M3FN>} : () -> tensor<2xf8E4M3FN>
    %28 = "stablehlo.compare"(%26, %27) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<2xf8E4M3FN>, tensor<2xf8E4M3FN>) -> tensor<2xi1>
    %29 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xf8E5M2>
    %30 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<2xf8E5M2>} : () -> tensor<2xf8E5M2>
    %31 = "stablehlo.compare"(%29, %30) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<2xf8E5M2>, tensor<2xf8E5M2>) -> tensor<2xi1>
    %32 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xbf16>
    %33 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<2xbf16>} : () -> tensor<2xbf16>
    %34 = "stablehlo.compare"(%32, %33) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<2xbf16>, tensor<2xbf16>) -> tensor<2xi1>
    %35 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xf16>
    %36 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<2xf16>} : () -> tensor<2xf16>
    %37 = "stablehlo.compare"(%35, %36) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<2xf16>, tensor<2xf16>) -> tensor<2xi1>
    %38 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xf64>
    %39 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<2xf64>} : () -> tensor<2xf64>
    %40 = "stablehlo.compare"(%38, %39) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
    %41 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xcomplex<f32>>
    %42 = "stablehlo.constant"() {value = dense<(0.000000e+00,0.000000e+00)> : tensor<2xcomplex<f32>>} : () -> tensor<2xcomplex<f32>>
    %43 = "stablehlo.compare"(%41, %42) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> tensor<2xi1>
    %44 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xcomplex<f64>>
    %45 = "stablehlo.constant"() {value = dense<(0.000000e+00,0.000000e+00)> : tensor<2xcomplex<f64>>} : () -> tensor<2xcomplex<f64>>
    %46 = "stablehlo.compare"(%44, %45) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<2xcomplex<f64>>, tensor<2xcomplex<f64>>) -> tensor<2xi1>
    return %1, %1, %2, %4, %5, %7, %8, %10, %11, %13, %14, %16, %17, %19, %20, %22, %23, %25, %26, %28, %29, %31, %32, %34, %35, %37, %arg0, %1, %38, %40, %41, %43, %44, %46 : tensor<2xi1>, tensor<2xi1>, tensor<2xi8>, tensor<2xi1>, tensor<2xi16>, tensor<2xi1>, tensor<2xi32>, tensor<2xi1>, tensor<2xi64>, tensor<2xi1>, tensor<2xui8>, tensor<2xi1>, tensor<2xui16>, tensor<2xi1>, tensor<2xui32>, tensor<2xi1>, tensor<2xui64>, tensor<2xi1>, tensor<2xf8E4M3FN>, tensor<2xi1>, tensor<2xf8E5M2>, tensor<2xi1>, tensor<2xbf16>, tensor<2xi1>, tensor<2xf16>, tensor<2xi1>, tensor<2xf32>, tensor<2xi1>, tensor<2xf64>, tensor<2xi1>, tensor<2xcomplex<f32>>, tensor<2xi1>, tensor<2xcomplex<f64>>, tensor<2xi1>
  }
}
