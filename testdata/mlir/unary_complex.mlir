module @unary {
  func.func public @main(%arg0: tensor<3xcomplex<f32>>) -> (tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>) {
    %0 = "stablehlo.abs"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
    %1 = "chlo.acos"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
    %2 = "chlo.acosh"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
    %3 = "chlo.asin"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
    %4 = "chlo.asinh"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
    %5 = "chlo.atanh"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
    %6 = "chlo.cosh"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
    %7 = "stablehlo.cosine"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
    %8 = "stablehlo.exponential"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
    %9 = "stablehlo.exponential_minus_one"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
    %10 = "stablehlo.imag"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
    %11 = "stablehlo.log"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
    %12 = "stablehlo.log_plus_one"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
    %13 = "stablehlo.logistic"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
    %14 = "stablehlo.negate"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
    %15 = "stablehlo.real"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
    %16 = "stablehlo.rsqrt"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
    %17 = "stablehlo.sign"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
    %18 = "stablehlo.sine"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
    %19 = "chlo.sinh"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
    %20 = "stablehlo.sqrt"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
    %21 = "stablehlo.tan"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
    %22 = "stablehlo.tanh"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22 : tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>
  }
}
