/* Two lines over limits that overlap. Process 0 waits in line 0 for limits 0 and 1; processes 1 and 2 wait in line 1 for limit 0. */
#define NP 3
#define NL 2
#define LINE(p) ((p) == 0 -> 0 : 1)
#define USES(w, l) ((l) == 0 || ((OWN0 >> (w)) & 1))
#include "waiting.pml"

ltl served { []<> !SOMEBODY_WAITS }
