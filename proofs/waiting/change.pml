/* The quota changes between 1 and 2 while waiters of cost 1 and 2 wait. A waiter of cost 2 is refused while the quota is 1. */
#define NW 4
#define QUOTA 2
#define COST_2 12
#include "waiting.pml"

ltl served { []<> !SOMEBODY_WAITS }
