/* Two limits, all or none: waiter 0 spends from both, waiter 1 from limit 0, waiter 2 from both, waiter 3 from limit 1. */
#define NL 2
#define CELLS 4
#define USES(w, l) ((((l) == 0 -> 7 : 13) >> (w)) & 1)
#include "waiting.pml"

ltl served { []<> !SOMEBODY_WAITS }
