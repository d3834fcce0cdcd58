module @optimization_barrier {
  func.func public @main(%arg0: tensor<2xf32>, %arg1: tensor<i32>) -> (tensor<2xf32>, tensor<2xf32>) {
    %0:2 = "stablehlo.optimization_barrier"(%arg0, %arg1) : (tensor<2xf32>, tensor<i32>) -> (tensor<2xf32>, tensor<i32>)
    %1 = "stablehlo.tanh"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
    %2 = "stablehlo.tanh"(%0#0) : (tensor<2xf32>) -> tensor<2xf32>
    return %1, %2 : tensor<2xf32>, tensor<2xf32>
  }
}
