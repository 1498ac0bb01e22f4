/*
 * The line of calls to a partner that has two budgets, a and b: README.md explains the words, the faults and the
 * properties.

 * Time is counted in ticks. A unit counts for WINDOW ticks from the answer of its call, which comes at most one tick
 * after the call was sent. Process p has calls 2p and 2p + 1; those of even number take from both budgets, the others
 * from a only. Each call comes once.
*/
#ifndef NP
#define NP 2
#endif
#ifndef QUOTA_A
#define QUOTA_A 2
#endif
#ifndef LOST
#define LOST 0
#endif
#ifndef STRAYS
#define STRAYS 0
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef DELAYS
#define DELAYS 0
#endif
#ifndef AWAY
#define AWAY 0
#endif
#ifndef FLUSHES
#define FLUSHES 0
#endif
#ifndef IDLE_AT_MOST
#define IDLE_AT_MOST 0
#endif
#define QUOTA_B 1
/* A call that leaves now stops to count after so many ticks, if its answer is late. */
#define LAST (WINDOW + 1)
#define NW (2 * NP)
#define WINDOW 2
#define GRACE 1
#define CHECK 2
#define ABSENT 15
#define BIT(w) (1 << (w))
#define OWN(p) (3 << (2 * (p)))
#define WANTS_B(w) ((w) % 2 == 0)
/* The last call is estimated at two units of a, and needs one. */
#define COST_A(w) ((w) == NW - 1 && QUOTA_A > 1 -> 2 : 1)

/* The ticket of a call that has left. */
#define GONE 99

#define NONE 0
#define ASKED 1
#define ANSWERED 2

/* `even` and `odd`: the row of the process, for how many ticks more its calls count; 0: not at all. */
typedef Message { byte is; byte calls; byte even; byte odd; byte less; byte behind; byte granted; byte age }
#define ROW(ask, w) ((w) % 2 == 0 -> ask.even : ask.odd)

/* The server: who waits, by when each process asks again (ticks + GRACE + 1), and the units of each call: how many, and
   for how many ticks more. */
byte known, askBy[NP];
/* How many asks of a process are newer than the last that was carried out, up to 3; `behind` of a message: how many are
   newer than itself. */
byte unread[NP];
byte unitsA[NW], unitsB[NW], ends[NW];

/* The processes: their calls that wait, in the order in which they came (ticket); for how many ticks more each of their
   calls counts (own) and which of them need less than was estimated; what may be sent, and who leaves without Redis. */
byte waiting, ticket[NW], tickets;
byte own[NW], less, permitted, tells;
byte done;
byte comes[NP];
bit dead[NP], alone[NP];
Message m[NP];
Message stray;

/* The partner: for how many ticks it counts each call. */
byte counts[NW];
byte lost, strays, crashes, delays, away, flushes, idle;
/* The server's clock is set forward before the next ask is carried out: all units have ended by it. */
bit steps;

hidden byte w, v, first, sumA, sumB, keptA, keptB, granted, blocked, next, p_, due;
hidden byte awaitsA, awaitsB, passes, lacksA, lacksB;

inline useSums() {
  sumA = 0; sumB = 0; w = 0;
  do
  :: w < NW -> sumA = sumA + unitsA[w]; sumB = sumB + unitsB[w]; w++
  :: else -> break
  od
}

#define COSTS_A(c) ((less & BIT(c)) -> 1 : COST_A(c))

/* What process p counts by itself. */
inline ownSums(p) {
  sumA = 0; sumB = 0; w = 2 * (p);
  do
  :: w < 2 * (p) + 2 ->
    if :: own[w] > 0 -> sumA = sumA + COSTS_A(w); sumB = sumB + WANTS_B(w) :: else fi;
    w++
  :: else -> break
  od
}

/* In no window does the partner count more of one process than either budget allows, and of all together, unless some
   have left without Redis, or it has lost its data. */
inline partnerCounts() {
  keptA = 0; keptB = 0; w = 0;
  do
  :: w < NW ->
    if :: w % 2 == 0 && (away > 0 || flushes > 0) -> keptA = 0; keptB = 0 :: else fi;
    if :: counts[w] > 0 -> keptA++; keptB = keptB + WANTS_B(w) :: else fi;
    assert(keptA <= QUOTA_A && keptB <= QUOTA_B); /* quota_kept */
    w++
  :: else -> break
  od;
  keptA = 0; keptB = 0
}

inline free(c) { unitsA[c] = 0; unitsB[c] = 0; ends[c] = 0 }

inline freeAll() {
  w = 0;
  do
  :: w < NW -> free(w); w++
  :: else -> break
  od
}

/* The first of those that wait, but for calls of a kind that is blocked. */
inline findFirst() {
  first = NW; v = 0;
  do
  :: v < NW ->
    if
    :: (known & BIT(v)) && !(blocked & BIT(v % 2)) && (first == NW || ticket[v] < ticket[first]) -> first = v
    :: else
    fi;
    v++
  :: else -> break
  od
}

inline grant(c) {
  unitsA[c] = COST_A(c); ends[c] = LAST;
#if MUTANT_ONE_BUDGET_ONLY
  if :: WANTS_B(c) && sumB + keptB < QUOTA_B -> unitsB[c] = 1 :: else fi;
#else
  if :: WANTS_B(c) -> unitsB[c] = 1 :: else fi;
#endif
  granted = granted | BIT(c); known = known & ~BIT(c);
  sumA = sumA + COST_A(c); sumB = sumB + WANTS_B(c)
}

inline carryOut(ask, p) {
  p_ = p;
  if
#if MUTANT_NO_NUMBER
  :: true ->
#else
  :: unread[p_] > ask.behind ->
#endif
    unread[p_] = ask.behind;
    w = 0;
    do
    :: w < NW ->
      /* What its calls count, in place of what the ask before has told and been given. */
      if
      :: (OWN(p_) & BIT(w)) && !(MUTANT_ROW_ADDS && ROW(ask, w) == 0) ->
        ends[w] = ROW(ask, w);
        unitsA[w] = (ends[w] == 0 -> 0 : ((ask.less & BIT(w)) -> 1 : COST_A(w)));
        unitsB[w] = (ends[w] > 0 && WANTS_B(w))
      :: else
      fi;
      w++
    :: else -> break
    od;
    known = (known & ~OWN(p_)) | ask.calls;
    /* Processes that do not come are dead; if they live, their next ask brings their calls back. */
    w = 0;
    do
    :: w < NP ->
      if :: w != p_ && askBy[w] == 0 && !MUTANT_NOBODY_EVICTED -> known = known & ~OWN(w); askBy[w] = ABSENT :: else fi;
      w++
    :: else -> break
    od;
    if :: steps -> steps = 0; freeAll() :: else fi;
    useSums();
    granted = 0; blocked = 0; awaitsA = 0; awaitsB = 0; keptA = 0; keptB = 0; next = CHECK;
    findFirst();
    do
    :: first < NW ->
      lacksA = (sumA + keptA + COST_A(first) > QUOTA_A);
      lacksB = (WANTS_B(first) && sumB + keptB + 1 > QUOTA_B);
      passes = !awaitsA && !(WANTS_B(first) && awaitsB);
#if MUTANT_ONE_BUDGET_ONLY
      lacksB = 0;
#endif
#if MUTANT_AWAITED_IS_TAKEN
      passes = 1;
#endif
      if
      :: passes && !lacksA && !lacksB && (OWN(p_) & BIT(first)) ->
        printf("server: call %d may leave\n", first); grant(first)
      :: passes && !lacksA && !lacksB && !(OWN(p_) & BIT(first)) ->
        /* It is of another process, which is told to come; meanwhile its units are kept. */
        keptA = keptA + (MUTANT_NOTHING_KEPT -> 0 : COST_A(first)); keptB = keptB + (MUTANT_NOTHING_KEPT -> 0 : WANTS_B(first));
        if :: askBy[first / 2] > GRACE + 1 -> askBy[first / 2] = GRACE + 1; comes[first / 2] = (MUTANT_NOT_TOLD -> comes[first / 2] : 0) :: else fi;
        known = known & ~BIT(first); due = due | BIT(first)
      :: else ->
        blocked = blocked | BIT(first % 2);
        /* It comes again when the first units end. */
        if :: (OWN(p_) & BIT(first)) && (lacksA || lacksB) -> next = 1 :: else fi;
        if
        :: !(OWN(p_) & BIT(first)) && (lacksA || lacksB) && askBy[first / 2] > GRACE + 2 -> askBy[first / 2] = GRACE + 2; comes[first / 2] = 1
        :: else
        fi;
        awaitsA = awaitsA || lacksA; awaitsB = awaitsB || lacksB
      fi;
      findFirst()
    :: else -> break
    od;
    known = known | due; due = 0;
    /* order_kept: nobody leaves before a call of the same kind that waits, whose process is alive, and that came before
       */
    w = 0;
    do
    :: w < NW ->
      v = 0;
      do
      :: v < NW ->
        assert(!((granted & BIT(w)) && (known & BIT(v)) && v % 2 == w % 2 && ticket[v] < ticket[w])); /* order_kept */
        v++
      :: else -> break
      od;
      w++
    :: else -> break
    od;
    if :: (known & OWN(p_)) -> askBy[p_] = next + GRACE + 1 :: else -> askBy[p_] = ABSENT fi;
    ask.granted = granted
  :: else -> ask.granted = 0; next = CHECK
  fi;
  keptA = 0; keptB = 0; sumA = 0; sumB = 0; granted = 0; blocked = 0; first = 0; w = 0; v = 0
}

inline clear(one) { one.is = NONE; one.calls = 0; one.even = 0; one.odd = 0; one.less = 0; one.behind = 0; one.granted = 0; one.age = 0 }

/* Whether somebody is to do something at once. */
#define URGENT(p) (!dead[p] && (m[p].is != NONE || ((waiting & OWN(p)) && comes[p] == 0) || (tells & BIT(p)) || (permitted & OWN(p))))

#define LESS_BY_ONE(x) if :: x > 0 -> x-- :: else fi

inline tick() {
  w = 0;
  do
  :: w < NW ->
    LESS_BY_ONE(own[w]);
    LESS_BY_ONE(counts[w]);
    if :: ends[w] > 0 -> ends[w]--; if :: ends[w] == 0 -> unitsA[w] = 0; unitsB[w] = 0 :: else fi :: else fi;
    w++
  :: else -> break
  od;
  LESS_BY_ONE(stray.even); LESS_BY_ONE(stray.odd);
  w = 0;
  do
  :: w < NP ->
    if :: askBy[w] > 0 && askBy[w] != ABSENT -> askBy[w]-- :: else fi;
    LESS_BY_ONE(comes[w]);
    LESS_BY_ONE(m[w].even); LESS_BY_ONE(m[w].odd);
    if :: m[w].is != NONE && m[w].age < LAST -> m[w].age++ :: else fi;
    w++
  :: else -> break
  od;
  w = 0
}

/* Capacity that the first living call could use, by what all processes count, stays unused. */
inline lookForIdle() {
  sumA = 0; sumB = 0; w = 0;
  do
  :: w < NW -> if :: own[w] > 0 -> sumA = sumA + COSTS_A(w); sumB = sumB + WANTS_B(w) :: else fi; w++
  :: else -> break
  od;
  w = 0; first = NW;
  do
  :: w < NW ->
    if :: (waiting & BIT(w)) && !(permitted & BIT(w)) && !dead[w / 2] && (first == NW || ticket[w] < ticket[first]) -> first = w :: else fi;
    w++
  :: else -> break
  od;
  if
  :: first < NW && sumA + COST_A(first) <= QUOTA_A && (!WANTS_B(first) || sumB < QUOTA_B) -> idle++; assert(idle <= IDLE_AT_MOST) /* capacity_used */
  :: else -> idle = 0
  fi;
  sumA = 0; sumB = 0; first = 0; w = 0
}

/* A call is sent, if its units have counted since its permission, and will until this is told; else it waits again. */
inline send(ticks) {
  permitted = permitted & ~BIT(c);
  if
  :: own[c] > 1 || MUTANT_LATE_IS_USED ->
    printf("%d: call %d leaves\n", p, c);
    waiting = waiting & ~BIT(c); counts[c] = ticks; ticket[c] = GONE;
    if :: own[c] < LAST && !MUTANT_FROM_PERMISSION -> own[c] = LAST; tells = tells | BIT(p) :: else fi
  :: else -> own[c] = 0; tells = tells | BIT(p); comes[p] = 0
  fi;
  partnerCounts()
}

active proctype world() {
  byte p = 0, c = 0;
#if TOGETHER
  /* All calls have begun to wait already. */
#if NP > 1
  ticket[0] = 1; ticket[3] = 2; ticket[1] = 3; ticket[2] = 4; tickets = 4; waiting = 15;
#else
  ticket[0] = 1; ticket[1] = 2; tickets = 2; waiting = 3;
#endif
#endif
  askBy[0] = ABSENT;
#if NP > 1
  askBy[1] = ABSENT;
#endif
#if NP > 2
  askBy[2] = ABSENT;
#endif
end:
  do
  :: c < NW - 1 -> c++
  :: 
    p = c / 2;
    if
    /* The call begins to wait. */
    :: d_step { !dead[p] && ticket[c] == 0 ->
        tickets++; ticket[c] = tickets; waiting = waiting | BIT(c); comes[p] = 0;
        printf("%d: call %d begins to wait\n", p, c)
      }
    /* The process asks, with all that it counts and all that wait. Only one ask is under way. */
    :: d_step { !dead[p] && m[p].is == NONE && (((waiting & OWN(p)) && comes[p] == 0) || (tells & BIT(p))) ->
        unread[p] = (unread[p] < 3 -> unread[p] + 1 : 3);
        if :: stray.is == p + 1 && stray.behind < 3 -> stray.behind++ :: else fi;
        m[p].is = ASKED; m[p].calls = waiting & OWN(p) & ~permitted;
        m[p].even = own[2 * p]; m[p].odd = own[2 * p + 1]; m[p].less = less & OWN(p);
        tells = tells & ~BIT(p);
        printf("%d: asks for %d\n", p, m[p].calls)
      }
    :: d_step { m[p].is == ASKED ->
        carryOut(m[p], p);
        m[p].is = ANSWERED;
        comes[p] = (waiting & OWN(p) & ~m[p].calls -> 0 : next); next = 0
      }
    /* The client's copy of an ask is carried out later, too, or instead. */
    :: d_step { m[p].is == ASKED && stray.is == NONE && strays < STRAYS ->
        strays++; stray.is = p + 1; stray.calls = m[p].calls; stray.even = m[p].even; stray.odd = m[p].odd; stray.less = m[p].less; stray.behind = 0
      }
    :: d_step { stray.is == p + 1 -> printf("server: a stray ask of %d\n", p); carryOut(stray, p); next = 0; clear(stray) }
    /* The ask or its answer is lost: the next one tells all again. */
    :: d_step { !dead[p] && m[p].is != NONE && lost < LOST -> lost++; printf("%d: gets no answer\n", p); clear(m[p]); comes[p] = 0; tells = tells | BIT(p) }
    /* Redis does not answer for a while. */
    :: d_step { !dead[p] && m[p].is == ASKED && away < AWAY -> away++; alone[p] = 1; printf("%d: leaves alone\n", p); clear(m[p]); comes[p] = 0; tells = tells | BIT(p) }
    :: d_step { !dead[p] && alone[p] && (waiting & BIT(c)) && !(permitted & BIT(c)) ->
        ownSums(p);
        if
        :: sumA + COST_A(c) <= QUOTA_A && sumB + WANTS_B(c) <= QUOTA_B -> permitted = permitted | BIT(c); own[c] = LAST
        :: else
        fi;
        sumA = 0; sumB = 0; w = 0
      }
    /* It loses its data. */
    :: d_step { flushes < FLUSHES && c == 0 ->
        flushes++; printf("server: empty\n"); known = 0; freeAll(); w = 0;
        do
        :: w < NP -> askBy[w] = ABSENT; unread[w] = 3; w++
        :: else -> break
        od;
        w = 0
      }
    :: d_step { flushes < FLUSHES && c == 0 -> flushes++; printf("server: its clock steps\n"); steps = 1 }
    /* The calls that Redis lets leave may be sent, if this process has units for them, too; others wait again. */
    :: d_step { !dead[p] && m[p].is == ANSWERED ->
        alone[p] = 0; v = 2 * p;
        do
        :: v < 2 * p + 2 ->
          ownSums(p);
          if
          :: !(m[p].granted & BIT(v)) -> skip
          :: (m[p].granted & BIT(v)) && (waiting & BIT(v)) && !(permitted & BIT(v)) && m[p].age < LAST && (MUTANT_OWN_IGNORED || (sumA + COST_A(v) <= QUOTA_A && sumB + WANTS_B(v) <= QUOTA_B)) ->
            printf("%d: call %d may be sent\n", p, v);
            permitted = permitted | BIT(v); own[v] = LAST - m[p].age;
            assert(flushes > 0 || away > 0 || (unitsA[v] > 0 && (!WANTS_B(v) || unitsB[v] > 0))) /* all_or_none */
          :: else -> tells = tells | BIT(p); comes[p] = 0
          fi;
          v++
        :: else -> break
        od;
        v = 0; w = 0; sumA = 0; sumB = 0; clear(m[p])
      }
    /* The partner gets a call at once, or a tick later. */
    :: d_step { !dead[p] && (permitted & BIT(c)) -> send(WINDOW) }
    :: d_step { !dead[p] && (permitted & BIT(c)) -> send(LAST) }
    /* Its answer tells that the last call needed one unit only. */
    :: d_step { !dead[p] && c == NW - 1 && COST_A(c) == 2 && counts[c] > 0 && !(less & BIT(c)) -> less = less | BIT(c); tells = tells | BIT(p) }
    /* An answer has come at once: the units end earlier. */
    :: d_step { !dead[p] && counts[c] == WINDOW && own[c] == LAST && !(done & BIT(c)) -> done = done | BIT(c); own[c] = WINDOW; tells = tells | BIT(p) }
    :: d_step { !dead[p] && crashes < CRASHES -> crashes++; dead[p] = 1; permitted = permitted & ~OWN(p); printf("%d: dies\n", p); if :: m[p].is == ANSWERED -> clear(m[p]) :: else fi }
    /* Time passes when nobody has anything to do at once, or although somebody has: then that is late. */
    :: d_step { !URGENT(0) && (NP == 1 || !URGENT(NP - 1)) && (NP < 3 || !URGENT(1)) -> lookForIdle(); tick(); printf("tick\n"); partnerCounts() }
    :: skip
    :: d_step { delays < DELAYS && (m[p].is == ANSWERED || (permitted & OWN(p))) -> delays++; tick(); printf("late tick\n"); partnerCounts() }
    fi;
    c = 0; p = 0
  od
}
