module @concatenate {
  func.func public @main(%arg0: tensor<2x1xf64>, %arg1: tensor<2x0xf64>, %arg2: tensor<2x3xf64>) -> tensor<2x4xf64> {
    %0 = "stablehlo.concatenate"(%arg0, %arg1, %arg2) {dimension = 1 : i64} : (tensor<2x1xf64>, tensor<2x0xf64>, tensor<2x3xf64>) -> tensor<2x4xf64>
    return %0 : tensor<2x4xf64>
  }
}
