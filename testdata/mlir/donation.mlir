module @donation {
  func.func public @main(%arg0: tensor<2xf32>, %arg1: tensor<2xf32> {tf.aliasing_output = 2 : i32}, %arg2: tensor<2xf32> {tf.aliasing_output = 1 : i32}) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
    %0 = "stablehlo.add"(%arg0, %arg1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %1 = "stablehlo.multiply"(%0, %arg2) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    return %0, %1, %0 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  }
}
