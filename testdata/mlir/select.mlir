module @select {
  func.func public @main(%arg0: tensor<2x0xi1>, %arg1: tensor<2x0xf16>, %arg2: tensor<2x0xf16>) -> tensor<2x0xf16> {
    %0 = "stablehlo.select"(%arg0, %arg1, %arg2) : (tensor<2x0xi1>, tensor<2x0xf16>, tensor<2x0xf16>) -> tensor<2x0xf16>
    return %0 : tensor<2x0xf16>
  }
}
