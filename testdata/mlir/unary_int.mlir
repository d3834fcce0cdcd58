module @unary {
  func.func public @main(%arg0: tensor<3xi32>) -> (tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>) {
    %0 = "stablehlo.negate"(%arg0) : (tensor<3xi32>) -> tensor<3xi32>
    %1 = "stablehlo.maximum"(%arg0, %0) : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
    %2 = "stablehlo.count_leading_zeros"(%arg0) : (tensor<3xi32>) -> tensor<3xi32>
    %3 = "stablehlo.negate"(%arg0) : (tensor<3xi32>) -> tensor<3xi32>
    %4 = "stablehlo.not"(%arg0) : (tensor<3xi32>) -> tensor<3xi32>
    %5 = "stablehlo.popcnt"(%arg0) : (tensor<3xi32>) -> tensor<3xi32>
    %6 = "stablehlo.sign"(%arg0) : (tensor<3xi32>) -> tensor<3xi32>
    return %1, %2, %3, %4, %5, %6 : tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>
  }
}
