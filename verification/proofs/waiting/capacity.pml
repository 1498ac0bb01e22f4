/* Capacity: the log of a rate or the leases of a semaphore; when something fits, spending, and giving back. */

#ifdef SEMAPHORE
byte lease[NW];            /* ticks until the lease of this waiter ends; 0: no lease */
#else
byte unitOf[CELLS];        /* the log: whose grant */
byte unitLeft[CELLS];      /* the log: ticks until it leaves the window; 0: empty cell; oldest first */
#endif

/* ---- for the properties only ---- */
#ifdef ESTIMATES
byte estimate[NW];         /* ticks until the moment that the waiter was told at its join */
#endif
#ifndef SEMAPHORE
byte trueOf[TRUE_CELLS];   /* the same log, kept by somebody who forgets nothing */
byte trueLeft[TRUE_CELLS];
#endif

#ifdef SEMAPHORE
inline usedUnits(l) {
  sum = 0; c = 0;
  do
  :: c < NW -> if :: lease[c] > 0 && USES(c, l) -> sum = sum + COST(c) :: else fi; c++
  :: else -> break
  od
}
/* t = ticks until the first lease ends if `units` more do not fit under `most` now, else 0 */
inline whenOne(l, units, most) {
  usedUnits(l);
  if
  :: sum + (units) <= (most) -> t = 0
  :: else ->
    t = CHECK; c = 0;
    do
    :: c < NW -> if :: lease[c] > 0 && lease[c] < t -> t = lease[c] :: else fi; c++
    :: else -> break
    od
  fi
}
#else
/* sum = units of limit l that are still in the window in `at` ticks */
inline usedAt(l, at) {
  sum = 0; c = 0;
  do
  :: c < CELLS -> if :: unitLeft[c] > at && USES(unitOf[c], l) -> sum = sum + COST(unitOf[c]) :: else fi; c++
  :: else -> break
  od
}
inline usedUnits(l) { usedAt(l, 0) }
/* t = ticks until `units` more fit into limit l under `most`; above `most`, whole windows first */
inline whenOne(l, units, most) {
  need = (units);
  if
  :: need == 0 -> t = 0
  :: else ->
    y = ((need - 1) / (most)) * INTERVAL;
    need = ((need - 1) % (most)) + 1;
    t = 0;
    do
    :: t <= INTERVAL ->
      usedAt(l, t);
      if :: sum + need <= (most) -> break :: else -> t++ fi
    :: else -> break
    od;
    t = t + y
  fi
}
#endif

/* t = ticks until waiter w fits beside those ahead: the longest over its limits */
inline when(w) {
  z = 0; k = 0;
  do
  :: k < NL ->
    if
    :: USES(w, k) && !(MUTANT_ONE_LIMIT_UNCHECKED && k > 0) -> whenOne(k, ahead[k] + COST(w), QUOTA_OF(w)); if :: t > z -> z = t :: else fi
    :: else
    fi;
    k++
  :: else -> break
  od;
  t = z
}

inline reserve(w) {
  k = 0;
  do
  :: k < NL -> if :: USES(w, k) -> ahead[k] = ahead[k] + COST(w) :: else fi; k++
  :: else -> break
  od
}

/* ahead = the units of all waiters in the line */
inline unitsInLine() {
  ahead[0] = 0; ahead[1] = 0; y = 0;
  do
  :: y < NW -> if :: (inLine[0] | inLine[1]) & BIT(y) -> reserve(y) :: else fi; y++
  :: else -> break
  od
}

#ifdef ESTIMATES
/* The wait that the answer to a join contains, for `maxWait`: the time until all waiters in the line and the new one
   would fit. */
inline tellEstimate(w) { unitsInLine(); when(w); estimate[w] = (MUTANT_ESTIMATE_ROUNDED_UP -> (t + INTERVAL - 1) / INTERVAL * INTERVAL : t); printf("  server: waiter %d is told %d ticks\n", w, estimate[w]) }
#else
#define tellEstimate(w) skip
#endif

/* ---- grants ---- */
inline spend(w) {
  /* Order: every waiter ahead that is still in the line and can ever fit, fits together with this one. */
  k = 0;
  do
  :: k < NL ->
    if
    :: USES(w, k) ->
      usedUnits(k); x = sum + COST(w); y = 0;
      do
      :: y < r ->
        if
        :: (inLine[0] | inLine[1]) & BIT(order[y]) && USES(order[y], k) && COST(order[y]) <= QUOTA_OF(order[y]) && LINE(OWNER(order[y])) == LINE(OWNER(w)) ->
          x = x + COST(order[y]);
          assert(x <= QUOTA_OF(order[y]))        /* order_kept */
        :: else
        fi;
        y++
      :: else -> break
      od;
      assert(x <= QUOTA_OF(w))                   /* order_kept */
    :: else
    fi;
    k++
  :: else -> break
  od;
#ifndef BEGUN_UNCHECKED
  assert(losses > 0 || !(begun & BIT(w)));       /* no_grant_for_begun */
#endif
#ifdef ESTIMATES
  assert(estimate[w] == 0);                      /* estimate_not_too_long */
#endif
  printf("  server: grants waiter %d\n", w);
  record_spend(w);
  spent = spent | BIT(w)
}

#ifdef SEMAPHORE
inline record_spend(w) { lease[w] = LEASE }
inline giveBack(w) { lease[w] = 0; spent = spent & ~BIT(w) }
#else
inline record_spend(w) {
  c = 0;
  do :: c < CELLS && unitLeft[c] > 0 -> c++ :: else -> break od;
  assert(c < CELLS);
  unitOf[c] = w; unitLeft[c] = INTERVAL;
  c = 0;
  do :: c < TRUE_CELLS && trueLeft[c] > 0 -> c++ :: else -> break od;
  assert(c < TRUE_CELLS);
  trueOf[c] = w; trueLeft[c] = INTERVAL;
  /* Quota: in no span of the interval more than the quota, one quota more for each loss. */
  k = 0;
  do
  :: k < NL ->
    c = 0; sum = 0;
    do
    :: c < TRUE_CELLS -> if :: trueLeft[c] > 0 && USES(trueOf[c], k) -> sum = sum + COST(trueOf[c]) :: else fi; c++
    :: else -> break
    od;
    assert(sum <= QUOTA_OF(w) * (1 + losses));   /* quota_kept */
    k++
  :: else -> break
  od
}

#define removeCell(owns, left, cells) \
  do \
  :: c + 1 < cells -> owns[c] = owns[c + 1]; left[c] = left[c + 1]; c++ \
  :: else -> break \
  od; \
  owns[c] = 0; left[c] = 0

/* Gives back the grant's own units at their own time; nothing if they have left the window or were lost. */
inline giveBack(w) {
  c = CELLS;
  do
  :: c > 0 -> c--; if :: unitLeft[c] > 0 && (MUTANT_OLDEST_GIVEN_BACK -> c == 0 : unitOf[c] == w) -> removeCell(unitOf, unitLeft, CELLS); break :: else fi
  :: else -> break
  od;
  c = TRUE_CELLS;
  do
  :: c > 0 -> c--; if :: trueLeft[c] > 0 && trueOf[c] == w -> removeCell(trueOf, trueLeft, TRUE_CELLS); break :: else fi
  :: else -> break
  od;
  spent = spent & ~BIT(w)
}
#endif

