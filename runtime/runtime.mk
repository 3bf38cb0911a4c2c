# Sources of libfp4gen.  core/target.c is the one part of core that it needs.
RUNTIME_SRC = runtime/device.c runtime/driver.c runtime/error.c runtime/kernel.c \
              runtime/manifest.c runtime/module.c runtime/tensor_map.c
RUNTIME_CORE_SRC = core/target.c
