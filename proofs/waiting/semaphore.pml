/* Semaphore: QUOTA permits, each with a lease of LEASE ticks. */
#define SEMAPHORE
#include "waiting.pml"

ltl served { []<> !SOMEBODY_WAITS }
