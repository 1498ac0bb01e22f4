/* A sliding window: at most QUOTA units in any WINDOW ticks, by a log of spent units and their moments. */
#ifndef QUOTA
#define QUOTA 2
#endif
#ifndef WINDOW
#define WINDOW 2
#endif
#ifndef TTL
#define TTL 1
#endif
#define RETURNS_WITHIN WINDOW
#define LOSS QUOTA

#include "processes.pml"

/* Units by the ticks that they still count: those of decisions for now, and those of leases, which count as if spent at
   the lease's end. */
byte log[WINDOW + 1];
byte leased[WINDOW + TTL + 1];
#define LESS(x, y) ((x) > (y) -> (x) - (y) : 0)
#define FEWER(x, y) ((x) < (y) -> (x) : (y))

#if MUTANT_STAMPED_NOW
#define STAMP WINDOW
#else
#define STAMP (WINDOW + TTL)
#endif
#if MUTANT_FULL_CAPACITY
#define COUNTED WINDOW
#else
#define COUNTED (WINDOW + TTL)
#endif

byte counted = 0;

/* The units that were really spent 0, 1, 2 … ticks ago, in real time. */
byte spent[WINDOW];
byte inWindow = 0;
inline spend(many) {
  spent[0] = spent[0] + many;
  inWindow = inWindow + many;
  assert(inWindow <= QUOTA + allowance) /* quota_kept */
}
inline real_tick() {
  a = WINDOW - 1;
  inWindow = inWindow - spent[a];
  do
  :: a > 0 -> spent[a] = spent[a - 1]; a--
  :: else -> break
  od;
  spent[0] = 0
}

#define available() LESS(QUOTA, counted)
inline sell(who, many) {
  leased[STAMP] = leased[STAMP] + many;
  p[who].origin = STAMP;
  count()
}
/* Taken from the lease's own entry, as far as it still contains units. */
inline take_back(who, many) {
#if MUTANT_RETURNED_FROM_NEWEST
  i = STAMP;
  do
  :: i > 1 && leased[i] == 0 -> i--
  :: else -> break
  od;
  leased[i] = LESS(leased[i], many);
  i = 0;
#else
  leased[p[who].origin] = LESS(leased[p[who].origin], many);
#endif
#if !MUTANT_RETURN_UNGUARDED
  p[who].origin = 0;
#endif
  count()
}
#define exact_fits() (counted < QUOTA)
inline decide_exactly() {
  log[WINDOW] = log[WINDOW] + 1;
  count();
  spend(1)
}
#define may_settle() false
inline settle() { skip }

inline count() {
  counted = 0; a = 1;
  do
  :: a <= WINDOW -> counted = counted + log[a]; a++
  :: else -> break
  od;
  a = 1;
  do
  :: a <= COUNTED -> counted = counted + leased[a]; a++
  :: else -> break
  od;
  a = 0
}

inline server_tick() {
  a = 1;
  do
  :: a <= WINDOW -> log[a - 1] = log[a]; a++
  :: else -> break
  od;
  log[WINDOW] = 0; log[0] = 0;
  a = 1;
  do
  :: a <= WINDOW + TTL -> leased[a - 1] = leased[a]; a++
  :: else -> break
  od;
  leased[WINDOW + TTL] = 0; leased[0] = 0;
  i = 0;
  do
  :: i < PROCESSES -> p[i].origin = LESS(p[i].origin, 1); i++
  :: else -> break
  od;
  count()
}

/* Entries of a moment that is still to come are moved to now, those of leases to the end of a lease that is sold now;
   then nothing of these leases is taken back. */
inline step_back() {
  log[WINDOW] = log[WINDOW] + log[WINDOW - 1];
  a = WINDOW - 1;
  do
  :: a > 0 -> log[a] = log[a - 1]; a--
  :: else -> break
  od;
  leased[WINDOW + TTL] = leased[WINDOW + TTL] + leased[WINDOW + TTL - 1];
  a = WINDOW + TTL - 1;
  do
  :: a > 0 -> leased[a] = leased[a - 1]; a--
  :: else -> break
  od;
  i = 0;
  do
  :: i < PROCESSES -> p[i].open = 0; p[i].soldAge = 0; p[i].origin = 0; i++
  :: else -> break
  od;
  i = 0;
  count()
}
inline forget() {
  a = 0;
  do
  :: a <= WINDOW -> log[a] = 0; a++
  :: else -> break
  od;
  a = 0;
  do
  :: a <= WINDOW + TTL -> leased[a] = 0; a++
  :: else -> break
  od;
  i = 0;
  do
  :: i < PROCESSES -> p[i].open = 0; p[i].soldAge = 0; p[i].origin = 0; i++
  :: else -> break
  od;
  i = 0;
  count()
}
inline step_ahead() { forget() }
inline lose_all() { forget() }

#include "leases.pml"
