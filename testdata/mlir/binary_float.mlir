module @binary {
  func.func public @main(%arg0: tensor<3xf32>, %arg1: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
    %0 = "stablehlo.add"(%arg0, %arg1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %1 = "stablehlo.atan2"(%arg0, %arg1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %2 = "stablehlo.complex"(%arg0, %arg1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xcomplex<f32>>
    %3 = "stablehlo.divide"(%arg0, %arg1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %4 = "stablehlo.maximum"(%arg0, %arg1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %5 = "stablehlo.minimum"(%arg0, %arg1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %6 = "stablehlo.multiply"(%arg0, %arg1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %7 = "chlo.next_after"(%arg0, %arg1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %8 = "stablehlo.constant"() {value = dense<1.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %9 = "stablehlo.constant"() {value = dense<2.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %10 = "stablehlo.add"(%arg0, %8) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %11 = "chlo.lgamma"(%10) : (tensor<3xf32>) -> tensor<3xf32>
    %12 = "stablehlo.exponential"(%11) : (tensor<3xf32>) -> tensor<3xf32>
    %13 = "chlo.zeta"(%10, %arg1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %14 = "stablehlo.floor"(%arg1) : (tensor<3xf32>) -> tensor<3xf32>
    %15 = "stablehlo.compare"(%arg1, %14) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %16 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %17 = "stablehlo.compare"(%arg1, %16) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction LE>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %18 = "stablehlo.and"(%15, %17) : (tensor<3xi1>, tensor<3xi1>) -> tensor<3xi1>
    %19 = "stablehlo.constant"() {value = dense<0x7F800000> : tensor<3xf32>} : () -> tensor<3xf32>
    %20 = "stablehlo.select"(%18, %19, %13) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %21 = "stablehlo.constant"() {value = dense<1.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %22 = "stablehlo.compare"(%10, %21) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %23 = "stablehlo.constant"() {value = dense<0x7FC00000> : tensor<3xf32>} : () -> tensor<3xf32>
    %24 = "stablehlo.select"(%22, %23, %20) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %25 = "stablehlo.multiply"(%12, %24) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %26 = "stablehlo.remainder"(%arg0, %9) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %27 = "stablehlo.compare"(%26, %8) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %28 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %29 = "stablehlo.compare"(%26, %28) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %30 = "stablehlo.negate"(%25) : (tensor<3xf32>) -> tensor<3xf32>
    %31 = "stablehlo.constant"() {value = dense<0x7FC00000> : tensor<3xf32>} : () -> tensor<3xf32>
    %32 = "stablehlo.select"(%29, %30, %31) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %33 = "stablehlo.select"(%27, %25, %32) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %34 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %35 = "stablehlo.compare"(%arg0, %34) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %36 = "chlo.digamma"(%arg1) : (tensor<3xf32>) -> tensor<3xf32>
    %37 = "stablehlo.select"(%35, %36, %33) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %38 = "stablehlo.power"(%arg0, %arg1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %39 = "stablehlo.remainder"(%arg0, %arg1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %40 = "stablehlo.subtract"(%arg0, %arg1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %41 = "chlo.zeta"(%arg0, %arg1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %42 = "stablehlo.floor"(%arg1) : (tensor<3xf32>) -> tensor<3xf32>
    %43 = "stablehlo.compare"(%arg1, %42) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %44 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %45 = "stablehlo.compare"(%arg1, %44) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction LE>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %46 = "stablehlo.and"(%43, %45) : (tensor<3xi1>, tensor<3xi1>) -> tensor<3xi1>
    %47 = "stablehlo.constant"() {value = dense<0x7F800000> : tensor<3xf32>} : () -> tensor<3xf32>
    %48 = "stablehlo.select"(%46, %47, %41) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %49 = "stablehlo.constant"() {value = dense<1.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %50 = "stablehlo.compare"(%arg0, %49) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %51 = "stablehlo.constant"() {value = dense<0x7FC00000> : tensor<3xf32>} : () -> tensor<3xf32>
    %52 = "stablehlo.select"(%50, %51, %48) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    return %0, %1, %2, %3, %4, %5, %6, %7, %37, %38, %39, %40, %52 : tensor<3xf32>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
  }
}
