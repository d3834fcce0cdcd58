module @binary {
  func.func public @main(%arg0: tensor<3xui8>, %arg1: tensor<3xui8>) -> (tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>) {
    %0 = "stablehlo.add"(%arg0, %arg1) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
    %1 = "stablehlo.and"(%arg0, %arg1) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
    %2 = "stablehlo.divide"(%arg0, %arg1) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
    %3 = "stablehlo.maximum"(%arg0, %arg1) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
    %4 = "stablehlo.minimum"(%arg0, %arg1) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
    %5 = "stablehlo.multiply"(%arg0, %arg1) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
    %6 = "stablehlo.or"(%arg0, %arg1) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
    %7 = "stablehlo.constant"() {value = dense<1> : tensor<3xui8>} : () -> tensor<3xui8>
    %8:3 = "stablehlo.while"(%7, %arg0, %arg1) ({
    ^bb0(%arg2: tensor<3xui8>, %arg3: tensor<3xui8>, %arg4: tensor<3xui8>):
      %15 = "stablehlo.constant"() {value = dense<0> : tensor<3xui8>} : () -> tensor<3xui8>
      %16 = "stablehlo.compare"(%arg4, %15) {compare_type = #stablehlo<comparison_type UNSIGNED>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xi1>
      %17 = "stablehlo.constant"() {value = dense<false> : tensor<i1>} : () -> tensor<i1>
      %18 = "stablehlo.reduce"(%16, %17) ({
      ^bb0(%arg5: tensor<i1>, %arg6: tensor<i1>):
        %19 = "stablehlo.or"(%arg5, %arg6) : (tensor<i1>, tensor<i1>) -> tensor<i1>
        "stablehlo.return"(%19) : (tensor<i1>) -> ()
      }) {dimensions = array<i64: 0>} : (tensor<3xi1>, tensor<i1>) -> tensor<i1>
      "stablehlo.return"(%18) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg2: tensor<3xui8>, %arg3: tensor<3xui8>, %arg4: tensor<3xui8>):
      %15 = "stablehlo.constant"() {value = dense<1> : tensor<3xui8>} : () -> tensor<3xui8>
      %16 = "stablehlo.and"(%arg4, %15) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
      %17 = "stablehlo.compare"(%16, %15) {compare_type = #stablehlo<comparison_type UNSIGNED>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xi1>
      %18 = "stablehlo.multiply"(%arg2, %arg3) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
      %19 = "stablehlo.select"(%17, %18, %arg2) : (tensor<3xi1>, tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
      %20 = "stablehlo.multiply"(%arg3, %arg3) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
      %21 = "stablehlo.shift_right_logical"(%arg4, %15) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
      "stablehlo.return"(%19, %20, %21) : (tensor<3xui8>, tensor<3xui8>, tensor<3xui8>) -> ()
    }) : (tensor<3xui8>, tensor<3xui8>, tensor<3xui8>) -> (tensor<3xui8>, tensor<3xui8>, tensor<3xui8>)
    %9 = "stablehlo.remainder"(%arg0, %arg1) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
    %10 = "stablehlo.shift_left"(%arg0, %arg1) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
    %11 = "stablehlo.shift_right_arithmetic"(%arg0, %arg1) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
    %12 = "stablehlo.shift_right_logical"(%arg0, %arg1) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
    %13 = "stablehlo.subtract"(%arg0, %arg1) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
    %14 = "stablehlo.xor"(%arg0, %arg1) : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
    return %0, %1, %2, %3, %4, %5, %6, %8#0, %9, %10, %11, %12, %13, %14 : tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>, tensor<3xui8>
  }
}
