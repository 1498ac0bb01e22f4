/* The server: the state of the line, the walk, and the commands. Every command is one indivisible step, as a script is. */

byte order[NW];            /* waiters by ticket, first ticket first. A ticket is a position here. */
byte known;                /* how many of order[] are in use */
byte inLine[2];            /* per generation: which waiters stand in the line (bit w) */
byte askBy[NM] = ABSENT;   /* per member: ticks until it may be evicted = askBy - now + GRACE + 1; ABSENT: not in askBy */
byte record[NM];           /* NO_RECORD, OPEN or CLOSED */
byte behind[NM];           /* last number that the client used - number of the record, at most 3 */
bit hasWaiters[NM];        /* what the record says about its waiters */
byte kept[2];              /* per generation: the grants in the kept answers */
byte keptRefused[2];       /* per generation: the refusals in the kept answers */
byte keptAge[NM];          /* ticks since the last ask was carried out, at most AGE_MAX */
byte quota = QUOTA;        /* the rate, or the permits */
#if LOSSES
byte stamp[NM];            /* stands for the time of execution: how many losses came before it */
#endif

#ifdef SEMAPHORE
byte lease[NW];            /* ticks until the lease of this waiter ends; 0: no lease */
#else
byte unitOf[CELLS];        /* the log: whose grant */
byte unitLeft[CELLS];      /* the log: ticks until it leaves the window; 0: empty cell; oldest first */
#endif

/* ---- for the properties only; nothing above depends on these ---- */
byte spent;                /* waiters with a grant that was neither given back nor begun */
byte begun;                /* waiters that have begun */
byte losses;               /* how often the server lost its newest writes */
#ifndef SEMAPHORE
byte trueOf[TRUE_CELLS];   /* the same log, kept by somebody who forgets nothing */
byte trueLeft[TRUE_CELLS];
#endif

/* ---- scratch: not part of the state ---- */
hidden byte r, v, gen, s, t, need, sum, k, c, x, y, z, mine, firstEnd;
hidden byte ahead[2];
hidden byte next;
hidden byte stop, found, changed;
hidden byte reply, granted, refused, age;

/* ---- capacity ---- */
#ifdef SEMAPHORE
inline usedUnits(l) {
  sum = 0; c = 0;
  do
  :: c < NW -> if :: lease[c] > 0 && USES(c, l) -> sum = sum + COST(c) :: else fi; c++
  :: else -> break
  od
}
/* t = ticks until the first lease ends if `units` more do not fit now, else 0 */
inline whenOne(l, units) {
  usedUnits(l);
  if
  :: sum + (units) <= quota -> t = 0
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
/* t = ticks until `units` more fit into limit l; above the quota, whole windows first */
inline whenOne(l, units) {
  need = (units);
  if
  :: need == 0 -> t = 0
  :: else ->
    y = ((need - 1) / quota) * INTERVAL;
    need = ((need - 1) % quota) + 1;
    t = 0;
    do
    :: t <= INTERVAL ->
      usedAt(l, t);
      if :: sum + need <= quota -> break :: else -> t++ fi
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
    :: USES(w, k) && LIMIT_CHECKED(k) -> whenOne(k, ahead[k] + COST(w)); if :: t > z -> z = t :: else fi
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

/* ---- grants ---- */
inline spend(w) {
  /* Order: everybody ahead who is still in the line and can ever fit, fits beside this one. */
  k = 0;
  do
  :: k < NL ->
    if
    :: USES(w, k) ->
      usedUnits(k); x = sum + COST(w); y = 0;
      do
      :: y < r ->
        if
        :: (inLine[0] | inLine[1]) & BIT(order[y]) && USES(order[y], k) && COST(order[y]) <= quota && LINE(OWNER(order[y])) == LINE(OWNER(w)) -> x = x + COST(order[y])
        :: else
        fi;
        y++
      :: else -> break
      od;
      assert(x <= quota)                         /* order_kept */
    :: else
    fi;
    k++
  :: else -> break
  od;
#ifndef BEGUN_UNCHECKED
  assert(losses > 0 || !(begun & BIT(w)));       /* no_grant_for_begun */
#endif
  assert(!(CLOSED_BITS & BIT(w)) || losses > 0); /* no_grant_after_close */
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
    assert(sum <= quota * (1 + losses));         /* quota_kept */
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
  :: c > 0 -> c--; if :: GIVE_BACK(unitLeft[c] > 0 && unitOf[c] == w, unitLeft[c] > 0 && c == 0) -> removeCell(unitOf, unitLeft, CELLS); break :: else fi
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

/* ---- the line ---- */
/* Gives waiter w the last position. */
inline newTicket(w) {
#ifndef TICKETS_UNCHECKED
  assert(losses > 0 || !(told & BIT(w)));        /* ticket_kept */
#endif
  c = 0;
  do :: c < known && order[c] != w -> c++ :: else -> break od;
  if
  :: c == known -> known++
  :: else
  fi;
  do
  :: c + 1 < known -> order[c] = order[c + 1]; c++
  :: else -> break
  od;
  order[c] = w
}

inline publish(p) { if :: state[p] == RUNS || state[p] == STOPPED -> news[p] = 1 :: else fi }

inline notify(m, ticks) {
  if
  :: askBy[m] > (ticks) + GRACE + 1 -> printf("  server: notifies member %d for %d ticks from now\n", m, ticks); askBy[m] = (ticks) + GRACE + 1; publish(m / 2)
  :: else
  fi
}

/* The walk that ends every command. asker: a member, or NOBODY. l: the line. */
inline walk(asker, l) {
  next = NO_NEXT; stop = 0; ahead[0] = 0; ahead[1] = 0; r = 0;
  do
  :: r < known && !stop ->
    v = order[r]; gen = 0;
    do
    :: gen < 2 && !stop ->
      if
      :: !(inLine[gen] & BIT(v)) || LINE(OWNER(v)) != l -> skip
      :: else ->
        s = MEMBER(OWNER(v), gen);
        if
        :: askBy[s] == ABSENT && s != asker -> printf("  server: drops waiter %d of member %d\n", v, s); inLine[gen] = inLine[gen] & ~BIT(v)
        :: askBy[s] != ABSENT && s != asker && EVICTABLE(s) ->
          printf("  server: evicts member %d, drops waiter %d\n", s, v);
          askBy[s] = ABSENT; FORGET_EVICTED(s);
          inLine[gen] = inLine[gen] & ~BIT(v)
        :: else ->
          if
          :: COST(v) > quota ->
            if
            :: s == asker -> refused = refused | BIT(v); inLine[gen] = inLine[gen] & ~BIT(v)
            :: else -> notify(s, 0); WATCH(s)
            fi
          :: else ->
            when(v);
            if
            :: t == 0 && (s == asker) ->
              inLine[gen] = inLine[gen] & ~BIT(v);
              spend(v); granted = granted | BIT(v)
            :: t == 0 && s != asker -> RESERVE(v); NOTIFY_FIT(s); WATCH(s)
            :: t > 0 ->
              if
              :: s == asker -> next = (OWN_TIMER(t) < next -> OWN_TIMER(t) : next)
              :: else -> notify(s, t); WATCH(s)
              fi;
              stop = 1
            fi
          fi
        fi
      fi;
      gen++
    :: else -> break
    od;
    r++
  :: else -> break
  od;
#ifndef SEMAPHORE
  /* The asker's own turn: when all units from the head to its first waiter would fit. */
  if
  :: asker != NOBODY && (inLine[(asker) % 2] & OWN((asker) / 2)) ->
    ahead[0] = 0; ahead[1] = 0; r = 0; stop = 0;
    do
    :: r < known && !stop ->
      v = order[r]; gen = 0;
      do
      :: gen < 2 && !stop ->
        if
        :: (inLine[gen] & BIT(v)) && LINE(OWNER(v)) == l && COST(v) <= quota ->
          if
          :: MEMBER(OWNER(v), gen) == asker -> when(v); next = (OWN_TIMER(t) < next -> OWN_TIMER(t) : next); stop = 1
          :: else -> reserve(v)
          fi
        :: else
        fi;
        gen++
      :: else -> break
      od;
      r++
    :: else -> break
    od
  :: else
  fi
#endif
}

/* Watches a member ahead whose askBy has come: ask again when it may be evicted. */
inline watch(m) { if :: askBy[m] <= GRACE + 1 && askBy[m] < next -> next = askBy[m] :: else fi }

/* ---- ask ---- */
/* Sets reply (CARRIED_OUT or UNKNOWN), granted, refused, next, age. late: how many numbers this ask is behind the client's last. */
inline serve(p, g, first, late, joins, withTicket, leaves, lates, returns, ends, bye, st) {
  mine = MEMBER(p, g); granted = 0; refused = 0; next = 0; age = 0; reply = UNKNOWN; changed = 0;
  if
  :: SAME_NUMBER(record[mine] != NO_RECORD && behind[mine] == late && late < 3) ->
    reply = CARRIED_OUT; granted = kept[g] & OWN(p); refused = keptRefused[g] & OWN(p); age = TOLD_AGE(keptAge[mine]);
    next = (askBy[mine] == ABSENT || askBy[mine] <= GRACE + 1 -> 0 : askBy[mine] - GRACE - 1)
  :: else ->
    if
    :: record[mine] == NO_RECORD && first ->
      record[mine] = OPEN; changed = 1;
      /* The member that it replaces: out of askBy, and its record is closed. */
      askBy[MEMBER(p, 1 - g)] = ABSENT; CLOSE_REPLACED(MEMBER(p, 1 - g))
    :: NEXT_NUMBER(record[mine] == OPEN && behind[mine] == late + 1 && behind[mine] < 3 && SAME_STAMP(mine, st)) && !(hasWaiters[mine] && askBy[mine] == ABSENT) -> changed = 1
    :: else
    fi;
    if
    :: changed ->
      reply = CARRIED_OUT; behind[mine] = late;
      assert(state[p] != CLOSED_NOW || losses > 0);   /* no_ask_after_close */
      inLine[g] = inLine[g] & ~(leaves);
      v = 0;
      do
      :: v < NW ->
        if :: ((returns) | (lates)) & BIT(v) -> giveBack(v) :: else fi;
#ifdef SEMAPHORE
        if :: (ends) & BIT(v) -> lease[v] = 0 :: else fi;
#endif
        if :: (joins) & BIT(v) && !((withTicket) & BIT(v)) -> newTicket(v) :: else fi;
        v++
      :: else -> break
      od;
      inLine[g] = inLine[g] | (joins) | (lates);
      walk(mine, LINE(p));
      hasWaiters[mine] = (inLine[g] & OWN(p) -> 1 : 0);
      askBy[mine] = (hasWaiters[mine] -> next + GRACE + 1 : ABSENT);
      kept[g] = (kept[g] & ~OWN(p)) | granted;
      keptRefused[g] = (keptRefused[g] & ~OWN(p)) | refused;
      keptAge[mine] = 0;
      MARK_STAMP(mine);
      if :: bye -> BYE_CLOSES(mine) :: else fi
    :: else
    fi
  fi
}

