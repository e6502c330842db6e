//! The driver's functions that the phantom does not implement: all other names of cuda.h and of cudarc. Rust's cudarc and cuDNN look them up,
//! and some programs fail if one is missing.

calls! {
    Driver;
    refuse {
        cuArray3DCreate cuArray3DCreate_v2 cuArray3DGetDescriptor cuArray3DGetDescriptor_v2 cuArrayCreate
        cuArrayCreate_v2 cuArrayDestroy cuArrayGetDescriptor cuArrayGetDescriptor_v2 cuArrayGetMemoryRequirements
        cuArrayGetPlane cuArrayGetSparseProperties cuCheckpointProcessCheckpoint cuCheckpointProcessGetRestoreThreadId
        cuCheckpointProcessGetState cuCheckpointProcessLock cuCheckpointProcessRestore cuCheckpointProcessUnlock
        cuCoredumpDeregisterCompleteCallback cuCoredumpDeregisterStartCallback cuCoredumpGetAttribute
        cuCoredumpGetAttributeGlobal cuCoredumpRegisterCompleteCallback cuCoredumpRegisterStartCallback
        cuCoredumpSetAttribute cuCoredumpSetAttributeGlobal cuCtxAttach cuCtxCreate cuCtxCreate_v3 cuCtxCreate_v4
        cuCtxDetach cuCtxDisablePeerAccess cuCtxGetCacheConfig cuCtxGetDevResource cuCtxGetDevice_v2
        cuCtxGetExecAffinity cuCtxGetId cuCtxGetSharedMemConfig cuCtxRecordEvent cuCtxResetPersistingL2Cache
        cuCtxSetCacheConfig cuCtxSetFlags cuCtxSetSharedMemConfig cuCtxWaitEvent cuDestroyExternalMemory
        cuDestroyExternalSemaphore cuDevSmResourceSplit cuDeviceComputeCapability cuDeviceGetCliqueCount
        cuDeviceGetCliqueInfo cuDeviceGetExecAffinitySupport cuDeviceGetFabricClusterUuid
        cuDeviceGetHostAtomicCapabilities cuDeviceGetLuid cuDeviceGetNvSciSyncAttributes
        cuDeviceGetP2PAtomicCapabilities cuDeviceGetP2PAttribute cuDeviceGetProperties
        cuDeviceGetTexture1DLinearMaxWidth cuDevicePrimaryCtxRelease cuDevicePrimaryCtxReset
        cuDevicePrimaryCtxSetFlags cuDeviceRegisterAsyncNotification cuDeviceSetGraphMemAttribute cuDeviceSetMemPool
        cuDeviceTotalMem cuDeviceUnregisterAsyncNotification cuExternalMemoryGetMappedBuffer
        cuExternalMemoryGetMappedMipmappedArray cuFlushGPUDirectRDMAWrites cuFuncGetModule cuFuncGetName
        cuFuncGetParamCount cuFuncGetParamInfo cuFuncIsLoaded cuFuncSetBlockShape cuFuncSetSharedMemConfig
        cuFuncSetSharedSize cuGraphAddBatchMemOpNode cuGraphAddChildGraphNode cuGraphAddDependencies
        cuGraphAddDependencies_v2 cuGraphAddEmptyNode cuGraphAddEventRecordNode cuGraphAddEventWaitNode
        cuGraphAddExternalSemaphoresSignalNode cuGraphAddExternalSemaphoresWaitNode cuGraphAddHostNode
        cuGraphAddKernelNode cuGraphAddKernelNode_v2 cuGraphAddMemcpyNode cuGraphAddMemsetNode cuGraphAddNode_v3
        cuGraphBatchMemOpNodeGetParams cuGraphBatchMemOpNodeSetParams cuGraphChildGraphNodeGetGraph cuGraphClone
        cuGraphConditionalHandleCreate cuGraphDebugDotPrint cuGraphDestroyNode cuGraphEventRecordNodeGetEvent
        cuGraphEventRecordNodeSetEvent cuGraphEventWaitNodeGetEvent cuGraphEventWaitNodeSetEvent
        cuGraphExecBatchMemOpNodeSetParams cuGraphExecChildGraphNodeSetParams cuGraphExecEventRecordNodeSetEvent
        cuGraphExecEventWaitNodeSetEvent cuGraphExecExternalSemaphoresSignalNodeSetParams
        cuGraphExecExternalSemaphoresWaitNodeSetParams cuGraphExecGetFlags cuGraphExecGetId
        cuGraphExecHostNodeSetParams cuGraphExecKernelNodeSetParams cuGraphExecKernelNodeSetParams_v2
        cuGraphExecMemcpyNodeSetParams cuGraphExecMemsetNodeSetParams cuGraphExecNodeSetParams cuGraphExecUpdate
        cuGraphExecUpdate_v2 cuGraphExternalSemaphoresSignalNodeGetParams cuGraphExternalSemaphoresSignalNodeSetParams
        cuGraphExternalSemaphoresWaitNodeGetParams cuGraphExternalSemaphoresWaitNodeSetParams cuGraphGetEdges
        cuGraphGetEdges_v2 cuGraphGetId cuGraphGetNodes cuGraphGetRootNodes cuGraphHostNodeGetParams
        cuGraphHostNodeSetParams cuGraphInstantiate_v2 cuGraphKernelNodeCopyAttributes cuGraphKernelNodeGetAttribute
        cuGraphKernelNodeGetParams cuGraphKernelNodeGetParams_v2 cuGraphKernelNodeSetAttribute
        cuGraphKernelNodeSetParams cuGraphKernelNodeSetParams_v2 cuGraphMemAllocNodeGetParams
        cuGraphMemFreeNodeGetParams cuGraphMemcpyNodeGetParams cuGraphMemcpyNodeSetParams cuGraphMemsetNodeGetParams
        cuGraphMemsetNodeSetParams cuGraphNodeFindInClone cuGraphNodeGetContainingGraph cuGraphNodeGetDependencies
        cuGraphNodeGetDependencies_v2 cuGraphNodeGetDependentNodes cuGraphNodeGetDependentNodes_v2
        cuGraphNodeGetEnabled cuGraphNodeGetLocalId cuGraphNodeGetParams cuGraphNodeGetToolsId cuGraphNodeGetType
        cuGraphNodeSetEnabled cuGraphNodeSetParams cuGraphNodeSetParams_v2 cuGraphReleaseUserObject
        cuGraphRemoveDependencies cuGraphRemoveDependencies_v2 cuGraphRetainUserObject cuGraphicsMapResources
        cuGraphicsResourceGetMappedMipmappedArray cuGraphicsResourceGetMappedPointer
        cuGraphicsResourceGetMappedPointer_v2 cuGraphicsResourceSetMapFlags cuGraphicsResourceSetMapFlags_v2
        cuGraphicsSubResourceGetMappedArray cuGraphicsUnmapResources cuGraphicsUnregisterResource
        cuGreenCtxGetDevResource cuGreenCtxGetId cuGreenCtxRecordEvent cuGreenCtxWaitEvent cuImportExternalMemory
        cuImportExternalSemaphore cuIpcOpenMemHandle cuKernelGetLibrary cuKernelGetName cuKernelGetParamCount
        cuKernelGetParamInfo cuKernelSetCacheConfig cuLaunch cuLaunchCooperativeKernelMultiDevice cuLaunchGrid
        cuLaunchGridAsync cuLaunchHostFunc_v2 cuLibraryEnumerateKernels cuLibraryGetGlobal cuLibraryGetKernelCount
        cuLibraryGetManaged cuLibraryGetModule cuLibraryGetUnifiedFunction cuLinkAddFile cuLinkAddFile_v2
        cuLogicalEndpointAddDevice cuLogicalEndpointBindAddr cuLogicalEndpointBindMem cuLogicalEndpointCreate
        cuLogicalEndpointDestroy cuLogicalEndpointExport cuLogicalEndpointGetLimits cuLogicalEndpointIdRelease
        cuLogicalEndpointIdReserve cuLogicalEndpointImport cuLogicalEndpointQuery cuLogicalEndpointUnbind
        cuLogsCurrent cuLogsDumpToFile cuLogsDumpToMemory cuMemAdvise cuMemAdvise_v2 cuMemAlloc cuMemAllocHost
        cuMemAllocPitch cuMemAllocPitch_v2 cuMemBatchDecompressAsync cuMemDiscardAndPrefetchBatchAsync
        cuMemDiscardBatchAsync cuMemFree cuMemGetAccess cuMemGetDefaultMemPool cuMemGetHandleForAddressRange
        cuMemGetInfo cuMemGetLocationInfo cuMemGetMemPool cuMemHostGetDevicePointer cuMemHostGetFlags
        cuMemHostRegister cuMemMapArrayAsync cuMemPoolCreate cuMemPoolDestroy cuMemPoolExportPointer
        cuMemPoolExportToShareableHandle cuMemPoolGetAccess cuMemPoolImportFromShareableHandle cuMemPoolImportPointer
        cuMemPrefetchAsync_v2 cuMemPrefetchBatchAsync cuMemRangeGetAttribute cuMemRangeGetAttributes cuMemSetMemPool
        cuMemcpy2D cuMemcpy2DAsync cuMemcpy2DAsync_v2 cuMemcpy2DUnaligned cuMemcpy2DUnaligned_v2 cuMemcpy2D_v2
        cuMemcpy3D cuMemcpy3DAsync cuMemcpy3DAsync_v2 cuMemcpy3DBatchAsync cuMemcpy3DBatchAsync_v2 cuMemcpy3DPeer
        cuMemcpy3DPeerAsync cuMemcpy3DWithAttributesAsync cuMemcpy3D_v2 cuMemcpyAtoA cuMemcpyAtoA_v2 cuMemcpyAtoD
        cuMemcpyAtoD_v2 cuMemcpyAtoH cuMemcpyAtoHAsync cuMemcpyAtoHAsync_v2 cuMemcpyAtoH_v2 cuMemcpyBatchAsync
        cuMemcpyBatchAsync_v2 cuMemcpyDtoA cuMemcpyDtoA_v2 cuMemcpyDtoD cuMemcpyDtoDAsync cuMemcpyDtoH
        cuMemcpyDtoHAsync cuMemcpyHtoA cuMemcpyHtoAAsync cuMemcpyHtoAAsync_v2 cuMemcpyHtoA_v2 cuMemcpyHtoD
        cuMemcpyHtoDAsync cuMemcpyPeer cuMemcpyPeerAsync cuMemcpyWithAttributesAsync cuMemsetD16 cuMemsetD16Async
        cuMemsetD16_v2 cuMemsetD2D16 cuMemsetD2D16Async cuMemsetD2D16_v2 cuMemsetD2D32 cuMemsetD2D32Async
        cuMemsetD2D32_v2 cuMemsetD2D8 cuMemsetD2D8Async cuMemsetD2D8_v2 cuMemsetD32 cuMemsetD8 cuMipmappedArrayCreate
        cuMipmappedArrayDestroy cuMipmappedArrayGetLevel cuMipmappedArrayGetMemoryRequirements
        cuMipmappedArrayGetSparseProperties cuModuleEnumerateFunctions cuModuleGetFunctionCount cuModuleGetGlobal
        cuModuleGetLoadingMode cuModuleGetSurfRef cuModuleGetTexRef cuMulticastBindAddr_v2 cuMulticastBindMem_v2
        cuOccupancyAvailableDynamicSMemPerBlock cuOccupancyMaxPotentialBlockSizeWithFlags cuParamSetSize
        cuParamSetTexRef cuParamSetf cuParamSeti cuParamSetv cuPointerGetAttributes cuPointerSetAttribute
        cuProfilerInitialize cuSignalExternalSemaphoresAsync cuStreamAttachMemAsync cuStreamBatchMemOp
        cuStreamBatchMemOp_v2 cuStreamBeginCapture cuStreamBeginCaptureToCig cuStreamBeginCaptureToGraph
        cuStreamBeginRecaptureToGraph cuStreamCopyAttributes cuStreamEndCaptureToCig cuStreamGetAttribute
        cuStreamGetCaptureInfo cuStreamGetCtx_v2 cuStreamGetDevResource cuStreamGetDevice cuStreamGetGreenCtx
        cuStreamGetId cuStreamSetAttribute cuStreamUpdateCaptureDependencies cuStreamUpdateCaptureDependencies_v2
        cuStreamWaitValue64 cuStreamWaitValue64_v2 cuStreamWriteValue64 cuStreamWriteValue64_v2 cuSurfObjectCreate
        cuSurfObjectDestroy cuSurfObjectGetResourceDesc cuSurfRefGetArray cuSurfRefSetArray cuTensorMapEncodeIm2col
        cuTensorMapEncodeIm2colWide cuTensorMapReplaceAddress cuTexObjectCreate cuTexObjectDestroy
        cuTexObjectGetResourceDesc cuTexObjectGetResourceViewDesc cuTexObjectGetTextureDesc cuTexRefCreate
        cuTexRefDestroy cuTexRefGetAddress cuTexRefGetAddressMode cuTexRefGetAddress_v2 cuTexRefGetArray
        cuTexRefGetBorderColor cuTexRefGetFilterMode cuTexRefGetFlags cuTexRefGetFormat cuTexRefGetMaxAnisotropy
        cuTexRefGetMipmapFilterMode cuTexRefGetMipmapLevelBias cuTexRefGetMipmapLevelClamp cuTexRefGetMipmappedArray
        cuTexRefSetAddress cuTexRefSetAddress2D cuTexRefSetAddress2D_v2 cuTexRefSetAddress2D_v3 cuTexRefSetAddressMode
        cuTexRefSetAddress_v2 cuTexRefSetArray cuTexRefSetBorderColor cuTexRefSetFilterMode cuTexRefSetFlags
        cuTexRefSetFormat cuTexRefSetMaxAnisotropy cuTexRefSetMipmapFilterMode cuTexRefSetMipmapLevelBias
        cuTexRefSetMipmapLevelClamp cuTexRefSetMipmappedArray cuUserObjectCreate cuUserObjectRelease
        cuUserObjectRetain cuWaitExternalSemaphoresAsync
    }
}
