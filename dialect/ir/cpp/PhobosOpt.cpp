// Passes written in Rust, registered by name with options, and the mlir-opt
// driver that runs them. Knows nothing about any particular pass.
#include "Phobos.h"
#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Support.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"

using namespace mlir;

extern "C" {
struct PhobosOptionSpec {
  MlirStringRef name, description, initial;
};
struct PhobosPassSpec {
  MlirStringRef argument, description, anchor;
  const PhobosOptionSpec *options;
  intptr_t optionCount;
  void (*dependentDialects)(void *user, MlirDialectRegistry registry);
  bool (*run)(void *user, MlirOperation op, const MlirStringRef *values, intptr_t count);
  void *user; // outlives the registry; called from several threads
};
}

namespace {
struct RustPass : Pass {
  const PhobosPassSpec &spec;
  TypeID id;
  std::vector<std::unique_ptr<Option<std::string>>> options; // an Option registers itself with its pass

  RustPass(const PhobosPassSpec &spec, TypeID id)
      : Pass(id, spec.anchor.length ? std::optional<StringRef>(unwrap(spec.anchor)) : std::nullopt), spec(spec),
        id(id) {
    for (intptr_t i = 0; i < spec.optionCount; ++i)
      options.push_back(std::make_unique<Option<std::string>>(*this, unwrap(spec.options[i].name),
                                                              llvm::cl::desc(unwrap(spec.options[i].description)),
                                                              llvm::cl::init(unwrap(spec.options[i].initial).str())));
  }
  StringRef getName() const override { return unwrap(spec.argument); }
  StringRef getArgument() const override { return unwrap(spec.argument); }
  StringRef getDescription() const override { return unwrap(spec.description); }
  std::unique_ptr<Pass> clonePass() const override { return std::make_unique<RustPass>(spec, id); }
  void getDependentDialects(DialectRegistry &registry) const override {
    spec.dependentDialects(spec.user, wrap(&registry));
  }
  bool canScheduleOn(RegisteredOperationName name) const override {
    return !spec.anchor.length || name.getStringRef() == unwrap(spec.anchor);
  }
  void runOnOperation() override {
    SmallVector<std::string> values;
    for (auto &option : options)
      values.push_back(option->getValue());
    SmallVector<MlirStringRef> refs;
    for (auto &value : values)
      refs.push_back(wrap(StringRef(value)));
    if (!spec.run(spec.user, wrap(getOperation()), refs.data(), refs.size()))
      signalPassFailure();
  }
};
} // namespace

extern "C" {
// `spec` and what it points to must live for ever.
void phobosRegisterPass(const PhobosPassSpec *spec) {
  static TypeIDAllocator ids;
  TypeID id = ids.allocate();
  registerPass([=]() -> std::unique_ptr<Pass> { return std::make_unique<RustPass>(*spec, id); });
}

void phobosRegisterPipeline(MlirStringRef name, MlirStringRef description, MlirStringRef text) {
  std::string pipeline = unwrap(text).str();
  registerPassPipeline(
      unwrap(name), unwrap(description),
      [pipeline](OpPassManager &manager, StringRef, function_ref<LogicalResult(const Twine &)>) {
        return parsePassPipeline(pipeline, manager);
      },
      [](function_ref<void(const detail::PassOptions &)>) {});
}

int phobosOptMain(int argc, char **argv) {
  DialectRegistry registry;
  registerAllDialects(registry);
  registerAllExtensions(registry);
  registerAllToLLVMIRTranslations(registry);
  registerAllPasses();
  registry.insert<phobos::PhobosDialect>();
  return failed(MlirOptMain(argc, argv, "Phobos optimizer driver\n", registry));
}

void phobosInsertDialect(void *registry) { static_cast<DialectRegistry *>(registry)->insert<phobos::PhobosDialect>(); }
}
