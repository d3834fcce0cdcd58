#loc = loc(unknown)
#loc2 = loc("net.py":13:0)
#loc4 = loc("aten.sum.default"(#loc2))
module @located {
  func.func public @main(%arg0: tensor<2x3xf32> loc(unknown)) -> tensor<2xf32> {
    %0 = "stablehlo.tanh"(%arg0) : (tensor<2x3xf32>) -> tensor<2x3xf32> loc(#loc3)
    %1 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32> loc(#loc4)
    %2 = "stablehlo.reduce"(%0, %1) ({
    ^bb0(%arg1: tensor<f32> loc("aten.sum.default"(#loc2)), %arg2: tensor<f32> loc("aten.sum.default"(#loc2))):
      %4 = "stablehlo.add"(%arg1, %arg2) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(#loc4)
      "stablehlo.return"(%4) : (tensor<f32>) -> () loc(#loc4)
    }) {dimensions = array<i64: 1>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32> loc(#loc4)
    %3 = "stablehlo.negate"(%2) : (tensor<2xf32>) -> tensor<2xf32> loc(#loc)
    return %3 : tensor<2xf32> loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc1 = loc("net.py":12:0)
#loc3 = loc("layers.0.mlp/aten.tanh.default"(#loc1))
