module @scatter {
  func.func public @main(%arg0: tensor<5x3xf32>, %arg1: tensor<4x1xi32>, %arg2: tensor<4x3xf32>, %arg3: tensor<4x3x5xf32>, %arg4: tensor<1x2x4xi32>, %arg5: tensor<1x2x4xf32>, %arg6: tensor<5x3xf32>, %arg7: tensor<4x1xi32>, %arg8: tensor<4x3xf32>, %arg9: tensor<4x3x5xf32>, %arg10: tensor<1x2x4xi32>, %arg11: tensor<1x2x4xf32>, %arg12: tensor<5x3xf32>, %arg13: tensor<4x1xi32>, %arg14: tensor<4x3xf32>, %arg15: tensor<4x3x5xf32>, %arg16: tensor<1x2x4xi32>, %arg17: tensor<1x2x4xf32>, %arg18: tensor<5x3xf32>, %arg19: tensor<4x1xi32>, %arg20: tensor<4x3xf32>, %arg21: tensor<4x3x5xf32>, %arg22: tensor<1x2x4xi32>, %arg23: tensor<1x2x4xf32>, %arg24: tensor<5x3xf32>, %arg25: tensor<4x1xi32>, %arg26: tensor<4x3xf32>, %arg27: tensor<4x3x5xf32>, %arg28: tensor<1x2x4xi32>, %arg29: tensor<1x2x4xf32>) -> (tensor<5x3xf32>, tensor<4x3x5xf32>, tensor<5x3xf32>, tensor<4x3x5xf32>, tensor<5x3xf32>, tensor<4x3x5xf32>, tensor<5x3xf32>, tensor<4x3x5xf32>, tensor<5x3xf32>, tensor<4x3x5xf32>) {
    %0 = "stablehlo.scatter"(%arg0, %arg1, %arg2) ({
    ^bb0(%arg30: tensor<f32>, %arg31: tensor<f32>):
      "stablehlo.return"(%arg31) : (tensor<f32>) -> ()
    }) {indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false} : (tensor<5x3xf32>, tensor<4x1xi32>, tensor<4x3xf32>) -> tensor<5x3xf32>
    %1 = "stablehlo.scatter"(%arg3, %arg4, %arg5) ({
    ^bb0(%arg30: tensor<f32>, %arg31: tensor<f32>):
      "stablehlo.return"(%arg31) : (tensor<f32>) -> ()
    }) {indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [2], input_batching_dims = [0], scatter_indices_batching_dims = [2], scatter_dims_to_operand_dims = [2, 1], index_vector_dim = 1>, unique_indices = true} : (tensor<4x3x5xf32>, tensor<1x2x4xi32>, tensor<1x2x4xf32>) -> tensor<4x3x5xf32>
    %2 = "stablehlo.scatter"(%arg6, %arg7, %arg8) ({
    ^bb0(%arg30: tensor<f32>, %arg31: tensor<f32>):
      %10 = "stablehlo.add"(%arg30, %arg31) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%10) : (tensor<f32>) -> ()
    }) {indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false} : (tensor<5x3xf32>, tensor<4x1xi32>, tensor<4x3xf32>) -> tensor<5x3xf32>
    %3 = "stablehlo.scatter"(%arg9, %arg10, %arg11) ({
    ^bb0(%arg30: tensor<f32>, %arg31: tensor<f32>):
      %10 = "stablehlo.add"(%arg30, %arg31) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%10) : (tensor<f32>) -> ()
    }) {indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [2], input_batching_dims = [0], scatter_indices_batching_dims = [2], scatter_dims_to_operand_dims = [2, 1], index_vector_dim = 1>, unique_indices = true} : (tensor<4x3x5xf32>, tensor<1x2x4xi32>, tensor<1x2x4xf32>) -> tensor<4x3x5xf32>
    %4 = "stablehlo.scatter"(%arg12, %arg13, %arg14) ({
    ^bb0(%arg30: tensor<f32>, %arg31: tensor<f32>):
      %10 = "stablehlo.multiply"(%arg30, %arg31) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%10) : (tensor<f32>) -> ()
    }) {indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false} : (tensor<5x3xf32>, tensor<4x1xi32>, tensor<4x3xf32>) -> tensor<5x3xf32>
    %5 = "stablehlo.scatter"(%arg15, %arg16, %arg17) ({
    ^bb0(%arg30: tensor<f32>, %arg31: tensor<f32>):
      %10 = "stablehlo.multiply"(%arg30, %arg31) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%10) : (tensor<f32>) -> ()
    }) {indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [2], input_batching_dims = [0], scatter_indices_batching_dims = [2], scatter_dims_to_operand_dims = [2, 1], index_vector_dim = 1>, unique_indices = true} : (tensor<4x3x5xf32>, tensor<1x2x4xi32>, tensor<1x2x4xf32>) -> tensor<4x3x5xf32>
    %6 = "stablehlo.scatter"(%arg18, %arg19, %arg20) ({
    ^bb0(%arg30: tensor<f32>, %arg31: tensor<f32>):
      %10 = "stablehlo.maximum"(%arg30, %arg31) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%10) : (tensor<f32>) -> ()
    }) {indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false} : (tensor<5x3xf32>, tensor<4x1xi32>, tensor<4x3xf32>) -> tensor<5x3xf32>
    %7 = "stablehlo.scatter"(%arg21, %arg22, %arg23) ({
    ^bb0(%arg30: tensor<f32>, %arg31: tensor<f32>):
      %10 = "stablehlo.maximum"(%arg30, %arg31) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%10) : (tensor<f32>) -> ()
    }) {indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [2], input_batching_dims = [0], scatter_indices_batching_dims = [2], scatter_dims_to_operand_dims = [2, 1], index_vector_dim = 1>, unique_indices = true} : (tensor<4x3x5xf32>, tensor<1x2x4xi32>, tensor<1x2x4xf32>) -> tensor<4x3x5xf32>
    %8 = "stablehlo.scatter"(%arg24, %arg25, %arg26) ({
    ^bb0(%arg30: tensor<f32>, %arg31: tensor<f32>):
      %10 = "stablehlo.minimum"(%arg30, %arg31) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%10) : (tensor<f32>) -> ()
    }) {indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false} : (tensor<5x3xf32>, tensor<4x1xi32>, tensor<4x3xf32>) -> tensor<5x3xf32>
    %9 = "stablehlo.scatter"(%arg27, %arg28, %arg29) ({
    ^bb0(%arg30: tensor<f32>, %arg31: tensor<f32>):
      %10 = "stablehlo.minimum"(%arg30, %arg31) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%10) : (tensor<f32>) -> ()
    }) {indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [2], input_batching_dims = [0], scatter_indices_batching_dims = [2], scatter_dims_to_operand_dims = [2, 1], index_vector_dim = 1>, unique_indices = true} : (tensor<4x3x5xf32>, tensor<1x2x4xi32>, tensor<1x2x4xf32>) -> tensor<4x3x5xf32>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9 : tensor<5x3xf32>, tensor<4x3x5xf32>, tensor<5x3xf32>, tensor<4x3x5xf32>, tensor<5x3xf32>, tensor<4x3x5xf32>, tensor<5x3xf32>, tensor<4x3x5xf32>, tensor<5x3xf32>, tensor<4x3x5xf32>
  }
}
