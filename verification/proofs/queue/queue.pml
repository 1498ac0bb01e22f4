/*
 * One message of a delay queue, and processes that take it, wait for a permit, and begin it: what
 * queue_settle_and_fetch.lua and the consumer do. A request whose answer is lost is sent again; a stray copy of any
 * earlier request may arrive at any later moment. Processes crash; the queue is paused and resumed.
*/
#ifndef NP
#define NP 3
#endif
#ifndef LOST
#define LOST 1
#endif
#ifndef STRAYS
#define STRAYS 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef PAUSES
#define PAUSES 1
#endif
#ifndef DELIVERIES
#define DELIVERIES 5
#endif

mtype = { IDLE, HELD, PUTS_BACK, RUNS, DEAD, BEGIN, RETURN, OK, PAUSED, STALE };

/* The message: its receipt, while it is delivered, is how often it was taken, and its attempts. */
bool waits = true, done = false, paused = false;
byte deliveries = 0, attempts = 0;
/* How often the server let a handler begin. */
byte begun = 0;

mtype state[NP];
byte taken[NP], tried[NP];
byte running = 0, lost = LOST, strays = STRAYS, crashes = CRASHES, pauses = PAUSES;
mtype answer;

/* One earlier request of each kind that may still arrive. */
bool mayStray[2];
byte strayTaken[2], strayTried[2];
#define SLOT(kind) (kind == BEGIN -> 0 : 1)

#define matches(t, a) (!waits && !done && deliveries == t && attempts == a)

inline take(p) {
  assert(attempts == begun); /* only_begun_count */
  waits = false;
  deliveries++;
#if MUTANT_COUNTS_WHEN_TAKEN
  attempts++;
#endif
  taken[p] = deliveries;
  tried[p] = attempts;
  state[p] = HELD
}

inline begin(t, a) {
  if
#if !MUTANT_REPEATED_IS_STALE
  :: matches(t, a + 1) -> answer = OK
#endif
#if MUTANT_BEGINS_WHILE_PAUSED
  :: matches(t, a) ->
#else
  :: matches(t, a) && paused -> answer = PAUSED
  :: matches(t, a) && !paused ->
#endif
    assert(!paused); /* paused_begins_nothing */
    attempts++;
    begun++;
    answer = OK
  :: else -> answer = STALE
  fi
}

inline put_back(t, a) {
  if
  :: matches(t, a) ->
    waits = true;
#if MUTANT_SAME_RECEIPT
    deliveries--;
#endif
  :: else
  fi
}

inline sent(kind, t, a) {
  mayStray[SLOT(kind)] = true;
  strayTaken[SLOT(kind)] = t;
  strayTried[SLOT(kind)] = a
}

proctype consumer(byte p) {
  do
  :: atomic { state[p] == IDLE && waits && !paused && !done && deliveries < DELIVERIES -> take(p) }
  /* The permit comes. */
  :: atomic {
      state[p] == HELD ->
      begin(taken[p], tried[p]);
      sent(BEGIN, taken[p], tried[p]);
      if
      /* Its answer is lost: it is sent again. */
      :: lost > 0 -> lost--
      :: answer == OK ->
        assert(running == 0); /* one_handler */
        running++;
        tried[p]++;
        state[p] = RUNS
      :: answer == PAUSED -> state[p] = PUTS_BACK
      :: answer == STALE -> assert(strays < STRAYS) /* begin_is_answered */; state[p] = IDLE
      fi
    }
  /* The limiter fails. */
  :: atomic { state[p] == HELD -> state[p] = PUTS_BACK }
  :: atomic {
      state[p] == PUTS_BACK ->
      put_back(taken[p], tried[p]);
      sent(RETURN, taken[p], tried[p]);
      state[p] = IDLE
    }
  :: atomic {
      state[p] == RUNS ->
      assert(matches(taken[p], tried[p])); /* holder_keeps */
      running--;
      done = true;
      state[p] = IDLE
    }
  :: atomic {
      crashes > 0 && state[p] != IDLE && state[p] != DEAD ->
      crashes--;
      if
      :: state[p] == RUNS -> running--
      :: else
      fi;
      state[p] = DEAD
    }
  :: done || deliveries == DELIVERIES || state[p] == DEAD -> break
  od
}

/* Whether a living process still extends the delivery. */
#define extends(p) ((state[p] == HELD || state[p] == PUTS_BACK || state[p] == RUNS) && taken[p] == deliveries)

active proctype surroundings() {
  byte i;
  atomic {
    i = 0;
    do
    :: i < NP -> state[i] = IDLE; run consumer(i); i++
    :: else -> break
    od
  }
  do
  :: atomic { mayStray[0] && strays > 0 -> strays--; begin(strayTaken[0], strayTried[0]) }
  :: atomic { mayStray[1] && strays > 0 -> strays--; put_back(strayTaken[1], strayTried[1]) }
  :: atomic { !paused && pauses > 0 -> pauses--; paused = true }
  :: atomic { paused -> paused = false }
  /* The visibility ends. */
  :: atomic {
      !waits && !done ->
      i = 0;
      do
      :: i < NP && !extends(i) -> i++
      :: else -> break
      od;
      if
      :: i == NP -> waits = true
      :: else
      fi
    }
  :: done || deliveries == DELIVERIES -> break
  od
}
