-- scales from one layout to another: linear, 128x4, 8x4.
-- Memory bounds it.  The target sm_80 runs on all later parts as well, by the driver's
-- compiler; a later one lets the conversions of the hardware be used.
quantize {
  name   = "convert_scales",
  op     = "convert_scales",
  target = "sm_80",
  from   = "linear",
  layout = "128x4",                               -- of the GEMM
}
