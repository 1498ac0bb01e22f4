/*
 * The wake-ups of a delay queue: who takes messages that are due, when processes that were woken are stopped, busy or
 * gone. A process that waits is blocked on a key of the queue. A push puts two members there, 'first' and 'second'; the
 * server gives each to one that is blocked, also if that process is stopped. The first asks at once, the second SECOND
 * ticks later; who stays idle for LOOK ticks asks, too, if the queue has changed since it last looked. A tick passes only
 * when nothing is left to do at once.
 */
#ifndef NP
#define NP 3               /* processes, each with one handler */
#endif
#ifndef PUSHES
#define PUSHES 3
#endif
#ifndef STOPS
#define STOPS 0            /* how often a process stops, and goes on at any later moment, or never */
#endif
#ifndef CLOSES
#define CLOSES 0
#endif
#ifndef WAITS_AT_MOST
#define WAITS_AT_MOST 0
#endif
#define LOOK 4
#define SECOND 1
#define NEVER 9

mtype = { IDLE, BUSY, GONE };

/* Grows with every change of the queue; which version of it each process knows. */
byte version, seen[NP];
byte due, pushes = PUSHES, stops = STOPS, closes = CLOSES;
/* The members on the key. */
bool first, second;

mtype state[NP] = IDLE;
bool stopped[NP];
/* It blocks on the key: one that is stopped or became busy does so until its block ends. */
bool blocked[NP] = true;
/* Ticks until its block ends; until it asks because it was woken second. */
byte look[NP] = LOOK, secondIn[NP] = NEVER;
/* It has been woken, and not read it yet. */
bool woken[NP];
/* It has no room, and knows of messages that are due. */
bool saturated[NP];

/* Ticks for which a message has been due that somebody could take. */
byte waits;

inline wake() {
  first = true;
#if !MUTANT_ONE_IS_WOKEN
  second = true
#endif
}

inline rest(p) { blocked[p] = true; look[p] = LOOK }

/* Settles, and takes a message. `clears`: this process now knows what all were woken for. */
inline fetch(p, clears) {
  woken[p] = false; secondIn[p] = NEVER;
  if :: clears -> first = false; second = false :: else fi;
  if
  :: due > 0 ->
    due--; version++; state[p] = BUSY;
    saturated[p] = (due > 0 && !MUTANT_SATURATED_IS_SILENT)
  :: else -> state[p] = IDLE; if :: !blocked[p] -> rest(p) :: else fi
  fi;
  if :: clears -> seen[p] = version :: else fi
}

#define RUNS(p) (state[p] != GONE && !stopped[p])
#define TO_ACT(p) (RUNS(p) && (woken[p] || saturated[p] || secondIn[p] == 0 || (state[p] == IDLE && look[p] == 0)))
#define TO_POP(p) (blocked[p] && (first || second))
#if NP == 3
#define QUIET (!TO_ACT(0) && !TO_ACT(1) && !TO_ACT(2) && !TO_POP(0) && !TO_POP(1) && !TO_POP(2))
#define SOMEBODY_IDLE ((RUNS(0) && state[0] == IDLE) || (RUNS(1) && state[1] == IDLE) || (RUNS(2) && state[2] == IDLE))
#else
#define QUIET (!TO_ACT(0) && !TO_ACT(1) && !TO_POP(0) && !TO_POP(1))
#define SOMEBODY_IDLE ((RUNS(0) && state[0] == IDLE) || (RUNS(1) && state[1] == IDLE))
#endif

active [NP] proctype Process() {
  byte p = _pid;
end:
  do
  /* The server wakes one that is blocked. Who was woken first blocks again when it has asked, the second at once. */
  :: d_step { TO_POP(p) && first -> first = false; blocked[p] = false; printf("process %d is woken first\n", p); woken[p] = true }
  :: d_step { TO_POP(p) && !first -> second = false; blocked[p] = RUNS(p); printf("process %d is woken second\n", p); if :: RUNS(p) && state[p] == BUSY -> blocked[p] = false; woken[p] = true :: else -> secondIn[p] = SECOND fi }
  :: d_step { RUNS(p) && woken[p] && state[p] == IDLE -> printf("process %d asks\n", p); fetch(p, true); if :: state[p] == IDLE -> rest(p) :: else fi }
  :: d_step { RUNS(p) && woken[p] && state[p] == BUSY -> printf("process %d has no room: wakes others\n", p); woken[p] = false;
#if !MUTANT_BUSY_KEEPS_IT
       wake()
#endif
     }
  :: d_step { RUNS(p) && secondIn[p] == 0 -> printf("process %d asks as the second\n", p); secondIn[p] = NEVER; if :: state[p] == IDLE -> fetch(p, true); if :: state[p] == IDLE -> rest(p) :: else fi :: else -> saturated[p] = (due > 0) fi }
  :: d_step { RUNS(p) && saturated[p] -> printf("process %d is saturated: wakes others\n", p); saturated[p] = false; if :: due > 0 -> wake() :: else fi }
  :: d_step { RUNS(p) && state[p] == IDLE && look[p] == 0 && !woken[p] ->
       rest(p);
#if !MUTANT_NOBODY_LOOKS
       if :: seen[p] != version -> printf("process %d looks\n", p); fetch(p, true) :: else fi
#endif
     }
  /* Its handler ends. */
  :: d_step { RUNS(p) && state[p] == BUSY -> printf("process %d has handled it\n", p); saturated[p] = false; fetch(p, false) }
#if STOPS
  :: d_step { RUNS(p) && stops > 0 && state[p] == IDLE -> stops--; printf("process %d stops\n", p); stopped[p] = true }
  :: d_step { stopped[p] -> printf("process %d goes on\n", p); stopped[p] = false }
#endif
#if CLOSES
  :: d_step { RUNS(p) && closes > 0 -> closes--; printf("process %d closes\n", p);
       state[p] = GONE; blocked[p] = false; saturated[p] = false;
#if !MUTANT_NOT_HANDED_OVER
       if :: due > 0 -> wake() :: else fi;
#endif
       woken[p] = false; secondIn[p] = NEVER }
#endif
  od
}

active proctype Surroundings() {
  byte i;
end:
  do
  /* Idle processes know of what is due already. */
  :: d_step { pushes > 0 -> pushes--; printf("a push\n"); if :: due == 0 -> wake() :: else fi; due++;
#if !MUTANT_CHANGE_UNSEEN
       version++
#endif
     }
  :: d_step { QUIET ->
       printf("---- one tick ----\n");
       waits = ((due > 0 && SOMEBODY_IDLE) -> waits + 1 : 0);
       assert(waits <= WAITS_AT_MOST); /* taken_in_time */
       i = 0;
       do
       :: i < NP ->
         look[i] = (look[i] > 0 && (blocked[i] || state[i] == IDLE) -> look[i] - 1 : look[i]);
         
         blocked[i] = (look[i] > 0 -> blocked[i] : false);
         secondIn[i] = (secondIn[i] > 0 && secondIn[i] < NEVER -> secondIn[i] - 1 : secondIn[i]);
         i++
       :: else -> break
       od;
       i = 0 }
  od
}
