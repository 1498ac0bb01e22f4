/* A token bucket: holds QUOTA units and regains RATE units a tick. */
#ifndef QUOTA
#define QUOTA 3
#endif
#define RATE 1
#ifndef TTL
#define TTL 1
#endif
#define RETURNS_WITHIN 1
/* If Redis loses data: one more burst, and the part of the rate that leases may spend. */
#define LOSS (QUOTA + RATE * TTL)

#include "processes.pml"

byte level = 0;         /* units spent and not yet regained */
byte ahead = 0;         /* ticks until the server's clock has come back to where it was when the level was noted */
byte leasedFor = 0;     /* ticks until the newest lease has ended */
/* One decision that will be settled: its units, and the most that can remain of the level after it. */
byte settleable = 0, levelLeft = 0;

#define LESS(x, y) ((x) > (y) -> (x) - (y) : 0)
#define MORE(x, y) ((x) > (y) -> (x) : (y))
#define FEWER(x, y) ((x) < (y) -> (x) : (y))

/* A sale counts as if it came when the lease ends: from FLOOR on. */
#if MUTANT_STAMPED_NOW
#define FLOOR 0
#define CAPACITY QUOTA
#else
#if MUTANT_FULL_CAPACITY
/* Sales leave room for what is regained while a lease lives, but decisions for now use that room. */
#define FLOOR 0
#define CAPACITY (QUOTA - RATE * TTL)
#else
#define FLOOR (RATE * TTL)
#define CAPACITY QUOTA
#endif
#endif

/*
 * A second bucket, of what was really spent in real time: in every span at most QUOTA + RATE x span, if it never holds
 * more than QUOTA.
*/
byte really = 0;
inline spend(many) {
  really = really + many;
  assert(really <= QUOTA + allowance) /* quota_kept */
}
inline real_tick() { really = LESS(really, RATE) }

#define available() LESS(CAPACITY, MORE(level, FLOOR))
inline sell(who, many) {
  level = MORE(level, FLOOR) + many;
  ahead = 0;
  leasedFor = TTL
}

/* In the time since the sale the bucket has regained RATE units a tick: they may have been sold again. */
#if MUTANT_RETURNED_IN_FULL
#define RETURNED(q, units) (units)
#else
#define RETURNED(q, units) LESS(units, RATE * p[q].soldAge)
#endif
inline take_back(who, many) {
  n = RETURNED(who, many);
  level = LESS(level, n);
  /* Units before its place that were given back cannot be given back by a decision again. */
  levelLeft = LESS(levelLeft, n);
  if :: levelLeft == 0 -> settleable = 0 :: else fi;
  n = 0;
  ahead = 0
}

#define exact_fits() (level < QUOTA)
inline decide_exactly() {
  level++;
  ahead = 0;
  spend(1)
}
/* The property counts what was spent; a settled unit was not, so a settlement gives back a charge that was never spent.
   */
#ifdef SETTLEMENTS
#define may_settle() (settleable > 0 || level < QUOTA)
#else
#define may_settle() false
#endif
#if MUTANT_SETTLED_BLIND_TO_LEASES
#define SETTLED(units) (units)
#else
#define SETTLED(units) LESS(units, RATE * leasedFor)
#endif
inline settle() {
  if
  :: settleable == 0 -> settleable = QUOTA - level; level = QUOTA; levelLeft = level; ahead = 0
  :: else ->
    level = level - FEWER(level, SETTLED(FEWER(settleable, levelLeft)));
    settleable = 0; levelLeft = 0; ahead = 0
  fi
}

inline server_tick() {
  if
  :: ahead > 0 -> ahead--
  :: else -> level = LESS(level, RATE)
  fi;
  leasedFor = LESS(leasedFor, 1);
  levelLeft = LESS(levelLeft, RATE);
  if :: levelLeft == 0 -> settleable = 0 :: else fi
}

/* Time that ran back regains nothing. The ages of leases and decisions are not known any more, so that nothing of them
   is taken back. */
inline step_back() {
  ahead++;
  leasedFor = FEWER(leasedFor + 1, TTL);
  settleable = 0; levelLeft = 0;
  i = 0;
  do
  :: i < PROCESSES -> p[i].open = 0; p[i].soldAge = 0; i++
  :: else -> break
  od;
  i = 0
}
inline step_ahead() {
  level = 0; ahead = 0; leasedFor = 0; settleable = 0; levelLeft = 0
}
inline lose_all() {
  level = 0; ahead = 0; leasedFor = 0; settleable = 0; levelLeft = 0;
  i = 0;
  do
  :: i < PROCESSES -> p[i].open = 0; p[i].soldAge = 0; i++
  :: else -> break
  od;
  i = 0
}

#include "leases.pml"
