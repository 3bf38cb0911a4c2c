-- silu(gate) * up to NVFP4, gate and up in halves of a row or in groups of 8.
-- Memory bounds it.  The target sm_80 runs on all later parts as well, by the driver's
-- compiler; a later one lets the conversions of the hardware be used.
quantize {
  name   = "silu_mul_quantize_nvfp4",
  op     = "silu_mul_quantize_nvfp4",
  target = "sm_80",
  x      = { type = "bf16" },
  layout = "128x4",                               -- of the GEMM
}
