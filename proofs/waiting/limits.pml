/* Two limits, all or none: waiters 0 and 1 spend from limit 0, waiter 2 from limit 1, waiter 3 from both. */
#define NL 2
#define CELLS 4
#define USES(w, l) ((((l) == 0 -> 11 : 12) >> (w)) & 1)
#include "waiting.pml"

ltl served { []<> !SOMEBODY_WAITS }
