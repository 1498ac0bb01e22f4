/* The state of a process, the variables of the properties, and the largest number of faults. */
#ifndef PROCESSES
#define PROCESSES 3
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef REPEATS
#define REPEATS 0
#endif
#ifndef STEPS_BACK
#define STEPS_BACK 0
#endif
#ifndef STEPS_AHEAD
#define STEPS_AHEAD 0
#endif
#ifndef LOSSES
#define LOSSES 0
#endif

/* Ages are counted up to here: an older lease means the same as one of this age; so does an older return. */
#define DEAD (TTL + 1)
#define FORGOTTEN (TTL + RETURNS_WITHIN + 1)

typedef Process {
  byte asked = 0;       /* 1: a purchase is on its way; 2: its answer is */
  byte askedAge = 0;    /* ticks since it was sent */
  byte bought = 0;      /* units of that answer */
  byte units = 0;       /* units of the lease that it may spend */
  byte age = 0;         /* ticks since that lease was asked for, by the process */
  byte unspent = 0;     /* units on their way back to the server */
  bit again = 0;        /* the return arrives once more */
  bit open = 0;         /* the server knows the lease and has not taken it back */
  byte soldAge = 0;     /* ticks since it was sold, by the server's clock */
  byte origin = 0       /* the server's own note of the sale: see the algorithm */
}
Process p[PROCESSES];

/* The units that real time and the clock's faults allow beyond the quota. Only the properties read it. */
byte allowance = 0;
byte crashes = 0, repeats = 0, stepsBack = 0, stepsAhead = 0, losses = 0;
byte i, a, n;
hidden int code, other;
hidden byte swap;
