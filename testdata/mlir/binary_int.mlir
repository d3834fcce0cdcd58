module @binary {
  func.func public @main(%arg0: tensor<3xi64>, %arg1: tensor<3xi64>) -> (tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>) {
    %0 = "stablehlo.add"(%arg0, %arg1) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
    %1 = "stablehlo.and"(%arg0, %arg1) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
    %2 = "stablehlo.divide"(%arg0, %arg1) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
    %3 = "stablehlo.maximum"(%arg0, %arg1) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
    %4 = "stablehlo.minimum"(%arg0, %arg1) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
    %5 = "stablehlo.multiply"(%arg0, %arg1) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
    %6 = "stablehlo.or"(%arg0, %arg1) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
    %7 = "stablehlo.constant"() {value = dense<1> : tensor<3xi64>} : () -> tensor<3xi64>
    %8 = "stablehlo.abs"(%arg1) : (tensor<3xi64>) -> tensor<3xi64>
    %9:3 = "stablehlo.while"(%7, %arg0, %8) ({
    ^bb0(%arg2: tensor<3xi64>, %arg3: tensor<3xi64>, %arg4: tensor<3xi64>):
      %24 = "stablehlo.constant"() {value = dense<0> : tensor<3xi64>} : () -> tensor<3xi64>
      %25 = "stablehlo.compare"(%arg4, %24) {compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi1>
      %26 = "stablehlo.constant"() {value = dense<false> : tensor<i1>} : () -> tensor<i1>
      %27 = "stablehlo.reduce"(%25, %26) ({
      ^bb0(%arg5: tensor<i1>, %arg6: tensor<i1>):
        %28 = "stablehlo.or"(%arg5, %arg6) : (tensor<i1>, tensor<i1>) -> tensor<i1>
        "stablehlo.return"(%28) : (tensor<i1>) -> ()
      }) {dimensions = array<i64: 0>} : (tensor<3xi1>, tensor<i1>) -> tensor<i1>
      "stablehlo.return"(%27) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg2: tensor<3xi64>, %arg3: tensor<3xi64>, %arg4: tensor<3xi64>):
      %24 = "stablehlo.constant"() {value = dense<1> : tensor<3xi64>} : () -> tensor<3xi64>
      %25 = "stablehlo.and"(%arg4, %24) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
      %26 = "stablehlo.compare"(%25, %24) {compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi1>
      %27 = "stablehlo.multiply"(%arg2, %arg3) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
      %28 = "stablehlo.select"(%26, %27, %arg2) : (tensor<3xi1>, tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
      %29 = "stablehlo.multiply"(%arg3, %arg3) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
      %30 = "stablehlo.shift_right_logical"(%arg4, %24) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
      "stablehlo.return"(%28, %29, %30) : (tensor<3xi64>, tensor<3xi64>, tensor<3xi64>) -> ()
    }) : (tensor<3xi64>, tensor<3xi64>, tensor<3xi64>) -> (tensor<3xi64>, tensor<3xi64>, tensor<3xi64>)
    %10 = "stablehlo.constant"() {value = dense<0> : tensor<3xi64>} : () -> tensor<3xi64>
    %11 = "stablehlo.constant"() {value = dense<-1> : tensor<3xi64>} : () -> tensor<3xi64>
    %12 = "stablehlo.compare"(%arg0, %7) {compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi1>
    %13 = "stablehlo.compare"(%arg0, %11) {compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi1>
    %14 = "stablehlo.or"(%12, %13) : (tensor<3xi1>, tensor<3xi1>) -> tensor<3xi1>
    %15 = "stablehlo.compare"(%arg1, %10) {compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi1>
    %16 = "stablehlo.select"(%14, %9#0, %10) : (tensor<3xi1>, tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
    %17 = "stablehlo.select"(%15, %16, %9#0) : (tensor<3xi1>, tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
    %18 = "stablehlo.remainder"(%arg0, %arg1) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
    %19 = "stablehlo.shift_left"(%arg0, %arg1) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
    %20 = "stablehlo.shift_right_arithmetic"(%arg0, %arg1) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
    %21 = "stablehlo.shift_right_logical"(%arg0, %arg1) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
    %22 = "stablehlo.subtract"(%arg0, %arg1) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
    %23 = "stablehlo.xor"(%arg0, %arg1) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
    return %0, %1, %2, %3, %4, %5, %6, %17, %18, %19, %20, %21, %22, %23 : tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>, tensor<3xi64>
  }
}
