module @binary {
  func.func public @main(%arg0: tensor<3xui8>, %arg1: tensor<3xui8>) -> (tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>) {
    %0 = "stablehlo.add"(%arg0, %arg1) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
    %1 = "stablehlo.and"(%arg0, %arg1) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
    %2 = "stablehlo.divide"(%arg0, %arg1) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
    %3 = "stablehlo.maximum"(%arg0, %arg1) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
    %4 = "stablehlo.minimum"(%arg0, %arg1) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
    %5 = "stablehlo.multiply"(%arg0, %arg1) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
    %6 = "stablehlo.or"(%arg0, %arg1) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
    %7 = "stablehlo.power"(%arg0, %arg1) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
    %8 = "stablehlo.remainder"(%arg0, %arg1) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
    %9 = "stablehlo.shift_left"(%arg0, %arg1) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
    %10 = "stablehlo.shift_right_arithmetic"(%arg0, %arg1) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
    %11 = "stablehlo.shift_right_logical"(%arg0, %arg1) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
    %12 = "stablehlo.subtract"(%arg0, %arg1) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
    %13 = "stablehlo.xor"(%arg0, %arg1) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13 : tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>
  }
}
