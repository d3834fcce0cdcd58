module @slice {
  func.func public @main(%arg0: tensor<5x7xi32>) -> (tensor<2x3xi32>, tensor<0x1xi32>) {
    %0 = "stablehlo.slice"(%arg0) {limit_indices = array<i64: 4, 7>, start_indices = array<i64: 1, 0>, strides = array<i64: 2, 3>} : (tensor<5x7xi32>) -> tensor<2x3xi32>
    %1 = "stablehlo.slice"(%arg0) {limit_indices = array<i64: 5, 2>, start_indices = array<i64: 5, 1>, strides = array<i64: 1, 1>} : (tensor<5x7xi32>) -> tensor<0x1xi32>
    return %0, %1 : tensor<2x3xi32>, tensor<0x1xi32>
  }
}
