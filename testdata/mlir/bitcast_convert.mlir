module @bitcast_convert {
  func.func public @main(%arg0: tensor<2xf32>, %arg1: tensor<2xbf16>) -> (tensor<2xui32>, tensor<2xi16>) {
    %0 = "stablehlo.bitcast_convert"(%arg0) : (tensor<2xf32>) -> tensor<2xui32>
    %1 = "stablehlo.bitcast_convert"(%arg1) : (tensor<2xbf16>) -> tensor<2xi16>
    return %0, %1 : tensor<2xui32>, tensor<2xi16>
  }
}
