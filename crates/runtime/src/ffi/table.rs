//! The table of functions that a plugin hands out, in the header's order.

#![allow(non_snake_case)] // the C names

use std::ffi::c_void;

use super::sys::*;

/// An argument struct, tied to the one function that takes it.
///
/// # Safety
/// `entry` returns the table slot whose C signature takes a pointer to `Self`.
pub(super) unsafe trait Args: CStruct {
    /// The C name of the function.
    const FUNCTION: &'static str;

    /// The function in a plugin's table, if the plugin has it.
    fn entry(api: &PJRT_Api) -> Option<Call<Self>>;
}

/// A function that reports failure through its result; null means success.
pub(super) type Call<A> = unsafe extern "C" fn(*mut A) -> *mut PJRT_Error;
/// A function that cannot fail.
pub(super) type CallVoid<A> = unsafe extern "C" fn(*mut A);
/// A table entry that this crate never calls.
pub(super) type Unused = unsafe extern "C" fn();

/// The type of one table entry: fallible, infallible, or never called here.
macro_rules! slot {
    () => { Option<Unused> };
    (fallible $args:ident) => { Option<Call<$args>> };
    (void $args:ident) => { Option<CallVoid<$args>> };
}

macro_rules! args_impl {
    ($name:ident) => {};
    ($name:ident fallible $args:ident) => {
        // SAFETY: the slot's type, declared from the same line, takes `*mut $args`.
        unsafe impl Args for $args {
            const FUNCTION: &'static str = stringify!($name);
            fn entry(api: &PJRT_Api) -> Option<Call<Self>> {
                api.$name
            }
        }
    };
    ($name:ident void $args:ident) => {};
}

/// Declares the function table in the header's order.
macro_rules! api {
    ($( $name:ident $(: $kind:ident $args:ident)? ; )*) => {
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub(super) struct PJRT_Api {
            pub(super) struct_size: usize,
            pub(super) extension_start: *mut c_void,
            pub(super) pjrt_api_version: PJRT_Api_Version,
            $(pub(super) $name: slot!($($kind $args)?),)*
        }
        // SAFETY: every entry is an optional function.
        unsafe impl Zeroable for PJRT_Api {}

        $(args_impl!($name $($kind $args)?);)*

        #[cfg(test)]
        pub(super) fn api_layout() -> super::layout_test::StructLayout {
            super::layout_test::StructLayout {
                name: "PJRT_Api",
                size: size_of::<PJRT_Api>(),
                fields: vec![
                    ("struct_size", std::mem::offset_of!(PJRT_Api, struct_size), size_of::<usize>()),
                    ("extension_start", std::mem::offset_of!(PJRT_Api, extension_start), size_of::<*mut c_void>()),
                    ("pjrt_api_version", std::mem::offset_of!(PJRT_Api, pjrt_api_version), size_of::<PJRT_Api_Version>()),
                    $((stringify!($name), std::mem::offset_of!(PJRT_Api, $name), size_of::<slot!($($kind $args)?)>()),)*
                ],
            }
        }
    };
}

api! {
    PJRT_Error_Destroy: void PJRT_Error_Destroy_Args;
    PJRT_Error_Message: void PJRT_Error_Message_Args;
    PJRT_Error_GetCode: fallible PJRT_Error_GetCode_Args;
    PJRT_Plugin_Initialize: fallible PJRT_Plugin_Initialize_Args;
    PJRT_Plugin_Attributes: fallible PJRT_Plugin_Attributes_Args;
    PJRT_Event_Destroy: fallible PJRT_Event_Destroy_Args;
    PJRT_Event_IsReady: fallible PJRT_Event_IsReady_Args;
    PJRT_Event_Error;
    PJRT_Event_Await: fallible PJRT_Event_Await_Args;
    PJRT_Event_OnReady: fallible PJRT_Event_OnReady_Args;
    PJRT_Client_Create: fallible PJRT_Client_Create_Args;
    PJRT_Client_Destroy: fallible PJRT_Client_Destroy_Args;
    PJRT_Client_PlatformName: fallible PJRT_Client_PlatformName_Args;
    PJRT_Client_ProcessIndex;
    PJRT_Client_PlatformVersion: fallible PJRT_Client_PlatformVersion_Args;
    PJRT_Client_Devices;
    PJRT_Client_AddressableDevices: fallible PJRT_Client_AddressableDevices_Args;
    PJRT_Client_LookupDevice;
    PJRT_Client_LookupAddressableDevice;
    PJRT_Client_AddressableMemories;
    PJRT_Client_Compile: fallible PJRT_Client_Compile_Args;
    PJRT_Client_DefaultDeviceAssignment;
    PJRT_Client_BufferFromHostBuffer: fallible PJRT_Client_BufferFromHostBuffer_Args;
    PJRT_DeviceDescription_Id: fallible PJRT_DeviceDescription_Id_Args;
    PJRT_DeviceDescription_ProcessIndex;
    PJRT_DeviceDescription_Attributes;
    PJRT_DeviceDescription_Kind: fallible PJRT_DeviceDescription_Kind_Args;
    PJRT_DeviceDescription_DebugString: fallible PJRT_DeviceDescription_DebugString_Args;
    PJRT_DeviceDescription_ToString;
    PJRT_Device_GetDescription: fallible PJRT_Device_GetDescription_Args;
    PJRT_Device_IsAddressable;
    PJRT_Device_LocalHardwareId;
    PJRT_Device_AddressableMemories;
    PJRT_Device_DefaultMemory;
    PJRT_Device_MemoryStats: fallible PJRT_Device_MemoryStats_Args;
    PJRT_Memory_Id;
    PJRT_Memory_Kind;
    PJRT_Memory_DebugString;
    PJRT_Memory_ToString;
    PJRT_Memory_AddressableByDevices;
    PJRT_Executable_Destroy: fallible PJRT_Executable_Destroy_Args;
    PJRT_Executable_Name: fallible PJRT_Executable_Name_Args;
    PJRT_Executable_NumReplicas: fallible PJRT_Executable_NumReplicas_Args;
    PJRT_Executable_NumPartitions: fallible PJRT_Executable_NumPartitions_Args;
    PJRT_Executable_NumOutputs: fallible PJRT_Executable_NumOutputs_Args;
    PJRT_Executable_SizeOfGeneratedCodeInBytes;
    PJRT_Executable_GetCostAnalysis: fallible PJRT_Executable_GetCostAnalysis_Args;
    PJRT_Executable_OutputMemoryKinds;
    PJRT_Executable_OptimizedProgram: fallible PJRT_Executable_OptimizedProgram_Args;
    PJRT_Executable_Serialize: fallible PJRT_Executable_Serialize_Args;
    PJRT_LoadedExecutable_Destroy: fallible PJRT_LoadedExecutable_Destroy_Args;
    PJRT_LoadedExecutable_GetExecutable: fallible PJRT_LoadedExecutable_GetExecutable_Args;
    PJRT_LoadedExecutable_AddressableDevices: fallible PJRT_LoadedExecutable_AddressableDevices_Args;
    PJRT_LoadedExecutable_Delete;
    PJRT_LoadedExecutable_IsDeleted;
    PJRT_LoadedExecutable_Execute: fallible PJRT_LoadedExecutable_Execute_Args;
    PJRT_Executable_DeserializeAndLoad: fallible PJRT_Executable_DeserializeAndLoad_Args;
    PJRT_LoadedExecutable_Fingerprint;
    PJRT_Buffer_Destroy: fallible PJRT_Buffer_Destroy_Args;
    PJRT_Buffer_ElementType;
    PJRT_Buffer_Dimensions;
    PJRT_Buffer_UnpaddedDimensions;
    PJRT_Buffer_DynamicDimensionIndices;
    PJRT_Buffer_GetMemoryLayout;
    PJRT_Buffer_OnDeviceSizeInBytes: fallible PJRT_Buffer_OnDeviceSizeInBytes_Args;
    PJRT_Buffer_Device;
    PJRT_Buffer_Memory;
    PJRT_Buffer_Delete: fallible PJRT_Buffer_Delete_Args;
    PJRT_Buffer_IsDeleted: fallible PJRT_Buffer_IsDeleted_Args;
    PJRT_Buffer_CopyToDevice: fallible PJRT_Buffer_CopyToDevice_Args;
    PJRT_Buffer_ToHostBuffer: fallible PJRT_Buffer_ToHostBuffer_Args;
    PJRT_Buffer_IsOnCpu: fallible PJRT_Buffer_IsOnCpu_Args;
    PJRT_Buffer_ReadyEvent: fallible PJRT_Buffer_ReadyEvent_Args;
    PJRT_Buffer_UnsafePointer: fallible PJRT_Buffer_UnsafePointer_Args;
    PJRT_Buffer_IncreaseExternalReferenceCount: fallible PJRT_Buffer_IncreaseExternalReferenceCount_Args;
    PJRT_Buffer_DecreaseExternalReferenceCount: fallible PJRT_Buffer_DecreaseExternalReferenceCount_Args;
    PJRT_Buffer_OpaqueDeviceMemoryDataPointer: fallible PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args;
    PJRT_CopyToDeviceStream_Destroy;
    PJRT_CopyToDeviceStream_AddChunk;
    PJRT_CopyToDeviceStream_TotalBytes;
    PJRT_CopyToDeviceStream_GranuleSize;
    PJRT_CopyToDeviceStream_CurrentBytes;
    PJRT_TopologyDescription_Create: fallible PJRT_TopologyDescription_Create_Args;
    PJRT_TopologyDescription_Destroy: fallible PJRT_TopologyDescription_Destroy_Args;
    PJRT_TopologyDescription_PlatformName;
    PJRT_TopologyDescription_PlatformVersion: fallible PJRT_TopologyDescription_PlatformVersion_Args;
    PJRT_TopologyDescription_GetDeviceDescriptions: fallible PJRT_TopologyDescription_GetDeviceDescriptions_Args;
    PJRT_TopologyDescription_Serialize;
    PJRT_TopologyDescription_Attributes: fallible PJRT_TopologyDescription_Attributes_Args;
    PJRT_Compile: fallible PJRT_Compile_Args;
    PJRT_Executable_OutputElementTypes: fallible PJRT_Executable_OutputElementTypes_Args;
    PJRT_Executable_OutputDimensions: fallible PJRT_Executable_OutputDimensions_Args;
    PJRT_Buffer_CopyToMemory;
    PJRT_Client_CreateViewOfDeviceBuffer;
    PJRT_Executable_Fingerprint: fallible PJRT_Executable_Fingerprint_Args;
    PJRT_Client_TopologyDescription;
    PJRT_Executable_GetCompiledMemoryStats: fallible PJRT_Executable_GetCompiledMemoryStats_Args;
    PJRT_Memory_Kind_Id;
    PJRT_ExecuteContext_Create;
    PJRT_ExecuteContext_Destroy;
    PJRT_Buffer_CopyRawToHost;
    PJRT_AsyncHostToDeviceTransferManager_Destroy;
    PJRT_AsyncHostToDeviceTransferManager_TransferData;
    PJRT_Client_CreateBuffersForAsyncHostToDevice;
    PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer;
    PJRT_AsyncHostToDeviceTransferManager_Device;
    PJRT_AsyncHostToDeviceTransferManager_BufferCount;
    PJRT_AsyncHostToDeviceTransferManager_BufferSize;
    PJRT_AsyncHostToDeviceTransferManager_SetBufferError;
    PJRT_AsyncHostToDeviceTransferManager_AddMetadata;
    PJRT_Client_DmaMap;
    PJRT_Client_DmaUnmap;
    PJRT_Client_CreateUninitializedBuffer;
    PJRT_Client_UpdateGlobalProcessInfo;
    PJRT_TopologyDescription_Deserialize;
    PJRT_Client_CreateAliasBuffer;
    PJRT_Client_FulfillAliasBuffer;
    PJRT_LoadedExecutable_GetDeviceAssignment;
}
