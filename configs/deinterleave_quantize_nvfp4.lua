-- every second group of 8 columns, [gate*8, h*8, ...], to NVFP4.
-- Memory bounds it.  The target sm_80 runs on all later parts as well, by the driver's
-- compiler; a later one lets the conversions of the hardware be used.
quantize {
  name   = "deinterleave_quantize_nvfp4",
  op     = "deinterleave_quantize_nvfp4",
  target = "sm_80",
  x      = { type = "bf16" },
  layout = "128x4",                               -- of the GEMM
}
