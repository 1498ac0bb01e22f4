/* SharedRateLimiter: QUOTA units in each span of INTERVAL ticks. */
#include "waiting.pml"

ltl served { []<> !SOMEBODY_WAITS }
