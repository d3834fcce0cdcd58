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
    %13 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %14 = "stablehlo.constant"() {value = dense<1.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %15 = "stablehlo.compare"(%arg1, %13) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %16 = "stablehlo.floor"(%arg1) : (tensor<3xf32>) -> tensor<3xf32>
    %17 = "stablehlo.subtract"(%arg1, %16) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %18 = "stablehlo.select"(%15, %17, %arg1) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %19 = "chlo.zeta"(%10, %18) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %20 = "stablehlo.subtract"(%14, %17) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %21 = "stablehlo.select"(%15, %20, %14) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %22 = "stablehlo.subtract"(%14, %arg1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %23 = "stablehlo.select"(%15, %22, %14) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %24 = "chlo.zeta"(%10, %21) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %25 = "chlo.zeta"(%10, %23) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %26 = "stablehlo.subtract"(%24, %25) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %27 = "stablehlo.constant"() {value = dense<2.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %28 = "stablehlo.remainder"(%10, %27) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %29 = "stablehlo.compare"(%28, %13) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %30 = "stablehlo.negate"(%26) : (tensor<3xf32>) -> tensor<3xf32>
    %31 = "stablehlo.select"(%29, %26, %30) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %32 = "stablehlo.floor"(%10) : (tensor<3xf32>) -> tensor<3xf32>
    %33 = "stablehlo.compare"(%10, %32) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %34 = "stablehlo.constant"() {value = dense<0x7FC00000> : tensor<3xf32>} : () -> tensor<3xf32>
    %35 = "stablehlo.add"(%19, %31) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %36 = "stablehlo.select"(%33, %35, %34) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %37 = "stablehlo.select"(%15, %36, %19) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %38 = "stablehlo.floor"(%arg1) : (tensor<3xf32>) -> tensor<3xf32>
    %39 = "stablehlo.compare"(%arg1, %38) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %40 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %41 = "stablehlo.compare"(%arg1, %40) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction LE>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %42 = "stablehlo.and"(%39, %41) : (tensor<3xi1>, tensor<3xi1>) -> tensor<3xi1>
    %43 = "stablehlo.constant"() {value = dense<0x7F800000> : tensor<3xf32>} : () -> tensor<3xf32>
    %44 = "stablehlo.select"(%42, %43, %37) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %45 = "stablehlo.constant"() {value = dense<1.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %46 = "stablehlo.compare"(%10, %45) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %47 = "stablehlo.constant"() {value = dense<0x7FC00000> : tensor<3xf32>} : () -> tensor<3xf32>
    %48 = "stablehlo.select"(%46, %47, %44) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %49 = "stablehlo.multiply"(%12, %48) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %50 = "stablehlo.remainder"(%arg0, %9) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %51 = "stablehlo.compare"(%50, %8) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %52 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %53 = "stablehlo.compare"(%50, %52) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %54 = "stablehlo.negate"(%49) : (tensor<3xf32>) -> tensor<3xf32>
    %55 = "stablehlo.constant"() {value = dense<0x7FC00000> : tensor<3xf32>} : () -> tensor<3xf32>
    %56 = "stablehlo.select"(%53, %54, %55) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %57 = "stablehlo.select"(%51, %49, %56) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %58 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %59 = "stablehlo.compare"(%arg0, %58) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %60 = "chlo.digamma"(%arg1) : (tensor<3xf32>) -> tensor<3xf32>
    %61 = "stablehlo.select"(%59, %60, %57) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %62 = "stablehlo.power"(%arg0, %arg1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %63 = "stablehlo.remainder"(%arg0, %arg1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %64 = "stablehlo.subtract"(%arg0, %arg1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %65 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %66 = "stablehlo.constant"() {value = dense<1.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %67 = "stablehlo.compare"(%arg1, %65) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %68 = "stablehlo.floor"(%arg1) : (tensor<3xf32>) -> tensor<3xf32>
    %69 = "stablehlo.subtract"(%arg1, %68) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %70 = "stablehlo.select"(%67, %69, %arg1) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %71 = "chlo.zeta"(%arg0, %70) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %72 = "stablehlo.subtract"(%66, %69) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %73 = "stablehlo.select"(%67, %72, %66) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %74 = "stablehlo.subtract"(%66, %arg1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %75 = "stablehlo.select"(%67, %74, %66) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %76 = "chlo.zeta"(%arg0, %73) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %77 = "chlo.zeta"(%arg0, %75) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %78 = "stablehlo.subtract"(%76, %77) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %79 = "stablehlo.constant"() {value = dense<2.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %80 = "stablehlo.remainder"(%arg0, %79) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %81 = "stablehlo.compare"(%80, %65) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %82 = "stablehlo.negate"(%78) : (tensor<3xf32>) -> tensor<3xf32>
    %83 = "stablehlo.select"(%81, %78, %82) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %84 = "stablehlo.floor"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %85 = "stablehlo.compare"(%arg0, %84) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %86 = "stablehlo.constant"() {value = dense<0x7FC00000> : tensor<3xf32>} : () -> tensor<3xf32>
    %87 = "stablehlo.add"(%71, %83) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %88 = "stablehlo.select"(%85, %87, %86) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %89 = "stablehlo.select"(%67, %88, %71) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %90 = "stablehlo.floor"(%arg1) : (tensor<3xf32>) -> tensor<3xf32>
    %91 = "stablehlo.compare"(%arg1, %90) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %92 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %93 = "stablehlo.compare"(%arg1, %92) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction LE>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %94 = "stablehlo.and"(%91, %93) : (tensor<3xi1>, tensor<3xi1>) -> tensor<3xi1>
    %95 = "stablehlo.constant"() {value = dense<0x7F800000> : tensor<3xf32>} : () -> tensor<3xf32>
    %96 = "stablehlo.select"(%94, %95, %89) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %97 = "stablehlo.constant"() {value = dense<1.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %98 = "stablehlo.compare"(%arg0, %97) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %99 = "stablehlo.constant"() {value = dense<0x7FC00000> : tensor<3xf32>} : () -> tensor<3xf32>
    %100 = "stablehlo.select"(%98, %99, %96) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    return %0, %1, %2, %3, %4, %5, %6, %7, %61, %62, %63, %64, %100 : tensor<3xf32>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
  }
}
