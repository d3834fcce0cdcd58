module @if {
  func.func public @main(%arg0: tensor<i1>, %arg1: tensor<i1>, %arg2: tensor<2xf32>) -> tensor<2xf32> {
    %0 = "stablehlo.if"(%arg0) ({
      %1 = "stablehlo.if"(%arg1) ({
        %2 = "stablehlo.negate"(%arg2) : (tensor<2xf32>) -> tensor<2xf32>
        "stablehlo.return"(%2) : (tensor<2xf32>) -> ()
      }, {
        %2 = "stablehlo.tanh"(%arg2) : (tensor<2xf32>) -> tensor<2xf32>
        "stablehlo.return"(%2) : (tensor<2xf32>) -> ()
      }) : (tensor<i1>) -> tensor<2xf32>
      "stablehlo.return"(%1) : (tensor<2xf32>) -> ()
    }, {
      "stablehlo.return"(%arg2) : (tensor<2xf32>) -> ()
    }) : (tensor<i1>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
