/*
 * The waiting line: parameters, and the processes of the model. README.md explains all words. Without one of the words
 * below it is a rate: QUOTA units in each span of INTERVAL ticks. With SEMAPHORE, QUOTA permits, each with a lease of
 * LEASE ticks.
 */
#ifdef CHANGE
/* The quota changes between 1 and 2 while waiters of cost 1 and 2 wait. A waiter of cost 2 is refused while the quota
   is 1. */
#define QUOTA 2
#define COST_2 12
#endif
#ifdef LIMITS
/* Two limits, all or none: waiters 0 and 1 spend from limit 0, waiter 2 from limit 1, waiter 3 from both. */
#define NL 2
#define CELLS 4
#define USES(w, l) ((((l) == 0 -> 11 : 12) >> (w)) & 1)
#endif
#ifdef LINES
/* Two lines over limits that overlap. Process 0 waits in line 0 for limits 0 and 1; processes 1 and 2 wait in line 1
   for limit 0. */
#define NP 3
#define NL 2
#define LINE(p) ((p) == 0 -> 0 : 1)
#define USES(w, l) ((l) == 0 || ((OWN0 >> (w)) & 1))
#endif
#ifdef NEWCOMERS
/* Requests that do not wait (consume, tryAcquire) come at any moment, one a tick at most, for ever. */
#define NW 3
#define ALL_ASKED 7
#endif
#ifdef OWN_LIMITS
/* One line whose waiters have their own limits, as under two configurations of one name: all spend from the same log, but waiters 1 and 2 may
 * fill it up to 2 and the others up to 1. Process 0 has waiters 0 and 2, process 1 has 1 and 3: each has one of each kind. */
#define HIGH 6
#endif
#ifndef NP
#define NP 2               /* processes */
#endif
#ifndef NW
#define NW 4               /* waiters */
#endif
/* The process of each waiter, as bits: waiter w belongs to process w % NP. */
#if NP == 2
#define OWN2 0
#if NW == 2
#define OWN0 1
#define OWN1 2
#elif NW == 3
#define OWN0 5
#define OWN1 2
#elif NW == 4
#define OWN0 5
#define OWN1 10
#elif NW == 5
#define OWN0 21
#define OWN1 10
#endif
#else
#if NW == 2
#define OWN0 1
#define OWN1 2
#define OWN2 0
#elif NW == 3
#define OWN0 1
#define OWN1 2
#define OWN2 4
#elif NW == 4
#define OWN0 9
#define OWN1 2
#define OWN2 4
#elif NW == 5
#define OWN0 9
#define OWN1 18
#define OWN2 4
#endif
#endif
#define NM (2 * NP)        /* members: two generations of each process */
#define MEMBER(p, g) (2 * (p) + (g))
#ifndef NL
#define NL 1               /* limits */
#endif
#ifndef INTERVAL
#define INTERVAL 3         /* ticks of the window */
#endif
#ifndef CHECK
#define CHECK 7            /* ticks of the safety check */
#endif
#ifndef GRACE
#define GRACE 2            /* ticks that a member may be late */
#endif
#ifndef LEASE
#define LEASE 4            /* ticks of a lease */
#endif
#ifndef QUOTA
#define QUOTA 1            /* units an interval, or permits */
#endif
#ifndef CELLS
#define CELLS 2
#endif
#ifndef TRUE_CELLS
#define TRUE_CELLS CELLS
#endif
/* A request waits in a process that is alive and not stopped. */
#define SOMEBODY_WAITS ((state[0] == RUNS && (waiting & OWN0)) || (state[1] == RUNS && (waiting & OWN1)) || (state[NP - 1] == RUNS && (waiting & OWN2)))
#define FRESH 1            /* a grant of at most this age is used */
#ifdef SEMAPHORE
#define AGE_MAX LEASE
#else
#define AGE_MAX (FRESH + 1)
#endif
#define ABSENT 60
#define NEVER 40           /* a timer that never comes; only a mutant sets it */
#define NOBODY 99
#define NEWCOMER NW        /* stands in the log for requests that do not wait */
#define BEGUN_CELLS 4

#define BIT(w) (1 << (w))
#define OWN(p) ((p) == 0 -> OWN0 : ((p) == 1 -> OWN1 : OWN2))
#define OWNER(w) ((OWN0 & BIT(w)) -> 0 : ((OWN1 & BIT(w)) -> 1 : 2))
#ifndef COST_2
#define COST_2 0           /* the waiters of cost 2; all others cost 1 */
#endif
#define COST(w) (1 + ((COST_2 >> (w)) & 1))
#ifndef HIGH
#define HIGH 0             /* the waiters whose own limit is one higher than the quota */
#endif
#define QUOTA_OF(w) (quota + ((HIGH >> (w)) & 1))
#ifndef USES
#define USES(w, l) 1
#endif
#ifndef LINE
#define LINE(p) 0
#endif

/* With OUTSIDER waiter 3 never comes: its permit is held, and released, by a process outside the line, which does not
   wait. */
#ifdef OUTSIDER
#define OUTSIDE 8
#else
#define OUTSIDE 0
#endif

/* The largest number of faults of each kind in one run. */
#ifndef LOST
#define LOST 0             /* asks or answers lost */
#endif
#ifndef STRAYS
#define STRAYS 0           /* asks or answers late, or asks doubled: they arrive whenever they like, or never */
#endif
#ifndef PAUSES
#define PAUSES 0
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef ABORTS
#define ABORTS 0           /* aborts or timeouts */
#endif
#ifndef CHANGES
#define CHANGES 0          /* changes of the quota between 1 and 2 */
#endif
#ifndef LOSSES
#define LOSSES 0           /* losses of the server's newest writes */
#endif
#ifndef JUMPS
#define JUMPS 0            /* the server's clock is set forward: every member counts as dead */
#endif
#ifndef CLOSES
#define CLOSES 0
#endif
#ifndef OVERDUE
#define OVERDUE 0          /* asks whose last moment passes before they are answered */
#endif
#ifndef APART
#define APART 0            /* asks of which one copy is too late a while before another */
#endif

#define NOTHING 0
#define CARRIED_OUT 1
#define UNKNOWN 2
#define TOO_LATE 3
#define COPY_TOO_LATE 4    /* this copy was, and another may be in time */
#define AN_ASK 1
#define AN_ANSWER 2
#define NO_RECORD 0
#define OPEN 1
#define CLOSED 2
#define RUNS 0
#define STOPPED 1
#define CRASHED 2
#define CLOSING 3
#define CLOSED_NOW 4

/* What the clients' asks have become: the server looks at it, too. */
#if OVERDUE
bit overdue[NP];           /* its last moment is over: the server carries none of its copies out any more */
#define IS_OVERDUE(p) overdue[p]
#else
#define IS_OVERDUE(p) 0
#endif
#if APART
bit early[NP];             /* the last moment of the copies that it sends from now on is over, that of an earlier one is not */
#define IS_EARLY(p) early[p]
#define EARLY_NO_MORE(p) early[p] = 0
bit sameNumber[NP];        /* the next ask has the number of the last one; only a mutant comes to that */
#else
#define IS_EARLY(p) 0
#define EARLY_NO_MORE(p) skip
#endif

#include "server.pml"
#include "client.pml"
#include "network.pml"

/* A fault cannot break anything in a process without waiters, leases and asks. */
#ifdef SEMAPHORE
#define WORTH_STOPPING(p) (asked & OWN(p))
#else
#define WORTH_STOPPING(p) (WAITS(p) || inFlight[p] || GATHERED(p))
#endif

/*
 * With WAITERS_DIE only processes that wait and hold nothing die or stop, only while a permit is held, and leases are
 * released before they end: so capacity becomes free by a release alone, and everybody who is dead was dead before it.
 */
#ifdef WAITERS_DIE
#if NW > 3
#define LAST_HELD lease[3]
#define LAST_HOLD hold[3]
#else
#define LAST_HELD 0
#define LAST_HOLD 0
#endif
#define HELD (lease[0] || lease[1] || lease[2] || LAST_HELD)
#define HOLDS(p) ((lease[0] && (OWN(p) & 1)) || (lease[1] && (OWN(p) & 2)) || (lease[2] && (OWN(p) & 4)) || (LAST_HELD && (OWN(p) & 8)))
#define MAY_DIE(p) (WAITS(p) && !inFlight[p] && !GATHERED(p) && !HOLDS(p) && HELD)
#define TIME_MAY_PASS (ALL_QUIET && hold[0] != 1 && hold[1] != 1 && hold[2] != 1 && LAST_HOLD != 1)
#else
#define MAY_DIE(p) WORTH_STOPPING(p)
#define TIME_MAY_PASS ALL_QUIET
#endif

#define ARRIVES(w) \
  :: d_step { state[p] == RUNS && (OWN(p) & BIT(w)) && !(asked & BIT(w)) && (asked & OWN(p) & (BIT(w) - 1)) == (OWN(p) & (BIT(w) - 1)) -> \
       printf("process %d: waiter %d comes\n", p, w); asked = asked | BIT(w); waiting = waiting | BIT(w); toJoin = toJoin | BIT(w) }
#define ABORTED(w) \
  :: d_step { state[p] == RUNS && (OWN(p) & waiting & BIT(w)) && abortsLeft > 0 -> printf("process %d: waiter %d aborts\n", p, w); abortsLeft--; abort(w); skip }
#define RELEASES(w) \
  :: d_step { state[p] == RUNS && (OWN(p) & BIT(w)) && hold[w] > 0 -> printf("process %d: waiter %d releases\n", p, w); hold[w] = 0; toEnd = toEnd | BIT(w) }

#if MUTANT_PUSHED
#define TAKE_PUSHED(p) beginAll(pushed & waiting & OWN(p)); pushed = pushed & ~OWN(p);
#else
#define TAKE_PUSHED(p)
#endif

active [NP] proctype Client() {
  byte p = _pid;
end:
  do
  :: d_step { ALIVE(p) && answer[p] ->
#if LOSSES
       if :: answer[p] == CARRIED_OUT -> stampRead[p] = answerStamp[p] :: else fi;
#endif
       kind_ = answer[p]; grants_ = answerGranted & OWN(p); refusals_ = answerRefused & OWN(p); next_ = answerNext[p]; age_ = answerAge[p];
#if CHANGES
       quotaTold_ = answerQuota[p];
#endif
       printf("process %d: reads its answer: kind %d, grants %d, refusals %d, next %d, age %d\n", p, kind_, grants_, refusals_, next_, age_);
       takeAnswer(p); read(p, kind_, grants_, refusals_, next_, age_); skip }
  :: d_step { ALIVE(p) && news[p] -> printf("process %d: hears news\n", p); news[p] = 0; TAKE_PUSHED(p) if :: WAITS(p) -> heard[p] = 1 :: else fi }
#ifdef NEWS_UNHEARD
  :: d_step { news[p] -> printf("process %d: news lost\n", p); news[p] = 0 }
#endif
  :: d_step { ALIVE(p) && TO_SEND(p) -> sendAsk(p); printf("process %d: asks as member %d: joins %d, leaves %d, returns %d\n", p, MEMBER(p, gen_[p]), aJoin & OWN(p), aLeave & OWN(p), aReturn & OWN(p)); skip }
  :: d_step { ALIVE(p) && TO_REPEAT(p) -> printf("process %d: sends its ask again\n", p); askUnderWay[p] = 1; tried[p] = 1 }
  ARRIVES(0)
  ARRIVES(1)
  ARRIVES(2)
#if NW > 3
  ARRIVES(3)
#endif
#if NW > 4
  ARRIVES(4)
#endif
#if ABORTS
  ABORTED(0)
  ABORTED(1)
  ABORTED(2)
#if NW > 3
  ABORTED(3)
#endif
#if NW > 4
  ABORTED(4)
#endif
#endif
#ifdef SEMAPHORE
  RELEASES(0)
  RELEASES(1)
  RELEASES(2)
#if NW > 3
  RELEASES(3)
#endif
#if NW > 4
  RELEASES(4)
#endif
#endif
#if PAUSES
  :: d_step { state[p] == RUNS && pausesLeft > 0 && MAY_DIE(p) -> pausesLeft--; printf("process %d: stops\n", p); state[p] = STOPPED }
  :: d_step { state[p] == STOPPED -> printf("process %d: goes on\n", p); state[p] = RUNS }
#endif
#if CRASHES
  :: d_step { state[p] == RUNS && crashesLeft > 0 && MAY_DIE(p) -> crashesLeft--; printf("process %d: crashes\n", p); crash(p); skip }
#endif
#if CLOSES
  :: d_step { state[p] == RUNS && closesLeft > 0 && WORTH_STOPPING(p) -> closesLeft--; printf("process %d: closes\n", p); close(p); skip }
#endif
  od
}


#define DELIVERS(q) \
  :: d_step { askUnderWay[q] -> askUnderWay[q] = 0; printf("server: reads the ask of process %d\n", q); \
       serve(q, gen_[q], !opened[q], 0, (IS_OVERDUE(q) || IS_EARLY(q)), aJoin & OWN(q), aTicket & OWN(q), aLeave & OWN(q), aReturn & OWN(q), aEnd & OWN(q), STAMP_READ(q)); \
       putAnswer(q); \
       if :: state[q] == CRASHED -> forgetAsk(q) :: else fi } \
  LOSES(q) \
  DELAYS(q)
#if LOST
#define LOSES(q) \
  :: d_step { askUnderWay[q] && lostLeft > 0 && state[q] != CRASHED -> lostLeft--; printf("network: loses the ask of process %d\n", q); askUnderWay[q] = 0 } \
  :: d_step { answer[q] && lostLeft > 0 -> lostLeft--; printf("network: loses the answer to process %d\n", q); takeAnswer(q) }
#else
#define LOSES(q)
#endif
#if STRAYS
#define DELAYS(q) \
  :: d_step { askUnderWay[q] && straysLeft > 0 && stray == NOTHING -> copyAsk(q); printf("network: keeps a second copy of the ask of process %d\n", q) } \
  :: d_step { askUnderWay[q] && straysLeft > 0 && stray == NOTHING -> copyAsk(q); askUnderWay[q] = 0; printf("network: delays the ask of process %d\n", q); if :: state[q] == CRASHED -> forgetAsk(q) :: else fi } \
  :: d_step { answer[q] && straysLeft > 0 && stray == NOTHING -> \
       printf("network: delays the answer to process %d\n", q); stray = AN_ANSWER; strayOf = q; strayGen = gen_[q]; strayBehind = 0; strayKind = answer[q]; strayNext = answerNext[q]; strayAge = answerAge[q]; \
       strayGranted = answerGranted & OWN(q); strayRefused = answerRefused & OWN(q); strayStamp = STAMP(MEMBER(q, gen_[q])); straysLeft--; takeAnswer(q) }
#else
#define DELAYS(q)
#endif

#if OVERDUE
#define OVERTAKES(q) \
  :: d_step { overdueLeft > 0 && (inFlight[q] || askUnderWay[q]) && !overdue[q] -> overdueLeft--; printf("the last moment of the ask of process %d passes\n", q); overdue[q] = 1; STRAY_TOO(q); EARLY_NO_MORE(q) }
#if APART
#define HAS_TWO_COPIES(q) (stray == AN_ASK && strayOf == q && strayGen == gen_[q] && strayBehind == 0 && inFlight[q])
#define COMES_APART(q) \
  :: d_step { apartLeft > 0 && HAS_TWO_COPIES(q) && !overdue[q] && !early[q] && !strayOverdue -> apartLeft--; printf("the last moment of the first copy of the ask of process %d passes\n", q); strayOverdue = 1 } \
  :: d_step { apartLeft > 0 && HAS_TWO_COPIES(q) && !overdue[q] && !early[q] && !strayOverdue -> apartLeft--; printf("the last moment of the newest copy of the ask of process %d passes\n", q); early[q] = 1 }
#else
#define COMES_APART(q)
#endif
#endif

active proctype Network() {
  byte p;
#ifdef OUTSIDER
  d_step { if :: asked == OUTSIDE -> lease[3] = NEVER :: else fi }
#endif
end:
  do
#ifdef OUTSIDER
  :: d_step { lease[3] == NEVER -> lease[3] = 0; printf("a process outside the line releases\n"); granted = 0; refused = 0; walk(NOBODY, 0); skip }
#endif
  DELIVERS(0)
  DELIVERS(1)
#if NP > 2
  DELIVERS(2)
#endif
#if STRAYS
  :: d_step { stray == AN_ASK -> printf("server: reads the stray ask of process %d\n", strayOf);
       serve(strayOf, strayGen, strayFirst, strayBehind, STRAY_OVERDUE, strayJoin, strayTicket, strayLeave, strayReturn, strayEnd, strayStamp);
       if
       :: (state[strayOf] == RUNS || state[strayOf] == STOPPED || state[strayOf] == CLOSING) && strayGen == gen_[strayOf] && strayBehind == 0 && inFlight[strayOf] ->
         stray = AN_ANSWER; strayKind = reply; strayGranted = granted; strayRefused = refused;
         strayNext = (next > strayAge -> next - strayAge : 0); strayAge = (age + strayAge > AGE_MAX -> AGE_MAX : age + strayAge);
         strayStamp = STAMP(MEMBER(strayOf, strayGen));
         strayFirst = 0; strayJoin = 0; strayTicket = 0; strayLeave = 0; strayReturn = 0; strayEnd = 0
       :: else -> clearStray()
       fi }
  :: d_step { stray == AN_ANSWER && ALIVE(strayOf) -> printf("network: the late answer reaches process %d\n", strayOf);
       if
       :: strayGen == gen_[strayOf] && strayBehind == 0 && inFlight[strayOf] && !answer[strayOf] && !askUnderWay[strayOf] ->
         p = strayOf;
         answer[p] = strayKind; answerNext[p] = strayNext; answerAge[p] = strayAge;
         answerGranted = (answerGranted & ~OWN(p)) | strayGranted; answerRefused = (answerRefused & ~OWN(p)) | strayRefused;
#if LOSSES
         answerStamp[p] = strayStamp;
#endif
         p = 0
       :: else
       fi;
       clearStray() }
  :: d_step { stray != NOTHING -> printf("network: the stray message never arrives\n"); clearStray() }
#endif
#if LOSSES
  :: d_step { !saved && lossesLeft > 0 -> printf("server: a snapshot is taken\n"); save(); skip }
  :: d_step { saved && lossesLeft > 0 -> printf("server: all writes since the snapshot are lost\n"); restore(); skip }
#endif
#if OVERDUE
  OVERTAKES(0)
  OVERTAKES(1)
  COMES_APART(0)
  COMES_APART(1)
#if NP > 2
  OVERTAKES(2)
  COMES_APART(2)
#endif
#endif
#if JUMPS
  :: d_step { jumpsLeft > 0 -> jumpsLeft--; printf("server: the clock is set forward\n"); c = 0;
       do :: c < NM -> if :: askBy[c] != ABSENT -> askBy[c] = 0 :: else fi; c++ :: else -> break od; skip }
#endif
#if CHANGES
  :: d_step { changesLeft > 0 -> changesLeft--; quota = 3 - quota; printf("server: the quota is now %d\n", quota); granted = 0; refused = 0;
       walk(NOBODY, 0);
       c = 0;
       do :: c < NM -> if :: askBy[c] != ABSENT && !MUTANT_CHANGE_NOT_TOLD -> publish(c / 2) :: else fi; c++ :: else -> break od; skip }
#endif
#ifdef NEWCOMERS
  :: d_step { NEWCOMER_MAY_COME && !cameNow -> cameNow = 1; newcomer(); skip }
#endif
  :: d_step { TIME_MAY_PASS -> printf("---- one tick ----\n"); tick(); skip }
  od
}

ltl served { []<> !SOMEBODY_WAITS }
