-- NVFP4 to BF16, F16 or F32.
-- Memory bounds it.  The target sm_80 runs on all later parts as well, by the driver's
-- compiler; a later one lets the conversions of the hardware be used.
quantize {
  name   = "dequantize_nvfp4",
  op     = "dequantize_nvfp4",
  target = "sm_80",
  x      = { type = "bf16" },
  layout = "128x4",                               -- of the GEMM
  lanes  = 16,                                    -- 8 take 3 % longer on an H200
}
