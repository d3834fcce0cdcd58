module @while {
  func.func public @main(%arg0: tensor<i32>, %arg1: tensor<2xf32>) -> (tensor<i32>, tensor<2xf32>) {
    %0:2 = "stablehlo.while"(%arg0, %arg1) ({
    ^bb0(%arg2: tensor<i32>, %arg3: tensor<2xf32>):
      %1 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
      %2 = "stablehlo.compare"(%arg2, %1) {compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction GT>} : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%2) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg2: tensor<i32>, %arg3: tensor<2xf32>):
      %1 = "stablehlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
      %2 = "stablehlo.subtract"(%arg2, %1) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      %3 = "stablehlo.add"(%arg3, %arg3) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      "stablehlo.return"(%2, %3) : (tensor<i32>, tensor<2xf32>) -> ()
    }) : (tensor<i32>, tensor<2xf32>) -> (tensor<i32>, tensor<2xf32>)
    return %0#0, %0#1 : tensor<i32>, tensor<2xf32>
  }
}
