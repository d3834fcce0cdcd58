module @iota {
  func.func public @main() -> (tensor<2x3xi64>, tensor<2x3xbf16>, tensor<2x3xui8>, tensor<2x3xcomplex<f32>>) {
    %0 = "stablehlo.iota"() {iota_dimension = 0 : i64} : () -> tensor<2x3xi64>
    %1 = "stablehlo.iota"() {iota_dimension = 1 : i64} : () -> tensor<2x3xbf16>
    %2 = "stablehlo.iota"() {iota_dimension = 1 : i64} : () -> tensor<2x3xui8>
    %3 = "stablehlo.iota"() {iota_dimension = 0 : i64} : () -> tensor<2x3xcomplex<f32>>
    return %0, %1, %2, %3 : tensor<2x3xi64>, tensor<2x3xbf16>, tensor<2x3xui8>, tensor<2x3xcomplex<f32>>
  }
}
