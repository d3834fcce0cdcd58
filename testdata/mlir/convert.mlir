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
    %26 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
    %27 = "stablehlo.constant"() {value = dense<-4.480000e+02> : tensor<2xf32>} : () -> tensor<2xf32>
    %28 = "stablehlo.constant"() {value = dense<4.480000e+02> : tensor<2xf32>} : () -> tensor<2xf32>
    %29 = "stablehlo.clamp"(%27, %26, %28) : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %30 = "stablehlo.convert"(%29) : (tensor<2xf32>) -> tensor<2xf8E4M3FN>
    %31 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<2xf8E4M3FN>} : () -> tensor<2xf8E4M3FN>
    %32 = "stablehlo.compare"(%30, %31) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<2xf8E4M3FN>, tensor<2xf8E4M3FN>) -> tensor<2xi1>
    %33 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xf8E5M2>
    %34 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<2xf8E5M2>} : () -> tensor<2xf8E5M2>
    %35 = "stablehlo.compare"(%33, %34) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<2xf8E5M2>, tensor<2xf8E5M2>) -> tensor<2xi1>
    %36 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xbf16>
    %37 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<2xbf16>} : () -> tensor<2xbf16>
    %38 = "stablehlo.compare"(%36, %37) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<2xbf16>, tensor<2xbf16>) -> tensor<2xi1>
    %39 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xf16>
    %40 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<2xf16>} : () -> tensor<2xf16>
    %41 = "stablehlo.compare"(%39, %40) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<2xf16>, tensor<2xf16>) -> tensor<2xi1>
    %42 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xf64>
    %43 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<2xf64>} : () -> tensor<2xf64>
    %44 = "stablehlo.compare"(%42, %43) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
    %45 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xcomplex<f32>>
    %46 = "stablehlo.constant"() {value = dense<(0.000000e+00,0.000000e+00)> : tensor<2xcomplex<f32>>} : () -> tensor<2xcomplex<f32>>
    %47 = "stablehlo.compare"(%45, %46) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> tensor<2xi1>
    %48 = "stablehlo.convert"(%arg0) : (tensor<2xf32>) -> tensor<2xcomplex<f64>>
    %49 = "stablehlo.constant"() {value = dense<(0.000000e+00,0.000000e+00)> : tensor<2xcomplex<f64>>} : () -> tensor<2xcomplex<f64>>
    %50 = "stablehlo.compare"(%48, %49) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<2xcomplex<f64>>, tensor<2xcomplex<f64>>) -> tensor<2xi1>
    return %1, %1, %2, %4, %5, %7, %8, %10, %11, %13, %14, %16, %17, %19, %20, %22, %23, %25, %30, %32, %33, %35, %36, %38, %39, %41, %arg0, %1, %42, %44, %45, %47, %48, %50 : tensor<2xi1>, tensor<2xi1>, tensor<2xi8>, tensor<2xi1>, tensor<2xi16>, tensor<2xi1>, tensor<2xi32>, tensor<2xi1>, tensor<2xi64>, tensor<2xi1>, tensor<2xui8>, tensor<2xi1>, tensor<2xui16>, tensor<2xi1>, tensor<2xui32>, tensor<2xi1>, tensor<2xui64>, tensor<2xi1>, tensor<2xf8E4M3FN>, tensor<2xi1>, tensor<2xf8E5M2>, tensor<2xi1>, tensor<2xbf16>, tensor<2xi1>, tensor<2xf16>, tensor<2xi1>, tensor<2xf32>, tensor<2xi1>, tensor<2xf64>, tensor<2xi1>, tensor<2xcomplex<f32>>, tensor<2xi1>, tensor<2xcomplex<f64>>, tensor<2xi1>
  }
}
