/* Requests that do not wait (consume, tryAcquire) come at any moment, one a tick at most, for ever. */
#define NEWCOMERS
#define NW 3
#define ALL_ASKED 7
#include "waiting.pml"

ltl served { []<> !SOMEBODY_WAITS }
