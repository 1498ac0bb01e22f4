/* Direct takes of a semaphore (semaphore_take.lua, direct-takes.ts): a take and a release without the line while nobody waits. Two clients, of which
 * each makes its requests one after the other. Asks of the line are one step here: that they count once is shown by the other models. */
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
#define BIT(q) (1 << (q))
#define SUM(s) (((s) & 1) + ((s) >> 1 & 1) + ((s) >> 2 & 1) + ((s) >> 3 & 1) + ((s) >> 4 & 1) + ((s) >> 5 & 1))

mtype = { NEW, ASKED, HELD, WAITS, ENDED }
mtype = { NONE, SENT, GRANTED, REFUSED, UNKNOWN }

/* ---- the server ---- */
byte leases;               /* of which requests */
byte line;                 /* who waits */
byte first;                /* who waits first */
bit open = 1;              /* leases are in the key of direct takes */
byte newest[2];            /* of each sender: the newest token that it was given */

/* ---- the clients ---- */
mtype state[NR] = NEW;
byte told[2];              /* the newest token that the client knows */
mtype call[2] = NONE;      /* its one take in flight, or the answer */
byte asked[2];             /* by which request */
byte answer[2];            /* the token that the answer tells */

/* ---- the network ---- */
bit copy;
byte copied, copiedToken, copies, lost;

/* ---- for the properties only ---- */
byte begun;                /* requests whose clients take them for held */

inline carryOut(q, token, reply, stamped) {
  if
  :: !open -> reply = REFUSED
#ifdef MUTANT_NO_TOKEN
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
    :: SUM(leases) < QUOTA ->
      assert(state[q] == ASKED);             /* no_lease_without_asker */
      assert(line == 0);                     /* order_kept */
      leases = leases | BIT(q); newest[(q) % 2]++; reply = GRANTED
    :: else -> reply = REFUSED
    fi
  fi;
  stamped = newest[(q) % 2]
}

/* The walk that ends an ask: the first waiter is granted, if there is room. */
inline serve() {
  do
  :: line != 0 && SUM(leases) < QUOTA ->
    leases = leases | BIT(first); line = line & ~BIT(first); state[first] = HELD; begun = begun | BIT(first);
    if
    :: line != 0 -> first = (line & 1 -> 0 : (line & 2 -> 1 : (line & 4 -> 2 : (line & 8 -> 3 : (line & 16 -> 4 : 5)))))
    :: else -> first = 0
    fi
  :: else -> break
  od;
#ifndef MUTANT_OPEN_BESIDE_A_LINE
  open = (line == 0)
#endif
}

/* A request joins the line, and its direct take in flight becomes void. `sent`: an earlier copy of the call may have been granted. */
inline ask(q, sent) {
#ifndef MUTANT_NOT_VOIDED
  newest[(q) % 2]++;
#endif
  told[(q) % 2] = newest[(q) % 2];
  if :: sent -> leases = leases & ~BIT(q) :: else fi;
  if :: line == 0 -> first = q :: else fi;
  line = line | BIT(q); state[q] = WAITS;
  serve()
}

proctype client(byte c) {
  byte q = c;
  mtype reply;
  do
  :: q >= NR -> break
  :: q < NR && state[q] == NEW && call[c] == NONE -> atomic {
      state[q] = ASKED;
      if
      :: call[c] = SENT; asked[c] = q;
        if :: copies < STRAYS && !copy -> copy = 1; copies++; copied = q; copiedToken = told[c] :: skip fi
      :: ask(q, 0)                           /* the client takes the semaphore for closed */
      fi
    }
  :: call[c] == GRANTED -> atomic {
      call[c] = NONE; told[c] = answer[c]; state[q] = HELD; begun = begun | BIT(q)
    }
#ifdef MUTANT_REFUSAL_BELIEVED
  :: call[c] == REFUSED -> atomic { call[c] = NONE; ask(q, 0) }
#else
  :: call[c] == REFUSED -> atomic { call[c] = NONE; ask(q, 1) }
#endif
#ifdef MUTANT_UNKNOWN_LEASE_STAYS
  :: call[c] == UNKNOWN -> atomic { call[c] = NONE; ask(q, 0) }
#else
  :: call[c] == UNKNOWN -> atomic { call[c] = NONE; ask(q, 1) }
#endif
  :: q < NR && state[q] == HELD -> atomic {
      assert(SUM(begun) <= QUOTA);           /* permits_kept */
      begun = begun & ~BIT(q); state[q] = ENDED;
      if
      :: open && (leases & BIT(q)) -> leases = leases & ~BIT(q)     /* ZREM */
      :: else -> leases = leases & ~BIT(q); serve()                 /* the line is asked */
      fi;
      q = q + 2
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
  :: timeout -> break
  od;
  assert(leases == 0);                       /* nothing_left */
  assert(line == 0)                          /* served_at_last */
}

init { atomic { run client(0); run client(1); run network() } }
