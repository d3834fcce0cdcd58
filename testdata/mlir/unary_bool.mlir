module @unary {
  func.func public @main(%arg0: tensor<3xi1>) -> tensor<3xi1> {
    %0 = "stablehlo.not"(%arg0) : (tensor<3xi1>) -> tensor<3xi1>
    return %0 : tensor<3xi1>
  }
}
