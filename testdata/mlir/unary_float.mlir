module @unary {
  func.func public @main(%arg0: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xi1>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
    %0 = "stablehlo.abs"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %1 = "chlo.acos"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %2 = "chlo.acosh"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %3 = "chlo.asin"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %4 = "chlo.asinh"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %5 = "chlo.atanh"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %6 = "chlo.bessel_i1e"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %7 = "stablehlo.cbrt"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %8 = "stablehlo.ceil"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %9 = "chlo.cosh"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %10 = "stablehlo.cosine"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %11 = "chlo.digamma"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %12 = "chlo.erf"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %13 = "stablehlo.multiply"(%12, %12) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %14 = "stablehlo.constant"() {value = dense<2.38418579E-7> : tensor<3xf32>} : () -> tensor<3xf32>
    %15 = "stablehlo.multiply"(%13, %14) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %16 = "stablehlo.constant"() {value = dense<1.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %17 = "stablehlo.add"(%15, %16) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %18 = "stablehlo.multiply"(%12, %17) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %19 = "stablehlo.constant"() {value = dense<-1.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %20 = "stablehlo.constant"() {value = dense<1.000000e+00> : tensor<3xf32>} : () -> tensor<3xf32>
    %21 = "stablehlo.clamp"(%19, %18, %20) : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %22 = "chlo.erf_inv"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %23 = "chlo.erfc"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %24 = "stablehlo.exponential"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %25 = "stablehlo.exponential_minus_one"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %26 = "stablehlo.floor"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %27 = "stablehlo.is_finite"(%arg0) : (tensor<3xf32>) -> tensor<3xi1>
    %28 = "chlo.lgamma"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %29 = "stablehlo.log"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %30 = "stablehlo.log_plus_one"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %31 = "stablehlo.logistic"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %32 = "stablehlo.negate"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %33 = "stablehlo.round_nearest_even"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %34 = "stablehlo.rsqrt"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %35 = "stablehlo.sign"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %36 = "stablehlo.sine"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %37 = "chlo.sinh"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %38 = "stablehlo.sqrt"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %39 = "stablehlo.tan"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %40 = "stablehlo.tanh"(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xi1>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
  }
}
