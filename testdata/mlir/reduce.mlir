module @reduce {
  func.func public @main(%arg0: tensor<2x3x4xf32>, %arg1: tensor<2x3x4xi16>, %arg2: tensor<2x3x4xui64>, %arg3: tensor<2x3x4xi1>, %arg4: tensor<2x3x4xcomplex<f32>>, %arg5: tensor<2x3x4xf8E4M3FN>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xi16>, tensor<3xi16>, tensor<3xi16>, tensor<3xi16>, tensor<3xi16>, tensor<3xi16>, tensor<3xi16>, tensor<3xui64>, tensor<3xui64>, tensor<3xui64>, tensor<3xui64>, tensor<3xui64>, tensor<3xui64>, tensor<3xui64>, tensor<3xi1>, tensor<3xi1>, tensor<3xi1>, tensor<3xi1>, tensor<3xi1>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xf8E4M3FN>, tensor<3xf8E4M3FN>, tensor<3xf8E4M3FN>, tensor<3xf8E4M3FN>) {
    %0 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %1 = "stablehlo.reduce"(%arg0, %0) ({
    ^bb0(%arg6: tensor<f32>, %arg7: tensor<f32>):
      %58 = "stablehlo.add"(%arg6, %arg7) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%58) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 0, 2>} : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<3xf32>
    %2 = "stablehlo.constant"() {value = dense<1.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %3 = "stablehlo.reduce"(%arg0, %2) ({
    ^bb0(%arg6: tensor<f32>, %arg7: tensor<f32>):
      %58 = "stablehlo.multiply"(%arg6, %arg7) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%58) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 0, 2>} : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<3xf32>
    %4 = "stablehlo.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
    %5 = "stablehlo.reduce"(%arg0, %4) ({
    ^bb0(%arg6: tensor<f32>, %arg7: tensor<f32>):
      %58 = "stablehlo.maximum"(%arg6, %arg7) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%58) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 0, 2>} : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<3xf32>
    %6 = "stablehlo.constant"() {value = dense<0x7F800000> : tensor<f32>} : () -> tensor<f32>
    %7 = "stablehlo.reduce"(%arg0, %6) ({
    ^bb0(%arg6: tensor<f32>, %arg7: tensor<f32>):
      %58 = "stablehlo.minimum"(%arg6, %arg7) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%58) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 0, 2>} : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<3xf32>
    %8 = "stablehlo.constant"() {value = dense<0> : tensor<i16>} : () -> tensor<i16>
    %9 = "stablehlo.reduce"(%arg1, %8) ({
    ^bb0(%arg6: tensor<i16>, %arg7: tensor<i16>):
      %58 = "stablehlo.add"(%arg6, %arg7) : (tensor<i16>, tensor<i16>) -> tensor<i16>
      "stablehlo.return"(%58) : (tensor<i16>) -> ()
    }) {dimensions = array<i64: 0, 2>} : (tensor<2x3x4xi16>, tensor<i16>) -> tensor<3xi16>
    %10 = "stablehlo.constant"() {value = dense<1> : tensor<i16>} : () -> tensor<i16>
    %11 = "stablehlo.reduce"(%arg1, %10) ({
    ^bb0(%arg6: tensor<i16>, %arg7: tensor<i16>):
      %58 = "stablehlo.multiply"(%arg6, %arg7) : (tensor<i16>, tensor<i16>) -> tensor<i16>
      "stablehlo.return"(%58) : (tensor<i16>) -> ()
    }) {dimensions = array<i64: 0, 2>} : (tensor<2x3x4xi16>, tensor<i16>) -> tensor<3xi16>
    %12 = "stablehlo.constant"() {value = dense<-32768> : tensor<i16>} : () -> tensor<i16>
    %13 = "stablehlo.reduce"(%arg1, %12) ({
    ^bb0(%arg6: tensor<i16>, %arg7: tensor<i16>):
      %58 = "stablehlo.maximum"(%arg6, %arg7) : (tensor<i16>, tensor<i16>) -> tensor<i16>
      "stablehlo.return"(%58) : (tensor<i16>) -> ()
    }) {dimensions = array<i64: 0, 2>} : (tensor<2x3x4xi16>, tensor<i16>) -> tensor<3xi16>
    %14 = "stablehlo.constant"() {value = dense<32767> : tensor<i16>} : () -> tensor<i16>
    %15 = "stablehlo.reduce"(%arg1, %14) ({
    ^bb0(%arg6: tensor<i16>, %arg7: tensor<i16>):
      %58 = "stablehlo.minimum"(%arg6, %arg7) : (tensor<i16>, tensor<i16>) -> tensor<i16>
      "stablehlo.return"(%58) : (tensor<i16>) -> ()
    }) {dimensions = array<i64: 0, 2>} : (tensor<2x3x4xi16>, tensor<i16>) -> tensor<3xi16>
    %16 = "stablehlo.constant"() {value = dense<-1> : tensor<i16>} : () -> tensor<i16>
    %17 = "stablehlo.reduce"(%arg1, %16) ({
    ^bb0(%arg6: tensor<i16>, %arg7: tensor<i16>):
      %58 = "stablehlo.and"(%arg6, %arg7) : (tensor<i16>, tensor<i16>) -> tensor<i16>
      "stablehlo.return"(%58) : (tensor<i16>) -> ()
    }) {dimensions = array<i64: 0, 2>} : (tensor<2x3x4xi16>, tensor<i16>) -> tensor<3xi16>
    %18 = "stablehlo.constant"() {value = dense<0> : tensor<i16>} : () -> tensor<i16>
    %19 = "stablehlo.reduce"(%arg1, %18) ({
    ^bb0(%arg6: tensor<i16>, %arg7: tensor<i16>):
      %58 = "stablehlo.or"(%arg6, %arg7) : (tensor<i16>, tensor<i16>) -> tensor<i16>
      "stablehlo.return"(%58) : (tensor<i16>) -> ()
    }) {dimensions = array<i64: 0, 2>} : (tensor<2x3x4xi16>, tensor<i16>) -> tensor<3xi16>
    %20 = "stablehlo.constant"() {value = dense<0> : tensor<i16>} : () -> tensor<i16>
    %21 = "stablehlo.reduce"(%arg1, %20) ({
    ^bb0(%arg6: tensor<i16>, %arg7: tensor<i16>):
      %58 = "stablehlo.xor"(%arg6, %arg7) : (tensor<i16>, tensor<i16>) -> tensor<i16>
      "stablehlo.return"(%58) : (tensor<i16>) -> ()
    }) {dimensions = array<i64: 0, 2>} : (tensor<2x3x4xi16>, tensor<i16>) -> tensor<3xi16>
    %22 = "stablehlo.constant"() {value = dense<0> : tensor<ui64>} : () -> tensor<ui64>
    %23 = "stablehlo.reduce"(%arg2, %22) ({
    ^bb0(%arg6: tensor<ui64>, %arg7: tensor<ui64>):
      %58 = "stablehlo.add"(%arg6, %arg7) : (tensor<ui64>, tensor<ui64>) -> tensor<ui64>
      "stablehlo.return"(%58) : (tensor<ui64>) -> ()
    }) {dimensions = array<i64: 0, 2>} : (tensor<2x3x4xui64>, tensor<ui64>) -> tensor<3xui64>
    %24 = "stablehlo.constant"() {value = dense<1> : tensor<ui64>} : () -> tensor<ui64>
    %25 = "stablehlo.reduce"(%arg2, %24) ({
    ^bb0(%arg6: tensor<ui64>, %arg7: tensor<ui64>):
      %58 = "stablehlo.multiply"(%arg6, %arg7) : (tensor<ui64>, tensor<ui64>) -> tensor<ui64>
      "stablehlo.return"(%58) : (tensor<ui64>) -> ()
    }) {dimensions = array<i64: 0, 2>} : (tensor<2x3x4xui64>, tensor<ui64>) -> tensor<3xui64>
    %26 = "stablehlo.constant"() {value = dense<0> : tensor<ui64>} : () -> tensor<ui64>
    %27 = "stablehlo.reduce"(%arg2, %26) ({
    ^bb0(%arg6: tensor<ui64>, %arg7: tensor<ui64>):
      %58 = "stablehlo.maximum"(%arg6, %arg7) : (tensor<ui64>, tensor<ui64>) -> tensor<ui64>
      "stablehlo.return"(%58) : (tensor<ui64>) -> ()
    }) {dimensions = array<i64: 0, 2>} : (tensor<2x3x4xui64>, tensor<ui64>) -> tensor<3xui64>
    %28 = "stablehlo.constant"() {value = dense<18446744073709551615> : tensor<ui64>} : () -> tensor<ui64>
    %29 = "stablehlo.reduce"(%arg2, %28) ({
    ^bb0(%arg6: tensor<ui64>, %arg7: tensor<ui64>):
      %58 = "stablehlo.minimum"(%arg6, %arg7) : (tensor<ui64>, tensor<ui64>) -> tensor<ui64>
      "stablehlo.return"(%58) : (tensor<ui64>) -> ()
    }) {dimensions = array<i64: 0, 2>} : (tensor<2x3x4xui64>, tensor<ui64>) -> tensor<3xui64>
    %30 = "stablehlo.constant"() {value = dense<18446744073709551615> : tensor<ui64>} : () -> tensor<ui64>
    %31 = "stablehlo.reduce"(%arg2, %30) ({
    ^bb0(%arg6: tensor<ui64>, %arg7: tensor<ui64>):
      %58 = "stablehlo.and"(%arg6, %arg7) : (tensor<ui64>, tensor<ui64>) -> tensor<ui64>
      "stablehlo.return"(%58) : (tensor<ui64>) -> ()
    }) {dimensions = array<i64: 0, 2>} : (tensor<2x3x4xui64>, tensor<ui64>) -> tensor<3xui64>
    %32 = "stablehlo.constant"() {value = dense<0> : tensor<ui64>} : () -> tensor<ui64>
    %33 = "stablehlo.reduce"(%arg2, %32) ({
    ^bb0(%arg6: tensor<ui64>, %arg7: tensor<ui64>):
      %58 = "stablehlo.or"(%arg6, %arg7) : (tensor<ui64>, tensor<ui64>) -> tensor<ui64>
      "stablehlo.return"(%58) : (tensor<ui64>) -> ()
    }) {dimensions = array<i64: 0, 2>} : (tensor<2x3x4xui64>, tensor<ui64>) -> tensor<3xui64>
    %34 = "stablehlo.constant"() {value = dense<0> : tensor<ui64>} : () -> tensor<ui64>
    %35 = "stablehlo.reduce"(%arg2, %34) ({
    ^bb0(%arg6: tensor<ui64>, %arg7: tensor<ui64>):
      %58 = "stablehlo.xor"(%arg6, %arg7) : (tensor<ui64>, tensor<ui64>) -> tensor<ui64>
      "stablehlo.return"(%58) : (tensor<ui64>) -> ()
    }) {dimensions = array<i64: 0, 2>} : (tensor<2x3x4xui64>, tensor<ui64>) -> tensor<3xui64>
    %36 = "stablehlo.constant"() {value = dense<false> : tensor<i1>} : () -> tensor<i1>
    %37 = "stablehlo.reduce"(%arg3, %36) ({
    ^bb0(%arg6: tensor<i1>, %arg7: tensor<i1>):
      %58 = "stablehlo.maximum"(%arg6, %arg7) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      "stablehlo.return"(%58) : (tensor<i1>) -> ()
    }) {dimensions = array<i64: 0, 2>} : (tensor<2x3x4xi1>, tensor<i1>) -> tensor<3xi1>
    %38 = "stablehlo.constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
    %39 = "stablehlo.reduce"(%arg3, %38) ({
    ^bb0(%arg6: tensor<i1>, %arg7: tensor<i1>):
      %58 = "stablehlo.minimum"(%arg6, %arg7) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      "stablehlo.return"(%58) : (tensor<i1>) -> ()
    }) {dimensions = array<i64: 0, 2>} : (tensor<2x3x4xi1>, tensor<i1>) -> tensor<3xi1>
    %40 = "stablehlo.constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
    %41 = "stablehlo.reduce"(%arg3, %40) ({
    ^bb0(%arg6: tensor<i1>, %arg7: tensor<i1>):
      %58 = "stablehlo.and"(%arg6, %arg7) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      "stablehlo.return"(%58) : (tensor<i1>) -> ()
    }) {dimensions = array<i64: 0, 2>} : (tensor<2x3x4xi1>, tensor<i1>) -> tensor<3xi1>
    %42 = "stablehlo.constant"() {value = dense<false> : tensor<i1>} : () -> tensor<i1>
    %43 = "stablehlo.reduce"(%arg3, %42) ({
    ^bb0(%arg6: tensor<i1>, %arg7: tensor<i1>):
      %58 = "stablehlo.or"(%arg6, %arg7) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      "stablehlo.return"(%58) : (tensor<i1>) -> ()
    }) {dimensions = array<i64: 0, 2>} : (tensor<2x3x4xi1>, tensor<i1>) -> tensor<3xi1>
    %44 = "stablehlo.constant"() {value = dense<false> : tensor<i1>} : () -> tensor<i1>
    %45 = "stablehlo.reduce"(%arg3, %44) ({
    ^bb0(%arg6: tensor<i1>, %arg7: tensor<i1>):
      %58 = "stablehlo.xor"(%arg6, %arg7) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      "stablehlo.return"(%58) : (tensor<i1>) -> ()
    }) {dimensions = array<i64: 0, 2>} : (tensor<2x3x4xi1>, tensor<i1>) -> tensor<3xi1>
    %46 = "stablehlo.constant"() {value = dense<(0.000000e+00,0.000000e+00)> : tensor<complex<f32>>} : () -> tensor<complex<f32>>
    %47 = "stablehlo.reduce"(%arg4, %46) ({
    ^bb0(%arg6: tensor<complex<f32>>, %arg7: tensor<complex<f32>>):
      %58 = "stablehlo.add"(%arg6, %arg7) : (tensor<complex<f32>>, tensor<complex<f32>>) -> tensor<complex<f32>>
      "stablehlo.return"(%58) : (tensor<complex<f32>>) -> ()
    }) {dimensions = array<i64: 0, 2>} : (tensor<2x3x4xcomplex<f32>>, tensor<complex<f32>>) -> tensor<3xcomplex<f32>>
    %48 = "stablehlo.constant"() {value = dense<(1.000000e+00,0.000000e+00)> : tensor<complex<f32>>} : () -> tensor<complex<f32>>
    %49 = "stablehlo.reduce"(%arg4, %48) ({
    ^bb0(%arg6: tensor<complex<f32>>, %arg7: tensor<complex<f32>>):
      %58 = "stablehlo.multiply"(%arg6, %arg7) : (tensor<complex<f32>>, tensor<complex<f32>>) -> tensor<complex<f32>>
      "stablehlo.return"(%58) : (tensor<complex<f32>>) -> ()
    }) {dimensions = array<i64: 0, 2>} : (tensor<2x3x4xcomplex<f32>>, tensor<complex<f32>>) -> tensor<3xcomplex<f32>>
    %50 = "stablehlo.constant"() {value = dense<0.000000e+00> : tensor<f8E4M3FN>} : () -> tensor<f8E4M3FN>
    %51 = "stablehlo.reduce"(%arg5, %50) ({
    ^bb0(%arg6: tensor<f8E4M3FN>, %arg7: tensor<f8E4M3FN>):
      %58 = "stablehlo.add"(%arg6, %arg7) : (tensor<f8E4M3FN>, tensor<f8E4M3FN>) -> tensor<f8E4M3FN>
      "stablehlo.return"(%58) : (tensor<f8E4M3FN>) -> ()
    }) {dimensions = array<i64: 0, 2>} : (tensor<2x3x4xf8E4M3FN>, tensor<f8E4M3FN>) -> tensor<3xf8E4M3FN>
    %52 = "stablehlo.constant"() {value = dense<1.000000e+00> : tensor<f8E4M3FN>} : () -> tensor<f8E4M3FN>
    %53 = "stablehlo.reduce"(%arg5, %52) ({
    ^bb0(%arg6: tensor<f8E4M3FN>, %arg7: tensor<f8E4M3FN>):
      %58 = "stablehlo.multiply"(%arg6, %arg7) : (tensor<f8E4M3FN>, tensor<f8E4M3FN>) -> tensor<f8E4M3FN>
      "stablehlo.return"(%58) : (tensor<f8E4M3FN>) -> ()
    }) {dimensions = array<i64: 0, 2>} : (tensor<2x3x4xf8E4M3FN>, tensor<f8E4M3FN>) -> tensor<3xf8E4M3FN>
    %54 = "stablehlo.constant"() {value = dense<-4.480000e+02> : tensor<f8E4M3FN>} : () -> tensor<f8E4M3FN>
    %55 = "stablehlo.reduce"(%arg5, %54) ({
    ^bb0(%arg6: tensor<f8E4M3FN>, %arg7: tensor<f8E4M3FN>):
      %58 = "stablehlo.maximum"(%arg6, %arg7) : (tensor<f8E4M3FN>, tensor<f8E4M3FN>) -> tensor<f8E4M3FN>
      "stablehlo.return"(%58) : (tensor<f8E4M3FN>) -> ()
    }) {dimensions = array<i64: 0, 2>} : (tensor<2x3x4xf8E4M3FN>, tensor<f8E4M3FN>) -> tensor<3xf8E4M3FN>
    %56 = "stablehlo.constant"() {value = dense<4.480000e+02> : tensor<f8E4M3FN>} : () -> tensor<f8E4M3FN>
    %57 = "stablehlo.reduce"(%arg5, %56) ({
    ^bb0(%arg6: tensor<f8E4M3FN>, %arg7: tensor<f8E4M3FN>):
      %58 = "stablehlo.minimum"(%arg6, %arg7) : (tensor<f8E4M3FN>, tensor<f8E4M3FN>) -> tensor<f8E4M3FN>
      "stablehlo.return"(%58) : (tensor<f8E4M3FN>) -> ()
    }) {dimensions = array<i64: 0, 2>} : (tensor<2x3x4xf8E4M3FN>, tensor<f8E4M3FN>) -> tensor<3xf8E4M3FN>
    return %1, %3, %5, %7, %9, %11, %13, %15, %17, %19, %21, %23, %25, %27, %29, %31, %33, %35, %37, %39, %41, %43, %45, %47, %49, %51, %53, %55, %57 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xi16>, tensor<3xi16>, tensor<3xi16>, tensor<3xi16>, tensor<3xi16>, tensor<3xi16>, tensor<3xi16>, tensor<3xui64>, tensor<3xui64>, tensor<3xui64>, tensor<3xui64>, tensor<3xui64>, tensor<3xui64>, tensor<3xui64>, tensor<3xi1>, tensor<3xi1>, tensor<3xi1>, tensor<3xi1>, tensor<3xi1>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xf8E4M3FN>, tensor<3xf8E4M3FN>, tensor<3xf8E4M3FN>, tensor<3xf8E4M3FN>
  }
}
