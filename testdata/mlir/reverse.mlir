module @reverse {
  func.func public @main(%arg0: tensor<3x4x2xui16>) -> tensor<3x4x2xui16> {
    %0 = "stablehlo.reverse"(%arg0) {dimensions = array<i64: 0, 2>} : (tensor<3x4x2xui16>) -> tensor<3x4x2xui16>
    return %0 : tensor<3x4x2xui16>
  }
}
