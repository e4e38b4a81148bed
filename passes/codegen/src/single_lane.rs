//! A fault of LLVM 22 that is kept away from.
#![allow(unsafe_code)]

use llvm_sys::{
    core::{
        LLVMBuildExtractElement, LLVMBuildGEP2, LLVMBuildStore, LLVMConstInt, LLVMConstIntGetZExtValue,
        LLVMCreateBuilderInContext, LLVMDisposeBuilder, LLVMGetAggregateElement, LLVMGetCalledValue,
        LLVMGetFirstBasicBlock, LLVMGetFirstFunction, LLVMGetFirstInstruction, LLVMGetModuleContext,
        LLVMGetNextBasicBlock, LLVMGetNextFunction, LLVMGetNextInstruction, LLVMGetOperand,
        LLVMGetValueName2, LLVMGetVectorSize, LLVMInstructionEraseFromParent, LLVMInt64TypeInContext,
        LLVMIsACallInst, LLVMIsAConstantInt, LLVMIsConstant, LLVMPositionBuilderBefore, LLVMSetAlignment,
        LLVMTypeOf,
    },
    prelude::{LLVMModuleRef, LLVMValueRef},
};

/// Makes a store of one element of each masked store whose mask has one constant lane. LLVM 22 stores
/// such a lane of a truncated vector in its width before the truncation, or not at all, where AVX-512
/// has truncating stores: <https://github.com/llvm/llvm-project/issues/179489>.
///
/// # Safety
/// `module` is live.
pub(crate) unsafe fn store_single_lanes(module: LLVMModuleRef) {
    // SAFETY: values are of the live module; the instruction after one is taken before it goes.
    unsafe {
        let context = LLVMGetModuleContext(module);
        let (index, builder) = (LLVMInt64TypeInContext(context), LLVMCreateBuilderInContext(context));
        let mut function = LLVMGetFirstFunction(module);
        while !function.is_null() {
            let mut block = LLVMGetFirstBasicBlock(function);
            while !block.is_null() {
                let mut next = LLVMGetFirstInstruction(block);
                while !next.is_null() {
                    let instruction = next;
                    next = LLVMGetNextInstruction(instruction);
                    let Some(lane) = only_lane_stored(instruction) else { continue };
                    let (vector, pointer) = (LLVMGetOperand(instruction, 0), LLVMGetOperand(instruction, 1));
                    let mut lane = LLVMConstInt(index, lane.into(), 0);
                    LLVMPositionBuilderBefore(builder, instruction);
                    let element = LLVMBuildExtractElement(builder, vector, lane, c"".as_ptr());
                    let ty = LLVMTypeOf(element);
                    let place = LLVMBuildGEP2(builder, ty, pointer, &raw mut lane, 1, c"".as_ptr());
                    // The C API does not give that of an argument; unaligned ones cost nothing here.
                    LLVMSetAlignment(LLVMBuildStore(builder, element, place), 1);
                    LLVMInstructionEraseFromParent(instruction);
                }
                block = LLVMGetNextBasicBlock(block);
            }
            function = LLVMGetNextFunction(function);
        }
        LLVMDisposeBuilder(builder);
    }
}

/// The lane of a masked store that stores one lane, whatever happens.
///
/// # Safety
/// `instruction` is live.
unsafe fn only_lane_stored(instruction: LLVMValueRef) -> Option<u32> {
    // SAFETY: all values are of the instruction's module, and the name lives as long as its function.
    unsafe {
        if LLVMIsACallInst(instruction).is_null() {
            return None;
        }
        let mut length = 0;
        let name = LLVMGetValueName2(LLVMGetCalledValue(instruction), &raw mut length);
        let name = std::slice::from_raw_parts(name.cast::<u8>(), length);
        if !name.starts_with(b"llvm.masked.store.") {
            return None;
        }
        let mask = LLVMGetOperand(instruction, 2);
        if LLVMIsConstant(mask) == 0 {
            return None;
        }
        let mut only = None;
        for lane in 0..LLVMGetVectorSize(LLVMTypeOf(mask)) {
            let bit = LLVMGetAggregateElement(mask, lane);
            if bit.is_null() {
                return None;
            }
            // A lane that is undefined may be stored or not: here it is not.
            let stored = !LLVMIsAConstantInt(bit).is_null() && LLVMConstIntGetZExtValue(bit) != 0;
            match (stored, only) {
                (false, _) => {}
                (true, None) => only = Some(lane),
                (true, Some(_)) => return None,
            }
        }
        only
    }
}
