/* Direct takes of a semaphore (semaphore_take.lua, direct-takes.ts): a take and a release without the line while nobody waits. Two clients, of which
 * each makes its requests one after the other. Asks of the line are one step here: that they count once is shown by the other models.
 *
 * The table of leases (sweep in lua/waiting/semaphore/semaphores.lua) holds one entry for each lease, and the permits beyond one for each, in `extra`. An ended lease stays until a script sweeps it: one of them
 * for each script here. */
#ifndef QUOTA
#define QUOTA 1
#endif
#ifndef NR
#define NR 6               /* requests; request q belongs to client q mod 2 */
#endif
#ifndef STRAYS
#define STRAYS 1           /* copies of takes that arrive at any later moment */
#endif
#ifndef LOST
#define LOST 1             /* takes or answers that are lost */
#endif
#ifndef WIDE
#define WIDE 0             /* requests that want two permits, as bits: they take them through the line */
#endif
#ifndef RUN_OUT
#define RUN_OUT 0          /* leases that nobody releases: they end by themselves */
#endif
#ifndef GIVE_UPS
#define GIVE_UPS 0         /* requests that time out or abort while their direct take is in flight */
#endif
#define BIT(q) (1 << (q))
#define BEYOND(q) ((WIDE) >> (q) & 1)
#define SUM(s) (((s) & 1) + ((s) >> 1 & 1) + ((s) >> 2 & 1) + ((s) >> 3 & 1) + ((s) >> 4 & 1) + ((s) >> 5 & 1))

mtype = { NEW, ASKED, GAVE_UP, HELD, WAITS, ENDED }
mtype = { NONE, SENT, GRANTED, REFUSED, UNKNOWN }

/* ---- the server ---- */
byte leases;               /* of which requests, ended ones included */
byte over;                 /* those of them whose deadline has passed */
byte extra;                /* permits beyond one, of all of them */
byte room = QUOTA;         /* while it is open: the greatest number of leases */
byte unattended;           /* those that nobody will release */
byte line;                 /* who waits */
byte first;                /* who waits first */
bit due;                   /* the timer of a waiter rings: it asks again */
bit open = 1;              /* leases are in the key of direct takes */
byte newest[2];            /* of each sender: the newest token that it was given */

/* ---- the clients ---- */
mtype state[NR] = NEW;
byte told[2];              /* the newest token that the client knows */
mtype call[2] = NONE;      /* its one take in flight, or the answer */
byte asked[2];             /* by which request */
byte answer[2];            /* the token that the answer tells */
byte runOutLeft = RUN_OUT, giveUpsLeft = GIVE_UPS;

/* ---- the network ---- */
bit copy;
byte copied, copiedToken, copies, lost;

/* ---- for the properties only ---- */
byte begun;                /* requests whose clients take them for held */

hidden byte x;

#if MUTANT_EXTRA_STAYS
#define LESS_EXTRA(n) skip
#elif MUTANT_SWEPT_TWICE
#define LESS_EXTRA(n) extra = (extra > 2 * (n) -> extra - 2 * (n) : 0)
#else
#define LESS_EXTRA(n) extra = extra - (n)
#endif
#if MUTANT_ROOM_IGNORED
#define ROOM QUOTA
#else
#define ROOM room
#endif
#define COUNTED (leases & ~over)

/* x: the first request of the set */
inline firstOf(set) {
  x = 0;
  do :: !((set) & BIT(x)) -> x++ :: else -> break od
}

/* Removes one ended lease. */
inline sweep() {
  if
  :: over != 0 -> firstOf(over); leases = leases & ~BIT(x); over = over & ~BIT(x); if :: BEYOND(x) -> LESS_EXTRA(1) :: else fi
  :: else
  fi
}

inline carryOut(q, token, reply, stamped) {
  if
  :: !open -> reply = REFUSED
#if MUTANT_NO_TOKEN
  :: open && 0 -> skip
#else
  :: open && newest[(q) % 2] != token ->
    if
    :: leases & BIT(q) -> reply = GRANTED
    :: else -> reply = REFUSED
    fi
#endif
  :: else ->
    if
    :: over != 0 -> sweep(); room = QUOTA - extra      /* some takes do */
    :: skip
    fi;
    if
    :: SUM(COUNTED) < ROOM ->
      assert(state[q] == ASKED || state[q] == GAVE_UP); /* no_lease_without_asker */
      assert(line == 0);                     /* order_kept */
      leases = leases | BIT(q); newest[(q) % 2]++; reply = GRANTED
    :: else -> reply = REFUSED
    fi
  fi;
  stamped = newest[(q) % 2]
}

/* Every other script: it sweeps, and grants the first waiters, if there is room. */
inline serve() {
  sweep();
  do
  :: line != 0 && SUM(COUNTED) + extra + BEYOND(first) < QUOTA ->
    leases = leases | BIT(first); extra = extra + BEYOND(first);
    line = line & ~BIT(first); state[first] = HELD; begun = begun | BIT(first);
    if
    :: line != 0 -> first = (line & 1 -> 0 : (line & 2 -> 1 : (line & 4 -> 2 : (line & 8 -> 3 : (line & 16 -> 4 : 5)))))
    :: else -> first = 0
    fi
  :: else -> break
  od;
#if !MUTANT_OPEN_BESIDE_A_LINE
  open = (line == 0);
#endif
  room = QUOTA - extra;
  /* Permits of ended leases that are still to be swept are free a moment later. */
  due = (line != 0 && over != 0)
}

/* A request joins the line, and its direct take in flight becomes void. `sent`: an earlier copy of the call may have
   been granted. */
inline ask(q, sent) {
#if !MUTANT_NOT_VOIDED
  newest[(q) % 2]++;
#endif
  told[(q) % 2] = newest[(q) % 2];
  if :: sent -> leases = leases & ~BIT(q); over = over & ~BIT(q) :: else fi;
  if :: line == 0 -> first = q :: else fi;
  line = line | BIT(q); state[q] = WAITS;
  serve()
}

/* A request that has given up: its take becomes void, and what it was granted goes back. */
inline leave(q) {
  newest[(q) % 2]++; told[(q) % 2] = newest[(q) % 2];
#if !MUTANT_LATE_GRANT_KEPT
  leases = leases & ~BIT(q); over = over & ~BIT(q);
#endif
  state[q] = ENDED;
  serve()
}

proctype client(byte c) {
  byte q = c;
  mtype reply;
  do
  :: q >= NR -> break
  :: q < NR && state[q] == ENDED -> q = q + 2
  :: q < NR && state[q] == NEW && call[c] == NONE -> atomic {
      state[q] = ASKED;
      if
      :: !BEYOND(q) -> call[c] = SENT; asked[c] = q;
        if :: copies < STRAYS && !copy -> copy = 1; copies++; copied = q; copiedToken = told[c] :: skip fi
      :: ask(q, 0)                           /* the client takes the semaphore for closed */
      fi
    }
  :: q < NR && state[q] == ASKED && giveUpsLeft > 0 -> atomic { giveUpsLeft--; state[q] = GAVE_UP }
  :: q < NR && state[q] == GAVE_UP && call[c] != SENT && call[c] != NONE -> atomic { call[c] = NONE; leave(q) }
  :: call[c] == GRANTED && state[q] == ASKED -> atomic {
      call[c] = NONE; told[c] = answer[c]; state[q] = HELD; begun = begun | BIT(q)
    }
#if MUTANT_REFUSAL_BELIEVED
  :: call[c] == REFUSED && state[q] == ASKED -> atomic { call[c] = NONE; ask(q, 0) }
#else
  :: call[c] == REFUSED && state[q] == ASKED -> atomic { call[c] = NONE; ask(q, 1) }
#endif
#if MUTANT_UNKNOWN_LEASE_STAYS
  :: call[c] == UNKNOWN && state[q] == ASKED -> atomic { call[c] = NONE; ask(q, 0) }
#else
  :: call[c] == UNKNOWN && state[q] == ASKED -> atomic { call[c] = NONE; ask(q, 1) }
#endif
  :: q < NR && state[q] == HELD -> atomic {
      assert(SUM(begun) + SUM(begun & WIDE) <= QUOTA); /* permits_kept */
      state[q] = ENDED;
      if
      :: runOutLeft > 0 -> runOutLeft--; unattended = unattended | BIT(q)
      :: open && !BEYOND(q) && (leases & BIT(q)) ->                                 /* ZREM */
        begun = begun & ~BIT(q); leases = leases & ~BIT(q)
      :: else ->                                                                  /* the line is asked */
        begun = begun & ~BIT(q);
        leases = leases & ~BIT(q); if :: BEYOND(q) -> LESS_EXTRA(1) :: else fi; serve()
      fi
    }
  od
}

inline deliver(c) {
  if
  :: carryOut(asked[c], told[c], reply, stamped);
    if
    :: call[c] = reply; answer[c] = stamped
    :: lost < LOST -> lost++; call[c] = UNKNOWN
    fi
  :: lost < LOST -> lost++; call[c] = UNKNOWN
  fi
}

proctype network() {
  mtype reply;
  byte stamped;
  do
  :: call[0] == SENT -> atomic { deliver(0) }
  :: call[1] == SENT -> atomic { deliver(1) }
  :: copy -> atomic { copy = 0; carryOut(copied, copiedToken, reply, stamped) }
  :: copy -> copy = 0
  :: unattended != 0 -> atomic {
      firstOf(unattended); unattended = unattended & ~BIT(x); begun = begun & ~BIT(x); over = over | BIT(x);
      if :: line != 0 -> due = 1 :: else fi
    }
  :: due -> atomic { due = 0; serve() }
  :: timeout -> break
  od;
  do :: over != 0 -> sweep() :: else -> break od;
  assert(leases == 0 && extra == 0);         /* nothing_left */
  assert(line == 0)                          /* served_at_last */
}

init { atomic { run client(0); run client(1); run network() } }
