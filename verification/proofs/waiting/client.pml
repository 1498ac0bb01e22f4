/* A client: one process in one line. It has one member and one ask in flight, and collects changes meanwhile. */

byte state[NP];            /* RUNS, STOPPED (its event loop is blocked), CRASHED, CLOSING, CLOSED_NOW */
bit gen_[NP];              /* generation of its member: 0 or 1, in turn */
bit opened[NP];            /* an ask of this member was answered */
bit inFlight[NP];          /* an ask is sent and not answered */
bit tried[NP];             /* it was sent in this tick */
bit heard[NP];             /* news came while an ask was in flight */
byte timer[NP];            /* ticks until the next ask */

byte waiting;              /* waiters that wait, by the client's belief */
byte asked = OUTSIDE;      /* waiters that have come at all */
byte told;                 /* waiters whose ticket the client knows */
byte wasLate;              /* waiters with a late grant in a row */
byte toJoin, toLeave, toReturn;        /* gathered for the next ask */
byte aJoin, aTicket, aLeave, aReturn;  /* content of the ask in flight */
#ifdef SEMAPHORE
byte toEnd, aEnd;          /* leases to end */
byte hold[NW];             /* ticks that the client may still use its lease */
#else
#define toEnd 0
#define aEnd 0
#endif
#if LOSSES
byte stampRead[NP];        /* stamp of the last answer that was read */
#endif
#ifdef COUNT_BEGUN
byte begunOf[BEGUN_CELLS]; /* for the property late_grants_bounded: what began in the last interval */
byte begunLeft[BEGUN_CELLS];
#endif

/* ---- the network: at most one ask and one answer of a client under way, plus one stray of all ---- */
bit askUnderWay[NP];
byte answer[NP];           /* NOTHING, CARRIED_OUT, UNKNOWN, TOO_LATE or COPY_TOO_LATE */
byte answerNext[NP];       /* ticks until the timer, counted from the sending of the ask */
byte answerAge[NP];        /* age of its grants, counted from the sending of the ask */
byte answerGranted, answerRefused;
#if LOSSES
byte answerStamp[NP];
#endif
bit news[NP];
#if CHANGES
byte answerQuota[NP];      /* an answer tells the quota */
#endif

hidden byte g_, w_, kind_, grants_, refusals_, next_, age_, quotaTold_;

#define GATHERED(p) ((toJoin | toLeave | toReturn | toEnd) & OWN(p))
#define WAITS(p) (waiting & OWN(p))
#define TO_SEND(p) (!inFlight[p] && (GATHERED(p) || (WAITS(p) && (heard[p] || timer[p] == 0))))
#define ALIVE(p) (state[p] == RUNS || state[p] == CLOSING)
#define TO_REPEAT(p) (inFlight[p] && !tried[p] && !askUnderWay[p] && !answer[p])

/* ---- mutants begin waiters without an answer that grants them ---- */
inline beginAll(set) { w_ = 0; do :: w_ < NW -> if :: (set) & BIT(w_) -> begin(w_) :: else fi; w_++ :: else -> break od }
inline beginFirst(set) { w_ = 0; do :: w_ < NW -> if :: (set) & BIT(w_) -> begin(w_); break :: else fi; w_++ :: else -> break od }

/* ---- sending ---- */
inline sendAsk(p) {
  if :: MUTANT_BEGINS_AT_TIMER && timer[p] == 0 && !heard[p] && !GATHERED(p) -> beginFirst(waiting & told & OWN(p)) :: else fi;
  aJoin = (aJoin & ~OWN(p)) | (toJoin & OWN(p));
  aTicket = (aTicket & ~OWN(p)) | (MUTANT_NEW_TICKET -> 0 : toJoin & told & OWN(p));
  aLeave = (aLeave & ~OWN(p)) | (toLeave & OWN(p));
  aReturn = (aReturn & ~OWN(p)) | (toReturn & OWN(p));
  toJoin = toJoin & ~OWN(p); toLeave = toLeave & ~OWN(p); toReturn = toReturn & ~OWN(p);
#ifdef SEMAPHORE
  aEnd = (aEnd & ~OWN(p)) | (toEnd & OWN(p)); toEnd = toEnd & ~OWN(p);
#endif
  heard[p] = 0; timer[p] = 0;
#if OVERDUE
  overdue[p] = 0; EARLY_NO_MORE(p);
#endif
#if APART
  if :: sameNumber[p] -> sameNumber[p] = 0 :: else -> numberRises(p) fi;
#else
  numberRises(p);
#endif
  inFlight[p] = 1; tried[p] = 1; askUnderWay[p] = 1
}

inline forgetAsk(p) {
  aJoin = aJoin & ~OWN(p); aTicket = aTicket & ~OWN(p); aLeave = aLeave & ~OWN(p); aReturn = aReturn & ~OWN(p);
#ifdef SEMAPHORE
  aEnd = aEnd & ~OWN(p);
#endif
  inFlight[p] = 0; tried[p] = 0;
#if OVERDUE
  overdue[p] = 0; EARLY_NO_MORE(p)
#endif
}

/* ---- reading an answer ---- */
inline begin(w) {
  printf("  waiter %d begins\n", w);
  assert(!(begun & BIT(w)) && (waiting & BIT(w))); /* begun_once */
#ifndef GRANTS_UNCHECKED
  assert(spent & BIT(w) || losses > 0);          /* begun_with_grant */
#endif
  begun = begun | BIT(w); spent = spent & ~BIT(w);
  waiting = waiting & ~BIT(w); wasLate = wasLate & ~BIT(w);
#ifdef COUNT_BEGUN
  c = 0;
  do :: c < BEGUN_CELLS && begunLeft[c] > 0 -> c++ :: else -> break od;
  assert(c < BEGUN_CELLS);
  begunOf[c] = w; begunLeft[c] = INTERVAL;
  c = 0; sum = 0;
  do :: c < BEGUN_CELLS -> if :: begunLeft[c] > 0 -> sum = sum + COST(begunOf[c]) :: else fi; c++ :: else -> break od;
  assert(sum <= 2 * quota);                      /* late_grants_bounded */
#endif
}

/* a: age of the grants since the sending of the copy that was answered */
inline read(p, kind, grants, refusals, nextAsk, a) {
  if
  :: kind == UNKNOWN ->
    /* A new member, which joins all requests that still wait. The changes of the refused ask are collected again. */
    if :: MUTANT_ABSENT_IS_GRANTED -> beginAll(waiting & OWN(p)) :: else fi;
    toJoin = toJoin | (waiting & OWN(p));
    toReturn = toReturn | (aReturn & OWN(p));
    toLeave = toLeave & ~OWN(p);
#ifdef SEMAPHORE
    toEnd = toEnd | (aEnd & OWN(p));
#endif
    forgetAsk(p);
    newGeneration(p);
    if :: state[p] == CLOSING && !GATHERED(p) -> closed(p) :: else fi
#if OVERDUE
#if APART
  :: kind == COPY_TOO_LATE && !MUTANT_ONE_COPY_BELIEVED -> skip /* it asks again, until one is carried out or all are too late */
#endif
  :: kind == TOO_LATE || kind == COPY_TOO_LATE ->
    /* No copy of it is carried out any more: what still matters is asked for in the next ask, under the same number. */
    toJoin = toJoin | (aJoin & OWN(p) & waiting);
    toLeave = (MUTANT_OVERDUE_LEAVES_FORGOTTEN -> toLeave : toLeave | (aLeave & OWN(p)));
    toReturn = (MUTANT_OVERDUE_RETURNS_FORGOTTEN -> toReturn : toReturn | (aReturn & OWN(p)));
#ifdef SEMAPHORE
    toEnd = toEnd | (aEnd & OWN(p));
#endif
    forgetAsk(p);
#if APART
    if :: kind == COPY_TOO_LATE -> sameNumber[p] = 1 :: else -> numberFalls(p) fi;
#else
    numberFalls(p);
#endif
    if :: state[p] == CLOSING && !GATHERED(p) -> closed(p) :: else fi
#endif
  :: else ->
    opened[p] = 1;
    told = told | (aJoin & OWN(p));
    forgetAsk(p);
    w_ = 0;
    do
    :: w_ < NW ->
      if
      :: (grants) & BIT(w_) ->
        if
        :: !(waiting & BIT(w_)) && !MUTANT_USES_EVERY_GRANT ->
          /* It left meanwhile: give the grant back. */
          toReturn = (MUTANT_UNREAD_FORGOTTEN -> toReturn : toReturn | BIT(w_));
          toLeave = toLeave & ~BIT(w_)
        :: else -> take(w_, a)
        fi
      :: (refusals) & BIT(w_) -> waiting = waiting & ~BIT(w_); toLeave = toLeave & ~BIT(w_)
      :: else
      fi;
      w_++
    :: else -> break
    od;
#if CHANGES
    /* A waiter that can never fit is rejected, and leaves. */
    w_ = 0;
    do
    :: w_ < NW -> if :: waiting & OWN(p) & BIT(w_) && COST(w_) > quotaTold_ -> printf("  waiter %d can never fit\n", w_); abort(w_) :: else fi; w_++
    :: else -> break
    od;
#endif
    if :: WAITS(p) -> timer[p] = nextAsk :: else -> timer[p] = 0; heard[p] = 0 fi;
    if :: state[p] == CLOSING && !GATHERED(p) -> closed(p) :: else fi
  fi
}

/* A grant that came too late: it is given back, and its waiter joins again with its ticket. */
inline exchange(w) {
  toReturn = (MUTANT_LATE_NOT_RETURNED -> toReturn : toReturn | BIT(w));
  toJoin = toJoin | BIT(w)
}

#ifdef SEMAPHORE
/* The lease counts from the sending of the ask; if it has ended, the waiter asks anew. */
inline take(w, a) {
  if
  :: (a) < LEASE || MUTANT_LEASE_FROM_ANSWER ->
    begin(w); hold[w] = (MUTANT_LEASE_FROM_ANSWER -> LEASE : LEASE - (a));
    c = 0; sum = 0;
    do :: c < NW -> if :: hold[c] > 0 -> sum = sum + COST(c) :: else fi; c++ :: else -> break od;
    assert(sum <= quota * (1 + losses))          /* permits_kept */
  :: else -> printf("  waiter %d: its grant is late\n", w); exchange(w)
  fi
}
#else
/* Begins if the grant is fresh, or late for the second time in a row; else reports it and waits on. */
inline take(w, a) {
  if
  :: (a) <= FRESH || wasLate & BIT(w) || MUTANT_LATE_IS_USED -> begin(w)
  :: else -> printf("  waiter %d: its grant is late\n", w); exchange(w); wasLate = wasLate | BIT(w)
  fi
}
#endif

/* ---- abort, and timeout, which is the same: the waiter leaves ---- */
inline abort(w) {
  waiting = waiting & ~BIT(w); wasLate = wasLate & ~BIT(w);
  if
  :: toJoin & BIT(w) -> toJoin = toJoin & ~BIT(w)
  :: else -> toLeave = (MUTANT_ABORT_FORGOTTEN && (aJoin & BIT(w)) -> toLeave : toLeave | BIT(w))
  fi;
  if :: !WAITS(OWNER(w)) -> heard[OWNER(w)] = 0; timer[OWNER(w)] = 0 :: else fi
}

/* ---- close(): all waiters leave, and asks continue until no change is left to send ---- */
inline closed(p) {
  state[p] = CLOSED_NOW; toLeave = toLeave & ~OWN(p);
#ifndef SPENT_UNCHECKED
  assert(losses > 0 || !(spent & OWN(p)));       /* nothing_spent_after_close */
#endif
  assert(losses > 0 || (askBy[MEMBER(p, 0)] == ABSENT && askBy[MEMBER(p, 1)] == ABSENT)) /* left_after_close */
}

/* ---- numbers: only differences are kept, so that they stay small ---- */
inline numberRises(p) {
  if :: behind[MEMBER(p, gen_[p])] < 3 -> behind[MEMBER(p, gen_[p])]++ :: else fi;
#if LOSSES
  if :: savedBehind[MEMBER(p, gen_[p])] < 3 -> savedBehind[MEMBER(p, gen_[p])]++ :: else fi;
#endif
#if STRAYS
  if :: stray != NOTHING && strayOf == p && strayGen == gen_[p] && strayBehind < 3 -> strayBehind++ :: else fi
#endif
}

#if OVERDUE
/* An ask that was not carried out leaves its number to the next one. */
inline numberFalls(p) {
  if :: behind[MEMBER(p, gen_[p])] > 0 -> behind[MEMBER(p, gen_[p])]-- :: else fi;
#if STRAYS
  if
  :: stray != NOTHING && strayOf == p && strayGen == gen_[p] && strayBehind == 0 -> clearStray()
  :: stray != NOTHING && strayOf == p && strayGen == gen_[p] && strayBehind > 0 -> strayBehind--
  :: else
  fi
#endif
}
#endif

/* The next member of this process. Two generations alternate; the rest of the one before the last is forgotten. */
inline newGeneration(p) {
  opened[p] = 0; gen_[p] = 1 - gen_[p]; g_ = gen_[p];
#if APART
  sameNumber[p] = 0;
#endif
  record[MEMBER(p, g_)] = NO_RECORD; behind[MEMBER(p, g_)] = 0; hasWaiters[MEMBER(p, g_)] = 0; askBy[MEMBER(p, g_)] = ABSENT;
  inLine[g_] = inLine[g_] & ~OWN(p); kept[g_] = kept[g_] & ~OWN(p); keptRefused[g_] = keptRefused[g_] & ~OWN(p); keptAge[MEMBER(p, g_)] = 0;
#if LOSSES
  stamp[MEMBER(p, g_)] = 0; stampRead[p] = 0; forgetSaved(p, g_);
#endif
#if STRAYS
  if :: stray != NOTHING && strayOf == p && strayGen == g_ -> clearStray() :: else fi
#endif
}
