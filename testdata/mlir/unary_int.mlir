module @unary {
  func.func public @main(%arg0: tensor<3xi32>) -> (tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>) {
    %0 = "stablehlo.abs"(%arg0) : (tensor<3xi32>) -> tensor<3xi32>
    %1 = "stablehlo.count_leading_zeros"(%arg0) : (tensor<3xi32>) -> tensor<3xi32>
    %2 = "stablehlo.negate"(%arg0) : (tensor<3xi32>) -> tensor<3xi32>
    %3 = "stablehlo.not"(%arg0) : (tensor<3xi32>) -> tensor<3xi32>
    %4 = "stablehlo.popcnt"(%arg0) : (tensor<3xi32>) -> tensor<3xi32>
    %5 = "stablehlo.sign"(%arg0) : (tensor<3xi32>) -> tensor<3xi32>
    return %0, %1, %2, %3, %4, %5 : tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>
  }
}
