module @binary {
  func.func public @main(%arg0: tensor<3xi1>, %arg1: tensor<3xi1>) -> (tensor<3xi1>, tensor<3xi1>, tensor<3xi1>, tensor<3xi1>, tensor<3xi1>) {
    %0 = "stablehlo.and"(%arg0, %arg1) : (tensor<3xi1>, tensor<3xi1>) -> tensor<3xi1>
    %1 = "stablehlo.maximum"(%arg0, %arg1) : (tensor<3xi1>, tensor<3xi1>) -> tensor<3xi1>
    %2 = "stablehlo.minimum"(%arg0, %arg1) : (tensor<3xi1>, tensor<3xi1>) -> tensor<3xi1>
    %3 = "stablehlo.or"(%arg0, %arg1) : (tensor<3xi1>, tensor<3xi1>) -> tensor<3xi1>
    %4 = "stablehlo.xor"(%arg0, %arg1) : (tensor<3xi1>, tensor<3xi1>) -> tensor<3xi1>
    return %0, %1, %2, %3, %4 : tensor<3xi1>, tensor<3xi1>, tensor<3xi1>, tensor<3xi1>, tensor<3xi1>
  }
}
