// The hash of the sources this library was compiled from; see stamp.py.
#include "kernel.h"

#ifndef ASSAY_STAMP
#error "compile with hatch_build.py, which passes -DASSAY_STAMP"
#endif

ASSAY_EXPORT const char* assay_stamp() { return "assay-native-" ASSAY_STAMP; }
