// The hash of the sources this library was compiled from; see stamp.py.
#include "kernel.h"

#ifndef DUROMETER_STAMP
#error "compile with hatch_build.py, which passes -DDUROMETER_STAMP"
#endif

DUROMETER_EXPORT const char* durometer_stamp() { return "durometer-native-" DUROMETER_STAMP; }
