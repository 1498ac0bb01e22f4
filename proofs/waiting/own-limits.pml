/* One line whose waiters have their own limits, as under two configurations of one name: all spend from the same log, but waiters 1 and 2 may
 * fill it up to 2 and the others up to 1. Process 0 has waiters 0 and 2, process 1 has 1 and 3: each has one of each kind. */
#define NW 4
#define HIGH 6
#include "waiting.pml"

ltl served { []<> !SOMEBODY_WAITS }
