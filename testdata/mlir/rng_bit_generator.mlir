module @rng_bit_generator {
  func.func public @main(%arg0: tensor<2xui64>) -> (tensor<3x5xui32>, tensor<7xui64>, tensor<ui32>) {
    %0:2 = "stablehlo.rng_bit_generator"(%arg0) {rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>} : (tensor<2xui64>) -> (tensor<2xui64>, tensor<3x5xui32>)
    %1:2 = "stablehlo.rng_bit_generator"(%0#0) {rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>} : (tensor<2xui64>) -> (tensor<2xui64>, tensor<7xui64>)
    %2:2 = "stablehlo.rng_bit_generator"(%1#0) {rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>} : (tensor<2xui64>) -> (tensor<2xui64>, tensor<ui32>)
    return %0#1, %1#1, %2#1 : tensor<3x5xui32>, tensor<7xui64>, tensor<ui32>
  }
}
