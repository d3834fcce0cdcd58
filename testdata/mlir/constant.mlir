module @constant {
  func.func public @main() -> (tensor<2x3xi1>, tensor<2x3xi8>, tensor<2x3xi16>, tensor<2x3xi32>, tensor<2x3xi64>, tensor<2x3xui8>, tensor<2x3xui16>, tensor<2x3xui32>, tensor<2x3xui64>, tensor<2x3xf8E4M3FN>, tensor<2x3xf8E5M2>, tensor<2x3xbf16>, tensor<2x3xf16>, tensor<2x3xf32>, tensor<2x3xf64>, tensor<2x3xcomplex<f32>>, tensor<2x3xcomplex<f64>>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<2xf32>, tensor<2xcomplex<f64>>, tensor<10xi1>, tensor<2x4xi1>, tensor<0x3xf32>, tensor<0xi1>, tensor<3xi64>, tensor<3xf8E5M2>) {
    %0 = "stablehlo.constant"() {value = dense<true> : tensor<2x3xi1>} : () -> tensor<2x3xi1>
    %1 = "stablehlo.constant"() {value = dense<1> : tensor<2x3xi8>} : () -> tensor<2x3xi8>
    %2 = "stablehlo.constant"() {value = dense<1> : tensor<2x3xi16>} : () -> tensor<2x3xi16>
    %3 = "stablehlo.constant"() {value = dense<1> : tensor<2x3xi32>} : () -> tensor<2x3xi32>
    %4 = "stablehlo.constant"() {value = dense<1> : tensor<2x3xi64>} : () -> tensor<2x3xi64>
    %5 = "stablehlo.constant"() {value = dense<1> : tensor<2x3xui8>} : () -> tensor<2x3xui8>
    %6 = "stablehlo.constant"() {value = dense<1> : tensor<2x3xui16>} : () -> tensor<2x3xui16>
    %7 = "stablehlo.constant"() {value = dense<1> : tensor<2x3xui32>} : () -> tensor<2x3xui32>
    %8 = "stablehlo.constant"() {value = dense<1> : tensor<2x3xui64>} : () -> tensor<2x3xui64>
    %9 = "stablehlo.constant"() {value = dense<1.500000e+00> : tensor<2x3xf8E4M3FN>} : () -> tensor<2x3xf8E4M3FN>
    %10 = "stablehlo.constant"() {value = dense<1.500000e+00> : tensor<2x3xf8E5M2>} : () -> tensor<2x3xf8E5M2>
    %11 = "stablehlo.constant"() {value = dense<1.500000e+00> : tensor<2x3xbf16>} : () -> tensor<2x3xbf16>
    %12 = "stablehlo.constant"() {value = dense<1.500000e+00> : tensor<2x3xf16>} : () -> tensor<2x3xf16>
    %13 = "stablehlo.constant"() {value = dense<1.500000e+00> : tensor<2x3xf32>} : () -> tensor<2x3xf32>
    %14 = "stablehlo.constant"() {value = dense<1.500000e+00> : tensor<2x3xf64>} : () -> tensor<2x3xf64>
    %15 = "stablehlo.constant"() {value = dense<(1.500000e+00,0.000000e+00)> : tensor<2x3xcomplex<f32>>} : () -> tensor<2x3xcomplex<f32>>
    %16 = "stablehlo.constant"() {value = dense<(1.500000e+00,0.000000e+00)> : tensor<2x3xcomplex<f64>>} : () -> tensor<2x3xcomplex<f64>>
    %17 = "stablehlo.constant"() {value = dense<0x7FC00000> : tensor<f32>} : () -> tensor<f32>
    %18 = "stablehlo.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
    %19 = "stablehlo.constant"() {value = dense<-0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %20 = "stablehlo.constant"() {value = dense<[0xFFC00001, 1.000000e+00]> : tensor<2xf32>} : () -> tensor<2xf32>
    %21 = "stablehlo.constant"() {value = dense<[(1.000000e+00,-2.000000e+00), (0x7FF0000000000000,5.000000e-01)]> : tensor<2xcomplex<f64>>} : () -> tensor<2xcomplex<f64>>
    %22 = "stablehlo.constant"() {value = dense<[true, false, true, true, false, false, false, true, true, false]> : tensor<10xi1>} : () -> tensor<10xi1>
    %23 = "stablehlo.constant"() {value = dense<true> : tensor<2x4xi1>} : () -> tensor<2x4xi1>
    %24 = "stablehlo.constant"() {value = dense<> : tensor<0x3xf32>} : () -> tensor<0x3xf32>
    %25 = "stablehlo.constant"() {value = dense<> : tensor<0xi1>} : () -> tensor<0xi1>
    %26 = "stablehlo.constant"() {value = dense<[-9223372036854775808, -1, 9223372036854775807]> : tensor<3xi64>} : () -> tensor<3xi64>
    %27 = "stablehlo.constant"() {value = dense<[0x7C, 0x7E, 1.525880e-05]> : tensor<3xf8E5M2>} : () -> tensor<3xf8E5M2>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27 : tensor<2x3xi1>, tensor<2x3xi8>, tensor<2x3xi16>, tensor<2x3xi32>, tensor<2x3xi64>, tensor<2x3xui8>, tensor<2x3xui16>, tensor<2x3xui32>, tensor<2x3xui64>, tensor<2x3xf8E4M3FN>, tensor<2x3xf8E5M2>, tensor<2x3xbf16>, tensor<2x3xf16>, tensor<2x3xf32>, tensor<2x3xf64>, tensor<2x3xcomplex<f32>>, tensor<2x3xcomplex<f64>>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<2xf32>, tensor<2xcomplex<f64>>, tensor<10xi1>, tensor<2x4xi1>, tensor<0x3xf32>, tensor<0xi1>, tensor<3xi64>, tensor<3xf8E5M2>
  }
}
