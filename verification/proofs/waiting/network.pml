/* The network and its faults, the ends of processes, and time. */

#if LOST
byte lostLeft = LOST;
#endif
#if STRAYS
byte straysLeft = STRAYS;  /* a late ask, a late answer, or a second copy of an ask */
byte stray;                /* NOTHING, AN_ASK or AN_ANSWER */
byte strayOf; bit strayGen; byte strayBehind; bit strayFirst;
byte strayJoin, strayTicket, strayLeave, strayReturn, strayEnd, strayKind, strayNext, strayAge, strayGranted, strayRefused, strayStamp;
#endif
#if OVERDUE
byte overdueLeft = OVERDUE;
#if STRAYS
bit strayOverdue;
#endif
#endif
#if OVERDUE
/* The last moment of a copy that is still under way passes, too. */
#if STRAYS
#define STRAY_TOO(q) if :: stray == AN_ASK && strayOf == q && strayGen == gen_[q] && strayBehind == 0 -> strayOverdue = 1 :: else fi
#else
#define STRAY_TOO(q) skip
#endif
#endif
#if APART
byte apartLeft = APART;
#endif
#if STRAYS && OVERDUE
#define STRAY_OVERDUE strayOverdue
#else
#define STRAY_OVERDUE 0
#endif
#if PAUSES
byte pausesLeft = PAUSES;
#endif
#if CRASHES
byte crashesLeft = CRASHES;
#endif
#if ABORTS
byte abortsLeft = ABORTS;
#endif
#if CHANGES
byte changesLeft = CHANGES;
#endif
#if JUMPS
byte jumpsLeft = JUMPS;
#endif
#if CLOSES
byte closesLeft = CLOSES;
#endif
#if LOSSES
byte lossesLeft = LOSSES;
bit saved;                 /* a snapshot exists */
byte savedInLine[2], savedAskBy[NM], savedRecord[NM], savedBehind[NM], savedKept[2], savedRefused[2], savedAge[NM], savedStamp[NM];
bit savedHas[NM];
#ifdef SEMAPHORE
byte savedLease[NW];
#else
byte savedUnitOf[CELLS], savedUnitLeft[CELLS];
#endif
#endif
#ifdef NEWCOMERS
bit cameNow;               /* a newcomer came in this tick */
byte promise = NEVER;      /* ticks until the moment that a refused newcomer was told; NEVER: nobody was told */
#endif
#ifdef IDLE_AT_MOST
byte idle;                 /* ticks for which capacity has been unused while somebody alive could use it */
#endif

#if LOSSES
#define STAMP_READ(p) stampRead[p]
#else
#define STAMP_READ(p) 0
#endif

#if STRAYS
inline clearStray() {
  stray = NOTHING; strayOf = 0; strayGen = 0; strayBehind = 0; strayFirst = 0; strayJoin = 0; strayTicket = 0; strayLeave = 0;
  strayReturn = 0; strayEnd = 0; strayKind = 0; strayNext = 0; strayAge = 0; strayGranted = 0; strayRefused = 0; strayStamp = 0;
#if OVERDUE
  strayOverdue = 0
#endif
}
inline copyAsk(p) {
  stray = AN_ASK; strayOf = p; strayGen = gen_[p]; strayBehind = 0; strayFirst = !opened[p];
  strayJoin = aJoin & OWN(p); strayTicket = aTicket & OWN(p); strayLeave = aLeave & OWN(p); strayReturn = aReturn & OWN(p);
  strayEnd = aEnd & OWN(p); strayAge = 0; strayStamp = STAMP_READ(p); straysLeft--;
#if OVERDUE
  strayOverdue = (overdue[p] || IS_EARLY(p))
#endif
}
#endif

inline putAnswer(p) {
  if
  :: state[p] == RUNS || state[p] == STOPPED || state[p] == CLOSING ->
    answer[p] = reply; answerNext[p] = next; answerAge[p] = age;
#if CHANGES
    answerQuota[p] = quota;
#endif
    answerGranted = (answerGranted & ~OWN(p)) | granted; answerRefused = (answerRefused & ~OWN(p)) | refused;
#if LOSSES
    answerStamp[p] = stamp[MEMBER(p, gen_[p])];
#endif
  :: else
  fi
}

inline takeAnswer(p) {
  answer[p] = NOTHING; answerNext[p] = 0; answerAge[p] = 0;
#if CHANGES
  answerQuota[p] = 0;
#endif
  answerGranted = answerGranted & ~OWN(p); answerRefused = answerRefused & ~OWN(p);
#if LOSSES
  answerStamp[p] = 0;
#endif
}

inline crash(p) {
  state[p] = CRASHED;
  waiting = waiting & ~OWN(p); wasLate = wasLate & ~OWN(p); told = told & ~OWN(p);
  toJoin = toJoin & ~OWN(p); toLeave = toLeave & ~OWN(p); toReturn = toReturn & ~OWN(p);
#ifdef SEMAPHORE
  toEnd = toEnd & ~OWN(p); c = 0;
  do :: c < NW -> if :: OWN(p) & BIT(c) -> hold[c] = 0 :: else fi; c++ :: else -> break od;
#endif
  heard[p] = 0; timer[p] = 0; news[p] = 0;
  takeAnswer(p);
  /* The ask in flight may still arrive, so its content is kept until then. */
  if :: askUnderWay[p] -> inFlight[p] = 0; tried[p] = 0 :: else -> forgetAsk(p) fi
}

inline close(p) {
  state[p] = CLOSING; w_ = 0;
  do
  :: w_ < NW -> if :: waiting & OWN(p) & BIT(w_) -> abort(w_) :: else fi; w_++
  :: else -> break
  od;
  heard[p] = 0; timer[p] = 0; news[p] = 0;
  if :: MUTANT_CLOSE_DOES_NOT_ASK || (!inFlight[p] && !GATHERED(p)) -> closed(p) :: else fi
}

#if LOSSES
inline forgetSaved(p, g) {
  savedRecord[MEMBER(p, g)] = NO_RECORD; savedBehind[MEMBER(p, g)] = 0; savedHas[MEMBER(p, g)] = 0; savedAge[MEMBER(p, g)] = 0; savedStamp[MEMBER(p, g)] = 0;
  savedAskBy[MEMBER(p, g)] = (saved -> ABSENT : 0);
  savedInLine[g] = savedInLine[g] & ~OWN(p); savedKept[g] = savedKept[g] & ~OWN(p); savedRefused[g] = savedRefused[g] & ~OWN(p)
}
inline save() {
  saved = 1; c = 0;
  do
  :: c < NM ->
    savedAskBy[c] = askBy[c]; savedRecord[c] = record[c]; savedBehind[c] = behind[c]; savedHas[c] = hasWaiters[c]; savedAge[c] = keptAge[c]; savedStamp[c] = stamp[c]; c++
  :: else -> break
  od;
  c = 0;
  do :: c < 2 -> savedInLine[c] = inLine[c]; savedKept[c] = kept[c]; savedRefused[c] = keptRefused[c]; c++ :: else -> break od;
  c = 0;
#ifdef SEMAPHORE
  do :: c < NW -> savedLease[c] = lease[c]; c++ :: else -> break od;
#else
  do :: c < CELLS -> savedUnitOf[c] = unitOf[c]; savedUnitLeft[c] = unitLeft[c]; c++ :: else -> break od;
#endif
}
inline clearSaved() {
  saved = 0; c = 0;
  do
  :: c < NM -> savedAskBy[c] = 0; savedRecord[c] = 0; savedBehind[c] = 0; savedHas[c] = 0; savedAge[c] = 0; savedStamp[c] = 0; c++
  :: else -> break
  od;
  c = 0;
  do :: c < 2 -> savedInLine[c] = 0; savedKept[c] = 0; savedRefused[c] = 0; c++ :: else -> break od;
  c = 0;
#ifdef SEMAPHORE
  do :: c < NW -> savedLease[c] = 0; c++ :: else -> break od;
#else
  do :: c < CELLS -> savedUnitOf[c] = 0; savedUnitLeft[c] = 0; c++ :: else -> break od;
#endif
}
inline restore() {
  losses++; lossesLeft--; c = 0;
  do
  :: c < NM ->
    askBy[c] = savedAskBy[c]; record[c] = savedRecord[c]; behind[c] = savedBehind[c]; hasWaiters[c] = savedHas[c]; keptAge[c] = savedAge[c]; stamp[c] = savedStamp[c]; c++
  :: else -> break
  od;
  c = 0;
  do :: c < 2 -> inLine[c] = savedInLine[c]; kept[c] = savedKept[c]; keptRefused[c] = savedRefused[c]; c++ :: else -> break od;
  c = 0;
#ifdef SEMAPHORE
  do :: c < NW -> lease[c] = savedLease[c]; c++ :: else -> break od;
#else
  do :: c < CELLS -> unitOf[c] = savedUnitOf[c]; unitLeft[c] = savedUnitLeft[c]; c++ :: else -> break od;
#endif
  if :: lossesLeft == 0 -> clearSaved() :: else fi
}
#endif

#ifndef SEMAPHORE
/* Cells are in the order of spending, so the oldest is first, and an empty cell comes after all others. */
#define age_log(owns, left, cells) \
  c = 0; x = 0; \
  do \
  :: c < cells -> \
    if \
    :: left[c] > 1 -> y = left[c] - 1; z = owns[c]; owns[c] = 0; left[c] = 0; owns[x] = z; left[x] = y; x++ \
    :: else -> owns[c] = 0; left[c] = 0 \
    fi; \
    c++ \
  :: else -> break \
  od
#endif

/* ---- time ---- */
#define DOWN(x) x = (x > 0 && x < NEVER -> x - 1 : x)
#define UP(x, most) x = (x < most -> x + 1 : most)

/* Time passes only when no immediate step is left. */
#define QUIET(p) (!askUnderWay[p] && !(ALIVE(p) && (answer[p] || news[p] || TO_SEND(p) || TO_REPEAT(p))))
#if NP == 2
#define ALL_QUIET (QUIET(0) && QUIET(1))
#else
#define ALL_QUIET (QUIET(0) && QUIET(1) && QUIET(2))
#endif

inline tick() {
#ifdef IDLE_AT_MOST
  measureIdle();
  assert(idle <= IDLE_AT_MOST);                  /* capacity_used */
#if CHANGES
  /* No waiter remains that can never fit. */
  c = 0;
  do
  :: c < NW -> assert(!(waiting & BIT(c) && state[OWNER(c)] == RUNS && COST(c) > quota)); /* never_fitting_told */
    c++
  :: else -> break
  od;
#endif
#endif
  c = 0;
  do
  :: c < NM ->
    if :: askBy[c] != ABSENT -> DOWN(askBy[c]) :: else fi;
    if :: record[c] == OPEN -> UP(keptAge[c], AGE_MAX) :: else fi;
#if LOSSES
    if :: saved && savedAskBy[c] != ABSENT -> DOWN(savedAskBy[c]) :: else fi;
    if :: saved && savedRecord[c] == OPEN -> UP(savedAge[c], AGE_MAX) :: else fi;
#endif
    c++
  :: else -> break
  od;
#ifdef SEMAPHORE
  c = 0;
  do
  :: c < NW -> DOWN(lease[c]); DOWN(hold[c]);
#if LOSSES
    DOWN(savedLease[c]);
#endif
    if :: lease[c] == 0 -> spent = spent & ~BIT(c) :: else fi;
    c++
  :: else -> break
  od;
#else
  age_log(unitOf, unitLeft, CELLS);
  age_log(trueOf, trueLeft, TRUE_CELLS);
#if LOSSES
  age_log(savedUnitOf, savedUnitLeft, CELLS);
#endif
#ifdef COUNT_BEGUN
  age_log(begunOf, begunLeft, BEGUN_CELLS);
#endif
#endif
  c = 0;
  do
  :: c < NP ->
    tried[c] = 0; DOWN(timer[c]);
#if APART
    /* The last moments of the copies of one ask are at most a tick apart. */
    if :: early[c] -> overdue[c] = 1; STRAY_TOO(c); early[c] = 0 :: else fi;
#endif
    if :: answer[c] -> DOWN(answerNext[c]); UP(answerAge[c], AGE_MAX) :: else fi;
    c++
  :: else -> break
  od;
#if STRAYS
  if :: stray == AN_ASK -> UP(strayAge, AGE_MAX) :: stray == AN_ANSWER -> UP(strayAge, AGE_MAX); DOWN(strayNext) :: else fi;
#endif
#ifdef NEWCOMERS
  cameNow = 0; DOWN(promise);
#endif
#ifdef ESTIMATES
  c = 0;
  do :: c < NW -> DOWN(estimate[c]); c++ :: else -> break od;
#endif
}


#ifdef NEWCOMERS
#ifdef KEEP_PROMISE
/* The promise holds if no other request comes: no message is in flight, and no new waiter joins. */
#define NEWCOMER_MAY_COME ALL_QUIET
#define PROMISE(t) promise = (promise == NEVER -> (t) : promise); asked = ALL_ASKED
#else
#define NEWCOMER_MAY_COME 1
#define PROMISE(t) skip
#endif
/* consume, tryAcquire: a request that does not wait. It is no waiter of the line; the log records it as waiter
   NEWCOMER. */
inline newcomer() {
  ahead[0] = 0; ahead[1] = 0; v = NEWCOMER; granted = 0; refused = 0;
  unitsInLine();
  if :: MUTANT_NEWCOMERS_BLIND || MUTANT_NEWCOMERS_OVERTAKE -> ahead[0] = 0 :: else fi;
  whenOne(0, ahead[0] + 1, quota);
  if
  :: t == 0 && ((inLine[0] | inLine[1]) == 0 || MUTANT_NEWCOMERS_OVERTAKE) ->
    assert(!((inLine[0] | inLine[1]) & waiting)); /* newcomers_wait */
    printf("a newcomer is admitted\n");
    record_spend(NEWCOMER);
    assert(promise == 0 || promise == NEVER);    /* refused_until_promise */
    promise = NEVER
  :: else ->
    printf("a newcomer is refused for %d ticks\n", t);
    assert(promise != 0);                        /* admitted_at_promise */
    PROMISE(t + MUTANT_PROMISE_TOO_LONG);
    headHasPassed();
    if :: found -> walk(NOBODY, 0) :: else fi
  fi
}
#endif

#ifdef IDLE_AT_MOST
/* Does the first waiter in the line whose process runs fit now? */
inline measureIdle() {
  r = 0; found = 0; ahead[0] = 0; ahead[1] = 0;
  do
  :: r < known && !found ->
    v = order[r];
    if
    :: waiting & told & BIT(v) && state[OWNER(v)] == RUNS && COST(v) <= QUOTA_OF(v) -> found = 1
    :: else
    fi;
    r++
  :: else -> break
  od;
  if
  :: found -> when(v); idle = (t == 0 -> idle + 1 : 0)
  :: else -> idle = 0
  fi
}
#endif
