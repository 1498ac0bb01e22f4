/* The server: the state of the line, the walk, and the commands. Every command is one atomic step, like a script. */

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
#define SAME_STAMP(m, st) (MUTANT_NO_STAMP || stamp[m] == (st))
#define MARK_STAMP(m) stamp[m] = losses
#define STAMP(m) stamp[m]
#else
#define SAME_STAMP(m, st) 1
#define MARK_STAMP(m) skip
#define STAMP(m) 0
#endif

/* ---- for the properties only; nothing above depends on these ---- */
byte spent;                /* waiters with a grant that was neither given back nor begun */
byte begun;                /* waiters that have begun */
#if MUTANT_PUSHED
byte pushed;               /* grants on their way in news */
#endif
byte losses;               /* how often the server lost its newest writes */

/* ---- scratch: not part of the state ---- */
hidden byte r, v, gen, s, t, need, sum, k, c, x, y, z, mine, firstEnd;
hidden byte ahead[2];
hidden byte next, atFirst, stoppedFor;
hidden byte keptFor;       /* the limit of the first waiter for whom the walk keeps capacity; 0: for nobody */
#define KEPT_FOR_ANOTHER(w) (keptFor != 0 && keptFor != QUOTA_OF(w))
hidden byte due, told_;    /* processes that must come now; those that were told to look after them */
hidden byte evictableIn;   /* ticks until the first of those that are due may be evicted */
hidden byte stop, found, changed;
hidden byte reply, granted, refused, age;

#include "capacity.pml"

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

/* A member that is due, or becomes so: the asker looks again when it may be evicted. */
inline notify(m, ticks) {
  if
  :: askBy[m] > (ticks) + GRACE + 1 -> printf("  server: notifies member %d for %d ticks from now\n", m, ticks); askBy[m] = (ticks) + GRACE + 1; publish(m / 2)
  :: else
  fi;
  if :: askBy[m] <= GRACE + 1 -> due = due | BIT(m / 2); evictableIn = (askBy[m] < evictableIn -> askBy[m] : evictableIn) :: else fi;
  watch(m)
}

/*
 * Somebody must look again if a process that is due does not come: the asker, if it waits, or another process. The one
 * that has asked last is the likeliest to live. If nobody listens on its channel, the next one is told.
 */
#define ASKER_WATCHES(asker) ((asker) != NOBODY && (MUTANT_ASKER_ALWAYS_WATCHES || (inLine[(asker) % 2] & OWN((asker) / 2))))
inline tellWatcher(asker) {
  if
  :: due && !ASKER_WATCHES(asker) && !MUTANT_NO_WATCHER ->
    told_ = due | (asker == NOBODY || MUTANT_LEAVING_ASKER_WATCHES -> 0 : BIT((asker) / 2)); stop = 0;
    do
    :: !stop ->
      x = NOBODY; c = 0;
      do
      :: c < NM ->
        if
        :: askBy[c] != ABSENT && askBy[c] > 0 && !(told_ & BIT(c / 2)) -> if :: x == NOBODY -> x = c :: x != NOBODY && askBy[c] > askBy[x] -> x = c :: else fi
        :: else
        fi;
        c++
      :: else -> break
      od;
      if
      :: x == NOBODY -> stop = 1
      :: else ->
        told_ = told_ | BIT(x / 2);
        if
        :: askBy[x] > evictableIn + GRACE + 1 ->
          printf("  server: member %d is told to look again\n", x); askBy[x] = evictableIn + GRACE + 1; publish(x / 2);
          stop = MUTANT_ONE_WATCHER || state[x / 2] == RUNS || state[x / 2] == STOPPED
        :: else
        fi
      fi
    :: else -> break
    od
  :: else
  fi
}

/* Waiter w of another member fits: its units are kept for it, and its process is told to come. */
inline fitsElsewhere(m, w) {
#if MUTANT_PUSHED
  spend(w); pushed = pushed | BIT(w); inLine[(m) % 2] = inLine[(m) % 2] & ~BIT(w); publish((m) / 2)
#else
  if :: !MUTANT_NOTHING_RESERVED -> reserve(w) :: else fi;
  if :: MUTANT_FITTING_NOT_NOTIFIED -> watch(m) :: else -> notify(m, 0) fi
#endif
}

/* The asker comes again after t ticks. */
inline ownTurn() { t = (MUTANT_NO_OWN_TURN -> CHECK : t); next = (t < next -> t : next) }

/* The walk that ends every command. asker: a member, or NOBODY. l: the line. */
inline walk(asker, l) {
  next = (MUTANT_NO_CHECK -> NEVER : CHECK); stop = 0; stoppedFor = 0; keptFor = 0; due = 0; evictableIn = GRACE + 1; ahead[0] = 0; ahead[1] = 0; r = 0;
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
        :: askBy[s] == 0 && s != asker && !MUTANT_NOBODY_EVICTED ->
          printf("  server: evicts member %d, drops waiter %d\n", s, v);
          askBy[s] = ABSENT;
          if :: MUTANT_EVICTED_LOSES_NUMBER -> record[s] = NO_RECORD; behind[s] = 0; hasWaiters[s] = 0; keptAge[s] = 0 :: else fi;
          if :: !MUTANT_EVICTED_NOT_TOLD -> publish(s / 2) :: else fi;
          inLine[gen] = inLine[gen] & ~BIT(v)
        :: else ->
          if
          :: COST(v) > QUOTA_OF(v) ->
            if
            :: s == asker -> refused = refused | BIT(v); inLine[gen] = inLine[gen] & ~BIT(v)
            :: else -> notify(s, 0)
            fi
          /* The units that one limit leaves beside the reserved ones say nothing about another limit: no waiter behind
             is granted, and the walk is repeated in a tick. */
          :: COST(v) <= QUOTA_OF(v) && KEPT_FOR_ANOTHER(v) && !MUTANT_HIGHER_LIMIT_OVERTAKES -> stop = 1; stoppedFor = 1
          :: else ->
            when(v);
            if
            :: t == 0 && (s == asker) ->
              inLine[gen] = inLine[gen] & ~BIT(v);
              spend(v); granted = granted | BIT(v)
            :: t == 0 && s != asker -> keptFor = (keptFor == 0 -> QUOTA_OF(v) : keptFor); fitsElsewhere(s, v)
            :: t > 0 ->
              if
              :: s == asker -> ownTurn()
              :: else -> notify(s, t)
              fi;
              stop = 1; stoppedFor = t
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
  tellWatcher(asker);
#ifndef SEMAPHORE
  /* The asker's own turn: when all units from the head to its first waiter would fit, but not before the waiter that
     stopped the walk. */
  if
  :: asker != NOBODY && (inLine[(asker) % 2] & OWN((asker) / 2)) ->
    ahead[0] = 0; ahead[1] = 0; r = 0; stop = 0;
    do
    :: r < known && !stop ->
      v = order[r]; gen = 0;
      do
      :: gen < 2 && !stop ->
        if
        :: (inLine[gen] & BIT(v)) && LINE(OWNER(v)) == l && COST(v) <= QUOTA_OF(v) ->
          if
          :: MEMBER(OWNER(v), gen) == asker ->
            when(v); t = (stoppedFor > t && !MUTANT_OWN_TURN_BEFORE_STOP -> stoppedFor : t); ownTurn(); stop = 1
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
inline watch(m) { if :: !MUTANT_NO_WATCH && askBy[m] <= GRACE + 1 && askBy[m] < next -> next = askBy[m] :: else fi }

/* found: the askBy of the head's member has passed */
inline headHasPassed() {
  found = 0; r = 0; stop = 0;
  do
  :: r < known && !stop ->
    gen = 0;
    do
    :: gen < 2 && !stop ->
      if
      :: inLine[gen] & BIT(order[r]) -> stop = 1; s = MEMBER(OWNER(order[r]), gen); found = (askBy[s] == ABSENT || askBy[s] <= GRACE + 1)
      :: else
      fi;
      gen++
    :: else -> break
    od;
    r++
  :: else -> break
  od
}

/* Nobody was granted in front of those that come back with their tickets in the same ask. */
inline ticketsNotOvertaken(back) {
  found = 0; r = 0;
  do
  :: r < known ->
    found = found | (back & BIT(order[r]) & ~granted);
    assert(!(found && (granted & BIT(order[r]))));  /* ticket_not_overtaken */
    r++
  :: else -> break
  od
}

/* ---- ask ---- */
/* Sets reply (CARRIED_OUT, UNKNOWN, TOO_LATE or COPY_TOO_LATE), granted, refused, next, age. late: how many numbers this
   ask is behind the client's last. over: the last moment of this copy is over. */
inline serve(p, g, first, late, over, joins, withTicket, leaves, returns, ends, st) {
  mine = MEMBER(p, g); granted = 0; refused = 0; next = 0; age = 0; reply = UNKNOWN; changed = 0;
  if
  :: !MUTANT_NO_NUMBERS && record[mine] != NO_RECORD && behind[mine] == late && late < 3 && !(MUTANT_OVERDUE_NOT_LOOKED_UP && (over)) ->
    reply = CARRIED_OUT; granted = kept[g] & OWN(p); refused = keptRefused[g] & OWN(p); age = (MUTANT_AGE_HIDDEN -> 0 : keptAge[mine]);
    next = (askBy[mine] == ABSENT || askBy[mine] <= GRACE + 1 -> 0 : askBy[mine] - GRACE - 1)
  :: else ->
    if
    :: (over) && !MUTANT_OVERDUE_CARRIED_OUT -> reply = (IS_OVERDUE(p) -> TOO_LATE : COPY_TOO_LATE)
    :: record[mine] == NO_RECORD && first ->
      record[mine] = OPEN; changed = 1;
      /* The member that it replaces: out of askBy, and its record is closed. */
      askBy[MEMBER(p, 1 - g)] = ABSENT;
      if :: !MUTANT_REPLACED_STAYS_OPEN -> record[MEMBER(p, 1 - g)] = CLOSED; behind[MEMBER(p, 1 - g)] = 3 :: else fi
    :: record[mine] == OPEN && (MUTANT_NO_NUMBERS || (behind[mine] == late + 1 && behind[mine] < 3 && SAME_STAMP(mine, st))) && !(hasWaiters[mine] && askBy[mine] == ABSENT) -> changed = 1
    :: else
    fi;
    if
    :: changed ->
      reply = CARRIED_OUT; behind[mine] = late;
      assert(!(over));                             /* none_carried_out_late */
#ifndef ASKS_UNCHECKED
      assert(state[p] != CLOSED_NOW || losses > 0); /* no_ask_after_close */
#endif
      assert(g == gen_[p] || record[MEMBER(p, 1 - g)] != OPEN); /* replaced_stays_out */
      inLine[g] = (MUTANT_WALK_BEFORE_LEAVES -> inLine[g] : inLine[g] & ~(leaves));
      v = 0;
      do
      :: v < NW ->
        if :: (returns) & BIT(v) -> giveBack(v) :: else fi;
#ifdef SEMAPHORE
        if :: (ends) & BIT(v) -> lease[v] = 0 :: else fi;
#endif
        v++
      :: else -> break
      od;
      inLine[g] = inLine[g] | (MUTANT_TICKETS_AFTER_WALK -> 0 : (joins) & (withTicket));
      /* Waiters of dead members are removed before a newcomer is measured behind them. */
      next = CHECK;
      headHasPassed();
      if :: found -> walk(mine, LINE(p)); ticketsNotOvertaken(((joins) & (withTicket))) :: else fi;
      inLine[g] = inLine[g] & ~(leaves);
      atFirst = next;
      v = 0;
      do
      :: v < NW ->
        if :: (joins) & BIT(v) && !((withTicket) & BIT(v)) -> newTicket(v); tellEstimate(v); inLine[g] = inLine[g] | BIT(v) :: else fi;
        v++
      :: else -> break
      od;
      inLine[g] = inLine[g] | ((joins) & (withTicket) & (MUTANT_TICKETS_AFTER_WALK -> 255 : 0));
      walk(mine, LINE(p));
      next = (atFirst < next -> atFirst : next);
      assert(!(granted & (leaves)));               /* leaving_not_granted */
      hasWaiters[mine] = (inLine[g] & OWN(p) -> 1 : 0);
      askBy[mine] = (hasWaiters[mine] -> next + GRACE + 1 : ABSENT);
      kept[g] = (kept[g] & ~OWN(p)) | granted;
      keptRefused[g] = (keptRefused[g] & ~OWN(p)) | refused;
      keptAge[mine] = 0;
      MARK_STAMP(mine);
      if :: MUTANT_RECORD_GOES_WITH_WAITERS && !hasWaiters[mine] -> record[mine] = NO_RECORD :: else fi
    :: else
    fi
  fi
}

