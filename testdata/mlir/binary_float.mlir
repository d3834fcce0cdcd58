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
    %37 = "stablehlo.compare"(%10, %14) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %38 = "stablehlo.select"(%37, %19, %36) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %39 = "stablehlo.select"(%15, %38, %19) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %40 = "stablehlo.floor"(%arg1) : (tensor<3xf32>) -> tensor<3xf32>
    %41 = "stablehlo.compare"(%arg1, %40) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %42 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %43 = "stablehlo.compare"(%arg1, %42) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction LE>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %44 = "stablehlo.and"(%41, %43) : (tensor<3xi1>, tensor<3xi1>) -> tensor<3xi1>
    %45 = "stablehlo.constant"() {value = dense<0x7F800000> : tensor<3xf32>} : () -> tensor<3xf32>
    %46 = "stablehlo.select"(%44, %45, %39) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %47 = "stablehlo.constant"() {value = dense<1.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %48 = "stablehlo.compare"(%10, %47) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %49 = "stablehlo.constant"() {value = dense<0x7FC00000> : tensor<3xf32>} : () -> tensor<3xf32>
    %50 = "stablehlo.select"(%48, %49, %46) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %51 = "stablehlo.multiply"(%12, %50) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %52 = "stablehlo.remainder"(%arg0, %9) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %53 = "stablehlo.compare"(%52, %8) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %54 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %55 = "stablehlo.compare"(%52, %54) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %56 = "stablehlo.negate"(%51) : (tensor<3xf32>) -> tensor<3xf32>
    %57 = "stablehlo.constant"() {value = dense<0x7FC00000> : tensor<3xf32>} : () -> tensor<3xf32>
    %58 = "stablehlo.select"(%55, %56, %57) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %59 = "stablehlo.select"(%53, %51, %58) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %60 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %61 = "stablehlo.compare"(%arg0, %60) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %62 = "chlo.digamma"(%arg1) : (tensor<3xf32>) -> tensor<3xf32>
    %63 = "stablehlo.select"(%61, %62, %59) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %64 = "stablehlo.power"(%arg0, %arg1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %65 = "stablehlo.remainder"(%arg0, %arg1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %66 = "stablehlo.subtract"(%arg0, %arg1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %67 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %68 = "stablehlo.constant"() {value = dense<1.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %69 = "stablehlo.compare"(%arg1, %67) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %70 = "stablehlo.floor"(%arg1) : (tensor<3xf32>) -> tensor<3xf32>
    %71 = "stablehlo.subtract"(%arg1, %70) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %72 = "stablehlo.select"(%69, %71, %arg1) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %73 = "chlo.zeta"(%arg0, %72) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %74 = "stablehlo.subtract"(%68, %71) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %75 = "stablehlo.select"(%69, %74, %68) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %76 = "stablehlo.subtract"(%68, %arg1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %77 = "stablehlo.select"(%69, %76, %68) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %78 = "chlo.zeta"(%arg0, %75) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %79 = "chlo.zeta"(%arg0, %77) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %80 = "stablehlo.subtract"(%78, %79) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %81 = "stablehlo.constant"() {value = dense<2.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %82 = "stablehlo.remainder"(%arg0, %81) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %83 = "stablehlo.compare"(%82, %67) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %84 = "stablehlo.negate"(%80) : (tensor<3xf32>) -> tensor<3xf32>
    %85 = "stablehlo.select"(%83, %80, %84) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %86 = "stablehlo.floor"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %87 = "stablehlo.compare"(%arg0, %86) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %88 = "stablehlo.constant"() {value = dense<0x7FC00000> : tensor<3xf32>} : () -> tensor<3xf32>
    %89 = "stablehlo.add"(%73, %85) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %90 = "stablehlo.select"(%87, %89, %88) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %91 = "stablehlo.compare"(%arg0, %68) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %92 = "stablehlo.select"(%91, %73, %90) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %93 = "stablehlo.select"(%69, %92, %73) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %94 = "stablehlo.floor"(%arg1) : (tensor<3xf32>) -> tensor<3xf32>
    %95 = "stablehlo.compare"(%arg1, %94) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %96 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %97 = "stablehlo.compare"(%arg1, %96) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction LE>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %98 = "stablehlo.and"(%95, %97) : (tensor<3xi1>, tensor<3xi1>) -> tensor<3xi1>
    %99 = "stablehlo.constant"() {value = dense<0x7F800000> : tensor<3xf32>} : () -> tensor<3xf32>
    %100 = "stablehlo.select"(%98, %99, %93) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %101 = "stablehlo.constant"() {value = dense<1.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %102 = "stablehlo.compare"(%arg0, %101) {compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %103 = "stablehlo.constant"() {value = dense<0x7FC00000> : tensor<3xf32>} : () -> tensor<3xf32>
    %104 = "stablehlo.select"(%102, %103, %100) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    return %0, %1, %2, %3, %4, %5, %6, %7, %63, %64, %65, %66, %104 : tensor<3xf32>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
  }
}
